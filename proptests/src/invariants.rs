//! What no history may show: S1 to S12 of the design and their kin, each a named predicate.
//!
//! [`History`] watches one life. It is told of every event with the cluster before and after it, and counts how often
//! each invariant really had something to say.

use crate::{
    dish::{
        cluster::{Cluster, Space, Specs},
        feed::Jobs,
        nature::Outcome,
        pair::Lease,
        replica::Event,
    },
    laws::{Breach, Verdict, require},
};
use petri_machines::{
    component::{self, Phase as Child},
    environment::{Binding, Cleanup, Command, Phase, Record, World},
    job::{JobState, JobView, Op},
    kernel::cycle::Done,
    names::{ComponentName, Uid},
};
use std::collections::{BTreeMap, BTreeSet};

/// What an oracle must remember of one life.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every outcome that Helm reported.
    pub outcomes: Vec<Outcome>,
    charged: BTreeSet<(ComponentName, Uid)>,
    rollout: Option<u64>,
    /// How often each invariant was asked about something it speaks of.
    pub counts: BTreeMap<&'static str, u64>,
}

/// One event, and the cluster around it.
pub struct Witness<'a> {
    /// The cluster before.
    pub before: &'a Cluster,
    /// The cluster after.
    pub after: &'a Cluster,
    /// What the operator did; `None` when the cluster or a user did something.
    pub event: Option<&'a Event>,
    /// What may be asked for.
    pub specs: &'a Specs,
}

impl Witness<'_> {
    fn records(&self) -> Option<(&Record, &Record)> {
        let record = |cluster| -> Option<&Record> { Cluster::record(cluster) };
        record(self.before).zip(record(self.after))
    }

    fn effect(&self) -> Option<(&World, &Command)> {
        match self.event {
            Some(Event::Applied(world, command, Ok(true))) => Some((world, command)),
            _ => None,
        }
    }
}

impl History {
    /// Returns a history that begins in the middle of a life, with these outcomes.
    pub fn knowing(outcomes: Vec<Outcome>) -> Self {
        Self { outcomes, ..Self::default() }
    }

    /// Asks every invariant about one event.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn witness(&mut self, seen: &Witness<'_>) -> Verdict {
        self.s1_writes_only_into_its_own_namespaces(seen)?;
        self.s2_keeps_its_namespace(seen)?;
        self.s3_runs_one_job_per_release(seen)?;
        self.s4_deploys_in_order(seen)?;
        self.s4_undeploys_in_reverse(seen)?;
        self.s8_accepts_only_what_really_happened(seen)?;
        self.s8_waits_for_what_the_newest_attempt_left(seen)?;
        self.s10_deletes_only_what_was_asked(seen)?;
        self.s11_stores_only_changes(seen)?;
        self.s12_charges_a_job_once(seen)?;
        self.terminates_one_way(seen)?;
        self.leaves_nothing_behind(seen)?;
        self.never_kills_a_wanted_helm(seen)?;
        self.furnishes_before_the_first_job(seen)?;
        self.is_ready_only_with_what_was_asked_for(seen)?;
        self.works_on_four_of_a_level(seen)
    }

    /// Asks whether a cycle ended as a sound machine's does.
    ///
    /// # Errors
    /// The fault that the cycle reports.
    pub fn ended(&mut self, done: &Done) -> Verdict {
        let sound = !matches!(done, Done::Bug(_) | Done::OutOfTurn | Done::Held { .. });
        self.check("no cycle ends in a bug", sound, || format!("{done:?}"))
    }

    /// Asks whether a list that a watch brought up to date is what the server lists.
    ///
    /// # Errors
    /// Both lists.
    pub fn a_watch_comes_to_what_a_list_shows(&mut self, kept: &Jobs, mut listed: Jobs) -> Verdict {
        listed.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
        self.check("a watch comes to what a list shows", *kept == listed, || format!("{kept:?}\n{listed:?}"))
    }

    fn check(&mut self, law: &'static str, holds: bool, what: impl FnOnce() -> String) -> Verdict {
        *self.counts.entry(law).or_default() += 1;
        require(law, holds, what)
    }

    fn s1_writes_only_into_its_own_namespaces(&mut self, seen: &Witness<'_>) -> Verdict {
        for (name, space) in seen.after.spaces.iter().filter(|(_, space)| !space.ours) {
            let untouched = space.jobs.is_empty()
                && space.secrets.is_empty()
                && space.access == Default::default()
                && !space.terminating;
            self.check("S1: foreign namespaces are never touched", untouched, || {
                format!("{name}: {space:?}")
            })?;
        }
        Ok(())
    }

    fn s2_keeps_its_namespace(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((before, after)) = seen.records() else { return Ok(()) };
        if !matches!(before.memory.binding, Binding::Bound { .. }) {
            return Ok(());
        }
        let (before, after) = (&before.memory.binding, &after.memory.binding);
        self.check("S2: a bound namespace never changes", before == after, || {
            format!("{before:?} to {after:?}")
        })
    }

    fn s3_runs_one_job_per_release(&mut self, seen: &Witness<'_>) -> Verdict {
        for space in seen.after.spaces.values().filter(|space| space.ours) {
            let mut live = BTreeMap::new();
            for (name, job) in space.jobs.iter().filter(|(_, job)| job.is_live()) {
                let other = live.insert(&job.component, name);
                self.check("S3: one live Job per release", other.is_none(), || {
                    format!("{other:?} and {name}")
                })?;
            }
        }
        Ok(())
    }

    /// A deploy Job is made only when all of the lower levels are ready, in the record and in the cluster.
    fn s4_deploys_in_order(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((world, Command::CreateJob { component, .. })) = seen.effect() else { return Ok(()) };
        let Some(Ok(plan)) = world.intent.known() else { return Ok(()) };
        let level = |name: &ComponentName| {
            plan.components.iter().find(|one| one.name == *name).map(|one| one.planned.level)
        };
        let Some(own) = level(component) else { return Ok(()) };
        for below in plan.components.iter().filter(|one| one.planned.level < own) {
            let released = seen.after.spaces.values().any(|space| space.releases.contains_key(&below.name));
            self.check("S4: deploys follow the levels", released, || {
                format!("{component} before {}", below.name)
            })?;
        }
        Ok(())
    }

    /// An undeploy Job of a leaving environment is made only when nothing of the higher levels is left but what was
    /// given up.
    fn s4_undeploys_in_reverse(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((_, Command::Cleanup(Cleanup::CreateUndeployJob { component, .. }))) = seen.effect() else {
            return Ok(());
        };
        let Some(record) = Cluster::record(seen.after) else { return Ok(()) };
        let Some(own) = record.memory.components.get(component) else { return Ok(()) };
        if !matches!(record.phase, Phase::Terminating { .. }) {
            return Ok(());
        }
        let above = record.memory.components.iter().filter(|(_, other)| other.level > own.level);
        for (name, other) in above {
            let given_up = matches!(other.phase, Child::Gone { forced: true });
            let left =
                seen.after.spaces.values().any(|space| space.ours && space.releases.contains_key(name));
            self.check("S4: undeploys go in reverse", given_up || !left, || {
                format!("{component} before {name}")
            })?;
        }
        Ok(())
    }

    fn s8_accepts_only_what_really_happened(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((before, after)) = seen.records() else { return Ok(()) };
        for (name, child) in &after.memory.components {
            let old = before.memory.components.get(name);
            let Some(accepted) = child
                .accepted
                .as_ref()
                .filter(|new| old.is_none_or(|old| old.accepted.as_ref() != Some(*new)))
            else {
                continue;
            };
            let real = self.outcomes.iter().any(|outcome| {
                let Outcome { job, payload, succeeded } = outcome;
                *succeeded
                    && (job.op, &job.uid, job.serial) == (Op::Deploy, &accepted.job, accepted.serial)
                    && (&job.component, payload.as_ref()) == (name, Some(&accepted.payload))
            });
            self.check("S8: an outcome counts only for its Job", real, || format!("{name}: {accepted:?}"))?;
        }
        Ok(())
    }

    /// An attempt changes the release, however it ends: what was accepted before it says nothing of what stands now.
    fn s8_waits_for_what_the_newest_attempt_left(&mut self, seen: &Witness<'_>) -> Verdict {
        let (Some(Event::Stored(_)), Some((_, after))) = (seen.event, seen.records()) else { return Ok(()) };
        for (name, child) in &after.memory.components {
            let (Child::Settling { .. } | Child::Ready, Some(accepted)) = (&child.phase, &child.accepted)
            else {
                continue;
            };
            let jobs =
                seen.after.spaces.values().filter(|space| space.ours).flat_map(|space| space.jobs.values());
            let newest = jobs.filter(|job| job.component == *name).map(|job| job.serial).max();
            let stands = newest.is_none_or(|serial| serial <= accepted.serial);
            self.check("S8: what is waited for is the newest attempt's", stands, || {
                format!("{name}: {accepted:?}, and there is attempt {newest:?}")
            })?;
        }
        Ok(())
    }

    /// Asked by a dish with a Lease, before one of its operators writes.
    ///
    /// # Errors
    /// A write by one that does not hold the Lease at this moment.
    pub fn s9_acts_only_while_it_leads(&mut self, lease: &Lease, who: usize, now: u64) -> Verdict {
        let leads = lease.is_held_by(who, now);
        self.check("S9: nobody writes after its deadline", leads, || format!("{who} at {now}: {lease:?}"))
    }

    fn s10_deletes_only_what_was_asked(&mut self, seen: &Witness<'_>) -> Verdict {
        let deletion = seen.before.own.as_ref().is_some_and(|own| own.deletion);
        let expired = |world: &World| world.expires_at.is_some_and(|at| at <= world.now) && !world.held;
        match seen.effect() {
            Some((_, command @ Command::Cleanup(Cleanup::DeleteNamespace(_) | Cleanup::DropFinalizer))) => {
                self.check("S10: nothing goes unasked", deletion, || format!("{command:?}"))
            }
            Some((world, Command::Cleanup(Cleanup::DeleteSelf))) => {
                self.check("S10: nothing goes unasked", expired(world), || "expiry".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn s11_stores_only_changes(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some(Event::Stored(result)) = seen.event else { return Ok(()) };
        let (Ok(_), Some(before), Some(after)) = (result.as_ref(), &seen.before.own, &seen.after.own) else {
            return Ok(());
        };
        let changed = (&before.record, &before.status) != (&after.record, &after.status);
        self.check("S11: a write changes something", changed, || format!("{:?}", after.record))
    }

    fn s12_charges_a_job_once(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((before, after)) = seen.records() else { return Ok(()) };
        let rollout = after.memory.history.last().map(|rollout| rollout.started_at.0);
        if std::mem::replace(&mut self.rollout, rollout) != rollout {
            self.charged.clear();
        }
        for (name, child) in &after.memory.components {
            let Some(old) = before.memory.components.get(name) else { continue };
            let rises = |old: u8, new: u8| new.saturating_sub(old);
            let charges = rises(old.deploy_attempts, child.deploy_attempts)
                + rises(old.undeploy_attempts, child.undeploy_attempts)
                + rises(old.disruptions, child.disruptions);
            let Some(job) = charged_job(old, child).filter(|_| charges > 0) else { continue };
            let first = self.charged.insert((name.clone(), job.clone()));
            self.check("S12: a Job is charged once", first && charges == 1, || {
                format!("{name} for {job} again")
            })?;
        }
        Ok(())
    }

    fn terminates_one_way(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((before, after)) = seen.records() else { return Ok(()) };
        if !matches!(before.phase, Phase::Terminating { .. }) {
            return Ok(());
        }
        let still = matches!(after.phase, Phase::Terminating { .. });
        self.check("Terminating leaves only to gone", still, || format!("{:?}", after.phase))
    }

    fn leaves_nothing_behind(&mut self, seen: &Witness<'_>) -> Verdict {
        if seen.before.own.is_none() || seen.after.own.is_some() {
            return Ok(());
        }
        let left = seen.after.traces();
        self.check("nothing is left when it is gone", left.is_empty(), || format!("{left:?}"))
    }

    /// Secrets, quota, limits and policy stand before the first deploy Job is made.
    fn furnishes_before_the_first_job(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((world, Command::CreateJob { namespace, .. })) = seen.effect() else { return Ok(()) };
        let Some(Ok(plan)) = world.intent.known() else { return Ok(()) };
        let Some(space) = seen.after.spaces.get(&namespace.name) else { return Ok(()) };
        for (id, digest) in plan.furniture.iter().filter(|(id, _)| !id.kind.is_route()) {
            let stands = space.furniture.get(id) == Some(digest);
            self.check("furniture stands before the first Job", stands, || format!("without {id}"))?;
        }
        Ok(())
    }

    /// In the write that says Ready, the cluster holds what the plan asks for and nothing else.
    fn is_ready_only_with_what_was_asked_for(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((before, after)) = seen.records() else { return Ok(()) };
        let Phase::Ready { plan } = &after.phase else { return Ok(()) };
        if before.phase == after.phase {
            return Ok(());
        }
        let mut plans = seen.specs.iter().filter_map(|spec| spec.as_ref().ok());
        let Some(plan) = plans.find(|wanted| wanted.digest == *plan) else { return Ok(()) };
        let ours = |space: &&Space| space.ours && !space.terminating;
        let Some(space) = seen.after.spaces.values().find(ours) else { return Ok(()) };
        let law = "Ready means that the plan is what is deployed";
        for one in &plan.components {
            let payload = space.releases.get(&one.name).and_then(|release| release.payload.as_ref());
            self.check(law, payload == Some(&one.planned.payload), || format!("{}: {payload:?}", one.name))?;
        }
        let wanted = |name: &ComponentName| plan.components.iter().any(|one| one.name == *name);
        // What could not be undeployed is given up. What neither a record nor a Job tells of is known to nobody.
        let has =
            |name: &ComponentName, op| space.jobs.values().any(|job| job.component == *name && job.op == op);
        let known =
            |name: &ComponentName| before.memory.components.contains_key(name) || has(name, Op::Deploy);
        let others =
            space.releases.keys().find(|name| known(name) && !wanted(name) && !has(name, Op::Undeploy));
        self.check(law, others.is_none(), || format!("{others:?} is left"))?;
        let missing = plan.furniture.iter().find(|(id, digest)| space.furniture.get(*id) != Some(*digest));
        self.check(law, missing.is_none(), || format!("{missing:?} is missing"))
    }

    fn works_on_four_of_a_level(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((_, Command::CreateJob { component, .. })) = seen.effect() else { return Ok(()) };
        let Some(record) = Cluster::record(seen.after) else { return Ok(()) };
        let Some(level) = record.memory.components.get(component).map(|child| child.level) else {
            return Ok(());
        };
        let busy = record.memory.components.values().filter(|child| child.level == level);
        let busy = busy.filter(|child| child.is_under_way()).count();
        self.check("four of a level work at once", busy <= 4, || format!("{busy} of level {level}"))
    }

    fn never_kills_a_wanted_helm(&mut self, seen: &Witness<'_>) -> Verdict {
        let Some((world, Command::Cleanup(Cleanup::DeleteJob { name, uid, .. }))) = seen.effect() else {
            return Ok(());
        };
        // A pod that could not start for too long is no Helm at work.
        let mut views = world.components.values().filter_map(|view| view.jobs.known()).flatten();
        let stuck = |job: &JobView| matches!(job.state, JobState::Active { waiting: Some(_) });
        if views.any(|job| job.uid == *uid && stuck(job)) {
            return Ok(());
        }
        let jobs = seen.before.spaces.values().filter_map(|space| space.jobs.get(name));
        let Some(job) = jobs.into_iter().find(|job| job.is_live()) else { return Ok(()) };
        let record =
            Cluster::record(seen.after).and_then(|record| record.memory.components.get(&job.component));
        let leaves = record.is_none_or(|record| record.phase.leaves());
        self.check("a running Helm is ended only for a deletion", leaves, || format!("{name} was killed"))
    }
}

/// Returns the Job that a rise of a counter is about.
fn charged_job<'a>(old: &'a component::Record, new: &'a component::Record) -> Option<&'a Uid> {
    let attempt = old.attempt().and_then(|attempt| attempt.job.as_ref());
    attempt.or_else(|| new.accepted.as_ref().map(|accepted| &accepted.job))
}

impl Cluster {
    /// Returns the stored record, if there is one.
    pub fn record(cluster: &Self) -> Option<&Record> {
        cluster.own.as_ref().and_then(|own| own.record.as_ref())
    }
}

/// Gives a breach the life it was seen in.
pub fn in_life(breach: Breach, life: &str) -> Breach {
    Breach { what: format!("{}\n{life}", breach.what), ..breach }
}

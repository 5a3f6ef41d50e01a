//! What must hold of any two neighbouring states: S5, S6 and S7, and what must hold at the end.

use super::cluster::{Cluster, Environment};
use crate::laws::{Verdict, require};
use petri_machines::{
    environment::{Command, Phase, Sharing},
    job::Op,
    shared::{Consumer, Phase as Stage},
};

/// How often each invariant was really asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Registrations that were tried.
    pub s5: u64,
    /// Places freed, environments gone, and slices that stand.
    pub s6: u64,
    /// Generated values that stand beside what was made with them.
    pub s7: u64,
}

impl Counts {
    /// Takes note of a command that an invariant is about.
    pub(super) fn asked(&mut self, command: &Command) {
        self.s5 += u64::from(matches!(command, Command::Share(Sharing::Register { .. })));
    }

    /// Adds another life's.
    pub fn add(&mut self, other: &Self) {
        self.s5 += other.s5;
        self.s6 += other.s6;
        self.s7 += other.s7;
    }
}

/// Compares two neighbouring states.
pub(super) fn witness(before: &Cluster, after: &Cluster, counts: &mut Counts) -> Verdict {
    for (name, own) in &after.shared {
        let Some(was) = before.shared.get(name) else { continue };
        let (held, holds) = (was.roster.consumers.len(), own.roster.consumers.len());
        let max = usize::try_from(own.capacity).unwrap_or(usize::MAX);
        let in_bounds = own.capacity == 0 || holds <= held || holds <= max;
        // A place that an obligation proves to be taken is written down whatever the bound.
        let rebuilt = own.roster.consumers.iter().all(|one| {
            was.roster.holds(&one.uid, &one.component)
                || before.obligations.contains_key(&(one.uid.clone(), one.component.clone()))
        });
        require("S5", in_bounds || rebuilt, || format!("{name}: {holds} of {max}"))?;
        for freed in was.roster.consumers.iter().filter(|one| !own.roster.holds(&one.uid, &one.component)) {
            counts.s6 += 1;
            let id = (freed.uid.clone(), freed.component.clone());
            let stands = after.slices.contains_key(&(name.clone(), id.clone()));
            let let_go = after.forgotten.contains(&freed.uid);
            require("S6", !stands || let_go, || format!("{freed:?} freed its place, its slice stands"))?;
            require("S6", !after.obligations.contains_key(&id), || {
                format!("{freed:?} freed its place and owes")
            })?;
        }
    }
    for ((shared, id), generated) in &after.slices {
        let owed = after.obligations.get(id);
        let let_go = after.forgotten.contains(&id.0);
        counts.s6 += 1;
        require("S6", owed.is_some() || let_go, || format!("{id:?} stands at {shared} and nobody owes it"))?;
        if let Some(owed) = owed {
            counts.s7 += 1;
            require("S7", owed.generated == *generated, || format!("{id:?} was given another value"))?;
        }
    }
    for (id, owed) in &before.obligations {
        if let Some(now) = after.obligations.get(id).filter(|now| now.uid == owed.uid) {
            require("S7", now.generated == owed.generated, || format!("{id:?} was generated anew"))?;
        }
    }
    for gone in before.living().difference(&after.living()) {
        counts.s6 += 1;
        for (shared, id) in after.slices.keys().filter(|(_, id)| id.0 == *gone) {
            let told = after.shared.get(shared).is_some_and(|own| own.roster.has_abandoned(&id.0, &id.1));
            require("S6", told, || format!("{gone} is gone, its slice at {shared} stands"))?;
        }
    }
    both_at_once(after)
}

fn both_at_once(cluster: &Cluster) -> Verdict {
    for (name, job) in cluster.jobs.iter().filter(|(_, job)| job.ended.is_none()) {
        let other = cluster.jobs.iter().find(|(other, beside)| {
            *other != name
                && beside.owner == job.owner
                && beside.component == job.component
                && beside.ended.is_none()
        });
        require("one Job for each consumer", other.is_none(), || format!("{name} beside {other:?}"))?;
        let owed = cluster.obligations.contains_key(&(job.owner.clone(), job.component.clone()));
        require("provisions only what is owed", job.op != Op::Provision || owed, || format!("{name}"))?;
    }
    Ok(())
}

/// With everything at rest: who waits waits for one who does not wait, or for what a person has to mend; and nothing
/// else is under way.
pub(super) fn rests(cluster: &Cluster) -> Verdict {
    for (name, own) in &cluster.environments {
        let phase = own.record.as_ref().map(|record| &record.phase);
        let rests = match phase {
            Some(Phase::Ready { .. } | Phase::Failed { .. }) => true,
            Some(Phase::Pending) => is_blocked(own, cluster),
            Some(Phase::Deploying { .. } | Phase::Terminating { .. }) | None => false,
        };
        require("converges", rests, || {
            format!("{name} rests in {phase:?}: {own:?} with {:?}", cluster.shared)
        })?;
    }
    Ok(())
}

/// Whether anything that a waiting environment wants is taken by one who stays, or cannot be had.
fn is_blocked(own: &Environment, cluster: &Cluster) -> bool {
    let stays = |one: &Environment| {
        let phase = one.record.as_ref().map(|record| &record.phase);
        matches!(phase, Some(Phase::Ready { .. } | Phase::Failed { .. }))
    };
    own.plan.slices.iter().any(|(component, planned)| {
        let Some(at) = cluster.shared.get(&planned.shared) else { return true };
        let taken = |held: &Consumer| {
            cluster.environments.values().any(|one| one.uid == held.uid && stays(one))
                || at.roster.has_abandoned(&held.uid, &held.component)
        };
        let is_full = at.roster.is_full(Some(at.capacity).filter(|max| *max > 0));
        let waits = !at.roster.holds(&own.uid, component);
        let broken = matches!(at.record.as_ref().map(|record| &record.phase), Some(Stage::Failed { .. }));
        at.deletion || broken || (waits && is_full && at.roster.consumers.iter().any(taken))
    })
}

/// With everything deleted and everything let go: nothing is left.
pub(super) fn gone(cluster: &Cluster) -> Verdict {
    let left = (&cluster.environments, &cluster.shared, &cluster.obligations);
    let clean = left.0.is_empty() && left.1.is_empty() && left.2.is_empty() && !cluster.provider;
    require("leaves nothing", clean, || format!("{left:?}, provider {}", cluster.provider))?;
    let secrets = &cluster.instance;
    require("leaves nothing", secrets.is_empty(), || format!("instance secrets {secrets:?}"))?;
    let jobs: Vec<_> = cluster.jobs.keys().collect();
    require("leaves nothing", jobs.is_empty(), || format!("Jobs {jobs:?}"))?;
    let slices = cluster.slices.keys().find(|(_, id)| !cluster.forgotten.contains(&id.0));
    require("leaves nothing", slices.is_none(), || format!("{slices:?}"))
}

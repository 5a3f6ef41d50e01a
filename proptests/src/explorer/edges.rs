//! Everything that may happen next in a state.

use super::node::{Budget, Node};
use crate::{
    dish::{
        Op,
        cluster::{Cluster, Pod, Specs},
        nature::{self, Outcome},
        replica::{Event, Replica},
        user,
    },
    invariants::{History, Witness},
    laws::{self, Breach},
};
use petri_machines::{
    component,
    environment::Notice,
    job::{JobFailure, JobState, JobView},
    names::ComponentName,
    reason::FailureReason,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

/// Who made an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// The operator, in peace.
    Operator,
    /// The cluster, in peace.
    Cluster,
    /// Time.
    Clock,
    /// A user.
    User,
    /// A fault: a crash, a stale read, a broken Job, a foreign hand.
    Fault,
}

/// One thing that may happen.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Who made it.
    pub maker: Maker,
    /// What it is, for people.
    pub what: String,
    /// Where it leads.
    pub to: Node,
}

/// What exploring found besides states.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How often each law and invariant had something to say.
    pub counts: BTreeMap<&'static str, u64>,
    /// Transitions of environments.
    pub moves: BTreeSet<(&'static str, &'static str)>,
    /// Transitions of components.
    pub child_moves: BTreeSet<(&'static str, &'static str)>,
    /// Clusters of which all laws were asked; states that differ in their budget only are not asked again.
    asked: HashSet<u64>,
}

/// Returns all edges out of a state.
///
/// # Errors
/// The law or invariant that one of them breaks, with what happened.
pub fn edges(node: &Node, specs: &Specs, found: &mut Found) -> Result<Vec<Edge>, Breach> {
    let mut all = Vec::new();
    if node.cluster.own.is_some() {
        looks(node, specs, found, &mut all)?;
        users(node, specs, &mut all);
    }
    happenings(node, &mut all);
    for edge in &all {
        witness(node, edge, specs, found)?;
    }
    Ok(all)
}

/// The operator's cycle: whole, cut off after each of its effects, and with a Job list that is some events old.
fn looks(node: &Node, specs: &Specs, found: &mut Found, all: &mut Vec<Edge>) -> Result<(), Breach> {
    let effects = cycle(node, &node.cluster, specs, found)?;
    let whole = effects.len().saturating_sub(1);
    for (n, (what, cluster)) in effects.into_iter().enumerate() {
        let (maker, what) = if n == whole {
            (Maker::Operator, format!("the operator looks; last it {what}"))
        } else {
            (Maker::Fault, format!("the operator dies after it {what}"))
        };
        all.push(Edge { maker, what, to: Node { cluster, ..node.clone() }.canonical() });
    }
    for (what, view) in stale_views(&node.cluster) {
        let cluster = Cluster { lagging: Some(view), ..node.cluster.clone() };
        for (did, cluster) in cycle(node, &cluster, specs, found)? {
            let what = format!("the operator looks, but {what}; it {did}");
            all.push(Edge { maker: Maker::Fault, what, to: Node { cluster, ..node.clone() }.canonical() });
        }
    }
    Ok(())
}

/// Runs one cycle of the shipped loop and returns the cluster after each effect; the last is the whole cycle.
fn cycle(
    node: &Node,
    cluster: &Cluster,
    specs: &Specs,
    found: &mut Found,
) -> Result<Vec<(String, Cluster)>, Breach> {
    let mut cluster = cluster.clone();
    let mut replica = Replica::default();
    let mut effects = Vec::new();
    let mut history = history(&node.cluster);
    // A stale look is a world like any other; the property tests ask the laws of those.
    let asks_laws = cluster.lagging.is_none()
        && found.asked.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one(&cluster));
    loop {
        let before = cluster.clone();
        let event = replica.step(&mut cluster, specs, None);
        match &event {
            Event::Observed(seen) if asks_laws => drop(laws::environment::all(&seen.0, &seen.1)?),
            Event::Notified(notices) => notices.iter().for_each(|notice| found.notice(notice)),
            Event::Observed(_) | Event::Stored(_) | Event::Applied(..) | Event::Read | Event::Crashed => {}
        }
        history.witness(&Witness { before: &before, after: &cluster, event: Some(&event), specs })?;
        if let (Some(what), true) = (crate::dish::tell::event(&event, None), before != cluster) {
            effects.push((what, cluster.clone()));
        }
        if !replica.is_running() {
            break;
        }
    }
    if let Some(done) = &replica.last {
        history.ended(done)?;
    }
    found.add(&history);
    if effects.is_empty() {
        effects.push(("changes nothing".to_owned(), cluster));
    }
    Ok(effects)
}

/// What the cluster itself knows of outcomes: the Jobs that are still there.
fn history(cluster: &Cluster) -> History {
    let outcome = |space: &crate::dish::cluster::Space| {
        let secret = |name| space.secrets.get(name).and_then(|secret| secret.payload.clone());
        let ended = space.jobs.iter().filter(|(_, job)| !job.is_live());
        ended
            .map(|(name, job)| Outcome {
                job: job.clone(),
                payload: secret(name),
                succeeded: job.pod == Pod::Succeeded,
            })
            .collect::<Vec<_>>()
    };
    History::knowing(cluster.spaces.values().flat_map(outcome).collect())
}

/// Job lists as they were a moment ago: one Job is not there yet, or has not ended yet. A list never goes back behind
/// what was recorded of it.
fn stale_views(cluster: &Cluster) -> Vec<(String, Vec<(ComponentName, JobView)>)> {
    let now = cluster.jobs();
    let record = Cluster::record(cluster).into_iter().flat_map(|record| record.memory.components.values());
    let recorded: BTreeSet<_> =
        record.filter_map(|child| child.attempt()).filter_map(|attempt| attempt.job.clone()).collect();
    let mut views = Vec::new();
    for (at, (component, job)) in now.iter().enumerate() {
        if matches!(job.state, JobState::Active { .. }) {
            if recorded.contains(&job.uid) {
                continue;
            }
            let mut without = now.clone();
            without.remove(at);
            views.push((format!("does not see the Job of {component} yet"), without));
        } else {
            let mut active = now.clone();
            active[at].1.state = JobState::Active { waiting: None };
            views.push((format!("does not see the end of the Job of {component} yet"), active));
        }
    }
    views
}

fn users(node: &Node, specs: &Specs, all: &mut Vec<Edge>) {
    let mut add = |op: Op, budget: Option<Budget>| {
        let Some(budget) = budget else { return };
        let mut cluster = node.cluster.clone();
        if user(&mut cluster, specs, &op) {
            let to = Node { cluster, budget }.canonical();
            all.push(Edge { maker: Maker::User, what: crate::dish::tell::op(&op), to });
        }
    };
    let Budget { specs: changes, retries, .. } = node.budget;
    let changed = changes.checked_sub(1).map(|specs| Budget { specs, ..node.budget });
    let retried = retries.checked_sub(1).map(|retries| Budget { retries, ..node.budget });
    for spec in 0..specs.len() {
        add(Op::Spec { spec }, changed);
    }
    add(Op::Retry { token: format!("t{retries}") }, retried);
    add(Op::Delete, Some(node.budget));
}

/// What the cluster does, in peace and by faults, and what time does.
fn happenings(node: &Node, all: &mut Vec<Edge>) {
    let mut add = |maker: Maker, what: String, cost: u8, change: &dyn Fn(&mut Cluster) -> bool| {
        let Some(faults) = node.budget.faults.checked_sub(cost) else { return };
        let mut cluster = node.cluster.clone();
        if change(&mut cluster) {
            let to = Node { cluster, budget: Budget { faults, ..node.budget } }.canonical();
            all.push(Edge { maker, what, to });
        }
    };
    for name in names(&node.cluster) {
        let name = &name;
        add(Maker::Cluster, format!("the pod of {name} starts"), 0, &|c| nature::pod_starts(c, name));
        add(Maker::Cluster, format!("the pod of {name} ends well"), 0, &|c| {
            nature::pod_ends(c, name, None).is_some()
        });
        add(Maker::Cluster, format!("the workload of {name} serves"), 0, &|c| {
            is_whole(c, name) && nature::workload(c, name, true)
        });
        for (reason, disrupted) in FAILURES {
            let failure = JobFailure { reason, message: String::new(), disrupted };
            let what = format!("the pod of {name} fails: {}, disrupted {disrupted}", reason.as_str());
            add(Maker::Fault, what, 1, &|c| nature::pod_ends(c, name, Some(failure.clone())).is_some());
        }
        add(Maker::Fault, format!("the workload of {name} ceases to serve"), 1, &|c| {
            nature::workload(c, name, false)
        });
        add(Maker::Fault, format!("somebody deletes the Job of {name}"), 1, &|c| {
            nature::job_deleted_by_hand(c, name)
        });
    }
    add(Maker::Cluster, "deleted Jobs go".to_owned(), 0, &nature::deleted_jobs_go);
    add(Maker::Cluster, "the namespace controller makes a step".to_owned(), 0, &nature::namespaces_go);
    add(Maker::Fault, "somebody deletes the namespace".to_owned(), 1, &|cluster| {
        let space = cluster.spaces.values_mut().find(|space| space.ours && !space.terminating);
        space.map(|space| space.terminating = true).is_some()
    });
    if let Some((at, slow)) = node.deadlines().min() {
        // A workload that uses up its time is a fault: in peace it becomes ready before.
        let maker = if slow { Maker::Fault } else { Maker::Clock };
        add(maker, format!("{at} s pass"), u8::from(slow), &move |cluster| {
            cluster.now = at;
            true
        });
    }
}

/// One that may pass, one that cannot, one that is nobody's fault.
const FAILURES: [(FailureReason, bool); 3] = [
    (FailureReason::HelmFailed, false),
    (FailureReason::ChartNotFound, false),
    (FailureReason::HelmFailed, true),
];

/// Whether a release was installed as a whole: what a failed Helm left never serves.
fn is_whole(cluster: &Cluster, name: &ComponentName) -> bool {
    let mut releases = cluster.spaces.values().filter_map(|space| space.releases.get(name));
    releases.any(|release| release.serial > 0)
}

fn names(cluster: &Cluster) -> BTreeSet<ComponentName> {
    let spaces = cluster.spaces.values().filter(|space| space.ours);
    let jobs = cluster.jobs().into_iter().map(|(name, _)| name);
    spaces.flat_map(|space| space.releases.keys().cloned()).chain(jobs).collect()
}

fn witness(node: &Node, edge: &Edge, specs: &Specs, found: &mut Found) -> Result<(), Breach> {
    if matches!(edge.maker, Maker::Operator) {
        return Ok(());
    }
    let mut history = history(&node.cluster);
    let seen = Witness { before: &node.cluster, after: &edge.to.cluster, event: None, specs };
    history
        .witness(&seen)
        .map_err(|breach| Breach { what: format!("{}: {}", edge.what, breach.what), ..breach })?;
    found.add(&history);
    Ok(())
}

impl Found {
    fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Moved { from, to, .. } => drop(self.moves.insert((from, to))),
            Notice::Component { notice: component::Notice::Moved { from, to }, .. } => {
                self.child_moves.insert((from, to));
            }
            Notice::Component { .. } | Notice::Expired => {}
        }
    }

    fn add(&mut self, history: &History) {
        for (law, count) in &history.counts {
            *self.counts.entry(law).or_default() += count;
        }
    }

    /// Takes over what another exploration found.
    pub fn merge(&mut self, other: Self) {
        for (law, count) in other.counts {
            *self.counts.entry(law).or_default() += count;
        }
        self.moves.extend(other.moves);
        self.child_moves.extend(other.child_moves);
    }
}

//! A state of the bounded world, in its canonical form: what no decision can tell apart is the same state.

use crate::dish::{
    apply::job_name,
    cluster::{Cluster, Pod},
};
use petri_machines::{component, job::Op, kernel::Timestamp, names::JobName};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How often each thing may still happen that makes a world unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Changes of the specification.
    pub specs: u8,
    /// Faults of Jobs, workloads and namespaces.
    pub faults: u8,
    /// Retries that a user asks for.
    pub retries: u8,
}

/// One state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The cluster.
    pub cluster: Cluster,
    /// What may still happen.
    pub budget: Budget,
}

impl Node {
    /// Makes the canonical form: times count from now, and what nothing decides by is forgotten (the status, the
    /// history, versions, moments that are only shown).
    pub fn canonical(mut self) -> Self {
        let now = self.cluster.now;
        let cluster = &mut self.cluster;
        (cluster.now, cluster.events, cluster.lagging) = (0, 0, None);
        forget_dead_secrets(cluster);
        if let Some(own) = &mut cluster.own {
            (own.resource_version, own.status) = (0, None);
            own.expires_at = own.expires_at.map(|at| at.saturating_sub(now));
            if let Some(record) = &mut own.record {
                record.memory.history.clear();
                record.memory.components.values_mut().for_each(|child| from_now(&mut child.phase, now));
            }
        }
        self
    }

    /// Returns the moments after now at which something is decided anew, and whether only a workload that is too slow
    /// lets them come.
    pub fn deadlines(&self) -> impl Iterator<Item = (u64, bool)> {
        let own = self.cluster.own.as_ref();
        let record = own.and_then(|own| own.record.as_ref());
        let children = record.into_iter().flat_map(|record| record.memory.components.values());
        let slow = |child: &component::Record| matches!(child.phase, component::Phase::Settling { .. });
        let deadlines = children
            .filter_map(move |child| Some((deadline(&child.phase)?, slow(child))))
            .chain(own.and_then(|own| own.expires_at).map(|at| (at, false)));
        deadlines.filter(|(at, _)| *at > self.cluster.now)
    }

    /// Returns 128 bits that stand for the state.
    pub fn fingerprint(&self) -> u128 {
        let half = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, self).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }

    /// Whether no pod works and nothing is being deleted.
    pub fn is_still(&self) -> bool {
        let spaces = self.cluster.spaces.values();
        spaces.into_iter().all(|space| {
            !space.terminating && space.jobs.values().all(|job| !job.deleting && job.pod != Pod::Running)
        })
    }
}

/// A Secret without a Job, of an attempt that is over, is never looked at again: its serial is never used twice.
fn forget_dead_secrets(cluster: &mut Cluster) {
    let components = Cluster::record(cluster).into_iter().flat_map(|record| &record.memory.components);
    let current: Vec<JobName> = components
        .filter_map(|(name, child)| Some((name, child.attempt()?)))
        .flat_map(|(name, attempt)| [Op::Deploy, Op::Undeploy].map(|op| job_name(name, op, attempt.serial)))
        .collect();
    for space in cluster.spaces.values_mut() {
        let jobs = &space.jobs;
        space.secrets.retain(|name, _| jobs.contains_key(name) || current.contains(name));
    }
}

fn deadline(phase: &component::Phase) -> Option<u64> {
    use component::Phase;
    match phase {
        Phase::Pending { not_before } => not_before.map(|at| at.0),
        Phase::Settling { give_up_at, .. } => Some(give_up_at.0),
        Phase::Draining { kill_at } => Some(kill_at.0),
        Phase::Retreating { not_before } => Some(not_before.0),
        Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Ready
        | Phase::Failed
        | Phase::Undeploying { .. }
        | Phase::Gone { .. } => None,
    }
}

fn from_now(phase: &mut component::Phase, now: u64) {
    use component::Phase;
    let relative = |at: &mut Timestamp| *at = Timestamp(at.0.saturating_sub(now));
    match phase {
        Phase::Pending { not_before } => {
            // A pause that is over is no pause.
            *not_before = not_before.filter(|at| at.0 > now);
            not_before.iter_mut().for_each(relative);
        }
        Phase::Settling { since, give_up_at } => {
            *since = Timestamp(0);
            relative(give_up_at);
        }
        Phase::Draining { kill_at } => relative(kill_at),
        Phase::Retreating { not_before } => relative(not_before),
        Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Ready
        | Phase::Failed
        | Phase::Undeploying { .. }
        | Phase::Gone { .. } => {}
    }
}

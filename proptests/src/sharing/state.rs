//! A state of a world of shared components: the cluster in its canonical form, as a few numbers.
//!
//! What no decision can tell apart is the same state: every state is at the moment [`BASE`], deadlines that are over are
//! at it, versions and generated values are counted anew. Serials stay as they are: faults, which bring them, are counted.

use super::cluster::{Cluster, Consumer, Environment, Job, Obligation, Shared};
use crate::explorer::intern::Interner;
use petri_machines::{
    component,
    environment::Command,
    kernel::Timestamp,
    names::{EnvironmentName, JobName, SharedName},
    shared::Roster,
    slice,
};
use std::collections::{BTreeMap, BTreeSet};

/// The moment that every state is in.
pub const BASE: u64 = 10_000;
/// Environments and shared components of a world, at most.
pub const MEMBERS: usize = 2;
/// What stands for every version, generated value and count of UIDs.
const FRESH: u64 = 1;

/// A write of a list of consumers that an operator was about to make when it froze; it comes when it thaws.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frozen {
    /// The environment.
    pub name: EnvironmentName,
    /// As it was read.
    pub read: Environment,
    /// The write.
    pub command: Command,
    /// The shared component, as it was read: at any other version the write is refused.
    pub at: SharedName,
}

/// What there is besides environments and shared components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rest {
    obligations: BTreeMap<Consumer, Obligation>,
    jobs: BTreeMap<JobName, Job>,
    provider: bool,
    instance: BTreeSet<SharedName>,
    slices: BTreeMap<(SharedName, Consumer), u64>,
    forgotten: BTreeSet<petri_machines::names::Uid>,
    frozen: Option<Frozen>,
}

/// One state; 0 stands for what is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub(super) environments: [u32; MEMBERS],
    pub(super) shared: [u32; MEMBERS],
    pub(super) rest: u32,
    /// Faults that may still happen.
    pub faults: u8,
}

/// Numbers for the parts of clusters.
#[derive(Debug, Default)]
pub struct Codec {
    environments: Interner<(EnvironmentName, Environment)>,
    shared: Interner<(SharedName, Shared)>,
    rests: Interner<Rest>,
}

impl Codec {
    /// Returns the state of a cluster, and of a write that is on its way.
    pub fn state(&mut self, cluster: Cluster, frozen: Option<Frozen>, faults: u8) -> State {
        let (cluster, frozen) = canonical(cluster, frozen);
        let (mut environments, mut shared) = ([0; MEMBERS], [0; MEMBERS]);
        for (place, one) in environments.iter_mut().zip(cluster.environments) {
            *place = self.environments.number(one) + 1;
        }
        for (place, one) in shared.iter_mut().zip(cluster.shared) {
            *place = self.shared.number(one) + 1;
        }
        let rest = Rest {
            obligations: cluster.obligations,
            jobs: cluster.jobs,
            provider: cluster.provider,
            instance: cluster.instance.into_keys().collect(),
            slices: cluster.slices,
            forgotten: cluster.forgotten,
            frozen,
        };
        State { environments, shared, rest: self.rests.number(rest), faults }
    }

    /// Returns the cluster of a state.
    pub fn cluster(&self, state: &State) -> (Cluster, Option<Frozen>) {
        let there = |number: &&u32| **number > 0;
        let environments = state.environments.iter().filter(there);
        let shared = state.shared.iter().filter(there);
        let rest = (**self.rests.value(state.rest)).clone();
        let cluster = Cluster {
            now: BASE,
            uids: FRESH,
            named: true,
            environments: environments.map(|one| (**self.environments.value(one - 1)).clone()).collect(),
            shared: shared.map(|one| (**self.shared.value(one - 1)).clone()).collect(),
            obligations: rest.obligations,
            jobs: rest.jobs,
            provider: rest.provider,
            instance: rest.instance.into_iter().map(|name| (name, FRESH)).collect(),
            slices: rest.slices,
            forgotten: rest.forgotten,
        };
        (cluster, rest.frozen)
    }
}

fn canonical(mut cluster: Cluster, frozen: Option<Frozen>) -> (Cluster, Option<Frozen>) {
    let now = cluster.now;
    // A write that has been overtaken will be refused: it is none.
    let fresh = |frozen: &Frozen| cluster.shared.get(&frozen.at).is_some_and(|own| own.version == FRESH);
    let mut frozen = frozen.filter(fresh);
    if let Some(frozen) = &mut frozen {
        environment(&mut frozen.read, now);
    }
    for own in cluster.environments.values_mut() {
        environment(own, now);
    }
    for own in cluster.shared.values_mut() {
        shared(own, now);
    }
    for (id, owed) in &mut cluster.obligations {
        for (_, made) in cluster.slices.iter_mut().filter(|((at, one), _)| *at == owed.shared && one == id) {
            *made = if *made == owed.generated { FRESH } else { FRESH + 1 };
        }
        (owed.generated, owed.since) = (FRESH, BASE);
    }
    cluster.now = BASE;
    (cluster, frozen)
}

/// Moves a deadline along with the clock; one that is over stays over.
fn shift(at: &mut Timestamp, now: u64) {
    at.0 = BASE + at.0.saturating_sub(now);
}

fn environment(own: &mut Environment, now: u64) {
    own.version = FRESH;
    for record in own.record.iter_mut().flat_map(|record| record.memory.slices.values_mut()) {
        match &mut record.phase {
            slice::Phase::Pending { not_before: Some(at) }
            | slice::Phase::Draining { kill_at: at }
            | slice::Phase::Retreating { not_before: at } => shift(at, now),
            slice::Phase::Pending { not_before: None }
            | slice::Phase::Provisioning { .. }
            | slice::Phase::Provisioned
            | slice::Phase::Failed
            | slice::Phase::Deprovisioning { .. }
            | slice::Phase::Releasing { .. }
            | slice::Phase::Gone { .. } => {}
        }
    }
    for rollout in own.record.iter_mut().flat_map(|record| &mut record.memory.history) {
        rollout.started_at = Timestamp(BASE);
        rollout.ended_at = rollout.ended_at.map(|_| Timestamp(BASE));
    }
    if let Some(status) = &mut own.status {
        status.deploy_started_at = status.deploy_started_at.map(|_| Timestamp(BASE));
    }
}

fn shared(own: &mut Shared, now: u64) {
    own.version = FRESH;
    own.roster.consumers.iter_mut().for_each(|one| one.since = Timestamp(BASE));
    own.roster.abandoned.iter_mut().for_each(|one| one.at = Timestamp(BASE));
    if let Some(status) = &mut own.status {
        // The list is read from the object itself.
        status.roster = Roster::default();
    }
    let Some(record) = &mut own.record else { return };
    if let Some(since) = &mut record.memory.idle_since {
        let over = now.saturating_sub(since.0).min(own.idle_secs.unwrap_or_default());
        *since = Timestamp(BASE - over);
    }
    match record.memory.workload.as_mut().map(|workload| &mut workload.phase) {
        Some(component::Phase::Pending { not_before: Some(at) })
        | Some(component::Phase::Draining { kill_at: at })
        | Some(component::Phase::Retreating { not_before: at }) => shift(at, now),
        Some(component::Phase::Settling { since, give_up_at, .. }) => {
            *since = Timestamp(BASE);
            shift(give_up_at, now);
        }
        Some(_) | None => {}
    }
}

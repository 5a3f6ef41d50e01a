//! A state of a world of shared components: the cluster in its canonical form, taken apart, as a few numbers.
//!
//! A [`Tenant`] is an environment with all that is its own: obligations, Jobs, slices. A [`Host`] is a shared component
//! with its Jobs and its instance secret. What no decision can tell apart is the same state: every state is at the moment
//! [`BASE`], deadlines that are over are at it, versions and generated values are counted anew; what is only shown (the
//! status, but for what others look at, and the history) is left out. Serials stay as they are: faults, which bring them,
//! are counted.

use super::cluster::{Cluster, Environment, Job, Obligation, Shared};
use crate::explorer::intern::Interner;
use petri_machines::{
    component,
    environment::{self, Command, Condition, ConditionType, Reason},
    kernel::Timestamp,
    names::{ComponentName, EnvironmentName, JobName, SharedName, Uid},
    shared::{self, Roster},
    slice,
};
use std::collections::BTreeMap;

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

/// An environment, there or gone, with all that is its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// The object.
    pub own: Option<Environment>,
    /// What it owes, by component.
    pub obligations: BTreeMap<ComponentName, Obligation>,
    /// Its Jobs.
    pub jobs: BTreeMap<JobName, Job>,
    /// What was really made for it.
    pub slices: BTreeMap<(SharedName, ComponentName), u64>,
    /// Whether a person let it go.
    pub forgotten: bool,
}

/// A shared component, there or gone, with all that is its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Host {
    /// The object.
    pub own: Option<Shared>,
    /// The Jobs of its workload.
    pub jobs: BTreeMap<JobName, Job>,
    /// Whether its instance secret stands.
    pub instance: bool,
}

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The numbers of the tenants.
    pub tenants: [u32; MEMBERS],
    /// The numbers of the hosts.
    pub hosts: [u32; MEMBERS],
    /// The number of what is frozen, from 1; 0 for nothing.
    pub frozen: u32,
    /// Whether the provider is held.
    pub provider: bool,
    /// What may still happen.
    pub budget: Budget,
}

/// How often each thing may happen; [`ANY`] for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Jobs that fail.
    pub faults: u8,
    /// Crashes, blind looks and freezes.
    pub mishaps: u8,
    /// Objects that users delete.
    pub deletions: u8,
}

/// No bound.
pub const ANY: u8 = u8::MAX;

impl Budget {
    /// Returns what is left after something happened, if there is enough.
    pub fn less(self, cost: Self) -> Option<Self> {
        let less = |left: u8, cost| if left == ANY { Some(ANY) } else { left.checked_sub(cost) };
        Some(Self {
            faults: less(self.faults, cost.faults)?,
            mishaps: less(self.mishaps, cost.mishaps)?,
            deletions: less(self.deletions, cost.deletions)?,
        })
    }
}

/// Who is in a world, and numbers for the parts of its clusters.
#[derive(Debug)]
pub struct Codec {
    /// The environments, by name.
    pub environments: Vec<(EnvironmentName, Uid)>,
    /// The shared components, by name.
    pub shared: Vec<(SharedName, Uid)>,
    /// Tenants.
    pub tenants: Interner<Tenant>,
    /// Hosts.
    pub hosts: Interner<Host>,
    /// What is frozen.
    pub frozen: Interner<Frozen>,
}

impl Codec {
    /// Returns a codec for the members of this cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let environments = cluster.environments.iter().map(|(name, own)| (name.clone(), own.uid.clone()));
        let shared = cluster.shared.iter().map(|(name, own)| (name.clone(), own.uid.clone()));
        Self {
            environments: environments.collect(),
            shared: shared.collect(),
            tenants: Interner::default(),
            hosts: Interner::default(),
            frozen: Interner::default(),
        }
    }

    /// Returns the state of a cluster; what is frozen comes beside it.
    pub fn state(&mut self, cluster: &Cluster, frozen: u32, budget: Budget) -> State {
        let (mut tenants, mut hosts) = ([0; MEMBERS], [0; MEMBERS]);
        for (place, number) in tenants.iter_mut().enumerate().take(self.environments.len()) {
            *number = self.tenant(place, cluster);
        }
        for (place, number) in hosts.iter_mut().enumerate().take(self.shared.len()) {
            *number = self.host(place, cluster);
        }
        let frozen = if self.overtakes(cluster, frozen) { 0 } else { frozen };
        State { tenants, hosts, frozen, provider: cluster.provider, budget }
    }

    /// Returns the cluster of a state.
    pub fn cluster(&self, state: &State) -> Cluster {
        self.join(&state.tenants, &state.hosts, state.provider)
    }

    /// Puts parts together.
    pub fn join(&self, tenants: &[u32; MEMBERS], hosts: &[u32; MEMBERS], provider: bool) -> Cluster {
        let mut cluster = Cluster { now: BASE, uids: FRESH, named: true, provider, ..Cluster::default() };
        for ((name, uid), number) in self.environments.iter().zip(tenants) {
            let Tenant { own, obligations, jobs, slices, forgotten } =
                (**self.tenants.value(*number)).clone();
            cluster.environments.extend(own.map(|own| (name.clone(), own)));
            let of = |component| (uid.clone(), component);
            cluster.obligations.extend(obligations.into_iter().map(|(name, owed)| (of(name), owed)));
            cluster.jobs.extend(jobs);
            let slices = slices.into_iter().map(|((at, component), made)| ((at, of(component)), made));
            cluster.slices.extend(slices);
            cluster.forgotten.extend(forgotten.then(|| uid.clone()));
        }
        for ((name, _), number) in self.shared.iter().zip(hosts) {
            let Host { own, jobs, instance } = (**self.hosts.value(*number)).clone();
            cluster.shared.extend(own.map(|own| (name.clone(), own)));
            cluster.jobs.extend(jobs);
            cluster.instance.extend(instance.then(|| (name.clone(), FRESH)));
        }
        cluster
    }

    /// Returns the number of an environment and what is its own, as a cluster has it.
    pub fn tenant(&mut self, place: usize, cluster: &Cluster) -> u32 {
        let (name, uid) = &self.environments[place];
        let mut own = cluster.environments.get(name).cloned();
        if let Some(own) = &mut own {
            canonical_environment(own, cluster.now);
        }
        let owed = cluster.obligations.iter().filter(|((one, _), _)| one == uid);
        let mut obligations: BTreeMap<_, _> =
            owed.map(|((_, component), owed)| (component.clone(), owed.clone())).collect();
        let made = cluster.slices.iter().filter(|((_, (one, _)), _)| one == uid);
        let mut slices: BTreeMap<_, _> =
            made.map(|((at, (_, component)), made)| ((at.clone(), component.clone()), *made)).collect();
        for (component, owed) in &mut obligations {
            if let Some(made) = slices.get_mut(&(owed.shared.clone(), component.clone())) {
                *made = if *made == owed.generated { FRESH } else { FRESH + 1 };
            }
            (owed.generated, owed.since) = (FRESH, BASE);
        }
        let (jobs, forgotten) = (jobs_of(cluster, uid), cluster.forgotten.contains(uid));
        self.tenants.number(Tenant { own, obligations, jobs, slices, forgotten })
    }

    /// Returns the number of a shared component and what is its own, as a cluster has it.
    pub fn host(&mut self, place: usize, cluster: &Cluster) -> u32 {
        let (name, uid) = &self.shared[place];
        let mut own = cluster.shared.get(name).cloned();
        if let Some(own) = &mut own {
            canonical_shared(own, cluster.now);
        }
        let (jobs, instance) = (jobs_of(cluster, uid), cluster.instance.contains_key(name));
        self.hosts.number(Host { own, jobs, instance })
    }

    /// Which shared components are not as they were read at the beginning of a state.
    pub fn touched(&self, cluster: &Cluster) -> [bool; MEMBERS] {
        let mut touched = [false; MEMBERS];
        for (touched, (name, _)) in touched.iter_mut().zip(&self.shared) {
            *touched = cluster.shared.get(name).is_none_or(|own| own.version != FRESH);
        }
        touched
    }

    /// The place of the shared component that a frozen write is about.
    pub fn aim(&self, frozen: u32) -> Option<usize> {
        let frozen = self.frozen.value(frozen.checked_sub(1)?);
        self.shared.iter().position(|(name, _)| *name == frozen.at)
    }

    /// Whether what is frozen was overtaken: it will be refused, so it is none.
    fn overtakes(&self, cluster: &Cluster, frozen: u32) -> bool {
        self.aim(frozen).is_some_and(|place| self.touched(cluster)[place])
    }

    /// Returns the number of what is frozen.
    pub fn freeze(&mut self, mut frozen: Frozen, now: u64) -> u32 {
        canonical_environment(&mut frozen.read, now);
        self.frozen.number(frozen) + 1
    }
}

fn jobs_of(cluster: &Cluster, owner: &Uid) -> BTreeMap<JobName, Job> {
    let own = cluster.jobs.iter().filter(|(_, job)| job.owner == *owner);
    own.map(|(name, job)| (name.clone(), job.clone())).collect()
}

/// Moves a deadline along with the clock; one that is over stays over.
fn shift(at: &mut Timestamp, now: u64) {
    at.0 = BASE + at.0.saturating_sub(now);
}

fn canonical_environment(own: &mut Environment, now: u64) {
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
    if let Some(record) = &mut own.record {
        (record.memory.observed, record.memory.history) = (0, Vec::new());
    }
    own.status = own.status.as_ref().and_then(queued);
}

/// What others look at in an environment's status: that it waits for a place.
fn queued(status: &environment::Status) -> Option<environment::Status> {
    let waits = |one: &&Condition| {
        one.reason == Reason::SharedComponentAtCapacity && one.kind == ConditionType::SharedComponentsReady
    };
    let waiting = status.conditions.iter().find(waits)?;
    Some(environment::Status {
        phase: "",
        conditions: vec![Condition { message: String::new(), ..waiting.clone() }],
        namespace: None,
        namespace_uid: None,
        url: None,
        expires_at: None,
        deploy_started_at: None,
        observed_generation: 0,
        components: Vec::new(),
        history: Vec::new(),
    })
}

fn canonical_shared(own: &mut Shared, now: u64) {
    own.version = FRESH;
    own.roster.consumers.iter_mut().for_each(|one| one.since = Timestamp(BASE));
    own.roster.abandoned.iter_mut().for_each(|one| one.at = Timestamp(BASE));
    if let Some(status) = &mut own.status {
        // The list is read from the object itself.
        let ready = status.ready;
        let (conditions, roster) = (Vec::new(), Roster::default());
        *status = shared::Status { phase: "", conditions, ready, roster, observed_generation: 0 };
    }
    let Some(record) = &mut own.record else { return };
    record.memory.observed = 0;
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

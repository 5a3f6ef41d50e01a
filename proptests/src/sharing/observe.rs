//! The shell's reads.

use super::cluster::{Cluster, Environment, Shared};
use petri_machines::{
    component::{Planned, Readiness},
    environment::{self, Identity, Namespaces, Occupancy},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, Digest, EnvironmentName, NamespaceName, SharedName, Uid},
    shared::{self, Instance, InstancePlan, Owed, Plan, Provider},
    slice::{self, Standing, View},
};
use std::collections::BTreeMap;

/// The provider's name; there is one.
pub const PROVIDER: &str = "p";

/// The namespace that an environment gets.
pub fn namespace(uid: &Uid) -> NamespaceName {
    let mut all = NamespaceName::candidates(uid);
    all.swap_remove(0)
}

/// Builds the world of an environment as it was read. A blind look reads nothing of what is shared.
pub fn environment(
    cluster: &Cluster,
    name: &EnvironmentName,
    own: &Environment,
    record: &environment::Record,
    blind: bool,
) -> environment::World {
    let place = namespace(&own.uid);
    let there = cluster.environments.get(name).and_then(|now| now.space);
    let occupancy = match there {
        None => Occupancy::Absent,
        Some(_) => Occupancy::Ours { uid: ns_uid(&own.uid), terminating: false, blocked: None },
    };
    let slices =
        if blind { Seen::Unknown(Ignorance::Failed) } else { Seen::Known(slices(cluster, own, record)) };
    environment::World {
        now: Timestamp(cluster.now),
        pod_failure_secs: 300,
        identity: Identity { uid: own.uid.clone(), name: name.clone(), generation: 1 },
        deletion: own.deletion,
        finalizer: own.finalizer,
        held: false,
        retry: own.retry.clone(),
        expires_at: None,
        expiring_at: None,
        intent: Seen::Known(Ok(own.plan.clone())),
        namespaces: Namespaces {
            assigned: Seen::Known(there.iter().map(|_| place.clone()).collect()),
            occupancy: [(place, occupancy)].into(),
            access: Seen::Known(there.unwrap_or_default()),
        },
        components: BTreeMap::new(),
        slices,
        furniture: BTreeMap::new(),
    }
}

/// The UID of an environment's namespace.
pub fn ns_uid(uid: &Uid) -> Uid {
    Uid::new(format!("ns-of-{uid}")).unwrap_or_else(|_| unreachable!("never empty"))
}

fn slices(
    cluster: &Cluster,
    own: &Environment,
    record: &environment::Record,
) -> BTreeMap<ComponentName, View> {
    let mut named: BTreeMap<ComponentName, SharedName> = BTreeMap::new();
    for (shared, at) in &cluster.shared {
        let held = at.roster.consumers.iter().filter(|one| one.uid == own.uid);
        named.extend(held.map(|one| (one.component.clone(), shared.clone())));
    }
    named.extend(own.plan.slices.iter().map(|(name, planned)| (name.clone(), planned.shared.clone())));
    let owed = cluster.obligations.iter().filter(|((uid, _), _)| *uid == own.uid);
    named.extend(owed.map(|((_, name), owed)| (name.clone(), owed.shared.clone())));
    named.extend(record.memory.slices.iter().map(|(name, slice)| (name.clone(), slice.shared.clone())));
    let view = |name: ComponentName, shared: SharedName| {
        let obligation =
            cluster.obligations.get(&(own.uid.clone(), name.clone())).map(|owed| slice::Obligation {
                uid: owed.uid.clone(),
                shared: owed.shared.clone(),
                payload: Some(owed.payload.clone()),
                deprovisions: true,
            });
        let bound = cluster.environments.values().find(|one| one.uid == own.uid);
        let bound = bound.is_some_and(|one| one.bindings.contains(&name));
        let view = View {
            standing: Seen::Known(standing(cluster, &shared, own)),
            shared,
            obligation: Seen::Known(obligation),
            binding: Seen::Known(bound.then(|| ns_uid(&own.uid))),
            jobs: Seen::Known(cluster.jobs_of(&own.uid, &name)),
        };
        (name, view)
    };
    named.into_iter().map(|(name, shared)| view(name, shared)).collect()
}

fn standing(cluster: &Cluster, shared: &SharedName, own: &Environment) -> Standing {
    let Some(at) = cluster.shared.get(shared) else { return Standing::Absent };
    // Only one whose turn it is to take a place here stands in this queue.
    let next = |one: &Environment| {
        let mut wanted: Vec<(&SharedName, &ComponentName)> =
            one.plan.slices.iter().map(|(component, planned)| (&planned.shared, component)).collect();
        wanted.sort();
        let holds = |(at, component): &(&SharedName, &ComponentName)| {
            cluster.shared.get(*at).is_some_and(|at| at.roster.holds(&one.uid, component))
        };
        wanted.into_iter().find(|place| !holds(place)).map(|(at, _)| at.clone())
    };
    let waits = |one: &&Environment| {
        one.status.iter().flat_map(|status| &status.conditions).any(|condition| {
            condition.reason == environment::Reason::SharedComponentAtCapacity
                && condition.kind == environment::ConditionType::SharedComponentsReady
        }) && !one.deletion
            && next(one).as_ref() == Some(shared)
    };
    // UIDs are handed out in order of creation.
    let age = |uid: &Uid| uid.as_str().rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
    let older = cluster.environments.iter().filter(|(_, one)| waits(one) && age(&one.uid) < age(&own.uid));
    Standing::There {
        uid: at.uid.clone(),
        version: at.version.to_string(),
        deleting: at.deletion,
        ready: at.status.as_ref().is_some_and(|status| status.ready),
        why: "not yet".to_owned(),
        capacity: Some(at.capacity).filter(|max| *max > 0),
        roster: at.roster.clone(),
        queue: older.map(|(name, _)| name.clone()).collect(),
    }
}

/// Builds the world of a shared component as it was read.
pub fn shared(
    cluster: &Cluster,
    name: &SharedName,
    own: &Shared,
    record: &shared::Record,
    blind: bool,
) -> shared::World {
    let provider = Provider {
        uid: ns_uid(&own.uid),
        version: "1".to_owned(),
        deleting: false,
        finalizer: cluster.provider,
        others: cluster.shared.len() > 1,
    };
    let workload =
        Planned { level: 0, payload: Digest::of(&["chart"]), immutable: true, ready_within_secs: 900 };
    let plan = Plan {
        provider: PROVIDER.to_owned(),
        workload: cluster.instance.get(name).map(|_| workload),
        instance: Some(InstancePlan { name: "secret".to_owned(), generates: true }),
        capacity: Some(own.capacity).filter(|max| *max > 0),
        idle_secs: own.idle_secs,
    };
    let accepted =
        record.memory.workload.as_ref().and_then(|one| one.accepted.as_ref()).map(|one| one.serial);
    let stands = cluster.shared.get(name).and_then(|now| now.release);
    let owed = cluster.obligations.iter().filter(|(_, owed)| owed.shared == *name);
    let owed = owed.map(|((uid, component), owed)| Owed {
        secret: owed.uid.clone(),
        uid: uid.clone(),
        environment: owed.environment.clone(),
        component: component.clone(),
        since: Timestamp(owed.since),
    });
    shared::World {
        now: Timestamp(cluster.now),
        pod_failure_secs: 300,
        identity: shared::Identity { uid: own.uid.clone(), name: name.clone(), generation: 1 },
        deletion: own.deletion,
        finalizer: own.finalizer,
        retry: None,
        forget: own.forget.clone(),
        intent: Seen::Known(Ok(plan)),
        providers: [(PROVIDER.to_owned(), Some(provider))].into(),
        instance: Seen::Known(match cluster.instance.get(name) {
            None => Instance::Absent,
            Some(_) => Instance::There { uid: ns_uid(&own.uid), complete: true },
        }),
        jobs: Seen::Known(cluster.jobs_of(&own.uid, &component(name))),
        readiness: if stands.is_some() && stands == accepted {
            Seen::Known(Readiness::Ready)
        } else {
            Seen::Unknown(Ignorance::NotAsked)
        },
        roster: own.roster.clone(),
        obligations: if blind { Seen::Unknown(Ignorance::Failed) } else { Seen::Known(owed.collect()) },
        living: if blind { Seen::Unknown(Ignorance::Failed) } else { Seen::Known(cluster.living()) },
    }
}

/// The component name that a shared component's Jobs bear.
pub fn component(name: &SharedName) -> ComponentName {
    ComponentName::new(name.as_str()).unwrap_or_else(|_| unreachable!("a label"))
}

//! The shell's reads, against the simulated cluster: own object as it was read, caches for breadth, live reads for
//! ownership.

use super::cluster::{Cluster, Own, Release, Specs};
use petri_machines::{
    environment::{
        Access, ComponentView, FurnitureId, Identity, Namespaces, Occupancy, Record, Standing, World,
    },
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, NamespaceName},
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A read that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Blind {
    /// The template.
    Intent,
    /// The list of namespaces by label.
    Assigned,
    /// The read of the namespace itself.
    Namespace,
    /// The rights in it.
    Access,
    /// The Jobs.
    Jobs,
    /// The workloads.
    Readiness,
}

/// Builds the world of `record`, for the object as it was read.
pub fn observe(cluster: &Cluster, specs: &Specs, own: &Own, record: &Record, blind: Option<Blind>) -> World {
    let unless = |what| blind != Some(what);
    let failed = Ignorance::Failed;
    let intent = match specs.get(own.spec) {
        Some(intent) if unless(Blind::Intent) => Seen::Known(intent.clone()),
        _ => Seen::Unknown(failed),
    };
    let mut namespaces = namespaces(cluster, record);
    let mut components = components(cluster, record, &intent);
    if blind == Some(Blind::Assigned) {
        namespaces.assigned = Seen::Unknown(failed);
    }
    if blind == Some(Blind::Namespace) {
        namespaces.occupancy.clear();
    }
    if blind == Some(Blind::Access) {
        namespaces.access = Seen::Unknown(failed);
    }
    for view in components.values_mut() {
        if blind == Some(Blind::Jobs) {
            view.jobs = Seen::Unknown(failed);
        }
        if blind == Some(Blind::Readiness) {
            view.readiness = Seen::Unknown(failed);
        }
    }
    let plan = intent.known().and_then(|intent| intent.as_ref().ok());
    let furniture = furniture(cluster, &record.memory.looks_at(plan, own.deletion));
    World {
        now: Timestamp(cluster.now),
        pod_failure_secs: 300,
        identity: Identity { uid: Cluster::owner(), name: Cluster::name(), generation: own.generation },
        deletion: own.deletion,
        finalizer: own.finalizer,
        held: own.held,
        retry: own.retry.clone(),
        expires_at: own.expires_at.map(Timestamp),
        expiring_at: own.expires_at.map(|at| Timestamp(at - at / 10)),
        intent,
        namespaces,
        components,
        slices: Seen::Known(BTreeMap::new()),
        furniture,
    }
}

fn furniture(cluster: &Cluster, asked: &BTreeSet<FurnitureId>) -> BTreeMap<FurnitureId, Standing> {
    let stands = |id: &FurnitureId| {
        let spaces = cluster.spaces.values().filter(|space| space.ours);
        let found = spaces.into_iter().find_map(|space| Some((space, space.furniture.get(id)?)));
        found.map_or(Standing::Absent, |(space, digest)| Standing::There {
            uid: space.uid.clone(),
            digest: Some(digest.clone()),
            published: !(cluster.gateway_down && id.kind.is_route()),
        })
    };
    asked.iter().map(|id| (id.clone(), stands(id))).collect()
}

fn namespaces(cluster: &Cluster, record: &Record) -> Namespaces {
    let ours = cluster.spaces.iter().filter(|(_, space)| space.ours);
    let assigned: Vec<NamespaceName> = ours.map(|(name, _)| name.clone()).collect();
    let decided = record.memory.binding.name().into_iter().chain(&assigned).cloned().collect::<Vec<_>>();
    let mut occupancy = BTreeMap::new();
    for name in decided.iter().cloned().chain(NamespaceName::candidates(&Cluster::owner())) {
        let at = stands_at(cluster, &name);
        let free = at != Occupancy::Foreign;
        occupancy.insert(name.clone(), at);
        if free && !decided.contains(&name) {
            break;
        }
    }
    let access = decided.first().and_then(|name| cluster.spaces.get(name)).map(|space| space.access.into());
    Namespaces {
        assigned: Seen::Known(assigned),
        occupancy,
        access: Seen::Known(access.unwrap_or(Access::default())),
    }
}

fn stands_at(cluster: &Cluster, name: &NamespaceName) -> Occupancy {
    match cluster.spaces.get(name) {
        None => Occupancy::Absent,
        Some(space) if space.ours => {
            Occupancy::Ours { uid: space.uid.clone(), terminating: space.terminating, blocked: None }
        }
        Some(_) => Occupancy::Foreign,
    }
}

fn components(
    cluster: &Cluster,
    record: &Record,
    intent: &Seen<Result<petri_machines::environment::Plan, petri_machines::environment::Invalid>>,
) -> BTreeMap<ComponentName, ComponentView> {
    let jobs = cluster.cached_jobs();
    let planned = intent.known().and_then(|intent| intent.as_ref().ok()).into_iter();
    let mut names: BTreeSet<ComponentName> = record.memory.components.keys().cloned().collect();
    names.extend(planned.flat_map(|plan| plan.components.iter().map(|component| component.name.clone())));
    names.extend(jobs.iter().map(|(name, _)| name.clone()));
    let view = |name: &ComponentName| {
        let own = jobs.iter().filter(|(component, _)| component == name).map(|(_, job)| job.clone());
        let accepted = record.memory.components.get(name).and_then(|child| child.accepted.as_ref());
        let release = cluster.spaces.values().filter(|space| space.ours).find_map(|s| s.releases.get(name));
        ComponentView {
            jobs: Seen::Known(own.collect()),
            readiness: Release::readiness(release, accepted.map(|accepted| accepted.serial)),
        }
    };
    names.into_iter().map(|name| (name.clone(), view(&name))).collect()
}

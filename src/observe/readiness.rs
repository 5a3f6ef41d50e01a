//! Whether what was accepted last serves: its workloads first, then its probe.

use super::{Observer, inventory::Item, probe};
use crate::{
    adapter::RenderedComponent,
    controller::{Caches, Key, Workload, WorkloadKind},
};
use petri_machines::{
    component::{self, Phase, Readiness},
    environment::{Binding, Identity, Record},
    kernel::{Seen, seen::Ignorance},
    names::ComponentName,
};
use std::collections::BTreeSet;

impl Observer {
    /// Reads the readiness of one component, if its phase asks for it; names it in `probed` if a probe is kept.
    pub(super) async fn readiness(
        &self,
        identity: &Identity,
        record: &Record,
        name: &ComponentName,
        rendered: Option<&RenderedComponent>,
        probed: &mut BTreeSet<ComponentName>,
    ) -> Seen<Readiness> {
        let Some((namespace, accepted)) = asked(record, name) else {
            return Seen::Unknown(Ignorance::NotAsked);
        };
        let items = match self.inventory(namespace, name, accepted.serial).await {
            Seen::Known(items) => items,
            Seen::Unknown(why) => return Seen::Unknown(why),
        };
        let workloads = workloads(&self.caches, namespace.name.as_str(), &items);
        let Seen::Known(Readiness::Ready) = workloads else { return workloads };
        let Some(http_get) = rendered.and_then(|rendered| rendered.http_get.as_ref()) else {
            return workloads;
        };
        probed.insert(name.clone());
        let target = probe::Target {
            environment: identity.uid.clone(),
            namespace: namespace.name.clone(),
            serial: accepted.serial,
            services: items.iter().filter(|item| is_service(item)).map(|item| item.name.clone()).collect(),
            path: http_get.path.clone(),
            port: http_get.port,
        };
        match self.prober.result(&Key::environment(identity.name.as_str()), name, target) {
            Ok(()) => Seen::Known(Readiness::Ready),
            Err(why) => Seen::Known(Readiness::Unready(why)),
        }
    }
}

fn is_service(item: &Item) -> bool {
    item.api_version == "v1" && item.kind == "Service"
}

/// Returns what was accepted, when the phase looks at readiness.
fn asked<'a>(
    record: &'a Record,
    name: &ComponentName,
) -> Option<(&'a petri_machines::environment::NamespaceRef, &'a component::Accepted)> {
    let Binding::Bound { namespace } = &record.memory.binding else { return None };
    let child = record.memory.components.get(name)?;
    let asks = match child.phase {
        Phase::Settling { .. } | Phase::Ready => true,
        // A Job whose success is being accepted in this very step is looked at again right after.
        Phase::Pending { .. }
        | Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Failed
        | Phase::Draining { .. }
        | Phase::Undeploying { .. }
        | Phase::Retreating { .. }
        | Phase::Gone { .. } => false,
    };
    child.accepted.as_ref().filter(|_| asks).map(|accepted| (namespace, accepted))
}

/// Looks up every workload of an inventory by name and UID. None at all is ready.
fn workloads(caches: &Caches, namespace: &str, items: &[Item]) -> Seen<Readiness> {
    for item in items {
        let Some(kind) = kind(item) else { continue };
        if !caches.workloads_of(kind).is_ready() {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let found = caches.workload(kind, namespace, &item.name).filter(|found| found.uid == item.uid);
        if let Some(why) = missing(found.as_deref()) {
            return Seen::Known(Readiness::Unready(format!("{} {}: {why}", item.kind, item.name)));
        }
    }
    Seen::Known(Readiness::Ready)
}

fn kind(item: &Item) -> Option<WorkloadKind> {
    WorkloadKind::ALL.into_iter().find(|kind| item.api_version == "apps/v1" && item.kind == kind.as_str())
}

/// Says what a workload lacks, in the order in which a rollout gets there.
fn missing(found: Option<&Workload>) -> Option<String> {
    let Some(workload) = found else { return Some("not found".to_owned()) };
    let Workload { desired, replicas, updated, available, .. } = *workload;
    if workload.deleting {
        Some("being deleted".to_owned())
    } else if workload.observed_generation < workload.generation {
        Some("its controller has not seen the change yet".to_owned())
    } else if updated < desired {
        Some(format!("{updated} of {desired} replicas updated"))
    } else if replicas > updated {
        Some(format!("{} old replicas are still there", replicas - updated))
    } else if available < desired {
        Some(format!("{available} of {desired} replicas available"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Workload), expected: Option<&str>) {
        let mut workload = Workload {
            kind: WorkloadKind::Deployment,
            namespace: "n".to_owned(),
            name: "api".to_owned(),
            uid: "u".to_owned(),
            resource_version: "1".to_owned(),
            generation: 2,
            observed_generation: 2,
            desired: 3,
            replicas: 3,
            updated: 3,
            available: 3,
            deleting: false,
        };
        change(&mut workload);
        assert_eq!(missing(Some(&workload)).as_deref(), expected);
    }

    #[test]
    fn a_workload_is_ready_when_its_newest_generation_is_rolled_out_whole_and_available() {
        check(|_| {}, None);
        check(|w| (w.desired, w.replicas, w.updated, w.available) = (0, 0, 0, 0), None);
        check(|w| w.observed_generation = 1, Some("its controller has not seen the change yet"));
        check(|w| w.updated = 1, Some("1 of 3 replicas updated"));
        check(|w| w.replicas = 4, Some("1 old replicas are still there"));
        check(|w| w.available = 0, Some("0 of 3 replicas available"));
        check(|w| w.deleting = true, Some("being deleted"));
        assert_eq!(missing(None).as_deref(), Some("not found"));
    }

    #[test]
    fn only_the_three_kinds_of_apps_v1_are_waited_for() {
        let item = |api_version: &str, kind: &str| Item {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: String::new(),
            uid: String::new(),
        };
        assert_eq!(kind(&item("apps/v1", "StatefulSet")), Some(WorkloadKind::StatefulSet));
        assert_eq!(kind(&item("example.com/v1", "Deployment")), None);
        assert_eq!(kind(&item("v1", "Service")), None);
    }
}

//! Whether what was accepted last serves: its workloads first, then its probe.

use super::{Observer, ignorance, inventory::Item, probe};
use crate::{
    adapter::RenderedComponent,
    client::{CALL_MAX, timed},
    controller::{
        Caches, Key, Told, Workload, WorkloadKind,
        workload::{self, Raw},
    },
};
use kube::Api;
use petri_crds::meta::INVENTORY_PREFIX;
use petri_machines::{
    component::{Phase, Readiness, Record},
    environment::{self, Binding, Identity, NamespaceRef},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::ComponentName,
    reason::FailureReason,
};
use std::collections::BTreeSet;

const NOT_PROBED: &str = "waiting for the first answer to the readiness probe";

/// Whose readiness is asked for.
pub(super) struct Asked<'a> {
    pub(super) identity: &'a Identity,
    pub(super) record: &'a environment::Record,
    pub(super) name: &'a ComponentName,
    pub(super) rendered: Option<&'a RenderedComponent>,
}

/// What was accepted, where, and since when its readiness is awaited.
struct Awaited<'a> {
    namespace: &'a NamespaceRef,
    serial: u64,
    /// `None`: it was ready before.
    since: Option<Timestamp>,
}

impl<'a> Asked<'a> {
    /// Returns what was accepted, when the phase looks at readiness.
    fn awaited(&self) -> Option<Awaited<'a>> {
        let Binding::Bound { namespace } = &self.record.memory.binding else { return None };
        awaited(namespace, self.record.memory.components.get(self.name)?)
    }
}

fn awaited<'a>(namespace: &'a NamespaceRef, child: &Record) -> Option<Awaited<'a>> {
    let since = match child.phase {
        Phase::Settling { since, .. } => Some(since),
        Phase::Ready => None,
        Phase::Pending { .. }
        | Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Failed
        | Phase::Draining { .. }
        | Phase::Undeploying { .. }
        | Phase::Retreating { .. }
        | Phase::Gone { .. } => return None,
    };
    child.accepted.as_ref().map(|accepted| Awaited { namespace, serial: accepted.serial, since })
}

impl Observer {
    /// Reads the readiness of one component, if its phase asks for it; names it in `probed` if a probe is kept.
    pub(super) async fn readiness(
        &self,
        asked: &Asked<'_>,
        probed: &mut BTreeSet<ComponentName>,
    ) -> Seen<Readiness> {
        let Some(awaited) = asked.awaited() else { return Seen::Unknown(Ignorance::NotAsked) };
        let items = match self.inventory(awaited.namespace, asked.name, awaited.serial).await {
            Seen::Known(Some(items)) => items,
            // Who took it away, or spoilt it, is not known; the next attempt writes it anew.
            Seen::Known(None) => return Seen::Known(no_inventory(asked.name)),
            Seen::Unknown(why) => return Seen::Unknown(why),
        };
        match self.available(&awaited, &items).await {
            Seen::Known(Readiness::Ready) => self.probe(asked, &awaited, &items, probed),
            settled => settled,
        }
    }

    /// Reads the readiness of a workload that has no probe.
    pub(super) async fn readiness_of(
        &self,
        namespace: &NamespaceRef,
        name: &ComponentName,
        child: &Record,
    ) -> Seen<Readiness> {
        let Some(awaited) = awaited(namespace, child) else { return Seen::Unknown(Ignorance::NotAsked) };
        match self.inventory(namespace, name, awaited.serial).await {
            Seen::Known(Some(items)) => self.available(&awaited, &items).await,
            Seen::Known(None) => Seen::Known(no_inventory(name)),
            Seen::Unknown(why) => Seen::Unknown(why),
        }
    }

    async fn available(&self, awaited: &Awaited<'_>, items: &[Item]) -> Seen<Readiness> {
        let workloads = match self.workloads(awaited, items).await {
            Seen::Unknown(why) => return Seen::Unknown(why),
            Seen::Known(lacking) => lacking,
        };
        if let Some((item, why)) = workloads {
            let told = self.told(awaited.namespace.name.as_str(), item);
            let why = format!("{} {}: {why}", item.kind, item.name);
            return Seen::Known(match told {
                Some(Told { why: told, cause }) => {
                    Readiness::Unready { why: format!("{why}; {told}"), cause }
                }
                None => Readiness::Unready { why, cause: None },
            });
        }
        Seen::Known(Readiness::Ready)
    }

    /// What the pods of a workload complain about, or the one who may not make them.
    fn told(&self, namespace: &str, item: &Item) -> Option<Told> {
        let refused =
            || self.caches.workload(kind(item)?, namespace, &item.name)?.refused.as_deref().map(refusal);
        self.caches.complaint(namespace, &item.kind, &item.name).or_else(refused)
    }

    fn probe(
        &self,
        asked: &Asked<'_>,
        awaited: &Awaited<'_>,
        items: &[Item],
        probed: &mut BTreeSet<ComponentName>,
    ) -> Seen<Readiness> {
        let Some(http_get) = asked.rendered.and_then(|rendered| rendered.http_get.as_ref()) else {
            return Seen::Known(Readiness::Ready);
        };
        probed.insert(asked.name.clone());
        let target = probe::Target {
            environment: asked.identity.uid.clone(),
            namespace: awaited.namespace.name.clone(),
            serial: awaited.serial,
            services: items.iter().filter(|item| is_service(item)).map(|item| item.name.clone()).collect(),
            path: http_get.path.clone(),
            port: http_get.port,
        };
        let key = Key::environment(asked.identity.name.as_str());
        match (self.prober.result(&key, asked.name, target), awaited.since) {
            (Some(Ok(())), _) => Seen::Known(Readiness::Ready),
            (Some(Err(why)), _) => Seen::Known(Readiness::Unready { why, cause: None }),
            // What was ready stays so until somebody knows better: after a restart nobody has asked yet.
            (None, None) => Seen::Unknown(Ignorance::Unsynced),
            (None, Some(_)) => Seen::Known(Readiness::Unready { why: NOT_PROBED.to_owned(), cause: None }),
        }
    }

    /// Looks for the first workload of an inventory that lacks something. Those that were not ready yet are believed
    /// after a live read only: a cache that is behind still shows them as they were before the deploy.
    async fn workloads<'i>(
        &self,
        awaited: &Awaited<'_>,
        items: &'i [Item],
    ) -> Seen<Option<(&'i Item, String)>> {
        let namespace = awaited.namespace.name.as_str();
        let lacking = match lacking(&self.caches, namespace, items) {
            Seen::Known(None) if awaited.since.is_some() => None,
            settled => return settled,
        };
        for item in items {
            let Some(kind) = kind(item) else { continue };
            let api: Api<Raw> = Api::namespaced_with(self.client.clone(), namespace, &kind.resource());
            let found = match timed(CALL_MAX, api.get_opt(&item.name)).await {
                Ok(found) => found.and_then(|raw| workload::reduce(kind, raw, |_| true)),
                Err(error) => return Seen::Unknown(ignorance(&error)),
            };
            if let Some(why) = missing(found.filter(|found| found.uid == item.uid).as_ref()) {
                return Seen::Known(Some((item, why)));
            }
        }
        Seen::Known(lacking)
    }
}

fn no_inventory(component: &ComponentName) -> Readiness {
    let why =
        format!("ConfigMap {INVENTORY_PREFIX}{component}, which the deployer wrote, is missing or spoilt");
    Readiness::Unready { why, cause: None }
}

fn refusal(message: &str) -> Told {
    let quota = message.contains("exceeded quota");
    let cause = if quota { FailureReason::QuotaExceeded } else { FailureReason::AdmissionDenied };
    Told { why: format!("its pods are refused: {message}"), cause: Some(cause) }
}

fn is_service(item: &Item) -> bool {
    item.api_version == "v1" && item.kind == "Service"
}

/// Looks up every workload of an inventory by name and UID, and finds the first that lacks something.
fn lacking<'i>(caches: &Caches, namespace: &str, items: &'i [Item]) -> Seen<Option<(&'i Item, String)>> {
    for item in items {
        let Some(kind) = kind(item) else { continue };
        if !caches.workloads_of(kind).is_ready() {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let found = caches.workload(kind, namespace, &item.name).filter(|found| found.uid == item.uid);
        if let Some(why) = missing(found.as_deref()) {
            return Seen::Known(Some((item, why)));
        }
    }
    Seen::Known(None)
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
            refused: None,
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

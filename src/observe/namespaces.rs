//! What stands at the names of an environment's namespace, by live reads.

use super::{Ahead, Observer, ignorance};
use crate::{
    client::{CALL_MAX, timed},
    error::CallError,
    executor::guard::is_ours,
};
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use kube::Api;
use petri_machines::{
    environment::{Binding, Identity, Namespaces, Occupancy, Record},
    kernel::{Seen, seen::Ignorance},
    names::{NamespaceName, Uid},
};
use std::collections::BTreeMap;

/// What a namespace says when something keeps it from going, the cause before the consequence.
const BLOCKERS: [&str; 5] = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
];

/// Names that were looked at, and the first failure.
struct Look<'a> {
    observer: &'a Observer,
    environment: &'a Uid,
    occupancy: BTreeMap<NamespaceName, Occupancy>,
}

impl Observer {
    /// Reads the decided name and every assigned one; the candidates too, as long as none of those can be had.
    pub(super) async fn namespaces(
        &self,
        identity: &Identity,
        record: &Record,
        leaving: bool,
        ahead: &Ahead,
    ) -> Namespaces {
        let mut look = Look { observer: self, environment: &identity.uid, occupancy: BTreeMap::new() };
        if let Some((name, found)) = &ahead.namespace {
            look.occupancy.insert(name.clone(), occupancy(found.as_ref(), &identity.uid));
        }
        let binding = &record.memory.binding;
        if let Some(name) = binding.name() {
            // What fails is missing from the map: that is what the machine calls unreadable.
            let _ = look.at(name).await;
        }
        let assigned = look.assigned().await;
        let open = match binding {
            Binding::Unassigned => assigned.known().is_some_and(Vec::is_empty),
            Binding::Claimed { name } => look.occupancy.get(name) == Some(&Occupancy::Foreign),
            Binding::Bound { .. } => false,
        };
        if open && !leaving {
            look.candidates().await;
        }
        let uid = decided(record, &look.occupancy, &assigned);
        let access = Seen::Known(uid.map(|uid| self.ledger.access(&uid)).unwrap_or_default());
        Namespaces { assigned, occupancy: look.occupancy, access }
    }
}

/// The UID of the namespace whose rights are asked about.
fn decided(
    record: &Record,
    occupancy: &BTreeMap<NamespaceName, Occupancy>,
    assigned: &Seen<Vec<NamespaceName>>,
) -> Option<Uid> {
    let name = record.memory.binding.name().or(assigned.known().and_then(|names| names.first()));
    let ours = |name| match occupancy.get(name) {
        Some(Occupancy::Ours { uid, .. }) => Some(uid.clone()),
        Some(Occupancy::Absent | Occupancy::Foreign) | None => None,
    };
    name.and_then(ours).or_else(|| occupancy.keys().find_map(ours))
}

impl Look<'_> {
    async fn at(&mut self, name: &NamespaceName) -> Result<Occupancy, CallError> {
        if let Some(known) = self.occupancy.get(name) {
            return Ok(known.clone());
        }
        let api: Api<Namespace> = Api::all(self.observer.client.clone());
        let found = timed(CALL_MAX, api.get_opt(name.as_str())).await?;
        let occupancy = occupancy(found.as_ref(), self.environment);
        self.occupancy.insert(name.clone(), occupancy.clone());
        Ok(occupancy)
    }

    /// The namespaces labelled with the UID: found in the cache, believed after a live read.
    async fn assigned(&mut self) -> Seen<Vec<NamespaceName>> {
        let caches = &self.observer.caches;
        if !caches.namespaces.is_ready() {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let mut names = Vec::new();
        for cached in caches.namespaces_of(self.environment.as_str()) {
            let Ok(name) = NamespaceName::new(cached.name()) else { continue };
            match self.at(&name).await {
                Ok(Occupancy::Ours { .. }) => names.push(name),
                Ok(Occupancy::Absent | Occupancy::Foreign) => {}
                Err(error) => return Seen::Unknown(ignorance(&error)),
            }
        }
        Seen::Known(names)
    }

    /// The candidates in order, up to the first that can be had.
    async fn candidates(&mut self) {
        for name in NamespaceName::candidates(self.environment) {
            match self.at(&name).await {
                Ok(Occupancy::Foreign) => {}
                Ok(Occupancy::Absent | Occupancy::Ours { .. }) | Err(_) => return,
            }
        }
    }
}

fn occupancy(found: Option<&Namespace>, environment: &Uid) -> Occupancy {
    let Some(namespace) = found else { return Occupancy::Absent };
    let uid = namespace.metadata.uid.clone().and_then(|uid| Uid::new(uid).ok());
    match uid.filter(|_| is_ours(&namespace.metadata, environment.as_str())) {
        None => Occupancy::Foreign,
        Some(uid) => Occupancy::Ours {
            uid,
            terminating: namespace.metadata.deletion_timestamp.is_some(),
            blocked: blocked(namespace),
        },
    }
}

/// Says all that holds the namespace: one condition names the objects, another one whose finalizers they bear.
fn blocked(namespace: &Namespace) -> Option<String> {
    namespace.metadata.deletion_timestamp.as_ref()?;
    let conditions = namespace.status.as_ref()?.conditions.as_ref()?;
    let stands = |kind: &&str| {
        let told = |one: &&NamespaceCondition| one.type_ == **kind && one.status == "True";
        let told = conditions.iter().find(told)?;
        Some(format!("{}: {}", told.type_, told.message.as_deref().unwrap_or_default()))
    };
    let told: Vec<String> = BLOCKERS.iter().filter_map(stands).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(namespace: serde_json::Value, expected: &str) {
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let found = match occupancy(Some(&namespace), &Uid::new("e").unwrap()) {
            Occupancy::Absent => "absent".to_owned(),
            Occupancy::Foreign => "foreign".to_owned(),
            Occupancy::Ours { uid, terminating, blocked } => format!("{uid} {terminating} {blocked:?}"),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_namespace_is_ours_only_with_both_labels_and_our_uid() {
        let with = |labels| json!({"metadata": {"name": "n", "uid": "u", "labels": labels}});
        check(with(json!({"petri.run/managed": "true", "petri.run/environment-uid": "e"})), "u false None");
        check(with(json!({"petri.run/managed": "true", "petri.run/environment-uid": "f"})), "foreign");
        check(with(json!({"petri.run/environment-uid": "e"})), "foreign");
        check(with(json!({"petri.run/managed": "false", "petri.run/environment-uid": "e"})), "foreign");
        check(json!({"metadata": {"name": "n", "uid": "u"}}), "foreign");
    }

    #[test]
    fn a_namespace_that_hangs_says_all_that_blocks_it_and_the_cause_comes_first() {
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status, "message": "why"});
        let with = |conditions: Vec<serde_json::Value>| {
            json!({"metadata": {"name": "n", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "e"}},
                "status": {"conditions": conditions}})
        };
        let both = vec![
            condition("NamespaceFinalizersRemaining", "True"),
            condition("NamespaceContentRemaining", "True"),
        ];
        check(
            with(both),
            "u true Some(\"NamespaceContentRemaining: why; NamespaceFinalizersRemaining: why\")",
        );
        check(with(vec![condition("NamespaceContentRemaining", "False")]), "u true None");
    }
}

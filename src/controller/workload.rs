//! A Deployment, StatefulSet or DaemonSet reduced to what readiness reads.
use crate::controller::cache::{Cached, Place};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use kube::core::{ApiResource, Object};
use serde::Deserialize;

/// The three kinds whose availability makes a component ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
    /// apps/v1 DaemonSet.
    DaemonSet,
}

impl WorkloadKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deployment, Self::StatefulSet, Self::DaemonSet];

    /// Returns the kind as an inventory writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }

    /// Returns the plural in lower case, as the API server's paths write it.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
        }
    }

    pub(crate) fn resource(self) -> ApiResource {
        match self {
            Self::Deployment => ApiResource::erase::<Deployment>(&()),
            Self::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
            Self::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
        }
    }
}

/// What is kept of a workload: identity and numbers, no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`; 0 when its controller has not looked yet.
    pub observed_generation: i64,
    /// Pods wanted (`spec.replicas`, 1 when unset; DaemonSet: `status.desiredNumberScheduled`).
    pub desired: i32,
    /// Pods that exist (DaemonSet: `status.currentNumberScheduled`).
    pub replicas: i32,
    /// Pods of the newest revision.
    pub updated: i32,
    /// Pods that are available.
    pub available: i32,
    /// Why a Deployment's pods are refused, if they are: a quota, an admission policy.
    pub refused: Option<String>,
    /// It is being deleted.
    pub deleting: bool,
}

impl Workload {
    /// Tells whether two versions are the same in all that is read.
    pub fn is_same(&self, other: &Self) -> bool {
        let other = Self { resource_version: self.resource_version.clone(), ..other.clone() };
        *self == other
    }
}

impl Cached for Workload {
    fn place(&self) -> Place {
        Place::new(&self.namespace, &self.name)
    }

    fn version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
}

/// The part of a spec that is read; all else is skipped while parsing.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Spec {
    replicas: Option<i32>,
}

/// The part of the three statuses that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    observed_generation: i64,
    replicas: i32,
    updated_replicas: i32,
    available_replicas: i32,
    desired_number_scheduled: i32,
    current_number_scheduled: i32,
    updated_number_scheduled: i32,
    number_available: i32,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: String,
}

/// A workload as it is parsed.
pub(crate) type Raw = Object<Spec, Status>;

/// Reduces a parsed workload; `None` when its namespace cannot be one of ours.
pub(crate) fn reduce(kind: WorkloadKind, raw: Raw, ours: impl Fn(&str) -> bool) -> Option<Workload> {
    let meta = raw.metadata;
    let namespace = meta.namespace.filter(|namespace| ours(namespace))?;
    let status = raw.status.unwrap_or_default();
    let daemon = kind == WorkloadKind::DaemonSet;
    let pick = |replicas, scheduled| if daemon { scheduled } else { replicas };
    Some(Workload {
        kind,
        namespace,
        name: meta.name.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        resource_version: meta.resource_version.unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        observed_generation: status.observed_generation,
        desired: pick(raw.spec.replicas.unwrap_or(1), status.desired_number_scheduled),
        replicas: pick(status.replicas, status.current_number_scheduled),
        updated: pick(status.updated_replicas, status.updated_number_scheduled),
        available: pick(status.available_replicas, status.number_available),
        refused: status
            .conditions
            .into_iter()
            .find(|one| one.kind == "ReplicaFailure" && one.status == "True")
            .map(|one| one.message),
        deleting: meta.deletion_timestamp.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reduced(kind: WorkloadKind, spec: serde_json::Value, status: serde_json::Value) -> Option<Workload> {
        let object = json!({
            "apiVersion": "apps/v1", "kind": kind.as_str(),
            "metadata": {"namespace": "petri-env-12345678", "name": "x", "uid": "u", "generation": 3,
                         "resourceVersion": "9"},
            "spec": spec, "status": status,
        });
        reduce(kind, serde_json::from_value(object).unwrap(), |namespace| namespace.starts_with("petri-env-"))
    }

    #[test]
    fn replicas_are_read_from_a_deployment_whatever_else_stands_in_it() {
        let spec =
            json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let status =
            json!({"observedGeneration": 3, "replicas": 4, "updatedReplicas": 2, "availableReplicas": 1});
        let it = reduced(WorkloadKind::Deployment, spec, status).unwrap();
        assert_eq!((it.desired, it.replicas, it.updated, it.available), (3, 4, 2, 1));
        assert_eq!((it.generation, it.observed_generation, it.deleting), (3, 3, false));
    }

    #[test]
    fn a_deployment_whose_pods_are_refused_says_why_until_they_are_not() {
        let with = |status: &str| {
            let said = json!({"type": "ReplicaFailure", "status": status, "reason": "FailedCreate",
                              "message": "exceeded quota: tiny"});
            reduced(WorkloadKind::Deployment, json!({}), json!({"conditions": [said]})).unwrap().refused
        };
        assert_eq!(with("True").as_deref(), Some("exceeded quota: tiny"));
        assert_eq!(with("False"), None);
    }

    #[test]
    fn unset_replicas_mean_one_and_an_empty_status_means_that_nobody_looked() {
        let it = reduced(WorkloadKind::StatefulSet, json!({"serviceName": "x"}), json!({})).unwrap();
        assert_eq!((it.desired, it.available, it.observed_generation), (1, 0, 0));
    }

    #[test]
    fn scheduled_numbers_are_read_from_a_daemon_set() {
        let status = json!({"observedGeneration": 3, "desiredNumberScheduled": 5, "currentNumberScheduled": 4,
                            "updatedNumberScheduled": 3, "numberAvailable": 2, "numberMisscheduled": 0});
        let it = reduced(WorkloadKind::DaemonSet, json!({}), status).unwrap();
        assert_eq!((it.desired, it.replicas, it.updated, it.available), (5, 4, 3, 2));
    }

    #[test]
    fn two_versions_with_the_same_numbers_are_the_same() {
        let version = |version: &str, available: i32| {
            let status = json!({"availableReplicas": available});
            let it = reduced(WorkloadKind::Deployment, json!({}), status).unwrap();
            Workload { resource_version: version.to_owned(), ..it }
        };
        assert!(version("1", 0).is_same(&version("2", 0)));
        assert!(!version("1", 0).is_same(&version("2", 1)));
    }

    #[test]
    fn a_workload_of_a_foreign_namespace_is_dropped() {
        let raw: Raw =
            serde_json::from_value(json!({"metadata": {"namespace": "kube-system"}, "spec": {}})).unwrap();
        assert_eq!(reduce(WorkloadKind::Deployment, raw, |namespace| namespace == "mine"), None);
    }
}

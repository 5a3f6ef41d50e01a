//! A pod of a workload reduced to whose it is and what it complains about.
use crate::{
    controller::cache::{Cached, Place},
    observe::fold,
};
use k8s_openapi::{
    api::core::v1::{ContainerStatus, PodCondition, PodStatus},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::core::Object;
use petri_machines::{job::Complaint, reason::FailureReason};
use serde::Deserialize;

/// Restarts from which on a container that is not ready is one that crashes in a loop: the kubelet has paused by then.
const RESTARTS_OF_A_LOOP: i32 = 2;
/// What the controller of a Deployment writes on its pods, and appends to the name of the ReplicaSet that owns them.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What a pod complains about, and the class of it if waiting on helps little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The same words for as long as it is the same cause, or each turn of the kubelet's backoff would be a write.
    pub why: String,
    /// `None`: it may come right by itself.
    pub cause: Option<FailureReason>,
}

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// Kind and name of the workload that it belongs to.
    pub workload: (&'static str, String),
    /// What it complains about, if it does and is not going.
    pub told: Option<Told>,
}

impl WorkloadPod {
    /// Tells whether two versions are the same in all that is read.
    pub fn is_same(&self, other: &Self) -> bool {
        self.workload == other.workload && self.told == other.told
    }
}

impl Cached for WorkloadPod {
    fn place(&self) -> Place {
        Place::new(&self.namespace, &self.name)
    }

    fn version(&self) -> Option<&str> {
        Some(&self.resource_version)
    }
}

/// Nothing of a spec is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Spec {}

/// The part of a status that is read; all else is skipped while parsing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    conditions: Vec<PodCondition>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

/// A pod as it is parsed.
pub(crate) type Raw = Object<Spec, Status>;

/// Reduces a parsed pod; `None` when its namespace cannot be one of ours, or no workload of an inventory owns it.
pub(crate) fn reduce(raw: Raw, ours: impl Fn(&str) -> bool) -> Option<WorkloadPod> {
    let meta = raw.metadata;
    let namespace = meta.namespace.clone().filter(|namespace| ours(namespace))?;
    let workload = workload(&meta)?;
    let name = meta.name.unwrap_or_default();
    let going = meta.deletion_timestamp.is_some();
    let told = raw.status.filter(|_| !going).and_then(|status| complaint(&name, status));
    let resource_version = meta.resource_version.unwrap_or_default();
    Some(WorkloadPod { namespace, name, resource_version, workload, told })
}

fn workload(meta: &ObjectMeta) -> Option<(&'static str, String)> {
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    match owner.kind.as_str() {
        "StatefulSet" => Some(("StatefulSet", owner.name.clone())),
        "DaemonSet" => Some(("DaemonSet", owner.name.clone())),
        "ReplicaSet" => {
            let hash = meta.labels.as_ref()?.get(TEMPLATE_HASH)?;
            let deployment = owner.name.strip_suffix(hash)?.strip_suffix('-')?;
            Some(("Deployment", deployment.to_owned()))
        }
        _ => None,
    }
}

/// Says what keeps a pod from serving.
fn complaint(name: &str, status: Status) -> Option<Told> {
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    let conditions = PodStatus { conditions: Some(status.conditions), ..PodStatus::default() };
    let told = containers
        .into_iter()
        .find_map(container)
        .or_else(|| fold::unscheduled(&conditions).map(Told::from))?;
    Some(Told { why: format!("pod {name}: {}", told.why), ..told })
}

impl From<Complaint> for Told {
    fn from(complaint: Complaint) -> Self {
        Self { why: complaint.message, cause: Some(complaint.reason) }
    }
}

fn container(status: &ContainerStatus) -> Option<Told> {
    let name = &status.name;
    if let Some(told) = fold::stuck(status).map(Told::from) {
        return Some(Told { why: format!("container {name}: {}", told.why), ..told });
    }
    let last = status.last_state.as_ref()?.terminated.as_ref().filter(|_| !status.ready)?;
    let reason = last.reason.as_deref().unwrap_or("Error");
    let said = last.message.as_deref().map(|said| format!(": {}", said.trim())).unwrap_or_default();
    let why = format!("container {name} ends again and again: {reason}, exit code {}{said}", last.exit_code);
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
    let loops = waiting == Some("CrashLoopBackOff") || status.restart_count >= RESTARTS_OF_A_LOOP;
    Some(Told { why, cause: loops.then_some(FailureReason::CrashLoop) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(change: Value, status: Value) -> Option<WorkloadPod> {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "api-5d9c", "uid": "u",
            "controller": true});
        let mut metadata = json!({"namespace": "petri-env-12345678", "name": "api-1", "resourceVersion": "9",
            "labels": {"pod-template-hash": "5d9c"}, "ownerReferences": [owner]});
        metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let raw = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "api", "image": "i"}]}, "status": status});
        reduce(serde_json::from_value(raw).unwrap(), |namespace| namespace.starts_with("petri-env-"))
    }

    fn check(status: Value, expected: Option<(&str, Option<FailureReason>)>) {
        let expected = expected.map(|(why, cause)| Told { why: why.to_owned(), cause });
        assert_eq!(pod(json!({}), status).unwrap().told, expected);
    }

    fn check_workload(change: Value, expected: Option<(&str, &str)>) {
        let found = pod(change.clone(), json!({})).map(|pod| pod.workload);
        assert_eq!(found.as_ref().map(|(kind, name)| (*kind, name.as_str())), expected, "{change}");
    }

    #[test]
    fn a_pod_belongs_to_the_workload_of_an_inventory_and_others_are_dropped() {
        let owned = |kind: &str, controller: bool| {
            json!({"ownerReferences": [{"apiVersion": "x/v1", "kind": kind, "name": "db", "uid": "u",
                "controller": controller}]})
        };
        check_workload(json!({}), Some(("Deployment", "api")));
        check_workload(owned("StatefulSet", true), Some(("StatefulSet", "db")));
        check_workload(owned("DaemonSet", true), Some(("DaemonSet", "db")));
        check_workload(owned("StatefulSet", false), None);
        check_workload(owned("Job", true), None);
        // A ReplicaSet that no Deployment made.
        check_workload(json!({"labels": {}}), None);
        check_workload(json!({"labels": {"pod-template-hash": "other"}}), None);
        check_workload(json!({"ownerReferences": []}), None);
        check_workload(json!({"namespace": "kube-system"}), None);
    }

    #[test]
    fn a_pod_that_is_going_complains_no_more() {
        let stuck = || container(json!({"waiting": {"reason": "ImagePullBackOff"}}), json!({}), false);
        assert!(pod(json!({}), stuck()).unwrap().told.is_some());
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(pod(going, stuck()).unwrap().told, None);
    }

    fn container(state: Value, last: Value, ready: bool) -> Value {
        restarted(1, state, last, ready)
    }

    fn restarted(times: u8, state: Value, last: Value, ready: bool) -> Value {
        json!({"containerStatuses": [{"name": "api", "image": "i", "imageID": "", "ready": ready,
            "restartCount": times, "state": state, "lastState": last}]})
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_told_in_the_same_words_at_every_turn_of_the_backoff() {
        let told = "pod api-1: container api: ImagePullBackOff: not found";
        let expected = Some((told, Some(FailureReason::ImagePull)));
        let pulling = |reason: &str, message: &str| {
            container(json!({"waiting": {"reason": reason, "message": message}}), json!({}), false)
        };
        check(pulling("ErrImagePull", "not found"), expected);
        check(pulling("ImagePullBackOff", "Back-off pulling image \"i\": ErrImagePull: not found"), expected);
    }

    #[test]
    fn a_container_that_crashes_is_told_in_the_same_words_while_it_waits_and_while_it_runs() {
        let told = "pod api-1: container api ends again and again: Error, exit code 3";
        let expected = Some((told, Some(FailureReason::CrashLoop)));
        let last = || json!({"terminated": {"exitCode": 3, "reason": "Error"}});
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        check(container(waiting, last(), false), expected);
        check(restarted(2, json!({"running": {}}), last(), false), expected);
        // It ended once, perhaps because something else was not there yet: that is told, and held against nobody.
        check(container(json!({"running": {}}), last(), false), Some((told, None)));
        check(container(json!({"running": {}}), last(), true), None);
    }

    #[test]
    fn a_pod_that_starts_has_no_complaint_and_one_that_no_node_takes_has() {
        let starting = json!({"waiting": {"reason": "ContainerCreating"}});
        check(container(starting, json!({}), false), None);
        let lonely = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "no node"}]});
        check(lonely, Some(("pod api-1: Unschedulable: no node", Some(FailureReason::Unschedulable))));
    }
}

//! What the pods of a workload complain about, by live reads: only while it is not ready, and only to tell it.

use super::{Observer, fold, inventory::Item};
use crate::client::{CALL_MAX, timed};
use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        core::v1::{ContainerStatus, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, api::ListParams};
use petri_machines::{job::Complaint, reason::FailureReason};
use std::collections::BTreeSet;

/// Restarts from which on a container that is not ready is one that crashes in a loop: the kubelet has paused by then.
const RESTARTS_OF_A_LOOP: i32 = 2;

/// What a pod complains about, and the class of it if waiting on helps little.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) why: String,
    pub(super) cause: Option<FailureReason>,
}

/// Pods and ReplicaSets of one namespace that are looked through; more is no place for a readable message anyway.
const LOOKED_AT_MAX: u32 = 500;

impl Observer {
    /// Returns the first complaint of the pods of a workload; nothing, when there is none or nobody can tell.
    pub(super) async fn pods(&self, namespace: &str, workload: &Item) -> Option<Told> {
        let few = ListParams::default().limit(LOOKED_AT_MAX);
        let mut owners = BTreeSet::from([workload.uid.clone()]);
        if workload.kind == "Deployment" {
            let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), namespace);
            let sets = timed(CALL_MAX, api.list_metadata(&few)).await.ok()?.items;
            let own = sets.into_iter().filter(|set| is_owned(&set.metadata, &owners));
            let own: Vec<String> = own.filter_map(|set| set.metadata.uid).collect();
            owners.extend(own);
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pods = timed(CALL_MAX, api.list(&few)).await.ok()?.items;
        pods.iter().filter(|pod| is_owned(&pod.metadata, &owners)).find_map(complaint)
    }
}

fn is_owned(metadata: &ObjectMeta, owners: &BTreeSet<String>) -> bool {
    let mut own = metadata.owner_references.iter().flatten();
    own.any(|owner| owner.controller == Some(true) && owners.contains(&owner.uid))
}

/// Says what keeps a pod from serving; the same words for as long as it is the same cause, or each turn of the
/// kubelet's backoff would be a write.
fn complaint(pod: &Pod) -> Option<Told> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = pod.status.as_ref()?;
    let containers =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    let told =
        containers.into_iter().find_map(container).or_else(|| fold::unscheduled(status).map(Told::from))?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
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

    fn check(status: Value, expected: Option<(&str, Option<FailureReason>)>) {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "api-1"}, "status": status})).unwrap();
        let expected = expected.map(|(why, cause)| Told { why: why.to_owned(), cause });
        assert_eq!(complaint(&pod), expected);
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

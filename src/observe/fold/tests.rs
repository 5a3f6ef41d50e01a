use super::*;
use crate::controller::kept::parsed;
use petri_machines::job::Op;
use serde_json::{Value, json};

fn job(conditions: Value) -> Kept<Job> {
    let read: parsed::Job = serde_json::from_value(json!({
        "metadata": {"name": "petri-deploy-x", "uid": "j", "annotations": {"petri.run/serial": "7"},
            "labels": {"petri.run/component": "api", "petri.run/op": "deploy"}},
        "status": {"conditions": conditions},
    }))
    .unwrap();
    read.into()
}

fn pod(owner: &str, status: Value) -> Arc<Kept<Pod>> {
    let owner =
        json!({"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": owner, "controller": true});
    let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner]}, "status": status});
    let read: parsed::Pod = serde_json::from_value(pod).unwrap();
    Arc::new(read.into())
}

fn terminated(state: Value) -> Value {
    json!({"containerStatuses": [{"name": "deployer", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"terminated": state}}]})
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({"containerStatuses": [{"name": "deployer", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]})
}

fn check(conditions: Value, pods: &[Arc<Kept<Pod>>], expected: &str) {
    let (component, view) = view(&job(conditions), pods).expect("ours");
    assert_eq!((component.as_str(), view.serial, view.op), ("api", 7, Op::Deploy));
    let found = match view.state {
        JobState::Active { waiting: None } => "active".to_owned(),
        JobState::Active { waiting: Some(Complaint { reason, message }) } => {
            format!("{} waits: {message}", reason.as_str())
        }
        JobState::Succeeded => "succeeded".to_owned(),
        JobState::Failed(failure) => {
            let disrupted = if failure.disrupted { " (disrupted)" } else { "" };
            format!("{}: {}{disrupted}", failure.reason.as_str(), failure.message)
        }
    };
    assert_eq!(found, expected);
}

#[test]
fn the_containers_end_decides_before_the_job_says_anything() {
    check(json!([]), &[pod("j", terminated(json!({"exitCode": 0})))], "succeeded");
    let report = r#"{"outcome":"failed","reason":"ChartNotFound","message":"no /charts/x"}"#;
    let ended = terminated(json!({"exitCode": 1, "message": report}));
    check(json!([]), &[pod("j", ended)], "ChartNotFound: no /charts/x");
}

#[test]
fn the_pod_of_another_job_says_nothing() {
    check(json!([]), &[pod("other", terminated(json!({"exitCode": 0})))], "active");
}

#[test]
fn an_end_without_a_report_is_told_with_what_is_known() {
    let killed = terminated(json!({"exitCode": 137, "reason": "OOMKilled"}));
    let expected = "HelmFailed: it ended without a report: OOMKilled, exit code 137";
    check(json!([]), &[pod("j", killed)], expected);
    let runtime = terminated(json!({"exitCode": 128, "reason": "StartError", "message": "no such file"}));
    let expected = "HelmFailed: it ended without a report: StartError, exit code 128: no such file";
    check(json!([]), &[pod("j", runtime)], expected);
}

#[test]
fn a_pod_that_the_cluster_took_away_is_no_fault_of_the_attempt() {
    let mut drained = terminated(json!({"exitCode": 143, "reason": "Error"}));
    drained["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let expected = "HelmFailed: it ended without a report: Error, exit code 143 (disrupted)";
    check(json!([]), &[pod("j", drained)], expected);
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"});
    check(json!([]), &[pod("j", evicted)], "HelmFailed: its pod failed: Evicted low on memory (disrupted)");
}

#[test]
fn without_a_pod_the_jobs_own_condition_decides() {
    let condition = |kind: &str, reason: &str| json!([{"type": kind, "status": "True", "reason": reason, "message": "said"}]);
    check(condition("Complete", ""), &[], "succeeded");
    check(condition("Failed", "DeadlineExceeded"), &[], "JobDeadline: said");
    let gone = "HelmFailed: said; its pod is gone (disrupted)";
    check(condition("Failed", "BackoffLimitExceeded"), &[], gone);
    check(json!([{"type": "Failed", "status": "False"}]), &[], "active");
}

#[test]
fn a_pod_that_cannot_start_says_why_and_one_that_starts_says_nothing() {
    let pulling = pod("j", waiting("ImagePullBackOff", "no such image"));
    check(json!([]), &[pulling], "ImagePull waits: ImagePullBackOff: no such image");
    let made_of = pod("j", waiting("CreateContainerConfigError", "configmap \"x\" not found"));
    let expected = "CrashLoop waits: CreateContainerConfigError: configmap \"x\" not found";
    check(json!([]), &[made_of], expected);
    check(json!([]), &[pod("j", waiting("ContainerCreating", ""))], "active");
    let lonely = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/1 nodes are available"}]});
    check(json!([]), &[pod("j", lonely)], "Unschedulable waits: Unschedulable: 0/1 nodes are available");
}

#[test]
fn a_job_without_our_labels_is_not_looked_at() {
    let ours = job(json!([]));
    assert!(view(&ours, &[]).is_some());
    let (mut stranger, mut other) = (ours.clone(), ours);
    stranger.of.serial = None;
    assert!(view(&stranger, &[]).is_none());
    other.of.op = None;
    assert!(view(&other, &[]).is_none());
}

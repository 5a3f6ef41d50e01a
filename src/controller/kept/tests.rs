use super::*;
use serde_json::{Value, json};

fn pod_with(version: &str, status: Value) -> Kept<Pod> {
    let read: parsed::Pod = serde_json::from_value(
        json!({"metadata": {"name": "p", "resourceVersion": version}, "status": status}),
    )
    .unwrap();
    read.into()
}

fn job_with(metadata: Value, status: Value) -> Kept<Job> {
    let read: parsed::Job = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
    read.into()
}

fn deployer(state: Value) -> Value {
    json!([{"name": "deployer", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
}

/// Whether the second status is news after the first.
fn check(before: Value, after: Value, news: bool) {
    let (one, other) = (pod_with("1", before.clone()), pod_with("2", after.clone()));
    assert_eq!(!one.is_same(&other), news, "{before} → {after}");
}

#[test]
fn a_pod_that_goes_its_way_is_no_news_and_one_that_ends_or_cannot_is() {
    let creating = || {
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": deployer(waiting)})
    };
    let running = || {
        let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": deployer(state),
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]})
    };
    let ended = |phase: &str| {
        let state = json!({"terminated": {"exitCode": 0}});
        json!({"phase": phase, "containerStatuses": deployer(state), "conditions": []})
    };
    check(json!({"phase": "Pending"}), creating(), false);
    check(creating(), running(), false);
    check(running(), ended("Running"), true);
    check(ended("Running"), ended("Succeeded"), false);
    let stuck = json!({"waiting": {"reason": "ImagePullBackOff", "message": "m"}});
    check(creating(), json!({"containerStatuses": deployer(stuck)}), true);
    let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
    check(json!({"conditions": []}), disrupted, true);
    let unschedulable = |why: &str| {
        let told =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why});
        json!({"conditions": [told]})
    };
    check(json!({"phase": "Pending"}), unschedulable("a"), true);
    check(unschedulable("a"), unschedulable("b"), true);
}

#[test]
fn a_job_is_news_by_its_conditions_and_its_end_not_by_its_counts() {
    let with =
        |version: &str, status: Value| job_with(json!({"name": "j", "resourceVersion": version}), status);
    let complete = || json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert!(with("1", json!({"active": 1})).is_same(&with("2", json!({"active": 1, "ready": 1}))));
    assert!(!with("1", json!({"active": 1})).is_same(&with("2", complete())));
    let going = json!({"name": "j", "resourceVersion": "3", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    assert!(!with("2", complete()).is_same(&job_with(going, complete())));
}

#[test]
fn managed_fields_and_specs_are_not_parsed_and_everything_that_is_read_is() {
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true});
    let read: parsed::Pod = serde_json::from_value(json!({
        "metadata": {"namespace": "n", "name": "p", "uid": "up", "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {LABEL_ENVIRONMENT_UID: "e"},
            "ownerReferences": [owner], "managedFields": "nonsense"},
        "spec": "nonsense",
        "status": {"phase": "Succeeded"},
    }))
    .unwrap();
    let pod: Kept<Pod> = read.into();
    assert_eq!((pod.namespace(), pod.name(), &*pod.uid, pod.owner()), ("n", "p", "up", Some("e")));
    assert_eq!(pod.version(), Some("5"));
    assert!(pod.of.told.is_over && pod.created.is_some() && !pod.deleting);
    assert_eq!(pod.of.job.unwrap().uid.as_ref(), "u");
}

#[test]
fn an_environment_that_waits_for_a_place_is_known_by_the_reason_of_its_condition() {
    let with = |reason: &str| {
        let read: Guarded<EphemeralEnvironment> = serde_json::from_value(json!({
            "apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment", "metadata": {"name": "e", "uid": "u", "generation": 3},
            "spec": {"template": "t"},
            "status": {"phase": "Pending", "observedGeneration": 2, "targetNamespace": "petri-env-1",
                "conditions": [{"type": "SharedComponentsReady", "status": "False", "reason": reason,
                    "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap();
        Kept::<Option<Environment>>::from(read).of.unwrap()
    };
    let waits = with("SharedComponentAtCapacity");
    assert!(waits.waits_for_place && !with("SharedComponentPending").waits_for_place);
    assert_eq!((waits.generation, waits.observed, waits.phase), (Some(3), Some(2), Some(Phase::Pending)));
    assert_eq!(waits.namespace.as_deref(), Some("petri-env-1"));
}

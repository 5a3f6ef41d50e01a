use super::*;
use crate::controller::kept::parsed;
use kube::runtime::watcher::Event::Apply;
use petri_crds::{EphemeralEnvironment, meta::LABEL_ENVIRONMENT_UID};
use serde_json::{Value, json};

fn of<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn kept<P: serde::de::DeserializeOwned, K: From<P>>(object: Value) -> K {
    of::<P>(object).into()
}

fn job(object: Value) -> Kept<kept::Job> {
    kept::<parsed::Job, _>(object)
}

fn namespace(object: Value) -> Kept<kept::Namespace> {
    kept::<parsed::Namespace, _>(object)
}

fn environment(name: &str, uid: &str, template: &str) -> Environment {
    read(json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
              "metadata": {"namespace": "petri-system", "name": name, "uid": uid}, "spec": {"template": template}}))
}

fn read(object: Value) -> Environment {
    kept::<Guarded<EphemeralEnvironment>, _>(object)
}

fn owned(namespace: &str, name: &str, uid: &str) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "labels": {LABEL_ENVIRONMENT_UID: uid}}})
}

fn caches() -> Caches {
    let caches = Caches::new("petri-system");
    caches.environments.apply(Apply(environment("a", "uid-a", "small")));
    caches.environments.apply(Apply(environment("b", "uid-b", "small")));
    caches.environments.apply(Apply(environment("c", "uid-c", "big")));
    caches
}

#[test]
fn a_template_wakes_itself_and_the_environments_that_use_it() {
    let keys = caches().woken_by_template("small");
    assert_eq!(keys, [Key::template("small"), Key::environment("a"), Key::environment("b")]);
    assert_eq!(caches().woken_by_template("unused"), [Key::template("unused")]);
}

#[test]
fn an_environment_that_changes_its_template_is_found_by_the_new_one_only() {
    let caches = caches();
    caches.environments.apply(Apply(environment("a", "uid-a", "big")));
    assert_eq!(caches.environments_of_template("small").len(), 1);
    assert_eq!(caches.environments_of_template("big").len(), 2);
}

#[test]
fn what_carries_an_environments_uid_wakes_it_and_what_carries_a_strangers_nobody() {
    let caches = caches();
    let woken = |object| caches.woken_by_owned(&job(object));
    assert_eq!(woken(owned("petri-env-1", "petri-deploy-x", "uid-b")), [Key::environment("b")]);
    assert!(woken(owned("petri-env-1", "petri-deploy-x", "uid-z")).is_empty());
    assert!(woken(json!({"metadata": {"name": "petri-deploy-x"}})).is_empty());
}

#[test]
fn a_workload_wakes_the_environment_that_its_namespace_is_labelled_with() {
    let caches = caches();
    caches.namespaces.apply(Apply(namespace(json!({"metadata": {
        "name": "petri-env-1", "labels": {LABEL_ENVIRONMENT_UID: "uid-c"}}}))));
    let workload = |namespace: &str| Workload {
        kind: WorkloadKind::StatefulSet,
        namespace: namespace.to_owned(),
        name: "db".to_owned(),
        uid: "u".to_owned(),
        resource_version: "1".to_owned(),
        generation: 1,
        observed_generation: 1,
        desired: 1,
        replicas: 1,
        updated: 1,
        available: 1,
        refused: None,
        deleting: false,
    };
    assert_eq!(caches.woken_by_workload(&workload("petri-env-1")), vec![Key::environment("c")].into());
    assert_eq!(caches.woken_by_workload(&workload("petri-env-2")), Vec::new().into());
    caches.workloads_of(WorkloadKind::StatefulSet).apply(Apply(workload("petri-env-1")));
    assert_eq!(caches.workloads_in("petri-env-1").len(), 1);
    assert!(caches.workload(WorkloadKind::StatefulSet, "petri-env-1", "db").is_some());
    assert!(caches.workload(WorkloadKind::Deployment, "petri-env-1", "db").is_none());
}

#[test]
fn what_is_in_a_namespace_that_goes_waits_for_more_news_and_an_undeploy_job_before_does_not() {
    let caches = caches();
    let place = |deleted: Value| {
        let place = namespace(json!({"metadata": {"name": "petri-env-1", "deletionTimestamp": deleted,
            "labels": {LABEL_ENVIRONMENT_UID: "uid-c"}}}));
        caches.namespaces.apply(Apply(place));
    };
    let told = || Told { why: "no image".to_owned(), cause: None };
    let pod = || WorkloadPod {
        namespace: "petri-env-1".to_owned(),
        name: "db-0".to_owned(),
        resource_version: "1".to_owned(),
        workload: ("StatefulSet", "db".to_owned()),
        told: Some(told()),
    };
    let soon = || {
        let job = caches.woken_by_job(&job(owned("petri-env-1", "petri-undeploy-x", "uid-c")));
        let pod = caches.woken_by_pod(&pod());
        assert_eq!((&job.keys, &pod.keys), (&vec![Key::environment("c")], &vec![Key::environment("c")]));
        (job.after.is_zero(), pod.after.is_zero())
    };
    place(Value::Null);
    assert_eq!(soon(), (true, true));
    let leaves = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment", "metadata": {"namespace": "petri-system", "name": "c", "uid": "uid-c",
        "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"template": "big"}});
    caches.environments.apply(Apply(read(leaves)));
    assert_eq!(soon(), (true, false));
    place(json!("2026-01-01T00:00:00Z"));
    assert_eq!(soon(), (false, false));
}

#[test]
fn a_pod_wakes_when_it_begins_to_complain_and_when_it_ends_to_and_is_told_by_its_workload() {
    let caches = caches();
    caches.namespaces.apply(Apply(namespace(json!({"metadata": {
        "name": "petri-env-1", "labels": {LABEL_ENVIRONMENT_UID: "uid-c"}}}))));
    let told = |why: &str| Told { why: why.to_owned(), cause: None };
    let pod = |version: &str, told: Option<Told>| WorkloadPod {
        namespace: "petri-env-1".to_owned(),
        name: "db-0".to_owned(),
        resource_version: version.to_owned(),
        workload: ("StatefulSet", "db".to_owned()),
        told,
    };
    let woken = |pod: WorkloadPod| -> Vec<Key> {
        let changed = caches.workload_pods.apply(Apply(pod));
        changed.iter().flat_map(|pod| caches.woken_by_pod(pod).keys).collect()
    };
    assert!(woken(pod("1", None)).is_empty());
    assert_eq!(woken(pod("2", Some(told("no image")))), [Key::environment("c")]);
    assert!(woken(pod("3", Some(told("no image")))).is_empty());
    assert_eq!(caches.complaint("petri-env-1", "StatefulSet", "db"), Some(told("no image")));
    assert_eq!(caches.complaint("petri-env-1", "Deployment", "db"), None);
    assert_eq!(caches.complaint("petri-env-2", "StatefulSet", "db"), None);
    assert_eq!(woken(pod("4", None)), [Key::environment("c")]);
    assert_eq!(caches.complaint("petri-env-1", "StatefulSet", "db"), None);
}

#[test]
fn a_provider_wakes_itself_and_the_shared_components_made_from_it() {
    let caches = caches();
    let shared = |name: &str, provider: &str| {
        of(json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "SharedComponent",
                  "metadata": {"namespace": "petri-system", "name": name}, "spec": {"provider": provider}}))
    };
    caches.shared_components.apply(Apply(shared("db", "postgres")));
    caches.shared_components.apply(Apply(shared("cache", "redis")));
    let woken = caches.woken_by_provider("postgres");
    assert_eq!(woken, [Key::provider("postgres"), Key::shared_component("db")]);
}

#[test]
fn an_object_that_does_not_decode_is_kept_with_its_error_and_still_woken() {
    let caches = caches();
    let bad = json!({"metadata": {"namespace": "petri-system", "name": "bad", "uid": "uid-bad"}, "spec": {"template": 5}});
    caches.environments.apply(Apply(read(bad)));
    assert!(caches.environment("bad").unwrap().of.is_none());
    assert_eq!(caches.at_start().last(), Some(&(Lane::Start, Key::environment("bad"))));
    assert_eq!(caches.woken_by_owned(&job(owned("x", "y", "uid-bad"))), [Key::environment("bad")]);
}

#[test]
fn after_a_start_what_has_something_to_do_overtakes_what_rests() {
    let caches = Caches::new("petri-system");
    let add = |name: &str, generation: i64, status: Value| {
        caches.environments.apply(Apply(read(json!({
            "apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment", "spec": {"template": "small"},
            "metadata": {"namespace": "petri-system", "name": name, "generation": generation}, "status": status,
        }))));
    };
    add("ready", 2, json!({"phase": "Ready", "observedGeneration": 2}));
    add("failed", 1, json!({"phase": "Failed", "observedGeneration": 1}));
    add("changed", 3, json!({"phase": "Ready", "observedGeneration": 2}));
    add("deploying", 1, json!({"phase": "Deploying", "observedGeneration": 1}));
    add("new", 1, Value::Null);
    let key = Key::environment;
    let urgent = ["changed", "deploying", "new"].map(|name| (Lane::Event, key(name)));
    let resting = ["failed", "ready"].map(|name| (Lane::Start, key(name)));
    assert_eq!(caches.at_start(), [urgent.as_slice(), &resting].concat());
}

#[test]
fn jobs_are_found_by_the_environments_uid_in_all_namespaces() {
    let caches = caches();
    caches.jobs.apply(Apply(job(owned("petri-env-1", "deploy", "uid-a"))));
    caches.jobs.apply(Apply(job(owned("petri-shared", "provision", "uid-a"))));
    caches.jobs.apply(Apply(job(owned("petri-env-2", "deploy", "uid-b"))));
    assert_eq!(caches.jobs_of("uid-a").len(), 2);
    assert!(caches.pods_of("uid-a").is_empty());
}

#[tokio::test]
async fn the_caches_are_synced_when_the_last_first_list_is_complete() {
    let caches = Caches::new("petri-system");
    assert_eq!(caches.unsynced().len(), 11);
    assert!(futures::FutureExt::now_or_never(caches.wait_synced()).is_none());
    caches.sync_all();
    caches.wait_synced().await;
    assert!(caches.unsynced().is_empty());
}

//! One shared component and one consumer against the small API server.

use super::*;

const SHARED: &str = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/sharedcomponents/pg";
const PROVIDER: &str =
    "/apis/core.petri.run/v1alpha1/namespaces/petri-system/sharedcomponentproviders/postgres";

const HOLD_PROVIDER: &str =
    "PATCH /apis/core.petri.run/v1alpha1/namespaces/petri-system/sharedcomponentproviders/postgres";

fn shared(finalizers: Value, status: Value) -> Value {
    json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "SharedComponent",
        "metadata": {"name": "pg", "namespace": "petri-system", "uid": "shared", "resourceVersion": "4",
            "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
        "spec": {"provider": "postgres", "maxConsumers": 1}, "status": status})
}

fn provider(finalizers: Value) -> Value {
    json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "SharedComponentProvider",
        "metadata": {"name": "postgres", "namespace": "petri-system", "uid": "provider", "resourceVersion": "3",
            "finalizers": finalizers},
        "spec": {"helm": {"path": "/charts/postgres", "values": {"password": "{{ .Instance.PASSWORD }}"}},
            "instanceSecret": {"name": "pg", "keys": {"PASSWORD": {"generate": {"length": 20}}}}}})
}

fn stage(shared: Value, provider: Value) -> Stage {
    let stage = Stage::new(None, None);
    let mut server = stage.server.lock().unwrap();
    server.objects.insert(SHARED.to_owned(), shared);
    server.objects.insert(PROVIDER.to_owned(), provider);
    drop(server);
    stage
}

async fn pass(stage: &Stage) -> Vec<String> {
    stage.server.lock().unwrap().writes.clear();
    stage.operator.reconcile(&Key::shared_component("pg")).await;
    stage.server.lock().unwrap().writes.clone()
}

#[tokio::test]
async fn a_shared_component_holds_itself_then_its_provider_then_its_secret_before_anything_is_deployed() {
    let own = stage(shared(json!([]), json!({})), provider(json!([])));
    assert_eq!(pass(&own).await, [format!("PUT {SHARED}/status"), format!("PATCH {SHARED}")]);
    let mine = json!(["petri.run/shared-cleanup"]);
    let held = stage(shared(mine.clone(), json!({})), provider(json!([])));
    assert_eq!(pass(&held).await, [format!("PUT {SHARED}/status"), format!("PATCH {PROVIDER}")]);
    let both = stage(shared(mine.clone(), json!({})), provider(mine));
    let writes = pass(&both).await;
    assert_eq!(writes, [format!("PUT {SHARED}/status"), format!("POST {OBLIGATIONS}")]);
    let secret = both.last_body();
    assert_eq!(secret["metadata"]["name"], "pg");
    let status = both.server.lock().unwrap().bodies[0]["status"].clone();
    assert_eq!((&status["phase"], &status["ready"]), (&json!("Pending"), &json!(false)));
    assert!(!status.to_string().contains(secret["data"]["PASSWORD"].as_str().unwrap()), "{status}");
}

#[tokio::test]
async fn a_shared_component_that_is_deleted_waits_for_its_consumers_and_writes_nothing_more() {
    let holder =
        json!([{"uid": "env", "environment": "pr-7", "component": "db", "since": "2026-01-01T00:00:00Z"}]);
    let mine = json!(["petri.run/shared-cleanup"]);
    let mut object = shared(mine.clone(), json!({"consumers": 1, "consumerRefs": holder}));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    let stage = stage(object, provider(mine));
    stage.server.lock().unwrap().objects.insert(ENVIRONMENT.to_owned(), environment(json!([]), json!({})));
    assert_eq!(pass(&stage).await, [format!("PUT {SHARED}/status")]);
    let status = stage.last_body()["status"].clone();
    assert_eq!(status["consumerRefs"], holder);
    assert_eq!(status["conditions"][0]["message"], "waiting for its consumers to leave: pr-7/db");
    assert_eq!(pass(&stage).await, Vec::<String>::new(), "an idle one costs no write");
}

#[tokio::test]
async fn an_undecodable_shared_component_is_told_and_can_be_deleted() {
    let mine = json!(["petri.run/shared-cleanup"]);
    let mut object = shared(mine.clone(), json!({}));
    object["spec"]["maxConsumers"] = json!("many");
    let own = stage(object.clone(), provider(mine.clone()));
    assert_eq!(pass(&own).await, [format!("PATCH {SHARED}/status")]);
    let condition = own.last_body()["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Ready"), &json!("InvalidConfiguration")));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    object["status"] = json!({"controllerStateVersion": 1, "machine": {
        "phase": {"name": "Terminating", "cleaned": true}, "providers": ["postgres"]}});
    let own = stage(object, provider(mine));
    assert_eq!(pass(&own).await.last(), Some(&format!("PATCH {PROVIDER}")), "its provider is let go");
    own.server.lock().unwrap().objects.insert(PROVIDER.to_owned(), provider(json!([])));
    assert_eq!(pass(&own).await.last(), Some(&format!("PATCH {SHARED}")));
    assert_eq!(own.last_body()["metadata"]["finalizers"], json!([]));
}

#[tokio::test]
async fn a_list_of_consumers_that_cannot_be_read_is_told_and_is_no_obstacle_to_a_deletion() {
    let mine = json!(["petri.run/shared-cleanup"]);
    let torn =
        json!([{"uid": "", "environment": "pr-7", "component": "db", "since": "2026-01-01T00:00:00Z"}]);
    let mut object = shared(mine.clone(), json!({"consumerRefs": torn}));
    let own = stage(object.clone(), provider(mine.clone()));
    assert_eq!(pass(&own).await, [format!("PATCH {SHARED}/status")]);
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    let own = stage(object, provider(mine));
    let (first, second) = (pass(&own).await, pass(&own).await);
    assert_eq!(first.into_iter().chain(second).next_back(), Some(format!("PATCH {SHARED}")));
}

/// An instance secret as the server holds it, made for a shared component.
fn secret(shared: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pg", "namespace": "petri-shared",
        "uid": format!("secret-of-{shared}"),
        "labels": {"petri.run/managed": "true", "petri.run/shared-component": shared}},
        "data": {"PASSWORD": "c2VjcmV0"}})
}

#[tokio::test]
async fn each_shared_component_of_a_provider_has_an_instance_secret_of_its_own() {
    let mine = json!(["petri.run/shared-cleanup"]);
    let own = stage(shared(mine.clone(), json!({})), provider(mine.clone()));
    own.server.lock().unwrap().objects.insert(format!("{OBLIGATIONS}/pg"), secret("other"));
    let writes = pass(&own).await;
    assert_eq!(writes.last(), Some(&format!("POST {OBLIGATIONS}")));
    assert_eq!(own.last_body()["metadata"]["name"], "pg-pg", "the provider's name for it is taken");
    // The one that has it leaves the other's alone, and removes its own.
    for (maker, removes) in [("other", false), ("pg", true)] {
        let mut object = shared(mine.clone(), json!({}));
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
        let own = stage(object, provider(mine.clone()));
        own.server.lock().unwrap().objects.insert(format!("{OBLIGATIONS}/pg"), secret(maker));
        let removed = pass(&own).await.contains(&format!("DELETE {OBLIGATIONS}/pg"));
        assert_eq!(removed, removes, "made for {maker}");
    }
}

#[tokio::test]
async fn a_provider_is_judged_once_before_anybody_uses_it() {
    let own = stage(shared(json!([]), json!({})), provider(json!([])));
    own.operator.reconcile(&Key::provider("postgres")).await;
    let writes = own.server.lock().unwrap().writes.clone();
    assert_eq!(writes, [format!("PUT {PROVIDER}/status")]);
    let condition = own.last_body()["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Accepted"), &json!("True")));
    own.operator.reconcile(&Key::provider("postgres")).await;
    assert_eq!(own.server.lock().unwrap().writes.len(), 1, "said once");
}

#[tokio::test]
async fn a_right_that_is_missing_holds_nobody_who_uses_nothing_shared_and_is_told_to_the_others() {
    const LISTS: &str = "GET /api/v1/namespaces/petri-shared/secrets";
    let leaving = |slices: Value| {
        let machine = json!({"phase": {"name": "Terminating", "cleaned": false}, "slices": slices});
        let status = json!({"controllerStateVersion": 1, "machine": machine});
        let mut object = environment(json!(["petri.run/cleanup"]), status);
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
        Stage::new(Some(template()), Some(object)).refuses(LISTS, Some((403, "Forbidden")))
    };
    let aloof = leaving(json!({}));
    aloof.pass().await;
    aloof.pass().await;
    let writes = aloof.server.lock().unwrap().writes.clone();
    assert_eq!(writes, [FINALIZER]);
    let user = leaving(json!({"db": {"phase": {"name": "Provisioned"}, "shared": "pg", "level": 0}}));
    let (requeue, writes) = user.pass().await;
    assert!(writes == [STATUS] && requeue.after.is_some(), "{writes:?} {requeue:?}");
    let told = user.last_body()["status"]["conditions"][0]["message"].clone();
    assert!(told.as_str().is_some_and(|told| told.contains("no right to list the Secrets")), "{told}");
}

#[tokio::test]
async fn an_instance_secret_that_was_edited_is_mended_and_what_was_generated_stays() {
    let mine = json!(["petri.run/shared-cleanup"]);
    let mut provider = provider(mine.clone());
    provider["spec"]["instanceSecret"]["keys"]["USER"] = json!({"value": "admin"});
    let own = stage(shared(mine, json!({})), provider);
    let mut edited = secret("pg");
    edited["data"]["USER"] = json!("c29tZWJvZHk=");
    own.server.lock().unwrap().objects.insert(format!("{OBLIGATIONS}/pg"), edited);
    assert_eq!(pass(&own).await.last(), Some(&format!("PUT {OBLIGATIONS}/pg")));
    let data = own.last_body()["data"].clone();
    assert_eq!(data, json!({"USER": "YWRtaW4=", "PASSWORD": "c2VjcmV0"}));
}

#[tokio::test]
async fn a_shared_component_without_its_provider_says_so_and_makes_nothing() {
    let own = stage(shared(json!(["petri.run/shared-cleanup"]), json!({})), provider(json!([])));
    own.server.lock().unwrap().objects.remove(PROVIDER);
    assert_eq!(pass(&own).await, [format!("PUT {SHARED}/status")]);
    let condition = own.last_body()["status"]["conditions"][0].clone();
    assert_eq!(condition["reason"], "InvalidConfiguration");
    assert_eq!(condition["message"], "SharedComponentProvider \"postgres\" does not exist");
}

#[tokio::test]
async fn a_right_that_is_missing_is_in_the_shared_components_condition_until_it_is_given() {
    let held = stage(shared(json!(["petri.run/shared-cleanup"]), json!({})), provider(json!([])));
    let held = held.refuses(HOLD_PROVIDER, Some((403, "Forbidden")));
    let ready = |stage: &Stage| {
        let server = stage.server.lock().unwrap();
        let conditions = server.objects[SHARED]["status"]["conditions"].as_array().unwrap().clone();
        let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap();
        (ready["reason"].clone(), ready["message"].clone())
    };
    let refused = (json!("Refused"), json!("refused: Forbidden"));
    pass(&held).await;
    assert_eq!(ready(&held), refused);
    assert_eq!(pass(&held).await, [HOLD_PROVIDER], "what was told stands, and is not written again");
    assert_eq!(ready(&held), refused, "what is stored meanwhile says it, too");
    held.server.lock().unwrap().refusals.clear();
    pass(&held).await;
    pass(&held).await;
    assert_ne!(ready(&held).0, json!("Refused"));
}

#[tokio::test]
async fn under_a_definition_that_drops_the_shared_components_record_nothing_is_done() {
    let own = stage(shared(json!([]), json!({})), provider(json!([])));
    own.server.lock().unwrap().drops = Some("machine");
    let writes = pass(&own).await;
    assert_eq!(
        writes,
        [format!("PUT {SHARED}/status"), format!("PUT {SHARED}/status")],
        "no command is applied"
    );
    own.server.lock().unwrap().drops = None;
    assert_eq!(pass(&own).await, [format!("PUT {SHARED}/status"), format!("PATCH {SHARED}")]);
}

//! One shared component and one consumer against the small API server.

use super::*;

const SHARED: &str = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/sharedcomponents/pg";
const PROVIDER: &str =
    "/apis/core.petri.run/v1alpha1/namespaces/petri-system/sharedcomponentproviders/postgres";

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

//! What the API server does not take, and clocks that do not agree.

use super::*;

const NAMESPACES: &str = "POST /api/v1/namespaces";

fn ready(body: &Value) -> (String, String) {
    let conditions = body["status"]["conditions"].as_array().unwrap();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    let text = |key: &str| ready[key].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// The reason that the server holds.
fn stored(stage: &Stage) -> String {
    ready(&stage.server.lock().unwrap().objects[ENVIRONMENT]).0
}

#[tokio::test]
async fn a_right_that_is_missing_is_in_the_condition_until_it_is_given() {
    for missing in [FINALIZER, NAMESPACES] {
        let stage = new_environment().refuses(missing, Some((403, "Forbidden")));
        let (first, writes) = stage.pass().await;
        assert_eq!((first.error, writes.last().map(String::as_str)), (Some("rejected"), Some(STATUS)));
        assert_eq!(ready(&stage.last_body()), ("Refused".to_owned(), "refused: Forbidden".to_owned()));
        let (second, writes) = stage.pass().await;
        assert!(second.after > first.after, "{first:?} {second:?}");
        assert!(!writes.iter().any(|write| write == STATUS), "what was told stands: {writes:?}");
        assert_eq!(stored(&stage), "Refused", "what is stored meanwhile says it, too");
        stage.server.lock().unwrap().refusals.clear();
        stage.pass().await;
        stage.pass().await;
        assert_eq!(stored(&stage), "Progressing", "{missing}");
    }
}

#[tokio::test]
async fn without_the_right_to_store_nothing_is_done_and_it_is_tried_ever_more_slowly() {
    let stage = new_environment().refuses(STATUS, Some((403, "Forbidden")));
    let (first, writes) = stage.pass().await;
    assert_eq!(first.error, Some("rejected"));
    assert!(writes.iter().all(|write| write == STATUS), "{writes:?}");
    let (second, writes) = stage.pass().await;
    assert_eq!(writes, [STATUS], "it is told once");
    assert!(second.after > first.after, "{first:?} {second:?}");
}

#[tokio::test]
async fn under_a_definition_that_drops_the_record_nothing_is_done_and_the_condition_says_why() {
    let stage = new_environment();
    stage.server.lock().unwrap().drops = Some("machine");
    let (requeue, writes) = stage.pass().await;
    assert_eq!(requeue.error, Some("rejected"));
    assert_eq!(writes, [STATUS, STATUS], "no command is applied");
    let (reason, message) = ready(&stage.last_body());
    assert_eq!(reason, "Refused");
    assert!(message.contains("definition is older") && message.contains("crds/"), "{message}");
    stage.server.lock().unwrap().drops = None;
    assert_eq!(stage.pass().await.1, [STATUS, FINALIZER, NAMESPACES]);
}

#[tokio::test]
async fn an_hour_between_the_clocks_moves_the_expiry_and_nothing_else() {
    for hours in [-1, 0, 1] {
        let mut object = environment(json!([]), json!({}));
        let created = Clock.wall() + k8s_openapi::jiff::SignedDuration::from_hours(hours);
        object["metadata"]["creationTimestamp"] = json!(created.to_string());
        object["spec"]["ttl"] = json!("3h");
        let stage = Stage::new(Some(template()), Some(object));
        let (requeue, writes) = stage.pass().await;
        assert_eq!(writes, [STATUS, FINALIZER, NAMESPACES], "{hours} h");
        assert_eq!(requeue.error, None, "{hours} h");
        let server = stage.server.lock().unwrap();
        let status = &server.bodies[0]["status"];
        let expires: k8s_openapi::jiff::Timestamp = status["expiresAt"].as_str().unwrap().parse().unwrap();
        assert_eq!(expires.as_second(), created.as_second() + 3 * 3600, "the server's clock counts its life");
        assert_eq!(status["phase"], "Pending", "{hours} h");
    }
}

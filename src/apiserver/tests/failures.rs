//! What goes wrong on the server's side, and what is told of it.

use super::{
    operations::{Kept, served},
    *,
};
use crate::apiserver::trail;
use axum::{middleware::from_fn_with_state, routing::post};
use tokio::{io::AsyncWriteExt, net::TcpStream};

#[tokio::test]
async fn scenario_232_what_fails_on_the_servers_side_is_said_so_and_nothing_private_is_logged() {
    let (logs, _guard) = Kept::start();
    for (code, reason, expected, result) in
        [(403, "Forbidden", 500, "failed"), (409, "AlreadyExists", 409, "rejected")]
    {
        let api = Api::new();
        logs.clear();
        api.fake.state().faults.push_back(("POST".to_owned(), code, reason));
        let answer = api.post(json!({"name": "pr-1", "template": "demo"})).await;
        assert_eq!(answer.code, expected);
        assert_eq!(logs.take("petri::audit")[0]["result"], result);
        assert!(!logs.text().contains("PRIVATE") && !answer.text.contains("PRIVATE"), "{}", logs.text());
    }
}

#[tokio::test]
async fn scenario_232_a_panic_is_an_error_for_the_client_and_a_failure_in_the_audit_log() {
    let (logs, _guard) = Kept::start();
    let api = Api::new();
    async fn panics() {
        panic!("PRIVATE");
    }
    let router = Router::new()
        .route("/v1/environments", post(panics))
        .layer(from_fn_with_state(api.app.clone(), trail::keep));
    let request = Request::post("/v1/environments").body(Body::empty()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 500);
    let text = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    assert_eq!(
        (logs.take("petri::access")[0]["code"].clone(), logs.take("petri::audit").len()),
        (500.into(), 1)
    );
    assert_eq!(logs.take("petri::audit")[0]["result"], "failed");
    assert!(!logs.text().contains("PRIVATE") && !String::from_utf8_lossy(&text).contains("PRIVATE"));
}

#[tokio::test]
async fn scenario_232_what_was_written_is_audited_though_its_answer_is_too_large() {
    let (logs, _guard) = Kept::start();
    let api = Api::new();
    api.post(json!({"name": "pr-1", "template": "demo"})).await;
    let long = "x".repeat(5 << 20);
    api.fake.edit("pr-1", |object| object["status"] = json!({"phase": "Ready", "url": long}));
    logs.clear();
    let answer = api.post(json!({"name": "pr-1", "ttl": "1h"})).await;
    assert_eq!((answer.code, answer.error().as_str()), (500, "internal"));
    assert_eq!(api.fake.get("pr-1").unwrap()["spec"]["ttl"], "1h");
    let audit = logs.take("petri::audit");
    assert_eq!((audit[0]["result"].clone(), audit[0]["code"].clone()), (json!("updated"), json!(500)));
}

#[tokio::test]
async fn scenario_232_a_client_that_goes_away_takes_neither_its_change_nor_its_audit_line_with_it() {
    let (logs, _guard) = Kept::start();
    let api = Api::new();
    api.fake.state().pause = Duration::from_millis(150);
    let served = served(&api, 10, Duration::from_secs(5)).await;
    let mut client = TcpStream::connect(served.address).await.unwrap();
    let body = r#"{"name":"pr-1","template":"demo"}"#;
    let head = format!(
        "POST /v1/environments HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        body.len(),
        api.token(json!({}))
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(body.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(75)).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert!(api.fake.get("pr-1").is_some());
    let (access, audit) = (logs.take("petri::access"), logs.take("petri::audit"));
    assert_eq!((access.len(), audit.len()), (1, 1), "{}", logs.text());
    assert_eq!((access[0]["code"].clone(), access[0]["response_failed"].clone()), (json!(201), json!(true)));
    assert_eq!((audit[0]["result"].clone(), audit[0]["name"].clone()), (json!("created"), json!("pr-1")));
    served.ended.abort();
}

//! Who may come in.

use super::*;
use std::sync::atomic::Ordering::SeqCst;

async fn with(api: &Api, headers: &[(&str, &str)], path: &str) -> Answer {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    api.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn scenario_240_and_241_health_needs_no_token_and_everything_else_does() {
    let api = Api::new();
    api.app.readiness.look(&api.app.cluster).await;
    assert_eq!(with(&api, &[], "/healthz").await.code, 200);
    let before = with(&api, &[], "/readyz").await;
    assert_eq!((before.code, before.text.contains("issuer: waiting")), (503, true), "no keys yet");
    assert_eq!(api.get("/v1/templates").await.code, 200);
    assert_eq!(with(&api, &[], "/readyz").await.code, 200);
    for path in [
        "/v1/environments",
        "/v1/environments/a",
        "/v1/templates",
        "/openapi.json",
        "/metrics",
        "/nowhere",
        "/",
    ] {
        let answer = with(&api, &[], path).await;
        assert_eq!((answer.code, answer.error().as_str()), (401, "unauthenticated"), "{path}");
    }
    let token = api.token(json!({}));
    let good = format!("Bearer {token}");
    assert_eq!(with(&api, &[("authorization", &good)], "/openapi.json").await.code, 200);
    assert_eq!(with(&api, &[("authorization", &format!("bearer {token}"))], "/v1/templates").await.code, 200);
    for headers in [
        vec![("authorization", token.as_str())],
        vec![("authorization", "Bearer")],
        vec![("authorization", "Bearer ")],
        vec![("authorization", "Basic dXNlcjpwYXNz")],
        vec![("authorization", &good), ("authorization", &good)],
        vec![("x-authorization", &good)],
        vec![("cookie", &good)],
    ] {
        assert_eq!(with(&api, &headers, "/v1/templates").await.code, 401, "{headers:?}");
    }
    let two = format!("Bearer {token} {token}");
    assert_eq!(with(&api, &[("authorization", &two)], "/v1/templates").await.code, 401);
    assert_eq!(with(&api, &[], &format!("/v1/templates?access_token={token}")).await.code, 401);
}

#[tokio::test]
async fn scenario_202_an_identity_that_is_not_listed_is_forbidden_and_a_malformed_one_is_none() {
    let api = Api::new();
    for (claims, code) in [
        (json!({}), 200),
        (json!({"repository_owner": "evil", "repository": "evil/app"}), 403),
        (json!({"repository_owner": "Acme"}), 403),
        (json!({"repository_owner": ""}), 403),
        (json!({"repository_owner": " acme"}), 403),
        (json!({"repository_owner": null}), 401),
        (json!({"repository_owner": ["acme"]}), 401),
        (json!({"repository": 5}), 401),
        (json!({"repository": null}), 401),
        (json!({"repository_id": {}}), 401),
    ] {
        for path in ["/v1/templates", "/nowhere"] {
            let answer = api.ask(claims.clone(), "GET", path, Body::empty()).await;
            let expected = if code == 200 && path == "/nowhere" { 404 } else { code };
            assert_eq!(answer.code, expected, "{claims} {path}: {answer:?}");
            assert!(!answer.text.contains("acme") && !answer.text.contains("evil"), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_is_down_is_said_and_is_not_the_clients_fault() {
    let api = Api::new();
    api.down.store(true, SeqCst);
    let answer = api.get("/v1/templates").await;
    assert_eq!((answer.code, answer.error().as_str()), (503, "identity_provider_unavailable"));
    assert!(answer.headers.contains_key("retry-after"));
    assert_eq!(with(&api, &[], "/healthz").await.code, 200);
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn scenario_193_and_194_the_development_token_is_compared_whole() {
    let mut api = Api::new();
    api.app.policy = Arc::new(Policy::Development);
    api.app.authenticator = Authenticator::fixed("0123456789abcdef");
    for (token, code) in [
        ("0123456789abcdef", 200),
        ("0123456789abcde", 401),
        ("0123456789abcdef0", 401),
        ("0123456789ABCDEF", 401),
        ("", 401),
        ("wrong", 401),
    ] {
        let header = format!("Bearer {token}");
        assert_eq!(with(&api, &[("authorization", &header)], "/v1/templates").await.code, code, "{token:?}");
    }
    api.app.authenticator = Authenticator::fixed("");
    assert_eq!(with(&api, &[("authorization", "Bearer ")], "/v1/templates").await.code, 401);
    assert_eq!(with(&api, &[], "/v1/templates").await.code, 401);
}

#[tokio::test]
async fn scenario_188_the_development_token_works_from_end_to_end() {
    let mut api = Api::new();
    api.app.policy = Arc::new(Policy::Development);
    api.app.authenticator = Authenticator::fixed("0123456789abcdef");
    let ask = |method: Method, path: &str, body: &str| {
        Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer 0123456789abcdef")
            .body(Body::from(body.to_owned()))
            .unwrap()
    };
    let made = api.send(ask(Method::POST, "/v1/environments", r#"{"name":"a","template":"b"}"#)).await;
    assert_eq!(made.code, 201);
    assert_eq!(api.send(ask(Method::GET, "/v1/environments/a", "")).await.code, 200);
    assert_eq!(api.send(ask(Method::DELETE, "/v1/environments/a", "")).await.code, 204);
}

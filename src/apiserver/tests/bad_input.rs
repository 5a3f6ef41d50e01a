//! What must be refused, with its exact code, and without a word to Kubernetes.

use super::*;
use crate::apiserver::oidc::tests::corpus::{Keys, corpus};

#[tokio::test]
async fn scenario_217_a_bad_body_is_refused_before_kubernetes_hears_of_it() {
    let api = Api::new();
    let deep = format!("{{\"name\":\"a\",\"template\":\"b\",\"values\":{}", "{\"a\":".repeat(10_000));
    let long_ttl = format!("{{\"name\":\"a\",\"template\":\"b\",\"ttl\":\"{}\"}}", "1h".repeat(40));
    let cases: Vec<(&str, &[u8])> = vec![
        ("nothing", b""),
        ("no JSON", b"name: pr-1"),
        ("a list", b"[]"),
        ("a text", b"\"pr-1\""),
        ("null", b"null"),
        ("cut off", b"{\"name\":\"pr-1\""),
        ("two documents", b"{\"name\":\"a\",\"template\":\"b\"} {}"),
        ("rubbish after it", b"{\"name\":\"a\",\"template\":\"b\"}x"),
        ("a field twice", b"{\"name\":\"a\",\"name\":\"b\",\"template\":\"c\"}"),
        ("a map's key twice", b"{\"name\":\"a\",\"template\":\"b\",\"values\":{\"k\":\"1\",\"k\":\"2\"}}"),
        ("an unknown field", b"{\"name\":\"a\",\"template\":\"b\",\"namespace\":\"default\"}"),
        ("another case", b"{\"Name\":\"a\",\"template\":\"b\"}"),
        ("no name", b"{\"template\":\"b\"}"),
        ("no template", b"{\"name\":\"new\"}"),
        ("a null", b"{\"name\":\"a\",\"template\":\"b\",\"ttl\":null}"),
        ("a null value", b"{\"name\":\"a\",\"template\":\"b\",\"values\":{\"k\":null}}"),
        ("a number for a name", b"{\"name\":1,\"template\":\"b\"}"),
        ("a number for a value", b"{\"name\":\"a\",\"template\":\"b\",\"values\":{\"k\":1}}"),
        ("a list for values", b"{\"name\":\"a\",\"template\":\"b\",\"values\":[]}"),
        ("a boolean variable", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"K\":true}}"),
        ("an empty variable", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"K\":{}}}"),
        ("a variable that is two", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"K\":{\"value\":\"x\",\"secretKeyRef\":{\"component\":\"c\",\"key\":\"k\"}}}}"),
        ("a foreign reference", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"K\":{\"secretKeyRef\":{\"name\":\"s\",\"key\":\"k\"}}}}"),
        ("an unknown source", b"{\"name\":\"a\",\"template\":\"b\",\"source\":{\"tag\":\"x\"}}"),
        ("not UTF-8", b"{\"name\":\"a\",\"template\":\"\xff\"}"),
        ("a deep body", deep.as_bytes()),
        ("an upper-case name", b"{\"name\":\"PR-1\",\"template\":\"b\"}"),
        ("a name with a dot", b"{\"name\":\"pr.1\",\"template\":\"b\"}"),
        ("a name with a dash at its end", b"{\"name\":\"pr-\",\"template\":\"b\"}"),
        ("a name that leaves its folder", b"{\"name\":\"../x\",\"template\":\"b\"}"),
        ("an empty name", b"{\"name\":\"\",\"template\":\"b\"}"),
        ("a long name", b"{\"name\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"template\":\"b\"}"),
        ("a template that is no name", b"{\"name\":\"a\",\"template\":\"../b\"}"),
        ("a negative ttl", b"{\"name\":\"a\",\"template\":\"b\",\"ttl\":\"-1h\"}"),
        ("an empty path of a value", b"{\"name\":\"a\",\"template\":\"b\",\"values\":{\"\":\"x\"}}"),
        ("an assignment for a path", b"{\"name\":\"a\",\"template\":\"b\",\"values\":{\"a=b\":\"x\"}}"),
        ("a variable that is no name", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"A-B\":\"x\"}}"),
        ("a reference to nothing", b"{\"name\":\"a\",\"template\":\"b\",\"env\":{\"K\":{\"secretKeyRef\":{\"component\":\"\",\"key\":\"k\"}}}}"),
        ("a ttl that is none", b"{\"name\":\"a\",\"template\":\"b\",\"ttl\":\"forever\"}"),
        ("a long ttl", long_ttl.as_bytes()),
    ];
    for (name, body) in cases {
        let answer = api.ask(json!({}), "POST", "/v1/environments", body.to_vec()).await;
        assert_eq!((answer.code, answer.error().as_str()), (400, "invalid_request"), "{name}: {answer:?}");
        assert!(answer.text.len() < 1_200, "{name} is repeated at length");
    }
    let calls = api.fake.calls();
    assert!(
        calls.iter().all(|call| call.ends_with("/new")),
        "only the missing template needs a look: {calls:?}"
    );
    assert!(api.fake.state().objects.is_empty());
}

#[tokio::test]
async fn scenario_244_a_client_is_told_which_field_is_wrong_and_what_it_may_be() {
    let api = Api::new();
    for (body, told) in [
        (json!({"template": "demo"}), "missing field `name`"),
        (json!({"name": "Not_A_Name", "template": "demo"}), "name: must be 1 to 63 lower-case letters"),
        (json!({"name": "new"}), "template: is needed for a new environment"),
        (json!({"name": "new", "template": "demo", "namespace": "default"}), "unknown field `namespace`"),
        (json!({"name": "new", "template": "demo", "ttl": "1d"}), "ttl: must be a Go duration"),
        (json!({"name": "new", "template": "demo", "values": {".a": "b"}}), "values: a key is a path"),
        (json!({"name": "new", "template": "demo", "env": {"A B": "b"}}), "env: a name has letters"),
        (
            json!({"name": "new", "template": "demo", "source": {"sha": "x".repeat(200)}}),
            "source.sha: must have",
        ),
    ] {
        let answer = api.post(body.clone()).await;
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(answer.code == 400 && message.contains(told), "{body}: {answer:?}");
    }
}

#[tokio::test]
async fn scenario_217_a_body_over_one_mebibyte_is_refused_and_not_kept() {
    let api = Api::new();
    let value = "x".repeat(1 << 20);
    let known = json!({"name": "a", "template": "b", "values": {"k": value}}).to_string();
    let chunks = (0..33).map(|_| Ok::<_, std::io::Error>("x".repeat(1 << 16)));
    for body in [Body::from(known), Body::from_stream(futures::stream::iter(chunks))] {
        let answer = api.ask(json!({}), "POST", "/v1/environments", body).await;
        assert_eq!((answer.code, answer.error().as_str()), (413, "payload_too_large"));
    }
    let fits =
        json!({"name": "a", "template": "b", "values": (0..8).map(|n| (n.to_string(), "x".repeat(131_000))).collect::<std::collections::BTreeMap<_, _>>()}).to_string();
    assert_eq!(api.ask(json!({}), "POST", "/v1/environments", fits).await.code, 201);
}

#[tokio::test]
async fn a_body_that_is_not_json_by_its_own_account_is_refused() {
    let api = Api::new();
    for (kind, code) in [
        ("application/x-www-form-urlencoded", 415),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("application/json; charset=utf-8", 201),
        ("APPLICATION/JSON", 200),
    ] {
        let request = Request::post("/v1/environments").header("content-type", kind);
        let request = request.header("authorization", format!("Bearer {}", api.token(json!({}))));
        let body = Body::from(r#"{"name":"a","template":"b"}"#);
        assert_eq!(api.send(request.body(body).unwrap()).await.code, code, "{kind}");
    }
}

#[tokio::test]
async fn scenario_218_and_242_a_path_can_be_written_in_one_way_only() {
    let api = Api::new();
    api.post(json!({"name": "a", "template": "b"})).await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/environments",
        "/environments",
        "/v1/environments/",
        "/v1/Environments",
        "/v1//environments",
        "//v1/environments",
        "/v1/environments//a",
        "/v1/environments/a/",
        "/v1/environments/%61",
        "/v1/environments/a%2fb",
        "/v1/environments/%2e%2e",
        "/v1/environments/a%00",
        "/v1/%65nvironments",
        "/v1/environments/a/b",
        "/v1/environments/a%2Fevents",
        "/openapi.json/",
        "/metrics",
        "/healthz/x",
        "/v1/environments/a/watch/x",
    ] {
        let answer = api.get(path).await;
        assert_eq!((answer.code, answer.error().as_str()), (404, "not_found"), "{path}: {answer:?}");
    }
    for name in ["A", "a_b", "a.b", "-a", "a-", "a:b", "a;b", "..", "~", &"a".repeat(64)] {
        let answer = api.get(&format!("/v1/environments/{name}")).await;
        assert_eq!((answer.code, answer.error().as_str()), (400, "invalid_request"), "{name}");
    }
    for (method, path) in [
        ("PUT", "/v1/environments/a"),
        ("PATCH", "/v1/environments/a"),
        ("POST", "/v1/environments/a"),
        ("DELETE", "/v1/environments"),
        ("PUT", "/v1/environments"),
        ("GET", "/v1/environments/a/retry"),
        ("DELETE", "/v1/environments/a/events"),
        ("OPTIONS", "/v1/environments"),
        ("TRACE", "/v1/environments"),
        ("ODD", "/v1/environments"),
        ("POST", "/openapi.json"),
        ("TRACE", "/v1/templates?limit=1"),
        ("POST", "/v1/templates?limit=1"),
    ] {
        let answer = api.ask(json!({}), method, path, Body::empty()).await;
        assert_eq!((answer.code, answer.error().as_str()), (405, "method_not_allowed"), "{method} {path}");
        assert!(answer.headers.contains_key("allow"), "{method} {path}");
    }
    for path in ["/v1/environments?dryRun=true", "/v1/environments?", "/v1/environments/a/retry?x=1"] {
        let answer = api.ask(json!({}), "POST", path, r#"{"name":"a","template":"b"}"#).await;
        assert_eq!(answer.code, 400, "{path}");
    }
    assert_eq!(api.ask(json!({}), "DELETE", "/v1/environments/a", r#"{"x":1}"#).await.code, 400);
    assert!(api.fake.get("a").is_some());
}

#[tokio::test]
async fn scenario_208_and_241_no_token_of_the_corpus_opens_anything_or_reaches_kubernetes() {
    let api = Api::new();
    let keys = Keys::new();
    api.issuer.rotate(keys.elliptic.clone());
    let bad = corpus(&api.issuer, &keys);
    for one in &bad {
        let header = axum::http::HeaderValue::from_str(&format!("Bearer {}", one.token));
        let request = Request::post("/v1/environments").header("content-type", "application/json");
        let request = request.header("authorization", header.unwrap());
        let answer = api.send(request.body(Body::from(r#"{"name":"a","template":"b"}"#)).unwrap()).await;
        assert_eq!((answer.code, answer.error().as_str()), (401, "unauthenticated"), "{}", one.name);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        let why = answer.json()["error"]["message"].clone();
        assert_eq!(why, "a valid bearer token is needed", "{} tells more than that", one.name);
    }
    assert!(api.fake.calls().is_empty());
    assert_eq!(api.post(json!({"name": "a", "template": "b"})).await.code, 201, "a good token still works");
}

//! The trace of a request, and of what it causes.

use super::{operations::Kept, *};
use crate::telemetry::{
    metrics::encode,
    trace::{Source, receiver::Receiver},
};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async fn traced() -> (Api, Receiver) {
    let (mut api, receiver) = (Api::new(), Receiver::default());
    let endpoint = receiver.start().await;
    api.app.tracer =
        Tracer::start(&endpoint, 100, Source::default(), api.app.metrics.common.clone()).unwrap();
    (api, receiver)
}

async fn spans(api: &Api, receiver: &Receiver) -> Vec<Span> {
    api.app.tracer.flush(Duration::from_secs(5)).await;
    receiver.spans()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn post(api: &Api, parent: Option<&str>, body: Value) -> Answer {
    let mut request = Request::post("/v1/environments");
    request = request.header("authorization", format!("Bearer {}", api.token(json!({}))));
    if let Some(parent) = parent {
        request = request.header("traceparent", parent);
    }
    api.send(request.body(Body::from(body.to_string())).unwrap()).await
}

fn held(api: &Api, name: &str) -> Value {
    api.fake.get(name).unwrap()["metadata"]["annotations"]["petri.run/traceparent"].clone()
}

#[tokio::test]
async fn a_request_is_a_span_its_calls_hang_below_it_and_so_does_the_rollout_that_it_causes() {
    let (logs, _guard) = Kept::start();
    let (api, receiver) = traced().await;
    let body = json!({"name": "pr-1", "template": "demo", "values": {"password": "hidden-value"}});
    assert_eq!(post(&api, None, body).await.code, 201);
    let found = spans(&api, &receiver).await;
    let root = found.iter().find(|span| span.name == "POST /v1/environments").unwrap();
    assert_eq!((root.kind(), root.parent_span_id.len()), (SpanKind::Server, 0));
    for name in ["verify token", "get ephemeralenvironments", "create ephemeralenvironments"] {
        let below =
            found.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert_eq!((&below.parent_span_id, &below.trace_id), (&root.span_id, &root.trace_id), "{name}");
    }
    let place = format!("00-{}-{}-01", hex(&root.trace_id), hex(&root.span_id));
    assert_eq!(held(&api, "pr-1"), place, "the operator goes on from here");
    let attributes: Vec<&str> = root.attributes.iter().map(|one| one.key.as_str()).collect();
    for key in ["http.request.method", "http.route", "http.response.status_code", "petri.environment.name"] {
        assert!(attributes.contains(&key), "{attributes:?}");
    }
    assert!(!format!("{found:?}").contains("hidden-value") && !format!("{found:?}").contains("eyJ"));
    assert!(logs.text().contains(&hex(&root.trace_id)), "log lines bear the trace: {}", logs.text());
    let text = encode(&api.app.metrics.registry()).unwrap();
    assert!(text.contains(&format!("# {{trace_id=\"{}\"}}", hex(&root.trace_id))), "{text}");
    assert!(text.contains("petri_trace_spans_total{result=\"exported\"} 4"), "{text}");
}

#[tokio::test]
async fn the_callers_trace_goes_on_and_the_callers_decision_whether_it_is_seen_holds() {
    let (api, receiver) = traced().await;
    assert_eq!(post(&api, Some(CALLER), json!({"name": "seen", "template": "demo"})).await.code, 201);
    let unseen = CALLER.replacen("-01", "-00", 1);
    assert_eq!(post(&api, Some(&unseen), json!({"name": "unseen", "template": "demo"})).await.code, 201);
    let found = spans(&api, &receiver).await;
    let roots: Vec<&Span> = found.iter().filter(|span| span.name.starts_with("POST")).collect();
    let [root] = roots.as_slice() else { panic!("{roots:?}") };
    assert_eq!(
        (hex(&root.trace_id).as_str(), hex(&root.parent_span_id).as_str()),
        (&CALLER[3..35], &CALLER[36..52])
    );
    assert_eq!(held(&api, "seen"), format!("00-{}-{}-01", &CALLER[3..35], hex(&root.span_id)));
    assert!(held(&api, "unseen").as_str().unwrap().ends_with("-00"));
}

#[tokio::test]
async fn a_refusal_says_why_by_a_stable_word_and_probes_leave_no_spans() {
    let (api, receiver) = traced().await;
    for path in ["/healthz", "/readyz", "/v1/templates"] {
        api.send(Request::get(path).body(Body::empty()).unwrap()).await;
    }
    let found = spans(&api, &receiver).await;
    let mut named: Vec<&Span> = found.iter().collect();
    named.sort_by_key(|span| &span.name);
    let names: Vec<&str> = named.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["GET /v1/templates", "verify token"]);
    assert_eq!(named[1].status.as_ref().unwrap().message, "no_token");
}

#[tokio::test]
async fn a_rollout_never_goes_on_with_the_trace_of_an_earlier_one() {
    let api = Api::new();
    assert_eq!(post(&api, Some(CALLER), json!({"name": "pr-1", "template": "demo"})).await.code, 201);
    assert_eq!(held(&api, "pr-1"), CALLER, "without an own trace the caller's is the parent");
    assert_eq!(post(&api, None, json!({"name": "pr-1", "ttl": "1h"})).await.code, 200);
    assert_eq!(held(&api, "pr-1"), Value::Null);
}

//! What is kept of a request: its id, one line in the access log, one in the audit log if it may change something, the
//! counters and a span. Tokens, bodies and paths are in none of them.

use crate::{
    apiserver::{App, cluster::Written, error::ApiError, identity::Principal, metrics::RequestLabels},
    telemetry::trace::{self, Span},
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use opentelemetry::trace::{SpanContext, SpanId, TraceId};
use opentelemetry_semantic_conventions::attribute::{
    HTTP_REQUEST_METHOD, HTTP_RESPONSE_STATUS_CODE, HTTP_ROUTE,
};
use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::time::timeout;
use tracing::{Instrument as _, debug, error, error_span, info};

/// Filled in on the way.
#[derive(Clone, Default)]
pub struct Trail(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    principal: Option<Principal>,
    name: Option<String>,
    written: Option<Written>,
    traceparent: Option<String>,
}

impl Trail {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who asks.
    pub fn by(&self, principal: &Principal) {
        self.lock().principal = Some(principal.clone());
    }

    /// Notes which environment it is about.
    pub fn about(&self, name: &str) {
        self.lock().name = Some(name.to_owned());
    }

    /// Notes what was written, which stays true whatever becomes of the answer.
    pub fn wrote(&self, written: Written) {
        self.lock().written = Some(written);
    }

    /// Returns the place in a trace below which hangs what this request causes, as W3C `traceparent`.
    pub fn traceparent(&self) -> Option<String> {
        self.lock().traceparent.clone()
    }
}

/// Header of the request's id, in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 64;
/// Until the answer begins. A body has its own limit, each call to Kubernetes too.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Asked every few seconds by the kubelet: nobody looks for them in a trace or a log.
const UNTOLD: [&str; 2] = ["/healthz", "/readyz"];

/// What is told of a request when it was answered.
struct Told {
    app: App,
    id: String,
    method: &'static str,
    route: String,
    trail: Trail,
    begun: Instant,
    began: SystemTime,
    place: SpanContext,
    parent: SpanId,
    gone: Arc<AtomicBool>,
}

/// Says, when it is dropped, that nobody waits for the answer any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Surrounds everything else. A client that goes away takes its connection with it, but not the change that it asked
/// for: that runs on, to its end and its line in the audit log.
pub async fn keep(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("other", MatchedPath::as_str).to_owned();
    let (place, parent) = place_of(&app, request.headers(), !UNTOLD.contains(&route.as_str()));
    let waiting = Waiting(Arc::default());
    let told = Told {
        id: request_id(request.headers()),
        method: method(request.method()),
        route,
        trail: Trail::default(),
        begun: Instant::now(),
        began: trace::now(),
        place,
        parent: parent.as_ref().map_or(SpanId::INVALID, SpanContext::span_id),
        gone: Arc::clone(&waiting.0),
        app,
    };
    let above = if told.app.tracer.is_on() { Some(&told.place) } else { parent.as_ref() };
    told.trail.lock().traceparent = above.map(trace::traceparent);
    request.extensions_mut().insert(told.trail.clone());
    let span = error_span!("request", trace_id = %told.place.trace_id(), span_id = %told.place.span_id());
    let answer = tokio::spawn(told.answer(next.run(request)).instrument(span)).await;
    // It catches its own panics; only the end of the runtime ends it early.
    answer.unwrap_or_else(|_| ApiError::internal().into_response())
}

/// Returns the request's place in a trace, the caller's or one that begins here, and the caller's.
fn place_of(app: &App, headers: &HeaderMap, traced: bool) -> (SpanContext, Option<SpanContext>) {
    let parent = headers.get("traceparent").and_then(|parent| trace::parse(parent.to_str().ok()?));
    let id = match &parent {
        Some(parent) => parent.trace_id(),
        None => TraceId::from_hex(&random_id()).unwrap_or(TraceId::INVALID),
    };
    let sampled = match &parent {
        Some(parent) => app.tracer.is_on() && parent.is_sampled(),
        None => app.tracer.samples(id),
    };
    (trace::place(id, trace::fresh(id), sampled && traced), parent)
}

impl Told {
    async fn answer(self, run: impl Future<Output = Response>) -> Response {
        let run = timeout(REQUEST_TIME_MAX, AssertUnwindSafe(run).catch_unwind());
        let mut answer = match trace::within(&self.app.tracer, self.place.clone(), run).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                error!(request_id = self.id, "a request panicked");
                ApiError::internal().into_response()
            }
            Err(_) => ApiError::internal().into_response(),
        };
        self.tell(answer.status().as_u16());
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            answer.headers_mut().insert(REQUEST_ID, value);
        }
        answer.headers_mut().entry("cache-control").or_insert(HeaderValue::from_static("no-store"));
        answer.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        answer
    }

    fn tell(&self, code: u16) {
        let Self { id: request_id, method, route, trail, .. } = self;
        let labels = RequestLabels { route: route.clone(), method, code };
        self.app.metrics.requests.get_or_create(&labels).inc();
        let trace = Some(self.place.trace_id()).filter(|_| self.place.is_sampled());
        self.app.metrics.duration.observe(self.begun.elapsed(), trace);
        let duration_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let response_failed = self.gone.load(Ordering::SeqCst).then_some(true);
        if UNTOLD.contains(&route.as_str()) {
            debug!(target: "petri::access", request_id, method, route, code, duration_ms, response_failed, "request");
        } else {
            info!(target: "petri::access", request_id, method, route, code, duration_ms, response_failed, "request");
        }
        let seen = trail.lock();
        let name = seen.name.as_deref();
        if let Some(action) = action(method, route) {
            let (issuer, subject) = seen.principal.as_ref().map(Principal::named).unzip();
            let result = result(action, seen.written, code);
            info!(target: "petri::audit", request_id, action, result, name, issuer, subject, code, "audit");
        }
        let mut span =
            Span::new(format!("{method} {route}"), &self.place, self.parent, self.began, trace::now())
                .server()
                .with(HTTP_REQUEST_METHOD, method)
                .with(HTTP_ROUTE, route)
                .with(HTTP_RESPONSE_STATUS_CODE, code)
                .failed((code >= 500).then_some("server_error"));
        if let Some(name) = name {
            span = span.with("petri.environment.name", name);
        }
        self.app.tracer.emit(span);
    }
}

/// Names what a request would change.
fn action(method: &str, route: &str) -> Option<&'static str> {
    match (method, route) {
        ("POST", "/v1/environments") => Some("upsert"),
        ("DELETE", "/v1/environments/{name}") => Some("delete"),
        ("POST", "/v1/environments/{name}/extend") => Some("extend"),
        ("POST", "/v1/environments/{name}/retry") => Some("retry"),
        _ => None,
    }
}

fn result(action: &str, written: Option<Written>, code: u16) -> &'static str {
    match (written, code) {
        (Some(Written::Created), _) => "created",
        (_, 200..300) if action == "delete" => "deletion_accepted",
        (Some(Written::Updated | Written::Unchanged), _) | (None, 200..300) => "updated",
        (None, code) => refusal(code),
    }
}

fn refusal(code: u16) -> &'static str {
    match code {
        500.. => "failed",
        _ => "rejected",
    }
}

/// Takes a client's id if it is one and harmless, else makes one of 128 random bits.
fn request_id(headers: &HeaderMap) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut all = headers.get_all(REQUEST_ID).iter();
    if let (Some(only), None) = (all.next(), all.next())
        && let Ok(text) = only.to_str()
        && (1..=REQUEST_ID_MAX).contains(&text.len())
        && text.chars().all(plain)
    {
        return text.to_owned();
    }
    random_id()
}

/// Returns 32 hexadecimal digits. Without randomness they are zeros: an id is for finding lines again, no secret.
pub fn random_id() -> String {
    let mut bytes = [0_u8; 16];
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A client may invent methods, a metric's label may not.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(values: &[&[u8]]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(REQUEST_ID, HeaderValue::from_bytes(value).unwrap());
        }
        request_id(&headers)
    }

    #[test]
    fn scenario_228_a_good_request_id_is_kept_and_any_other_is_replaced() {
        let longest = "a".repeat(64);
        for good in ["a", "0a-b_c.D", &longest] {
            assert_eq!(kept(&[good.as_bytes()]), good);
        }
        let too_long = "a".repeat(65);
        let bad: [&[&[u8]]; 6] =
            [&[], &[b""], &[b"a b"], &[too_long.as_bytes()], &[b"a", b"b"], &["ä".as_bytes()]];
        for values in bad {
            let made = kept(values);
            assert!(made.len() == 32 && made.chars().all(|c| c.is_ascii_hexdigit()), "{values:?}: {made}");
            assert_ne!(made, kept(values), "each is another");
        }
        assert!(HeaderValue::from_bytes(b"a\r\nb").is_err(), "a line break never gets this far");
    }

    #[test]
    fn scenario_229_fifty_odd_methods_are_one_label() {
        for number in 0..50 {
            let odd = Method::from_bytes(format!("ODD{number}").as_bytes()).unwrap();
            assert_eq!(method(&odd), "OTHER");
        }
    }
}

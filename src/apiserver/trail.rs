//! What is kept of a request: its id, one line in the access log, one in the audit log if it may change something, and
//! the counters. Tokens, bodies and paths are in none of them.

use crate::apiserver::{App, error::ApiError, identity::Principal, metrics::RequestLabels};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures::FutureExt;
use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;
use tracing::{error, info};

/// Filled in on the way.
#[derive(Clone, Default)]
pub struct Trail(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    principal: Option<Principal>,
    name: Option<String>,
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
}

/// Header of the request's id, in both directions.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 64;
/// Until the answer begins. A body has its own limit, each call to Kubernetes too.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Surrounds everything else.
pub async fn keep(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = request_id(request.headers());
    let method = method(request.method());
    let matched = request.extensions().get::<MatchedPath>();
    let route = matched.map_or("other", MatchedPath::as_str).to_owned();
    let trail = Trail::default();
    request.extensions_mut().insert(trail.clone());
    let run = timeout(REQUEST_TIME_MAX, AssertUnwindSafe(next.run(request)).catch_unwind());
    let mut answer = match run.await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            error!(request_id = id, "a request panicked");
            ApiError::internal().into_response()
        }
        Err(_) => ApiError::internal().into_response(),
    };
    let code = answer.status().as_u16();
    app.metrics.requests.get_or_create(&RequestLabels { route: route.clone(), method, code }).inc();
    app.metrics.duration.observe(begun.elapsed().as_secs_f64());
    let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    info!(target: "petri::access", request_id = id, method, route, code, duration_ms, "request");
    if let Some(action) = action(method, &route) {
        let seen = trail.lock();
        let (issuer, subject) = seen.principal.as_ref().map(Principal::named).unzip();
        let (name, result) = (seen.name.as_deref(), result(action, code));
        info!(target: "petri::audit", request_id = id, action, result, name, issuer, subject, code, "audit");
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, value);
    }
    answer.headers_mut().entry("cache-control").or_insert(HeaderValue::from_static("no-store"));
    answer.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
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

fn result(action: &str, code: u16) -> &'static str {
    match code {
        201 => "created",
        204 if action == "delete" => "deletion_accepted",
        200..300 => "updated",
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

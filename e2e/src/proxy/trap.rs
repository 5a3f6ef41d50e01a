//! A line that writes down what is asked by whom, and strikes at one request: before it reaches the API server, or when
//! it was done there and its answer is lost.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{Method, header, request::Parts};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{BODY_MAX, forward, refusal};
use crate::petri::Error;

/// When a trap strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request is not forwarded.
    Before,
    /// The request is done and not answered.
    After,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Whether helm asked, and not the deployer itself.
    pub by_helm: bool,
    /// Whether it writes.
    pub writes: bool,
    /// Method, kind and name.
    pub what: String,
    /// When it came.
    pub at: Instant,
    /// When it was answered.
    pub answered: Option<Instant>,
}

type Strike = Box<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct Inner {
    calls: Vec<Call>,
    armed: Option<(String, Side, Strike)>,
}

struct Line {
    client: kube::Client,
    inner: Mutex<Inner>,
}

/// The running line; it ends with this value.
pub struct Trap {
    address: SocketAddr,
    task: JoinHandle<()>,
    line: Arc<Line>,
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Trap {
    /// Begins to listen before the API server that `config` names, and asks with its credentials only: helm sends none
    /// over a line without TLS.
    pub async fn start(mut config: kube::Config) -> Result<Self, Error> {
        let file = |source| Error::File { path: "loopback".into(), source };
        config.default_retry = false;
        let line = Arc::new(Line { client: kube::Client::try_from(config)?, inner: Mutex::default() });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(file)?;
        let address = listener.local_addr().map_err(file)?;
        let routes = Router::new().fallback(handle).with_state(Arc::clone(&line));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { address, task, line })
    }

    /// Returns the URL to put into a kubeconfig.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns what was asked since the last call.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.line.inner().calls)
    }

    /// Calls `strike` at the first of helm's writes that is called so.
    pub fn arm(&self, what: &str, side: Side, strike: impl Fn() + Send + Sync + 'static) {
        self.line.inner().armed = Some((what.to_owned(), side, Box::new(strike)));
    }

    /// Takes the trap away; whether it was still there.
    pub fn disarm(&self) -> bool {
        self.line.inner().armed.take().is_some()
    }
}

impl Line {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the call down and returns its number, and when to strike.
    fn note(&self, call: Call) -> (usize, Option<(Side, Strike)>) {
        let mut inner = self.inner();
        let wanted = |what: &str| call.by_helm && call.writes && call.what == what;
        let strike = match inner.armed.take() {
            Some((what, side, strike)) if wanted(&what) => Some((side, strike)),
            other => {
                inner.armed = other;
                None
            }
        };
        inner.calls.push(call);
        (inner.calls.len() - 1, strike)
    }
}

async fn handle(State(line): State<Arc<Line>>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::AUTHORIZATION);
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return refusal(413, "RequestEntityTooLarge") };
    let (number, strike) = line.note(call(&parts, &body));
    if let Some((Side::Before, strike)) = &strike {
        strike();
        return std::future::pending().await;
    }
    let answer = forward(&line.client, Request::from_parts(parts, Body::from(body))).await;
    if let Some((_, strike)) = strike {
        strike();
        return std::future::pending().await;
    }
    if let Some(call) = line.inner().calls.get_mut(number) {
        call.answered = Some(Instant::now());
    }
    answer.unwrap_or_else(|error| {
        let mut response = refusal(502, "ServiceUnavailable");
        *response.body_mut() = Body::from(error.to_string());
        response
    })
}

fn call(parts: &Parts, body: &Bytes) -> Call {
    let by_helm = parts.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let by_helm = by_helm.is_some_and(|agent| agent.starts_with("Helm/"));
    let writes = !matches!(parts.method, Method::GET | Method::HEAD);
    // `/api/v1/namespaces/NAMESPACE/KIND/NAME`; what is of no namespace stays as it is.
    let path = parts.uri.path();
    let within = path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/'));
    let object = within.map_or(path, |(_, object)| object);
    let name = match parts.method {
        Method::POST => serde_json::from_slice::<Value>(body).ok(),
        _ => None,
    };
    let name = name.as_ref().and_then(|object| object["metadata"]["name"].as_str());
    let name = name.map(|name| format!("/{name}")).unwrap_or_default();
    let what = format!("{} {object}{name}", parts.method);
    Call { by_helm, writes, what, at: Instant::now(), answered: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(method: &str, path: &str, agent: &str, body: &str) -> (bool, bool, String) {
        let request = http::Request::builder().method(method).uri(path).header("user-agent", agent).body(());
        let (parts, ()) = request.expect("a request").into_parts();
        let call = call(&parts, &Bytes::copy_from_slice(body.as_bytes()));
        (call.by_helm, call.writes, call.what)
    }

    #[test]
    fn a_call_is_named_by_its_object_wherever_it_stands() {
        let apply = seen("PATCH", "/api/v1/namespaces/n/configmaps/a?force=true", "Helm/4.3.1", "");
        assert_eq!(apply, (true, true, "PATCH configmaps/a".to_owned()));
        let create = r#"{"metadata":{"name":"hook"}}"#;
        let create = seen("POST", "/apis/batch/v1/namespaces/n/jobs", "Helm/4.3.1", create);
        assert_eq!(create, (true, true, "POST jobs/hook".to_owned()));
        let list = seen("GET", "/api/v1/namespaces/n/secrets?labelSelector=x", "kube", "");
        assert_eq!(list, (false, false, "GET secrets".to_owned()));
        assert_eq!(seen("GET", "/version", "Helm/4.3.1", "").2, "GET /version");
    }
}

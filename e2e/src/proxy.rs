//! A bad line between one client and the API server: it delays, cuts watches, refuses at random, and loses
//! answers of writes that were done.
//!
//! It listens on loopback without TLS and forwards over TLS, with the credentials that the client sends.

mod trap;
mod weather;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use futures::{StreamExt as _, stream};
use http::{Method, StatusCode, header};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::petri::Error;
pub use trap::{Call, Side, Trap};
pub use weather::Weather;
use weather::{Fate, Kind};

/// More than the API server takes.
const BODY_MAX: usize = 16 << 20;
/// Headers that belong to one connection and are not forwarded.
const HOP_BY_HOP: [header::HeaderName; 5] =
    [header::HOST, header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::UPGRADE];

/// What was done to the requests, by kind.
pub type Tally = BTreeMap<&'static str, usize>;

/// The running proxy; it ends with this value.
pub struct Proxy {
    address: SocketAddr,
    task: JoinHandle<()>,
    line: Arc<Line>,
}

struct Line {
    client: kube::Client,
    weather: Mutex<Weather>,
    tally: Mutex<Tally>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Begins to listen before the API server that `config` names; credentials in it are not used.
    pub async fn start(mut config: kube::Config, weather: Weather) -> Result<Self, Error> {
        let file = |source| Error::File { path: "loopback".into(), source };
        config.auth_info = Default::default();
        config.default_retry = false;
        let client = kube::Client::try_from(config)?;
        let line =
            Arc::new(Line { client, weather: Mutex::new(weather), tally: Mutex::new(Tally::default()) });
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

    /// Returns what was done so far.
    pub fn tally(&self) -> Tally {
        self.line.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Line {
    fn count(&self, what: &'static str) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner).entry(what).or_default() += 1;
    }

    fn fate(&self, kind: Kind) -> Fate {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner).fate(kind)
    }
}

async fn forward(client: &kube::Client, request: Request) -> Result<Response, Error> {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, BODY_MAX).await.map_err(|error| Error::Wrong(error.to_string()))?;
    HOP_BY_HOP.iter().for_each(|name| drop(parts.headers.remove(name)));
    // The client puts its own server before the path.
    parts.uri = parts.uri.path_and_query().map_or("/", |path| path.as_str()).parse().unwrap_or_default();
    let request = http::Request::from_parts(parts, kube::client::Body::from(body.to_vec()));
    let (mut parts, body) = client.send(request).await?.into_parts();
    HOP_BY_HOP.iter().for_each(|name| drop(parts.headers.remove(name)));
    Ok(Response::from_parts(parts, Body::new(body)))
}

async fn handle(State(line): State<Arc<Line>>, request: Request) -> Response {
    let kind = kind(&request);
    let fate = line.fate(kind);
    tokio::time::sleep(fate.delay()).await;
    if let Fate::Refused { code, reason, name, .. } = fate {
        line.count(name);
        return refusal(code, reason);
    }
    let response = match forward(&line.client, request).await {
        Ok(response) => response,
        Err(error) => {
            line.count("unreachable");
            let mut response = refusal(502, "ServiceUnavailable");
            *response.body_mut() = Body::from(error.to_string());
            return response;
        }
    };
    match fate {
        Fate::Lost { .. } => {
            line.count("answers lost");
            broken(response, stream::empty())
        }
        Fate::Cut { after, .. } => {
            line.count("watches cut");
            let (parts, body) = response.into_parts();
            let some = body.into_data_stream().take_until(Box::pin(tokio::time::sleep(after)));
            broken(Response::from_parts(parts, Body::empty()), some)
        }
        Fate::Passed { .. } | Fate::Refused { .. } => {
            line.count("passed");
            response
        }
    }
}

fn kind(request: &Request) -> Kind {
    let watches = request.uri().query().unwrap_or_default().split('&').any(|one| one.starts_with("watch="));
    match *request.method() {
        Method::GET if watches => Kind::Watch,
        Method::GET => Kind::Read,
        _ => Kind::Write,
    }
}

/// Answers as `response`, with a body that breaks off after `some`.
fn broken(
    response: Response,
    some: impl futures::Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
) -> Response {
    let off = stream::once(async { Err(axum::Error::new(std::io::Error::other("the line broke"))) });
    let (parts, _) = response.into_parts();
    Response::from_parts(parts, Body::from_stream(some.chain(off)))
}

/// An error as the API server writes one.
fn refusal(code: u16, reason: &str) -> Response {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("made up by the test: {reason}"), "reason": reason, "code": code,
    });
    let mut response = Response::new(Body::from(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

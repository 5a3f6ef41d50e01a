//! Logs, counters, readiness, and the life of the listeners.

use super::*;
use crate::{
    apiserver::{both, listen},
    telemetry::{health, metrics::encode},
};
use std::{
    io::{self, Write},
    sync::Mutex,
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Kept {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Kept {
    pub(super) fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        // While there is one subscriber only, tracing asks a thread that has none whether a line is wanted at all, and
        // keeps its no for all threads; so there are two.
        static SECOND: std::sync::OnceLock<tracing::Dispatch> = std::sync::OnceLock::new();
        SECOND.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
        let kept = Self::default();
        let subscriber =
            tracing_subscriber::fmt().json().flatten_event(true).with_writer(kept.clone()).finish();
        (kept, tracing::subscriber::set_default(subscriber))
    }

    /// Takes the lines of one log, as JSON.
    pub(super) fn take(&self, target: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["target"] == target).collect()
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    pub(super) fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn scenario_229_each_request_is_one_access_line_and_each_change_one_audit_line() {
    let (logs, _guard) = Kept::start();
    let api = Api::new();
    let body =
        json!({"name": "pr-1", "template": "demo", "values": {"password": "hidden-value"}}).to_string();
    let evil = json!({"repository_owner": "evil", "repository": "evil/app"});
    let token = api.token(json!({}));
    for (claims, method, path, body, code, result) in [
        (json!({}), "POST", "/v1/environments", body.as_str(), 201, Some("created")),
        (json!({}), "POST", "/v1/environments", r#"{"name":"pr-1","ttl":"1h"}"#, 200, Some("updated")),
        (json!({}), "POST", "/v1/environments", r#"{"name":"hidden-value""#, 400, Some("rejected")),
        (json!({"sub": null}), "POST", "/v1/environments", body.as_str(), 401, Some("rejected")),
        (evil, "POST", "/v1/environments", body.as_str(), 403, Some("rejected")),
        (json!({}), "POST", "/v1/environments/absent/retry", "", 404, Some("rejected")),
        (json!({}), "DELETE", "/v1/environments/pr-1", "", 204, Some("deletion_accepted")),
        (json!({}), "DELETE", "/v1/environments/pr-1", "", 404, Some("rejected")),
        (json!({}), "GET", "/v1/environments", "", 200, None),
        (json!({}), "PUT", "/v1/environments", "", 405, None),
        (json!({}), "POST", "/hidden-value", "", 404, None),
    ] {
        logs.clear();
        let answer = api.ask(claims, method, path, body.to_owned()).await;
        assert_eq!(answer.code, code, "{method} {path}: {answer:?}");
        let access = logs.take("petri::access");
        assert_eq!((access.len(), access[0]["code"].clone()), (1, code.into()), "{method} {path}");
        let audit = logs.take("petri::audit");
        assert_eq!(audit.first().map(|line| line["result"].as_str().unwrap()), result, "{method} {path}");
        assert!(audit.len() <= 1);
        if let Some(line) = audit.first() {
            let known = line.get("subject").is_some();
            assert_eq!(known, code != 401, "{line}");
            assert_eq!(line["request_id"], answer.headers["x-request-id"].to_str().unwrap());
        }
        let text = logs.text();
        assert!(!text.contains("hidden-value") && !text.contains("eyJ") && !text.contains(&token), "{text}");
    }
    let text = encode(&api.app.metrics.registry()).unwrap();
    for line in [
        r#"petri_http_requests_total{route="/v1/environments",method="POST",code="201"} 1"#,
        r#"petri_http_requests_total{route="/v1/environments/{name}",method="DELETE",code="204"} 1"#,
        r#"petri_http_requests_total{route="other",method="POST",code="404"} 1"#,
        r#"petri_auth_failures_total{reason="not_listed"} 1"#,
        r#"petri_auth_failures_total{reason="claims"} 1"#,
        "petri_http_request_duration_seconds_count 11",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    assert!(!text.contains("pr-1") && !text.contains("hidden-value"), "no name is a label");
}

#[tokio::test]
async fn scenario_252_readiness_follows_the_cluster_and_liveness_does_not() {
    let api = Api::new();
    assert_eq!(api.get("/v1/templates").await.code, 200);
    let probe = async |path: &str| {
        api.app.readiness.look(&api.app.cluster).await;
        api.send(Request::get(path).body(Body::empty()).unwrap()).await.code
    };
    assert_eq!(probe("/readyz").await, 200);
    for (code, reason) in [(403, "Forbidden"), (404, "NotFound")] {
        for path in ["/readyz", "/healthz"] {
            api.fake.state().faults.push_back(("GET".to_owned(), code, reason));
            assert_eq!(probe(path).await, if path == "/readyz" { 503 } else { 200 }, "{reason}");
        }
    }
    assert_eq!(probe("/readyz").await, 200);
}

#[tokio::test]
async fn scenario_230_metrics_are_on_their_own_port_only() {
    let api = Api::new();
    let registry = Arc::new(api.app.metrics.registry());
    let routes = health::expose(move || encode(&registry));
    for (method, path, code) in [
        (Method::GET, "/metrics", 200),
        (Method::HEAD, "/metrics", 200),
        (Method::POST, "/metrics", 405),
        (Method::GET, "/other", 404),
        (Method::GET, "/v1/environments", 404),
    ] {
        let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{method} {path}");
    }
    assert_eq!(api.send(Request::get("/metrics").body(Body::empty()).unwrap()).await.code, 401);
    assert_eq!(api.get("/metrics").await.code, 404);
}

pub(super) struct Served {
    pub(super) address: std::net::SocketAddr,
    pub(super) ended: JoinHandle<io::Result<()>>,
}

pub(super) async fn served(api: &Api, connections: usize, head: Duration) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = listen::Limits { connections, drain: Duration::from_secs(5), head };
    let ended = tokio::spawn(listen::serve(listener, api.router(), limits, api.app.stop.clone()));
    Served { address, ended }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_its_connection_and_idle_ones_make_room_for_others() {
    let api = Api::new();
    let served = served(&api, 50, Duration::from_millis(400)).await;
    let mut idle = Vec::new();
    for number in 0..50 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
        }
        idle.push(stream);
    }
    let begun = Instant::now();
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), rest(stream)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    for stream in idle {
        let answer = tokio::time::timeout(Duration::from_secs(5), rest(stream)).await.expect("closed");
        assert!(!answer.contains("200 OK"), "{answer}");
    }
    served.ended.abort();
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let api = Api::new();
    let served = served(&api, 10, Duration::from_secs(5)).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let long = format!("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Long: {}\r\n\r\n", "x".repeat(200_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let answer = tokio::time::timeout(Duration::from_secs(5), rest(stream)).await.unwrap();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    served.ended.abort();
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let api = Api::new();
    let slow = Body::from_stream(futures::stream::pending::<io::Result<String>>());
    let begun = tokio::time::Instant::now();
    let answer = api.ask(json!({}), "POST", "/v1/environments", slow).await;
    assert_eq!((answer.code, answer.error().as_str()), (408, "request_timeout"));
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_body_that_trickles_is_cut_off_in_its_time_and_nothing_is_written() {
    let api = Api::new();
    let served = served(&api, 10, Duration::from_secs(5)).await;
    let (mut answer, mut body) = TcpStream::connect(served.address).await.unwrap().into_split();
    let head = format!(
        "POST /v1/environments HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\nAuthorization: Bearer {}\r\n\r\n",
        api.token(json!({}))
    );
    body.write_all(head.as_bytes()).await.unwrap();
    let trickle = tokio::spawn(async move {
        while body.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut text = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), answer.read_to_end(&mut text)).await;
    let text = String::from_utf8_lossy(&text);
    assert!(ended.is_ok() && text.starts_with("HTTP/1.1 408") && text.contains("request_timeout"), "{text}");
    assert!(api.fake.calls().is_empty());
    trickle.abort();
    served.ended.abort();
}

#[tokio::test]
async fn scenario_233_a_stop_lets_requests_end_takes_no_more_and_ends() {
    let api = Api::new();
    api.fake.state().pause = Duration::from_millis(300);
    let served = served(&api, 10, Duration::from_secs(5)).await;
    let mut running = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "GET /v1/templates HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
        api.token(json!({}))
    );
    running.write_all(head.as_bytes()).await.unwrap();
    let idle = TcpStream::connect(served.address).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    api.stop.send_replace(true);
    let answer = tokio::time::timeout(Duration::from_secs(5), rest(running)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(rest(idle).await, "");
    assert!(served.ended.await.unwrap().is_ok());
    assert!(TcpStream::connect(served.address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn scenario_234_a_listener_that_fails_takes_the_other_one_with_it() {
    let (stop, stopping) = watch::channel(false);
    let failing = async { Err::<((), ()), _>(io::Error::other("gone")) };
    let error = both(failing, std::future::pending(), &stop).await.unwrap_err();
    assert_eq!((error.to_string().as_str(), *stopping.borrow()), ("gone", true));
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let error = crate::apiserver::bind(address).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot serve {address}")), "{error}");
}

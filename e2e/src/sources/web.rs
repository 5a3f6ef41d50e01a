//! The web server of the chart sources: charts and git behind a login, and answers that no good server gives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::{PASSWORD, USER, base64};

/// No request of git for one commit is larger.
const BODY_MAX: usize = 1 << 20;

/// Host and path of each request that carried a login.
pub type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// What is served.
pub struct Served {
    /// Files below `charts/` and `bad/`, by their path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The folder of the git repositories.
    pub git: PathBuf,
    /// Written with each request that carries a login.
    pub seen: Seen,
    /// The server's own port.
    pub port: u16,
}

/// Returns the routes.
pub fn router(served: Arc<Served>) -> Router {
    Router::new().fallback(answer).with_state(served)
}

async fn answer(State(served): State<Arc<Served>>, request: Request) -> Response {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let login = text(&request, header::AUTHORIZATION);
    if login.is_some() {
        let host = text(&request, header::HOST).unwrap_or_default();
        served.seen.lock().unwrap_or_else(PoisonError::into_inner).push((host, path.clone()));
    }
    let (first, rest) = path.split_once('/').unwrap_or((&path, ""));
    let asks = [(header::WWW_AUTHENTICATE, "Basic realm=\"charts\"")];
    match (first, rest) {
        ("charts" | "git", _) if !is_good(login.as_deref()) => {
            (StatusCode::UNAUTHORIZED, asks).into_response()
        }
        ("git", rest) => git(&served, rest.to_owned(), request).await,
        ("charts" | "bad", _) => match served.files.get(&path) {
            Some(content) => content.clone().into_response(),
            None => StatusCode::NOT_FOUND.into_response(),
        },
        // To the same server under another name, which to a client is another host.
        ("redirect", rest) => {
            let to = format!("https://localhost:{}/{rest}", served.port);
            (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
        }
        ("drop", _) => dropped(),
        ("slow", _) => Response::new(Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>())),
        (code, _) => code.parse().ok().and_then(|code| StatusCode::from_u16(code).ok()).map_or_else(
            || StatusCode::NOT_FOUND.into_response(),
            axum::response::IntoResponse::into_response,
        ),
    }
}

fn text(request: &Request, name: header::HeaderName) -> Option<String> {
    request.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn is_good(login: Option<&str>) -> bool {
    login == Some(&format!("Basic {}", base64(format!("{USER}:{PASSWORD}").as_bytes())))
}

/// A line that breaks after the first bytes.
fn dropped() -> Response {
    let some = stream::once(async { Ok(Bytes::from_static(b"apiVersion: v1\n")) });
    let off = stream::once(async { Err(std::io::Error::other("the line broke")) });
    Response::new(Body::from_stream(some.chain(off)))
}

/// Asks git's own server, a program that speaks CGI.
async fn git(served: &Served, path: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let header =
        |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut program = Command::new("git");
    program.arg("http-backend").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    program.env("GIT_PROJECT_ROOT", &served.git).env("GIT_HTTP_EXPORT_ALL", "1").env("REMOTE_USER", USER);
    // The folder may be another user's: sshd serves it too.
    program
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*");
    program.env("PATH_INFO", format!("/{path}")).env("REQUEST_METHOD", parts.method.as_str());
    program.env("QUERY_STRING", parts.uri.query().unwrap_or_default());
    program.env("CONTENT_TYPE", header("content-type")).env("CONTENT_LENGTH", body.len().to_string());
    program
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"));
    match cgi(program, &body).await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn cgi(mut program: Command, body: &[u8]) -> std::io::Result<Response> {
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = piped.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read it has closed it.
        let _ = stdin.write_all(body).await;
    }
    let output = child.wait_with_output().await?.stdout;
    let end =
        output.windows(4).position(|four| four == b"\r\n\r\n").ok_or(std::io::ErrorKind::InvalidData)?;
    let mut response = Response::new(Body::from(output[end + 4..].to_vec()));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name == "Status" {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            *response.status_mut() = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) =
            (name.parse::<header::HeaderName>(), HeaderValue::from_str(value))
        {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(response)
}

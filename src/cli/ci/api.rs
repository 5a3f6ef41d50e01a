//! Requests to petri-apiserver. What may pass by itself is tried again until the time is over: all requests may be
//! repeated without harm.

use super::{Arguments, CiError, token::Tokens};
use crate::{
    apiserver::{body::Wanted, error::ErrorBody, view::Environment},
    error::causes,
};
use reqwest::{Certificate, Client, Method, Response, StatusCode, Url};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Ready,
    Failed,
    Gone,
    /// The client is to ask again.
    Again,
}

pub(super) struct Api {
    client: Client,
    base: Url,
    tokens: Tokens,
}

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest silence: a watch says something every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Longest line of a watch.
const LINE_MAX: usize = 8 << 20;

impl Api {
    pub(super) fn new(arguments: &Arguments, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, CiError> {
        let usage = |why: &str| CiError::Usage(why.to_owned());
        let base = Url::parse(&format!("{}/", arguments.server.trim_end_matches('/')))
            .map_err(|_| usage("--server or PETRI_SERVER must be the URL of petri-apiserver"))?;
        let local = base.host_str().is_some_and(|host| ["localhost", "127.0.0.1", "[::1]"].contains(&host));
        match base.scheme() {
            "https" => {}
            "http" if local || arguments.allow_http => {}
            _ => {
                return Err(usage(
                    "the server's URL must be https; --allow-http sends the token in the clear",
                ));
            }
        }
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_MAX)
            .read_timeout(SILENCE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("kubectl-petri/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &arguments.ca_file {
            let text = std::fs::read(path).map_err(|error| usage(&format!("--ca-file: {error}")))?;
            let all = Certificate::from_pem_bundle(&text).map_err(|error| usage(&causes(&error)))?;
            builder = builder.tls_certs_merge(all);
        }
        let client = builder.build().map_err(|error| usage(&causes(&error)))?;
        Ok(Self { client, base, tokens: Tokens::find(&arguments.audience, env)? })
    }

    pub(super) async fn put(&self, wanted: &Wanted, deadline: Instant) -> Result<Environment, CiError> {
        let body = serde_json::to_vec(wanted).map_err(|error| CiError::Usage(error.to_string()))?;
        let answer = self.send(Method::POST, "v1/environments", Some(body), deadline).await?;
        decoded(answer).await
    }

    pub(super) async fn retry(&self, name: &str, deadline: Instant) -> Result<Environment, CiError> {
        let path = format!("v1/environments/{name}/retry");
        decoded(self.send(Method::POST, &path, None, deadline).await?).await
    }

    pub(super) async fn delete(&self, name: &str, deadline: Instant) -> Result<(), CiError> {
        let path = format!("v1/environments/{name}");
        self.send(Method::DELETE, &path, None, deadline).await.map(drop)
    }

    /// Follows an environment until the server says that it is over, or the line breaks.
    pub(super) async fn watch(
        &self,
        name: &str,
        deadline: Instant,
        last: &mut Option<Environment>,
    ) -> Result<Ended, CiError> {
        let path = format!("v1/environments/{name}/watch");
        let mut answer = self.send(Method::GET, &path, None, deadline).await?;
        let mut lines = Lines::default();
        loop {
            let chunk = match timeout_at(deadline, answer.chunk()).await {
                // What is said next decides; the caller knows the time.
                Err(_) | Ok(Err(_)) | Ok(Ok(None)) => return Ok(Ended::Again),
                Ok(Ok(Some(chunk))) => chunk,
            };
            for (event, data) in lines.take(&chunk) {
                match event.as_str() {
                    "environment" => *last = serde_json::from_str(&data).ok().or(last.take()),
                    "end" => {
                        let said: serde_json::Value = serde_json::from_str(&data).unwrap_or_default();
                        return Ok(match said["reason"].as_str() {
                            Some("ready") => Ended::Ready,
                            Some("failed") => Ended::Failed,
                            Some("gone") => Ended::Gone,
                            _ => Ended::Again,
                        });
                    }
                    _ => {}
                }
            }
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Response, CiError> {
        let url = self.base.join(path).map_err(|_| CiError::Usage(format!("{path} makes no URL")))?;
        let mut pause = Duration::from_secs(1);
        loop {
            let why = match self.attempt(&method, url.clone(), body.clone(), deadline).await {
                Err(CiError::Unreachable(why)) => why,
                other => return other,
            };
            if Instant::now() + pause >= deadline {
                return Err(CiError::Unreachable(why));
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(10));
        }
    }

    async fn attempt(
        &self,
        method: &Method,
        url: Url,
        body: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Response, CiError> {
        let token = self.tokens.get(&self.client).await?;
        let mut request = self.client.request(method.clone(), url).bearer_auth(token);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let late = |_| CiError::Unreachable("no answer in time".to_owned());
        let answer = timeout_at(deadline, request.send()).await.map_err(late)?;
        let answer = answer.map_err(|error| CiError::Unreachable(causes(&error.without_url())))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(CiError::Unreachable(format!("the API server answers {status}")))
            }
            status => {
                let text = answer.bytes().await.unwrap_or_default();
                let told: Option<ErrorBody> = serde_json::from_slice(&text).ok();
                let (code, message) = told.map_or_else(
                    || {
                        (
                            "unknown".to_owned(),
                            format!("the server answers {status}, and not as petri-apiserver"),
                        )
                    },
                    |told| (told.error.code.into_owned(), told.error.message),
                );
                Err(CiError::Refused { code, message })
            }
        }
    }
}

async fn decoded(answer: Response) -> Result<Environment, CiError> {
    let text = answer.bytes().await.map_err(|error| CiError::Unreachable(causes(&error)))?;
    serde_json::from_slice(&text).map_err(|_| CiError::Unreachable("the answer is no environment".to_owned()))
}

/// Server-sent events out of pieces of text.
#[derive(Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
    event: String,
    data: String,
}

impl Lines {
    pub(super) fn take(&mut self, chunk: &[u8]) -> Vec<(String, String)> {
        self.rest.extend_from_slice(chunk);
        let mut done = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                let (event, data) = (std::mem::take(&mut self.event), std::mem::take(&mut self.data));
                if !event.is_empty() {
                    done.push((event, data));
                }
            } else if let Some(name) = line.strip_prefix("event:") {
                self.event = name.trim_start().to_owned();
            } else if let Some(text) = line.strip_prefix("data:") {
                self.data.push_str(text.trim_start());
            }
        }
        if self.rest.len() > LINE_MAX {
            self.rest.clear();
        }
        done
    }
}

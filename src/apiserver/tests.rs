//! The API as clients see it, over a management namespace in memory.

mod accounts;
mod bad_input;
mod failures;
mod fake;
mod handlers;
mod operations;
mod random;
mod traces;

use super::{
    App, Authenticator, Cluster, Metrics, Policy, Readiness,
    identity::{AdminClaim, Principal},
    oidc::{Expect, Verifier},
    policy::Lists,
    routes,
    testing::{AUDIENCE, Direct, acme, expect, issuer::Issuer},
};
use crate::{clock::Clock, telemetry::trace::Tracer};
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request},
};
use fake::Fake;
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    },
    time::Duration,
};
use tokio::sync::watch;
use tower::ServiceExt;

/// The API on top of a fake namespace, with an issuer that needs no network.
struct Api {
    app: App,
    fake: Fake,
    issuer: Issuer,
    down: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
}

/// One answer.
#[derive(Debug)]
struct Answer {
    code: u16,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    fn error(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Api {
    fn new() -> Self {
        let issuer = Issuer::new("https://issuer.example");
        issuer.set_claims(acme());
        let down = Arc::new(AtomicBool::new(false));
        let source = Direct(issuer.clone(), Arc::new(AtomicUsize::new(0)), Arc::clone(&down));
        let admin = Some(AdminClaim { claim: "groups".to_owned(), values: vec!["ops".to_owned()] });
        let expect = Expect { admin, ..expect(&issuer.url) };
        let metrics = Metrics::default();
        let verifier = Verifier::new(Box::new(source), expect, Clock, metrics.clone());
        let lists = Lists { organizations: ["acme".to_owned()].into(), ..Lists::default() };
        let (stop, stopping) = watch::channel(false);
        let fake = Fake::default();
        let app = App {
            cluster: Cluster::new(fake.client(), fake::NAMESPACE),
            authenticator: Authenticator::Oidc(Arc::new(verifier)),
            policy: Arc::new(Policy::Lists(lists)),
            extension_max: Duration::from_secs(7 * 86_400),
            tracer: Tracer::off(metrics.common.clone()),
            metrics,
            readiness: Readiness::default(),
            clock: Clock,
            stop: stopping,
        };
        Self { app, fake, issuer, down, stop }
    }

    fn router(&self) -> Router {
        routes::router(self.app.clone())
    }

    /// A token of `acme/app` with claims over the usual ones.
    fn token(&self, claims: Value) -> String {
        let key = self.issuer.key();
        let mut all = self.issuer.claims(AUDIENCE);
        for (name, value) in claims.as_object().unwrap() {
            all[name] = value.clone();
        }
        key.sign(&key.header(), &all)
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let answer = self.router().oneshot(request).await.unwrap();
        let (head, body) = answer.into_parts();
        let bytes = to_bytes(body, 64 << 20).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { code: head.status.as_u16(), headers: head.headers, text }
    }

    async fn ask(&self, claims: Value, method: &str, path: &str, body: impl Into<Body>) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {}", self.token(claims)));
        let body = body.into();
        self.send(request.header("content-type", "application/json").body(body).unwrap()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask(json!({}), "GET", path, Body::empty()).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.ask(json!({}), "DELETE", path, Body::empty()).await
    }

    async fn post(&self, body: Value) -> Answer {
        self.ask(json!({}), "POST", "/v1/environments", body.to_string()).await
    }

    /// Says that the operator has come to this.
    fn settle(&self, name: &str, phase: &str) {
        self.fake.edit(name, |object| {
            let generation = object["metadata"]["generation"].clone();
            let ready = if phase == "Ready" { "True" } else { "False" };
            let retry = object["metadata"]["annotations"]["petri.run/retry"].clone();
            object["status"] = json!({"phase": phase, "observedGeneration": generation,
                "targetNamespace": "petri-env-0a1b2c3d", "expiresAt": "2099-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": ready, "reason": "Told", "message": "as told",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "machine": {"retry": retry}});
        });
    }
}

fn owner(claims: Value) -> String {
    let mut bearer = super::identity::Bearer {
        issuer: "https://issuer.example".to_owned(),
        subject: "s".to_owned(),
        ..Default::default()
    };
    bearer.repository = claims["repository"].as_str().map(str::to_owned);
    Principal::Oidc(Box::new(bearer)).owner()
}

/// Another repository of the same organisation.
fn other() -> Value {
    json!({"repository": "acme/other"})
}

fn admin() -> Value {
    json!({"groups": ["ops"], "repository": "acme/infra"})
}

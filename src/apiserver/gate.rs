//! Authenticate, authorise, and only then route: who may not come in learns nothing, not even which paths exist.

use crate::{
    apiserver::{
        App,
        error::ApiError,
        identity::Principal,
        oidc::{AuthError, Verifier},
        policy::Refusal,
        trail::Trail,
    },
    telemetry::trace,
};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    middleware::Next,
    response::Response,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// How requests are authenticated.
#[derive(Clone)]
pub enum Authenticator {
    /// By tokens of one issuer.
    Oidc(Arc<Verifier>),
    /// By one token, known by its digest, so that a comparison tells nothing about how much of it was right.
    Static([u8; 32]),
}

impl Authenticator {
    /// Accepts one token; for development.
    pub fn fixed(token: &str) -> Self {
        Self::Static(Sha256::digest(token).into())
    }

    /// Whether requests can be authenticated at all yet.
    pub fn is_ready(&self) -> bool {
        match self {
            Self::Oidc(verifier) => verifier.is_ready(),
            Self::Static(_) => true,
        }
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<Principal, NotIdentified> {
        let refused = |why| NotIdentified { error: ApiError::unauthenticated(), why };
        let token = bearer(headers).map_err(refused)?;
        match self {
            Self::Oidc(verifier) => verifier.verify(token).await.map_err(|error| match error {
                AuthError::Refused(why) => refused(why.as_str()),
                AuthError::Unavailable => {
                    NotIdentified { error: ApiError::identity_provider(), why: "provider_unavailable" }
                }
            }),
            Self::Static(expected) => {
                let given: [u8; 32] = Sha256::digest(token).into();
                if given == *expected { Ok(Principal::Development) } else { Err(refused("wrong_token")) }
            }
        }
    }
}

/// What a client is told, and the stable word that is counted.
struct NotIdentified {
    error: ApiError,
    why: &'static str,
}

impl trace::Word for NotIdentified {
    fn word(&self) -> &'static str {
        self.why
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, &'static str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(only), None) = (all.next(), all.next()) else {
        return Err(if headers.contains_key(header::AUTHORIZATION) { "several_tokens" } else { "no_token" });
    };
    let text = only.to_str().map_err(|_| "malformed")?;
    let (scheme, token) = text.split_once(' ').ok_or("malformed")?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.contains([' ', ',']) {
        return Err("malformed");
    }
    Ok(token)
}

/// Lets a request in, or answers it.
pub async fn keep(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, ApiError> {
    let identified = trace::step("verify token", app.authenticator.identify(request.headers())).await;
    let principal = identified.map_err(|NotIdentified { error, why }| {
        app.metrics.refused(why);
        error
    })?;
    if let Some(trail) = request.extensions().get::<Trail>() {
        trail.by(&principal);
    }
    app.policy.admit(Some(&principal)).map_err(|refusal| match refusal {
        Refusal::Unauthenticated => {
            app.metrics.refused("says_nothing");
            ApiError::unauthenticated()
        }
        Refusal::Forbidden => {
            app.metrics.refused("not_listed");
            ApiError::forbidden()
        }
    })?;
    shape(&request)?;
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

/// Names need no escapes, so there is one way to write a path.
fn shape(request: &Request) -> Result<(), ApiError> {
    let path = request.uri().path();
    if path.contains(['%', '\\']) || path.contains("//") { Err(ApiError::no_route()) } else { Ok(()) }
}

/// Refuses a query where a request matches a route that has none; only lists have one.
pub async fn no_query(request: Request, next: Next) -> Result<Response, ApiError> {
    let is_list = matches!(request.uri().path(), "/v1/environments" | "/v1/templates")
        && matches!(*request.method(), Method::GET | Method::HEAD);
    if request.uri().query().is_some() && !is_list {
        return Err(ApiError::invalid("query: nothing may be there"));
    }
    Ok(next.run(request).await)
}

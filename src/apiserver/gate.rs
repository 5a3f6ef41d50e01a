//! Authenticate, authorise, and only then route: who may not come in learns nothing, not even which paths exist.

use crate::{
    apiserver::{
        App,
        error::ApiError,
        identity::Principal,
        oidc::{AuthError, Refused, Verifier},
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

    async fn identify(&self, headers: &HeaderMap) -> Result<Principal, Barred> {
        let token = bearer(headers)?;
        match self {
            Self::Oidc(verifier) => verifier.verify(token).await.map_err(|error| match error {
                AuthError::Refused(why) => Barred::Token(why),
                AuthError::Unavailable => Barred::ProviderUnavailable,
            }),
            Self::Static(expected) => {
                let given: [u8; 32] = Sha256::digest(token).into();
                if given == *expected { Ok(Principal::Development) } else { Err(Barred::WrongToken) }
            }
        }
    }
}

/// Why a request is not let in. Metrics and spans name it; clients are told less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barred {
    /// It bears no token.
    NoToken,
    /// It bears more than one.
    SeveralTokens,
    /// It does not bear the one that is known.
    WrongToken,
    /// Its token is not accepted.
    Token(Refused),
    /// Nobody can say whether its token is good.
    ProviderUnavailable,
    /// Its token says nothing that the policy asks for.
    SaysNothing,
    /// Who it is may not come in.
    NotListed,
}

impl Barred {
    /// Returns each of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [
            Self::NoToken,
            Self::SeveralTokens,
            Self::WrongToken,
            Self::ProviderUnavailable,
            Self::SaysNothing,
            Self::NotListed,
        ];
        own.into_iter().chain(Refused::ALL.map(Self::Token))
    }

    /// Returns the stable word that is counted.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::SeveralTokens => "several_tokens",
            Self::WrongToken => "wrong_token",
            Self::Token(refused) => refused.as_str(),
            Self::ProviderUnavailable => "provider_unavailable",
            Self::SaysNothing => "says_nothing",
            Self::NotListed => "not_listed",
        }
    }
}

impl From<Barred> for ApiError {
    fn from(barred: Barred) -> Self {
        match barred {
            Barred::ProviderUnavailable => Self::identity_provider(),
            Barred::NotListed => Self::forbidden(),
            Barred::NoToken
            | Barred::SeveralTokens
            | Barred::WrongToken
            | Barred::Token(_)
            | Barred::SaysNothing => Self::unauthenticated(),
        }
    }
}

impl trace::Word for Barred {
    fn word(&self) -> &'static str {
        self.as_str()
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Barred> {
    const MALFORMED: Barred = Barred::Token(Refused::Malformed);
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let only = match (all.next(), all.next()) {
        (Some(only), None) => only,
        (None, _) => return Err(Barred::NoToken),
        (Some(_), Some(_)) => return Err(Barred::SeveralTokens),
    };
    let text = only.to_str().map_err(|_| MALFORMED)?;
    let (scheme, token) = text.split_once(' ').ok_or(MALFORMED)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || token.contains([' ', ',']) {
        return Err(MALFORMED);
    }
    Ok(token)
}

/// Lets a request in, or answers it.
pub async fn keep(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, ApiError> {
    let bar = |barred| {
        app.metrics.barred(barred);
        ApiError::from(barred)
    };
    let identified = trace::step("verify token", app.authenticator.identify(request.headers())).await;
    let principal = identified.map_err(bar)?;
    if let Some(trail) = request.extensions().get::<Trail>() {
        trail.by(&principal);
    }
    app.policy.admit(Some(&principal)).map_err(|refusal| match refusal {
        Refusal::Unauthenticated => bar(Barred::SaysNothing),
        Refusal::Forbidden => bar(Barred::NotListed),
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

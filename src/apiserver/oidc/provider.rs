//! The issuer over HTTPS: discovery, then its key set. Redirects are not followed, answers are bounded.

use super::{
    keys::KeySet,
    verifier::{Fetched, Source},
};
use crate::{
    apiserver::{
        config::Oidc,
        strict::{self, Nulls},
    },
    error::causes,
};
use futures::future::{BoxFuture, FutureExt};
use reqwest::{Certificate, Client, redirect::Policy};
use serde_json::Value;
use std::time::Duration;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The issuer did not answer as it should.
    #[error("{0}")]
    Http(String),
    /// An answer is longer than any of an issuer.
    #[error("the answer is longer than {ANSWER_MAX} bytes")]
    TooLong,
    /// An answer is no JSON, or says two things at once.
    #[error("the answer is not strict JSON: {0}")]
    Malformed(#[from] strict::NotStrict),
    /// The discovery document is another issuer's.
    #[error("the discovery document names another issuer")]
    OtherIssuer,
    /// The discovery document has no address of keys that may be asked.
    #[error("the discovery document has no https jwks_uri")]
    NoKeysAddress,
    /// The key set is of no use.
    #[error(transparent)]
    NoKeys(#[from] super::keys::NoKeys),
}

/// Why an issuer cannot be asked at all.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The file of authorities is unreadable or holds none.
    #[error("PETRI_APISERVER_OIDC_CA_FILE: {0}")]
    Authority(String),
    /// The client cannot be made.
    #[error("no HTTPS client: {0}")]
    Client(String),
}

/// A request waits for this, so it is well within a request's own limit.
const FETCH_MAX: Duration = Duration::from_secs(4);
const ANSWER_MAX: usize = 1 << 20;

/// One issuer.
pub struct Provider {
    client: Client,
    issuer: String,
}

/// Tells whether a text may be an issuer: an https URL with a host and without user, query and fragment.
pub fn is_issuer(text: &str) -> bool {
    is_https(text) && !text.contains(['?', '#'])
}

fn is_https(text: &str) -> bool {
    let plain = text.starts_with("https://") && text.chars().all(|c| c.is_ascii_graphic());
    plain
        && reqwest::Url::parse(text).is_ok_and(|url| {
            url.has_host() && url.username().is_empty() && url.password().is_none() && !text.contains('@')
        })
}

impl Provider {
    /// Makes the client; asks nothing yet.
    ///
    /// # Errors
    /// The file of authorities is of no use.
    pub fn new(oidc: &Oidc) -> Result<Self, ProviderError> {
        let mut builder = Client::builder()
            .timeout(FETCH_MAX)
            .connect_timeout(FETCH_MAX)
            .redirect(Policy::none())
            .https_only(true)
            .user_agent(concat!("petri-apiserver/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &oidc.ca_file {
            let read = std::fs::read(path).map_err(|error| ProviderError::Authority(error.to_string()))?;
            let authorities = Certificate::from_pem_bundle(&read)
                .map_err(|error| ProviderError::Authority(causes(&error)))?;
            if authorities.is_empty() {
                return Err(ProviderError::Authority("no certificate in the file".to_owned()));
            }
            builder = builder.tls_certs_only(authorities);
        }
        let client = builder.build().map_err(|error| ProviderError::Client(causes(&error)))?;
        Ok(Self { client, issuer: oidc.issuer.clone() })
    }

    async fn keys(&self) -> Fetched {
        let base = self.issuer.strip_suffix('/').unwrap_or(&self.issuer);
        let discovery = self.get(&format!("{base}/.well-known/openid-configuration")).await?;
        if discovery.get("issuer").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(FetchError::OtherIssuer);
        }
        let address = discovery.get("jwks_uri").and_then(Value::as_str).unwrap_or_default();
        if !is_https(address) {
            return Err(FetchError::NoKeysAddress);
        }
        Ok(KeySet::read(&self.get(address).await?)?)
    }

    async fn get(&self, address: &str) -> Result<Value, FetchError> {
        let failed = |error: reqwest::Error| FetchError::Http(causes(&error.without_url()));
        let mut answer = self.client.get(address).send().await.map_err(failed)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(FetchError::Http(format!("status {}", answer.status())));
        }
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            text.extend_from_slice(&chunk);
            if text.len() > ANSWER_MAX {
                return Err(FetchError::TooLong);
            }
        }
        Ok(strict::parse(&text, Nulls::Kept)?)
    }
}

impl Source for Provider {
    fn keys(&self) -> BoxFuture<'_, Fetched> {
        self.keys().boxed()
    }
}

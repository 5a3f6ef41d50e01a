//! What the tests of the API server share: the issuer of the e2e crate, by its path.

#[path = "../../e2e/src/issuer.rs"]
#[allow(dead_code, reason = "the lab's issuer can do more than these tests need")]
pub mod issuer;

use super::{
    identity::ClaimNames,
    metrics::Metrics,
    oidc::{Expect, FetchError, KeySet, Provider, Source, Verifier},
};
use crate::{apiserver::config::Oidc, clock::Clock};
use futures::future::{BoxFuture, FutureExt};
use issuer::{Issuer, Tls};
use serde_json::{Value, json};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// The audience of all tests.
pub const AUDIENCE: &str = "petri";
/// The tolerated skew of all tests.
pub const SKEW: u64 = 30;

/// GitHub's names of claims.
pub fn github() -> ClaimNames {
    let name = |name: &str| Some(name.to_owned());
    ClaimNames {
        organization: name("repository_owner"),
        organization_id: name("repository_owner_id"),
        repository: name("repository"),
        repository_id: name("repository_id"),
    }
}

/// What a job of `acme/app` says of itself.
pub fn acme() -> Value {
    json!({"sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app", "repository_owner": "acme"})
}

pub fn expect(issuer: &str) -> Expect {
    let skew = Duration::from_secs(SKEW);
    Expect { issuer: issuer.to_owned(), audience: AUDIENCE.to_owned(), skew, claims: github(), admin: None }
}

/// Gives the issuer's keys without a network, so that time can be played with.
pub struct Direct(
    pub Issuer,
    pub Arc<std::sync::atomic::AtomicUsize>,
    pub Arc<std::sync::atomic::AtomicBool>,
);

impl Source for Direct {
    fn keys(&self) -> BoxFuture<'_, Result<KeySet, FetchError>> {
        use std::sync::atomic::Ordering::SeqCst;
        self.1.fetch_add(1, SeqCst);
        let down = self.2.load(SeqCst);
        let keys = if down {
            Err(FetchError::Http("down".to_owned()))
        } else {
            KeySet::read(&json!({"keys": [self.0.key().public()]})).map_err(FetchError::from)
        };
        // A fetch takes its time, so that others come while it goes on.
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            keys
        }
        .boxed()
    }
}

/// An issuer on loopback over TLS, and a verifier of its tokens.
pub struct Live {
    pub issuer: Issuer,
    pub verifier: Verifier,
    pub oidc: Oidc,
    /// Goes with the last that needs it.
    pub authority: Scratch,
}

/// A file of this test process that is removed with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(text: &str) -> Self {
        static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("petri-apiserver-{}-{number}.pem", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts an issuer whose name ends in `path`.
pub async fn live(path: &str) -> Live {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}{path}", listener.local_addr().unwrap().port());
    let (issuer, tls) = (Issuer::new(&url), Tls::for_names(&["localhost"]));
    issuer.set_claims(acme());
    let authority = Scratch::new(&tls.certificate);
    let serving = issuer.clone();
    tokio::spawn(async move { serving.serve(listener, &tls).await });
    let oidc = Oidc {
        issuer: url.clone(),
        audience: AUDIENCE.to_owned(),
        ca_file: Some(authority.0.clone()),
        clock_skew: Duration::from_secs(SKEW),
        claims: github(),
        admin: None,
    };
    let provider = Provider::new(&oidc).unwrap();
    let verifier = Verifier::new(Box::new(provider), expect(&url), Clock, Metrics::default());
    Live { issuer, verifier, oidc, authority }
}

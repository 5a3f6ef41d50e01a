//! Tokens against the issuer's keys, and when those are fetched: once at start until it succeeds, slowly for ever, and
//! for a key that is not known, but never twice within half a minute, so that invented keys cost the issuer nothing.

use super::{
    keys::KeySet,
    provider::FetchError,
    token::{self, Refused},
};
use crate::{
    apiserver::{
        identity::{AdminClaim, Bearer, ClaimNames, Principal},
        metrics::Metrics,
    },
    clock::Clock,
};
use futures::future::BoxFuture;
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};
use tracing::{info, warn};

/// What an attempt to fetch keys gives.
pub(super) type Fetched = Result<KeySet, FetchError>;

/// Where keys come from.
pub trait Source: Send + Sync {
    /// Fetches the keys as they are now.
    fn keys(&self) -> BoxFuture<'_, Result<KeySet, FetchError>>;
}

/// Why there is no identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// The token is not accepted.
    Refused(Refused),
    /// Whether the token is good cannot be known now.
    Unavailable,
}

/// What a token must say, and what is read from it.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The issuer, exactly.
    pub issuer: String,
    /// The audience.
    pub audience: String,
    /// Tolerated difference of the clocks.
    pub skew: Duration,
    /// Where a token says what it comes from.
    pub claims: ClaimNames,
    /// What makes an administrator.
    pub admin: Option<AdminClaim>,
}

/// Between two fetches for unknown keys.
const REFRESH_MIN: Duration = Duration::from_secs(30);
/// Keys that the issuer withdrew are forgotten after this.
const REFRESH_SLOW: Duration = Duration::from_secs(600);

/// Verifies tokens of one issuer.
pub struct Verifier {
    source: Box<dyn Source>,
    expect: Expect,
    clock: Clock,
    metrics: Metrics,
    keys: RwLock<Option<Arc<KeySet>>>,
    /// Held while keys are fetched, so that many requests for one new key make one fetch.
    last: Mutex<Option<Attempt>>,
}

#[derive(Clone, Copy)]
struct Attempt {
    at: Instant,
    succeeded: bool,
}

impl Verifier {
    /// Makes a verifier that has no keys yet.
    pub fn new(source: Box<dyn Source>, expect: Expect, clock: Clock, metrics: Metrics) -> Self {
        Self { source, expect, clock, metrics, keys: RwLock::default(), last: Mutex::default() }
    }

    /// Whether keys were fetched once.
    pub fn is_ready(&self) -> bool {
        self.current().is_some()
    }

    /// Fetches keys until the process ends: soon again while there are none, slowly when there are.
    pub async fn keep_fresh(&self) {
        let mut pause = Duration::from_secs(1);
        loop {
            let fetched = self.refresh(&mut self.last.lock().await).await;
            let next = if fetched || self.is_ready() { REFRESH_SLOW } else { pause };
            pause = (pause * 2).min(REFRESH_MIN);
            tokio::time::sleep(next).await;
        }
    }

    /// Turns a token into an identity.
    ///
    /// # Errors
    /// The token is not accepted, or the issuer would have to be asked and does not answer.
    pub async fn verify(&self, token: &str) -> Result<Principal, AuthError> {
        let (header, claims) = token::open(token).map_err(AuthError::Refused)?;
        let keys = self.keys_for(&header.kid).await?;
        let Expect { issuer, audience, skew, claims: names, admin } = &self.expect;
        let check = || {
            let named = keys.named(&header.kid, header.algorithm);
            token::verify(token, header.algorithm, named, audience, *skew)?;
            let subject = token::subject(&claims, issuer, self.clock.now().0, *skew)?;
            Bearer::read(issuer, subject, &claims, names, admin.as_ref()).map_err(|_| Refused::Claims)
        };
        check().map(|bearer| Principal::Oidc(Box::new(bearer))).map_err(AuthError::Refused)
    }

    async fn keys_for(&self, kid: &str) -> Result<Arc<KeySet>, AuthError> {
        let known = |keys: &Arc<KeySet>| keys.knows(kid);
        if let Some(keys) = self.current().filter(known) {
            return Ok(keys);
        }
        let mut last = self.last.lock().await;
        // Somebody else may have fetched it while this request waited.
        if let Some(keys) = self.current().filter(known) {
            return Ok(keys);
        }
        let succeeded = match *last {
            Some(attempt) if attempt.at.elapsed() < REFRESH_MIN => attempt.succeeded,
            _ => self.refresh(&mut last).await,
        };
        match self.current().filter(known) {
            Some(keys) => Ok(keys),
            None if succeeded => Err(AuthError::Refused(Refused::UnknownKey)),
            None => Err(AuthError::Unavailable),
        }
    }

    async fn refresh(&self, last: &mut MutexGuard<'_, Option<Attempt>>) -> bool {
        // Before the answer: a request that is given up while it waits must count as an attempt too.
        **last = Some(Attempt { at: Instant::now(), succeeded: false });
        let fetched = self.source.keys().await;
        let succeeded = fetched.is_ok();
        **last = Some(Attempt { at: Instant::now(), succeeded });
        match fetched {
            Ok(keys) => {
                self.metrics.refreshed("success");
                if !self.is_ready() {
                    info!("the issuer's keys are known");
                }
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
            }
            Err(error) => {
                self.metrics.refreshed("failure");
                warn!(%error, "the issuer's keys cannot be fetched");
            }
        }
        succeeded
    }

    fn current(&self) -> Option<Arc<KeySet>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

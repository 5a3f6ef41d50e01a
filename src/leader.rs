//! Leadership by a Lease, with a hard stop.
//!
//! Relies on: nobody but candidates writes the Lease; every candidate waits until it has *seen* the Lease unchanged
//! for its whole duration. Guarantees: [`Leadership::is_leading`] turns false `margin` before anybody else can take
//! the Lease, whatever the network or the scheduler does, because the deadline counts from the *sending* of the last
//! renewal that succeeded and is compared at the call. Leadership that was lost is never taken up again: the process
//! ends. Even so a Lease is a hint; what it guards carries its own fences.

mod lease;
mod state;

pub use state::Leadership;

use crate::{client::timed, clock::Clock, error::CallError};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use lease::{View, Watcher};
use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use tracing::{info, warn};

/// How often a candidate looks whether the Lease was released: a successor must start within two seconds.
const CANDIDATE_POLL: Duration = Duration::from_secs(1);
/// How soon a holder tries again after a renewal failed.
const RENEW_RETRY: Duration = Duration::from_millis(500);
/// What one call is given at least, however short the Lease is.
const CALL_MIN: Duration = Duration::from_millis(500);
/// How long the release may take at the end of the process.
const RELEASE_MAX: Duration = Duration::from_secs(2);
/// How often a release is tried when somebody writes in between.
const RELEASE_ATTEMPTS_MAX: u32 = 3;

/// Where the Lease is and how it is held.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Its name in the management namespace.
    pub name: String,
    /// Unique to this process, or to this Pod: a restarted container of one Pod may take up its own Lease at once,
    /// because the former process is certainly dead.
    pub identity: String,
    /// How long others wait after the last renewal that they saw.
    pub duration: Duration,
    /// Pause between renewals.
    pub renew: Duration,
    /// How long before others may take over this process stops by itself.
    pub margin: Duration,
}

/// Names this process: by its Pod's UID where there is one (`POD_UID`), else by chance.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "petri-operator".to_owned());
    match std::env::var("POD_UID").ok().filter(|uid| !uid.is_empty()) {
        Some(uid) => format!("{host}_{uid}"),
        // Two hashers of one process already differ; two processes do all the more.
        None => format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id())),
    }
}

/// Takes, renews and releases the Lease.
pub struct Elector {
    api: Api<Lease>,
    terms: Terms,
    clock: Clock,
    leadership: Leadership,
    watcher: Watcher,
    held: Option<Lease>,
}

/// How one round ended.
enum Round {
    Leading,
    Waiting,
    Failed(CallError),
    Lost(String),
}

impl Elector {
    /// Makes a candidate; `api` must come from a client of its own, so that nothing delays a renewal.
    pub fn new(api: Api<Lease>, terms: Terms, clock: Clock) -> Self {
        Self {
            api,
            terms,
            clock,
            leadership: Leadership::waiting(clock),
            watcher: Watcher::default(),
            held: None,
        }
    }

    /// Returns the handle that everybody else asks.
    pub fn leadership(&self) -> Leadership {
        self.leadership.clone()
    }

    /// Campaigns and renews until leadership is lost or `release` fires (or is dropped); then gives the Lease up,
    /// if it is ours. Whatever needs leadership must have stopped before `release` fires.
    pub async fn run(mut self, release: oneshot::Receiver<()>) {
        tokio::select! {
            biased;
            _ = release => {}
            () = self.hold() => return,
        }
        self.leadership.lose("released");
        match timeout(RELEASE_MAX, self.release()).await {
            Ok(Ok(true)) => info!(lease = %self.terms.name, "lease released"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => warn!(lease = %self.terms.name, %error, "lease not released"),
            Err(_) => warn!(lease = %self.terms.name, "lease not released: no answer in time"),
        }
    }

    async fn hold(&mut self) {
        loop {
            let pause = match self.round().await {
                Round::Leading => self.terms.renew,
                Round::Waiting => CANDIDATE_POLL,
                Round::Failed(error) => {
                    warn!(lease = %self.terms.name, %error, leading = self.held.is_some(), "lease call failed");
                    if self.held.is_some() { RENEW_RETRY } else { CANDIDATE_POLL }
                }
                Round::Lost(why) => {
                    warn!(lease = %self.terms.name, why, "leadership lost");
                    return self.leadership.lose(&why);
                }
            };
            let left =
                self.leadership.deadline().map(|at| at.saturating_duration_since(self.clock.instant()));
            sleep(left.map_or(pause, |left| pause.min(left))).await;
        }
    }

    async fn round(&mut self) -> Round {
        let leads = self.leadership.deadline().is_some();
        if leads && !self.leadership.is_leading() {
            return Round::Lost("it was not renewed before the deadline".to_owned());
        }
        if let Some(held) = self.held.clone() {
            match self.write(held).await {
                // Somebody wrote in between, or our own last write came through without its answer: look.
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                outcome => return outcome.map_or_else(Round::Failed, |()| Round::Leading),
            }
        }
        let found = match timed(self.call_max(), self.api.get_opt(&self.terms.name)).await {
            Ok(found) => found.unwrap_or_else(|| lease::unborn(&self.terms.name)),
            Err(error) => return Round::Failed(error),
        };
        match self.watcher.view(&found, &self.terms.identity, self.clock.instant()) {
            View::Free | View::Theirs if leads => {
                let holder = found.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
                Round::Lost(format!("it is held by {holder:?}"))
            }
            View::Theirs => Round::Waiting,
            View::Free | View::Ours => match self.write(found).await {
                Ok(()) => {
                    info!(lease = %self.terms.name, identity = %self.terms.identity, "leading");
                    Round::Leading
                }
                Err(error) if error.is_conflict() => Round::Waiting,
                Err(error) => Round::Failed(error),
            },
        }
    }

    /// Takes or renews, on condition that nobody wrote since `lease` was read.
    async fn write(&mut self, lease: Lease) -> Result<(), CallError> {
        let sent = self.clock.instant();
        let next = lease::taken(lease, &self.terms.identity, self.terms.duration, self.clock.wall());
        let written = match next.metadata.resource_version {
            Some(_) => {
                timed(self.call_max(), self.api.replace(&self.terms.name, &PostParams::default(), &next))
                    .await
            }
            None => timed(self.call_max(), self.api.create(&PostParams::default(), &next)).await,
        }?;
        self.held = Some(written);
        self.leadership.lead(sent + self.terms.duration.saturating_sub(self.terms.margin));
        Ok(())
    }

    async fn release(&self) -> Result<bool, CallError> {
        for _ in 1..RELEASE_ATTEMPTS_MAX {
            let found = self.api.get_opt(&self.terms.name).await?;
            let Some(found) = found.filter(|found| lease::holder(found) == Some(&self.terms.identity)) else {
                return Ok(false);
            };
            let free = lease::released(found, self.clock.wall());
            match self
                .api
                .replace(&self.terms.name, &PostParams::default(), &free)
                .await
                .map_err(CallError::from)
            {
                Err(error) if error.is_conflict() => {}
                outcome => return outcome.map(|_| true),
            }
        }
        Ok(false)
    }

    /// A third of what is left between renewal and deadline, so that one lost answer does not cost the Lease.
    fn call_max(&self) -> Duration {
        (self.terms.duration.saturating_sub(self.terms.margin + self.terms.renew) / 3).max(CALL_MIN)
    }
}

#[cfg(test)]
mod tests;

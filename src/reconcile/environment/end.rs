//! How a pass ends: when to look again, and what users are told when it cannot go on.

use super::Pass;
use crate::{
    controller::Requeue,
    error::CallError,
    executor::class::{self, call_class},
    reconcile::{BUG_PAUSE, pace::jitter},
    store,
};
use kube::{
    Api,
    core::{ApiResource, DynamicObject},
};
use petri_crds::EphemeralEnvironment;
use petri_machines::kernel::{
    Wake, WakeReason,
    cycle::{Done, Refusal},
};
use std::time::Duration;
use tracing::{error, warn};

/// A record of a newer release is left alone; it is looked at again when the object changes, or after this long.
const HELD_PAUSE: Duration = Duration::from_secs(600);
/// The shortest wait for a moment, so that a clock that stands still does not make a busy loop.
const WAIT_MIN: Duration = Duration::from_millis(20);

impl Pass<'_> {
    /// Says when to look again.
    pub(super) async fn end(&mut self, done: Done) -> Requeue {
        let operator = self.operator;
        let pace = &operator.pace;
        match done {
            Done::Gone => {
                if let Err(error) = operator.sweep(self.key, None).await {
                    warn!(key = %self.key, %error, "whether a namespace was left behind is not known");
                    return Requeue::failed(class::name(call_class(&error)), pace.backoff(self.key));
                }
                pace.reset(self.key);
                self.operator.refusals.forget(self.key);
                self.operator.observer.forget(self.key);
                self.operator.durations.forget(self.key);
                self.operator.trails.forget(self.key);
                Requeue::gone()
            }
            Done::Held { found } => {
                warn!(key = %self.key, version = found, "the record is of a newer release and is left alone");
                Requeue::after(HELD_PAUSE)
            }
            Done::Refused(refusal) => Requeue::failed(class::name(refusal), pace.refused(self.key, refusal)),
            Done::Settled { wake, again } => {
                match self.unread.take() {
                    Some(note) => self.complain(note).await,
                    None => self.operator.refusals.forget(self.key),
                }
                let recheck = self.observation.as_ref().and_then(|observation| observation.recheck);
                let recheck = recheck.map(|at| self.operator.clock.until(at).max(WAIT_MIN));
                let wait = wake.map(|wake| self.wait(wake)).into_iter().chain(recheck).min();
                if again {
                    let soon = pace.soon(self.key);
                    return Requeue::after(wait.map_or(soon, |wait| wait.min(soon)));
                }
                pace.reset(self.key);
                wait.map_or_else(Requeue::settled, Requeue::after)
            }
            Done::Bug(what) => {
                self.confess(&what).await;
                self.fault(&what)
            }
            Done::OutOfTurn => self.fault("the loop was answered out of turn"),
        }
    }

    /// Deadlines are met to the second; only the end of a pause is spread.
    fn wait(&self, wake: Wake) -> Duration {
        let wait = self.operator.clock.until(wake.at).max(WAIT_MIN);
        if wake.reason == WakeReason::Backoff { wait + jitter(wait / 10) } else { wait }
    }

    /// The own object could not be read.
    pub(super) fn refused(&self, error: &CallError) -> Requeue {
        let refusal = match call_class(error) {
            // A read that is refused must not be hurried.
            Refusal::Retry | Refusal::Fenced | Refusal::Backoff => Refusal::Backoff,
            Refusal::Rejected => Refusal::Rejected,
        };
        warn!(key = %self.key, %error, "the own object cannot be read");
        Requeue::failed(class::name(refusal), self.operator.pace.refused(self.key, refusal))
    }

    /// Something that cannot be, happened.
    pub(super) fn fault(&self, what: &str) -> Requeue {
        error!(key = %self.key, what, "a fault of Petri's own");
        Requeue::failed("bug", BUG_PAUSE)
    }

    /// Tells of an object that this release has no type for; a raw patch, since it cannot be written back whole.
    pub(super) async fn tell_undecodable(&self, why: &str) {
        let namespace = &self.operator.settings.management_namespace;
        let kind = ApiResource::erase::<EphemeralEnvironment>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.operator.client.clone(), namespace, &kind);
        let told = store::tell(&api, &self.key.name, "InvalidConfiguration", why, self.operator.clock.wall());
        if let Err(error) = told.await {
            warn!(key = %self.key, %error, "that it does not decode could not be told");
        }
    }

    /// Tells the user of a fault; nothing else is changed.
    pub(super) async fn confess(&mut self, what: &str) {
        let Some(found) = &self.read else { return };
        let mut object = found.object.clone();
        let status = object.status.get_or_insert_default();
        let generation = object.metadata.generation;
        let condition = store::condition("Ready", "Unknown", "InternalError", what, generation);
        if store::set_condition(&mut status.conditions, condition, self.operator.clock.wall())
            && let Err(error) = store::replace_status(&self.api, &object).await
        {
            warn!(key = %self.key, %error, "the fault could not be told");
        }
    }
}

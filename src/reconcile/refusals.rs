//! What the API server refuses: told once, by an event and by a condition that stays until it does not.

use super::{Operator, events::Said};
use crate::{
    controller::Key,
    error::CallError,
    executor::class::{self, call_class},
    store,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use kube::{Api, Resource};
use petri_crds::{EphemeralEnvironment, Phase, SharedComponent};
use petri_machines::kernel::{cycle::Refusal, limits::bounded};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tracing::{debug, error, warn};

/// The reason of the event and of the condition, when the server will not take a write.
const REFUSED: &str = "Refused";
/// What a definition of an older release does to the record.
pub(super) const OLDER: &str = "the custom resource definition is older than this release and drops what was decided: apply the chart's crds/";

/// The last refusal that was told of each object, so that it is told once and not at every attempt.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<HashMap<Key, String>>);

impl Refusals {
    /// Takes note of a refusal; tells whether it is news.
    pub(super) fn is_news(&self, key: &Key, text: &str) -> bool {
        let before = self.lock().insert(key.clone(), text.to_owned());
        before.as_deref() != Some(text)
    }

    /// Gives the refusal that stands.
    fn of(&self, key: &Key) -> Option<String> {
        self.lock().get(key).cloned()
    }

    /// Puts the refusal that stands into the conditions of an object under way; one that is Ready or Failed says
    /// nothing better or worse by it. Tells whether that changed them.
    pub(super) fn put(
        &self,
        key: &Key,
        phase: Phase,
        conditions: &mut Vec<Condition>,
        generation: Option<i64>,
        now: Timestamp,
    ) -> bool {
        let Some(note) = self.of(key) else { return false };
        match phase {
            Phase::Pending | Phase::Deploying | Phase::Terminating => {}
            Phase::Ready | Phase::Failed => return false,
        }
        let condition = store::condition("Ready", "False", REFUSED, &bounded(&note), generation);
        store::set_condition(conditions, condition, now)
    }

    /// Begins anew: nothing is refused any more.
    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An own kind, in whose status a refusal is told.
pub(super) trait Conditioned:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned
{
    /// Returns phase and conditions of its status.
    fn conditioned(&mut self) -> (Phase, &mut Vec<Condition>);
}

impl Conditioned for EphemeralEnvironment {
    fn conditioned(&mut self) -> (Phase, &mut Vec<Condition>) {
        let status = self.status.get_or_insert_default();
        (status.phase.unwrap_or_default(), &mut status.conditions)
    }
}

impl Conditioned for SharedComponent {
    fn conditioned(&mut self) -> (Phase, &mut Vec<Condition>) {
        let status = self.status.get_or_insert_default();
        (status.phase.unwrap_or_default(), &mut status.conditions)
    }
}

impl Operator {
    /// Puts the refusal that stands into a status that is about to be written.
    pub(super) fn put_refusal<K: Conditioned>(&self, key: &Key, object: &mut K) -> bool {
        let generation = object.meta().generation;
        let (phase, conditions) = object.conditioned();
        self.refusals.put(key, phase, conditions, generation, self.clock.wall())
    }

    /// Tells the user of what the server refuses. Returns the object as it was written, if it was.
    pub(super) async fn complain<K: Conditioned>(
        &self,
        api: &Api<K>,
        key: &Key,
        object: &K,
        note: String,
    ) -> Option<K> {
        if !self.refusals.is_news(key, &note) {
            return None;
        }
        let said = Said { warning: true, reason: REFUSED, action: "Request", note, job: None };
        self.events.publish(object.object_ref(&()), vec![said], self.clock.wall());
        let mut object = object.clone();
        if !self.put_refusal(key, &mut object) {
            return None;
        }
        match store::replace_status(api, &object).await {
            Ok(object) => Some(object),
            Err(error) => {
                warn!(%key, %error, "that something is refused could not be told");
                if call_class(&error) != Refusal::Rejected {
                    // The finalizer that was added before the refusal changed the object, say: the next attempt tells it.
                    self.refusals.forget(key);
                }
                None
            }
        }
    }
}

/// Logs that a record was not stored; returns why, and what to tell of a refusal for good.
pub(super) fn not_stored(key: &Key, error: &CallError) -> (Refusal, Option<String>) {
    let refusal = call_class(error);
    match refusal {
        Refusal::Rejected => {
            error!(%key, %error, "nothing stored: refused for good");
            (refusal, Some(error.to_string()))
        }
        Refusal::Retry | Refusal::Backoff | Refusal::Fenced => {
            debug!(%key, %error, class = class::name(refusal), "nothing stored");
            (refusal, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_news_until_it_was_told_and_again_after_it_was_over() {
        let (refusals, key) = (Refusals::default(), Key::environment("a"));
        let told = ["x", "x", "y", "y"].map(|text| refusals.is_news(&key, text));
        assert_eq!(told, [true, false, true, false]);
        refusals.forget(&key);
        assert!(refusals.is_news(&key, "y"));
    }
}

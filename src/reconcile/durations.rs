//! How long components take, as far as this process has seen them begin.

use crate::controller::Key;
use petri_machines::names::ComponentName;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

type Begun = HashMap<Key, HashMap<ComponentName, Instant>>;

/// When the components of each environment began.
#[derive(Debug, Default)]
pub(super) struct Durations(Mutex<Begun>);

impl Durations {
    /// Takes note of a component's transition; returns how long it took when it became ready.
    pub(super) fn moved(
        &self,
        key: &Key,
        component: &ComponentName,
        from: &str,
        to: &str,
    ) -> Option<Duration> {
        let mut begun = self.lock();
        let of = begun.entry(key.clone()).or_default();
        let took = match (from, to) {
            // A further attempt belongs to the same deploy: it began with the first.
            ("Pending", "Submitting") => {
                of.entry(component.clone()).or_insert_with(Instant::now);
                None
            }
            (_, "Ready") => of.remove(component).map(|since| since.elapsed()),
            (_, "Failed" | "Draining" | "Gone") => {
                of.remove(component);
                None
            }
            _ => None,
        };
        if of.is_empty() {
            begun.remove(key);
        }
        took
    }

    /// Forgets an environment that is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Begun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_component_takes_from_its_first_attempt_until_it_is_ready() {
        let (durations, key) = (Durations::default(), Key::environment("a"));
        let moved = |from, to| durations.moved(&key, &ComponentName::new("api").unwrap(), from, to);
        assert_eq!(moved("Settling", "Ready"), None, "its beginning was not seen");
        moved("Pending", "Submitting");
        tokio::time::advance(Duration::from_secs(3)).await;
        moved("Deploying", "Pending");
        moved("Pending", "Submitting");
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(moved("Settling", "Ready"), Some(Duration::from_secs(7)));
        assert_eq!(moved("Settling", "Ready"), None);
        assert!(durations.lock().is_empty(), "what is ready is not remembered");
    }
}

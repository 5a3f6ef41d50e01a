//! What the API server refused for lack of a right, until it does it again: one line for each verb and resource.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The rights that were missing last; all clones tell of the same.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<Mutex<Missing>>);

/// Verb and resource, and the namespace where it was missing last. Bounded as the labels of the metrics are.
type Missing = BTreeMap<(&'static str, String), String>;

impl Denials {
    /// Takes note of an answer: the right is missing, or it is there.
    pub(super) fn answered(&self, verb: &'static str, resource: &str, place: Option<&str>, missing: bool) {
        let (mut all, right) = (self.lock(), (verb, resource.to_owned()));
        if missing {
            all.insert(right, place.unwrap_or_default().to_owned());
        } else {
            all.remove(&right);
        }
    }

    /// Names what is missing, a line each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for ((verb, resource), place) in self.lock().iter() {
            let place = if place.is_empty() { String::new() } else { format!(" in namespace {place}") };
            // Never fails: the target is a String.
            let _ = writeln!(text, "right missing: {verb} {resource}{place}");
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, Missing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_until_the_same_is_done() {
        let denials = Denials::default();
        denials.answered("create", "jobs", Some("petri-env-1"), true);
        denials.answered("list", "pods", None, true);
        denials.answered("create", "secrets", Some("petri-env-1"), false);
        let text = "right missing: create jobs in namespace petri-env-1\nright missing: list pods\n";
        assert_eq!(denials.text(), text);
        denials.answered("create", "jobs", Some("petri-env-2"), false);
        assert_eq!(denials.text(), "right missing: list pods\n");
    }
}

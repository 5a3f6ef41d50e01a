//! What people are told of a pass: log lines, counters and spans by the notices, and events.

use super::Pass;
use crate::{
    reconcile::{
        events::{REFUSED, Said},
        notices::{self, About},
        trail::{Spans, Told},
    },
    store,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use petri_crds::EphemeralEnvironment;
use petri_machines::{environment::Notice, names::JobName};
use tracing::warn;

impl Pass<'_> {
    /// Tells the user of a write that the server will not take, once: by an event, and by a condition that stays until
    /// it does.
    pub(super) async fn complain(&mut self, note: String) {
        let Some(found) = &self.read else { return };
        if !self.operator.refusals.is_news(self.key, &note) {
            return;
        }
        let now = self.operator.clock.wall();
        let said = Said { warning: true, reason: REFUSED, action: "Write", note, job: None };
        self.operator.events.publish(reference(&found.object), vec![said], now);
        let mut object = found.object.clone();
        let status = object.status.get_or_insert_default();
        let (phase, generation) = (status.phase.unwrap_or_default(), object.metadata.generation);
        if !self.operator.refusals.put(self.key, phase, &mut status.conditions, generation, now) {
            return;
        }
        match store::replace_status(&self.api, &object).await {
            Ok(object) => {
                if let Some(found) = &mut self.read {
                    found.object = object;
                }
            }
            Err(error) => warn!(key = %self.key, %error, "that a write is refused could not be told"),
        }
    }

    pub(super) fn notify(&self, all: &[Notice]) {
        let Some(found) = &self.read else { return };
        let operator = self.operator;
        let now = operator.clock.now();
        let trace = self.spans.as_ref().and_then(Spans::sampled);
        let durations = &operator.durations;
        let about =
            About { key: self.key, identity: &found.identity, record: &self.record, now, durations, trace };
        if let Some(spans) = &self.spans {
            let found = |job: &JobName| operator.observer.caches.job_found(&found.identity.uid, job);
            spans.noticed(all.iter().filter_map(Told::environment), found);
        }
        let said = all.iter().filter_map(|notice| notices::say(notice, &about, &operator.metrics)).collect();
        operator.events.publish(reference(&found.object), said, operator.clock.wall());
    }
}

fn reference(object: &EphemeralEnvironment) -> ObjectReference {
    object.object_ref(&())
}

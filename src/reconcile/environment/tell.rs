//! What people are told of a pass: log lines, counters and spans by the notices, and events.

use super::Pass;
use crate::reconcile::{
    notices::{self, About},
    trail::{Spans, Told},
};
use kube::Resource as _;
use petri_machines::{environment::Notice, names::JobName};

impl Pass<'_> {
    /// Tells the user of what the server refuses.
    pub(super) async fn complain(&mut self, note: String) {
        let Some(found) = &mut self.read else { return };
        if let Some(told) = self.operator.complain(&self.api, self.key, &found.object, note).await {
            found.object = told;
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
        operator.events.publish(found.object.object_ref(&()), said, operator.clock.wall());
    }
}

//! What people are told of a pass: log lines, counters and spans by the notices, and events.

use super::Pass;
use crate::{
    reconcile::{events::Said, trail::Told},
    telemetry::metrics::{JobLabels, Metrics, OpLabel},
};
use kube::Resource as _;
use petri_machines::{component, job::Op, names::SharedName, shared::Notice};
use tracing::{debug, info, warn};

impl Pass<'_> {
    /// Tells the user of what the server refuses.
    pub(super) async fn complain(&mut self, note: String) {
        let Some((found, _)) = &mut self.read else { return };
        if let Some(told) = self.operator.complain(&self.api, self.key, found, note).await {
            *found = told;
        }
    }

    pub(super) fn notify(&self, all: &[Notice]) {
        let Some((object, identity)) = &self.read else { return };
        let operator = self.operator;
        if let (Some(spans), Some((_, component))) = (&self.spans, &self.named) {
            let told = all.iter().filter_map(|notice| match notice {
                Notice::Workload(notice) => Told::component(component, notice),
                Notice::Moved { .. } => None,
            });
            spans.noticed(told, |job| operator.observer.caches.job_found(&identity.uid, job));
        }
        let said = all.iter().filter_map(|notice| say(notice, &identity.name, &operator.metrics)).collect();
        self.operator.events.publish(object.object_ref(&()), said, self.operator.clock.wall());
    }
}

/// Logs and counts a notice; returns the event to publish, if it makes one.
fn say(notice: &Notice, shared: &SharedName, metrics: &Metrics) -> Option<Said> {
    match notice {
        Notice::Moved { from, to, signal, why } => {
            let reason = why.as_ref().map(|(reason, _)| reason.as_str());
            info!(%shared, from, to, signal, reason, "phase changed");
            if from == to && why.is_none() {
                return None;
            }
            let (reason, note) = match why {
                Some((reason, message)) => (reason.as_str(), message.clone()),
                None => (*to, format!("{from} → {to}")),
            };
            Some(Said { warning: *to == "Failed", reason, action: "Transition", note, job: None })
        }
        Notice::Workload(component::Notice::Moved { from, to }) => {
            debug!(%shared, from, to, "workload changed");
            None
        }
        Notice::Workload(component::Notice::JobEnded { op, failure }) => {
            let result = if failure.is_some() { "failed" } else { "succeeded" };
            let reason = failure.map(|reason| reason.as_str());
            info!(%shared, op = op.as_str(), result, reason, "job ended");
            metrics.deployer_jobs.get_or_create(&JobLabels { op: op.as_str(), result }).inc();
            None
        }
        Notice::Workload(component::Notice::Retried { op, attempts, reason, .. }) => {
            let note = format!("{} attempt {attempts} failed: {}", op.as_str(), reason.as_str());
            warn!(%shared, note, "attempt failed");
            Some(Said { warning: true, reason: reason.as_str(), action: "Retry", note, job: None })
        }
        Notice::Workload(component::Notice::Forced { reason, .. }) => {
            metrics.forced_cleanups.get_or_create(&OpLabel { op: Op::Undeploy.as_str() }).inc();
            let note = format!("undeploying was given up: {}", reason.as_str());
            warn!(%shared, note, "given up");
            Some(Said { warning: true, reason: "CleanupForced", action: "Undeploy", note, job: None })
        }
    }
}

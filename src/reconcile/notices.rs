//! Notices of the machine → log lines, metrics and events.

use super::{durations::Durations, events::Said};
use crate::{
    controller::Key,
    telemetry::metrics::{JobLabels, Metrics, OpLabel, PhaseLabel, ReasonLabel},
};
use opentelemetry::trace::TraceId;
use petri_machines::{
    component,
    environment::{Identity, Notice, Record},
    job::Op,
    kernel::Timestamp,
    names::{ComponentName, JobName, NamespaceName},
    slice,
};
use std::time::Duration;
use tracing::{debug, info, warn};

/// The environment that something is said about.
pub(super) struct About<'a> {
    pub(super) key: &'a Key,
    pub(super) identity: &'a Identity,
    pub(super) record: &'a Record,
    pub(super) now: Timestamp,
    pub(super) durations: &'a Durations,
    /// The trace that tells more, if one is exported.
    pub(super) trace: Option<TraceId>,
}

impl About<'_> {
    /// Returns the Job of an attempt of a component, and where it is.
    fn job(&self, component: &ComponentName, op: Op, serial: u64) -> Option<(NamespaceName, JobName)> {
        let namespace = self.record.memory.binding.name()?.clone();
        Some((namespace, JobName::of(&self.identity.uid, &self.identity.name, component, op, serial)))
    }
}

/// Logs and counts a notice; returns the event to publish, if it makes one.
pub(super) fn say(notice: &Notice, about: &About<'_>, metrics: &Metrics) -> Option<Said> {
    match notice {
        Notice::Moved { from, to, signal, why } => {
            log(from, to, signal, why.as_ref(), about);
            Some(moved(from, to, why.as_ref(), about, metrics))
        }
        Notice::Expired => {
            info!(environment = %about.identity.name, "time to live is over");
            Some(said("Expired", "Expire", "its time to live is over".to_owned()))
        }
        Notice::Component { component, notice } => self::component(component, notice, about, metrics),
        Notice::Slice { component, notice } => slice(component, notice, about, metrics),
    }
}

fn said(reason: &'static str, action: &'static str, note: String) -> Said {
    Said { warning: false, reason, action, note, job: None }
}

/// The one line of a transition: the phase before and after, the signal that moved it, and the reason of the new one.
fn log(
    from: &'static str,
    to: &'static str,
    signal: &'static str,
    why: Option<&(petri_machines::environment::Reason, String)>,
    about: &About<'_>,
) {
    let environment = &about.identity.name;
    match why {
        Some((reason, message)) => {
            warn!(%environment, from, to, signal, reason = reason.as_str(), message, "phase changed");
        }
        None => info!(%environment, from, to, signal, "phase changed"),
    }
}

fn moved(
    from: &'static str,
    to: &'static str,
    why: Option<&(petri_machines::environment::Reason, String)>,
    about: &About<'_>,
    metrics: &Metrics,
) -> Said {
    if from != to {
        metrics.phase_transitions.get_or_create(&PhaseLabel { phase: to }).inc();
    }
    if let Some((reason, message)) = why {
        let reason = reason.as_str();
        metrics.deploy_failures.get_or_create(&ReasonLabel { reason }).inc();
        return Said { warning: true, reason, action: to, note: message.clone(), job: None };
    }
    if (from, to) == ("Terminating", "Terminating") {
        let note = "all that was deployed is gone; the namespace goes".to_owned();
        return said("CleanupComplete", "Transition", note);
    }
    let note = match to {
        "Ready" => {
            let began = about.record.memory.history.last().map(|rollout| rollout.started_at);
            let took = about.now.0.saturating_sub(began.unwrap_or(about.now).0);
            metrics.deploy_duration.observe(Duration::from_secs(took), about.trace);
            format!("all components are ready after {took} s")
        }
        "Deploying" => match about.record.memory.components.len() {
            1 => "rolling out 1 component".to_owned(),
            all => format!("rolling out {all} components"),
        },
        "Terminating" => "taking everything down".to_owned(),
        _ => format!("{from} → {to}"),
    };
    said(to, "Transition", note)
}

fn slice(
    component: &ComponentName,
    notice: &slice::Notice,
    about: &About<'_>,
    metrics: &Metrics,
) -> Option<Said> {
    let environment = &about.identity.name;
    match notice {
        slice::Notice::Moved { from, to } => {
            debug!(%environment, %component, from, to, "slice changed");
            None
        }
        slice::Notice::JobEnded { op, failure } => {
            let result = if failure.is_some() { "failed" } else { "succeeded" };
            let reason = failure.map(|reason| reason.as_str());
            info!(%environment, %component, op = op.as_str(), result, reason, "job ended");
            metrics.deployer_jobs.get_or_create(&JobLabels { op: op.as_str(), result }).inc();
            None
        }
        slice::Notice::Retried { op, attempts, reason } => {
            let failure = about.record.memory.slices.get(component).and_then(|child| child.failure.as_ref());
            let message = failure.map_or("", |failure| failure.message.as_str());
            let note = format!("component {component}: {} attempt {attempts} failed: {message}", op.as_str());
            warn!(%environment, %component, op = op.as_str(), attempts, reason = reason.as_str(), message, "attempt failed");
            Some(Said { warning: true, reason: reason.as_str(), action: "Retry", note, job: None })
        }
        slice::Notice::Forced { reason } => {
            let op = Op::Deprovision.as_str();
            metrics.forced_cleanups.get_or_create(&OpLabel { op }).inc();
            warn!(%environment, %component, reason = reason.as_str(), "deprovisioning was given up");
            let note = format!("component {component}: deprovisioning was given up: {}", reason.as_str());
            Some(Said { warning: true, reason: "CleanupForced", action: "Deprovision", note, job: None })
        }
    }
}

fn component(
    component: &ComponentName,
    notice: &component::Notice,
    about: &About<'_>,
    metrics: &Metrics,
) -> Option<Said> {
    let environment = &about.identity.name;
    match notice {
        component::Notice::Moved { from, to } => {
            debug!(%environment, %component, from, to, "component changed");
            if let Some(took) = about.durations.moved(about.key, component, from, to) {
                metrics.component_deploy_duration.observe(took, about.trace);
            }
            None
        }
        component::Notice::JobEnded { op, failure } => {
            let result = if failure.is_some() { "failed" } else { "succeeded" };
            let reason = failure.map(|reason| reason.as_str());
            info!(%environment, %component, op = op.as_str(), result, reason, "job ended");
            metrics.deployer_jobs.get_or_create(&JobLabels { op: op.as_str(), result }).inc();
            None
        }
        component::Notice::Retried { op, serial, attempts, reason } => {
            let failure =
                about.record.memory.components.get(component).and_then(|child| child.failure.as_ref());
            let message = failure.map_or("", |failure| failure.message.as_str());
            let note = format!("component {component}: {} attempt {attempts} failed: {message}", op.as_str());
            warn!(%environment, %component, op = op.as_str(), attempts, reason = reason.as_str(), message, "attempt failed");
            let job = about.job(component, *op, *serial);
            Some(Said { warning: true, reason: reason.as_str(), action: "Retry", note, job })
        }
        component::Notice::Forced { serial, reason } => {
            let job = about.job(component, Op::Undeploy, *serial);
            let op = Op::Undeploy.as_str();
            metrics.forced_cleanups.get_or_create(&OpLabel { op }).inc();
            warn!(%environment, %component, reason = reason.as_str(), "undeploying was given up");
            let note = format!("component {component}: undeploying was given up: {}", reason.as_str());
            Some(Said { warning: true, reason: "CleanupForced", action: "Undeploy", note, job })
        }
    }
}

#[cfg(test)]
mod tests;

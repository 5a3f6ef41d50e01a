//! A Job and its pod → how far the Job is. Pure.
//!
//! The container's end is believed before the Job's condition, which its controller writes one to two seconds later.

use crate::{
    controller::kept::{Job, Kept, Pod},
    deployer::report::Report,
    render::{CONTAINER, SCRIPT_CONTAINER},
};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, PodStatus};
use petri_machines::{
    job::{Complaint, JobFailure, JobState, JobView},
    kernel::Timestamp,
    names::{ComponentName, JobName, Uid},
    reason::FailureReason,
};
use std::sync::Arc;

/// Reasons of a waiting container that are no complaint, or one that its last end tells better.
const ON_ITS_WAY: [&str; 4] = ["", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"];

/// What a pod tells of its Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodTold {
    /// The Job's outcome, if the pod alone tells it.
    pub outcome: Option<JobState>,
    /// It can do nothing any more.
    pub is_over: bool,
    /// The cluster took it away.
    pub is_disrupted: bool,
    /// What the kubelet or the scheduler complains about.
    pub waiting: Option<Complaint>,
    /// How it failed, in the kubelet's words.
    pub why: Box<str>,
}

impl From<&PodStatus> for PodTold {
    fn from(status: &PodStatus) -> Self {
        let (phase, is_disrupted) = (status.phase.as_deref(), is_disrupted(status));
        let ended = container(status).and_then(|state| state.terminated.as_ref());
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let why = format!("{} {}", text(&status.reason), text(&status.message)).trim_end().to_owned();
        let outcome = match ended {
            Some(ended) => Some(verdict(ended, is_disrupted)),
            // Evicted before its container began, or with a kubelet that is gone: there is no state to read.
            None if is_disrupted && phase == Some("Failed") => {
                Some(failed(FailureReason::HelmFailed, &pod_failed(&why), true))
            }
            None => None,
        };
        let is_over = matches!(phase, Some("Succeeded" | "Failed")) || ended.is_some();
        Self { outcome, is_over, is_disrupted, waiting: complaint(status), why: why.into() }
    }
}

/// Reads which component a Job is for and how far it is; `None` for a Job that does not bear our labels.
pub(crate) fn view(job: &Kept<Job>, pods: &[Arc<Kept<Pod>>]) -> Option<(ComponentName, JobView)> {
    let component = ComponentName::new(job.of.component.as_deref()?).ok()?;
    let own = pods.iter().filter(|pod| is_controlled_by(pod, &job.uid));
    let view = JobView {
        name: JobName::new(job.name()).ok()?,
        uid: Uid::new(&*job.uid).ok()?,
        serial: job.of.serial?,
        op: job.of.op?,
        state: state(&job.of, own.max_by_key(|pod| pod.created.clone()).map(|pod| &pod.of.told)),
        deleting: job.deleting,
        payload: None,
    };
    Some((component, view))
}

/// Tells since when a Job has no pod, in seconds since the epoch.
pub(super) fn podless_since(job: &Kept<Job>, pods: &[Arc<Kept<Pod>>]) -> Option<Timestamp> {
    let made_at = job.created.as_ref()?;
    let has_pod = pods.iter().any(|pod| is_controlled_by(pod, &job.uid));
    let secs = u64::try_from(made_at.0.as_second()).ok()?;
    (!has_pod).then_some(Timestamp(secs))
}

fn is_controlled_by(pod: &Kept<Pod>, uid: &str) -> bool {
    pod.of.job.as_ref().is_some_and(|job| *job.uid == *uid)
}

fn state(job: &Job, pod: Option<&PodTold>) -> JobState {
    if let Some(outcome) = pod.and_then(|pod| pod.outcome.as_ref()) {
        return outcome.clone();
    }
    for held in &job.holds {
        match &*held.kind {
            "Complete" | "SuccessCriteriaMet" => return JobState::Succeeded,
            "Failed" => return job_failure(&held.reason, &held.message, pod),
            _ => {}
        }
    }
    JobState::Active { waiting: pod.and_then(|pod| pod.waiting.clone()) }
}

fn container(status: &PodStatus) -> Option<&ContainerState> {
    let all = status.container_statuses.as_ref()?;
    all.iter().find(|one| is_own(one))?.state.as_ref()
}

/// Whether a container's end is the Job's outcome.
fn is_own(status: &ContainerStatus) -> bool {
    [CONTAINER, SCRIPT_CONTAINER].contains(&status.name.as_str())
}

fn verdict(ended: &ContainerStateTerminated, disrupted: bool) -> JobState {
    if ended.exit_code == 0 {
        return JobState::Succeeded;
    }
    let said = ended.message.as_deref().unwrap_or_default();
    if let Some(Report::Failed { reason, message }) = Report::parse(said) {
        return failed(reason, &message, disrupted);
    }
    // The runtime writes there too, when the program could not be started; and what is killed writes nothing.
    let why = ended.reason.as_deref().unwrap_or("Error");
    let end = format!("it ended without a report: {why}, exit code {}", ended.exit_code);
    let message = if said.is_empty() { end } else { format!("{end}: {said}") };
    failed(FailureReason::HelmFailed, &message, disrupted)
}

fn job_failure(reason: &str, message: &str, pod: Option<&PodTold>) -> JobState {
    let disrupted = pod.is_some_and(|pod| pod.is_disrupted);
    match (reason, pod) {
        ("DeadlineExceeded", _) => {
            let waiting = pod.and_then(|pod| pod.waiting.as_ref());
            let waited = waiting.map(|why| format!(" ({})", why.message)).unwrap_or_default();
            failed(FailureReason::JobDeadline, &format!("{message}{waited}"), disrupted)
        }
        ("PodFailurePolicy", _) => failed(FailureReason::HelmFailed, message, true),
        (_, Some(pod)) => {
            let message = format!("{message}; {}", pod_failed(&pod.why));
            failed(FailureReason::HelmFailed, &message, disrupted)
        }
        // A pod that failed stays; one that is gone was taken away, and its outcome with it.
        (_, None) => failed(FailureReason::HelmFailed, &format!("{message}; its pod is gone"), true),
    }
}

fn failed(reason: FailureReason, message: &str, disrupted: bool) -> JobState {
    JobState::Failed(JobFailure { reason, message: message.to_owned(), disrupted })
}

fn pod_failed(why: &str) -> String {
    format!("its pod failed: {why}").trim_end().to_owned()
}

/// Whether the cluster took the pod away.
fn is_disrupted(status: &PodStatus) -> bool {
    let target = |one: &k8s_openapi::api::core::v1::PodCondition| {
        one.type_ == "DisruptionTarget" && one.status == "True"
    };
    status.conditions.iter().flatten().any(target)
        || matches!(status.reason.as_deref(), Some("Evicted" | "Preempting" | "NodeLost" | "Shutdown"))
}

/// What the kubelet or the scheduler complains about.
fn complaint(status: &PodStatus) -> Option<Complaint> {
    let own = status.container_statuses.iter().flatten().find(|one| is_own(one));
    own.and_then(stuck).or_else(|| unscheduled(status))
}

/// What keeps a container from being started; in the same words at every turn of the kubelet's backoff.
pub(crate) fn stuck(status: &ContainerStatus) -> Option<Complaint> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| !ON_ITS_WAY.contains(reason))?;
    let message = waiting.message.as_deref().unwrap_or_default();
    // The one follows the other for as long as the image cannot be pulled.
    let reason = if reason == "ErrImagePull" { "ImagePullBackOff" } else { reason };
    let message = message.split_once("ErrImagePull: ").map_or(message, |(_, cause)| cause);
    let told = format!("{reason}: {message}").trim_end_matches([':', ' ']).to_owned();
    Some(Complaint { reason: class(reason), message: told })
}

/// The reasons of the kubelet for a container that it cannot start; those not named here are about what it is made
/// from: its ConfigMaps, its Secrets, its command.
fn class(reason: &str) -> FailureReason {
    match reason {
        "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable"
        | "SignatureValidationFailed" => FailureReason::ImagePull,
        _ => FailureReason::CrashLoop,
    }
}

/// Why no node takes a pod.
pub(crate) fn unscheduled(status: &PodStatus) -> Option<Complaint> {
    let told = status.conditions.iter().flatten().find(|one| {
        one.type_ == "PodScheduled" && one.status == "False" && one.reason.as_deref() == Some("Unschedulable")
    })?;
    let message = format!("Unschedulable: {}", told.message.as_deref().unwrap_or_default());
    Some(Complaint { reason: FailureReason::Unschedulable, message })
}

#[cfg(test)]
mod tests;

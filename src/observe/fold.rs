//! A Job and its pod → how far the Job is. Pure.
//!
//! The container's end is believed before the Job's condition, which its controller writes one to two seconds later.

use crate::{
    deployer::report::Report,
    render::{CONTAINER, SCRIPT_CONTAINER},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus},
};
use petri_crds::meta::{ANNOTATION_SERIAL, LABEL_COMPONENT, LABEL_OP};
use petri_machines::{
    job::{Complaint, JobFailure, JobState, JobView, Op},
    kernel::Timestamp,
    names::{ComponentName, JobName, Uid},
    reason::FailureReason,
};
use std::sync::Arc;

/// Reasons of a waiting container that are no complaint, or one that its last end tells better.
const ON_ITS_WAY: [&str; 4] = ["", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"];

/// Reads which component a Job is for and how far it is; `None` for a Job that does not bear our labels.
pub(crate) fn view(job: &Job, pods: &[Arc<Pod>]) -> Option<(ComponentName, JobView)> {
    let meta = &job.metadata;
    let label = |key| meta.labels.as_ref()?.get(key).cloned();
    let component = ComponentName::new(label(LABEL_COMPONENT)?).ok()?;
    let op = label(LABEL_OP)?;
    let op = Op::ALL.into_iter().find(|known| known.as_str() == op)?;
    let serial = meta.annotations.as_ref()?.get(ANNOTATION_SERIAL)?.parse().ok()?;
    let uid = meta.uid.clone()?;
    let pod = pods.iter().filter(|pod| is_controlled_by(pod, &uid)).max_by_key(|pod| made_at(pod));
    let view = JobView {
        name: JobName::new(meta.name.clone()?).ok()?,
        uid: Uid::new(uid).ok()?,
        serial,
        op,
        state: state(job, pod.map(Arc::as_ref)),
        deleting: meta.deletion_timestamp.is_some(),
        payload: None,
    };
    Some((component, view))
}

/// Tells since when a Job has no pod, in seconds since the epoch.
pub(super) fn podless_since(job: &Job, pods: &[Arc<Pod>]) -> Option<Timestamp> {
    let uid = job.metadata.uid.as_deref()?;
    let made_at = job.metadata.creation_timestamp.as_ref()?;
    let has_pod = pods.iter().any(|pod| is_controlled_by(pod, uid));
    let secs = u64::try_from(made_at.0.as_second()).ok()?;
    (!has_pod).then_some(Timestamp(secs))
}

fn is_controlled_by(pod: &Pod, uid: &str) -> bool {
    let owners = pod.metadata.owner_references.iter().flatten();
    owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

fn made_at(pod: &Pod) -> Option<String> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string())
}

fn state(job: &Job, pod: Option<&Pod>) -> JobState {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let disrupted = status.is_some_and(is_disrupted);
    if let Some(ended) = status.and_then(container).and_then(|state| state.terminated.as_ref()) {
        return verdict(ended, disrupted);
    }
    if disrupted && status.is_some_and(|status| status.phase.as_deref() == Some("Failed")) {
        // Evicted before its container began, or with a kubelet that is gone: there is no state to read.
        return failed(FailureReason::HelmFailed, &pod_message(status), true);
    }
    for (kind, reason, message) in conditions(job) {
        match kind {
            "Complete" | "SuccessCriteriaMet" => return JobState::Succeeded,
            "Failed" => return job_failure(reason, message, status, disrupted),
            _ => {}
        }
    }
    JobState::Active { waiting: status.and_then(complaint) }
}

/// The conditions of a Job that hold: type, reason and message.
fn conditions(job: &Job) -> impl Iterator<Item = (&str, &str, &str)> {
    let all = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.filter(|condition| condition.status == "True").map(|condition| {
        (
            condition.type_.as_str(),
            condition.reason.as_deref().unwrap_or_default(),
            condition.message.as_deref().unwrap_or_default(),
        )
    })
}

fn container(status: &PodStatus) -> Option<&ContainerState> {
    let all = status.container_statuses.as_ref()?;
    all.iter().find(|one| is_own(one))?.state.as_ref()
}

/// Whether a container's end is the Job's outcome.
fn is_own(status: &ContainerStatus) -> bool {
    [CONTAINER, SCRIPT_CONTAINER].contains(&status.name.as_str())
}

/// Tells whether a deployer's pod can do nothing any more.
pub(crate) fn has_ended(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"))
        || container(status).is_some_and(|state| state.terminated.is_some())
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

fn job_failure(reason: &str, message: &str, pod: Option<&PodStatus>, disrupted: bool) -> JobState {
    match (reason, pod) {
        ("DeadlineExceeded", _) => {
            let waited = pod.and_then(complaint).map(|why| format!(" ({})", why.message)).unwrap_or_default();
            failed(FailureReason::JobDeadline, &format!("{message}{waited}"), disrupted)
        }
        ("PodFailurePolicy", _) => failed(FailureReason::HelmFailed, message, true),
        (_, Some(status)) => {
            let message = format!("{message}; {}", pod_message(Some(status)));
            failed(FailureReason::HelmFailed, &message, disrupted)
        }
        // A pod that failed stays; one that is gone was taken away, and its outcome with it.
        (_, None) => failed(FailureReason::HelmFailed, &format!("{message}; its pod is gone"), true),
    }
}

fn failed(reason: FailureReason, message: &str, disrupted: bool) -> JobState {
    JobState::Failed(JobFailure { reason, message: message.to_owned(), disrupted })
}

fn pod_message(status: Option<&PodStatus>) -> String {
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let reason = text(status.and_then(|status| status.reason.as_ref()));
    let message = text(status.and_then(|status| status.message.as_ref()));
    format!("its pod failed: {reason} {message}").trim_end().to_owned()
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

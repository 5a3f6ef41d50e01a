//! What can go wrong with an effect, and when to look again.

use crate::{error::CallError, render::Target};
use petri_machines::kernel::cycle::Refusal;

/// Why an effect was not applied, or perhaps not.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The call was refused because a right that was just given is not in force yet.
    #[error("{0} (the right was given a moment ago)")]
    Lagging(CallError),
    /// What was to be deleted is not what was read.
    #[error("{0}")]
    Fenced(CallError),
    /// The name is still held by something that goes.
    #[error("{0}")]
    Occupied(CallError),
    /// The name is held by something that Petri did not make.
    #[error("{:?} {} is there and was not made for this environment", .0.resource, .0.name)]
    Foreign(Target),
    /// Another Job of the release, or its pod, has not ended.
    #[error("{0} of the same release has not ended")]
    Busy(String),
    /// The namespace is not the environment's own, or goes.
    #[error("namespace {namespace} {why}")]
    Displaced {
        /// The namespace.
        namespace: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Error {
    /// Says when to look again.
    pub fn class(&self) -> Refusal {
        match self {
            Self::Call(call) => call_class(call),
            Self::Lagging(_) => Refusal::Retry,
            Self::Fenced(_) | Self::Displaced { .. } => Refusal::Fenced,
            Self::Occupied(_) | Self::Busy(_) => Refusal::Backoff,
            // A namespace's name is chosen anew once it is seen to be foreign; nothing else has another name.
            Self::Foreign(target) if target.namespace.is_none() => Refusal::Fenced,
            Self::Foreign(_) => Refusal::Rejected,
        }
    }
}

/// Classes the failure of a call; sources are the observed answers of a real API server.
pub fn call_class(error: &CallError) -> Refusal {
    let Some(status) = error.status() else {
        // No answer, or no leadership: whatever was done is seen at the next look.
        return Refusal::Backoff;
    };
    let message = status.message.as_str();
    match (status.code, status.reason.as_str()) {
        (409, _) => Refusal::Retry,
        // The namespace goes: the next look sees that.
        (403, _) if has_cause(error, "NamespaceTerminating") => Refusal::Backoff,
        // A create in a namespace that is gone, or a write to an object that is.
        (404, _) => Refusal::Fenced,
        // The UID of a namesake in a patch.
        (422, _) if message.contains("field is immutable") => Refusal::Fenced,
        (408 | 429, _) => Refusal::Backoff,
        (code, _) if code >= 500 => Refusal::Backoff,
        _ => Refusal::Rejected,
    }
}

/// Names a refusal for logs and metrics.
pub fn name(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Retry => "retry",
        Refusal::Backoff => "backoff",
        Refusal::Rejected => "rejected",
        Refusal::Fenced => "fenced",
    }
}

pub(super) fn is_forbidden(error: &CallError) -> bool {
    error.status().is_some_and(|status| status.code == 403) && !has_cause(error, "NamespaceTerminating")
}

pub(super) fn is_taken(error: &CallError) -> bool {
    error.status().is_some_and(|status| status.code == 409 && status.reason == "AlreadyExists")
}

pub(super) fn is_taken_by_the_dying(error: &CallError) -> bool {
    is_taken(error)
        && error.status().is_some_and(|status| status.message.starts_with("object is being deleted"))
}

fn has_cause(error: &CallError, reason: &str) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
}

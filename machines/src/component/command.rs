//! What a component wants done.

use crate::{
    job::Op,
    names::{JobName, Uid},
    reason::FailureReason,
};

/// A desired fact about one component: one API write each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// The immutable Secret that the deploy Job of this attempt reads; an undeploy is told all in its Job.
    CreatePayload {
        /// The attempt.
        serial: u64,
    },
    /// The Job of this attempt.
    CreateJob {
        /// What it does.
        op: Op,
        /// The attempt.
        serial: u64,
    },
    /// A payload Secret whose Job has ended and is replaced.
    DeletePayload {
        /// Its name.
        name: JobName,
        /// Its identity.
        uid: Uid,
    },
    /// A Job that is replaced, or that is in the way of a deletion; with its pods, in the foreground.
    DeleteJob {
        /// Its name.
        name: JobName,
        /// Its identity.
        uid: Uid,
    },
}

/// Something said once about a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    /// It rests in another phase.
    Moved {
        /// Where it was.
        from: &'static str,
        /// Where it is.
        to: &'static str,
    },
    /// A Job's outcome was accepted.
    JobEnded {
        /// What it did.
        op: Op,
        /// Why it failed; `None` for success.
        failure: Option<FailureReason>,
    },
    /// An attempt failed and another will follow.
    Retried {
        /// What failed.
        op: Op,
        /// The attempt.
        serial: u64,
        /// Failed attempts so far.
        attempts: u8,
        /// Why.
        reason: FailureReason,
    },
    /// Undeploying was given up.
    Forced {
        /// The last attempt.
        serial: u64,
        /// Why the last attempt failed.
        reason: FailureReason,
    },
}

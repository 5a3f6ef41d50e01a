//! What a slice wants done.

use crate::{
    job::Op,
    names::{Digest, JobName, SharedName, Uid},
    reason::FailureReason,
};

/// One shared component as it was read: a write to it succeeds only while it is still that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// Its name.
    pub shared: SharedName,
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub version: String,
}

/// A desired fact about one slice: one API write each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// A place among the consumers, by compare-and-swap.
    Register(Fence),
    /// The obligation; one that stands keeps what was generated and what was frozen.
    Oblige {
        /// What it is rendered from.
        payload: Digest,
        /// The one that is rewritten; `None` to make it.
        replaces: Option<Uid>,
    },
    /// The binding Secret, rendered once.
    Bind,
    /// The Job of this attempt.
    CreateJob {
        /// What it does.
        op: Op,
        /// The attempt.
        serial: u64,
    },
    /// A Job that is replaced, in the way, or the last trace; with its pods, in the foreground.
    DeleteJob {
        /// Its name.
        name: JobName,
        /// Its identity.
        uid: Uid,
    },
    /// The obligation goes: it is met.
    Acquit {
        /// Its identity.
        uid: Uid,
    },
    /// The binding Secret goes.
    Unbind {
        /// Its identity.
        uid: Uid,
    },
    /// The place is given up, by compare-and-swap.
    Release(Fence),
    /// That the deprovisioning was given up is written down, by compare-and-swap; the place stays taken.
    Abandon {
        /// Where.
        at: Fence,
        /// Why the last attempt failed.
        reason: String,
    },
}

/// Something said once about a slice.
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
        /// Failed attempts so far.
        attempts: u8,
        /// Why.
        reason: FailureReason,
    },
    /// Deprovisioning was given up.
    Forced {
        /// Why the last attempt failed.
        reason: FailureReason,
    },
}

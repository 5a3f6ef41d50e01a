//! Everything a component may look at.

use crate::{
    job::JobView,
    kernel::{Seen, Timestamp},
    names::Digest,
    reason::FailureReason,
};

/// What the parent lets a component do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Start and finish.
    Admitted,
    /// Finish what was started, start nothing.
    Held,
    /// Leave; undeploy once it is its turn.
    Leaving {
        /// Whether all that depends on it is gone.
        turn: bool,
    },
    /// Leave without undeploying: its namespace is gone, foreign or terminating.
    Abandoned,
}

/// What is wanted of a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Planned {
    /// Its place in the order.
    pub level: u32,
    /// All that its Job gets, but for serial and trace.
    pub payload: Digest,
    /// Whether the chart source can never mean something else (full SHA, digest, exact version, image path).
    pub immutable: bool,
    /// Seconds it has to become ready, counted from its Job's success.
    pub ready_within_secs: u64,
}

/// Whether the workload of the accepted serial serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Readiness {
    /// All of it is current and available, and the probe answers.
    Ready,
    /// Something is missing.
    Unready {
        /// What it is.
        why: String,
        /// What keeps a pod from starting or staying, when that is why: then waiting on helps little.
        cause: Option<FailureReason>,
    },
}

/// Everything a component may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The wall clock.
    pub now: Timestamp,
    /// Seconds that a pod may fail to start before its attempt is charged; 0 for as long as it likes.
    pub pod_failure_secs: u64,
    /// What the parent lets it do.
    pub permission: Permission,
    /// What is wanted; `None` when that is unknown or the component is not wanted any more.
    pub plan: Option<Planned>,
    /// The serial that a new attempt gets.
    pub next_serial: u64,
    /// The Jobs of this component, of any serial and operation.
    pub jobs: Seen<Vec<JobView>>,
    /// The readiness of what was accepted last.
    pub readiness: Seen<Readiness>,
}

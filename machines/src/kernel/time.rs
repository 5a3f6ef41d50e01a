//! Wall-clock time as data, and the reasons to look again.

use serde::{Deserialize, Serialize};

/// Wall-clock seconds since the Unix epoch.
///
/// Wall clock, not a monotonic instant: it is stored and must mean the same after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the time `secs` later; saturates instead of overflowing.
    pub fn after(self, secs: u64) -> Self {
        Self(self.0.saturating_add(secs))
    }
}

/// Why a machine wants to be looked at again although nothing was seen to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeReason {
    /// When the environment's time to live is over.
    Expiry,
    /// When ten per cent of the time to live are left.
    ExpiryNear,
    /// When a failed attempt may be repeated; the only reason whose time the shell may jitter.
    Backoff,
    /// When a component has used up its time to become ready.
    ReadinessDeadline,
    /// When a pod has failed to start for too long.
    PodFailure,
    /// When a deployer Job that is in the way of a deletion has had its grace.
    DrainDeadline,
    /// When nobody has used a shared component for too long.
    Idle,
    /// When something that could not be read is to be read again.
    Unreadable,
    /// When a state that no watch reports on is to be read again.
    Unwatched,
}

/// When to look again, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wake {
    /// The earliest useful moment.
    pub at: Timestamp,
    /// The cause, for logs and for the shell's jitter.
    pub reason: WakeReason,
}

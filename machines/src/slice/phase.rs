//! What is stored of a slice.

use crate::{
    component::Ailment,
    job::{Attempt, JobFailure},
    kernel::Timestamp,
    names::{Digest, SharedName},
    reason::FailureReason,
};
use serde::{Deserialize, Serialize};

/// Where a slice rests, in the order of its life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// It takes its place and has its Secrets written; nothing is provisioned yet.
    Pending {
        /// The end of the pause after a failed attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// A provision attempt is committed.
    Provisioning {
        /// The attempt.
        attempt: Attempt,
    },
    /// It can be used.
    Provisioned,
    /// No further attempt is made for this payload.
    Failed,
    /// It leaves; a Job that still runs has its grace.
    Draining {
        /// When what still runs is ended.
        kill_at: Timestamp,
    },
    /// A deprovision attempt is committed.
    Deprovisioning {
        /// The attempt.
        attempt: Attempt,
    },
    /// A deprovision attempt failed.
    Retreating {
        /// When the next begins.
        not_before: Timestamp,
    },
    /// Nothing is left to deprovision, or that was given up; what stands of it goes or is written down.
    Releasing {
        /// Whether it was given up after too many failed attempts.
        forced: bool,
    },
    /// Nothing of it is left, or what is left is written down.
    Gone {
        /// Whether it was given up after too many failed attempts.
        forced: bool,
    },
}

/// The stored form of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Where it rests.
    pub phase: Phase,
    /// The shared component it is a slice of; it never changes.
    pub shared: SharedName,
    /// Its level when it was last planned.
    pub level: u32,
    /// What it was provisioned by last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Digest>,
    /// The payload of the attempt under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Digest>,
    /// Failed provision attempts for this payload.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub provision_attempts: u8,
    /// Failed deprovision attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deprovision_attempts: u8,
    /// Attempts that the cluster disrupted, not charged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disruptions: u8,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<JobFailure>,
    /// What keeps a pod of the attempt under way from starting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ailment: Option<Ailment>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u8) -> bool {
    *count == 0
}

impl Record {
    /// Returns a slice of which nothing was started.
    pub fn new(shared: SharedName, level: u32) -> Self {
        Self {
            phase: Phase::Pending { not_before: None },
            shared,
            level,
            accepted: None,
            payload: None,
            provision_attempts: 0,
            deprovision_attempts: 0,
            disruptions: 0,
            failure: None,
            ailment: None,
        }
    }

    /// Returns the attempt under way.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.phase {
            Phase::Provisioning { attempt } | Phase::Deprovisioning { attempt } => Some(attempt),
            Phase::Pending { .. }
            | Phase::Provisioned
            | Phase::Failed
            | Phase::Draining { .. }
            | Phase::Retreating { .. }
            | Phase::Releasing { .. }
            | Phase::Gone { .. } => None,
        }
    }

    /// Returns why the last attempt failed; a damaged record may not know.
    pub fn cause(&self) -> JobFailure {
        let unknown = || JobFailure {
            reason: FailureReason::HelmFailed,
            message: "the cause was not recorded".to_owned(),
            disrupted: false,
        };
        self.failure.clone().unwrap_or_else(unknown)
    }

    /// Whether it is provisioned as this payload asks for; an unknown one asks for nothing new.
    pub fn is_provisioned(&self, payload: Option<&Digest>) -> bool {
        matches!(self.phase, Phase::Provisioned)
            && payload.is_none_or(|payload| self.accepted.as_ref() == Some(payload))
    }
}

impl Phase {
    /// Whether it leaves or has left.
    pub fn leaves(&self) -> bool {
        match self {
            Self::Draining { .. }
            | Self::Deprovisioning { .. }
            | Self::Retreating { .. }
            | Self::Releasing { .. }
            | Self::Gone { .. } => true,
            Self::Pending { .. } | Self::Provisioning { .. } | Self::Provisioned | Self::Failed => false,
        }
    }

    /// Returns the phase's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "Pending",
            Self::Provisioning { .. } => "Provisioning",
            Self::Provisioned => "Provisioned",
            Self::Failed => "Failed",
            Self::Draining { .. } => "Draining",
            Self::Deprovisioning { .. } => "Deprovisioning",
            Self::Retreating { .. } => "Retreating",
            Self::Releasing { .. } => "Releasing",
            Self::Gone { .. } => "Gone",
        }
    }
}

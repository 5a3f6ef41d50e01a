//! What is stored of a component.

use crate::{
    job::{Attempt, Complaint, JobFailure},
    kernel::{Timestamp, limits::bounded},
    names::{Digest, Uid},
    reason::FailureReason,
};
use serde::{Deserialize, Serialize};

/// Where a component rests, in the order of its life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// Nothing of the wanted payload was started.
    Pending {
        /// The end of the pause after a failed attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<Timestamp>,
    },
    /// An attempt is committed; its Job may or may not exist.
    Submitting {
        /// The attempt.
        attempt: Attempt,
    },
    /// The attempt's Job was seen.
    Deploying {
        /// The attempt.
        attempt: Attempt,
    },
    /// The Job's success is accepted; the workload becomes ready.
    Settling {
        /// When the success was accepted.
        since: Timestamp,
        /// When the attempt is charged for not being ready.
        give_up_at: Timestamp,
    },
    /// The workload was ready.
    Ready,
    /// No further attempt is made for this payload.
    Failed,
    /// The component leaves; a Job that still runs has its grace.
    Draining {
        /// When what still runs is ended.
        kill_at: Timestamp,
    },
    /// An undeploy attempt is committed.
    Undeploying {
        /// The attempt.
        attempt: Attempt,
    },
    /// An undeploy attempt failed.
    Retreating {
        /// When the next begins.
        not_before: Timestamp,
    },
    /// Nothing of the component is left, or nothing can be done about it.
    Gone {
        /// Whether it was given up after too many failed attempts.
        forced: bool,
    },
}

/// The outcome that was accepted for the release as it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The serial of its attempt; the inventory of this serial tells what must be ready.
    pub serial: u64,
    /// The Job it came from.
    pub job: Uid,
    /// What was deployed.
    pub payload: Digest,
}

/// A complaint that stands: of the attempt's Job, or of the workload that it deployed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ailment {
    /// Since when it is of this class.
    pub since: Timestamp,
    /// What was told last.
    pub complaint: Complaint,
}

impl Ailment {
    /// Returns when it ends the attempt; `None` when it never does.
    pub fn ends_at(&self, pod_failure_secs: u64) -> Option<Timestamp> {
        (pod_failure_secs > 0).then(|| self.since.after(pod_failure_secs))
    }

    /// Remembers since when a complaint of its class stands. Returns the failure once that was too long, else when it
    /// will be.
    pub fn note(
        held: &mut Option<Self>,
        complaint: Option<Complaint>,
        now: Timestamp,
        pod_failure_secs: u64,
    ) -> Result<Option<Timestamp>, JobFailure> {
        let before = held.take();
        let Some(Complaint { reason, message }) = complaint else { return Ok(None) };
        let since =
            before.filter(|before| before.complaint.reason == reason).map_or(now, |before| before.since);
        let ailment =
            held.insert(Self { since, complaint: Complaint { reason, message: bounded(&message) } });
        if ailment.is_over(now, pod_failure_secs) {
            Err(ailment.failure())
        } else {
            Ok(ailment.ends_at(pod_failure_secs))
        }
    }

    /// Returns the failure that it comes to once it has stood for too long.
    pub fn failure(&self) -> JobFailure {
        let Complaint { reason, message } = self.complaint.clone();
        JobFailure { reason, message, disrupted: false }
    }

    /// Whether it has stood for too long.
    pub fn is_over(&self, now: Timestamp, pod_failure_secs: u64) -> bool {
        self.ends_at(pod_failure_secs).is_some_and(|at| at <= now)
    }
}

/// The stored form of a component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Where it rests.
    pub phase: Phase,
    /// Its level when it was last planned; undeploying goes by it when the template is gone.
    pub level: u32,
    /// The payload of the attempt under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Digest>,
    /// The last success, unless an attempt was committed after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    /// Failed deploy attempts for this payload.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deploy_attempts: u8,
    /// Failed undeploy attempts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub undeploy_attempts: u8,
    /// Attempts that the cluster disrupted, not charged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disruptions: u8,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<JobFailure>,
    /// What keeps a pod of the attempt under way from starting; forgotten with the phase it was seen in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ailment: Option<Ailment>,
    /// Whether any attempt was ever committed: if not, there is nothing to undeploy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub touched: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u8) -> bool {
    *count == 0
}

impl Record {
    /// Returns a component of which nothing was started.
    pub fn new(level: u32) -> Self {
        Self {
            phase: Phase::Pending { not_before: None },
            level,
            payload: None,
            accepted: None,
            deploy_attempts: 0,
            undeploy_attempts: 0,
            disruptions: 0,
            failure: None,
            ailment: None,
            touched: false,
        }
    }

    /// Returns the serial of the attempt under way, else of what was accepted last; 0 before the first.
    pub fn serial(&self) -> u64 {
        let accepted = self.accepted.as_ref().map(|accepted| accepted.serial);
        self.attempt().map(|attempt| attempt.serial).or(accepted).unwrap_or_default()
    }

    /// Returns the attempt under way.
    pub fn attempt(&self) -> Option<&Attempt> {
        match &self.phase {
            Phase::Submitting { attempt } | Phase::Deploying { attempt } | Phase::Undeploying { attempt } => {
                Some(attempt)
            }
            Phase::Pending { .. }
            | Phase::Settling { .. }
            | Phase::Ready
            | Phase::Failed
            | Phase::Draining { .. }
            | Phase::Retreating { .. }
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

    /// Whether the component holds one of its level's places.
    pub fn is_under_way(&self) -> bool {
        matches!(self.phase, Phase::Submitting { .. } | Phase::Deploying { .. } | Phase::Settling { .. })
    }
}

impl Phase {
    /// Whether it leaves or has left; only a new rollout brings it back.
    pub fn leaves(&self) -> bool {
        match self {
            Self::Draining { .. }
            | Self::Undeploying { .. }
            | Self::Retreating { .. }
            | Self::Gone { .. } => true,
            Self::Pending { .. }
            | Self::Submitting { .. }
            | Self::Deploying { .. }
            | Self::Settling { .. }
            | Self::Ready
            | Self::Failed => false,
        }
    }

    /// Returns the phase's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "Pending",
            Self::Submitting { .. } => "Submitting",
            Self::Deploying { .. } => "Deploying",
            Self::Settling { .. } => "Settling",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Draining { .. } => "Draining",
            Self::Undeploying { .. } => "Undeploying",
            Self::Retreating { .. } => "Retreating",
            Self::Gone { .. } => "Gone",
        }
    }
}

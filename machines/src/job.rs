//! One attempt at one operation on one release, and what its Job says of it.

use crate::{
    kernel::seen::{Ignorance, Seen},
    names::{JobName, Uid},
    reason::FailureReason,
};
use serde::{Deserialize, Serialize};

/// What a Job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// Installs or upgrades a release.
    Deploy,
    /// Uninstalls a release.
    Undeploy,
    /// Makes a consumer's slice of a shared component.
    Provision,
    /// Takes a consumer's slice away.
    Deprovision,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Deploy, Self::Undeploy, Self::Provision, Self::Deprovision];

    /// Whether it takes away what was made.
    pub fn removes(self) -> bool {
        match self {
            Self::Undeploy | Self::Deprovision => true,
            Self::Deploy | Self::Provision => false,
        }
    }

    /// Returns the word in names, labels and the Job's environment.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Undeploy => "undeploy",
            Self::Provision => "provision",
            Self::Deprovision => "deprovision",
        }
    }
}

/// The attempt that was committed before its Job was created.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Rises with every attempt of the environment and is never used twice.
    pub serial: u64,
    /// The Job once it was seen; only this one's outcome counts from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Uid>,
}

/// One Job as it was observed, with its pod folded in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobView {
    /// Its name.
    pub name: JobName,
    /// Its identity.
    pub uid: Uid,
    /// The attempt it was made for.
    pub serial: u64,
    /// What it does.
    pub op: Op,
    /// How far it is.
    pub state: JobState,
    /// Whether it is being deleted; its name and its pod are still there.
    pub deleting: bool,
    /// The payload Secret that bears its name, if it was looked for and found.
    pub payload: Option<Uid>,
}

/// How far a Job is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Not ended; its pod may be kept from starting.
    Active {
        /// What the kubelet, the scheduler or an admission complains about.
        waiting: Option<Complaint>,
    },
    /// Its container ended well.
    Succeeded,
    /// It ended badly.
    Failed(JobFailure),
}

/// What keeps a pod from starting; the same words for as long as it is the same cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Complaint {
    /// The class of the cause.
    pub reason: FailureReason,
    /// What a person needs to know.
    pub message: String,
}

/// Why a Job ended badly.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFailure {
    /// The class of the failure.
    pub reason: FailureReason,
    /// What a person needs to know.
    pub message: String,
    /// Whether the cluster took the pod away (eviction, drain): no fault of the attempt.
    pub disrupted: bool,
}

/// What the Jobs of one component say of the recorded attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The Jobs could not be read.
    Unknown(Ignorance),
    /// Another Job of this release has not ended: nothing may be started beside it.
    Busy(&'a JobView),
    /// The attempt's Job was never seen and is not there.
    Absent,
    /// The attempt's Job was seen once and is gone, or another bears its name.
    Lost,
    /// The attempt's Job runs.
    Active(&'a JobView),
    /// The attempt's Job ended well.
    Succeeded(&'a JobView),
    /// The attempt's Job ended badly.
    Failed(&'a JobView, &'a JobFailure),
}

/// Reads the verdict on `attempt`. A Job counts only if serial, operation and, once recorded, UID are the attempt's:
/// so the old success of a payload A is no success after A → B → A.
pub fn verdict<'a>(attempt: &Attempt, op: Op, jobs: &'a Seen<Vec<JobView>>) -> Verdict<'a> {
    let jobs = match jobs {
        Seen::Unknown(why) => return Verdict::Unknown(*why),
        Seen::Known(jobs) => jobs,
    };
    let own = jobs.iter().find(|job| {
        job.serial == attempt.serial && job.op == op && attempt.job.as_ref().is_none_or(|uid| *uid == job.uid)
    });
    if let Some(job) = own {
        return match &job.state {
            JobState::Succeeded => Verdict::Succeeded(job),
            JobState::Failed(failure) => Verdict::Failed(job, failure),
            JobState::Active { .. } => Verdict::Active(job),
        };
    }
    if attempt.job.is_some() {
        return Verdict::Lost;
    }
    match jobs.iter().find(|job| is_live(job)) {
        Some(other) => Verdict::Busy(other),
        None => Verdict::Absent,
    }
}

/// Whether a Job may still do something to its release.
pub fn is_live(job: &JobView) -> bool {
    matches!(job.state, JobState::Active { .. })
}

/// Returns the Jobs that have ended and whose outcome nobody awaits: they may be replaced.
pub fn replaced<'a>(attempt: &Attempt, jobs: &'a Seen<Vec<JobView>>) -> impl Iterator<Item = &'a JobView> {
    let serial = attempt.serial;
    jobs.known()
        .into_iter()
        .flatten()
        .filter(move |job| !is_live(job) && !job.deleting && job.serial < serial)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(serial: u64, uid: &str, state: JobState) -> JobView {
        JobView {
            name: JobName::new("petri-deploy-x").unwrap(),
            uid: Uid::new(uid).unwrap(),
            serial,
            op: Op::Deploy,
            state,
            deleting: false,
            payload: None,
        }
    }

    fn check(attempt: (u64, Option<&str>), jobs: &[JobView], expected: &str) {
        let attempt = Attempt { serial: attempt.0, job: attempt.1.map(|uid| Uid::new(uid).unwrap()) };
        let seen = Seen::Known(jobs.to_vec());
        let found = match verdict(&attempt, Op::Deploy, &seen) {
            Verdict::Unknown(_) => "unknown",
            Verdict::Busy(_) => "busy",
            Verdict::Absent => "absent",
            Verdict::Lost => "lost",
            Verdict::Active(_) => "active",
            Verdict::Succeeded(_) => "succeeded",
            Verdict::Failed(..) => "failed",
        };
        assert_eq!(found, expected, "{attempt:?} {jobs:?}");
    }

    #[test]
    fn job_11_an_outcome_counts_only_for_its_serial_and_uid() {
        check((2, None), &[job(1, "a", JobState::Succeeded)], "absent");
        check((2, None), &[job(2, "b", JobState::Succeeded)], "succeeded");
        check((2, Some("b")), &[job(2, "c", JobState::Succeeded)], "lost");
    }

    #[test]
    fn scenario_41_a_running_job_of_an_older_attempt_is_waited_for() {
        let running = JobState::Active { waiting: None };
        check((2, None), &[job(1, "a", running.clone())], "busy");
        check((2, None), &[job(2, "b", running.clone()), job(1, "a", running)], "active");
    }

    #[test]
    fn job_09_a_job_that_was_seen_and_is_gone_is_lost_and_one_never_seen_is_absent() {
        check((1, Some("a")), &[], "lost");
        check((1, None), &[], "absent");
        assert_eq!(
            verdict(&Attempt { serial: 1, job: None }, Op::Deploy, &Seen::Unknown(Ignorance::Failed)),
            Verdict::Unknown(Ignorance::Failed)
        );
    }
}

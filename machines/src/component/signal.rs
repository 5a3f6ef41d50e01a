//! The one verdict that a component acts on, computed from its record and its world.

use super::{Permission, Phase, Readiness, Record, World};
use crate::{
    job::{self, JobFailure, JobView, Op, Verdict},
    kernel::{Seen, seen::Ignorance},
    reason::FailureReason,
};

/// What the world says to this phase; first match wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal<'w> {
    /// Its namespace cannot be worked in any more.
    Abandoned,
    /// It has to go.
    Leaving {
        /// Whether all that depends on it is gone.
        turn: bool,
    },
    /// What the phase needs could not be read.
    Unreadable(Ignorance),
    /// It may start.
    Admitted,
    /// It must not start yet.
    Held,
    /// A pause is not over.
    Early,
    /// Another Job of the release has not ended.
    Busy(&'w JobView),
    /// The attempt's Job is not there yet.
    Absent,
    /// The attempt's Job runs.
    Active(&'w JobView),
    /// The attempt's Job ended well.
    Succeeded(&'w JobView),
    /// The attempt's Job ended badly.
    Broken(&'w JobView, &'w JobFailure),
    /// The attempt's Job vanished.
    Lost,
    /// The workload serves.
    Ready,
    /// The workload does not serve; a pod may be the cause.
    Unready(&'w str, Option<FailureReason>),
    /// The workload does not serve and its time is over.
    Overdue(&'w str),
    /// Nothing is awaited.
    Quiet,
}

impl<'w> Signal<'w> {
    /// Returns the signal's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Abandoned => "Abandoned",
            Self::Leaving { .. } => "Leaving",
            Self::Unreadable(_) => "Unreadable",
            Self::Admitted => "Admitted",
            Self::Held => "Held",
            Self::Early => "Early",
            Self::Busy(_) => "Busy",
            Self::Absent => "Absent",
            Self::Active(_) => "Active",
            Self::Succeeded(_) => "Succeeded",
            Self::Broken(..) => "Broken",
            Self::Lost => "Lost",
            Self::Ready => "Ready",
            Self::Unready(..) => "Unready",
            Self::Overdue(_) => "Overdue",
            Self::Quiet => "Quiet",
        }
    }

    /// Reads the signal. Leaving outranks everything but an unusable namespace.
    pub fn read(record: &Record, world: &'w World) -> Self {
        match world.permission {
            Permission::Abandoned => return Self::Abandoned,
            Permission::Leaving { turn } => return Self::leaving(record, world, turn),
            Permission::Admitted | Permission::Held => {}
        }
        match &record.phase {
            Phase::Pending { not_before } => {
                if not_before.is_some_and(|at| at > world.now) {
                    Self::Early
                } else if world.permission == Permission::Admitted && world.plan.is_some() {
                    // A serial is handed out only in sight of the Jobs that may bear it already.
                    match &world.jobs {
                        Seen::Known(_) => Self::Admitted,
                        Seen::Unknown(why) => Self::Unreadable(*why),
                    }
                } else {
                    Self::Held
                }
            }
            Phase::Submitting { attempt } => match verdict(attempt, Op::Deploy, world) {
                Self::Absent if world.permission == Permission::Held || world.plan.is_none() => Self::Held,
                signal @ (Self::Abandoned
                | Self::Leaving { .. }
                | Self::Unreadable(_)
                | Self::Admitted
                | Self::Held
                | Self::Early
                | Self::Busy(_)
                | Self::Absent
                | Self::Active(_)
                | Self::Succeeded(_)
                | Self::Broken(..)
                | Self::Lost
                | Self::Ready
                | Self::Unready(..)
                | Self::Overdue(_)
                | Self::Quiet) => signal,
            },
            Phase::Deploying { attempt } => verdict(attempt, Op::Deploy, world),
            Phase::Settling { give_up_at, .. } => match &world.readiness {
                Seen::Known(Readiness::Ready) => Self::Ready,
                Seen::Known(Readiness::Unready { why, .. }) if *give_up_at <= world.now => Self::Overdue(why),
                Seen::Known(Readiness::Unready { why, cause }) => Self::Unready(why, *cause),
                Seen::Unknown(why) => Self::Unreadable(*why),
            },
            // A component that left comes back by a new rollout only; the parent resets its record then.
            Phase::Ready
            | Phase::Failed
            | Phase::Gone { .. }
            | Phase::Draining { .. }
            | Phase::Undeploying { .. }
            | Phase::Retreating { .. } => Self::Quiet,
        }
    }

    fn leaving(record: &Record, world: &'w World, turn: bool) -> Self {
        match &record.phase {
            Phase::Draining { .. } => match &world.jobs {
                Seen::Unknown(why) => Self::Unreadable(*why),
                Seen::Known(jobs) => match jobs.iter().find(|job| job::is_live(job)) {
                    Some(job) => Self::Busy(job),
                    None if turn => Self::Admitted,
                    None => Self::Held,
                },
            },
            Phase::Undeploying { attempt } => verdict(attempt, Op::Undeploy, world),
            Phase::Retreating { not_before } if *not_before > world.now => Self::Early,
            Phase::Retreating { .. } => Self::Admitted,
            Phase::Gone { .. } => Self::Quiet,
            Phase::Pending { .. }
            | Phase::Submitting { .. }
            | Phase::Deploying { .. }
            | Phase::Settling { .. }
            | Phase::Ready
            | Phase::Failed => Self::Leaving { turn },
        }
    }
}

fn verdict<'w>(attempt: &job::Attempt, op: Op, world: &'w World) -> Signal<'w> {
    match job::verdict(attempt, op, &world.jobs) {
        Verdict::Unknown(why) => Signal::Unreadable(why),
        Verdict::Busy(job) => Signal::Busy(job),
        Verdict::Absent => Signal::Absent,
        Verdict::Lost => Signal::Lost,
        Verdict::Active(job) => Signal::Active(job),
        Verdict::Succeeded(job) => Signal::Succeeded(job),
        Verdict::Failed(job, failure) => Signal::Broken(job, failure),
    }
}

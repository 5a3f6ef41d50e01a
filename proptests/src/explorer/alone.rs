//! The component machine alone, to closure: every record that any sequence of its worlds leads to.
//!
//! What only counts is cut: attempts between the first and the last but one, and disruptions likewise, differ in nothing
//! but how long a pause is. Times are early or late, serials are the attempt's, an older one, or new.

use super::state::{BASE, deadlines, earlier, from_base};
use crate::{
    atlas::Atlas,
    laws::{
        Breach,
        component::{Alone, all},
    },
};
use petri_machines::{
    component::{
        ATTEMPTS_MAX, DISRUPTIONS_MAX, Notice, Permission, Phase, Planned, Readiness, Record, World,
    },
    job::{Complaint, JobFailure, JobState, JobView, Op},
    kernel::{Machine as _, Seen, Timestamp, seen::Ignorance},
    names::{Digest, JobName, Uid},
    reason::FailureReason,
};
use std::collections::BTreeSet;

/// Long enough for every deadline.
const LATE: u64 = BASE + 100_000;

/// Long enough for a complaint, not for a workload to become ready.
const AILED: u64 = BASE + 400;

/// What exploring came to.
#[derive(Debug, Default)]
pub struct Report {
    /// Distinct records.
    pub records: usize,
    /// Steps, each with all laws asked.
    pub steps: usize,
    /// Transitions.
    pub moves: BTreeSet<(&'static str, &'static str)>,
    /// The map.
    pub atlas: Atlas,
}

/// Explores the machine to closure.
///
/// # Errors
/// The first law that does not hold.
pub fn explore() -> Result<Report, Breach> {
    let mut report = Report::default();
    let mut known = BTreeSet::from([Record::new(0)]);
    let mut frontier = vec![Record::new(0)];
    while let Some(record) = frontier.pop() {
        for world in worlds(&record) {
            all(&record, &world)?;
            report.atlas.component(&record, &world);
            report.steps += 1;
            let step = Alone::step(record.clone(), &world);
            let step = step.map_err(|error| Breach { law: "settles", what: error.to_string() })?;
            for notice in &step.notices {
                if let Notice::Moved { from, to } = notice {
                    report.moves.insert((from, to));
                }
            }
            let next = canonical(step.phase, world.now.0);
            if known.insert(next.clone()) {
                frontier.push(next);
            }
        }
    }
    report.records = known.len();
    Ok(report)
}

/// Brings a record to the moment that every record is kept at.
pub(crate) fn canonical(record: Record, now: u64) -> Record {
    let mut record = earlier(record, now - BASE);
    from_base(&mut record);
    let few = |count: u8, most: u8| if (2..most - 1).contains(&count) { most - 1 } else { count };
    record.deploy_attempts = few(record.deploy_attempts, ATTEMPTS_MAX);
    record.undeploy_attempts = few(record.undeploy_attempts, ATTEMPTS_MAX);
    record.disruptions = few(record.disruptions, DISRUPTIONS_MAX);
    if let Phase::Submitting { attempt } | Phase::Deploying { attempt } | Phase::Undeploying { attempt } =
        &mut record.phase
    {
        attempt.serial = 2;
    }
    if let Some(accepted) = &mut record.accepted {
        accepted.serial = 1;
    }
    // Why the last attempt failed is shown; only whether one did is told apart here.
    if let Some(failure) = &mut record.failure {
        *failure = JobFailure { reason: FailureReason::HelmFailed, message: String::new(), disrupted: false };
    }
    record
}

fn job(serial: u64, op: Op, state: JobState, deleting: bool) -> JobView {
    let name = JobName::new(format!("job-{serial}")).unwrap_or_else(|_| unreachable!("a label"));
    let uid = |kind: &str| Uid::new(format!("{kind}-{serial}")).unwrap_or_else(|_| unreachable!("not empty"));
    JobView { name, uid: uid("job"), serial, op, state, deleting, payload: Some(uid("secret")) }
}

fn failed(reason: FailureReason, disrupted: bool) -> JobState {
    JobState::Failed(JobFailure { reason, message: String::new(), disrupted })
}

/// The Job lists that a record may be shown.
fn job_lists(record: &Record) -> Vec<Seen<Vec<JobView>>> {
    let active = || JobState::Active { waiting: None };
    let complaint = Complaint { reason: FailureReason::ImagePull, message: String::new() };
    let waiting = JobState::Active { waiting: Some(complaint) };
    let older = |state| job(1, Op::Deploy, state, false);
    let mut lists = vec![vec![], vec![older(active())], vec![older(JobState::Succeeded)]];
    if record.attempt().is_some() {
        let op = if matches!(record.phase, Phase::Undeploying { .. }) { Op::Undeploy } else { Op::Deploy };
        let states = [
            active(),
            waiting.clone(),
            JobState::Succeeded,
            failed(FailureReason::HelmFailed, false),
            failed(FailureReason::ChartNotFound, false),
            failed(FailureReason::HelmFailed, true),
        ];
        lists.extend(states.map(|state| vec![job(2, op, state, false)]));
        lists.push(vec![job(2, op, waiting, true)]);
        lists.push(vec![job(2, op, active(), false), older(JobState::Succeeded)]);
    }
    let unknown = Seen::Unknown(Ignorance::Failed);
    lists.into_iter().map(Seen::Known).chain([unknown]).collect()
}

fn worlds(record: &Record) -> Vec<World> {
    let permissions = [
        Permission::Admitted,
        Permission::Held,
        Permission::Leaving { turn: false },
        Permission::Leaving { turn: true },
        Permission::Abandoned,
    ];
    let planned = Planned { level: 0, payload: Digest::of(&["p"]), immutable: false, ready_within_secs: 900 };
    let unready = |cause| Seen::Known(Readiness::Unready { why: String::new(), cause });
    let settling = matches!(record.phase, Phase::Settling { .. });
    let readiness = if settling {
        vec![
            Seen::Known(Readiness::Ready),
            unready(None),
            unready(Some(FailureReason::CrashLoop)),
            Seen::Unknown(Ignorance::Unsynced),
        ]
    } else {
        vec![Seen::Unknown(Ignorance::NotAsked)]
    };
    let times: &[u64] = if deadlines(record).is_empty() { &[BASE] } else { &[BASE, AILED, LATE] };
    let mut worlds = Vec::new();
    for jobs in job_lists(record) {
        for readiness in &readiness {
            for permission in permissions {
                for plan in [None, Some(planned.clone())] {
                    for now in times {
                        worlds.push(World {
                            now: Timestamp(*now),
                            pod_failure_secs: 300,
                            permission,
                            plan: plan.clone(),
                            next_serial: 3,
                            jobs: jobs.clone(),
                            readiness: readiness.clone(),
                        });
                    }
                }
            }
        }
    }
    worlds
}

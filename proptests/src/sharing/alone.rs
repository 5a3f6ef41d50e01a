//! The machines of a slice and of a shared component alone, to closure: every record that any of their worlds leads to.
//!
//! What only counts is cut, as for [`crate::explorer::alone`]: attempts between the first and the last but one differ in
//! nothing but how long a pause is. Times are early or late, serials are the attempt's, an older one, or new.

mod shared;
mod slice;

use crate::{atlas::Atlas, explorer::state::BASE};
use petri_machines::{
    job::{Complaint, JobFailure, JobState, JobView, Op},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{JobName, Uid},
    reason::FailureReason,
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub use {
    shared::{explore as explore_shared, holds as shared_holds},
    slice::{explore as explore_slice, holds as slice_holds},
};

/// Long enough for a complaint, and for a pause between two attempts.
const AILED: u64 = BASE + 400;
/// Long enough for every deadline.
const LATE: u64 = BASE + 100_000;
/// Seconds that a complaint may stand.
const POD_FAILURE_SECS: u64 = 300;

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
    /// The first record of each kind, as it is stored.
    pub stored: BTreeMap<String, Value>,
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap_or_else(|_| unreachable!("not empty"))
}

fn job(serial: u64, op: Op, state: JobState, deleting: bool) -> JobView {
    let name = JobName::new(format!("job-{serial}")).unwrap_or_else(|_| unreachable!("a label"));
    JobView { name, uid: uid(&format!("job-{serial}")), serial, op, state, deleting, payload: None }
}

fn failed(disrupted: bool) -> JobState {
    JobState::Failed(JobFailure { reason: FailureReason::HelmFailed, message: String::new(), disrupted })
}

/// The lists of Jobs that a record may be shown; `of` is what its attempt does.
fn job_lists(of: Option<Op>, older: Op) -> Vec<Seen<Vec<JobView>>> {
    let active = || JobState::Active { waiting: None };
    let complaint = Complaint { reason: FailureReason::ImagePull, message: String::new() };
    let waiting = JobState::Active { waiting: Some(complaint) };
    let mut lists =
        vec![vec![], vec![job(1, older, active(), false)], vec![job(1, older, JobState::Succeeded, false)]];
    if let Some(op) = of {
        let states = [active(), waiting.clone(), JobState::Succeeded, failed(false), failed(true)];
        lists.extend(states.map(|state| vec![job(2, op, state, false)]));
        lists.push(vec![job(2, op, waiting, true)]);
        lists.push(vec![job(2, op, active(), false), job(1, older, JobState::Succeeded, false)]);
    }
    let unknown = Seen::Unknown(Ignorance::Failed);
    lists.into_iter().map(Seen::Known).chain([unknown]).collect()
}

/// A deadline as it is when `now` is [`BASE`]: over, near or far.
fn kept(at: &mut Timestamp, now: u64) {
    at.0 = match at.0.saturating_sub(now) {
        0 => BASE,
        1..=300 => BASE + 300,
        _ => BASE + 900,
    };
}

/// The same count of attempts as far as any decision can tell.
fn few(count: u8, most: u8) -> u8 {
    if (2..most - 1).contains(&count) { most - 1 } else { count }
}

/// Why the last attempt failed is shown; only whether one did is told apart here.
fn some_failure() -> JobFailure {
    JobFailure { reason: FailureReason::HelmFailed, message: String::new(), disrupted: false }
}

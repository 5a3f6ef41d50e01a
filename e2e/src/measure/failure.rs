//! From the end of a Job that failed to the reason that `kubectl get` shows.

use std::time::Duration;

use petri_crds::{EphemeralEnvironment, Phase};

use super::figures::{Sample, millis, note, say};
use super::shape::NO_CHART;
use super::trail::{Entry, OPERATOR};
use super::{create, delete, names, trail};
use crate::petri::{Error, Petri};

const ONE_MAX: Duration = Duration::from_secs(120);
/// How late the reason may be, at the 99th percentile.
const LATE_MAX_MILLIS: f64 = 1000.0;

/// Lets `jobs` environments fail, one after the other, of a chart that is not there.
///
/// # Errors
/// One failure has no reason, or the 99th percentile is above a second.
pub async fn run(petri: &Petri<'_>, jobs: usize) -> Result<(), Error> {
    note(
        "failure: from the answer to the kubelet's patch that says `terminated` to the write with the reason",
    );
    NO_CHART.apply(petri).await?;
    let (names, trail) = (names("failure-", jobs), trail(petri)?);
    let failed = |one: &EphemeralEnvironment| {
        one.status.as_ref().and_then(|status| status.phase) == Some(Phase::Failed)
    };
    for name in &names {
        create(petri, std::slice::from_ref(name), NO_CHART).await?;
        petri.until(name, "Failed", ONE_MAX, failed).await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let entries = trail.entries()?;
    delete(petri, &names).await?;
    let mut late = Sample::default();
    for name in &names {
        let took = to_reason(&entries, name);
        late.add(took.ok_or_else(|| Error::Wrong(format!("{name}: the audit log shows no reason")))?);
    }
    say("failure_jobs", late.len());
    late.say_tail("failure_job_ended_to_reason", "ms");
    match late.at(0.99) {
        slow if slow > LATE_MAX_MILLIS => Err(Error::Wrong(format!("the reason came {slow:.0} ms late"))),
        _ => Ok(()),
    }
}

/// Returns the milliseconds from the report that the deployer ended to the status with a reason.
fn to_reason(entries: &[Entry], name: &str) -> Option<f64> {
    let writes = |entry: &&Entry| {
        entry.name() == name && entry.is_by(OPERATOR) && entry.is("update", "ephemeralenvironments/status")
    };
    let has_reason = |entry: &&Entry| {
        entry.request_object["status"]["components"][0]["lastFailureReason"]
            .as_str()
            .is_some_and(|reason| !reason.is_empty())
    };
    let write = entries.iter().filter(writes).find(has_reason)?;
    let namespace = write.request_object["status"]["targetNamespace"].as_str()?;
    let report = entries.iter().find(|entry| entry.namespace() == namespace && entry.ends_deployer())?;
    Some(millis(report.done, write.done))
}

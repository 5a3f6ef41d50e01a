//! Quiet minutes: nothing is written but the leader's Lease, and nothing is listed.

use std::time::Duration;

use super::figures::{note, say};
use super::process::Process;
use super::shape::ONE;
use super::trail::{Entry, OPERATOR};
use super::{counted, create, delete, names, ready, say_counts, trail};
use crate::petri::{Error, Petri};

const ENVIRONMENTS: usize = 20;
/// What the last environment's Ready leaves to do: its Job's end and the pods' removal still change.
const SETTLE: Duration = Duration::from_secs(20);

/// Watches over `secs` seconds with twenty Ready environments.
///
/// # Errors
/// Something was written or listed.
pub async fn run(petri: &Petri<'_>, secs: u64) -> Result<(), Error> {
    note(format!("idle: {ENVIRONMENTS} Ready environments, nobody does anything for {secs} s"));
    ONE.apply(petri).await?;
    let names = names("idle-", ENVIRONMENTS);
    create(petri, &names, ONE).await?;
    ready(petri, &names).await?;
    tokio::time::sleep(SETTLE).await;
    let (process, trail) = (Process::operator(petri.lab)?, trail(petri)?);
    let cpu = process.cpu_secs()?;
    tokio::time::sleep(Duration::from_secs(secs)).await;
    let cpu = process.cpu_secs()? - cpu;
    let entries = trail.entries()?;
    delete(petri, &names).await?;
    let own = || entries.iter().filter(|entry| entry.is_by(OPERATOR));
    let lease = |entry: &&Entry| entry.resource() == "leases";
    let writes = counted(own().filter(|entry| entry.is_write() && !lease(entry)));
    let lists = counted(own().filter(|entry| entry.verb == "list"));
    let gets = counted(own().filter(|entry| entry.verb == "get" && !lease(entry)));
    say("idle_writes_but_the_lease_count", writes.values().sum::<usize>());
    say_counts("  of these", &writes);
    say("idle_lists_count", lists.values().sum::<usize>());
    say_counts("  of these", &lists);
    say("idle_gets_count", gets.values().sum::<usize>());
    say_counts("  of these", &gets);
    say("idle_lease_writes_count", own().filter(lease).filter(|entry| entry.is_write()).count());
    say("idle_watches_renewed_count", own().filter(|entry| entry.verb == "watch").count());
    #[expect(clippy::cast_precision_loss)]
    let each_hour = cpu * 3600.0 / secs.max(1) as f64;
    say("idle_operator_cpu_each_hour_s", format!("{each_hour:.1}"));
    if writes.is_empty() && lists.is_empty() {
        return Ok(());
    }
    Err(Error::Wrong("the operator wrote or listed although nothing happened".to_owned()))
}

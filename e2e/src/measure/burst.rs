//! Many environments at once.

use super::figures::{note, say, seconds};
use super::process::Process;
use super::reaction::Reactions;
use super::shape::ONE;
use super::trail::{Entry, OPERATOR};
use super::{create, delete, names, ready, trail};
use crate::petri::{Error, Petri};

/// Creates `count` environments of one component at once, waits until all are Ready, deletes them at once.
pub async fn run(petri: &Petri<'_>, count: usize) -> Result<(), Error> {
    note(format!(
        "burst: {count} environments of one component with one pod each, created and deleted at once"
    ));
    ONE.apply(petri).await?;
    let (names, trail, process) = (names("burst-", count), trail(petri)?, Process::operator(petri.lab)?);
    let cpu = process.cpu_secs()?;
    create(petri, &names, ONE).await?;
    ready(petri, &names).await?;
    let memory = process.memory()?;
    delete(petri, &names).await?;
    let cpu = process.cpu_secs()? - cpu;
    let entries = trail.entries()?;
    let own =
        |entry: &&Entry| entry.name().starts_with("burst-") && entry.resource().starts_with("ephemeral");
    let by_operator = || entries.iter().filter(own).filter(|entry| entry.is_by(OPERATOR));
    let by_user = |verb: &'static str| {
        entries
            .iter()
            .filter(own)
            .filter(move |entry| !entry.is_by(OPERATOR) && entry.is(verb, "ephemeralenvironments"))
    };
    let created = by_user("patch").map(|entry| entry.asked).min();
    let deleted = by_user("delete").map(|entry| entry.asked).min();
    let is_ready = |entry: &&Entry| entry.request_object["status"]["phase"] == "Ready";
    let ready = by_operator().filter(is_ready).map(|entry| entry.done).max();
    let gone = by_operator()
        .filter(|entry| entry.is("patch", "ephemeralenvironments"))
        .map(|entry| entry.done)
        .max();
    let name = format!("burst_{count}");
    if let (Some(created), Some(ready), Some(deleted), Some(gone)) = (created, ready, deleted, gone) {
        say(format!("{name}_all_ready_s"), format!("{:.1}", seconds(created, ready)));
        say(format!("{name}_all_gone_s"), format!("{:.1}", seconds(deleted, gone)));
    }
    #[expect(clippy::cast_precision_loss)]
    let each = cpu / count as f64;
    say(format!("{name}_operator_cpu_s"), format!("{cpu:.2}"));
    say(format!("{name}_operator_cpu_each_life_s"), format!("{each:.3}"));
    say(format!("{name}_operator_rss_anon_at_ready_kib"), memory.anonymous);
    let refused =
        entries.iter().filter(|entry| entry.is_by(OPERATOR) && entry.is_write() && !entry.is_taken());
    say(format!("{name}_operator_refused_writes"), refused.count());
    Reactions::read(&entries).say(&name);
    Ok(())
}

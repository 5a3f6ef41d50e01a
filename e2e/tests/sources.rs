//! The deployer meets real git, ssh, helm, registries and repositories: every source in every state, without a cluster.

use std::sync::PoisonError;

use futures::{StreamExt as _, stream};
use petri_e2e::lab::Progress;
use petri_e2e::sources::Sources;
use petri_e2e::sources::cells::{self, Cell, NOT_FOR_ROOT};
use petri_e2e::sources::deployer::Deployers;

/// Deployers side by side; most of them wait.
const AT_ONCE: usize = 6;

/// Says what is wrong with what came of a cell.
async fn judge(deployers: &Deployers, sources: &Sources, cell: &Cell) -> Result<String, String> {
    let name = cell.name;
    let outcome = deployers.run(sources, cell).await.map_err(|error| format!("{name}: {error}"))?;
    let (report, log) = (&outcome.report, &outcome.log);
    if outcome.reason.as_deref() != cell.reason {
        return Err(format!("{name}: expected {:?}: {report}\n{log}", cell.reason));
    }
    if !report.contains(cell.says) {
        return Err(format!("{name}: {:?} is not said: {report}", cell.says));
    }
    if let Some(hidden) =
        sources.hidden().iter().find(|hidden| report.contains(*hidden) || log.contains(*hidden))
    {
        return Err(format!("{name}: {hidden:?} is shown: {report}\n{log}"));
    }
    Ok(format!("{name}: {report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_chart_source_ends_as_its_state_says_and_shows_no_secret() {
    let progress = Progress::new();
    let sources = Sources::start("127.0.0.1", &progress).await.unwrap();
    let deployers = Deployers::prepare(&sources, &progress).await.unwrap();
    progress.clear();
    let charts = concat!(env!("CARGO_MANIFEST_DIR"), "/charts");
    let mut all = cells::matrix(&sources, charts);
    all.retain(|cell| cell.name != NOT_FOR_ROOT);
    all.extend(cells::more(&sources));
    all.extend(cells::bad(&sources));
    let judged = stream::iter(&all).map(|cell| judge(&deployers, &sources, cell));
    let judged: Vec<_> = judged.buffer_unordered(AT_ONCE).collect().await;
    let wrong: Vec<String> =
        judged.into_iter().inspect(|one| println!("{one:?}")).filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{} of {} cells:\n{}", wrong.len(), all.len(), wrong.join("\n"));
    let seen = sources.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let elsewhere: Vec<_> = seen.iter().filter(|(host, _)| host.starts_with("localhost")).collect();
    assert!(seen.len() > 10 && elsewhere.is_empty(), "a login went to another host: {elsewhere:?}");
}

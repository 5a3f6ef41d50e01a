//! Many Ready environments: what they hold, that nothing is written, and how soon a fresh operator acts.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use super::figures::{note, say, seconds};
use super::process::Process;
use super::shape::BARE;
use super::trail::{Entry, OPERATOR};
use super::{MANAGEMENT, PATIENCE, counted, create, delete, names, ready, restart, say_counts, scale, trail};
use crate::petri::{Error, Petri};

/// After how many more environments the memory is looked at.
const STEP: usize = 100;
/// After this time nothing is under way any more.
const QUIET: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(60);
/// The environment that is created while no operator is there.
const LATE: &str = "fleet-late";
/// How soon a fresh operator acts on it.
const FIRST_ACT_MAX_SECS: f64 = 2.0;

/// Brings up `count` environments without pods, looks at them for a minute, and replaces the operator.
///
/// # Errors
/// Something was written or listed while nothing happened, or the new operator acted later than two seconds
/// after its start.
pub async fn run(petri: &Petri<'_>, count: usize) -> Result<(), Error> {
    note(format!("fleet: {count} Ready environments of one component that has no pods, as ConfigMaps only"));
    BARE.apply(petri).await?;
    restart(petri).await?;
    tokio::time::sleep(QUIET).await;
    let process = Process::operator(petri.lab)?;
    let empty = process.memory()?.anonymous;
    say("fleet_0_ready_rss_anon_kib", empty);
    let all = names("fleet-", count);
    let mut line = Vec::new();
    for (step, more) in all.chunks(STEP).enumerate() {
        let started = Instant::now();
        create(petri, more, BARE).await?;
        ready(petri, more).await?;
        let took = started.elapsed().as_secs_f64();
        tokio::time::sleep(QUIET).await;
        let (here, held) = (step * STEP + more.len(), process.memory()?.anonymous);
        say(format!("fleet_{here}_ready_rss_anon_kib"), held);
        say(format!("fleet_{here}_ready_last_step_s"), format!("{took:.0}"));
        line.push((here, held));
    }
    if let (Some(first), Some(last)) = (line.first(), line.last())
        && last.0 > first.0
    {
        #[expect(clippy::cast_precision_loss)]
        let each = (last.1 as f64 - first.1 as f64) / (last.0 - first.0) as f64;
        say("fleet_rss_anon_growth_each_environment_kib", format!("{each:.1}"));
    }
    let quiet = idle(petri).await?;
    let first = restarted(petri).await?;
    tokio::time::sleep(QUIET).await;
    say(
        format!("fleet_{count}_ready_after_restart_rss_anon_kib"),
        Process::operator(petri.lab)?.memory()?.anonymous,
    );
    let verdict = match () {
        () if !quiet => {
            Err(Error::Wrong("the operator wrote or listed although nothing happened".to_owned()))
        }
        () if first > FIRST_ACT_MAX_SECS => {
            Err(Error::Wrong(format!("a fresh operator acted only {first:.1} s after its start")))
        }
        () => Ok(()),
    };
    let held = verdict.as_ref().map_or_else(ToString::to_string, |()| "all that is asked holds".to_owned());
    note(format!("{held}; taking the environments away takes minutes"));
    delete(petri, &[all, vec![LATE.to_owned()]].concat()).await?;
    verdict
}

async fn idle(petri: &Petri<'_>) -> Result<bool, Error> {
    let (trail, process) = (trail(petri)?, Process::operator(petri.lab)?);
    let cpu = process.cpu_secs()?;
    tokio::time::sleep(IDLE).await;
    let cpu = process.cpu_secs()? - cpu;
    let entries = trail.entries()?;
    let own = || entries.iter().filter(|entry| entry.is_by(OPERATOR) && entry.resource() != "leases");
    let writes = counted(own().filter(|entry| entry.is_write()));
    let lists = counted(own().filter(|entry| entry.verb == "list"));
    say("fleet_idle_minute_writes_but_the_lease_count", writes.values().sum::<usize>());
    say_counts("  of these", &writes);
    say("fleet_idle_minute_lists_count", lists.values().sum::<usize>());
    say("fleet_idle_minute_operator_cpu_s", format!("{cpu:.2}"));
    Ok(writes.is_empty() && lists.is_empty())
}

/// WATCH-11, PEER-09: returns the seconds from the start of a fresh operator to its first write about an environment
/// that was created while there was none.
async fn restarted(petri: &Petri<'_>) -> Result<f64, Error> {
    let trail = trail(petri)?;
    scale(petri, 0).await?;
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let own = ListParams::default().labels("app.kubernetes.io/name=petri-operator");
    let started = Instant::now();
    while !pods.list(&own).await?.items.is_empty() {
        if started.elapsed() > PATIENCE {
            return Err(Error::Wrong("the operator does not end".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let late = [LATE.to_owned()];
    let made = create(petri, &late, BARE).await;
    scale(petri, 1).await?;
    made?;
    ready(petri, &late).await?;
    let begun = Process::operator(petri.lab)?.begun()?;
    let entries = trail.entries()?;
    let about = |entry: &&Entry| {
        entry.name() == LATE && entry.resource().starts_with("ephemeral") && entry.is_write()
    };
    let made = entries.iter().find(|entry| about(entry) && !entry.is_by(OPERATOR)).map(|entry| entry.done);
    let first = entries.iter().filter(about).find(|entry| entry.is_by(OPERATOR) && entry.is_taken());
    let (Some(made), Some(first)) = (made, first) else {
        return Err(Error::Wrong("the audit log shows no first write".to_owned()));
    };
    if made > begun {
        return Err(Error::Wrong("the operator was there before the environment".to_owned()));
    }
    let took = seconds(begun, first.done);
    say("fleet_start_to_first_act_on_a_new_environment_s", format!("{took:.2}"));
    note(format!("the environment was there at {}, the process began at {}", clock(made), clock(begun)));
    Ok(took)
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S%.3f").to_string()
}

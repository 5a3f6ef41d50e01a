//! Helm is killed, and the deployer with it, before and after each kind of write that it makes: the next run ends as
//! if nothing had been.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::Api;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::outside::{self, Operation, Outside, Ran};
use crate::petri::{Error, Petri};
use crate::proxy::{Call, Side};

const NAMESPACE: &str = "helm-killed";
const CHART: &str = "migrate";
const DEADLINE: Duration = Duration::from_secs(120);
/// Releases that are killed side by side.
const AT_ONCE: usize = 4;
/// What one release may need after it was left half-done; the operator gives it five.
const RUNS_MAX: usize = 2;

/// What a release goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Install,
    Upgrade,
    Uninstall,
}

impl Step {
    const ALL: [Self; 3] = [Self::Install, Self::Upgrade, Self::Uninstall];

    const fn operation(self) -> Operation {
        match self {
            Self::Install | Self::Upgrade => Operation::Deploy,
            Self::Uninstall => Operation::Undeploy,
        }
    }

    /// The values that it goes to; no two are equal.
    fn values(self) -> Value {
        json!({"schema": if self == Self::Upgrade { 2 } else { 1 }})
    }
}

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    outside::namespace(petri.lab, NAMESPACE).await?;
    let killed = kills(petri).await;
    outside::remove(petri.lab, NAMESPACE).await?;
    killed
}

async fn kills(petri: &Petri<'_>) -> Result<String, Error> {
    let mut lines = Vec::new();
    for number in 0..AT_ONCE {
        lines.push(Outside::start(petri.lab, NAMESPACE, &number.to_string()).await?);
    }
    let mut kills = Vec::new();
    let mut told = Vec::new();
    for step in Step::ALL {
        let points = points(&lines[0], step).await?;
        told.push(format!("{step:?}: {}", points.join(", ")));
        let both = |point: String| [(step, point.clone(), Side::Before), (step, point, Side::After)];
        kills.extend(points.into_iter().flat_map(both));
    }
    let (count, free) = (kills.len(), Mutex::new(lines));
    let one = |(number, (step, point, side)): (usize, (Step, String, Side))| {
        let free = &free;
        async move {
            let line = free.lock().await.pop();
            let line = line.ok_or_else(|| Error::Wrong("more kills at once than lines".to_owned()))?;
            let release = format!("k{number}");
            let done = kill(petri, &line, &release, step, &point, side).await;
            free.lock().await.push(line);
            done.map_err(|error| Error::Wrong(format!("{step:?}, killed {side:?} {point}: {error}")))
        }
    };
    let runs: Vec<usize> =
        stream::iter(kills.into_iter().enumerate()).map(one).buffer_unordered(AT_ONCE).try_collect().await?;
    let twice = runs.iter().filter(|runs| **runs > 1).count();
    Ok(format!("{count} kills, all ended, {twice} of them at the second run\n{}", told.join("\n")))
}

/// Runs the step undisturbed, and returns the kinds of helm's writes in their order, the release called `R`.
async fn points(line: &Outside, step: Step) -> Result<Vec<String>, Error> {
    let release = format!("quiet-{step:?}").to_lowercase();
    prepare(line, &release, step).await?;
    line.trap.take();
    succeed(act(line, &release, step, None).await?)?;
    let calls = line.trap.take();
    if step != Step::Uninstall {
        succeed(act(line, &release, Step::Uninstall, None).await?)?;
    }
    let mut kinds = BTreeSet::new();
    let mut points = Vec::new();
    for call in calls.iter().filter(|call| call.by_helm && call.writes) {
        let what = call.what.replace(&release, "R");
        if kinds.insert(kind(&what)) {
            points.push(what);
        }
    }
    if points.len() < 3 {
        return Err(Error::Wrong(format!("{step:?} writes only {points:?}")));
    }
    Ok(points)
}

/// What is created or replaced is of its own kind by its name; of what is applied and deleted one of each resource.
fn kind(what: &str) -> String {
    let named = what.starts_with("POST ") || what.starts_with("PUT ");
    if named { what.to_owned() } else { what.split('/').next().unwrap_or(what).to_owned() }
}

/// Brings the release to where the step begins.
async fn prepare(line: &Outside, release: &str, step: Step) -> Result<(), Error> {
    match step {
        Step::Install => Ok(()),
        Step::Upgrade | Step::Uninstall => succeed(act(line, release, Step::Install, None).await?),
    }
}

async fn act(line: &Outside, release: &str, step: Step, trap: Option<(&str, Side)>) -> Result<Ran, Error> {
    line.run(step.operation(), release, CHART, &step.values(), DEADLINE, trap).await
}

fn succeed(ran: Ran) -> Result<(), Error> {
    if ran.succeeded() { Ok(()) } else { Err(Error::Wrong(format!("{}\n{}", ran.report, ran.log))) }
}

/// Kills one step there and does it again; returns how many runs it took.
async fn kill(
    petri: &Petri<'_>,
    line: &Outside,
    release: &str,
    step: Step,
    point: &str,
    side: Side,
) -> Result<usize, Error> {
    prepare(line, release, step).await?;
    let at = point.replace("R", release);
    let ran = act(line, release, step, Some((&at, side))).await?;
    if line.trap.disarm() || !ran.report.is_null() {
        let seen: Vec<Call> = line.trap.take();
        let seen: Vec<String> = seen.into_iter().filter(|call| call.writes).map(|call| call.what).collect();
        return Err(Error::Wrong(format!("was not killed: {}; writes: {seen:?}", ran.report)));
    }
    line.trap.take();
    let mut runs = 1;
    let mut ran = act(line, release, step, None).await?;
    while !ran.succeeded() && runs < RUNS_MAX {
        runs += 1;
        ran = act(line, release, step, None).await?;
    }
    succeed(ran)?;
    if step != Step::Uninstall {
        deployed(petri, release, &step.values()["schema"].to_string()).await?;
        succeed(act(line, release, Step::Uninstall, None).await?)?;
    }
    gone(petri, release).await?;
    Ok(runs)
}

/// The newest record, and only it, is in force, and the objects are what it says.
async fn deployed(petri: &Petri<'_>, release: &str, schema: &str) -> Result<(), Error> {
    let records = outside::records(petri.lab, NAMESPACE, release).await?;
    let deployed = records.iter().filter(|(_, status)| status == "deployed").count();
    if deployed != 1 || records.last().is_none_or(|(_, status)| status != "deployed") {
        return Err(Error::Wrong(format!("the records are {records:?}")));
    }
    let config_maps: Api<ConfigMap> = Api::namespaced(petri.lab.client(), NAMESPACE);
    let found = config_maps.get(release).await?.data.and_then(|data| data.get("schema").cloned());
    if found.as_deref() == Some(schema) { Ok(()) } else { Err(Error::Wrong(format!("schema {found:?}"))) }
}

async fn gone(petri: &Petri<'_>, release: &str) -> Result<(), Error> {
    let records = outside::records(petri.lab, NAMESPACE, release).await?;
    let config_maps: Api<ConfigMap> = Api::namespaced(petri.lab.client(), NAMESPACE);
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), NAMESPACE);
    let left = [
        config_maps.get_opt(release).await?.is_some(),
        secrets.get_opt(release).await?.is_some(),
        config_maps.get_opt(&format!("petri-inventory-{release}")).await?.is_some(),
    ];
    if records.is_empty() && left == [false; 3] {
        return Ok(());
    }
    Err(Error::Wrong(format!("left behind: records {records:?}, objects {left:?}")))
}

//! Hooks that fail, that hang and that no node takes: the deployer ends in time and says it, and an uninstall goes on
//! without them.

use std::time::Duration;

use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::outside::{self, Operation, Outside};
use crate::petri::{Error, Petri};

const NAMESPACE: &str = "hooks";
const CHART: &str = "migrate";
/// The deployer's own deadline; its Job's is ten minutes and more.
const DEADLINE: Duration = Duration::from_secs(24);
/// What may be over when a deadline strikes.
const OVER: Duration = Duration::from_secs(15);

/// What is wrong with a hook: what it is called, the script of the chart's hooks, and where they may run.
fn bad(hook: &str) -> [(&'static str, Value); 3] {
    let only = |does: &str| json!({"script": format!("[ \"$HOOK\" != {hook} ] || {does}")});
    [
        ("fails", only("{ echo no; exit 1; }")),
        ("hangs", only("sleep 3600")),
        ("unplaced", json!({"nodeSelectors": {hook: {"no-such": "node"}}})),
    ]
}

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    outside::namespace(petri.lab, NAMESPACE).await?;
    let deploys = ["pre-install", "post-install"]
        .into_iter()
        .flat_map(|hook| bad(hook).into_iter().map(move |(name, values)| deploy(petri, hook, name, values)));
    let told = try_join_all(deploys).await;
    let removals = bad("pre-delete").into_iter().map(|(name, values)| undeploy(petri, name, values));
    let told = match told {
        Ok(mut told) => try_join_all(removals).await.map(|more| {
            told.extend(more);
            told
        }),
        Err(error) => Err(error),
    };
    outside::remove(petri.lab, NAMESPACE).await?;
    Ok(told?.join("\n"))
}

/// An install with a bad hook fails in time with the hook's name; with a good one it then ends, and goes.
async fn deploy(petri: &Petri<'_>, hook: &str, name: &str, values: Value) -> Result<String, Error> {
    let release = format!("{hook}-{name}");
    let line = Outside::start(petri.lab, NAMESPACE, &release).await?;
    let ran = line.run(Operation::Deploy, &release, CHART, &values, DEADLINE, None).await?;
    let took = ran.ended - ran.started;
    let said = ran.report.to_string();
    if ran.report["reason"] != "HookFailed" || !said.contains(hook) || took > DEADLINE + OVER {
        return Err(Error::Wrong(format!("{release}: {said} after {took:?}\n{}", ran.log)));
    }
    let wait = Duration::from_secs(120);
    for (operation, values) in [(Operation::Deploy, json!({})), (Operation::Undeploy, json!({}))] {
        let ran = line.run(operation, &release, CHART, &values, wait, None).await?;
        if !ran.succeeded() {
            return Err(Error::Wrong(format!("{release}: {operation:?}: {}\n{}", ran.report, ran.log)));
        }
    }
    Ok(format!("{release}: {said}"))
}

/// An uninstall with a bad hook ends without it, and says so.
async fn undeploy(petri: &Petri<'_>, name: &str, values: Value) -> Result<String, Error> {
    let release = format!("pre-delete-{name}");
    let line = Outside::start(petri.lab, NAMESPACE, &release).await?;
    let wait = Duration::from_secs(120);
    let ran = line.run(Operation::Deploy, &release, CHART, &values, wait, None).await?;
    if !ran.succeeded() {
        return Err(Error::Wrong(format!("{release}: {}\n{}", ran.report, ran.log)));
    }
    let ran = line.run(Operation::Undeploy, &release, CHART, &json!({}), DEADLINE * 2, None).await?;
    let took = ran.ended - ran.started;
    if !ran.succeeded() || ran.report["skipped"].is_null() || took > DEADLINE * 2 {
        return Err(Error::Wrong(format!("{release}: {} after {took:?}\n{}", ran.report, ran.log)));
    }
    Ok(format!("{release}: {}", ran.report))
}

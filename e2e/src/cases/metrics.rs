//! What is measured, as Prometheus has it: every query of the dashboard has data, every rule is sound, and an exemplar
//! leads to a trace. One environment with a slice of a shared PostgreSQL makes the data, and one that fails.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::bad_input::{cleaned, environment, example, simple_template};
use crate::petri::{Error, MANAGEMENT, Petri, VALUES, checkout};
use crate::prometheus::Prometheus;
use crate::traces::{Receiver, Span};

const PATIENCE: Duration = Duration::from_secs(180);
/// Rates need two scrapes, a second apart.
const SCRAPES: Duration = Duration::from_secs(5);
/// Longer than an exporter waits for a batch to fill.
const SETTLE: Duration = Duration::from_secs(2);
const TOKEN: &str = "a-token-of-this-case-alone";

/// Watches one life by Prometheus and by traces.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let endpoint = receiver.endpoint();
    let mut values = VALUES.to_vec();
    values.extend([
        ("config.otlpEndpoint", endpoint.as_str()),
        ("apiserver.enabled", "true"),
        ("apiserver.env.AUTH_MODE", "static-token"),
        ("apiserver.env.STATIC_TOKEN", TOKEN),
        ("apiserver.env.STATIC_TOKEN_ALLOWED", "true"),
    ]);
    petri.helm_upgrade(&values).await?;
    let told = watched(petri, &receiver).await;
    petri.helm_upgrade(&VALUES).await?;
    told
}

async fn watched(petri: &Petri<'_>, receiver: &Receiver) -> Result<String, Error> {
    let prometheus = Prometheus::start(petri.lab).await?;
    example(petri, "shared.yaml").await?;
    simple_template(petri, "unscraped", json!({"path": "/charts/nothing-here"})).await?;
    petri.apply_object(&petri.environments(), &environment("unscraped", "unscraped", json!({}))).await?;
    petri.apply_object(&petri.environments(), &environment("scraped", "shared-demo", json!({}))).await?;
    petri.until_ready("scraped", PATIENCE).await?;
    knock(petri).await;
    tokio::time::sleep(SCRAPES).await;
    let queries = dashboard(&prometheus).await?;
    let rules = rules(&prometheus).await?;
    let series = "petri_environment_deploy_duration_seconds_bucket";
    let found = prometheus.exemplars(series).await?;
    let seen: BTreeSet<String> = receiver.spans().into_iter().map(|span| span.trace).collect();
    if found.is_empty() || !found.iter().all(|trace| seen.contains(trace)) {
        return Err(Error::Wrong(format!("exemplars {found:?} lead to none of the traces {seen:?}")));
    }
    let all = [
        "eenv/scraped",
        "eenv/unscraped",
        "shc/shop-db",
        "shcp/postgres",
        "etmpl/shared-demo",
        "etmpl/unscraped",
    ];
    let delete = ["delete", "-n", MANAGEMENT, "--timeout=180s"];
    petri.lab.kubectl(&[&delete[..], &all].concat()).await?;
    cleaned(petri).await?;
    tokio::time::sleep(SETTLE).await;
    shared_traces(&receiver.spans())?;
    Ok(format!(
        "{queries} queries have data, {rules} rules are sound, {} exemplars lead to a trace",
        found.len()
    ))
}

/// A request that is let in, and one that is not; what they answer is counted, not read.
async fn knock(petri: &Petri<'_>) {
    let path = format!("/api/v1/namespaces/{MANAGEMENT}/services/petri-apiserver:80/proxy/v1/templates");
    for _ in 0..2 {
        let Ok(request) = http::Request::get(&path).body(Vec::new()) else { return };
        // The cluster's proxy keeps the Authorization header for itself: this one is refused.
        let _ = petri.lab.client().request_text(request).await;
    }
}

async fn dashboard(prometheus: &Prometheus) -> Result<usize, Error> {
    let file = checkout().join("charts/petri/files/dashboard.json");
    let text = std::fs::read_to_string(&file).map_err(|source| Error::File { path: file, source })?;
    let dashboard: Value = serde_json::from_str(&text).map_err(|error| Error::Wrong(error.to_string()))?;
    let (mut asked, mut empty) = (0, Vec::new());
    for panel in dashboard["panels"].as_array().into_iter().flatten() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap_or_default().replace("$__rate_interval", "1m");
            asked += 1;
            if prometheus.query(&expression).await?.is_empty() {
                empty.push(expression);
            }
        }
    }
    if asked == 0 || !empty.is_empty() {
        return Err(Error::Wrong(format!("of {asked} queries these have no data: {}", empty.join(" | "))));
    }
    Ok(asked)
}

async fn rules(prometheus: &Prometheus) -> Result<usize, Error> {
    let rules = prometheus.rules().await?;
    let unsound: Vec<_> = rules.iter().filter(|(_, trouble, _)| !trouble.is_empty()).collect();
    if rules.is_empty() || !unsound.is_empty() {
        return Err(Error::Wrong(format!("of {} rules these are unsound: {unsound:?}", rules.len())));
    }
    // Those that need no time to fire would have, if a healthy cluster were reason enough.
    let firing: Vec<_> = rules.iter().filter(|(_, _, firing)| *firing).map(|(name, ..)| name).collect();
    if !firing.is_empty() {
        return Err(Error::Wrong(format!("a healthy cluster fires {firing:?}")));
    }
    Ok(rules.len())
}

/// The shared component has traces of its own, and the slice's Jobs hang in the environment's.
fn shared_traces(spans: &[Span]) -> Result<(), Error> {
    let parent = |span: &Span| spans.iter().find(|one| one.id == span.parent).map(|one| one.name.as_str());
    for (name, above) in [
        ("provision job", Some("create jobs")),
        ("deprovision job", Some("create jobs")),
        ("deploy shared component", None),
        ("delete shared component", None),
    ] {
        let Some(span) = spans.iter().find(|span| span.name == name) else {
            let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
            return Err(Error::Wrong(format!("no span {name} among {names:?}")));
        };
        if parent(span) != above {
            return Err(Error::Wrong(format!("{name} hangs below {:?}", parent(span))));
        }
    }
    let workload = spans.iter().find(|span| {
        span.name == "deploy job" && span.attributes.get("petri.component").is_some_and(|it| it == "shop-db")
    });
    let root = spans.iter().find(|span| span.name == "deploy shared component");
    match (workload, root) {
        (Some(workload), Some(root)) if workload.trace == root.trace => Ok(()),
        other => Err(Error::Wrong(format!("the shared workload's Job is not in its trace: {other:?}"))),
    }
}

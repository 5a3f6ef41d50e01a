//! What is told of a deploy by OTLP, through a real collector; and what a collector that hangs costs: nothing but spans.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::bad_input::{cleaned, environment, simple_template};
use crate::petri::{Error, MANAGEMENT, Petri, VALUES};
use crate::traces::{Collector, Receiver, Span, Tree, critical_path, deploy_of};

const PATIENCE: Duration = Duration::from_secs(120);
/// A value that must be nowhere in a trace.
pub const SECRET: &str = "s3cret-that-nobody-may-see";

/// One environment with a secret value, from nothing to nothing, under an operator that exports its traces.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let endpoint = receiver.endpoint();
    let mut values = VALUES.to_vec();
    values.push(("config.otlpEndpoint", &endpoint));
    petri.helm_upgrade(&values).await?;
    let told = traced(petri, &receiver).await;
    petri.helm_upgrade(&VALUES).await?;
    told.map(|(remark, _)| remark)
}

/// The same through a real collector, and once more while that hangs.
pub async fn collected(petri: &Petri<'_>) -> Result<String, Error> {
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let collector = Collector::start(petri.lab, &receiver.endpoint()).await?;
    let endpoint = collector.endpoint();
    let mut values = VALUES.to_vec();
    values.push(("config.otlpEndpoint", &endpoint));
    petri.helm_upgrade(&values).await?;
    let told = match traced(petri, &receiver).await {
        Ok((remark, took)) => {
            frozen(petri, &collector, took).await.map(|frozen| format!("{remark}; {frozen}"))
        }
        Err(error) => Err(error),
    };
    petri.helm_upgrade(&VALUES).await?;
    told
}

/// How much longer a deploy may take under a collector that hangs: the deployer waits a second for its last spans.
const SLOWER_MAX: Duration = Duration::from_secs(4);
/// An export is given up after five seconds.
const GIVEN_UP: Duration = Duration::from_secs(15);

/// The same environment once more, while the collector keeps its connections and answers nothing.
async fn frozen(petri: &Petri<'_>, collector: &Collector, took: Duration) -> Result<String, Error> {
    collector.freeze()?;
    let began = Instant::now();
    petri.apply_object(&petri.environments(), &environment("frozen", "traced", json!({}))).await?;
    petri.until_ready("frozen", PATIENCE).await?;
    let slow = began.elapsed();
    petri.delete("frozen").await?;
    petri.until_gone("frozen", PATIENCE).await?;
    if slow > took + SLOWER_MAX {
        return Err(Error::Wrong(format!(
            "Ready after {slow:?} under a collector that hangs, {took:?} before"
        )));
    }
    let began = Instant::now();
    while failed(petri).await? == 0 {
        if began.elapsed() > GIVEN_UP {
            return Err(Error::Wrong("spans that a collector does not take are not counted".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (before, after) = (took.as_secs_f64(), slow.as_secs_f64());
    Ok(format!("Ready after {before:.1} s, and after {after:.1} s under a collector that hangs"))
}

/// Reads from the operator how many spans failed.
async fn failed(petri: &Petri<'_>) -> Result<u64, Error> {
    let pods = ["get", "pods", "-n", MANAGEMENT, "-l", "app.kubernetes.io/name=petri-operator", "-o"];
    let pods = petri.lab.kubectl(&[&pods[..], &["jsonpath={.items[*].metadata.name}"]].concat()).await?;
    let pods = String::from_utf8_lossy(&pods.stdout).into_owned();
    let mut count = 0;
    for pod in pods.split_whitespace() {
        let page = format!("/api/v1/namespaces/{MANAGEMENT}/pods/{pod}:9090/proxy/metrics");
        let page = petri.lab.kubectl(&["get", "--raw", &page]).await?;
        let page = String::from_utf8_lossy(&page.stdout).into_owned();
        let line =
            |line: &str| line.strip_prefix("petri_trace_spans_total{result=\"failed\"} ")?.parse().ok();
        count += page.lines().find_map(line).unwrap_or(0);
    }
    Ok(count)
}

async fn traced(petri: &Petri<'_>, receiver: &Receiver) -> Result<(String, Duration), Error> {
    simple_template(petri, "traced", json!({"values": {"password": SECRET}})).await?;
    let began = Instant::now();
    petri.apply_object(&petri.environments(), &environment("traced", "traced", json!({}))).await?;
    petri.until_ready("traced", PATIENCE).await?;
    let took = began.elapsed();
    let spans = deploy_of(receiver, "traced", Duration::from_secs(10)).await?;
    let remark = tree(&spans)?;
    petri.delete("traced").await?;
    petri.until_gone("traced", PATIENCE).await?;
    cleaned(petri).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let all = receiver.spans();
    for name in ["delete environment", "undeploy job", "helm uninstall"] {
        if !all.iter().any(|span| span.name == name) {
            return Err(wrong(&all, &format!("no span {name}")));
        }
    }
    if format!("{all:?}").contains(SECRET) {
        return Err(Error::Wrong("a secret value is in a trace".to_owned()));
    }
    Ok((remark, took))
}

/// Each span of the contract hangs below the one that caused it, and the end waited for nothing unknown.
fn tree(spans: &[Span]) -> Result<String, Error> {
    let by_id: BTreeMap<&str, &Span> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    let below = [
        ("reconcile", "deploy environment"),
        ("observe", "reconcile"),
        ("store", "reconcile"),
        ("create secrets", "reconcile"),
        ("create jobs", "reconcile"),
        ("deploy job", "create jobs"),
        ("deployer", "deploy job"),
        ("locate chart", "deployer"),
        ("read history", "deployer"),
        ("helm install", "deployer"),
        ("write inventory", "deployer"),
        ("readiness", "deploy environment"),
    ];
    for (name, above) in below {
        let Some(span) = spans.iter().find(|span| span.name == name) else {
            return Err(wrong(spans, &format!("no span {name}")));
        };
        let parent = by_id.get(span.parent.as_str()).map(|parent| parent.name.as_str());
        if parent != Some(above) {
            return Err(wrong(spans, &format!("{name} hangs below {parent:?}, not below {above}")));
        }
    }
    let lost: Vec<&str> = spans[1..]
        .iter()
        .filter(|span| !by_id.contains_key(span.parent.as_str()))
        .map(|span| span.name.as_str())
        .collect();
    if !lost.is_empty() {
        return Err(wrong(spans, &format!("spans that hang below nothing: {lost:?}")));
    }
    let tree = Tree::of(spans, &spans[0].trace);
    let path = critical_path(&tree, tree.roots[0]);
    let waited = |service: &str| -> f64 {
        let mine = path.iter().filter(|stretch| tree.spans[stretch.place].service == service);
        Duration::from_nanos(mine.map(|stretch| stretch.to - stretch.from).sum()).as_secs_f64()
    };
    let (operator, deployer) = (waited("petri-operator"), waited("petri-deployer"));
    Ok(format!(
        "{} spans; on the critical path {deployer:.2} s in the deployer, {operator:.2} s elsewhere",
        spans.len()
    ))
}

fn wrong(spans: &[Span], what: &str) -> Error {
    let lines: Vec<String> = spans
        .iter()
        .map(|span| format!("{} {} < {} {:?}", span.name, span.id, span.parent, span.failure))
        .collect();
    Error::Wrong(format!("{what}\n{}", lines.join("\n")))
}

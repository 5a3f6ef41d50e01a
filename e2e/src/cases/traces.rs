//! What is told of a deploy by OTLP, received by a real receiver.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::bad_input::{cleaned, environment, simple_template};
use crate::petri::{Error, Petri, VALUES};
use crate::traces::{Receiver, Span, Tree, critical_path, deploy_of};

const PATIENCE: Duration = Duration::from_secs(120);
/// A value that must be nowhere in a trace.
const SECRET: &str = "s3cret-that-nobody-may-see";

/// One environment with a secret value, from nothing to nothing, under an operator that exports its traces.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let endpoint = receiver.endpoint();
    let mut values = VALUES.to_vec();
    values.push(("config.otlpEndpoint", &endpoint));
    petri.helm_upgrade(&values).await?;
    let told = traced(petri, &receiver).await;
    petri.helm_upgrade(&VALUES).await?;
    told
}

async fn traced(petri: &Petri<'_>, receiver: &Receiver) -> Result<String, Error> {
    simple_template(petri, "traced", json!({"values": {"password": SECRET}})).await?;
    petri.apply_object(&petri.environments(), &environment("traced", "traced", json!({}))).await?;
    petri.until_ready("traced", PATIENCE).await?;
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
    Ok(remark)
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

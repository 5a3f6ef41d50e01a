//! Every chart source in every state on a cluster, all environments at once: each says its reason in the status.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, Phase};
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment};
use crate::lab::Progress;
use crate::petri::{Error, MANAGEMENT, Petri, is_ready, story, summary};
use crate::sources::Sources;
use crate::sources::cells::{Cell, matrix, more};

/// With two cores and all of them at once, the last one comes late.
const PATIENCE: Duration = Duration::from_secs(240);
/// Requests under way at once.
const AT_ONCE: usize = 8;
/// The reason that may pass, so that the environment goes on trying.
const PASSING: &str = "SourceUnreachable";
/// What besides the matrix is shown on a cluster: the deployer's image has an ssh, and fetches dependencies.
const ALSO: [&str; 2] = ["ssh-branch", "git-dependencies"];

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let sources = Sources::start(&petri.lab.host_address(), &Progress::new()).await?;
    let mut cells = matrix(&sources, "/charts");
    cells.extend(more(&sources).into_iter().filter(|cell| ALSO.contains(&cell.name)));
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    for (name, keys) in sources.secrets() {
        petri.apply_object(&secrets, &secret(name, &json!(keys))?).await?;
    }
    let started = Instant::now();
    let mut begin = Vec::new();
    for cell in &cells {
        begin.push((cell.name.to_owned(), template(cell)?));
    }
    let one = |(name, template): (String, EnvironmentTemplate)| async move {
        petri.apply_object(&petri.templates(), &template).await?;
        petri.apply_object(&petri.environments(), &environment(&name, &name, json!({}))).await.map(drop)
    };
    stream::iter(begin).map(one).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let mut told = Vec::new();
    for cell in &cells {
        let what = cell.reason.unwrap_or("Ready");
        let found = petri.until(cell.name, what, PATIENCE, |found| is_as_said(cell, found)).await?;
        told.push(format!("{:20} {what:21} {}", cell.name, message(&found)));
    }
    let took = started.elapsed().as_secs_f64();
    for cell in &cells {
        petri.delete(cell.name).await?;
    }
    for cell in &cells {
        petri.until_gone(cell.name, PATIENCE).await?;
        petri.templates().delete(cell.name, &DeleteParams::default()).await?;
    }
    for name in sources.secrets().keys() {
        secrets.delete(name, &DeleteParams::default()).await?;
    }
    cleaned(petri).await?;
    if let Some(hidden) =
        sources.hidden().iter().find(|hidden| told.iter().any(|told| told.contains(*hidden)))
    {
        return Err(Error::Wrong(format!("a status shows {hidden:?}")));
    }
    Ok(format!("{} environments at once, all said after {took:.0} s\n{}", cells.len(), told.join("\n")))
}

/// Ready; or its component names reason and cause, and what cannot get better has failed for good.
fn is_as_said(cell: &Cell, found: &EphemeralEnvironment) -> bool {
    let Some(reason) = cell.reason else { return is_ready(found) };
    let status = found.status.as_ref();
    let failed = status.and_then(|status| status.phase) == Some(Phase::Failed);
    let said = status.into_iter().flat_map(|status| &status.components).any(|component| {
        let message = component.message.as_deref().unwrap_or_default();
        component.last_failure_reason.as_deref() == Some(reason) && message.contains(cell.says)
    });
    said && (reason == PASSING || (failed && story(found).0 == "DeployFailed"))
}

fn message(found: &EphemeralEnvironment) -> String {
    let components = found.status.iter().flat_map(|status| &status.components);
    let mut messages = components.filter_map(|component| component.message.clone());
    let message = messages.next().unwrap_or_else(|| summary(found));
    message.lines().collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

fn template(cell: &Cell) -> Result<EnvironmentTemplate, Error> {
    let mut helm = cell.helm.clone();
    helm["valuesObject"] = cell.values.clone();
    let mut secrets: Vec<Value> = Vec::new();
    if let Some(name) = cell.secret {
        helm["credentialsSecretRef"] = json!({"name": name});
        secrets.push(json!({"name": name}));
    }
    object(json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": cell.name, "namespace": MANAGEMENT},
        "spec": {"components": [{"name": "app", "helm": helm}], "secrets": secrets},
    }))
}

fn secret(name: &str, keys: &Value) -> Result<Secret, Error> {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": keys,
        "metadata": {"name": name, "namespace": MANAGEMENT, "labels": {"petri.run/shareable": "true"}},
    }))
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> Result<K, Error> {
    serde_json::from_value(json).map_err(|error| Error::Wrong(error.to_string()))
}

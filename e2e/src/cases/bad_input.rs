//! What users get wrong: each is said with its exact reason, and the environment can always be deleted.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, Phase};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::petri::{Error, MANAGEMENT, Petri, checkout, namespace_of, story, summary};

const PATIENCE: Duration = Duration::from_secs(60);

/// Applies a file of the examples.
pub async fn example(petri: &Petri<'_>, file: &str) -> Result<(), Error> {
    petri.apply(&checkout().join("e2e/examples").join(file)).await
}

/// Makes an environment in memory.
pub fn environment(name: &str, template: &str, spec: Value) -> EphemeralEnvironment {
    let mut environment = EphemeralEnvironment::new(name, Default::default());
    environment.metadata.namespace = Some(MANAGEMENT.to_owned());
    let mut spec = spec;
    spec["template"] = json!(template);
    environment.spec = serde_json::from_value(spec).unwrap_or_default();
    environment
}

/// Applies a template of one component, the exemplar PostgreSQL; `helm` goes over its source and values.
pub async fn simple_template(petri: &Petri<'_>, name: &str, helm: Value) -> Result<(), Error> {
    let mut source = json!({"path": "/charts/postgres"});
    if let (Some(source), Some(helm)) = (source.as_object_mut(), helm.as_object()) {
        source.extend(helm.clone());
    }
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": name, "namespace": MANAGEMENT},
        "spec": {"deployTimeout": "5m", "components": [{"name": "db", "helm": source}]},
    });
    let template: EnvironmentTemplate =
        serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

/// Asserts that nothing is left of any environment.
pub async fn cleaned(petri: &Petri<'_>) -> Result<(), Error> {
    let left = petri.leftovers().await?;
    if left.is_empty() { Ok(()) } else { Err(Error::Wrong(format!("left behind: {}", left.join(", ")))) }
}

/// Waits for a phase with a reason, and returns the message.
async fn failed(petri: &Petri<'_>, name: &str, reason: &str, within: Duration) -> Result<String, Error> {
    let wanted = |environment: &EphemeralEnvironment| {
        let phase = environment.status.as_ref().and_then(|status| status.phase);
        phase == Some(Phase::Failed) && story(environment).0 == reason
    };
    let found = petri.until(name, &format!("Failed/{reason}"), within, wanted).await?;
    Ok(story(&found).1)
}

async fn ends(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    petri.delete(name).await?;
    petri.until_gone(name, PATIENCE).await?;
    cleaned(petri).await
}

fn names(message: &str, what: &str) -> Result<(), Error> {
    if message.contains(what) {
        Ok(())
    } else {
        Err(Error::Wrong(format!("{message:?} does not name {what:?}")))
    }
}

pub async fn template(petri: &Petri<'_>) -> Result<String, Error> {
    petri.apply_object(&petri.environments(), &environment("early", "late", json!({}))).await?;
    let message = failed(petri, "early", "TemplateNotFound", PATIENCE).await?;
    names(&message, "late")?;
    cleaned(petri).await?;
    simple_template(petri, "late", json!({})).await?;
    petri.until_ready("early", PATIENCE).await?;
    ends(petri, "early").await?;
    Ok(message)
}

pub async fn chart(petri: &Petri<'_>) -> Result<String, Error> {
    simple_template(petri, "no-chart", json!({"path": "/charts/nothing-here"})).await?;
    petri.apply_object(&petri.environments(), &environment("no-chart", "no-chart", json!({}))).await?;
    let message = failed(petri, "no-chart", "DeployFailed", PATIENCE).await?;
    names(&message, "ChartNotFound")?;
    names(&message, "db")?;
    ends(petri, "no-chart").await?;
    Ok(message)
}

pub async fn render(petri: &Petri<'_>) -> Result<String, Error> {
    simple_template(petri, "no-render", json!({"values": {"greeting": "{{ .Env.Nmae }}"}})).await?;
    petri.apply_object(&petri.environments(), &environment("no-render", "no-render", json!({}))).await?;
    let message = failed(petri, "no-render", "RenderFailed", PATIENCE).await?;
    names(&message, "Nmae")?;
    names(&message, "greeting")?;
    let jobs: Api<Job> = Api::all(petri.lab.client());
    if !jobs.list(&ListParams::default().labels("petri.run/managed=true")).await?.items.is_empty() {
        return Err(Error::Wrong("a Job was made".to_owned()));
    }
    ends(petri, "no-render").await?;
    Ok(message)
}

pub async fn image(petri: &Petri<'_>) -> Result<String, Error> {
    let values = json!({"values": {"image.tag": "no-such-tag"}});
    simple_template(petri, "no-image", values).await?;
    petri.apply_object(&petri.environments(), &environment("no-image", "no-image", json!({}))).await?;
    let told = |environment: &EphemeralEnvironment| {
        let components = environment.status.iter().flat_map(|status| &status.components);
        components.into_iter().any(|component| {
            let told = component.message.as_deref().unwrap_or_default();
            component.last_failure_reason.as_deref() == Some("ImagePull") && told.contains("no-such-tag")
        })
    };
    let seen = petri
        .until("no-image", "ImagePull and the image in the status", Duration::from_secs(30), told)
        .await?;
    ends(petri, "no-image").await?;
    Ok(summary(&seen))
}

pub async fn beyond(petri: &Petri<'_>) -> Result<String, Error> {
    let values = json!({"path": "/charts/tiny", "valuesObject": {"workload": false, "beyond": true}});
    simple_template(petri, "beyond", values).await?;
    petri.apply_object(&petri.environments(), &environment("beyond", "beyond", json!({}))).await?;
    let told = failed(petri, "beyond", "DeployFailed", PATIENCE).await?;
    names(&told, "Forbidden")?;
    names(&told, "clusterroles")?;
    ends(petri, "beyond").await?;
    Ok(told)
}

pub async fn foreign(petri: &Petri<'_>) -> Result<String, Error> {
    petri.apply_object(&petri.environments(), &environment("crowded", "crowded", json!({}))).await?;
    failed(petri, "crowded", "TemplateNotFound", PATIENCE).await?;
    let uid = petri.environments().get("crowded").await?.metadata.uid.unwrap_or_default();
    let hex: String = Sha256::digest(uid.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let taken = format!("petri-env-{}", &hex[..8]);
    let namespaces: Api<Namespace> = Api::all(petri.lab.client());
    let mut foreign = Namespace::default();
    foreign.metadata.name = Some(taken.clone());
    namespaces.create(&PostParams::default(), &foreign).await?;
    simple_template(petri, "crowded", json!({})).await?;
    let ready = petri.until_ready("crowded", PATIENCE).await?;
    let got = namespace_of(&ready)?;
    if got != format!("petri-env-{}", &hex[..12]) {
        return Err(Error::Wrong(format!("took {got} although {taken} is foreign")));
    }
    ends(petri, "crowded").await?;
    let still = namespaces.get(&taken).await?;
    let untouched =
        still.metadata.labels.unwrap_or_default().keys().all(|key| !key.starts_with("petri.run/"));
    namespaces.delete(&taken, &DeleteParams::default()).await?;
    if untouched { Ok(got) } else { Err(Error::Wrong("the foreign namespace was labelled".to_owned())) }
}

pub async fn lost(petri: &Petri<'_>) -> Result<String, Error> {
    simple_template(petri, "lost", json!({})).await?;
    petri.apply_object(&petri.environments(), &environment("lost", "lost", json!({}))).await?;
    let ready = petri.until_ready("lost", PATIENCE).await?;
    let namespaces: Api<Namespace> = Api::all(petri.lab.client());
    namespaces.delete(&namespace_of(&ready)?, &DeleteParams::default()).await?;
    let message = failed(petri, "lost", "NamespaceLost", PATIENCE).await?;
    ends(petri, "lost").await?;
    Ok(message)
}

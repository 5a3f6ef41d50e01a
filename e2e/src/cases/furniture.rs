//! What a namespace carries besides its components, and how it is reached.

use std::time::Duration;

use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::api::networking::v1::{Ingress, NetworkPolicy};
use kube::api::{Api, DeleteParams};
use petri_crds::{EnvironmentTemplate, Phase};
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment};
use crate::petri::{Error, MANAGEMENT, Petri, namespace_of, story};

const PATIENCE: Duration = Duration::from_secs(120);
const PULL: &str = "registry";

/// Quota, limits, policy, copied Secret and route are there when it is Ready; a missing Secret is named first.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    petri.apply_object(&petri.templates(), &template()?).await?;
    petri.apply_object(&petri.environments(), &environment("furnished", "furnished", json!({}))).await?;
    let failed = |environment: &petri_crds::EphemeralEnvironment| {
        let phase = environment.status.as_ref().and_then(|status| status.phase);
        phase == Some(Phase::Failed) && story(environment).1.contains(PULL)
    };
    petri.until("furnished", "the missing Secret named", PATIENCE, failed).await?;
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    petri.apply_object(&secrets, &secret()?).await?;
    let ready = petri.until_ready("furnished", PATIENCE).await?;
    let url = ready.status.as_ref().and_then(|status| status.url.clone());
    if url.as_deref() != Some("http://furnished.preview.example.com") {
        return Err(Error::Wrong(format!("the URL: {url:?}")));
    }
    furnished(petri, &namespace_of(&ready)?).await?;
    petri.delete("furnished").await?;
    petri.until_gone("furnished", PATIENCE).await?;
    secrets.delete(PULL, &DeleteParams::default()).await?;
    petri.templates().delete("furnished", &DeleteParams::default()).await?;
    cleaned(petri).await?;
    Ok(String::new())
}

/// Looks at each object in the namespace.
async fn furnished(petri: &Petri<'_>, namespace: &str) -> Result<(), Error> {
    let client = petri.lab.client();
    let quota = Api::<ResourceQuota>::namespaced(client.clone(), namespace).get("petri").await?;
    expect("quota", quota.spec.map(|spec| json!(spec.hard)), json!({"count/configmaps": "50"}))?;
    let limits = Api::<LimitRange>::namespaced(client.clone(), namespace).get("petri").await?;
    let kind = limits.spec.and_then(|spec| Some(json!(spec.limits.first()?.type_)));
    expect("limit range", kind, json!("Container"))?;
    let policy = Api::<NetworkPolicy>::namespaced(client.clone(), namespace).get("petri").await?;
    expect("policy", policy.spec.map(|spec| json!(spec.policy_types)), json!(["Ingress"]))?;
    let copy = Api::<Secret>::namespaced(client.clone(), namespace).get(PULL).await?;
    expect("secret", Some(json!(copy.type_)), json!("kubernetes.io/dockerconfigjson"))?;
    let account = Api::<ServiceAccount>::namespaced(client.clone(), namespace).get("default").await?;
    expect("pull secrets", Some(json!(account.image_pull_secrets)), json!([{"name": PULL}]))?;
    let ingress = Api::<Ingress>::namespaced(client, namespace).get("petri").await?;
    let rule = json!(ingress.spec.and_then(|spec| spec.rules));
    expect("host", rule.pointer("/0/host").cloned(), json!("furnished.preview.example.com"))?;
    let service = rule.pointer("/0/http/paths/0/backend/service").cloned();
    expect("service", service, json!({"name": "furnished-db", "port": {"number": 5432}}))
}

fn expect(what: &str, found: Option<Value>, expected: Value) -> Result<(), Error> {
    if found.as_ref() == Some(&expected) {
        return Ok(());
    }
    Err(Error::Wrong(format!("{what}: {found:?} instead of {expected}")))
}

fn template() -> Result<EnvironmentTemplate, Error> {
    object(json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "furnished", "namespace": MANAGEMENT},
        "spec": {
            "deployTimeout": "5m",
            "components": [{"name": "db", "helm": {"path": "/charts/postgres"}}],
            "secrets": [{"name": PULL, "imagePull": true}],
            "ingress": {"domain": "preview.example.com"},
            "namespace": {
                "labels": {"team": "blue"},
                "resourceQuota": {"hard": {"count/configmaps": "50"}},
                "limitRange": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "10m"}}]},
                "networkPolicy": "isolate",
            },
        },
    }))
}

fn secret() -> Result<Secret, Error> {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": PULL, "namespace": MANAGEMENT, "labels": {"petri.run/shareable": "true"}},
        "stringData": {".dockerconfigjson": "{\"auths\":{}}"},
    }))
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> Result<K, Error> {
    serde_json::from_value(json).map_err(|error| Error::Wrong(error.to_string()))
}

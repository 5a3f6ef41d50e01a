//! A route of the Gateway API, by the definitions of its project; the case takes the Gateway's part.

use std::time::Duration;

use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment};
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment};
use crate::lab::http_route_definition;
use crate::petri::{Error, MANAGEMENT, Petri, namespace_of};

const PATIENCE: Duration = Duration::from_secs(120);
/// How long a cluster that has no Gateway API is watched for a URL that must not come.
const QUIET: Duration = Duration::from_secs(3);
const URL: &str = "http://routed.preview.example.com";

/// Without the definitions the environment is Ready without a URL; with them the URL waits for the Gateway.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    petri.apply_object(&petri.templates(), &template()?).await?;
    petri.apply_object(&petri.environments(), &environment("unrouted", "routed", json!({}))).await?;
    petri.until_ready("unrouted", PATIENCE).await?;
    tokio::time::sleep(QUIET).await;
    expect("the URL without a Gateway API", url(&petri.environments().get("unrouted").await?), None)?;
    away(petri, "unrouted").await?;

    let definition = http_route_definition().await?;
    petri.apply(&definition).await?;
    let name = "crd/httproutes.gateway.networking.k8s.io";
    petri.lab.kubectl(&["wait", "--for=condition=Established", "--timeout=30s", name]).await?;
    petri.apply_object(&petri.environments(), &environment("routed", "routed", json!({}))).await?;
    let ready = petri.until_ready("routed", PATIENCE).await?;
    let routes = routes(petri, &namespace_of(&ready)?);
    let route = routes.get("petri").await?;
    expect("the hosts", route.data.pointer("/spec/hostnames"), Some(&json!(["routed.preview.example.com"])))?;
    let parent = route.data.pointer("/spec/parentRefs/0/name");
    expect("the Gateway", parent, Some(&json!("shared")))?;
    let backend = route.data.pointer("/spec/rules/0/backendRefs/0");
    let service = backend.map(|backend| json!([backend["name"], backend["port"]]));
    expect("the service", service, Some(json!(["routed-db", 5432])))?;
    expect("the URL before the Gateway took it", url(&ready), None)?;

    take_in(&routes).await?;
    let published = |found: &EphemeralEnvironment| url(found).as_deref() == Some(URL);
    petri.until("routed", "its URL", PATIENCE, published).await?;
    away(petri, "routed").await?;
    petri.lab.kubectl(&["delete", name, "--wait=true"]).await?;
    petri.templates().delete("routed", &DeleteParams::default()).await?;
    cleaned(petri).await?;
    Ok(URL.to_owned())
}

async fn away(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    petri.delete(name).await?;
    petri.until_gone(name, PATIENCE).await
}

/// Says what a Gateway's controller says once it serves a route.
async fn take_in(routes: &Api<DynamicObject>) -> Result<(), Error> {
    let now = jiff::Timestamp::now().to_string();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now});
    let status = json!({"status": {"parents": [{
        "controllerName": "example.com/gateway", "parentRef": {"name": "shared"},
        "conditions": [condition("Accepted"), condition("ResolvedRefs")],
    }]}});
    routes.patch_status("petri", &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

fn routes(petri: &Petri<'_>, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute");
    Api::namespaced_with(petri.lab.client(), namespace, &ApiResource::from_gvk(&kind))
}

fn url(environment: &EphemeralEnvironment) -> Option<String> {
    environment.status.as_ref().and_then(|status| status.url.clone())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong(format!("{what}: {found:?} instead of {expected:?}")))
}

fn template() -> Result<EnvironmentTemplate, Error> {
    let template: Value = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "routed", "namespace": MANAGEMENT},
        "spec": {
            "components": [{"name": "db", "helm": {"path": "/charts/postgres"}}],
            "ingress": {"domain": "preview.example.com", "gateway": {"name": "shared"}},
        },
    });
    serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))
}

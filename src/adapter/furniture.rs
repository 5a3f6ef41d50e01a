//! What a template asks for besides components: copied Secrets, quota, limits, policy, and the route.

use super::{
    intent::{Inputs, canonical, misconfigured},
    names::{host, url},
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use petri_crds::{
    EnvironmentTemplateSpec, GatewayRef, NetworkPolicyMode,
    meta::{LABEL_SHAREABLE, LABEL_SHARED_PREFIX, TRUE},
};
use petri_machines::{
    environment::{FurnitureId, FurnitureKind, Invalid, Route},
    names::{ComponentName, Digest, EnvironmentName, ReleaseName},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of what there is one of in a namespace.
pub const FURNITURE_NAME: &str = "petri";

/// The Secrets that a template names, as they stand in the management namespace; what is missing is not there.
pub type Secrets = BTreeMap<String, Secret>;

/// What one piece of furniture is made from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Furnishing {
    /// Labels and annotations of the namespace.
    Namespace {
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// Its annotations.
        annotations: BTreeMap<String, String>,
    },
    /// The content of a copied Secret.
    Secret {
        /// Its type.
        kind: Option<String>,
        /// Its data.
        data: BTreeMap<String, ByteString>,
    },
    /// An entry among the default ServiceAccount's image pull secrets.
    PullSecret(String),
    /// The `spec` of an object whose spec is all there is to it.
    Spec(Value),
    /// An Ingress or an HTTPRoute.
    Route(RouteSpec),
}

/// What a route is made from; its service is known only once the component was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteSpec {
    /// The host.
    pub host: String,
    /// The component that gets the requests.
    pub component: ComponentName,
    /// Its release.
    pub release: String,
    /// The port of its service; `None` for the first one.
    pub port: Option<i32>,
    /// The class of an Ingress.
    pub class: Option<String>,
    /// The Secret with the certificate of an Ingress.
    pub tls: Option<String>,
    /// Annotations of the route.
    pub annotations: BTreeMap<String, String>,
    /// The Gateway of an HTTPRoute.
    pub gateway: Option<GatewayRef>,
}

impl Furnishing {
    /// Hashes all of it.
    pub fn digest(&self) -> Digest {
        let json = serde_json::to_value(self).map_or_else(|error| error.to_string(), |json| canonical(&json));
        Digest::of(&[&json])
    }
}

/// Computes the furniture of an environment and where its requests come in.
pub(super) fn furniture(
    inputs: &Inputs<'_>,
    template: &EnvironmentTemplateSpec,
    name: &EnvironmentName,
) -> Result<(BTreeMap<FurnitureId, Furnishing>, Option<Route>), Invalid> {
    let mut all = BTreeMap::new();
    let mut put = |kind, name: &str, furnishing| {
        all.insert(FurnitureId { kind, name: name.to_owned() }, furnishing);
    };
    if let Some(secrets) = inputs.secrets {
        for copied in &template.secrets {
            let held = shareable(secrets, &copied.name, inputs).map_err(misconfigured)?;
            let data = held.data.clone().unwrap_or_default();
            put(FurnitureKind::Secret, &copied.name, Furnishing::Secret { kind: held.type_.clone(), data });
            if copied.image_pull {
                put(FurnitureKind::PullSecret, &copied.name, Furnishing::PullSecret(copied.name.clone()));
            }
        }
    }
    let (mut labels, annotations) = template
        .namespace
        .as_ref()
        .map(|settings| (settings.labels.clone(), settings.annotations.clone()))
        .unwrap_or_default();
    // For people: nothing decides by it.
    let shared = template.components.iter().filter_map(|component| component.shared());
    labels.extend(shared.map(|shared| (format!("{LABEL_SHARED_PREFIX}{shared}"), TRUE.to_owned())));
    if !(labels.is_empty() && annotations.is_empty()) {
        put(FurnitureKind::Namespace, FURNITURE_NAME, Furnishing::Namespace { labels, annotations });
    }
    if let Some(settings) = &template.namespace {
        if let Some(quota) = &settings.resource_quota {
            put(FurnitureKind::ResourceQuota, FURNITURE_NAME, Furnishing::Spec(json!(quota)));
        }
        if let Some(limits) = &settings.limit_range {
            put(FurnitureKind::LimitRange, FURNITURE_NAME, Furnishing::Spec(json!(limits)));
        }
        if settings.network_policy == NetworkPolicyMode::Isolate {
            put(FurnitureKind::NetworkPolicy, FURNITURE_NAME, Furnishing::Spec(isolation()));
        }
    }
    let route = route(template, name)?;
    if let Some((item, spec, _)) = &route {
        put(item.kind, &item.name, Furnishing::Route(spec.clone()));
    }
    Ok((all, route.map(|(item, _, url)| Route { item, url })))
}

fn shareable<'s>(secrets: &'s Secrets, name: &str, inputs: &Inputs<'_>) -> Result<&'s Secret, String> {
    let namespace = inputs.environment.metadata.namespace.as_deref().unwrap_or_default();
    let Some(secret) = secrets.get(name) else {
        return Err(format!("secrets[{name}]: there is no such Secret in namespace {namespace}"));
    };
    let label = secret.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_SHAREABLE));
    if label.map(String::as_str) == Some(TRUE) {
        return Ok(secret);
    }
    Err(format!(
        "secrets[{name}]: the Secret in namespace {namespace} lacks the label {LABEL_SHAREABLE}={TRUE}"
    ))
}

/// Keeps other environments out. Where the ingress runs is not known, so everything that is no environment may come in;
/// the operator's probes come from there too.
fn isolation() -> Value {
    json!({
        "podSelector": {},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [
            {"podSelector": {}},
            {"namespaceSelector": {"matchExpressions": [
                {"key": petri_crds::meta::LABEL_MANAGED, "operator": "NotIn", "values": [TRUE]},
            ]}},
        ]}],
    })
}

type Routed = (FurnitureId, RouteSpec, String);

fn route(template: &EnvironmentTemplateSpec, name: &EnvironmentName) -> Result<Option<Routed>, Invalid> {
    let (Some(ingress), Some(component)) = (&template.ingress, target(template)) else { return Ok(None) };
    let (Some(host), Some(url)) = (host(name, ingress), url(name, template)) else { return Ok(None) };
    let component = ComponentName::new(component).map_err(misconfigured)?;
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let spec = RouteSpec {
        host,
        release: ReleaseName::of(name, &component).map_err(misconfigured)?.to_string(),
        component,
        port: ingress.port,
        class: given(&ingress.class_name),
        tls: given(&ingress.tls_secret_name),
        annotations: ingress.annotations.clone(),
        gateway: ingress.gateway.clone(),
    };
    let kind = if spec.gateway.is_some() { FurnitureKind::HttpRoute } else { FurnitureKind::Ingress };
    Ok(Some((FurnitureId { kind, name: FURNITURE_NAME.to_owned() }, spec, url)))
}

/// Names the component that gets the requests: the one named, or the one Helm component that nothing depends on.
pub(super) fn target(template: &EnvironmentTemplateSpec) -> Option<&str> {
    let ingress = template.ingress.as_ref().filter(|ingress| !ingress.domain.is_empty())?;
    if !ingress.component.is_empty() {
        return Some(&ingress.component);
    }
    let needed = |name: &String| template.components.iter().any(|other| other.depends_on.contains(name));
    let mut last = template.components.iter().filter(|one| one.helm.is_some() && !needed(&one.name));
    match (last.next(), last.next()) {
        (Some(only), None) => Some(&only.name),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

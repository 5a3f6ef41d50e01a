//! EnvironmentTemplate: the components that every environment of a kind has, and how they depend on each other.

use crate::helm::Helm;
use crate::schema::{self, DNS_LABEL, DNS_SUBDOMAIN, DNS_SUBDOMAIN_OR_EMPTY};
use crate::value::{EnvValue, Quantity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The components and what surrounds them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "core.petri.run",
    version = "v1alpha1",
    kind = "EnvironmentTemplate",
    namespaced,
    status = "EnvironmentTemplateStatus",
    shortname = "etmpl",
    category = "petri",
    derive = "PartialEq",
    derive = "Default",
    doc = "A kind of environment: its components, the order in which they depend on each other, and the defaults for environments made from it.",
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type=='Accepted')].status"}"#,
    printcolumn = r#"{"name":"TTL","type":"string","jsonPath":".spec.ttl"}"#,
    printcolumn = r#"{"name":"Domain","type":"string","jsonPath":".spec.ingress.domain"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Accepted')].reason","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.components.all(c, !has(c.dependsOn) || !(c.name in c.dependsOn))")
        .message("a component must not depend on itself"),
    validation = Rule::new("self.components.all(c, !has(c.dependsOn) || sets.contains(self.components.map(x, x.name), c.dependsOn))")
        .message("dependsOn names a component that the template does not have"),
    validation = Rule::new("self.components.all(c, has(c.helm) || !has(c.dependsOn) || sets.contains(self.components.filter(x, !has(x.helm)).map(x, x.name), c.dependsOn))")
        .message("a shared component must not depend on a Helm component"),
    validation = Rule::new("self.components.all(c, !has(c.helm) || !has(c.helm.credentialsSecretRef) || (has(self.secrets) && self.secrets.exists(s, s.name == c.helm.credentialsSecretRef.name)))")
        .message("credentialsSecretRef must name one of the template's secrets"),
    validation = Rule::new("!has(self.ingress) || !has(self.ingress.component) || self.ingress.component == '' || self.components.exists(c, c.name == self.ingress.component && has(c.helm))")
        .message("must name a Helm component of the template").field_path(".ingress.component"),
    validation = Rule::new("!has(self.ingress) || !has(self.ingress.tlsSecretName) || self.ingress.tlsSecretName == '' || (has(self.secrets) && self.secrets.exists(s, s.name == self.ingress.tlsSecretName))")
        .message("must name one of the template's secrets").field_path(".ingress.tlsSecretName"),
)]
pub struct EnvironmentTemplateSpec {
    /// The components of an environment, in any order; `dependsOn` decides what is deployed when.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub components: Vec<Component>,

    /// How long environments live that do not say it themselves: a Go duration. Empty or `0` means for ever.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = schema::duration_rule())]
    pub ttl: String,

    /// How long a component may take to become ready once its deployer Job succeeded: a Go duration above zero.
    /// Empty means the operator's default, 15m.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = schema::positive_duration_rule())]
    pub deploy_timeout: String,

    /// How environments are reached from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,

    /// Secrets of the management namespace, labelled `petri.run/shareable=true` there, that every environment gets
    /// a copy of, renewed at each rollout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub secrets: Vec<CopiedSecret>,

    /// What the namespace of an environment carries besides its components.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceSettings>,
}

/// One component: a Helm release of its own, or a slice of a shared component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.helm) != (has(self.sharedComponentRef) && self.sharedComponentRef != '')")
        .message("exactly one of helm and sharedComponentRef is needed"),
)]
pub struct Component {
    /// Name of the component, a DNS label. With the environment's name it makes the release: `<env>-<component>`,
    /// at most 53 characters.
    #[schemars(length(min = 1, max = 51), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// The chart to deploy for each environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Helm>,

    /// Name of a SharedComponent, in the same namespace, that the environment becomes a consumer of.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = DNS_SUBDOMAIN_OR_EMPTY))]
    pub shared_component_ref: String,

    /// Environment variables for the component's containers, handed to the chart as the list `extraEnvVars`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub env: BTreeMap<String, EnvValue>,

    /// A check that must pass besides the workloads being available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<Readiness>,

    /// Names of the components that must be ready before this one is deployed; it is undeployed before them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 63), inner(length(min = 1, max = 51)), extend("x-kubernetes-list-type" = "set"))]
    pub depends_on: Vec<String>,
}

impl Component {
    /// The name of the SharedComponent, if it is a shared one.
    #[must_use]
    pub fn shared(&self) -> Option<&str> {
        Some(self.shared_component_ref.as_str()).filter(|name| !name.is_empty())
    }
}

/// When a component counts as ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// A request that must be answered with status 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_get: Option<HttpGet>,
}

/// A request to the release's service that exposes the port. Redirects are not followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct HttpGet {
    /// Path of the request, with a leading slash.
    #[schemars(length(max = 1024), regex(pattern = r"^(/[^\s]*)?$"))]
    pub path: String,

    /// Port of the service.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// How an environment is reached from outside: by an Ingress, or by an HTTPRoute when `gateway` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!(has(self.className) && self.className != '' && has(self.gateway))")
        .message("className is for an Ingress, gateway for an HTTPRoute: only one of them"),
)]
pub struct Ingress {
    /// Domain under which each environment gets the host `<env>.<domain>`. Empty means no URL.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 190), regex(pattern = DNS_SUBDOMAIN_OR_EMPTY))]
    pub domain: String,

    /// Component whose service gets the requests; by default the one Helm component that nothing depends on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 51))]
    pub component: String,

    /// Port of that service; by default its only or first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Class of the Ingress; by default the cluster's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = DNS_SUBDOMAIN_OR_EMPTY))]
    pub class_name: String,

    /// TLS certificate, one of the template's `secrets`; makes the URL https.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub tls_secret_name: String,

    /// Annotations for the Ingress or HTTPRoute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: BTreeMap<String, String>,

    /// The Gateway that an HTTPRoute attaches to, instead of an Ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayRef>,
}

/// Names a Gateway of the Gateway API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayRef {
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Namespace of the Gateway; by default the environment's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = DNS_SUBDOMAIN_OR_EMPTY))]
    pub namespace: String,

    /// The listener; by default every listener that lets the route in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = DNS_SUBDOMAIN_OR_EMPTY))]
    pub section_name: String,
}

/// A Secret that every environment gets a copy of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopiedSecret {
    /// Name of the Secret, there and here.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Also makes it an image pull secret of the namespace's default ServiceAccount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub image_pull: bool,
}

/// What the namespace of an environment carries besides its components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceSettings {
    /// Labels of the namespace, such as those of Pod Security admission.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::namespace_labels")]
    pub labels: BTreeMap<String, String>,

    /// Annotations of the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::annotations")]
    pub annotations: BTreeMap<String, String>,

    /// A ResourceQuota for the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_quota: Option<ResourceQuota>,

    /// A LimitRange for the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_range: Option<LimitRange>,

    /// `isolate` admits traffic from within the namespace and from the ingress only; `none` sets no policy.
    #[serde(default, skip_serializing_if = "NetworkPolicyMode::is_none")]
    pub network_policy: NetworkPolicyMode,
}

/// The spec of a ResourceQuota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceQuota {
    /// Hard limits by resource name, such as `requests.cpu`, `limits.memory`, `pods`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub hard: BTreeMap<String, Quantity>,
}

/// The spec of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRange {
    /// The limits, each for one type of object.
    #[schemars(length(min = 1, max = 8))]
    pub limits: Vec<LimitRangeItem>,
}

/// Limits for one type of object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitRangeItem {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 64))]
    pub kind: String,

    /// Limits of containers that name none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub default: BTreeMap<String, Quantity>,

    /// Requests of containers that name none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub default_request: BTreeMap<String, Quantity>,

    /// Upper bounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub max: BTreeMap<String, Quantity>,

    /// Lower bounds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub min: BTreeMap<String, Quantity>,

    /// Highest quotient of limit and request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub max_limit_request_ratio: BTreeMap<String, Quantity>,
}

/// Which NetworkPolicy an environment's namespace gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum NetworkPolicyMode {
    #[default]
    None,
    Isolate,
}

impl NetworkPolicyMode {
    fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// What Petri thinks of the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentTemplateStatus {
    /// `Accepted` says whether the template is valid, before anybody uses it: graph, names, template syntax,
    /// references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Fields of a newer version, kept as they are when the status is written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

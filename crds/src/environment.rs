//! EphemeralEnvironment: one environment of a template, for as long as somebody needs it.

use crate::schema::{self, DNS_LABEL, DNS_SUBDOMAIN};
use crate::value::EnvValue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What the environment is made from and for how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "core.petri.run",
    version = "v1alpha1",
    kind = "EphemeralEnvironment",
    namespaced,
    status = "EphemeralEnvironmentStatus",
    shortname = "eenv",
    category = "petri",
    derive = "PartialEq",
    derive = "Default",
    doc = "An environment made from a template: its components are deployed in dependency order into a namespace of its own, and everything goes when it expires or is deleted.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#,
    printcolumn = r#"{"name":"Expires","type":"string","jsonPath":".status.expiresAt"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Template","type":"string","jsonPath":".spec.template","priority":1}"#,
    printcolumn = r#"{"name":"Namespace","type":"string","jsonPath":".status.targetNamespace","priority":1}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct EphemeralEnvironmentSpec {
    /// Name of the EnvironmentTemplate, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub template: String,

    /// Where the environment comes from; for people and tools, never interpreted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EnvironmentSource>,

    /// How long the environment lives, counted from its creation: a Go duration such as `90m` or `48h`. Empty means
    /// the template's, `0` means for ever. Raising it extends a living environment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = schema::duration_rule())]
    pub ttl: String,

    /// Helm values for every Helm component, as in `--set`: the key is a path, the value a Go template whose result
    /// is data. They win over the template's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::values")]
    pub values: BTreeMap<String, String>,

    /// Environment variables for every Helm component, over those of the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub env: BTreeMap<String, EnvValue>,

    /// Overrides for single components of the template; they win over `values` and `env`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub components: Vec<ComponentOverride>,
}

/// Where an environment comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentSource {
    /// Repository, as a URL or a name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    pub repo: String,

    /// Branch.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub branch: String,

    /// Commit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub sha: String,
}

/// What one component of this environment has different from the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentOverride {
    /// Name of the component in the template.
    #[schemars(length(min = 1, max = 51), regex(pattern = DNS_LABEL))]
    pub name: String,

    /// Helm values as in `--set`, for this component only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::values")]
    pub values: BTreeMap<String, String>,

    /// Helm values as YAML, for this component only; every string in it is a Go template. `values` wins over it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub values_object: Map<String, Value>,

    /// Environment variables, for this component only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 128))]
    pub env: BTreeMap<String, EnvValue>,
}

/// What Petri has done and sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct EphemeralEnvironmentStatus {
    /// Summary of where the environment is; the conditions say more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,

    /// The state of the environment in the standard form; `kubectl wait --for=condition=Ready` reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Where the environment answers, once it is ready and its route exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,

    /// Namespace that the components run in; assigned once, before it is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_namespace: Option<String>,

    /// UID of that namespace; another namespace of the same name is never touched.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "namespaceUID")]
    pub namespace_uid: Option<String>,

    /// When the environment deletes itself; absent when it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,

    /// When the current rollout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy_started_at: Option<Time>,

    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Version of the stored record in `machine`; an operator that is older than it leaves the object alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_state_version: Option<i64>,

    /// The operator's own record of its decisions; not for other readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub machine: Option<Value>,

    /// The components of the template, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub components: Vec<ComponentStatus>,

    /// The last five rollouts, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    pub history: Vec<Rollout>,

    /// Fields of a newer version, kept as they are when the status is written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

/// The state of one component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentStatus {
    /// Name of the component in the template.
    #[schemars(length(max = 63))]
    pub name: String,

    /// Whether it is a shared component.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,

    /// Where the component is.
    pub phase: ComponentPhase,

    /// Its level in the dependency graph; components of level 0 depend on nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,

    /// Failed attempts of this rollout; five end it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub deploy_retries: i32,

    /// When the current wait for readiness began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploying_since: Option<Time>,

    /// Why the last attempt failed, one word: `ChartNotFound`, `ImagePull`, `ReadinessTimeout`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure_reason: Option<String>,

    /// What it waits for or why it failed, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Fields of a newer version, kept as they are when the status is written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// One rollout of the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Number of the rollout, counted from 1 within the environment.
    pub revision: i64,

    /// How it ended.
    pub result: RolloutResult,

    /// Why it failed or was overtaken, one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// When it began.
    pub start: Time,

    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Time>,
}

// The variants below have no docs: schemars would drop them and move the documented ones to the end of the list
// that `kubectl explain` shows.

/// How a rollout ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RolloutResult {
    Succeeded,
    Failed,
    Superseded,
}

/// Where an environment or a shared component is in its life.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Phase {
    #[default]
    Pending,
    Deploying,
    Ready,
    Terminating,
    Failed,
}

impl Phase {
    /// The text that stands in status, events and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Deploying => "Deploying",
            Self::Ready => "Ready",
            Self::Terminating => "Terminating",
            Self::Failed => "Failed",
        }
    }
}

/// Where a component is in its rollout.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum ComponentPhase {
    #[default]
    Pending,
    Submitting,
    Deploying,
    Ready,
    Failed,
}

impl ComponentPhase {
    /// The text that stands in status, events and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Submitting => "Submitting",
            Self::Deploying => "Deploying",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
        }
    }
}

impl EphemeralEnvironmentStatus {
    /// Paths of the status fields that this version does not know; empty when a rewrite loses nothing.
    #[must_use]
    pub fn unknown_fields(&self) -> Vec<String> {
        let own = self.unknown.keys().map(|key| format!("status.{key}"));
        let components = self.components.iter().flat_map(|component| {
            component.unknown.keys().map(|key| format!("status.components[{}].{key}", component.name))
        });
        own.chain(components).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_of_a_newer_version_is_noticed_and_written_back_whole() {
        let stored = json!({
            "phase": "Ready",
            "controllerStateVersion": 7,
            "machine": {"phase": "ready", "revision": 3, "later": [1, {"x": null}]},
            "namespaceUID": "u-1",
            "expiresAt": "2030-01-01T00:00:00Z",
            "frozenUntil": "2030-01-01",
            "components": [{"name": "api", "phase": "Ready", "level": 1, "weight": 5}],
            "history": [{"revision": 1, "result": "Succeeded", "start": "2030-01-01T00:00:00Z"}],
        });
        let status: EphemeralEnvironmentStatus = serde_json::from_value(stored.clone()).expect("a status");
        assert_eq!(status.unknown_fields(), ["status.frozenUntil", "status.components[api].weight"]);
        assert_eq!(serde_json::to_value(&status).expect("an encodable status"), stored);
    }

    #[test]
    fn an_empty_status_is_written_as_nothing() {
        let status = EphemeralEnvironmentStatus::default();
        assert_eq!(serde_json::to_value(&status).expect("an encodable status"), json!({}));
        assert!(status.unknown_fields().is_empty());
    }

    #[test]
    fn phases_are_written_as_their_text() {
        for phase in [Phase::Pending, Phase::Deploying, Phase::Ready, Phase::Terminating, Phase::Failed] {
            assert_eq!(serde_json::to_value(phase).expect("a phase"), json!(phase.as_str()));
        }
        for phase in [
            ComponentPhase::Pending,
            ComponentPhase::Submitting,
            ComponentPhase::Deploying,
            ComponentPhase::Ready,
            ComponentPhase::Failed,
        ] {
            assert_eq!(serde_json::to_value(phase).expect("a phase"), json!(phase.as_str()));
        }
    }
}

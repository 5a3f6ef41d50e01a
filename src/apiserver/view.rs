//! What clients see of an environment. Everything else of the object stays inside.

use crate::apiserver::error::ApiError;
use jiff::Timestamp;
use kube::api::DynamicObject;
use petri_crds::{EnvValue, EphemeralEnvironment, EphemeralEnvironmentStatus, Phase, meta::ANNOTATION_RETRY};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"name": "pr-17", "template": "demo", "values": {"image.tag": "pr-17"}, "env": {},
    "ttl": "4h", "source": {"repo": "acme/app", "branch": "feature", "sha": "0123abc"}, "phase": "Ready",
    "url": "https://pr-17.example.com", "expiresAt": "2030-01-01T12:00:00Z", "namespace": "petri-env-0a1b2c3d",
    "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": "2030-01-01T08:02:11Z"}],
    "components": [{"name": "web", "phase": "Ready", "retries": 0}]}))]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// Name of its template.
    pub template: String,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source: Option<Source>,
    /// Helm values for every Helm component.
    pub values: BTreeMap<String, String>,
    /// Environment variables; those that refer to a Secret are not shown.
    pub env: BTreeMap<String, String>,
    /// How long it lives, as asked for; empty is the template's.
    pub ttl: String,
    /// Pending, Deploying, Ready, Terminating or Failed. Never Ready or Failed for an older specification than shown.
    pub phase: String,
    /// Where it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub url: Option<String>,
    /// When it deletes itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub expires_at: Option<String>,
    /// Namespace of its workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub namespace: Option<String>,
    /// Its state in the standard form.
    pub conditions: Vec<Condition>,
    /// Its components.
    pub components: Vec<Component>,
}

/// Where an environment comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Source {
    /// Repository.
    pub repo: String,
    /// Branch.
    pub branch: String,
    /// Commit.
    pub sha: String,
}

/// One aspect of an environment's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect.
    pub r#type: String,
    /// True, False or Unknown.
    pub status: String,
    /// One stable word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When the status changed.
    #[schema(format = DateTime)]
    pub last_transition_time: String,
}

/// One component of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its name in the template.
    pub name: String,
    /// Pending, Submitting, Deploying, Ready or Failed.
    pub phase: String,
    /// Failed attempts of this rollout.
    pub retries: i32,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reason: Option<String>,
    /// What it waits for or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub message: Option<String>,
}

/// A page of environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvironmentList {
    /// The page.
    pub items: Vec<Environment>,
    /// What the next page is asked for with; empty at the end.
    pub r#continue: String,
}

/// A page of templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items": [{"name": "demo", "accepted": true}], "continue": ""}))]
pub struct TemplateList {
    /// The page.
    pub items: Vec<Template>,
    /// What the next page is asked for with; empty at the end.
    pub r#continue: String,
}

/// A template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// Whether Petri found it to be in order.
    pub accepted: bool,
}

/// What was said about an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"items": [{"type": "Normal", "reason": "Ready", "message": "environment Ready",
    "count": 1, "lastSeen": "2030-01-01T08:02:11Z"}]}))]
pub struct EventList {
    /// Oldest first.
    pub items: Vec<Event>,
}

/// One thing that was said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Normal or Warning.
    pub r#type: String,
    /// One stable word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How often.
    pub count: i32,
    /// When last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, format = DateTime)]
    pub last_seen: Option<String>,
}

/// Decodes an object as it was read.
///
/// # Errors
/// It is none that this version understands.
pub fn decoded(object: &DynamicObject) -> Result<EphemeralEnvironment, ApiError> {
    let value = serde_json::to_value(object).map_err(|_| ApiError::internal())?;
    serde_json::from_value(value).map_err(|error| {
        tracing::warn!(%error, "an environment does not decode");
        ApiError::internal()
    })
}

/// Whether the status speaks about the specification and the retry that are asked for now.
pub fn is_current(environment: &EphemeralEnvironment) -> bool {
    let Some(status) = &environment.status else { return false };
    let asked = environment.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_RETRY));
    let record = status.machine.as_ref().and_then(|machine| machine.get("retry"));
    let honoured = record.and_then(serde_json::Value::as_str);
    status.observed_generation == environment.metadata.generation
        && asked.is_none_or(|asked| asked.is_empty() || Some(asked.as_str()) == honoured)
}

/// Returns the phase that a client may rely on.
pub fn phase(environment: &EphemeralEnvironment) -> Phase {
    if environment.metadata.deletion_timestamp.is_some() {
        return Phase::Terminating;
    }
    let told = environment.status.as_ref().and_then(|status| status.phase).unwrap_or_default();
    match told {
        Phase::Ready | Phase::Failed if !is_current(environment) => Phase::Pending,
        told => told,
    }
}

fn time(at: Timestamp) -> String {
    at.to_string()
}

impl From<&EphemeralEnvironment> for Environment {
    fn from(environment: &EphemeralEnvironment) -> Self {
        let spec = &environment.spec;
        let empty = EphemeralEnvironmentStatus::default();
        let status = environment.status.as_ref().unwrap_or(&empty);
        let variable = |(name, value): (&String, &EnvValue)| match value {
            EnvValue::Literal(text) => Some((name.clone(), text.clone())),
            EnvValue::Secret(_) => None,
        };
        let source = spec.source.as_ref().map(|source| Source {
            repo: source.repo.clone(),
            branch: source.branch.clone(),
            sha: source.sha.clone(),
        });
        Self {
            name: environment.metadata.name.clone().unwrap_or_default(),
            template: spec.template.clone(),
            source,
            values: spec.values.clone(),
            env: spec.env.iter().filter_map(variable).collect(),
            ttl: spec.ttl.clone(),
            phase: phase(environment).as_str().to_owned(),
            url: status.url.clone(),
            expires_at: status.expires_at.as_ref().map(|at| time(at.0)),
            namespace: status.target_namespace.clone(),
            conditions: status
                .conditions
                .iter()
                .map(|condition| Condition {
                    r#type: condition.type_.clone(),
                    status: condition.status.clone(),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                    last_transition_time: time(condition.last_transition_time.0),
                })
                .collect(),
            components: status
                .components
                .iter()
                .map(|component| Component {
                    name: component.name.clone(),
                    phase: component.phase.as_str().to_owned(),
                    retries: component.deploy_retries,
                    reason: component.last_failure_reason.clone(),
                    message: component.message.clone(),
                })
                .collect(),
        }
    }
}

impl Environment {
    /// Reason and message of the condition `Ready`.
    pub fn story(&self) -> (&str, &str) {
        let ready = self.conditions.iter().find(|condition| condition.r#type == "Ready");
        ready.map_or(("", ""), |ready| (&ready.reason, &ready.message))
    }
}

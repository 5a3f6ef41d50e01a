//! What an environment's inputs ask for: a plan and the payloads of its Jobs, or the reason why there is none.

use super::ttl;
use crate::deployer::payload::{ComponentPayload, HelmSource, Payload};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, HttpGet};
use petri_machines::{
    environment::{Invalid, Plan, Reason},
    kernel::Timestamp,
    names::{ComponentName, NamespaceName, ReleaseName, Uid},
};
use std::collections::BTreeMap;

/// Holds what an intent is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The environment.
    pub environment: &'a EphemeralEnvironment,
    /// The template that it names; `None` when there is none of that name.
    pub template: Option<&'a EnvironmentTemplate>,
    /// The workload namespace, as decided, or the first candidate.
    pub namespace: &'a NamespaceName,
    /// What holds where a template says nothing.
    pub defaults: Defaults,
}

/// Holds what the operator's configuration says where a template says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Seconds that a component has to become ready.
    pub deploy_timeout_secs: u64,
}

/// Tells what an environment is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Intent {
    /// The plan, or why the inputs cannot be worked with.
    pub plan: Result<Plan, Invalid>,
    /// When the time to live ends; `None` for never, and while it is invalid or comes from a missing template.
    pub expires_at: Option<Timestamp>,
    /// When a tenth of the time to live is left.
    pub expiring_at: Option<Timestamp>,
    /// What the Jobs of the plan's components get; empty without a plan.
    pub payloads: BTreeMap<ComponentName, RenderedComponent>,
}

/// Holds everything that the deploy Job of a component gets, besides the serial.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedComponent {
    /// Its name.
    pub name: ComponentName,
    /// Helm's name for its release.
    pub release: ReleaseName,
    /// Its chart.
    pub helm: HelmSource,
    /// Its values, merged and rendered.
    pub values: serde_json::Map<String, serde_json::Value>,
    /// The request that must be answered besides the workloads being available; not part of the payload.
    pub http_get: Option<HttpGet>,
}

impl RenderedComponent {
    /// Gives the payload of one attempt.
    pub fn payload(&self, owner: &Uid, namespace: &NamespaceName, serial: u64) -> Payload {
        Payload {
            owner_uid: owner.to_string(),
            namespace: namespace.to_string(),
            release_name: self.release.to_string(),
            serial,
            component: ComponentPayload {
                name: self.name.to_string(),
                helm: self.helm.clone(),
                values: self.values.clone(),
            },
        }
    }
}

/// Computes what an environment is asked for. The time to live counts whether or not the rest is valid.
pub fn intent(inputs: &Inputs<'_>) -> Intent {
    let expiry = ttl::expiry(inputs.environment, inputs.template);
    let (plan, payloads) = match plan(inputs, expiry.as_ref().err()) {
        Ok((plan, payloads)) => (Ok(plan), payloads),
        Err(invalid) => (Err(invalid), BTreeMap::new()),
    };
    let expiry = expiry.unwrap_or_default();
    Intent { plan, expires_at: expiry.at, expiring_at: expiry.near_at, payloads }
}

type Planned = (Plan, BTreeMap<ComponentName, RenderedComponent>);

fn plan(inputs: &Inputs<'_>, ttl: Option<&petri_crds::DurationError>) -> Result<Planned, Invalid> {
    if let Some(error) = ttl {
        return Err(Invalid { reason: Reason::InvalidTTL, message: format!("ttl: {error}") });
    }
    let Some(_template) = inputs.template else {
        let namespace = inputs.environment.metadata.namespace.as_deref().unwrap_or_default();
        let message = format!(
            "EnvironmentTemplate {:?} does not exist in namespace {namespace}",
            inputs.environment.spec.template
        );
        return Err(Invalid { reason: Reason::TemplateNotFound, message });
    };
    let plan = Plan::new(&[])
        .map_err(|error| Invalid { reason: Reason::InvalidConfiguration, message: error.to_string() })?;
    Ok((plan, BTreeMap::new()))
}

//! What an environment's inputs ask for: a plan and the payloads of its Jobs, or the reason why there is none.

mod rendering;

use super::{
    check,
    furniture::{self, Furnishing, Secrets},
    sharing::SliceInputs,
    source::is_immutable,
    ttl::{self, Expiry},
    values::{Leaf, ValuesError},
};
use crate::deployer::payload::{ComponentPayload, HelmSource, Payload};
use petri_crds::{
    EnvironmentTemplate, EnvironmentTemplateSpec, EphemeralEnvironment, HttpGet, duration::timeout_secs,
};
use petri_machines::{
    environment::{Blueprint, FurnitureId, Invalid, Plan, Reason, SharedBlueprint},
    kernel::Timestamp,
    names::{ComponentName, Digest, EnvironmentName, NamespaceName, ReleaseName, SharedName, Uid},
};
use rendering::Rendering;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Bytes of one component's values: a Secret holds 1 MiB, and the rest of the payload needs its part.
const VALUES_BYTES_MAX: usize = 1_000_000;

/// Holds what an intent is computed from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The environment.
    pub environment: &'a EphemeralEnvironment,
    /// The template that it names; `None` when there is none of that name.
    pub template: Option<&'a EnvironmentTemplate>,
    /// The workload namespace, as decided, or the first candidate.
    pub namespace: &'a NamespaceName,
    /// The Secrets that the template names; `None` where nobody looks at them.
    pub secrets: Option<&'a Secrets>,
    /// What is known of the slices of shared components.
    pub slices: &'a SliceInputs,
    /// What holds where a template says nothing.
    pub defaults: Defaults,
}

/// Holds what the operator's configuration says where a template says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Seconds that a component has to become ready.
    pub deploy_timeout_secs: u64,
    /// Seconds that a pod may fail to start before its attempt is charged; 0 for as long as it likes.
    pub pod_failure_secs: u64,
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
    pub payloads: Payloads,
    /// What the namespace carries besides; empty without a plan.
    pub furniture: Furniture,
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

    /// Hashes all that its Job gets but for serial and trace, in one fixed order of keys.
    pub(super) fn digest(&self, namespace: &NamespaceName) -> Result<Digest, Invalid> {
        let helm = serde_json::to_value(&self.helm).map_err(misconfigured)?;
        let values = canonical(&Value::Object(self.values.clone()));
        if values.len() > VALUES_BYTES_MAX {
            return Err(misconfigured(format!(
                "components[{}]: the values have {} bytes, at most {VALUES_BYTES_MAX} fit into a Secret",
                self.name,
                values.len()
            )));
        }
        Ok(Digest::of(&[self.release.as_str(), namespace.as_str(), &canonical(&helm), &values]))
    }
}

/// Writes JSON with sorted keys, whatever order the map type of this build keeps.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let entries =
                sorted.into_iter().map(|(key, value)| format!("{}:{}", json!(key), canonical(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(",")),
        leaf => leaf.to_string(),
    }
}

/// Computes what an environment is asked for. The time to live counts whether or not the rest is valid.
pub fn intent(inputs: &Inputs<'_>) -> Intent {
    let (expiry, ttl) = match ttl::expiry(inputs.environment, inputs.template) {
        Ok(expiry) => (expiry, Ok(())),
        Err(error) => (Expiry::default(), Err(invalid(Reason::InvalidTTL, format!("ttl: {error}")))),
    };
    let (plan, payloads, furniture) = match ttl.and_then(|()| plan(inputs)) {
        Ok((plan, payloads, furniture)) => (Ok(plan), payloads, furniture),
        Err(invalid) => (Err(invalid), BTreeMap::new(), BTreeMap::new()),
    };
    Intent { plan, expires_at: expiry.at, expiring_at: expiry.near_at, payloads, furniture }
}

/// Tells where what a component gets comes from, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Its values, without the variables.
    pub values: Vec<Leaf>,
    /// Its environment variables as its chart gets them, each with the field that it comes from.
    pub env: Vec<(Value, String)>,
}

/// Explains what [`intent`] plans, component by component.
///
/// # Errors
/// What [`intent`] says of the same inputs, or that the template is missing.
pub fn explain(inputs: &Inputs<'_>) -> Result<BTreeMap<String, Explained>, Invalid> {
    intent(inputs).plan?;
    let spec = inputs.template.map(|template| template.spec.clone()).unwrap_or_default();
    let rendering = Rendering::new(inputs.environment, &spec, inputs)?;
    let charts = spec.components.iter().filter(|one| one.shared().is_none());
    charts.map(|component| Ok((component.name.clone(), rendering.explain(component)?))).collect()
}

type Payloads = BTreeMap<ComponentName, RenderedComponent>;
type Furniture = BTreeMap<FurnitureId, Furnishing>;

fn plan(inputs: &Inputs<'_>) -> Result<(Plan, Payloads, Furniture), Invalid> {
    let environment = inputs.environment;
    let Some(template) = inputs.template else {
        let (name, namespace) = (&environment.spec.template, environment.metadata.namespace.as_deref());
        let namespace = namespace.unwrap_or_default();
        let message = format!("EnvironmentTemplate {name:?} does not exist in namespace {namespace}");
        return Err(invalid(Reason::TemplateNotFound, message));
    };
    check::template(&template.spec).map_err(misconfigured)?;
    check::environment(&environment.spec, &template.spec).map_err(misconfigured)?;
    let within = timeout_secs(&template.spec.deploy_timeout, inputs.defaults.deploy_timeout_secs);
    let ready_within_secs = within.map_err(misconfigured)?;
    let rendering = Rendering::new(environment, &template.spec, inputs)?;
    let shared = shared(&template.spec, inputs.slices)?;
    let mut blueprints = Vec::new();
    let mut payloads = BTreeMap::new();
    for component in template.spec.components.iter().filter(|one| one.shared().is_none()) {
        let rendered = rendering.component(component)?;
        let needed = component.depends_on.iter().map(ComponentName::new).collect::<Result<_, _>>();
        blueprints.push(Blueprint {
            name: rendered.name.clone(),
            depends_on: needed.map_err(misconfigured)?,
            payload: rendered.digest(inputs.namespace)?,
            immutable: is_immutable(&rendered.helm),
            ready_within_secs,
        });
        payloads.insert(rendered.name.clone(), rendered);
    }
    let mut plan = Plan::with_shared(&blueprints, &shared).map_err(misconfigured)?;
    plan.digest = with_probes(&plan.digest, &payloads);
    let name = EnvironmentName::new(environment.metadata.name.clone().unwrap_or_default());
    let name = name.map_err(misconfigured)?;
    let (furniture, route) = furniture::furniture(inputs, &template.spec, &name)?;
    let digests = furniture.iter().map(|(id, made)| (id.clone(), made.digest())).collect();
    Ok((plan.with_furniture(digests, route), payloads, furniture))
}

/// The slices that a template wants, as far as their providers are known.
fn shared(template: &EnvironmentTemplateSpec, known: &SliceInputs) -> Result<Vec<SharedBlueprint>, Invalid> {
    let mut all = Vec::new();
    for component in &template.components {
        let Some(shared) = component.shared() else { continue };
        let input = known.get(&component.name).cloned().unwrap_or_default();
        all.push(SharedBlueprint {
            name: ComponentName::new(&component.name).map_err(misconfigured)?,
            depends_on: component
                .depends_on
                .iter()
                .map(ComponentName::new)
                .collect::<Result<_, _>>()
                .map_err(misconfigured)?,
            shared: SharedName::new(shared).map_err(misconfigured)?,
            payload: input.payload,
            provisions: input.provisions,
        });
    }
    Ok(all)
}

/// A changed probe is a changed plan, although no Job gets to see it.
fn with_probes(plan: &Digest, payloads: &Payloads) -> Digest {
    let mut parts = vec![plan.as_str().to_owned()];
    for (name, rendered) in payloads {
        let probe = rendered.http_get.as_ref();
        parts.extend(probe.map(|probe| format!("{name} {} {}", probe.port, probe.path)));
    }
    Digest::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

fn invalid(reason: Reason, message: String) -> Invalid {
    Invalid { reason, message }
}

pub(super) fn misconfigured(why: impl ToString) -> Invalid {
    invalid(Reason::InvalidConfiguration, why.to_string())
}

impl From<ValuesError> for Invalid {
    fn from(error: ValuesError) -> Self {
        let reason = match error {
            ValuesError::Render { .. } => Reason::RenderFailed,
            ValuesError::Path { .. } | ValuesError::Contradiction { .. } => Reason::InvalidConfiguration,
        };
        invalid(reason, error.to_string())
    }
}

#[cfg(test)]
mod precedence;
#[cfg(test)]
mod tests;

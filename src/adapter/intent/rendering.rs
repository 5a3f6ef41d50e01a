//! One component after the other: its values and variables from template, environment and override.

use super::{Explained, Inputs, RenderedComponent, invalid, misconfigured};
use crate::adapter::{
    names::url,
    render::{Variables, render},
    sharing::{self, Keys, SliceInputs},
    source::source,
    values::{Layer, Variable, leaves, merge, put_env},
};
use petri_crds::{
    Component, ComponentOverride, EnvValue, EnvironmentTemplateSpec, EphemeralEnvironment,
    EphemeralEnvironmentSpec, Helm, meta::GENERATED_SECRET_KEY,
};
use petri_machines::{
    environment::{Invalid, Reason},
    names::{ComponentName, EnvironmentName, ReleaseName},
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where charts look for environment variables unless the template says otherwise.
const EXTRA_ENV_VARS: &str = "extraEnvVars";
/// Where they look for the Secret, when all variables that are references name one.
const EXTRA_ENV_VARS_SECRET: &str = "extraEnvVarsSecret";

/// What all components of an environment have in common.
pub(super) struct Rendering<'a> {
    name: EnvironmentName,
    spec: &'a EphemeralEnvironmentSpec,
    variables: Variables,
    /// The environment's own values, rendered once for all components.
    values: Layer,
    slices: &'a SliceInputs,
}

impl<'a> Rendering<'a> {
    pub(super) fn new(
        environment: &'a EphemeralEnvironment,
        template: &'a EnvironmentTemplateSpec,
        inputs: &Inputs<'a>,
    ) -> Result<Self, Invalid> {
        let name = environment.metadata.name.clone().unwrap_or_default();
        let name = EnvironmentName::new(name).map_err(misconfigured)?;
        let variables = variables(&name, template, &environment.spec, inputs);
        let values = Layer::render("environment", &Map::new(), &environment.spec.values, &variables)?;
        Ok(Self { name, spec: &environment.spec, variables, values, slices: inputs.slices })
    }

    pub(super) fn component(&self, component: &Component) -> Result<RenderedComponent, Invalid> {
        let at = format!("components[{}]", component.name);
        let helm = component.helm.clone().unwrap_or_default();
        let name = ComponentName::new(&component.name).map_err(misconfigured)?;
        let release =
            ReleaseName::of(&self.name, &name).map_err(|error| misconfigured(format!("{at}: {error}")))?;
        let [template, over] = self.layers(component)?;
        let mut values = merge([&template, &self.values, &over])?;
        let path = Some(helm.extra_env_vars_path.as_str()).filter(|path| !path.is_empty());
        let env = self.env(component)?.into_iter().map(|(name, (variable, _))| (name, variable)).collect();
        put_env(&mut values, path.unwrap_or(EXTRA_ENV_VARS), &env);
        if let Some(binding) = only_binding(&env) {
            values.insert(EXTRA_ENV_VARS_SECRET.to_owned(), binding.into());
        }
        Ok(RenderedComponent {
            name,
            release,
            helm: source(&helm).map_err(misconfigured)?,
            values,
            http_get: component.readiness.as_ref().and_then(|readiness| readiness.http_get.clone()),
        })
    }

    /// Says of what [`Self::component`] made where it came from.
    pub(super) fn explain(&self, component: &Component) -> Result<Explained, Invalid> {
        let [template, over] = self.layers(component)?;
        let layers = [&template, &self.values, &over];
        let env = self.env(component)?;
        let entry =
            |(name, (variable, at)): (&String, &(Variable, String))| (variable.entry(name), at.clone());
        Ok(Explained { values: leaves(&merge(layers)?, &layers), env: env.iter().map(entry).collect() })
    }

    /// The component's own values and the environment's override of them.
    fn layers(&self, component: &Component) -> Result<[Layer; 2], Invalid> {
        let at = format!("components[{}]", component.name);
        let none = Helm::default();
        let (helm, own, variables) =
            (component.helm.as_ref().unwrap_or(&none), self.own(component), &self.variables);
        let template = Layer::render(&format!("{at}.helm"), &helm.values_object, &helm.values, variables)?;
        let over = Layer::render(&format!("environment.{at}"), &own.values_object, &own.values, variables)?;
        Ok([template, over])
    }

    fn own(&self, component: &Component) -> ComponentOverride {
        let own = self.spec.components.iter().find(|own| own.name == component.name);
        own.cloned().unwrap_or_default()
    }

    /// A key of a binding. One that a known binding has not is an error; before it is known, nobody can tell.
    fn binding(&self, at: &str, component: &str, key: &str) -> Result<Variable, Invalid> {
        let has = match self.slices.get(component).map(|slice| &slice.keys) {
            Some(Keys::Bound(values)) => values.contains_key(key),
            Some(Keys::Declared(keys)) => keys.iter().any(|one| one == key),
            Some(Keys::Unknown) | None => true,
        };
        if !has && key != GENERATED_SECRET_KEY {
            let message = format!("{at}: the binding of component {component:?} has no key {key:?}");
            return Err(invalid(Reason::RenderFailed, message));
        }
        let component = ComponentName::new(component).map_err(misconfigured)?;
        let secret = sharing::binding_name(&self.name, &component);
        Ok(Variable::Binding { secret, key: key.to_owned() })
    }

    /// Later maps win, name by name; only what wins is rendered. Each comes with its field.
    fn env(&self, component: &Component) -> Result<BTreeMap<String, (Variable, String)>, Invalid> {
        let own = self.own(component);
        let at = format!("components[{}]", component.name);
        let place = format!("environment.{at}");
        let mut winners = BTreeMap::new();
        for (at, map) in [(at.as_str(), &component.env), ("environment", &self.spec.env), (&place, &own.env)]
        {
            winners.extend(map.iter().map(|(name, value)| (name, (at, value))));
        }
        let mut rendered = BTreeMap::new();
        for (name, (at, value)) in winners {
            let at = format!("{at}.env[{name:?}]");
            let variable = match value {
                EnvValue::Literal(text) => Variable::Text(
                    render(text, &self.variables)
                        .map_err(|error| invalid(Reason::RenderFailed, format!("{at}: {error}")))?,
                ),
                EnvValue::Secret(secret) => self.binding(&at, &secret.component, &secret.key)?,
            };
            rendered.insert(name.clone(), (variable, at));
        }
        Ok(rendered)
    }
}

/// Names the one binding that all references of a component name, if there is but one.
fn only_binding(env: &BTreeMap<String, Variable>) -> Option<String> {
    let mut named = env.values().filter_map(|variable| match variable {
        Variable::Binding { secret, .. } => Some(secret),
        Variable::Text(_) => None,
    });
    let first = named.next()?;
    named.all(|other| other == first).then(|| first.clone())
}

/// What templates see of the bindings: their values, or, before those are known, what reads them and nothing.
fn bindings(
    template: &EnvironmentTemplateSpec,
    spec: &EphemeralEnvironmentSpec,
    slices: &SliceInputs,
) -> Value {
    let mut all = Map::new();
    for component in template.components.iter().filter(|component| component.shared().is_some()) {
        let name = component.name.as_str();
        let values = match slices.get(name).map(|slice| &slice.keys) {
            Some(Keys::Bound(values)) => json!(values),
            Some(Keys::Declared(keys)) => keys.iter().map(|key| (key.clone(), json!(""))).collect(),
            Some(Keys::Unknown) | None => {
                let read =
                    sharing::read_keys(name, &json!([template, spec]).to_string().replace("\\\"", "\""));
                read.into_iter().map(|key| (key, json!(""))).collect()
            }
        };
        all.insert(name.to_owned(), values);
    }
    Value::Object(all)
}

/// Gives what templates see. The URL is there only when the template has a domain.
fn variables(
    name: &EnvironmentName,
    template: &EnvironmentTemplateSpec,
    spec: &EphemeralEnvironmentSpec,
    inputs: &Inputs<'_>,
) -> Variables {
    let mut env = json!({
        "Name": name.as_str(),
        "Slug": name.as_str().replace('-', "_"),
        "Namespace": inputs.namespace.as_str(),
    });
    if let Some(url) = url(name, template) {
        env["URL"] = url.into();
    }
    Variables::new(&json!({ "Env": env, "Components": bindings(template, spec, inputs.slices) }))
}

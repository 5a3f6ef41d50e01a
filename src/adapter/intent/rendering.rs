//! One component after the other: its values and variables from template, environment and override.

use super::{RenderedComponent, invalid, misconfigured};
use crate::adapter::{
    names::url,
    render::{Variables, render},
    source::source,
    values::{Layer, merge, put_env},
};
use petri_crds::{
    Component, ComponentOverride, EnvValue, EnvironmentTemplateSpec, EphemeralEnvironment,
    EphemeralEnvironmentSpec,
};
use petri_machines::{
    environment::{Invalid, Reason},
    names::{ComponentName, EnvironmentName, NamespaceName, ReleaseName},
};
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// Where charts look for environment variables unless the template says otherwise.
const EXTRA_ENV_VARS: &str = "extraEnvVars";

/// What all components of an environment have in common.
pub(super) struct Rendering<'a> {
    name: EnvironmentName,
    spec: &'a EphemeralEnvironmentSpec,
    variables: Variables,
    /// The environment's own values, rendered once for all components.
    values: Layer,
}

impl<'a> Rendering<'a> {
    pub(super) fn new(
        environment: &'a EphemeralEnvironment,
        template: &EnvironmentTemplateSpec,
        namespace: &NamespaceName,
    ) -> Result<Self, Invalid> {
        let name = environment.metadata.name.clone().unwrap_or_default();
        let name = EnvironmentName::new(name).map_err(misconfigured)?;
        let variables = variables(&name, template, namespace);
        let values = Layer::render("environment", &Map::new(), &environment.spec.values, &variables)?;
        Ok(Self { name, spec: &environment.spec, variables, values })
    }

    pub(super) fn component(&self, component: &Component) -> Result<RenderedComponent, Invalid> {
        let at = format!("components[{}]", component.name);
        let helm = component.helm.clone().unwrap_or_default();
        let name = ComponentName::new(&component.name).map_err(misconfigured)?;
        let release =
            ReleaseName::of(&self.name, &name).map_err(|error| misconfigured(format!("{at}: {error}")))?;
        let none = ComponentOverride::default();
        let own = self.spec.components.iter().find(|own| own.name == component.name).unwrap_or(&none);
        let variables = &self.variables;
        let template = Layer::render(&format!("{at}.helm"), &helm.values_object, &helm.values, variables)?;
        let place = format!("environment.{at}");
        let over = Layer::render(&place, &own.values_object, &own.values, variables)?;
        let mut values = merge([&template, &self.values, &over])?;
        let env = [(at.as_str(), &component.env), ("environment", &self.spec.env), (&place, &own.env)];
        let path = Some(helm.extra_env_vars_path.as_str()).filter(|path| !path.is_empty());
        put_env(&mut values, path.unwrap_or(EXTRA_ENV_VARS), &self.env(env)?);
        Ok(RenderedComponent {
            name,
            release,
            helm: source(&helm).map_err(misconfigured)?,
            values,
            http_get: component.readiness.as_ref().and_then(|readiness| readiness.http_get.clone()),
        })
    }

    /// Later maps win, name by name; only what wins is rendered.
    fn env(
        &self,
        maps: [(&str, &BTreeMap<String, EnvValue>); 3],
    ) -> Result<BTreeMap<String, String>, Invalid> {
        let mut winners = BTreeMap::new();
        for (at, map) in maps {
            winners.extend(map.iter().map(|(name, value)| (name, (at, value))));
        }
        let mut rendered = BTreeMap::new();
        for (name, (at, value)) in winners {
            // A reference to a binding was refused by the checks.
            let EnvValue::Literal(text) = value else { continue };
            let text = render(text, &self.variables)
                .map_err(|error| invalid(Reason::RenderFailed, format!("{at}.env[{name:?}]: {error}")))?;
            rendered.insert(name.clone(), text);
        }
        Ok(rendered)
    }
}

/// Gives what templates see. The URL is there only when the template has a domain.
fn variables(
    name: &EnvironmentName,
    template: &EnvironmentTemplateSpec,
    namespace: &NamespaceName,
) -> Variables {
    let mut env = json!({
        "Name": name.as_str(),
        "Slug": name.as_str().replace('-', "_"),
        "Namespace": namespace.as_str(),
    });
    if let Some(url) = url(name, template) {
        env["URL"] = url.into();
    }
    Variables::new(&json!({ "Env": env }))
}

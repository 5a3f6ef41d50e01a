//! What must hold of a template and of an environment of it, whether or not the API server checked it at apply.
//!
//! Objects of an older schema are there too, and some rules span two objects; so everything is checked again here.

use super::{sharing::release, source::source};
use petri_crds::{
    Component, EnvValue, EnvironmentTemplateSpec, EphemeralEnvironmentSpec, Quantity, duration::timeout_secs,
    meta::LABEL_SHARED_PREFIX,
};
use petri_machines::{
    names::{ComponentName, LABEL_MAX},
    topology,
};
use std::collections::{BTreeMap, BTreeSet};

const COMPONENTS_MAX: usize = 64;
/// Of any object, as Kubernetes bounds it.
const NAME_MAX: usize = 253;

/// Checks a template; the message names the field.
pub(super) fn template(spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    if spec.components.is_empty() || spec.components.len() > COMPONENTS_MAX {
        return Err(format!(
            "components: 1 to {COMPONENTS_MAX} are needed, {} are there",
            spec.components.len()
        ));
    }
    timeout_secs(&spec.deploy_timeout, 0).map_err(|error| format!("deployTimeout: {error}"))?;
    let mut graph = Vec::new();
    for component in &spec.components {
        let at = format!("components[{}]", component.name);
        let fault = |message: String| format!("{at}: {message}");
        let name = |name: &str| ComponentName::new(name).map_err(|error| fault(error.to_string()));
        let dependencies =
            component.depends_on.iter().map(|needed| name(needed)).collect::<Result<_, _>>()?;
        graph.push((name(&component.name)?, dependencies));
        one(component, spec).map_err(fault)?;
        env(&format!("{at}.env"), &component.env, spec)?;
    }
    topology::levels(&graph).map_err(|error| error.to_string())?;
    secrets(spec)?;
    namespace(spec)?;
    ingress(spec)
}

/// Labels decide who owns a namespace, so a template must not set Petri's.
fn namespace(spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    let Some(namespace) = &spec.namespace else { return Ok(()) };
    let reserved = |key: &&String| {
        key.starts_with("petri.run/")
            || key.starts_with("app.kubernetes.io/")
            || *key == "kubernetes.io/metadata.name"
    };
    if let Some(key) = namespace.labels.keys().find(reserved) {
        return Err(format!("namespace.labels: {key:?} is not for templates"));
    }
    if let Some(key) = namespace.annotations.keys().find(|key| key.starts_with("petri.run/")) {
        return Err(format!("namespace.annotations: {key:?} is not for templates"));
    }
    if let Some(quota) = &namespace.resource_quota {
        quantities("namespace.resourceQuota.hard", &quota.hard)?;
    }
    for item in namespace.limit_range.iter().flat_map(|range| &range.limits) {
        let maps =
            [&item.default, &item.default_request, &item.max, &item.min, &item.max_limit_request_ratio];
        for map in maps {
            quantities("namespace.limitRange.limits", map)?;
        }
    }
    Ok(())
}

/// What is no quantity would be refused when the namespace is furnished, where nobody looks.
fn quantities(at: &str, map: &BTreeMap<String, Quantity>) -> Result<(), String> {
    match map.iter().find(|(_, quantity)| !quantity.is_valid()) {
        Some((key, Quantity(text))) => Err(format!("{at}[{key:?}]: {text:?} is no quantity")),
        None => Ok(()),
    }
}

/// Checks the name of a template, which goes into an address.
pub fn template_name(name: &str) -> Result<(), String> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    if !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(inner) {
        return Ok(());
    }
    Err(format!("template: {name:?} is no name of an object (lower-case letters, digits, hyphens, dots)"))
}

fn one(component: &Component, spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    let helm = match (&component.helm, component.shared()) {
        (Some(helm), None) => helm,
        (None, Some(shared)) => return one_shared(component, shared, spec),
        (None, None) | (Some(_), Some(_)) => {
            return Err("exactly one of helm and sharedComponentRef is needed".to_owned());
        }
    };
    source(helm).map_err(|error| format!("helm: {error}"))?;
    if let Some(secret) = &helm.credentials_secret_ref
        && !has_secret(spec, &secret.name)
    {
        return Err(format!(
            "helm.credentialsSecretRef: {:?} is none of the template's secrets",
            secret.name
        ));
    }
    let mut needed = BTreeSet::new();
    if let Some(twice) = component.depends_on.iter().find(|name| !needed.insert(*name)) {
        return Err(format!("dependsOn names {twice} twice"));
    }
    let Some(probe) = component.readiness.as_ref().and_then(|readiness| readiness.http_get.as_ref()) else {
        return Ok(());
    };
    if !(1..=65_535).contains(&probe.port) {
        return Err(format!("readiness.httpGet.port: {} is no port", probe.port));
    }
    if !(probe.path.is_empty() || probe.path.starts_with('/')) || probe.path.contains(char::is_whitespace) {
        return Err("readiness.httpGet.path: begins with a slash and holds no space".to_owned());
    }
    Ok(())
}

fn one_shared(component: &Component, shared: &str, spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    release(shared).map_err(|error| format!("sharedComponentRef: {error}"))?;
    let label = format!("{LABEL_SHARED_PREFIX}{shared}");
    let name = label.rsplit('/').next().unwrap_or_default();
    if name.len() > LABEL_MAX {
        return Err(format!(
            "sharedComponentRef: label {label:?} has {} characters behind the slash, at most {LABEL_MAX} fit",
            name.len()
        ));
    }
    let helm =
        |needed: &&String| spec.components.iter().any(|one| one.name == **needed && one.helm.is_some());
    match component.depends_on.iter().find(helm) {
        None => Ok(()),
        Some(needed) => {
            Err(format!("dependsOn: a shared component cannot depend on the Helm component {needed:?}"))
        }
    }
}

fn has_secret(spec: &EnvironmentTemplateSpec, name: &str) -> bool {
    spec.secrets.iter().any(|secret| secret.name == name)
}

fn secrets(spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    let mut names = BTreeSet::new();
    match spec.secrets.iter().find(|secret| !names.insert(&secret.name)) {
        Some(twice) => Err(format!("secrets: {:?} is named twice", twice.name)),
        None => Ok(()),
    }
}

fn ingress(spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    let Some(ingress) = &spec.ingress else { return Ok(()) };
    let target = ingress.component.as_str();
    if !target.is_empty() && !spec.components.iter().any(|one| one.name == target && one.helm.is_some()) {
        return Err(format!("ingress.component: {target:?} is no Helm component of the template"));
    }
    let secret = ingress.tls_secret_name.as_str();
    if !secret.is_empty() && !has_secret(spec, secret) {
        return Err(format!("ingress.tlsSecretName: {secret:?} is none of the template's secrets"));
    }
    if !ingress.class_name.is_empty() && ingress.gateway.is_some() {
        return Err("ingress: className is for an Ingress, gateway for an HTTPRoute".to_owned());
    }
    Ok(())
}

/// Checks an environment against its template; the message names the field.
pub(super) fn environment(
    spec: &EphemeralEnvironmentSpec,
    template: &EnvironmentTemplateSpec,
) -> Result<(), String> {
    env("environment.env", &spec.env, template)?;
    let mut names = BTreeSet::new();
    for component in &spec.components {
        let at = format!("environment.components[{}]", component.name);
        if !names.insert(&component.name) {
            return Err(format!("{at}: is there twice"));
        }
        if !template.components.iter().any(|known| known.name == component.name) {
            let names: Vec<&str> = template.components.iter().map(|known| known.name.as_str()).collect();
            return Err(format!("{at}: the template has no such component; it has {}", names.join(", ")));
        }
        env(&format!("{at}.env"), &component.env, template)?;
    }
    Ok(())
}

/// A map of environment variables is invisible to the API server's rules, so the names are checked only here.
fn env(at: &str, env: &BTreeMap<String, EnvValue>, spec: &EnvironmentTemplateSpec) -> Result<(), String> {
    for (name, value) in env {
        if !is_variable(name) {
            return Err(format!(
                "{at}[{name:?}]: a name has letters, digits, '_', '-' and '.', and no digit in front"
            ));
        }
        let EnvValue::Secret(secret) = value else { continue };
        let component = secret.component.as_str();
        return Err(match spec.components.iter().find(|known| known.name == component) {
            None => format!("{at}[{name:?}]: the template has no component {component:?}"),
            Some(known) if known.shared().is_some() => continue,
            Some(_) => format!("{at}[{name:?}]: component {component:?} is not shared, so it has no binding"),
        });
    }
    Ok(())
}

fn is_variable(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    name.bytes().all(inner) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

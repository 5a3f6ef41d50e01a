//! What `plan` prints for people.

use super::{
    judge::{Detail, Judged, NO_UID},
    report::{Component, Environment, Fault},
};
use serde_json::Value;
use std::fmt::Write as _;

pub(super) fn text(judged: &Judged) -> String {
    let mut out = String::new();
    for (environment, detail) in judged.report.environments.iter().zip(&judged.details) {
        out.push_str(&one(environment, detail));
        out.push('\n');
    }
    for line in &judged.accepted {
        line_to(&mut out, line);
    }
    for other in &judged.others {
        line_to(&mut out, &format!("{other}: not Petri's, left out"));
    }
    for Fault { file, line, path, reason, message } in &judged.report.errors {
        let at = if path.is_empty() { String::new() } else { format!(" ({path})") };
        line_to(&mut out, &format!("{file}:{line}: {reason}: {message}{at}"));
    }
    out
}

fn line_to(out: &mut String, line: &str) {
    let _ = writeln!(out, "{line}");
}

fn one(environment: &Environment, detail: &Detail) -> String {
    let mut out = format!("EphemeralEnvironment {} of template {}\n", environment.name, detail.template);
    let unknown = match detail.uid {
        Some(_) => String::new(),
        None => format!(" (hashes are of the UID, which the API server will give; {NO_UID} stands for it)"),
    };
    line_to(&mut out, &format!("  namespace {}{unknown}", detail.namespace));
    for (account, role) in &detail.rights {
        line_to(&mut out, &format!("  right     ClusterRole {role} for ServiceAccount {account}"));
    }
    for (number, level) in environment.levels.iter().enumerate() {
        line_to(&mut out, &format!("  level {number}   {}", level.join(", ")));
    }
    for (component, what) in &detail.shared {
        line_to(&mut out, &format!("  shared    {component}: {what}"));
    }
    for secret in &detail.secrets {
        line_to(
            &mut out,
            &format!("  secret    {secret} is copied from the management namespace (not looked at)"),
        );
    }
    for id in detail.plan.furniture.keys() {
        line_to(&mut out, &format!("  besides   {id}"));
    }
    if let Some(route) = &detail.plan.route {
        line_to(&mut out, &format!("  url       {}", route.url));
    }
    for part in &environment.components {
        component(&mut out, part, detail);
    }
    out
}

fn component(out: &mut String, component: &Component, detail: &Detail) {
    line_to(out, &format!("  component {}", component.name));
    line_to(out, &format!("    release {}", component.release));
    line_to(out, &format!("    job     {} payload {}", component.job.name, component.job.digest));
    let Some(explained) = detail.explained.get(&component.name) else { return };
    for leaf in &explained.values {
        let origin = origin(&leaf.origin, &detail.template);
        line_to(
            out,
            &format!("    value   {} = {} ({}) from {origin}", leaf.path, leaf.value, kind(&leaf.value)),
        );
    }
    for (entry, field) in &explained.env {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let value = match (entry.get("value"), entry.pointer("/valueFrom/secretKeyRef")) {
            (Some(value), _) => value.to_string(),
            (None, Some(reference)) => {
                let text = |key| reference.get(key).and_then(Value::as_str).unwrap_or_default();
                format!("key {} of Secret {}", text("key"), text("name"))
            }
            (None, None) => String::new(),
        };
        line_to(out, &format!("    env     {name} = {value} from {}", origin(field, &detail.template)));
    }
}

/// The field with the object that it is a field of.
fn origin(field: &str, template: &str) -> String {
    match field.strip_prefix("environment.") {
        Some(field) => format!("the environment's {field}"),
        None => format!("template {template}'s {field}"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

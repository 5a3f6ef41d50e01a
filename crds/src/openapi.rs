//! What the API server checks of a structural schema besides its CEL rules, with the server's own messages.
//!
//! kube-cel runs the rules only; without this, an object that lacks a required field would be called good. For tests,
//! and for `kubectl petri plan`, which says without a cluster what the server would.

use regex::Regex;
use serde_json::{Map, Value};

/// Checks an object against a CRD's schema, at `spec` and `status`; returns the server's messages.
///
/// # Panics
/// The schema holds a pattern that is none, or a list-map without keys; the ones of [`crate::crds`] do not.
#[must_use]
pub fn violations(schema: &Value, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["spec", "status"] {
        match object.get(part) {
            Some(value) => check(&schema["properties"][part], value, part, &mut found),
            None if required(schema).any(|name| name == part) => {
                found.push(format!("{part}: Required value"))
            }
            None => {}
        }
    }
    found
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if value.is_null() {
        if schema["nullable"] != Value::Bool(true) {
            found.push(format!("{path} in body must be of type {}: \"null\"", schema["type"]));
        }
        return;
    }
    if let Some(wanted) = schema["type"].as_str()
        && !has_type(value, wanted)
    {
        found.push(format!("{path} in body must be of type {wanted}: \"{}\"", type_of(value)));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{path}: Unsupported value: {value}"));
    }
    match value {
        Value::String(text) => check_text(schema, text, path, found),
        Value::Number(number) => check_number(schema, number.as_f64().unwrap_or(f64::NAN), path, found),
        Value::Array(items) => check_list(schema, items, path, found),
        Value::Object(object) => check_object(schema, object, path, found),
        Value::Null | Value::Bool(_) => {}
    }
    check_combinations(schema, value, path, found);
}

fn check_combinations(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let fits = |schema: &Value| {
        let mut inner = Vec::new();
        check(schema, value, path, &mut inner);
        inner.is_empty()
    };
    if schema.get("not").is_some_and(fits) {
        found.push(format!("\"{path}\" must not validate the schema (not)"));
    }
    if let Some(schemas) = schema["anyOf"].as_array()
        && !schemas.iter().any(fits)
    {
        found.push(format!("\"{path}\" must validate at least one schema (anyOf)"));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, found: &mut Vec<String>) {
    let length = text.chars().count() as u64;
    if let Some(max) = schema["maxLength"].as_u64()
        && length > max
    {
        found.push(format!("{path}: Too long: may not be more than {max} bytes"));
    }
    if let Some(min) = schema["minLength"].as_u64()
        && length < min
    {
        found.push(format!("{path} in body should be at least {min} chars long"));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).expect("a valid pattern").is_match(text)
    {
        found.push(format!("{path} in body should match '{pattern}'"));
    }
}

fn check_number(schema: &Value, number: f64, path: &str, found: &mut Vec<String>) {
    if let Some(max) = schema["maximum"].as_f64()
        && number > max
    {
        found.push(format!("{path} in body should be less than or equal to {max}"));
    }
    if let Some(min) = schema["minimum"].as_f64()
        && number < min
    {
        found.push(format!("{path} in body should be greater than or equal to {min}"));
    }
}

fn check_list(schema: &Value, items: &[Value], path: &str, found: &mut Vec<String>) {
    let count = items.len() as u64;
    if let Some(max) = schema["maxItems"].as_u64()
        && count > max
    {
        found.push(format!("{path}: Too many: {count}: must have at most {max} items"));
    }
    if let Some(min) = schema["minItems"].as_u64()
        && count < min
    {
        found.push(format!("{path} in body should have at least {min} items"));
    }
    let identity = |item: &Value| match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Some(vec![item.clone()]),
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().expect("keys of a list-map");
            Some(keys.iter().map(|key| item[key.as_str().unwrap_or_default()].clone()).collect())
        }
        _ => None,
    };
    for (index, item) in items.iter().enumerate() {
        check(&schema["items"], item, &format!("{path}[{index}]"), found);
        if identity(item).is_some() && items[..index].iter().any(|other| identity(other) == identity(item)) {
            found.push(format!("{path}[{index}]: Duplicate value"));
        }
    }
}

fn check_object(schema: &Value, object: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let count = object.len() as u64;
    if let Some(max) = schema["maxProperties"].as_u64()
        && count > max
    {
        let items = if max == 1 { "item" } else { "items" };
        found.push(format!("{path}: Too many: {count}: must have at most {max} {items}"));
    }
    for name in required(schema).filter(|name| !object.contains_key(*name)) {
        found.push(format!("{path}.{name}: Required value"));
    }
    for (name, value) in object {
        let path = format!("{path}.{name}");
        if let Some(schema) = schema["properties"].get(name).or_else(|| schema.get("additionalProperties")) {
            check(schema, value, &path, found);
        } else if schema["type"] == "object"
            && schema["x-kubernetes-preserve-unknown-fields"] != Value::Bool(true)
        {
            found.push(format!("unknown field \"{path}\""));
        }
    }
}

fn has_type(value: &Value, wanted: &str) -> bool {
    let integral = value.as_f64().is_some_and(|number| number.fract() == 0.0);
    type_of(value) == wanted || (wanted == "integer" && integral) || (wanted == "number" && value.is_number())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

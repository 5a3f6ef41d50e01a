//! The values of one release: layers of YAML and of `--set` paths, rendered and merged, the last layer winning.

mod origin;
mod path;

use super::render::{RenderError, Variables, render};
pub use origin::{Leaf, leaves};
use path::Step;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Says which value cannot be used, and why. Never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValuesError {
    /// A text does not render.
    #[error("{at}: {error}")]
    Render {
        /// The field.
        at: String,
        /// Why.
        error: RenderError,
    },
    /// A key is no path.
    #[error("{at}: {why}")]
    Path {
        /// The field.
        at: String,
        /// Why.
        why: String,
    },
    /// Two keys of one map cannot both hold.
    #[error("{at} contradicts another key of the same map")]
    Contradiction {
        /// The field that got lost.
        at: String,
    },
}

/// Values from one place, rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    at: String,
    object: Map<String, Value>,
    sets: Vec<Set>,
}

/// One entry of a `values` map.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    at: String,
    path: Vec<Step>,
    value: Value,
}

impl Layer {
    /// Renders the values of one place. `at` is the path of the place in its resource, for messages.
    ///
    /// # Errors
    /// The field that does not render, or whose key is no path.
    pub fn render(
        at: &str,
        object: &Map<String, Value>,
        values: &BTreeMap<String, String>,
        variables: &Variables,
    ) -> Result<Self, ValuesError> {
        let mut layer = Self { at: at.to_owned(), ..Self::default() };
        for (key, value) in object {
            layer.object.insert(key.clone(), leaf(&format!("{at}.valuesObject.{key}"), value, variables)?);
        }
        for (key, source) in values {
            let at = format!("{at}.values[{key:?}]");
            let path = path::parse(key).map_err(|why| ValuesError::Path { at: at.clone(), why })?;
            let text =
                render(source, variables).map_err(|error| ValuesError::Render { at: at.clone(), error })?;
            layer.sets.push(Set { at, path, value: typed(text) });
        }
        Ok(layer)
    }
}

/// Merges layers; later ones win, and within a layer `values` win over `valuesObject`.
///
/// # Errors
/// Two keys of one `values` map that cannot both hold, such as `a` and `a.b`.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Result<Map<String, Value>, ValuesError> {
    let mut merged = Value::Object(Map::new());
    for layer in layers {
        for (key, value) in &layer.object {
            overlay(&mut merged, &[Step::Key(key.clone())], value);
        }
        for set in &layer.sets {
            path::set(&mut merged, &set.path, set.value.clone());
        }
        if let Some(lost) = layer.sets.iter().find(|set| path::get(&merged, &set.path) != Some(&set.value)) {
            return Err(ValuesError::Contradiction { at: lost.at.clone() });
        }
    }
    match merged {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// What an environment variable is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Variable {
    /// A text.
    Text(String),
    /// A key of a binding Secret.
    Binding {
        /// The Secret.
        secret: String,
        /// Its key.
        key: String,
    },
}

impl Variable {
    /// Returns the entry of the list that a chart gets.
    pub fn entry(&self, name: &str) -> Value {
        match self {
            Self::Text(value) => serde_json::json!({"name": name, "value": value}),
            Self::Binding { secret, key } => {
                let reference = serde_json::json!({"name": secret, "key": key});
                serde_json::json!({"name": name, "valueFrom": {"secretKeyRef": reference}})
            }
        }
    }
}

/// Puts environment variables into values as a list of `{name, value}` or references at a dotted path. Entries that stand there
/// already stay, but for those of the same name.
pub fn put_env(values: &mut Map<String, Value>, dotted: &str, env: &BTreeMap<String, Variable>) {
    if env.is_empty() {
        return;
    }
    let path: Vec<Step> = dotted.split('.').map(|key| Step::Key(key.to_owned())).collect();
    let mut root = Value::Object(std::mem::take(values));
    let stands = path::get(&root, &path).and_then(Value::as_array).cloned().unwrap_or_default();
    let renamed = |entry: &Value| {
        let name = entry.get("name").and_then(Value::as_str);
        name.is_some_and(|name| env.contains_key(name))
    };
    let mut list: Vec<Value> = stands.into_iter().filter(|entry| !renamed(entry)).collect();
    list.extend(env.iter().map(|(name, variable)| variable.entry(name)));
    path::set(&mut root, &path, Value::Array(list));
    if let Value::Object(map) = root {
        *values = map;
    }
}

/// Renders the strings of a YAML value; whatever they render to stays a string.
fn leaf(at: &str, value: &Value, variables: &Variables) -> Result<Value, ValuesError> {
    Ok(match value {
        Value::String(source) => Value::String(
            render(source, variables).map_err(|error| ValuesError::Render { at: at.to_owned(), error })?,
        ),
        Value::Array(list) => {
            let item = |(place, item)| leaf(&format!("{at}[{place}]"), item, variables);
            Value::Array(list.iter().enumerate().map(item).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let entry = |(key, value): (&String, &Value)| {
                Ok((key.clone(), leaf(&format!("{at}.{key}"), value, variables)?))
            };
            Value::Object(map.iter().map(entry).collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

/// Types a text as `--set` does: only what is written exactly as a boolean, `null` or an integer becomes one, so that
/// `007`, `+1`, `-0`, `1e10` and a commit like `00215e6` stay what they are.
fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        _ => match text.parse::<i64>() {
            Ok(number) if number.to_string() == text => number.into(),
            _ => Value::String(text),
        },
    }
}

/// Lays a value over what stands at a path: maps are merged, all else is replaced, as Helm does with values files.
/// `null` stays, so that it removes the chart's default too.
fn overlay(root: &mut Value, path: &[Step], over: &Value) {
    match over {
        Value::Object(map) if path::get(root, path).is_some_and(Value::is_object) => {
            for (key, value) in map {
                let deeper: Vec<Step> = path.iter().cloned().chain([Step::Key(key.clone())]).collect();
                overlay(root, &deeper, value);
            }
        }
        _ => path::set(root, path, over.clone()),
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

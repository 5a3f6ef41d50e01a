//! Where each value of a release comes from, for people.

use super::{
    Layer,
    path::{self, Step},
};
use serde_json::{Map, Value};

/// One value of a release.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// Its path, in `--set` syntax.
    pub path: String,
    /// What it is.
    pub value: Value,
    /// The field that it comes from.
    pub origin: String,
}

/// Lists the values that layers were merged to, each with the last field that says it.
pub fn leaves(merged: &Map<String, Value>, layers: &[&Layer]) -> Vec<Leaf> {
    let mut found = Vec::new();
    for (key, value) in merged {
        walk(&mut vec![Step::Key(key.clone())], value, layers, &mut found);
    }
    found
}

fn walk(at: &mut Vec<Step>, value: &Value, layers: &[&Layer], found: &mut Vec<Leaf>) {
    let children: Vec<(Step, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (Step::Key(key.clone()), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (Step::Place(at), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if children.is_empty() {
        let origin = layers.iter().rev().find_map(|layer| layer.origin(at)).unwrap_or_default();
        found.push(Leaf { path: shown(at), value: value.clone(), origin });
    }
    for (step, child) in children {
        at.push(step);
        walk(at, child, layers, found);
        at.pop();
    }
}

impl Layer {
    /// The field of this layer that says what stands at a path. A gap in a list comes from what lies behind it.
    fn origin(&self, at: &[Step]) -> Option<String> {
        let list = at.split_last().filter(|(last, _)| matches!(last, Step::Place(_))).map(|(_, list)| list);
        let set = self.sets.iter().rev().find(|set| set.path == at);
        let set =
            set.or_else(|| self.sets.iter().find(|set| list.is_some_and(|list| set.path.starts_with(list))));
        let object = || {
            let stands = at.split_first().and_then(|(first, rest)| match first {
                Step::Key(key) => path::get(self.object.get(key)?, rest),
                Step::Place(_) => None,
            });
            stands.map(|_| format!("{}.valuesObject.{}", self.at, shown(at)))
        };
        let exact = set.filter(|set| set.path == at).map(|set| set.at.clone());
        exact.or_else(object).or_else(|| set.map(|set| set.at.clone()))
    }
}

/// Writes a path as [`path::parse`] reads it.
fn shown(steps: &[Step]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            Step::Place(place) => out.push_str(&format!("[{place}]")),
            Step::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                for c in key.chars() {
                    if matches!(c, '.' | '[' | '=' | '\\') {
                        out.push('\\');
                    }
                    out.push(c);
                }
            }
        }
    }
    out
}

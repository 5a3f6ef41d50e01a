//! Manifests as they were written: each document with the line of each of its fields.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use std::fmt;

/// A text and where it is from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
}

/// One document.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) file: String,
    root: Node,
    pub(super) object: Value,
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) path: String,
}

/// A value with its line: of its key where it has one, so that a block is found where it begins.
#[derive(Clone, Debug)]
struct Node {
    line: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Leaf(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Source {
    /// Reads all documents.
    ///
    /// # Errors
    /// The line that is no YAML, and why.
    pub(super) fn manifests(&self) -> Result<Vec<Manifest>, (u64, String)> {
        let nodes: Vec<Node> = serde_saphyr::from_multiple::<Spanned<Content>>(&self.text)
            .map_err(|error| {
                let line = error.location().map_or(1, |location| location.line());
                let message = error.without_snippet().to_string();
                (line, message.lines().next().unwrap_or_default().to_owned())
            })?
            .into_iter()
            .map(node)
            .collect();
        let manifest = |root: Node| Manifest { file: self.file.clone(), object: root.value(), root };
        Ok(nodes.into_iter().map(manifest).collect())
    }
}

impl Manifest {
    /// Returns a text at the top of the document.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// Where the document begins.
    pub(super) fn top(&self) -> Place {
        Place { file: self.file.clone(), line: self.root.line, path: String::new() }
    }

    /// Finds the field that a message begins with, as far as it is there. `below` is where the message begins.
    pub(super) fn locate(&self, below: &str, message: &str) -> Place {
        let mut found = Finder { node: &self.root, path: String::new() };
        found.follow(below);
        found.follow(message);
        Place { file: self.file.clone(), line: found.node.line, path: found.path }
    }

    /// Tells whether a message begins with a field that is there.
    pub(super) fn has(&self, below: &str, message: &str) -> bool {
        let mut found = Finder { node: &self.root, path: String::new() };
        found.follow(below);
        let before = found.path.len();
        found.follow(message);
        found.path.len() > before
    }
}

/// Follows a path as people write it: `spec.components[api].helm.values["a.b"]`, items by place or by name.
struct Finder<'a> {
    node: &'a Node,
    path: String,
}

impl<'a> Finder<'a> {
    fn follow(&mut self, path: &str) {
        let mut rest = path.trim_start_matches('"');
        while let Some(next) = self.step(rest) {
            rest = next;
        }
    }

    fn step<'p>(&mut self, rest: &'p str) -> Option<&'p str> {
        let rest = rest.strip_prefix(": ").or_else(|| rest.strip_prefix('.')).unwrap_or(rest);
        let (node, shown, rest) = match rest.strip_prefix('[') {
            Some(inner) => {
                let (key, after) = bracketed(inner)?;
                (self.item(&key)?, rest.get(..rest.len() - after.len())?, after)
            }
            None => {
                let (key, node) = self.field(rest)?;
                (node, key, rest.get(key.len()..)?)
            }
        };
        if !self.path.is_empty() && !shown.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(shown);
        self.node = node;
        Some(rest)
    }

    /// The longest field that a path begins with: names may have dots in them.
    fn field(&self, path: &str) -> Option<(&'a str, &'a Node)> {
        let Content::Map(fields) = &self.node.content else { return None };
        let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
        let fits = |key: &str| !key.is_empty() && path.strip_prefix(key).is_some_and(ends);
        let longest = fields.iter().filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len());
        longest.map(|(key, node)| (key.as_str(), node))
    }

    fn item(&self, key: &str) -> Option<&'a Node> {
        match &self.node.content {
            Content::Map(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            Content::List(items) => {
                let place = || items.get(key.parse::<usize>().ok()?);
                items.iter().find(|item| item.name() == Some(key)).or_else(place)
            }
            Content::Leaf(_) => None,
        }
    }
}

/// Reads `key]` or `"key"]`; gives the key and what follows.
fn bracketed(inner: &str) -> Option<(String, &str)> {
    if !inner.starts_with('"') {
        let (key, after) = inner.split_once(']')?;
        return Some((key.to_owned(), after));
    }
    let mut read = serde_json::Deserializer::from_str(inner).into_iter::<String>();
    let key = read.next()?.ok()?;
    Some((key, inner.get(read.byte_offset()..)?.strip_prefix(']')?))
}

impl Node {
    fn value(&self) -> Value {
        match &self.content {
            Content::Leaf(value) => value.clone(),
            Content::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Content::Map(fields) => Value::Object(
                fields.iter().map(|(key, node)| (key.clone(), node.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// What an item of a list is called.
    fn name(&self) -> Option<&str> {
        let Content::Map(fields) = &self.content else { return None };
        let (_, node) = fields.iter().find(|(key, _)| key == "name")?;
        match &node.content {
            Content::Leaf(Value::String(name)) => Some(name),
            Content::Leaf(_) | Content::List(_) | Content::Map(_) => None,
        }
    }
}

fn node(spanned: Spanned<Content>) -> Node {
    Node { line: spanned.referenced.line(), content: spanned.value }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Content;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("YAML as Kubernetes reads it")
    }

    fn visit_bool<E>(self, yes: bool) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Bool(yes)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Content, E> {
        Ok(Content::Leaf(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Content, E> {
        Ok(Content::Leaf(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Content, E> {
        Ok(Content::Leaf(Number::from_f64(number).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Content, E> {
        Ok(Content::Leaf(text.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Content>>()? {
            list.push(node(item));
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = fields.next_key::<Spanned<String>>()? {
            map.push((key.value, Node { line: key.referenced.line(), content: fields.next_value()? }));
        }
        Ok(Content::Map(map))
    }
}

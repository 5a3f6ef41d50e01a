//! JSON that can be read in one way only: one document, no key twice, bounded in depth.

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Whether `null` may stand for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Read like any other value.
    Kept,
    /// An error: absent and null would otherwise be two ways to say one thing.
    Refused,
}

/// Why a text is not such JSON, for the person who wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotStrict(pub String);

/// A message repeats names from the text; a long one helps nobody.
const MESSAGE_MAX: usize = 256;

/// Reads one document.
///
/// # Errors
/// It is no JSON, not UTF-8, deeper than serde_json's 128 levels, has a key twice, or is followed by something.
pub fn parse(text: &[u8], nulls: Nulls) -> Result<Value, NotStrict> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    let Unique(value) = Unique::deserialize(&mut reader).map_err(said)?;
    reader.end().map_err(said)?;
    if nulls == Nulls::Refused
        && let Some(path) = null(&value, String::new())
    {
        return Err(NotStrict(short(&format!("{path} is null"))));
    }
    Ok(value)
}

/// Reads one document without nulls into a type, which itself says whether unknown fields are an error.
///
/// # Errors
/// As [`parse`], or the value is not of the type.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> Result<T, NotStrict> {
    serde_json::from_value(parse(text, Nulls::Refused)?).map_err(said)
}

fn said(error: serde_json::Error) -> NotStrict {
    NotStrict(short(&error.to_string()))
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect()
}

/// Path of the first null.
fn null(value: &Value, path: String) -> Option<String> {
    match value {
        Value::Null => Some(if path.is_empty() { "the document".to_owned() } else { path }),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| null(item, format!("{path}[{index}]")))
        }
        Value::Object(fields) => fields.iter().find_map(|(key, field)| {
            null(field, if path.is_empty() { key.clone() } else { format!("{path}.{key}") })
        }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// A value of which no object has a key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is none"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format_args!("key {key:?} is there twice")));
            }
            let Unique(value) = fields.next_value()?;
            all.insert(key, value);
        }
        Ok(Value::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(text: &[u8], why: &str) {
        let error = parse(text, Nulls::Refused).expect_err("must be refused").to_string();
        assert!(error.contains(why), "{}: {error}", String::from_utf8_lossy(text));
        assert!(error.len() <= 4 * MESSAGE_MAX);
    }

    #[test]
    fn ordinary_json_reads_as_it_is() {
        let text = br#" {"a": [1, -2, 1.5, true, "x\n", {"b": {}}], "c": "\u00e4"} "#;
        let expected = json!({"a": [1, -2, 1.5, true, "x\n", {"b": {}}], "c": "ä"});
        assert_eq!(parse(text, Nulls::Refused), Ok(expected));
        assert_eq!(parse(b"{\"a\": null}", Nulls::Kept), Ok(json!({"a": null})));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        refused(br#"{"a": 1, "a": 2}"#, "\"a\" is there twice");
        refused(br#"{"x": [{"a": 1, "\u0061": 1}]}"#, "\"a\" is there twice");
        refused(b"{} {}", "trailing characters");
        refused(b"{}x", "trailing characters");
        refused(br#"{"a": {"b": [1, null]}}"#, "a.b[1] is null");
        refused(b"null", "the document is null");
        refused(b"", "EOF");
        refused(b"{\"a\": 1,}", "trailing comma");
        refused(b"{'a': 1}", "key must be a string");
        refused(b"{\"a\": NaN}", "expected value");
        refused(b"{\"a\": 1e999}", "number out of range");
        refused(b"\xef\xbb\xbf{}", "expected value");
        refused(b"{\"a\": \"\xff\"}", "unicode");
        refused(b"{\"a\": \"\\ud800\"}", "hex escape");
        let key = format!("{{\"{0}\": 1, \"{0}\": 1}}", "k".repeat(9_000));
        refused(key.as_bytes(), "kkkk");
    }

    #[test]
    fn a_deep_document_is_refused_and_not_followed_to_its_end() {
        for deep in ["[".repeat(100_000), "{\"a\":".repeat(100_000)] {
            refused(deep.as_bytes(), "recursion limit");
        }
    }
}

//! Values that are not plain JSON strings: environment variables and quantities.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The value of an environment variable: a text, or a key of a shared component's binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub enum EnvValue {
    /// A text, written bare or as `{value}`; a Go template.
    Literal(String),
    /// A key of the binding Secret of a shared component.
    Secret(SecretKeyRef),
}

/// Names a key of the binding of a shared component of the same template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the component in the template, one with a `sharedComponentRef`.
    pub component: String,
    /// Key of its binding Secret.
    pub key: String,
}

/// What may stand in a manifest; `{value}` reads like the bare text, which is what is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Wire {
    Text(String),
    #[serde(rename_all = "camelCase")]
    Secret {
        secret_key_ref: SecretKeyRef,
    },
    Object {
        value: String,
    },
}

impl From<Wire> for EnvValue {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Text(value) | Wire::Object { value } => Self::Literal(value),
            Wire::Secret { secret_key_ref } => Self::Secret(secret_key_ref),
        }
    }
}

impl From<EnvValue> for Wire {
    fn from(value: EnvValue) -> Self {
        match value {
            EnvValue::Literal(text) => Self::Text(text),
            EnvValue::Secret(secret_key_ref) => Self::Secret { secret_key_ref },
        }
    }
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> Self {
        Self::Literal(text.to_owned())
    }
}

impl JsonSchema for EnvValue {
    fn schema_name() -> Cow<'static, str> {
        "EnvValue".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// A structural schema has no "string or object"; so it has no type, and pairs of contradictory bounds, each
    /// of which binds one JSON type only, exclude the numbers, the lists and the booleans.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A bare string, or an object with either `value` (a string) or `secretKeyRef`.",
            "x-kubernetes-preserve-unknown-fields": true,
            "anyOf": [{ "required": ["value"] }, { "required": ["secretKeyRef"] }],
            "maxProperties": 1,
            "maxLength": 32_768,
            "minimum": 1,
            "maximum": 0,
            "minItems": 1,
            "maxItems": 0,
            "not": { "enum": [true, false] },
            "properties": {
                "value": {
                    "description": "The text, a Go template; the same as writing the string alone.",
                    "type": "string",
                    "maxLength": 32_768,
                },
                "secretKeyRef": {
                    "description": "A key of the binding of a shared component of the same template.",
                    "type": "object",
                    "required": ["component", "key"],
                    "properties": {
                        "component": {
                            "description": "Name of the component in the template, one with a `sharedComponentRef`.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 63,
                        },
                        "key": {
                            "description": "Key of its binding Secret.",
                            "type": "string",
                            "minLength": 1,
                            "maxLength": 253,
                        },
                    },
                },
            },
        })
    }
}

/// A Kubernetes quantity; a bare number in a manifest reads like its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl Quantity {
    /// Whether Kubernetes takes it for a quantity: a decimal number with a suffix of either base, or an exponent. The
    /// schema's pattern is looser, as Kubernetes' own is.
    pub fn is_valid(&self) -> bool {
        const SUFFIXES: [&str; 15] =
            ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi"];
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let unsigned = |text: &str| text.strip_prefix(['+', '-']).unwrap_or(text).to_owned();
        let number = unsigned(&self.0);
        let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
        let (number, suffix) = number.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let exponent = suffix.strip_prefix(['e', 'E']).map(unsigned);
        let has_exponent = exponent.is_some_and(|text| !text.is_empty() && digits(&text));
        !(whole.is_empty() && fraction.is_empty())
            && digits(whole)
            && digits(fraction)
            && (SUFFIXES.contains(&suffix) || suffix == "Ei" || has_exponent)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Wire {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(Self(match Wire::deserialize(deserializer)? {
            Wire::Text(text) => text,
            Wire::Number(number) => number.to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_quantity_is_a_number_with_one_suffix_or_an_exponent() {
        let is_valid = |text: &&str| Quantity((*text).to_owned()).is_valid();
        let good = ["1", "0.5", ".5", "5.", "+1", "-1", "100m", "1Gi", "2E", "1e3", "1E-3", "64Ei"];
        assert!(good.iter().all(is_valid));
        let bad = ["", "many", "1.2.3", "1kk", "1e", "1.Gi.", "Gi", "--1", "1 Gi", "1gi", "."];
        assert!(!bad.iter().any(is_valid));
    }

    #[test]
    fn a_text_an_object_and_a_reference_are_read_and_the_text_is_written_bare() {
        let secret = EnvValue::Secret(SecretKeyRef { component: "db".to_owned(), key: "url".to_owned() });
        for (read, value, written) in [
            (json!("x"), EnvValue::from("x"), json!("x")),
            (json!(""), EnvValue::from(""), json!("")),
            (json!({"value": "x"}), EnvValue::from("x"), json!("x")),
            (
                json!({"secretKeyRef": {"component": "db", "key": "url"}}),
                secret,
                json!({"secretKeyRef": {"component": "db", "key": "url"}}),
            ),
        ] {
            let decoded: EnvValue =
                serde_json::from_value(read.clone()).expect("a value that the schema accepts");
            assert_eq!(decoded, value, "{read}");
            assert_eq!(serde_json::to_value(decoded).expect("an encodable value"), written, "{read}");
        }
    }

    #[test]
    fn numbers_lists_and_empty_objects_are_no_values() {
        for bad in
            [json!(5), json!(true), json!([]), json!({}), json!({"value": 5}), json!({"secretKeyRef": {}})]
        {
            assert!(serde_json::from_value::<EnvValue>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_quantity_reads_numbers_and_texts_alike() {
        for (read, text) in [(json!(4), "4"), (json!("500m"), "500m"), (json!(1.5), "1.5")] {
            assert_eq!(serde_json::from_value::<Quantity>(read).expect("a quantity").0, text);
        }
    }
}

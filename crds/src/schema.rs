//! Hand-written pieces of the CRD schemas, and the texts of the rules that several fields share.

use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// A DNS label: what a component, and so a release and a label value, may be called.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A DNS subdomain: what an object may be called; empty where the field may be left empty.
pub const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// As [`DNS_SUBDOMAIN`], or empty, which means the same as absent.
pub const DNS_SUBDOMAIN_OR_EMPTY: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// An argument of git or helm: one line that cannot be taken for an option.
pub const ARGUMENT: &str = r"^([^-\s][^\n\r]*)?$";

/// Refuses what is no Go duration, or negative; empty is the default, zero has a meaning.
pub fn duration_rule() -> Rule {
    Rule::new(
        "self == '' || (self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$') \
               && duration(self) >= duration('0s'))",
    )
    .message("must be a Go duration that is not negative, such as 90s, 30m or 1h30m; 0 means never")
}

/// Refuses what is no Go duration, or not above zero; empty is the default.
pub fn positive_duration_rule() -> Rule {
    Rule::new(
        "self == '' || (self.matches('^[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$') \
               && duration(self) > duration('0s'))",
    )
    .message("must be a Go duration above zero, such as 90s or 15m")
}

/// Arbitrary YAML below an object.
pub fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Helm values as `--set` path to text.
pub fn values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        "additionalProperties": { "type": "string", "maxLength": 131_072 },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, k != '' && !k.startsWith('.') && !k.contains('='))",
            "message": "a key is a path in helm's --set syntax: not empty, no leading dot, no equals sign",
        }],
    })
}

/// Labels of a namespace; Petri's own, and the one that Kubernetes sets, are not for templates.
pub fn namespace_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "type": "string",
            "maxLength": 63,
            "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
        },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, !k.startsWith('petri.run/') && !k.startsWith('app.kubernetes.io/') \
                     && k != 'kubernetes.io/metadata.name')",
            "message": "labels under petri.run/ and app.kubernetes.io/ and kubernetes.io/metadata.name are not for templates",
        }],
    })
}

/// Annotations, on a namespace or a route.
pub fn annotations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 65_536 },
        "x-kubernetes-validations": [{
            "rule": "self.all(k, !k.startsWith('petri.run/'))",
            "message": "annotations under petri.run/ are not for templates",
        }],
    })
}

/// Resource names to quantities.
pub fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 32,
            "pattern": r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
        },
    })
}

/// Keys of a binding Secret to Go templates.
pub fn secret_keys(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": { "type": "string", "maxLength": 65_536 },
        "x-kubernetes-validations": [
            {
                "rule": "self.all(k, k.matches('^[-._a-zA-Z0-9]+$'))",
                "message": "a key of a Secret consists of letters, digits, dots, dashes and underscores",
            },
            {
                "rule": "!('petri.generated-secret' in self)",
                "message": "the key petri.generated-secret is Petri's own",
            },
        ],
    })
}

/// A list of a core type, its docs cut to their first sentence: whole they make the CRD larger than the annotation
/// in which `kubectl apply` keeps what it applied (256 KiB).
pub fn core_list<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = generator.subschema_for::<Vec<T>>();
    if let Some(object) = schema.as_object_mut() {
        object.values_mut().for_each(cut_docs);
    }
    schema
}

fn cut_docs(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(doc)) = object.get_mut("description")
                && let Some(end) = doc.find(". ")
            {
                doc.truncate(end + 1);
            }
            object.values_mut().for_each(cut_docs);
        }
        Value::Array(items) => items.iter_mut().for_each(cut_docs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

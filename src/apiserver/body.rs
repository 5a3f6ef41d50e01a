//! Bodies of requests, read strictly and in bounded time and space.

use crate::apiserver::{error::ApiError, strict};
use axum::{
    body::{Body, to_bytes},
    http::{HeaderMap, header},
};
use petri_crds::{EnvValue, SecretKeyRef, Ttl};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;
use std::{collections::BTreeMap, error::Error, time::Duration};
use tokio::time::timeout;
use utoipa::{
    ToSchema,
    openapi::{RefOr, schema::Schema},
};

/// Longest body.
pub const BODY_MAX: usize = 1 << 20;
/// Longest wait for the whole of a body.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest name of an environment: it becomes part of release names.
pub const NAME_MAX: usize = 63;

/// An environment as it is wanted. A field that is absent stays as it is, a map that is given replaces the old one, and
/// the ttl `""` goes back to the template's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "pr-17", "template": "demo", "ttl": "4h",
    "source": {"repo": "acme/app", "branch": "feature", "sha": "0123abc"}, "values": {"image.tag": "pr-17"}}))]
pub struct Wanted {
    /// Name of the environment: a DNS label.
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    pub name: String,
    /// Name of its template; needed when the environment does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 253,
        pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
    )]
    pub template: Option<String>,
    /// Where it comes from, for people and tools; a field of it that is absent stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub source: Option<WantedSource>,
    /// Helm values for every Helm component, as in `--set`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = values_schema)]
    pub values: Option<BTreeMap<String, String>>,
    /// Environment variables for every Helm component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = variables_schema)]
    pub env: Option<BTreeMap<String, WantedVariable>>,
    /// How long it lives, from its creation: a Go duration such as `90m`; `0` is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 24, pattern = "^(|0|([0-9]{1,5}(s|m|h)){1,3})$")]
    pub ttl: Option<String>,
}

/// Most values, and the longest one: as in the custom resource.
const VALUES_MAX: usize = 256;
const VALUE_MAX: usize = 131_072;
/// Most variables, and the longest one.
const VARIABLES_MAX: usize = 128;
const VARIABLE_MAX: usize = 32_768;

/// What the derive cannot say: names that may be keys.
fn object(schema: serde_json::Value) -> RefOr<Schema> {
    serde_json::from_value(schema).unwrap_or_else(|_| RefOr::T(Schema::default()))
}

fn values_schema() -> RefOr<Schema> {
    object(
        json!({"type": "object", "maxProperties": VALUES_MAX, "propertyNames": {"pattern": "^[^.=][^=]*$"},
        "additionalProperties": {"type": "string", "maxLength": VALUE_MAX}}),
    )
}

fn variables_schema() -> RefOr<Schema> {
    object(json!({"type": "object", "maxProperties": VARIABLES_MAX,
        "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        "additionalProperties": {"$ref": "#/components/schemas/WantedVariable"}}))
}

/// Where an environment comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedSource {
    /// Repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 2048)]
    pub repo: Option<String>,
    /// Branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 256)]
    pub branch: Option<String>,
    /// Commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 128)]
    pub sha: Option<String>,
}

/// The value of a variable: a text, `{"value": …}`, or a key of a shared component's binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum WantedVariable {
    /// A text.
    Text(String),
    /// A text, as an object.
    Value(WantedText),
    /// A reference.
    Reference(WantedReference),
}

/// A text, as an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedText {
    /// The text.
    #[schema(max_length = 32768)]
    pub value: String,
}

/// A reference to a binding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct WantedReference {
    /// Which key of which component.
    pub secret_key_ref: WantedKey,
}

/// Which key of which component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedKey {
    /// Name of a shared component of the template.
    #[schema(min_length = 1, max_length = 63)]
    pub component: String,
    /// Key of its binding.
    #[schema(min_length = 1, max_length = 253)]
    pub key: String,
}

impl From<WantedVariable> for EnvValue {
    fn from(wanted: WantedVariable) -> Self {
        match wanted {
            WantedVariable::Text(value) | WantedVariable::Value(WantedText { value }) => Self::Literal(value),
            WantedVariable::Reference(WantedReference { secret_key_ref: WantedKey { component, key } }) => {
                Self::Secret(SecretKeyRef { component, key })
            }
        }
    }
}

/// A later expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schema(example = json!({"expiresAt": "2030-01-01T12:00:00Z"}))]
pub struct Extension {
    /// When the environment is to expire; later than now planned.
    #[schema(format = DateTime)]
    pub expires_at: String,
}

impl Wanted {
    /// Checks what the cluster's schema would refuse in less helpful words.
    ///
    /// # Errors
    /// Which field, and what it may be.
    pub fn check(&self) -> Result<(), ApiError> {
        check_name(&self.name)?;
        if self.template.as_ref().is_some_and(|template| !is_subdomain(template)) {
            return Err(ApiError::invalid("template: must be the name of a template"));
        }
        if let Some(ttl) = &self.ttl
            && (ttl.len() > 64 || Ttl::parse(ttl).is_err())
        {
            return Err(ApiError::invalid("ttl: must be a Go duration such as 90m or 48h, 0, or empty"));
        }
        let source = self.source.clone().unwrap_or_default();
        for (name, text, max) in
            [("repo", source.repo, 2048), ("branch", source.branch, 256), ("sha", source.sha, 128)]
        {
            if text.is_some_and(|text| text.chars().count() > max) {
                return Err(ApiError::invalid(format!("source.{name}: must have at most {max} characters")));
            }
        }
        self.check_values()?;
        self.check_variables()
    }

    fn check_values(&self) -> Result<(), ApiError> {
        let values = self.values.iter().flatten();
        if self.values.as_ref().is_some_and(|values| values.len() > VALUES_MAX) {
            return Err(ApiError::invalid(format!("values: at most {VALUES_MAX}")));
        }
        for (path, value) in values {
            if path.is_empty() || path.starts_with('.') || path.contains('=') {
                let why = "values: a key is a path as in --set: not empty, no leading dot, no equals sign";
                return Err(ApiError::invalid(why));
            }
            if value.chars().count() > VALUE_MAX {
                return Err(ApiError::invalid(format!("values: a value has at most {VALUE_MAX} characters")));
            }
        }
        Ok(())
    }

    fn check_variables(&self) -> Result<(), ApiError> {
        if self.env.as_ref().is_some_and(|env| env.len() > VARIABLES_MAX) {
            return Err(ApiError::invalid(format!("env: at most {VARIABLES_MAX}")));
        }
        for (name, value) in self.env.iter().flatten() {
            let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(inner) {
                return Err(ApiError::invalid("env: a name has letters, digits and _, and no digit first"));
            }
            let fits = |text: &str, max| (1..=max).contains(&text.chars().count());
            let good = match value {
                WantedVariable::Text(value) | WantedVariable::Value(WantedText { value }) => {
                    value.chars().count() <= VARIABLE_MAX
                }
                WantedVariable::Reference(WantedReference {
                    secret_key_ref: WantedKey { component, key },
                }) => fits(component, 63) && fits(key, 253),
            };
            if !good {
                return Err(ApiError::invalid(format!("env.{name}: is too long, or refers to nothing")));
            }
        }
        Ok(())
    }
}

/// Checks the name of an environment.
///
/// # Errors
/// What it may be.
pub fn check_name(name: &str) -> Result<(), ApiError> {
    if is_label(name) {
        return Ok(());
    }
    let what = "1 to 63 lower-case letters, digits and -, which is at neither end";
    Err(ApiError::invalid(format!("name: must be {what}")))
}

fn is_label(text: &str) -> bool {
    text.len() <= NAME_MAX && is_part(text)
}

/// Kubernetes bounds the whole of an object's name, and none of its parts.
fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.chars().all(inner)
}

/// Reads a body of JSON.
///
/// # Errors
/// It is of another kind, too long, too slow, cut off, or not what the type says.
pub async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or_default());
    let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    if essence.is_some_and(|essence| essence != "application/json") {
        return Err(ApiError::media_type());
    }
    let read = timeout(BODY_TIME_MAX, to_bytes(body, BODY_MAX)).await.map_err(|_| ApiError::too_slow())?;
    let bytes = read.map_err(|error| {
        let too_long = error.source().is_some_and(|cause| cause.to_string().contains("length limit"));
        if too_long { ApiError::too_large() } else { ApiError::invalid("the body did not arrive whole") }
    })?;
    strict::decode(&bytes).map_err(|error| ApiError::invalid(error.to_string()))
}

/// Refuses a body where none is wanted.
///
/// # Errors
/// There is one.
pub async fn none(body: Body) -> Result<(), ApiError> {
    match timeout(BODY_TIME_MAX, to_bytes(body, 2)).await {
        Err(_) => Err(ApiError::too_slow()),
        Ok(Ok(bytes)) if bytes.is_empty() || bytes.as_ref() == b"{}" => Ok(()),
        Ok(_) => Err(ApiError::invalid("this request has no body")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_may_have_any_name_that_an_object_may_have() {
        let long = format!("0.{}", "a".repeat(251));
        for good in ["a", "demo", "a.b-c.d", &"a".repeat(253), &long] {
            assert!(is_subdomain(good), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "A", "a_b", "-a", "a.-b", "a/b", &"a".repeat(254)] {
            assert!(!is_subdomain(bad), "{bad}");
        }
        assert!(is_label(&"a".repeat(63)) && !is_label(&"a".repeat(64)) && !is_label("a.b"));
    }
}

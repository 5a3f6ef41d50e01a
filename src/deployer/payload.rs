//! What one deployer Job is told: the JSON that the operator writes and the deployer reads.

use serde::{Deserialize, Serialize};

mod transport;

pub use transport::Transport;

/// Where the operator mounts the Secret named by `credentialsSecretRef` in the deployer's pod.
pub const CREDENTIALS_DIR: &str = "/etc/petri/credentials";

/// Helm's own bound on the length of a release name.
const RELEASE_NAME_MAX: usize = 53;
const LABEL_MAX: usize = 63;

/// Carries one operation on one release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    /// UID of the custom resource that owns the release.
    #[serde(rename = "OwnerUID")]
    pub owner_uid: String,
    /// Workload namespace.
    #[serde(rename = "Namespace")]
    pub namespace: String,
    /// Helm's name for the release.
    #[serde(rename = "ReleaseName")]
    pub release_name: String,
    /// Number of the attempt; it only grows.
    #[serde(rename = "Serial")]
    pub serial: u64,
    /// What to deploy.
    #[serde(rename = "Component")]
    pub component: ComponentPayload,
}

/// Carries the component: its chart and its values, merged and rendered by the operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentPayload {
    /// Name of the component.
    pub name: String,
    /// The chart; an undeploy does not look at it.
    #[serde(default)]
    pub helm: HelmSource,
    /// Final values, over the chart's defaults and `valuesFile`.
    #[serde(default)]
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// Says where the chart comes from; see [`HelmSource::chart_source`] for the combinations that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HelmSource {
    /// A chart inside the deployer's image or a mounted volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A chart inside a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// URL of a chart repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Name of the chart in `repo`, or an `oci://` reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Version of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// A values file inside the chart source, below the payload's own values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values_file: Option<String>,
    /// Whether an OCI registry is asked over HTTP.
    #[serde(default, rename = "plainHTTP", skip_serializing_if = "std::ops::Not::not")]
    pub plain_http: bool,
    /// Secret with the source's credentials, mounted at [`CREDENTIALS_DIR`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretRef>,
}

/// Names a chart in a git repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct GitSource {
    /// URL of the repository.
    pub repo: String,
    /// Directory of the chart in the repository.
    pub path: String,
    /// Branch, tag or commit.
    #[serde(rename = "ref", default = "main")]
    pub reference: String,
    /// What is taken when `ref` does not exist.
    #[serde(default = "main")]
    pub fallback_ref: String,
}

/// Names a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
}

/// Holds the one chart source of a [`HelmSource`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartSource<'a> {
    /// A chart on this file system.
    Path(&'a str),
    /// A chart in a git repository.
    Git(&'a GitSource),
    /// A chart in a chart repository.
    Repository {
        /// URL of the repository.
        repo: &'a str,
        /// Name of the chart.
        chart: &'a str,
        /// Version of the chart.
        version: &'a str,
    },
    /// A chart in an OCI registry.
    Oci {
        /// Reference, with `oci://`.
        chart: &'a str,
        /// Version of the chart; absent when the reference ends in a digest.
        version: Option<&'a str>,
    },
}

/// Says why a payload was refused. No text of it holds a value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PayloadError {
    /// The text is not the JSON of a payload.
    #[error("the payload cannot be read: {0}")]
    Decode(String),
    /// A name could not be one, or could be taken for something else.
    #[error("{field} {value:?} is not valid: {rule}")]
    Field {
        /// Path of the field.
        field: &'static str,
        /// What stands there; never a credential or a chart value.
        value: String,
        /// What is allowed.
        rule: &'static str,
    },
    /// There is no chart source, or more than one.
    #[error(
        "exactly one chart source is needed (path, git, repo with chart and version, oci chart), found {0}"
    )]
    Source(String),
}

fn main() -> String {
    "main".to_owned()
}

impl Payload {
    /// Decodes and checks the names of a payload. The chart source is checked by
    /// [`HelmSource::chart_source`].
    ///
    /// # Errors
    /// An unknown, missing or doubled field, a wrong type, or a name that is not one.
    pub fn decode(text: &str) -> Result<Self, PayloadError> {
        let payload: Self =
            serde_json::from_str(text).map_err(|error| PayloadError::Decode(masked(&error)))?;
        label("Namespace", &payload.namespace, LABEL_MAX)?;
        label("ReleaseName", &payload.release_name, RELEASE_NAME_MAX)?;
        label("Component.name", &payload.component.name, LABEL_MAX)?;
        if payload.owner_uid.is_empty() || payload.owner_uid.len() > LABEL_MAX {
            let rule = "one to 63 characters";
            return Err(PayloadError::Field { field: "OwnerUID", value: payload.owner_uid, rule });
        }
        Ok(payload)
    }
}

impl HelmSource {
    /// Gives the URL whose host the credentials are for; a path has none, and an ssh key is no login.
    pub fn web(&self) -> Option<&str> {
        let repo = self.git.as_ref().map(|git| git.repo.as_str()).or(self.repo.as_deref());
        repo.or(self.chart.as_deref())
            .filter(|url| ["https://", "http://", "oci://"].iter().any(|scheme| url.starts_with(scheme)))
    }

    /// Gives the one chart source.
    ///
    /// # Errors
    /// None or several are set, a part is missing, or a part could be read as an option of a program.
    pub fn chart_source(&self) -> Result<ChartSource<'_>, PayloadError> {
        let oci = self.chart.as_deref().filter(|chart| chart.starts_with("oci://"));
        let found = [
            ("path", self.path.is_some()),
            ("git", self.git.is_some()),
            ("repo", self.repo.is_some()),
            ("chart", self.repo.is_none() && self.chart.is_some()),
        ];
        let found: Vec<&str> = found.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        let [_one] = found.as_slice() else {
            return Err(PayloadError::Source(if found.is_empty() {
                "none".into()
            } else {
                found.join(", ")
            }));
        };
        if let Some(path) = &self.path {
            return Ok(ChartSource::Path(plain("helm.path", path)?));
        }
        if let Some(git) = &self.git {
            plain("helm.git.repo", &git.repo)?;
            if Transport::of(&git.repo).is_none() {
                let value = if git.repo.contains('@') { "(masked)" } else { git.repo.as_str() };
                let (field, value) = ("helm.git.repo", value.to_owned());
                return Err(PayloadError::Field { field, value, rule: Transport::RULE });
            }
            plain("helm.git.path", &git.path)?;
            plain("helm.git.ref", &git.reference)?;
            plain("helm.git.fallbackRef", &git.fallback_ref)?;
            return Ok(ChartSource::Git(git));
        }
        let version = self.version.as_deref().map(|version| plain("helm.version", version)).transpose()?;
        if let (Some(chart), None) = (oci, &self.repo) {
            return Ok(ChartSource::Oci { chart: plain("helm.chart", chart)?, version });
        }
        match (self.repo.as_deref(), self.chart.as_deref(), version) {
            (Some(repo), Some(chart), Some(version)) => Ok(ChartSource::Repository {
                repo: web("helm.repo", repo)?,
                chart: plain("helm.chart", chart)?,
                version,
            }),
            (Some(_), None, _) => Err(PayloadError::Source("repo without chart".into())),
            (Some(_), Some(_), None) => Err(PayloadError::Source("repo and chart without version".into())),
            (None, ..) => Err(PayloadError::Source("chart without repo that is not oci://".into())),
        }
    }
}

/// serde quotes a value of the wrong type; the position is all that is needed, and values may be secret.
fn masked(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let known = ["unknown field", "missing field", "duplicate field"];
    if known.iter().any(|start| text.starts_with(start)) {
        return text;
    }
    let what = if error.is_data() { "a value of the wrong type" } else { "not valid JSON" };
    format!("{what} at line {} column {}", error.line(), error.column())
}

/// Checks an RFC 1123 label: it can be no option, no path and no selector.
fn label(field: &'static str, value: &str, max: usize) -> Result<(), PayloadError> {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !value.is_empty()
        && value.len() <= max
        && value.chars().all(inner)
        && !value.starts_with('-')
        && !value.ends_with('-');
    let rule = "lower case letters, digits and inner hyphens, of bounded length";
    if good { Ok(()) } else { Err(PayloadError::Field { field, value: value.to_owned(), rule }) }
}

/// Checks a word that becomes one argument of a program: not empty, no leading hyphen, no control character.
fn plain<'a>(field: &'static str, value: &'a str) -> Result<&'a str, PayloadError> {
    if value.trim().is_empty() || value.starts_with('-') || value.chars().any(char::is_control) {
        let rule = "not empty, no leading hyphen, no control character";
        return Err(PayloadError::Field { field, value: value.to_owned(), rule });
    }
    Ok(value)
}

/// Checks the URL of a chart repository: helm would read `file://` and plugin schemes too.
pub(super) fn web<'a>(field: &'static str, value: &'a str) -> Result<&'a str, PayloadError> {
    plain(field, value)?;
    let has_login =
        value.split("://").nth(1).and_then(|rest| rest.split('/').next()).is_some_and(|h| h.contains('@'));
    if has_login || !(value.starts_with("https://") || value.starts_with("http://")) {
        let rule = "an http or https URL without a login in it";
        let value = if has_login { "(masked)".to_owned() } else { value.to_owned() };
        return Err(PayloadError::Field { field, value, rule });
    }
    Ok(value)
}

#[cfg(test)]
mod tests;

//! Where a chart comes from and with which values: shared by templates and providers.

use crate::schema::{self, ARGUMENT, DNS_SUBDOMAIN};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A Helm chart and its values. Exactly one source: `path`, `git`, `repo` with `chart`, or `chart: oci://…`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("[has(self.path) && self.path != '', has(self.git), has(self.chart) && self.chart != ''].filter(x, x).size() == 1")
        .message("exactly one chart source is needed: path, git, repo with chart, or an oci:// chart"),
    validation = Rule::new("!has(self.repo) || self.repo == '' || (has(self.chart) && self.chart != '')")
        .message("repo needs chart: the name of the chart in that repository"),
    validation = Rule::new("!has(self.chart) || self.chart == '' || self.chart.startsWith('oci://') != (has(self.repo) && self.repo != '')")
        .message("chart is either a name in repo, or an oci:// reference without repo"),
)]
pub struct Helm {
    /// Directory or archive inside the deployer image or a volume mounted into it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), regex(pattern = ARGUMENT))]
    pub path: String,

    /// A directory of a git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,

    /// URL of a chart repository (http or https); needs `chart`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048), regex(pattern = ARGUMENT))]
    pub repo: String,

    /// Name of the chart in `repo`, or an `oci://` reference.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048), regex(pattern = ARGUMENT))]
    pub chart: String,

    /// Version of `chart`. An exact version lets an unchanged component pass a rollout at once; a range or nothing
    /// (the newest) does not. Ignored with `path` and `git`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128), regex(pattern = ARGUMENT))]
    pub version: String,

    /// Values as in `--set`: the key is a path (`image.tag`, `hosts[0].name`), the value a Go template whose result
    /// is data, never syntax. `true`, `false`, `null` and plain integers become typed, all else stays a string.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::values")]
    pub values: BTreeMap<String, String>,

    /// Values as YAML; every string in it is a Go template. `values` and the environment's values win over it.
    /// `kubectl apply` drops a null on its way: to take away a default of the chart, write `null` in `values`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "schema::free_object")]
    pub values_object: Map<String, Value>,

    /// A values file inside the chart source, relative to it; everything else wins over it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024), regex(pattern = ARGUMENT))]
    #[x_kube(
        validation = Rule::new("!self.startsWith('/') && !('..' in self.split('/'))")
            .message("must be a file inside the chart source: no leading slash, no .. step")
    )]
    pub values_file: String,

    /// Talks to an OCI registry by plain HTTP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[serde(rename = "plainHTTP")]
    pub plain_http: bool,

    /// Credentials for the chart source: one of the template's `secrets`, with the keys `username`, `password`,
    /// `token`, `ssh-privatekey`, `known_hosts`, `ca.crt` or `.dockerconfigjson`. Mounted into the deployer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretName>,

    /// Where in the values the list of environment variables goes, as a dotted path; `extraEnvVars` when empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = r"^([A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)?$"))]
    pub extra_env_vars_path: String,
}

/// A chart in a directory of a git repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    /// URL of the repository: https, http or ssh.
    #[schemars(length(min = 1, max = 2048), regex(pattern = ARGUMENT))]
    pub repo: String,

    /// Directory of the chart, relative to the root of the repository.
    #[schemars(length(max = 1024), regex(pattern = ARGUMENT))]
    #[x_kube(
        validation = Rule::new("!self.startsWith('/') && !('..' in self.split('/'))")
            .message("must be a directory inside the repository: no leading slash, no .. step")
    )]
    pub path: String,

    /// Branch, tag or commit. A full commit SHA lets an unchanged component pass a rollout at once.
    #[serde(rename = "ref", default = "main", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = ARGUMENT))]
    pub reference: String,

    /// Branch, tag or commit to use when `ref` does not exist.
    #[serde(default = "main", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253), regex(pattern = ARGUMENT))]
    pub fallback_ref: String,
}

fn main() -> String {
    "main".to_owned()
}

/// Names a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretName {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,
}

/// Where a chart comes from, read from a [`Helm`] that the rules accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChartSource<'a> {
    /// A path the deployer can see.
    Path(&'a str),
    /// A directory of a git repository.
    Git(&'a GitSource),
    /// A chart of a chart repository; an empty version is the newest.
    Repository { repo: &'a str, chart: &'a str, version: &'a str },
    /// A chart of an OCI registry; an empty version is the newest.
    Oci { chart: &'a str, version: &'a str },
}

impl Helm {
    /// The one chart source; `None` when there is none, several, or half of one.
    #[must_use]
    pub fn source(&self) -> Option<ChartSource<'_>> {
        match (self.path.as_str(), &self.git, self.repo.as_str(), self.chart.as_str()) {
            ("", None, "", chart) if chart.starts_with("oci://") => {
                Some(ChartSource::Oci { chart, version: &self.version })
            }
            ("", None, repo, chart)
                if !repo.is_empty() && !chart.is_empty() && !chart.starts_with("oci://") =>
            {
                Some(ChartSource::Repository { repo, chart, version: &self.version })
            }
            ("", Some(git), "", "") => Some(ChartSource::Git(git)),
            (path, None, "", "") if !path.is_empty() => Some(ChartSource::Path(path)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chart_has_one_source_or_none() {
        for (helm, found) in [
            (json!({"path": "/charts/api"}), "Path"),
            (json!({"git": {"repo": "https://git.example/x", "path": "chart"}}), "Git"),
            (json!({"repo": "https://charts.example", "chart": "api", "version": "1.0.0"}), "Repository"),
            (json!({"chart": "oci://registry.example/api", "version": "1.0.0"}), "Oci"),
            (json!({}), "None"),
            (json!({"chart": "api"}), "None"),
            (json!({"repo": "https://charts.example"}), "None"),
            (json!({"repo": "https://charts.example", "chart": "oci://registry.example/api"}), "None"),
            (json!({"path": "/charts/api", "chart": "oci://registry.example/api"}), "None"),
        ] {
            let decoded: Helm = serde_json::from_value(helm.clone()).expect("a helm block");
            let name = decoded.source().map_or_else(|| "None".to_owned(), |source| format!("{source:?}"));
            assert!(name.starts_with(found), "{helm}: {name}");
        }
    }

    #[test]
    fn ref_and_fallback_are_main_unless_said() {
        let git: GitSource = serde_json::from_value(json!({"repo": "r", "path": "p"})).expect("a git source");
        assert_eq!((git.reference.as_str(), git.fallback_ref.as_str()), ("main", "main"));
    }
}

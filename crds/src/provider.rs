//! SharedComponentProvider: how a shared component is deployed and how a consumer gets and loses its slice.

use crate::helm::Helm;
use crate::schema::{self, DNS_SUBDOMAIN};
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The shared workload, and the scripts that serve a consumer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "core.petri.run",
    version = "v1alpha1",
    kind = "SharedComponentProvider",
    namespaced,
    status = "SharedComponentProviderStatus",
    shortname = "shcp",
    category = "petri",
    derive = "PartialEq",
    derive = "Default",
    doc = "How shared components of a kind are made: the chart of the shared workload, its secret, and the scripts that provision and deprovision a consumer.",
    printcolumn = r#"{"name":"Accepted","type":"string","jsonPath":".status.conditions[?(@.type=='Accepted')].status"}"#,
    printcolumn = r#"{"name":"Instance-Secret","type":"string","jsonPath":".spec.instanceSecret.name"}"#,
    printcolumn = r#"{"name":"Provision","type":"string","jsonPath":".spec.provision.image"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SharedComponentProviderSpec {
    /// Chart of the shared workload; its values may use `.Instance.<KEY>` and `.Shared.<NAME>`. Without it no shared component of this
    /// provider becomes ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm: Option<Helm>,

    /// A Secret of the shared workload, made before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_secret: Option<InstanceSecret>,

    /// The Job that makes a consumer's slice. Without it a consumer is ready at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<JobScript>,

    /// The Job that takes a consumer's slice away; rendered and kept before `provision` runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprovision: Option<JobScript>,

    /// What a consumer gets to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
}

/// A Secret beside the shared workload, readable as `.Instance.<KEY>` in the provider's templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSecret {
    /// Name of the Secret in the shared namespace. Each shared component has its own: the first one of the provider
    /// this, the others `<name>-<shared component>`, readable as `.Shared.Secret`.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Its keys, each with a fixed or a generated value.
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(
        validation = Rule::new("self.all(k, k.matches('^[-._a-zA-Z0-9]+$'))")
            .message("a key of a Secret consists of letters, digits, dots, dashes and underscores")
    )]
    pub keys: BTreeMap<String, InstanceKey>,
}

/// One key of the instance secret: fixed or generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.value) != has(self.generate)")
        .message("exactly one of value and generate is needed"),
)]
pub struct InstanceKey {
    /// A fixed value. A change reaches the shared workload and new consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 65_536))]
    pub value: Option<String>,

    /// A random value, generated once; it never rotates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate: Option<Generate>,
}

/// How a random value is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Generate {
    /// Number of characters; 0 means 24.
    #[serde(default = "default_length")]
    #[schemars(range(min = 0, max = 1024))]
    pub length: i32,

    /// The characters; letters and digits need no quoting in a connection string.
    #[serde(default)]
    pub charset: Charset,
}

impl Default for Generate {
    fn default() -> Self {
        Self { length: default_length(), charset: Charset::default() }
    }
}

const fn default_length() -> i32 {
    24
}

/// The characters of a random value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Charset {
    #[default]
    Alphanumeric,
    Hex,
}

/// A Job in the shared namespace. Texts are Go templates; where the script names the provider's instance secret, it
/// reads that of its own shared component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.script) && self.script != '') != (has(self.command) && self.command.size() > 0)")
        .message("exactly one of script and command is needed"),
    validation = Rule::new("!has(self.volumeMounts) || sets.contains(has(self.volumes) ? self.volumes.map(v, v.name) : [], self.volumeMounts.map(m, m.name))")
        .message("volumeMounts names a volume that is not in volumes"),
)]
pub struct JobScript {
    /// Image that the Job runs.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,

    /// A script, run by `/bin/sh -c`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 65_536))]
    pub script: String,

    /// A command with its arguments, for images without a shell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 32_768)))]
    pub command: Vec<String>,

    /// Environment variables, besides `PETRI_ENV_NAME` and `PETRI_GENERATED_SECRET`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::core_list::<EnvVar>", length(max = 128))]
    pub env: Vec<EnvVar>,

    /// ConfigMaps and Secrets of the shared namespace whose keys become environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::core_list::<EnvFromSource>", length(max = 32))]
    pub env_from: Vec<EnvFromSource>,

    /// Volumes of the pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::core_list::<Volume>", length(max = 32))]
    pub volumes: Vec<Volume>,

    /// Where the container sees the volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::core_list::<VolumeMount>", length(max = 32))]
    pub volume_mounts: Vec<VolumeMount>,
}

/// What a consumer gets to know of its slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// Keys of the binding Secret in the consumer's namespace, with Go templates for their values
    /// (`.Env.Slug`, `.Env.GeneratedSecret`, `.Instance.<KEY>`, `.Shared.Name`, `.Shared.Namespace`). Rendered once.
    #[schemars(schema_with = "schema::secret_keys")]
    pub secret_keys: BTreeMap<String, String>,
}

/// What Petri thinks of the provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedComponentProviderStatus {
    /// `Accepted` says whether the provider is valid, before anybody uses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Fields of a newer version, kept as they are when the status is written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

//! SharedComponent: one workload that many environments use a slice of.

use crate::environment::Phase;
use crate::schema::{self, DNS_SUBDOMAIN};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Which provider makes it, and for how many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    group = "core.petri.run",
    version = "v1alpha1",
    kind = "SharedComponent",
    namespaced,
    status = "SharedComponentStatus",
    shortname = "shc",
    category = "petri",
    derive = "PartialEq",
    derive = "Default",
    doc = "A workload that many environments share: it is deployed once, and each environment that uses it gets a slice provisioned and, at its end, deprovisioned.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Consumers","type":"integer","jsonPath":".status.consumers"}"#,
    printcolumn = r#"{"name":"Max","type":"integer","jsonPath":".spec.maxConsumers"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Provider","type":"string","jsonPath":".spec.provider","priority":1}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].reason","priority":1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct SharedComponentSpec {
    /// Name of the SharedComponentProvider, in the same namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub provider: String,

    /// How many consumers there may be at a time; 0 means any number. Lowering it evicts nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub max_consumers: Option<i32>,

    /// How long there must have been no consumer until the workload is undeployed: a Go duration. Its instance
    /// secret stays, and the next consumer brings it back. Empty or `0` means never.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(validation = schema::duration_rule())]
    pub idle_cleanup: String,
}

impl SharedComponentSpec {
    /// The capacity; `None` for unlimited.
    #[must_use]
    pub fn capacity(&self) -> Option<u32> {
        self.max_consumers.and_then(|max| u32::try_from(max).ok()).filter(|max| *max > 0)
    }
}

/// What Petri has done and who uses it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedComponentStatus {
    /// Summary of where the shared component is; the conditions say more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Phase")]
    pub phase: Option<Phase>,

    /// The state in the standard form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// Whether consumers can be provisioned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,

    /// Number of consumers that hold a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumers: Option<i32>,

    /// Who holds a slot. A registration is a write of this list that nobody else overtook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["uid".into(), "component".into()]))]
    pub consumer_refs: Vec<ConsumerRef>,

    /// Consumers whose deprovision was given up; each keeps its slot until `petri.run/forget: <uid>` is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10_000))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["uid".into(), "component".into()]))]
    pub abandoned: Vec<AbandonedConsumer>,

    /// The `metadata.generation` that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Version of the stored record in `machine`; an operator that is older than it leaves the object alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_state_version: Option<i64>,

    /// The operator's own record of its decisions; not for other readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub machine: Option<Value>,

    /// Fields of a newer version, kept as they are when the status is written back.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

/// An environment that holds a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerRef {
    /// UID of the environment.
    #[schemars(length(max = 64))]
    pub uid: String,

    /// Name of the environment.
    #[schemars(length(max = 253))]
    pub environment: String,

    /// Name of the component in its template.
    #[schemars(length(max = 63))]
    pub component: String,

    /// When it was registered.
    pub since: Time,
}

/// An environment that is gone without having been deprovisioned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct AbandonedConsumer {
    /// UID of the environment.
    #[schemars(length(max = 64))]
    pub uid: String,

    /// Name of the environment.
    #[schemars(length(max = 253))]
    pub environment: String,

    /// Name of the component in its template.
    #[schemars(length(max = 63))]
    pub component: String,

    /// When the deprovision was given up.
    pub at: Time,

    /// Why it failed.
    #[schemars(length(max = 1024))]
    pub reason: String,
}

//! One write with its preconditions, as data.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{LimitRange, Namespace, ResourceQuota, Secret, ServiceAccount},
    networking::v1::{Ingress, NetworkPolicy},
    rbac::v1::RoleBinding,
};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use petri_crds::{EphemeralEnvironment, SharedComponent, SharedComponentProvider};
use petri_machines::{
    environment::NamespaceRef,
    names::{ComponentName, JobName, Uid},
};
use serde::Serialize;

/// The kinds that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Resource {
    /// v1 Namespace.
    Namespace,
    /// rbac.authorization.k8s.io/v1 RoleBinding.
    RoleBinding,
    /// v1 ServiceAccount.
    ServiceAccount,
    /// v1 Secret.
    Secret,
    /// batch/v1 Job.
    Job,
    /// v1 ResourceQuota.
    ResourceQuota,
    /// v1 LimitRange.
    LimitRange,
    /// networking.k8s.io/v1 NetworkPolicy.
    NetworkPolicy,
    /// networking.k8s.io/v1 Ingress.
    Ingress,
    /// gateway.networking.k8s.io/v1 HTTPRoute; the cluster may not have it.
    HttpRoute,
    /// The own kind.
    Environment,
    /// The shared component of an environment, or the own kind.
    SharedComponent,
    /// The provider of a shared component.
    Provider,
}

impl Resource {
    /// Returns what an API client must know of the kind.
    pub fn api(self) -> ApiResource {
        match self {
            Self::Namespace => ApiResource::erase::<Namespace>(&()),
            Self::RoleBinding => ApiResource::erase::<RoleBinding>(&()),
            Self::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
            Self::Secret => ApiResource::erase::<Secret>(&()),
            Self::Job => ApiResource::erase::<Job>(&()),
            Self::ResourceQuota => ApiResource::erase::<ResourceQuota>(&()),
            Self::LimitRange => ApiResource::erase::<LimitRange>(&()),
            Self::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
            Self::Ingress => ApiResource::erase::<Ingress>(&()),
            Self::HttpRoute => {
                ApiResource::from_gvk(&GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "HTTPRoute"))
            }
            Self::Environment => ApiResource::erase::<EphemeralEnvironment>(&()),
            Self::SharedComponent => ApiResource::erase::<SharedComponent>(&()),
            Self::Provider => ApiResource::erase::<SharedComponentProvider>(&()),
        }
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Its kind.
    pub resource: Resource,
    /// Its namespace; none for a Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// The namespace that must still be the environment's own before anything is written into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NamespaceGuard {
    /// Name and UID.
    pub namespace: NamespaceRef,
    /// What its label must say.
    pub environment: Uid,
    /// Whether it must not be terminating: nothing can be created in one that is.
    pub alive: bool,
}

/// A right that a create gives; remembered, because the operator may not read RoleBindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Right {
    /// The operator's own.
    Operator,
    /// The deployer's ServiceAccount.
    Account,
    /// The deployer's.
    Deployer,
}

/// How a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Merge {
    /// RFC 7386: lists are replaced.
    Json,
    /// As the kind says: lists of named things are merged by name.
    Strategic,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Write {
    /// Creates; a name that is taken is read back.
    Create {
        /// Where.
        target: Target,
        /// What.
        object: Box<DynamicObject>,
    },
    /// Creates, or replaces what this environment made, as it was read a moment before.
    Upsert {
        /// Where.
        target: Target,
        /// What.
        object: Box<DynamicObject>,
    },
    /// Replaces an object that is still as it was read: the object names its UID and resourceVersion.
    Replace {
        /// Which.
        target: Target,
        /// The whole of it.
        object: Box<DynamicObject>,
    },
    /// Replaces the status of an object that is still as it was read.
    Status {
        /// Which.
        target: Target,
        /// The whole of it.
        object: Box<DynamicObject>,
    },
    /// Changes a part of an object that is not Petri's alone.
    Patch {
        /// Which.
        target: Target,
        /// How.
        merge: Merge,
        /// What; names the UID where there must be no doubt.
        body: serde_json::Value,
    },
    /// Deletes exactly this object.
    Delete {
        /// Which.
        target: Target,
        /// Its identity, a precondition.
        uid: Uid,
        /// Its version, a precondition where a change must win over the deletion.
        #[serde(skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
        /// Whether it stays until what it owns is gone.
        foreground: bool,
    },
    /// Replaces the list of finalizers of an object that is still as it was read.
    Finalizers {
        /// Which.
        target: Target,
        /// Its identity, a precondition.
        uid: Uid,
        /// Its version, a precondition.
        resource_version: String,
        /// The whole list.
        finalizers: Vec<String>,
    },
}

/// A Job that must be the only one of its component that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alone {
    /// Where it is.
    pub namespace: String,
    /// The UID of the owner.
    pub owner: Uid,
    /// The component.
    pub component: ComponentName,
    /// The Job that is to be created.
    pub job: JobName,
}

/// One write with what must hold before it and what it brings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// Checked by a live read directly before the write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<NamespaceGuard>,
    /// Checked by a live list directly before the write: the cache that the decision rests on may be behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alone: Option<Alone>,
    /// The write.
    pub write: Write,
    /// What it gives, if it gives a right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<Right>,
}

//! One write with its preconditions, as data.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace, Secret, ServiceAccount},
    rbac::v1::RoleBinding,
};
use kube::core::{ApiResource, DynamicObject};
use petri_crds::EphemeralEnvironment;
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
    /// The own kind.
    Environment,
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
            Self::Environment => ApiResource::erase::<EphemeralEnvironment>(&()),
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

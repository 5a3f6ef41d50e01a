//! What an environment wants done.

use super::furniture::FurnitureId;
use crate::{
    component,
    names::{ComponentName, Digest, JobName, NamespaceName, Uid},
    slice::{self, Fence},
};
use serde::{Deserialize, Serialize};

/// One namespace, not just whatever bears its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRef {
    /// Its name.
    pub name: NamespaceName,
    /// Its UID; every write into it is preceded by a check on this.
    pub uid: Uid,
}

/// A desired fact: one API write, safe to apply again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Petri's finalizer on the own object, before anything is made.
    AddFinalizer,
    /// The workload namespace, with both labels.
    CreateNamespace {
        /// Its committed name.
        name: NamespaceName,
    },
    /// The RoleBinding that lets the operator work in the namespace.
    BindOperator(NamespaceRef),
    /// The deployer's ServiceAccount.
    CreateDeployerAccount(NamespaceRef),
    /// The RoleBinding that lets the deployer work in the namespace.
    BindDeployer(NamespaceRef),
    /// The immutable Secret that a deploy Job reads.
    CreatePayload {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
    },
    /// A deploy Job.
    CreateJob {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
    },
    /// One piece of furniture, as the plan has it.
    Furnish {
        /// Where.
        namespace: NamespaceRef,
        /// Which.
        item: FurnitureId,
        /// What it is made from.
        digest: Digest,
    },
    /// What brings a slice of a shared component.
    Share(Sharing),
    /// Anything that removes: all that is reachable once deletion was seen.
    Cleanup(Cleanup),
}

/// The commands of leaving. Nothing here deploys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cleanup {
    /// The own object goes, unless it changed since it was read.
    DeleteSelf,
    /// A payload Secret whose Job is replaced.
    DeletePayload {
        /// Where.
        namespace: NamespaceRef,
        /// Its name.
        name: JobName,
        /// Its UID.
        uid: Uid,
    },
    /// A Job with its pods, in the foreground.
    DeleteJob {
        /// Where.
        namespace: NamespaceRef,
        /// Its name.
        name: JobName,
        /// Its UID.
        uid: Uid,
    },
    /// An undeploy Job.
    CreateUndeployJob {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
    },
    /// One piece of furniture that is not wanted any more.
    Unfurnish {
        /// Where.
        namespace: NamespaceRef,
        /// Which.
        item: FurnitureId,
        /// The UID of the object that holds it.
        uid: Uid,
    },
    /// What takes a slice of a shared component away.
    Unshare(Unsharing),
    /// The workload namespace goes.
    DeleteNamespace(NamespaceRef),
    /// Petri's finalizer goes, and with it the object.
    DropFinalizer,
}

/// The commands that bring a slice: outside of the namespace, but for the binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// A place among the consumers of a shared component.
    Register {
        /// The shared component as it was read.
        at: Fence,
        /// For which component.
        component: ComponentName,
    },
    /// The obligation of a slice, before anything of it is made.
    Oblige {
        /// For which component.
        component: ComponentName,
        /// What it is rendered from.
        payload: Digest,
        /// The one that is rewritten, but for what was generated and frozen; `None` to make it.
        replaces: Option<Uid>,
    },
    /// The binding Secret of a slice, as its obligation has it.
    Bind {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
    },
    /// A provision Job, in the shared namespace.
    CreateProvisionJob {
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
    },
}

/// The commands that take a slice away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unsharing {
    /// A deprovision Job, in the shared namespace.
    CreateDeprovisionJob {
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
    },
    /// A provision or deprovision Job with its pods, in the foreground.
    DeleteJob {
        /// Its name.
        name: JobName,
        /// Its UID.
        uid: Uid,
    },
    /// An obligation that is met.
    Acquit {
        /// For which component.
        component: ComponentName,
        /// Its UID.
        uid: Uid,
    },
    /// The binding Secret of a component that is not wanted any more.
    Unbind {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
        /// Its UID.
        uid: Uid,
    },
    /// The place among the consumers of a shared component is given up.
    Release {
        /// The shared component as it was read.
        at: Fence,
        /// For which component.
        component: ComponentName,
    },
    /// That a deprovisioning was given up is written down at the shared component.
    Abandon {
        /// The shared component as it was read.
        at: Fence,
        /// For which component.
        component: ComponentName,
        /// Why the last attempt failed.
        reason: String,
    },
}

impl Command {
    /// Translates what a component wants into what its environment wants in its namespace.
    pub(super) fn of(child: component::Command, namespace: &NamespaceRef, component: &ComponentName) -> Self {
        let (namespace, component) = (namespace.clone(), component.clone());
        match child {
            component::Command::CreatePayload { serial } => {
                Self::CreatePayload { namespace, component, serial }
            }
            component::Command::CreateJob { op, serial } if op.removes() => {
                Self::Cleanup(Cleanup::CreateUndeployJob { namespace, component, serial })
            }
            component::Command::CreateJob { serial, .. } => Self::CreateJob { namespace, component, serial },
            component::Command::DeletePayload { name, uid } => {
                Self::Cleanup(Cleanup::DeletePayload { namespace, name, uid })
            }
            component::Command::DeleteJob { name, uid } => {
                Self::Cleanup(Cleanup::DeleteJob { namespace, name, uid })
            }
        }
    }
}

impl Command {
    /// Translates what a slice wants. What is to stand in the namespace needs one.
    pub(super) fn of_slice(
        child: slice::Command,
        namespace: Option<&NamespaceRef>,
        component: &ComponentName,
    ) -> Option<Self> {
        let (namespace, component) = (namespace.cloned(), component.clone());
        let share = |command| Some(Self::Share(command));
        let unshare = |command| Some(Self::Cleanup(Cleanup::Unshare(command)));
        match child {
            slice::Command::Register(at) => share(Sharing::Register { at, component }),
            slice::Command::Oblige { payload, replaces } => {
                share(Sharing::Oblige { component, payload, replaces })
            }
            slice::Command::Bind => share(Sharing::Bind { namespace: namespace?, component }),
            slice::Command::CreateJob { op, serial } if op.removes() => {
                unshare(Unsharing::CreateDeprovisionJob { component, serial })
            }
            slice::Command::CreateJob { serial, .. } => {
                share(Sharing::CreateProvisionJob { component, serial })
            }
            slice::Command::DeleteJob { name, uid } => unshare(Unsharing::DeleteJob { name, uid }),
            slice::Command::Acquit { uid } => unshare(Unsharing::Acquit { component, uid }),
            slice::Command::Unbind { uid } => {
                unshare(Unsharing::Unbind { namespace: namespace?, component, uid })
            }
            slice::Command::Release(at) => unshare(Unsharing::Release { at, component }),
            slice::Command::Abandon { at, reason } => unshare(Unsharing::Abandon { at, component, reason }),
        }
    }
}

/// Something said once about an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Notice {
    /// It rests in another phase.
    Moved {
        /// Where it was.
        from: &'static str,
        /// Where it is.
        to: &'static str,
        /// The signal that it was moved by.
        signal: &'static str,
        /// The stable reason of the new phase, and what a person needs to know.
        why: Option<(super::Reason, String)>,
    },
    /// Its time to live is over.
    Expired,
    /// One of its components has something to say.
    Component {
        /// Which.
        component: ComponentName,
        /// What.
        notice: component::Notice,
    },
    /// One of its slices has something to say.
    Slice {
        /// Which.
        component: ComponentName,
        /// What.
        notice: slice::Notice,
    },
}

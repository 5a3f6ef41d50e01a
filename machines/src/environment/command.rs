//! What an environment wants done.

use super::furniture::FurnitureId;
use crate::{
    component,
    job::Op,
    names::{ComponentName, Digest, JobName, NamespaceName, Uid},
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
    /// The immutable Secret that an undeploy Job reads.
    CreateUndeployPayload {
        /// Where.
        namespace: NamespaceRef,
        /// For which component.
        component: ComponentName,
        /// For which attempt.
        serial: u64,
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
    /// The workload namespace goes.
    DeleteNamespace(NamespaceRef),
    /// Petri's finalizer goes, and with it the object.
    DropFinalizer,
}

impl Command {
    /// Translates what a component wants into what its environment wants in its namespace.
    pub(super) fn of(child: component::Command, namespace: &NamespaceRef, component: &ComponentName) -> Self {
        let (namespace, component) = (namespace.clone(), component.clone());
        match child {
            component::Command::CreatePayload { op: Op::Deploy, serial } => {
                Self::CreatePayload { namespace, component, serial }
            }
            component::Command::CreateJob { op: Op::Deploy, serial } => {
                Self::CreateJob { namespace, component, serial }
            }
            component::Command::CreatePayload { op: Op::Undeploy, serial } => {
                Self::Cleanup(Cleanup::CreateUndeployPayload { namespace, component, serial })
            }
            component::Command::CreateJob { op: Op::Undeploy, serial } => {
                Self::Cleanup(Cleanup::CreateUndeployJob { namespace, component, serial })
            }
            component::Command::DeletePayload { name, uid } => {
                Self::Cleanup(Cleanup::DeletePayload { namespace, name, uid })
            }
            component::Command::DeleteJob { name, uid } => {
                Self::Cleanup(Cleanup::DeleteJob { namespace, name, uid })
            }
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
}

//! What a shared component wants done.

use crate::{
    component,
    names::{JobName, Uid},
};

/// One provider as it was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderRef {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub version: String,
}

/// A desired fact: one API write, safe to apply again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Command {
    /// Petri's finalizer on the own object, before anything is made.
    AddFinalizer,
    /// Petri's finalizer on the provider.
    HoldProvider(ProviderRef),
    /// The instance secret; what was generated stays.
    WriteInstance {
        /// The one that stands; `None` to make it.
        replaces: Option<Uid>,
    },
    /// The immutable Secret that a deploy Job reads.
    CreatePayload {
        /// For which attempt.
        serial: u64,
    },
    /// A deploy Job.
    CreateJob {
        /// For which attempt.
        serial: u64,
    },
    /// Anything that removes.
    Cleanup(Cleanup),
}

/// The commands of leaving. Nothing here deploys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cleanup {
    /// A payload Secret whose Job is replaced or goes.
    DeletePayload {
        /// Its name.
        name: JobName,
        /// Its UID.
        uid: Uid,
    },
    /// A Job with its pods, in the foreground.
    DeleteJob {
        /// Its name.
        name: JobName,
        /// Its UID.
        uid: Uid,
    },
    /// An undeploy Job.
    CreateUndeployJob {
        /// For which attempt.
        serial: u64,
    },
    /// The obligation of a consumer that was given up and that a person lets go.
    Forget {
        /// The UID of the Secret.
        secret: Uid,
    },
    /// The instance secret goes.
    DeleteInstance {
        /// Its UID.
        uid: Uid,
    },
    /// Petri's finalizer goes from a provider.
    ReleaseProvider(ProviderRef),
    /// Petri's finalizer goes, and with it the object.
    DropFinalizer,
}

impl Command {
    /// Translates what the workload wants.
    pub(super) fn of(child: component::Command) -> Self {
        match child {
            component::Command::CreatePayload { serial } => Self::CreatePayload { serial },
            component::Command::CreateJob { op, serial } if op.removes() => {
                Self::Cleanup(Cleanup::CreateUndeployJob { serial })
            }
            component::Command::CreateJob { serial, .. } => Self::CreateJob { serial },
            component::Command::DeletePayload { name, uid } => {
                Self::Cleanup(Cleanup::DeletePayload { name, uid })
            }
            component::Command::DeleteJob { name, uid } => Self::Cleanup(Cleanup::DeleteJob { name, uid }),
        }
    }
}

/// Something said once about a shared component.
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
        why: Option<(crate::environment::Reason, String)>,
    },
    /// Its workload has something to say.
    Workload(component::Notice),
}

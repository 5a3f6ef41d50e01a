//! Everything an environment may look at. Built by the shell, never by the machine.

use super::{
    furniture::{FurnitureId, Standing},
    plan::{Invalid, Plan},
};
use crate::{
    component::Readiness,
    job::JobView,
    kernel::{Seen, Timestamp},
    names::{ComponentName, EnvironmentName, NamespaceName, Uid},
    slice,
};
use std::collections::BTreeMap;

/// Who the environment is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its UID.
    pub uid: Uid,
    /// Its name.
    pub name: EnvironmentName,
    /// The generation of the spec that was read.
    pub generation: i64,
}

/// What stands at a namespace's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occupancy {
    /// Nothing.
    Absent,
    /// A namespace with both of this environment's labels.
    Ours {
        /// Its UID.
        uid: Uid,
        /// Whether it is being deleted.
        terminating: bool,
        /// What it says blocks its deletion.
        blocked: Option<String>,
    },
    /// A namespace of somebody else.
    Foreign,
}

/// Which of the objects are there that give the operator and the deployer their rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Access {
    /// The RoleBinding of the operator itself.
    pub operator: bool,
    /// The deployer's ServiceAccount.
    pub account: bool,
    /// The deployer's RoleBinding.
    pub deployer: bool,
}

/// What was seen of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// The namespaces that bear this environment's UID as a label.
    pub assigned: Seen<Vec<NamespaceName>>,
    /// What stands at each name that was looked at, by a live read: the decided one, or the candidates in order up
    /// to the first that can be had.
    pub occupancy: BTreeMap<NamespaceName, Occupancy>,
    /// The rights in the decided namespace.
    pub access: Seen<Access>,
}

/// What was seen of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentView {
    /// Its Jobs, of any serial and operation.
    pub jobs: Seen<Vec<JobView>>,
    /// The readiness of the serial that was accepted last.
    pub readiness: Seen<Readiness>,
}

/// Everything an environment may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The wall clock.
    pub now: Timestamp,
    /// Seconds that a pod may fail to start before its attempt is charged; 0 for as long as it likes.
    pub pod_failure_secs: u64,
    /// Who it is.
    pub identity: Identity,
    /// Whether its deletion was asked for.
    pub deletion: bool,
    /// Whether Petri's finalizer is on it.
    pub finalizer: bool,
    /// Whether a user holds it for debugging: it neither expires nor cleans up.
    pub held: bool,
    /// The token of the retry annotation.
    pub retry: Option<String>,
    /// When its time to live ends; `None` for never, and while the time to live is invalid.
    pub expires_at: Option<Timestamp>,
    /// When ten per cent of its time to live are left.
    pub expiring_at: Option<Timestamp>,
    /// What its inputs ask for.
    pub intent: Seen<Result<Plan, Invalid>>,
    /// Its namespaces.
    pub namespaces: Namespaces,
    /// Every component that the record, the plan or a Job in the namespace names.
    pub components: BTreeMap<ComponentName, ComponentView>,
    /// Every slice that the record, the plan, an obligation, a Job or a list of consumers names. Unknown when it could
    /// not be told which there are; not asked where none is wanted or known, and nothing leaves.
    pub slices: Seen<BTreeMap<ComponentName, slice::View>>,
    /// What stands of the furniture that [`super::Memory::looks_at`]; what is missing could not be read.
    pub furniture: BTreeMap<FurnitureId, Standing>,
}

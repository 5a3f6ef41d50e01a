//! Everything a shared component may look at. Built by the shell, never by the machine.

use super::{consumers::Roster, plan::Plan};
use crate::{
    component::Readiness,
    environment::Invalid,
    job::JobView,
    kernel::{Seen, Timestamp},
    names::{ComponentName, EnvironmentName, SharedName, Uid},
};
use std::collections::{BTreeMap, BTreeSet};

/// Who the shared component is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its UID.
    pub uid: Uid,
    /// Its name.
    pub name: SharedName,
    /// The generation of the spec that was read.
    pub generation: i64,
}

/// A provider as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Its UID.
    pub uid: Uid,
    /// Its resourceVersion.
    pub version: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether Petri's finalizer is on it.
    pub finalizer: bool,
    /// Whether another shared component uses it.
    pub others: bool,
}

/// What stands of the instance secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instance {
    /// Nothing.
    Absent,
    /// A Secret.
    There {
        /// Its UID.
        uid: Uid,
        /// Whether every key stands, the fixed ones with their values.
        complete: bool,
    },
}

/// An obligation as it was listed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owed {
    /// The UID of the Secret.
    pub secret: Uid,
    /// The environment's UID.
    pub uid: Uid,
    /// The environment's name.
    pub environment: EnvironmentName,
    /// The component's name.
    pub component: ComponentName,
    /// When it was made.
    pub since: Timestamp,
}

/// Everything a shared component may look at.
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
    /// The token of the retry annotation.
    pub retry: Option<String>,
    /// The UID of the given-up consumer that a person lets go.
    pub forget: Option<Uid>,
    /// What its inputs ask for.
    pub intent: Seen<Result<Plan, Invalid>>,
    /// The providers that the record or the plan names; one that is not there is absent, one that is missing here was
    /// not read.
    pub providers: BTreeMap<String, Option<Provider>>,
    /// The own instance secret. One that somebody else made may be used, and is absent to one that leaves.
    pub instance: Seen<Instance>,
    /// The Jobs of the workload.
    pub jobs: Seen<Vec<JobView>>,
    /// The readiness of the serial that was accepted last.
    pub readiness: Seen<Readiness>,
    /// Who holds a place, as it was read with the own object.
    pub roster: Roster,
    /// The obligations, by a live list.
    pub obligations: Seen<Vec<Owed>>,
    /// Which of the environments that the list and the obligations name are still there.
    pub living: Seen<BTreeSet<Uid>>,
}

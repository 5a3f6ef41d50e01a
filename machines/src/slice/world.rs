//! Everything a slice may look at.

use crate::{
    job::JobView,
    kernel::{Seen, Timestamp},
    names::{ComponentName, Digest, EnvironmentName, SharedName, Uid},
    shared::Roster,
};

/// What the parent lets a slice do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Take a place, start and finish.
    Admitted,
    /// Stay as it is.
    Held,
    /// Leave.
    Leaving,
}

/// What is wanted of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Planned {
    /// The shared component it is a slice of.
    pub shared: SharedName,
    /// Its place in the order of components.
    pub level: u32,
    /// What provisions and deprovisions it; `None` while the provider is not known.
    pub payload: Option<Digest>,
    /// Whether there is a provision Job.
    pub provisions: bool,
}

/// What stands at the shared component's name, by one live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Absent,
    /// A shared component.
    There {
        /// Its UID.
        uid: Uid,
        /// Its resourceVersion: the fence of every write to it.
        version: String,
        /// Whether it is being deleted.
        deleting: bool,
        /// Whether it serves.
        ready: bool,
        /// Why it does not.
        why: String,
        /// How many consumers there may be; `None` for any number.
        capacity: Option<u32>,
        /// Who holds a place, and who was given up.
        roster: Roster,
        /// Who came earlier and waits for a place.
        queue: Vec<EnvironmentName>,
    },
}

/// The Secret that says what has to be undone, made before anything is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Obligation {
    /// Its UID.
    pub uid: Uid,
    /// The shared component it is owed to.
    pub shared: SharedName,
    /// What it was rendered from.
    pub payload: Option<Digest>,
    /// Whether there is a deprovision Job to run.
    pub deprovisions: bool,
}

/// What was seen of one slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The shared component that `standing` is about: the recorded one, else the obligation's, else the planned one.
    pub shared: SharedName,
    /// What stands at its name.
    pub standing: Seen<Standing>,
    /// The obligation.
    pub obligation: Seen<Option<Obligation>>,
    /// The UID of the binding Secret.
    pub binding: Seen<Option<Uid>>,
    /// The provision and deprovision Jobs, of any serial.
    pub jobs: Seen<Vec<JobView>>,
}

/// Everything a slice may look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    /// The wall clock.
    pub now: Timestamp,
    /// Seconds that a pod may fail to start before its attempt is charged; 0 for as long as it likes.
    pub pod_failure_secs: u64,
    /// The environment's UID.
    pub consumer: Uid,
    /// The component's name.
    pub component: ComponentName,
    /// What the parent lets it do.
    pub permission: Permission,
    /// The shared component at which its environment has to take a place before it takes one here. All environments
    /// take their places in one order: so none waits for a place that another holds which waits for one of its own.
    pub after: Option<SharedName>,
    /// Whether its environment's namespace can be written into.
    pub has_namespace: bool,
    /// What is wanted; `None` when that is unknown or the slice is not wanted any more.
    pub plan: Option<Planned>,
    /// The serial that a new attempt gets.
    pub next_serial: u64,
    /// What was seen; `None` when nobody looked.
    pub view: Option<View>,
}

//! The runtime around the reconcile: watches fill caches and wake keys, a queue runs one reconcile per key at a
//! time, and only the leader runs any.
//!
//! No event is ever handed to a reconcile: an event wakes a [`Key`], and the reconcile looks for itself.

pub mod cache;
pub mod caches;
pub mod definitions;
pub mod kept;
pub mod key;
pub mod program;
pub mod queue;
pub mod run;
pub mod start;
pub mod uninstall;
pub mod watch;
pub mod watches;
pub mod workload;
pub mod workload_pod;

pub use caches::{Caches, Guarded};
pub use key::{Key, Kind, Reconciler, Requeue};
pub use queue::Wakes;
pub use start::{Parts, operate};
pub use workload::{Workload, WorkloadKind};
pub use workload_pod::{Told, WorkloadPod};

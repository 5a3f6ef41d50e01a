//! The machine of one EphemeralEnvironment.
//!
//! ```text
//!            ┌────────────── new plan, retry ──────────────┐
//!            ▼                                             │
//! Pending ──▶ Deploying ──▶ Ready ─────────────────────────┤
//!    │            │           │                            │
//!    └────────────┴───────────┴──▶ Failed ─────────────────┘
//! any ──▶ Terminating ──▶ gone
//! ```
//!
//! Slices of shared components ([`crate::slice`]) are provisioned in `Pending`: whenever one is wanted that is not
//! provisioned, an environment comes back there.
//!
//! What it does at each signal: `machines/atlas/environment.md`, generated from the explorer.
//!
//! *Relies on*: nobody else writing the status, or labelling a foreign namespace with this environment's UID.
//! *Guarantees*: once bound, the namespace never changes; nothing is written into a namespace that is not ours by
//! label and UID; components start in the order of their levels and go in reverse; once deletion was seen, only
//! [`Cleanup`] is asked for; the finalizer goes only when nothing owned is known to be left.
//! *Settles*: in `Ready`, `Failed` or gone, within four hops of any change.
//! *Wakes*: by the watches on its own resource, its template, namespace, Jobs and workloads, by a deadline, or, for
//! what no watch reports, by being read again after the write.

mod binding;
mod children;
mod command;
mod furniture;
mod leaving;
mod phase;
mod plan;
mod rollout;
mod signal;
mod slices;
mod states;
mod status;
mod world;

pub use command::{Cleanup, Command, NamespaceRef, Notice, Sharing, Unsharing};
pub use furniture::{FurnitureId, FurnitureKind, NoFurniture, Route, Standing};
pub use phase::{Binding, Cause, Failure, Memory, Phase, Record, Rollout};
pub use plan::{Blueprint, Invalid, Plan, PlannedComponent, SharedBlueprint};
pub(crate) use rollout::restarted;
pub use signal::Signal;
pub use states::{EDGES, Environment, PARALLEL_MAX, SHARING};
pub use status::{ComponentPhase, ComponentStatus, Condition, ConditionType, Reason, Status, Truth};
pub use world::{Access, ComponentView, Identity, Namespaces, Occupancy, World};

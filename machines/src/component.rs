//! The machine of one Helm component: a child inside its environment's record.
//!
//! ```text
//! Pending ──▶ Submitting ──▶ Deploying ──▶ Settling ──▶ Ready
//!    ▲            │              │             │
//!    └─ backoff ──┴──────────────┴─────────────┴──▶ Failed
//! any ──▶ Draining ──▶ Undeploying ⇄ Retreating ──▶ Gone
//! ```
//!
//! What it does at each signal: `machines/atlas/component.md`, generated from the explorer.
//!
//! *Relies on*: nobody else creating Jobs that carry this component's labels and serials.
//! *Guarantees*: at most one live Job per release; an outcome counts only for its serial and UID; a Job that runs is
//! never ended for a newer payload; nothing is created once the component is leaving, except its undeploy Job.
//! *Settles*: in `Ready`, `Failed` or `Gone`, within four hops of any change.
//! *Wakes*: by the Job watch, by the readiness that the parent observes, or by the deadline it asked for.

mod command;
mod phase;
mod signal;
mod states;
mod world;

pub use command::{Command, Notice};
pub use phase::{Accepted, Ailment, Phase, Record};
pub use signal::Signal;
pub use states::{ATTEMPTS_MAX, Component, DISRUPTIONS_MAX, DRAIN_GRACE_SECS, EDGES, backoff_secs};
pub use world::{Permission, Planned, Readiness, World};

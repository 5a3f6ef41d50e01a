//! The machine of one slice of a shared component: a child inside its environment's record.
//!
//! ```text
//! Pending ──▶ Provisioning ──▶ Provisioned
//!    ▲             │
//!    └── backoff ──┴──▶ Failed
//! any ──▶ Draining ──▶ Deprovisioning ⇄ Retreating ──▶ Releasing ──▶ Gone
//! ```
//!
//! In `Pending` it takes a place among the consumers, waits for the shared component to be ready, and has the
//! obligation and the binding Secret written; only then is a provision Job committed.
//!
//! *Relies on*: nobody else writing obligations, or Jobs that carry this component's labels and serials.
//! *Guarantees*: no place is taken while the list that is written shows none free; nothing is provisioned before the
//! obligation that will undo it stands; provision and deprovision never run beside each other; the place is given up
//! only once the obligation is met, and kept when that was given up.
//! *Settles*: in `Provisioned`, `Failed` or `Gone`, within six hops of any change.
//! *Wakes*: by the watches on its Jobs and on the shared component, or by the moment it asked for.

mod command;
mod phase;
mod signal;
mod states;
mod world;

pub use command::{Command, Fence, Notice};
pub use phase::{Phase, Record};
pub use signal::{Debt, Entry, Progress, Rest, Signal};
pub use states::{AT_CAPACITY, EDGES, NOT_READY, QUEUE_SECS, Slice};
pub use world::{Obligation, Permission, Planned, Standing, View, World};

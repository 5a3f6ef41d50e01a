//! The machine of one SharedComponent.
//!
//! ```text
//!            ┌──────── new plan, retry ────────┐
//!            ▼                                 │
//! Pending ──▶ Deploying ──▶ Ready ─────────────┤
//!    ▲           │           │                 │
//!    │           └───────────┴──▶ Failed ──────┘
//!    └──────── nobody uses it (idle) ──┘
//! any ──▶ Terminating ──▶ gone
//! ```
//!
//! *Relies on*: environments changing nothing of its status but the list of consumers, by compare-and-swap.
//! *Guarantees*: a generated value is never written twice; nothing is undeployed while a place is held or an
//! obligation stands; nobody is evicted; a place is given away only when neither an obligation nor a living environment
//! holds it, or when a person let it go.
//! *Settles*: in `Ready`, `Failed`, idle `Pending` or gone, within four hops of any change.
//! *Wakes*: by the watches on its own resource, its provider, Jobs and workloads, by a deadline, or, for what no watch
//! reports, by being read again after the write.

mod command;
mod consumers;
mod leaving;
mod phase;
mod plan;
mod signal;
mod states;
mod status;
mod world;

pub use command::{Cleanup, Command, Notice, ProviderRef};
pub use consumers::{Abandoned, Consumer, Refused, Roster};
pub use phase::{Memory, Phase, Record};
pub use plan::{InstancePlan, Plan};
pub use signal::Signal;
pub use states::{EDGES, Shared};
pub use status::{Status, roster};
pub use world::{Identity, Instance, Owed, Provider, World};

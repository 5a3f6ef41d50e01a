//! What every machine shares: time, ignorance, outputs, the settle loop and the one loop that orders reads and writes.

pub mod cycle;
pub mod dialogue;
pub mod limits;
pub mod machine;
pub mod outbox;
pub mod seen;
pub mod time;

pub use machine::{Machine, Step, StepError};
pub use outbox::{Outbox, WaitingOn};
pub use seen::Seen;
pub use time::{Timestamp, Wake, WakeReason};

//! The pure core of Petri: every lifecycle decision, and nothing that touches a network, a clock or randomness.
//!
//! Begin with [`kernel::cycle`] (the one loop), then [`environment`] and its child [`component`].
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod component;
pub mod environment;
pub mod job;
pub mod kernel;
pub mod names;
pub mod reason;
pub mod release;
pub mod shared;
pub mod slice;
pub mod topology;

//! The proof of the lifecycle: laws over every state, and a simulated cluster that runs the shipped loop.
//!
//! Begin with [`laws`] (what every step promises), then [`invariants`] (what no history may show) and [`dish`]
//! (the simulated cluster that runs and crashes the real `Cycle`).

pub mod atlas;
pub mod conformance;
pub mod coverage;
pub mod crash;
pub mod dish;
pub mod explorer;
pub mod invariants;
pub mod laws;
pub mod mutations;
pub mod plans;
pub mod scenario;
pub mod sharing;

//! Petri.

pub mod reason;
pub mod release;

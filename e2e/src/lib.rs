//! Petri.
pub mod workload;

//! The lab: a real cluster on this machine, and what the tests and the demo run on it.

pub mod lab;
pub mod workload;

//! Petri.

pub mod deployer;

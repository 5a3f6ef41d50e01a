//! Petri.

pub mod controller;
pub mod deployer;

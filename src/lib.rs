//! Petri.

pub mod adapter;
pub mod controller;
pub mod deployer;

//! Petri.

pub mod adapter;
pub mod client;
pub mod clock;
pub mod config;
pub mod controller;
pub mod deployer;
pub mod error;
pub mod leader;
pub mod telemetry;

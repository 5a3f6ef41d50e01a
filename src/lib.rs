//! Petri.

pub mod adapter;
pub mod apiserver;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod controller;
pub mod deployer;
pub mod error;
pub mod executor;
pub mod leader;
pub mod observe;
pub mod reconcile;
pub mod render;
pub mod store;
pub mod telemetry;

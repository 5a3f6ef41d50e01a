//! The lab: a real cluster on this machine, and what the tests and the demo run on it.

pub mod api_check;
pub mod api_fuzz;
pub mod cases;
pub mod charts;
pub mod cluster;
pub mod demo;
pub mod gateway;
pub mod issuer;
pub mod lab;
pub mod load;
pub mod measure;
pub mod outside;
pub mod petri;
pub mod prometheus;
pub mod proxy;
pub mod rights;
pub mod sources;
pub mod tables;
pub mod traces;
pub mod verify;
pub mod witness;
pub mod workload;

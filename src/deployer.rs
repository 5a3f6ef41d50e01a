//! The deployer: one Job, one operation on one Helm release, one report at its end.
//!
//! [`operation`] is the sequence; what to do with a release is decided by the table in
//! `petri_machines::release`. Helm is run as a program ([`helm`]), without a shell, and nothing of a payload
//! can become one of its options.

pub mod classify;
pub mod cluster;
pub mod files;
pub mod helm;
pub mod inventory;
pub mod limits;
pub mod mask;
pub mod operation;
pub mod payload;
pub mod process;
pub mod program;
pub mod report;
pub mod settings;
pub mod source;
pub mod values;

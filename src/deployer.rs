//! The deployer: one Job, one operation on one Helm release.

pub mod payload;
pub mod report;

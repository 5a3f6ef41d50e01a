//! What the operator says about itself: logs, metrics, traces, health.

pub mod health;
pub mod logs;
pub mod metrics;
pub mod signals;
pub mod trace;

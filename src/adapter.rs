//! Between custom resources and machines: pure in both directions, no IO, no clock.
//!
//! [`intent`] turns an environment and its template into what the machine is asked for, [`record`] and [`status`]
//! turn the stored status into the machine's record and back, [`template_status`] and [`provider_status`] say
//! whether a template or a provider is valid.

mod accepted;
pub mod check;
pub mod furniture;
pub mod intent;
pub mod names;
pub mod provider_status;
pub mod record;
pub mod render;
pub mod shared;
pub mod sharing;
pub mod source;
pub mod status;
pub mod template_status;
pub mod ttl;
pub mod values;

pub use intent::{Defaults, Explained, Inputs, Intent, RenderedComponent, explain, intent};

#[cfg(test)]
mod tests;

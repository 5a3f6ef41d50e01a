//! What a shared component's inputs ask for, after rendering.

use crate::{component::Planned, names::Digest};

/// Everything rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The provider's name.
    pub provider: String,
    /// What the workload is deployed from; `None` while the instance secret does not stand, which it is rendered with.
    pub workload: Option<Planned>,
    /// The instance secret, if the provider has one.
    pub instance: Option<InstancePlan>,
    /// How many consumers there may be; `None` for any number.
    pub capacity: Option<u32>,
    /// Seconds without a consumer after which the workload is undeployed; `None` for never.
    pub idle_secs: Option<u64>,
}

/// What is wanted of the instance secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancePlan {
    /// Its name.
    pub name: String,
    /// Whether any of its values is generated: then it cannot be made again.
    pub generates: bool,
}

impl Plan {
    /// Equal digests ask for the same workload; `None` while that is not known.
    pub fn digest(&self) -> Option<Digest> {
        let workload = self.workload.as_ref()?;
        let within = workload.ready_within_secs.to_string();
        Some(Digest::of(&[self.provider.as_str(), workload.payload.as_str(), &within]))
    }
}

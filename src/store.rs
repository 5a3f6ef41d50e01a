//! Write-ahead: the status is replaced on condition that the object is still as it was read, before anything is done.

use crate::{
    client::{CALL_MAX, timed},
    error::CallError,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{Api, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Replaces the status of the object as it was read, and returns the object as it is then.
///
/// The body's `resourceVersion` and `uid` are the preconditions; changes of anything but the status are ignored.
///
/// # Errors
/// The call's; a conflict means that somebody wrote since the object was read, and that nothing was stored.
pub async fn replace_status<K>(api: &Api<K>, object: &K) -> Result<K, CallError>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    let name = object.meta().name.clone().unwrap_or_default();
    timed(CALL_MAX, api.replace_status(&name, &PostParams::default(), object)).await
}

/// Puts a condition into a list, in place of the one of its type. Returns whether anything but a time changed: a
/// status that differs in a time only is not written.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition, now: Timestamp) -> bool {
    let Some(held) = conditions.iter_mut().find(|held| held.type_ == condition.type_) else {
        condition.last_transition_time = Time(now);
        conditions.push(condition);
        return true;
    };
    let turned = held.status != condition.status;
    condition.last_transition_time = if turned { Time(now) } else { held.last_transition_time.clone() };
    let changed = *held != condition;
    *held = condition;
    changed
}

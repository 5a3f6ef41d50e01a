//! Write-ahead: the status is replaced on condition that the object is still as it was read, before anything is done.

use crate::{
    client::{CALL_MAX, timed},
    error::CallError,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Resource,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
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

/// Says by a `Ready=False` condition what is wrong with an object that cannot be written back whole, and leaves all
/// else in its status as it is. Writes nothing when that is said already.
///
/// # Errors
/// The call's; a conflict when somebody wrote in between.
pub async fn tell(
    api: &Api<DynamicObject>,
    name: &str,
    reason: &str,
    why: &str,
    now: Timestamp,
) -> Result<(), CallError> {
    let Some(object) = timed(CALL_MAX, api.get_opt(name)).await? else { return Ok(()) };
    let held = object.data.pointer("/status/conditions").cloned().unwrap_or_default();
    let mut conditions: Vec<Condition> = serde_json::from_value(held).unwrap_or_default();
    let condition = condition("Ready", "False", reason, why, object.metadata.generation);
    if !set_condition(&mut conditions, condition, now) {
        return Ok(());
    }
    let version = object.metadata.resource_version;
    let patch = Patch::Merge(json!({
        "metadata": {"resourceVersion": version}, "status": {"conditions": conditions},
    }));
    let params = PatchParams::default();
    timed(CALL_MAX, api.patch_status(name, &params, &patch)).await.map(drop)
}

/// Makes a condition; [`set_condition`] gives it its time.
pub fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    generation: Option<i64>,
) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_differs_in_its_time_only_is_no_change_and_keeps_its_time() {
        let now = |secs| Timestamp::from_second(secs).unwrap();
        let mut all = Vec::new();
        let ready = |message| condition("Ready", "False", "Progressing", message, Some(1));
        assert!(set_condition(&mut all, ready("a"), now(5)));
        assert!(!set_condition(&mut all, ready("a"), now(9)));
        assert!(set_condition(&mut all, ready("b"), now(9)));
        assert_eq!(all[0].last_transition_time, Time(now(5)), "only a turn moves the time");
        assert!(set_condition(&mut all, condition("Ready", "True", "Ready", "", Some(1)), now(11)));
        assert_eq!((all.len(), all[0].last_transition_time.clone()), (1, Time(now(11))));
    }
}

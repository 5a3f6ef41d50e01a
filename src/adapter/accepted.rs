//! The `Accepted` condition of what is used by others: said before anybody uses it.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use petri_machines::{environment::Invalid, kernel::limits::bounded};

/// The condition's type, and the reason of what is accepted; what is not bears the reason its users would get.
const ACCEPTED: &str = "Accepted";

/// Puts a verdict among the conditions that stand; one that says the same keeps its time.
pub fn put(
    conditions: &mut Vec<Condition>,
    verdict: Result<String, Invalid>,
    generation: Option<i64>,
    now: jiff::Timestamp,
) {
    let (status, reason, message) = match verdict {
        Ok(summary) => ("True", ACCEPTED, summary),
        Err(invalid) => ("False", invalid.reason.as_str(), invalid.message),
    };
    let place = conditions.iter().position(|held| held.type_ == ACCEPTED);
    let held = place.and_then(|place| conditions.get(place)).filter(|held| held.status == status);
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    let condition = Condition {
        type_: ACCEPTED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&message),
        observed_generation: generation,
        last_transition_time: held.map_or(now, |held| held.last_transition_time.clone()),
    };
    match place.and_then(|place| conditions.get_mut(place)) {
        Some(held) => *held = condition,
        None => conditions.push(condition),
    }
}

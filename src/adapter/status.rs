//! What users are shown: the machine's status in the form of the custom resource, and back.
//!
//! The way back is there so that the loop can tell whether anything is to be written. It must be exact, or every pass
//! would write; so it is checked by writing again what was read.

use super::record::encode;
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff,
};
use petri_crds::{self as crds, EphemeralEnvironmentStatus};
use petri_machines::{
    environment::{
        self as machine, ComponentPhase, ConditionType, Environment, Reason, Record, Status, Truth,
    },
    kernel::{Machine as _, Timestamp},
    names::{ComponentName, NamespaceName, Uid},
    reason::FailureReason,
};
use serde_json::Value;

/// The conditions that the machine decides on; those of other types are kept as they are.
const OWNED: [ConditionType; 8] = [
    ConditionType::Ready,
    ConditionType::Reconciling,
    ConditionType::Stalled,
    ConditionType::NamespaceBound,
    ConditionType::SharedComponentsReady,
    ConditionType::CleanupComplete,
    ConditionType::CleanupForced,
    ConditionType::Expiring,
];
pub(super) const PHASES: [crds::Phase; 5] = [
    crds::Phase::Pending,
    crds::Phase::Deploying,
    crds::Phase::Ready,
    crds::Phase::Terminating,
    crds::Phase::Failed,
];
const COMPONENT_PHASES: [(ComponentPhase, crds::ComponentPhase); 5] = [
    (ComponentPhase::Pending, crds::ComponentPhase::Pending),
    (ComponentPhase::Submitting, crds::ComponentPhase::Submitting),
    (ComponentPhase::Deploying, crds::ComponentPhase::Deploying),
    (ComponentPhase::Ready, crds::ComponentPhase::Ready),
    (ComponentPhase::Failed, crds::ComponentPhase::Failed),
];

/// Gives the status to store. What the machine does not decide (conditions of other types, fields of a newer version) stays as it was; a condition keeps its time unless its status turned.
pub fn status(
    previous: Option<&EphemeralEnvironmentStatus>,
    record: &Record,
    status: &Status,
    now: jiff::Timestamp,
) -> EphemeralEnvironmentStatus {
    let previous = previous.cloned().unwrap_or_default();
    EphemeralEnvironmentStatus {
        phase: PHASES.into_iter().find(|phase| phase.as_str() == status.phase),
        conditions: conditions(&previous.conditions, &status.conditions, status.observed_generation, now),
        target_namespace: status.namespace.as_ref().map(ToString::to_string),
        namespace_uid: status.namespace_uid.as_ref().map(ToString::to_string),
        url: status.url.clone(),
        expires_at: status.expires_at.map(time),
        deploy_started_at: status.deploy_started_at.map(time),
        observed_generation: Some(status.observed_generation),
        controller_state_version: Some(Environment::VERSION.into()),
        machine: Some(encode(record)),
        components: status.components.iter().map(|one| component(one, &previous.components)).collect(),
        history: history(&status.history, &previous.history),
        ..previous
    }
}

/// Gives what users were last shown, as the machine said it; `None` when that is not what is stored, because another
/// release or another hand wrote it: then it is written again.
pub fn shown(stored: &EphemeralEnvironmentStatus, record: &Record) -> Option<Status> {
    let conditions = stored.conditions.iter().filter_map(read_condition);
    let namespace = stored.target_namespace.clone().map(NamespaceName::new).transpose().ok()?;
    let namespace_uid = stored.namespace_uid.clone().map(Uid::new).transpose().ok()?;
    let shown = Status {
        phase: stored.phase?.as_str(),
        conditions: conditions.collect::<Option<_>>()?,
        namespace,
        namespace_uid,
        url: stored.url.clone(),
        expires_at: timestamp(stored.expires_at.as_ref())?,
        deploy_started_at: timestamp(stored.deploy_started_at.as_ref())?,
        observed_generation: stored.observed_generation?,
        components: stored.components.iter().map(read_component).collect::<Option<_>>()?,
        history: record.memory.history.clone(),
    };
    let again = status(Some(stored), record, &shown, jiff::Timestamp::UNIX_EPOCH);
    (again == *stored).then_some(shown)
}

pub(super) fn conditions(
    previous: &[Condition],
    said: &[machine::Condition],
    observed: i64,
    now: jiff::Timestamp,
) -> Vec<Condition> {
    let now = Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now));
    let written = said.iter().map(|condition| {
        let word = truth(condition.truth);
        let before = previous.iter().find(|old| old.type_ == condition.kind.as_str() && old.status == word);
        Condition {
            type_: condition.kind.as_str().to_owned(),
            status: word.to_owned(),
            reason: condition.reason.as_str().to_owned(),
            message: condition.message.clone(),
            observed_generation: Some(observed),
            last_transition_time: before.map_or(now.clone(), |old| old.last_transition_time.clone()),
        }
    });
    let is_foreign = |old: &&Condition| OWNED.iter().all(|kind| kind.as_str() != old.type_);
    written.chain(previous.iter().filter(is_foreign).cloned()).collect()
}

/// Reads a condition as the machine said it: `None` for one that is not Petri's, `Some(None)` for one that no machine
/// says.
pub(super) fn read_condition(condition: &Condition) -> Option<Option<machine::Condition>> {
    let kind = OWNED.into_iter().find(|kind| kind.as_str() == condition.type_)?;
    Some(said(kind, condition))
}

fn said(kind: ConditionType, condition: &Condition) -> Option<machine::Condition> {
    let truths = [Truth::True, Truth::False, Truth::Unknown];
    Some(machine::Condition {
        kind,
        truth: truths.into_iter().find(|one| truth(*one) == condition.status)?,
        reason: reason(&condition.reason)?,
        message: condition.message.clone(),
    })
}

fn truth(truth: Truth) -> &'static str {
    match truth {
        Truth::True => "True",
        Truth::False => "False",
        Truth::Unknown => "Unknown",
    }
}

/// A reason's stored form is its word.
fn reason(word: &str) -> Option<Reason> {
    serde_json::from_value(Value::String(word.to_owned())).ok()
}

fn component(one: &machine::ComponentStatus, previous: &[crds::ComponentStatus]) -> crds::ComponentStatus {
    let before = previous.iter().find(|old| old.name == one.name.as_str());
    let phase = COMPONENT_PHASES.into_iter().find(|(machine, _)| *machine == one.phase);
    crds::ComponentStatus {
        name: one.name.to_string(),
        shared: one.shared,
        phase: phase.map_or(crds::ComponentPhase::Pending, |(_, phase)| phase),
        level: i32::try_from(one.level).ok(),
        deploy_retries: one.deploy_retries.into(),
        deploying_since: one.deploying_since.map(time),
        last_failure_reason: one.last_failure_reason.map(|reason| reason.as_str().to_owned()),
        message: Some(one.message.clone()).filter(|message| !message.is_empty()),
        unknown: before.map(|old| old.unknown.clone()).unwrap_or_default(),
    }
}

fn read_component(stored: &crds::ComponentStatus) -> Option<machine::ComponentStatus> {
    let (phase, _) = COMPONENT_PHASES.into_iter().find(|(_, phase)| *phase == stored.phase)?;
    let reason = match &stored.last_failure_reason {
        None => None,
        Some(word) => Some(FailureReason::from_name(word)?),
    };
    Some(machine::ComponentStatus {
        name: ComponentName::new(&stored.name).ok()?,
        shared: stored.shared,
        phase,
        level: stored.level?.try_into().ok()?,
        deploy_retries: stored.deploy_retries.try_into().ok()?,
        deploying_since: timestamp(stored.deploying_since.as_ref())?,
        last_failure_reason: reason,
        message: stored.message.clone().unwrap_or_default(),
    })
}

/// Shows the rollouts that have ended, or were overtaken by the next. They are numbered on from what was shown before;
/// the one under way is told by `deployStartedAt`.
fn history(rollouts: &[machine::Rollout], previous: &[crds::Rollout]) -> Vec<crds::Rollout> {
    let mut next = previous.last().map_or(1, |last| last.revision.saturating_add(1));
    let mut before = previous.iter();
    let mut shown = Vec::new();
    for (place, rollout) in rollouts.iter().enumerate() {
        let follower = rollouts.get(place + 1);
        let result = match (rollout.ready, follower) {
            (Some(true), _) => crds::RolloutResult::Succeeded,
            (Some(false), _) => crds::RolloutResult::Failed,
            (None, Some(_)) => crds::RolloutResult::Superseded,
            (None, None) => continue,
        };
        let start = time(rollout.started_at);
        let revision = before.find(|old| old.start == start).map(|old| old.revision).unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        shown.push(crds::Rollout {
            revision,
            result,
            reason: rollout.reason.map(|reason| reason.as_str().to_owned()),
            start,
            end: rollout.ended_at.or(follower.map(|follower| follower.started_at)).map(time),
        });
    }
    shown
}

/// A moment that no calendar has (the machine's arithmetic saturates) is shown as the last one.
pub(super) fn time(at: Timestamp) -> Time {
    let secs = i64::try_from(at.0).unwrap_or(i64::MAX);
    Time(jiff::Timestamp::from_second(secs).unwrap_or(jiff::Timestamp::MAX))
}

/// The inner `None` is a field that is not there, the outer one a moment that the machine cannot have written.
pub(super) fn timestamp(time: Option<&Time>) -> Option<Option<Timestamp>> {
    match time {
        None => Some(None),
        Some(time) => u64::try_from(time.0.as_second()).ok().map(|secs| Some(Timestamp(secs))),
    }
}

#[cfg(test)]
mod tests;

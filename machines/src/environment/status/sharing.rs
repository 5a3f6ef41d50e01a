//! What users are shown of slices of shared components.

use super::{ComponentPhase, ComponentStatus, Condition, ConditionType, Reason, Truth, complaint};
use crate::{
    component::ATTEMPTS_MAX,
    environment::{phase::Memory, slices, world::World},
    kernel::limits::bounded,
    names::ComponentName,
    slice::{AT_CAPACITY, Phase, Record},
};

/// Says what keeps the slices from being provisioned where that is somebody else's: a full list before anything else.
pub(super) fn wait(memory: &Memory, world: &World) -> Option<(Reason, String)> {
    let all: Vec<_> = memory.slices.keys().filter_map(|name| slices::wait(memory, world, name)).collect();
    let full = all.iter().find(|(what, _)| *what == AT_CAPACITY);
    let (what, why) = full.or(all.first())?;
    let reason = if *what == AT_CAPACITY {
        Reason::SharedComponentAtCapacity
    } else {
        Reason::SharedComponentNotReady
    };
    Some((reason, why.clone()))
}

/// Says whether every slice is provisioned; nothing where there is none.
pub(super) fn condition(memory: &Memory, world: &World) -> Option<Condition> {
    if memory.slices.is_empty() {
        return None;
    }
    let open: Vec<&str> = memory
        .slices
        .iter()
        .filter(|(_, record)| !matches!(record.phase, Phase::Provisioned))
        .map(|(name, _)| name.as_str())
        .collect();
    let failed = memory.slices.values().find(|record| matches!(record.phase, Phase::Failed));
    let (truth, reason, message) = if open.is_empty() {
        (Truth::True, Reason::Ready, String::new())
    } else if let Some(failed) = failed {
        (Truth::False, Reason::ProvisionFailed, failed.cause().message)
    } else if let Some((reason, why)) = wait(memory, world) {
        (Truth::False, reason, why)
    } else {
        (Truth::False, Reason::Progressing, format!("under way: {}", open.join(", ")))
    };
    Some(Condition { kind: ConditionType::SharedComponentsReady, truth, reason, message: bounded(&message) })
}

/// Names the slices whose deprovisioning was given up.
pub(super) fn given_up(memory: &Memory) -> impl Iterator<Item = &ComponentName> {
    let forced = |record: &Record| matches!(record.phase, Phase::Gone { forced: true });
    memory.slices.iter().filter(move |(_, record)| forced(record)).map(|(name, _)| name)
}

/// Shows the slices among the components; a name is shown once, and a component that takes it over comes first.
pub(super) fn components(memory: &Memory, world: &World) -> Vec<ComponentStatus> {
    let shown = memory.slices.iter().filter(|(name, _)| !memory.components.contains_key(*name));
    shown.map(|(name, record)| component(name, record, memory, world)).collect()
}

fn component(name: &ComponentName, record: &Record, memory: &Memory, world: &World) -> ComponentStatus {
    let phase = match &record.phase {
        Phase::Provisioning { attempt } if attempt.job.is_none() => ComponentPhase::Submitting,
        Phase::Provisioning { .. } => ComponentPhase::Deploying,
        Phase::Provisioned => ComponentPhase::Ready,
        Phase::Failed => ComponentPhase::Failed,
        Phase::Pending { .. }
        | Phase::Draining { .. }
        | Phase::Deprovisioning { .. }
        | Phase::Retreating { .. }
        | Phase::Releasing { .. }
        | Phase::Gone { .. } => ComponentPhase::Pending,
    };
    let ailment = record.ailment.as_ref().map(|ailment| ailment.complaint.reason);
    ComponentStatus {
        name: name.clone(),
        shared: true,
        phase,
        level: record.level,
        deploy_retries: record.provision_attempts,
        deploying_since: None,
        last_failure_reason: ailment.or(record.failure.as_ref().map(|failure| failure.reason)),
        message: bounded(&message(name, record, memory, world)),
    }
}

fn message(name: &ComponentName, record: &Record, memory: &Memory, world: &World) -> String {
    let failed = record.failure.as_ref().map_or(String::new(), |failure| failure.message.clone());
    let view = world.slices.known().and_then(|slices| slices.get(name));
    let job = || {
        let serial = record.attempt().map_or(0, |attempt| attempt.serial);
        complaint(serial, view.and_then(|view| view.jobs.known()))
    };
    match &record.phase {
        Phase::Pending { not_before: Some(_) } if record.failure.is_some() => {
            let attempts = record.provision_attempts;
            format!("attempt {attempts} of {ATTEMPTS_MAX} failed, the next follows: {failed}")
        }
        Phase::Pending { .. } => match slices::wait(memory, world, name) {
            Some((what, why)) => format!("waiting for {what}: {why}"),
            None => "waiting for its turn".to_owned(),
        },
        Phase::Provisioning { .. } => job(),
        Phase::Provisioned => String::new(),
        Phase::Failed => failed,
        Phase::Draining { .. } => "leaving: waiting for its Jobs to end".to_owned(),
        Phase::Deprovisioning { .. } => {
            let what = job();
            if what.is_empty() {
                "leaving: its deprovision Job runs".to_owned()
            } else {
                format!("leaving: {what}")
            }
        }
        Phase::Retreating { .. } => {
            let attempts = record.deprovision_attempts;
            format!("leaving: attempt {attempts} of {ATTEMPTS_MAX} failed: {failed}")
        }
        Phase::Releasing { .. } => "leaving: its place is given up".to_owned(),
        Phase::Gone { forced: true } => format!("given up: {failed}"),
        Phase::Gone { forced: false } => "gone".to_owned(),
    }
}

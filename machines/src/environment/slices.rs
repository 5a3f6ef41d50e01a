//! How an environment steps its slices of shared components.

use super::{
    children,
    command::{Command, NamespaceRef, Notice},
    phase::Memory,
    plan::Plan,
    world::World,
};
use crate::{
    component,
    job::JobFailure,
    kernel::{Outbox, Seen, limits::HOPS_MAX},
    names::{ComponentName, SharedName},
    slice::{self, Permission, Phase, Signal, Slice},
};
use std::collections::BTreeMap;

/// What the slices may do in this step.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode<'a> {
    /// Come to this plan; `admit` says whether anything new may start.
    Rollout {
        /// The plan, if it could be read.
        plan: Option<&'a Plan>,
        /// Whether anything new may start.
        admit: bool,
    },
    /// Go.
    Leaving,
}

type Child = Outbox<slice::Command, slice::Notice>;

/// Whether every slice of a plan is provisioned as it asks for.
pub(super) fn are_provisioned(memory: &Memory, plan: &Plan) -> bool {
    plan.slices.iter().all(|(name, planned)| {
        memory.slices.get(name).is_some_and(|record| {
            record.shared == planned.shared && record.is_provisioned(planned.payload.as_ref())
        })
    })
}

/// Whether no slice is there that a plan does not name.
pub(super) fn are_settled(memory: &Memory, plan: &Plan) -> bool {
    memory.slices.keys().all(|name| plan.slices.contains_key(name)) && are_provisioned(memory, plan)
}

/// Returns a slice of the plan for which no further attempt is made.
pub(super) fn broken(memory: &Memory, plan: &Plan) -> Option<(ComponentName, JobFailure)> {
    let failed = |name: &&ComponentName| {
        memory.slices.get(*name).is_some_and(|record| matches!(record.phase, Phase::Failed))
    };
    let name = plan.slices.keys().find(failed)?;
    memory.slices.get(name).map(|record| (name.clone(), record.cause()))
}

/// Begins anew with what is not provisioned as the plan asks for; with all of it when that was asked for.
pub(super) fn restart(memory: &mut Memory, plan: &Plan, asked_again: bool) {
    for (name, planned) in &plan.slices {
        let Some(record) = memory.slices.get_mut(name).filter(|record| record.shared == planned.shared)
        else {
            continue;
        };
        record.level = planned.level;
        let stands = record.is_provisioned(planned.payload.as_ref()) && !asked_again;
        let goes_on = matches!(record.phase, Phase::Provisioning { .. });
        if record.phase.leaves() || stands || goes_on {
            continue;
        }
        record.phase = Phase::Pending { not_before: None };
        record.provision_attempts = 0;
        record.disruptions = 0;
        (record.failure, record.ailment) = (None, None);
    }
}

/// Says what a slice of the plan waits for, where that is somebody else's.
pub(super) fn wait(memory: &Memory, world: &World, name: &ComponentName) -> Option<(&'static str, String)> {
    let plan = world.intent.known().and_then(|intent| intent.as_ref().ok());
    let record = memory.slices.get(name)?;
    let mode = Mode::Rollout { plan, admit: true };
    let seen = view(world, memory, name, Permission::Admitted, mode, true);
    match Signal::read(record, &seen) {
        Signal::Entry(entry) => entry.wait(&record.shared),
        Signal::Leaving
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Early
        | Signal::Busy(_)
        | Signal::Attempt(_)
        | Signal::Debt(_)
        | Signal::Rest(_)
        | Signal::Quiet => None,
    }
}

/// Steps all slices until none of them changes, and gathers what they say.
pub(super) fn tend(
    memory: &mut Memory,
    world: &World,
    namespace: Option<&NamespaceRef>,
    mode: Mode<'_>,
    out: &mut Outbox<Command, Notice>,
) {
    let passes = 2 + 2 * memory.slices.len();
    let mut said: BTreeMap<ComponentName, Child> = BTreeMap::new();
    for _ in 0..passes {
        let mut quiet = !enrol(memory, mode);
        for (name, permission) in permissions(memory, mode) {
            let Some(record) = memory.slices.get(&name) else { continue };
            let seen = view(world, memory, &name, permission, mode, namespace.is_some());
            let (next, child) = settle(record.clone(), &seen, said.remove(&name));
            quiet &= next == *record;
            memory.serial = memory.serial.max(next.attempt().map_or(0, |attempt| attempt.serial));
            memory.slices.insert(name.clone(), next);
            said.insert(name, child);
        }
        if quiet {
            break;
        }
    }
    for (name, child) in said {
        let notice = |notice| Notice::Slice { component: name.clone(), notice };
        out.adopt(child, |command| Command::of_slice(command, namespace, &name), notice);
    }
    if let Mode::Rollout { plan: Some(plan), .. } = mode {
        let wanted = |name: &ComponentName, record: &slice::Record| {
            plan.slices.get(name).is_some_and(|planned| planned.shared == record.shared)
        };
        let gone = |record: &slice::Record| matches!(record.phase, Phase::Gone { .. });
        memory.slices.retain(|name, record| wanted(name, record) || !gone(record));
    }
}

/// Gives every slice of the plan a record; one that left and is wanted again begins anew once it is gone. Returns
/// whether there was any to give.
fn enrol(memory: &mut Memory, mode: Mode<'_>) -> bool {
    let Mode::Rollout { plan: Some(plan), admit: true } = mode else { return false };
    let mut given = false;
    for (name, planned) in &plan.slices {
        let gone = |record: &slice::Record| matches!(record.phase, Phase::Gone { .. });
        if memory.slices.get(name).is_none_or(gone) {
            let fresh = slice::Record::new(planned.shared.clone(), planned.level);
            memory.slices.insert(name.clone(), fresh);
            given = true;
        }
        // The plan may have changed while this one was being provisioned.
        let outdated = |record: &&mut slice::Record| {
            let payload = planned.payload.as_ref();
            matches!(record.phase, Phase::Provisioned)
                && record.shared == planned.shared
                && !record.is_provisioned(payload)
        };
        if let Some(record) = memory.slices.get_mut(name).filter(outdated) {
            record.phase = Phase::Pending { not_before: None };
            given = true;
        }
    }
    given
}

fn settle(mut record: slice::Record, world: &slice::World, before: Option<Child>) -> (slice::Record, Child) {
    let mut notices = before.map(Outbox::into_notices).unwrap_or_default();
    let mut child = Outbox::default();
    for _ in 0..=HOPS_MAX {
        child = Outbox::default();
        record = Slice::dispatch(record, world, &mut child);
        let moved = child.take_moved();
        notices.append(child.notices_mut());
        if !moved {
            break;
        }
    }
    child.notices_mut().append(&mut notices);
    (record, child)
}

fn view(
    world: &World,
    memory: &Memory,
    name: &ComponentName,
    permission: Permission,
    mode: Mode<'_>,
    has_namespace: bool,
) -> slice::World {
    let plan = match mode {
        Mode::Rollout { plan, .. } => plan.and_then(|plan| plan.slices.get(name)).cloned(),
        Mode::Leaving => None,
    };
    slice::World {
        now: world.now,
        pod_failure_secs: world.pod_failure_secs,
        consumer: world.identity.uid.clone(),
        component: name.clone(),
        permission,
        after: before(memory, world, name),
        has_namespace,
        plan,
        next_serial: children::next_serial(memory, world),
        view: world.slices.known().and_then(|slices| slices.get(name)).cloned(),
    }
}

/// Finds a slice that takes its place before this one and has none yet: places are taken in the order of the shared
/// components' names.
fn before(memory: &Memory, world: &World, name: &ComponentName) -> Option<SharedName> {
    let own = memory.slices.get(name).map(|record| (&record.shared, name))?;
    let views = world.slices.known()?;
    let placeless = |(other, record): &(&ComponentName, &slice::Record)| {
        matches!(record.phase, Phase::Pending { .. })
            && (&record.shared, *other) < own
            && views.get(*other).is_some_and(|view| match view.standing.known() {
                Some(slice::Standing::There { roster, .. }) => !roster.holds(&world.identity.uid, other),
                Some(slice::Standing::Absent) | None => true,
            })
    };
    memory.slices.iter().find(placeless).map(|(_, record)| record.shared.clone())
}

fn permissions(memory: &Memory, mode: Mode<'_>) -> Vec<(ComponentName, Permission)> {
    let (plan, admit) = match mode {
        Mode::Leaving => {
            return memory.slices.keys().map(|name| (name.clone(), Permission::Leaving)).collect();
        }
        Mode::Rollout { plan: None, .. } => {
            return memory.slices.keys().map(|name| (name.clone(), Permission::Held)).collect();
        }
        Mode::Rollout { plan: Some(plan), admit } => (plan, admit),
    };
    let permission = |(name, record): (&ComponentName, &slice::Record)| {
        let wanted = plan.slices.get(name).is_some_and(|planned| planned.shared == record.shared);
        let permission = match (wanted && !record.phase.leaves(), admit) {
            (true, true) => Permission::Admitted,
            (true, false) => Permission::Held,
            (false, _) if record.phase.leaves() || may_leave(memory, plan, admit, name, record) => {
                Permission::Leaving
            }
            (false, _) => Permission::Held,
        };
        (name.clone(), permission)
    };
    memory.slices.iter().map(permission).collect()
}

/// What is not wanted any more leaves last, when nothing uses it; but at once where its name or its place is needed.
fn may_leave(
    memory: &Memory,
    plan: &Plan,
    admit: bool,
    name: &ComponentName,
    record: &slice::Record,
) -> bool {
    let ready =
        |name| matches!(memory.components.get(name).map(|child| &child.phase), Some(component::Phase::Ready));
    let unused = are_provisioned(memory, plan) && plan.components.iter().all(|one| ready(&one.name));
    let needed = plan.slices.iter().any(|(other, planned)| {
        other == name
            || planned.shared == record.shared
                && memory.slices.get(other).is_none_or(|slice| matches!(slice.phase, Phase::Pending { .. }))
    });
    admit && (unused || needed)
}

/// Lets all slices of an environment that goes go. Returns whether all of them are gone or given up.
pub(super) fn leave(memory: &mut Memory, world: &World, out: &mut Outbox<Command, Notice>) -> bool {
    let Seen::Known(views) = &world.slices else { return false };
    // Under a lost record, obligations, Jobs and places are what tells of slices.
    for (name, view) in views {
        let owes = |seen: &Seen<_>| !matches!(seen, Seen::Known(None));
        let holds = match view.standing.known() {
            Some(slice::Standing::There { roster, .. }) => roster.holds(&world.identity.uid, name),
            Some(slice::Standing::Absent) => false,
            None => true,
        };
        if owes(&view.obligation) || holds || !view.jobs.known().is_some_and(Vec::is_empty) {
            let fresh = || slice::Record::new(view.shared.clone(), 0);
            memory.slices.entry(name.clone()).or_insert_with(fresh);
        }
    }
    tend(memory, world, None, Mode::Leaving, out);
    memory.slices.values().all(|record| matches!(record.phase, Phase::Gone { .. }))
}

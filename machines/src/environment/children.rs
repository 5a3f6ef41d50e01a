//! How an environment steps its components: level by level forward, in reverse when it goes.

use super::{
    command::{Command, NamespaceRef, Notice},
    phase::Memory,
    plan::Plan,
    states::PARALLEL_MAX,
    world::World,
};
use crate::{
    component::{self, Component, Permission, Phase, Planned},
    job,
    kernel::{Outbox, Seen, Timestamp, limits::HOPS_MAX, seen::Ignorance},
    names::{ComponentName, Uid},
};
use std::collections::BTreeMap;

/// What the components may do in this step.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode<'a> {
    /// Come to this plan; `admit` says whether anything new may start.
    Rollout {
        /// The plan, if it could be read.
        plan: Option<&'a Plan>,
        /// Whether anything new may start.
        admit: bool,
    },
    /// Go, the last level first.
    Leaving,
    /// Go without undeploying.
    Abandoned,
}

type Child = Outbox<component::Command, component::Notice>;

/// Steps all components until none of them changes, and gathers what they say.
///
/// One pass is not enough: a component that ends frees a place for another that was looked at before it.
pub(super) fn tend(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    mode: Mode<'_>,
    out: &mut Outbox<Command, Notice>,
) {
    let passes = 2 + 2 * memory.components.len();
    let mut said: BTreeMap<ComponentName, Child> = BTreeMap::new();
    for _ in 0..passes {
        let mut quiet = true;
        for (name, permission) in permissions(memory, mode, world.now) {
            let Some(record) = memory.components.get(&name) else { continue };
            let planned = planned(mode, &name);
            let seen = view(world, memory, &name, permission, planned);
            let (next, child) = settle(record.clone(), &seen, said.remove(&name));
            quiet &= next == *record;
            memory.serial = memory.serial.max(next.attempt().map_or(0, |attempt| attempt.serial));
            memory.components.insert(name.clone(), next);
            said.insert(name, child);
        }
        if quiet {
            break;
        }
    }
    for (name, child) in said {
        let notice = |notice| Notice::Component { component: name.clone(), notice };
        let wanted =
            |command: &component::Command| mode != Mode::Leaving || !goes_along(command, &name, world);
        let command = |command| Some(command).filter(wanted);
        out.adopt(child, |one| command(one).map(|one| Command::of(one, namespace, &name)), notice);
    }
}

/// Whether a command removes what the namespace's own deletion takes along: a Job that has ended, and its Secret.
fn goes_along(command: &component::Command, component: &ComponentName, world: &World) -> bool {
    let ended = |uid: &Uid| {
        let jobs = world.components.get(component).and_then(|view| view.jobs.known());
        jobs.into_iter().flatten().any(|job| job.uid == *uid && !job::is_live(job))
    };
    match command {
        component::Command::DeletePayload { .. } => true,
        component::Command::DeleteJob { uid, .. } => ended(uid),
        component::Command::CreatePayload { .. } | component::Command::CreateJob { .. } => false,
    }
}

/// Runs one component to its fixed point. Commands of phases that were only passed through are dropped.
fn settle(
    mut record: component::Record,
    world: &component::World,
    before: Option<Child>,
) -> (component::Record, Child) {
    let mut notices = before.map(Outbox::into_notices).unwrap_or_default();
    let mut child = Outbox::default();
    for _ in 0..=HOPS_MAX {
        child = Outbox::default();
        record = Component::dispatch(record, world, &mut child);
        let moved = child.take_moved();
        notices.append(child.notices_mut());
        if !moved {
            break;
        }
    }
    child.notices_mut().append(&mut notices);
    (record, child)
}

fn planned(mode: Mode<'_>, name: &ComponentName) -> Option<Planned> {
    let Mode::Rollout { plan: Some(plan), .. } = mode else { return None };
    plan.components
        .iter()
        .find(|component| component.name == *name)
        .map(|component| component.planned.clone())
}

fn view(
    world: &World,
    memory: &Memory,
    name: &ComponentName,
    permission: Permission,
    plan: Option<Planned>,
) -> component::World {
    let seen = world.components.get(name);
    component::World {
        now: world.now,
        pod_failure_secs: world.pod_failure_secs,
        permission,
        plan,
        next_serial: next_serial(memory, world),
        jobs: seen.map_or(Seen::Unknown(Ignorance::NotAsked), |view| view.jobs.clone()),
        readiness: seen.map_or(Seen::Unknown(Ignorance::NotAsked), |view| view.readiness.clone()),
    }
}

/// Never hands out a serial that any Job in the namespace bears, even when the record was lost.
pub(super) fn next_serial(memory: &Memory, world: &World) -> u64 {
    let jobs = world.components.values().filter_map(|view| view.jobs.known()).flatten();
    let slices = world.slices.known().into_iter().flat_map(BTreeMap::values);
    let shared = slices.filter_map(|view| view.jobs.known()).flatten();
    let highest = jobs.chain(shared).map(|job| job.serial).max().unwrap_or(0).max(memory.serial);
    highest.saturating_add(1)
}

fn permissions(memory: &Memory, mode: Mode<'_>, now: Timestamp) -> Vec<(ComponentName, Permission)> {
    match mode {
        Mode::Rollout { plan, admit } => rollout(memory, plan, admit, now),
        Mode::Leaving => leaving(memory),
        Mode::Abandoned => {
            memory.components.keys().map(|name| (name.clone(), Permission::Abandoned)).collect()
        }
    }
}

/// Admits what its level and the four places of a level allow; what is not wanted any more leaves.
fn rollout(
    memory: &Memory,
    plan: Option<&Plan>,
    admit: bool,
    now: Timestamp,
) -> Vec<(ComponentName, Permission)> {
    let Some(plan) = plan else {
        return memory.components.keys().map(|name| (name.clone(), Permission::Held)).collect();
    };
    let phase = |name: &ComponentName| memory.components.get(name).map(|record| &record.phase);
    let is_open = |level: u32| {
        let mut below = plan.components.iter().filter(|component| component.planned.level < level);
        below.all(|component| matches!(phase(&component.name), Some(Phase::Ready)))
    };
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    for component in &plan.components {
        let busy = memory.components.get(&component.name).is_some_and(component::Record::is_under_way);
        *places.entry(component.planned.level).or_default() += usize::from(busy);
    }
    let mut granted = Vec::new();
    for component in &plan.components {
        let level = component.planned.level;
        let taken = places.entry(level).or_default();
        let under_way = memory.components.get(&component.name).is_some_and(component::Record::is_under_way);
        // What was committed under another order waits for its level like everything else.
        let is_open = is_open(level);
        let starts = !under_way && *taken < PARALLEL_MAX && is_open;
        // A component that waits out a pause takes no place: it is counted once it is under way.
        let due = |at: &Option<Timestamp>| at.is_none_or(|at| at <= now);
        let counts = starts
            && matches!(phase(&component.name), Some(Phase::Pending { not_before }) if due(not_before));
        *taken += usize::from(counts);
        let permission =
            if admit && is_open && (under_way || starts) { Permission::Admitted } else { Permission::Held };
        granted.push((component.name.clone(), permission));
    }
    let wanted = |name: &ComponentName| plan.components.iter().any(|component| component.name == *name);
    let unwanted = memory.components.keys().filter(|name| !wanted(name));
    granted.extend(unwanted.map(|name| (name.clone(), Permission::Leaving { turn: admit })));
    granted
}

/// Lets the highest level that still has something go; the others drain meanwhile.
fn leaving(memory: &Memory) -> Vec<(ComponentName, Permission)> {
    let gone = |record: &component::Record| matches!(record.phase, Phase::Gone { .. });
    let top = memory.components.values().filter(|record| !gone(record)).map(|record| record.level).max();
    let permission = |record: &component::Record| Permission::Leaving { turn: Some(record.level) == top };
    memory.components.iter().map(|(name, record)| (name.clone(), permission(record))).collect()
}

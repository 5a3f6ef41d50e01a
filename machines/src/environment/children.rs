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
    job::{self, JobState, JobView, Op},
    kernel::{Outbox, Seen, Timestamp, limits::HOPS_MAX, seen::Ignorance},
    names::{ComponentName, Uid},
};
use std::collections::{BTreeMap, BTreeSet};

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

/// Takes up the components that Jobs tell of and an erased record does not: what was removed from the plan meanwhile
/// has to leave, too. Returns whether the Jobs of all could be read.
pub(super) fn recover(memory: &mut Memory, world: &World) -> bool {
    for (name, view) in &world.components {
        let Seen::Known(jobs) = &view.jobs else { return false };
        let newest = jobs.iter().max_by_key(|job| job.serial);
        let left = |job: &JobView| job.op == Op::Undeploy && job.state == JobState::Succeeded;
        if newest.is_some_and(|job| !left(job)) {
            memory.components.entry(name.clone()).or_insert_with(|| component::Record::new(0));
        }
    }
    true
}

type Child = Outbox<component::Command, component::Notice>;

/// One component while all of them are stepped: what it sees, and what it said.
struct Seat {
    name: ComponentName,
    seen: component::World,
    said: Child,
}

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
    let highest = highest_serial(world);
    let mut seats = seats(memory, world, mode);
    for _ in 0..passes {
        let mut quiet = true;
        let permissions = permissions(memory, &seats, mode, world.now);
        for (seat, permission) in seats.iter_mut().zip(permissions) {
            let Some(record) = memory.components.get_mut(&seat.name) else { continue };
            seat.seen.permission = permission;
            seat.seen.next_serial = highest.max(memory.serial).saturating_add(1);
            let (next, child) = settle(record.clone(), &seat.seen, std::mem::take(&mut seat.said));
            quiet &= next == *record;
            memory.serial = memory.serial.max(next.attempt().map_or(0, |attempt| attempt.serial));
            *record = next;
            seat.said = child;
        }
        if quiet {
            break;
        }
    }
    seats.sort_by(|one, other| one.name.cmp(&other.name));
    for Seat { name, said, .. } in seats {
        let notice = |notice| Notice::Component { component: name.clone(), notice };
        let wanted =
            |command: &component::Command| mode != Mode::Leaving || !goes_along(command, &name, world);
        let command = |command| Some(command).filter(wanted);
        out.adopt(said, |one| command(one).map(|one| Command::of(one, namespace, &name)), notice);
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

/// Those of the plan in its order, then those that it does not name.
fn seats(memory: &Memory, world: &World, mode: Mode<'_>) -> Vec<Seat> {
    let seat = |name: &ComponentName, plan: Option<Planned>| Seat {
        name: name.clone(),
        seen: view(world, name, plan),
        said: Child::default(),
    };
    let Mode::Rollout { plan: Some(plan), .. } = mode else {
        return memory.components.keys().map(|name| seat(name, None)).collect();
    };
    let planned = plan.components.iter();
    let mut seats: Vec<Seat> = planned.map(|one| seat(&one.name, Some(one.planned.clone()))).collect();
    let wanted: BTreeSet<&ComponentName> = plan.components.iter().map(|one| &one.name).collect();
    let others = memory.components.keys().filter(|name| !wanted.contains(name));
    seats.extend(others.map(|name| seat(name, None)));
    seats
}

/// Runs one component to its fixed point. Commands of phases that were only passed through are dropped.
fn settle(
    mut record: component::Record,
    world: &component::World,
    before: Child,
) -> (component::Record, Child) {
    let mut notices = before.into_notices();
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

/// What a component sees, but for what may change while the others are stepped.
fn view(world: &World, name: &ComponentName, plan: Option<Planned>) -> component::World {
    let seen = world.components.get(name);
    component::World {
        now: world.now,
        pod_failure_secs: world.pod_failure_secs,
        permission: Permission::Held,
        plan,
        next_serial: 0,
        jobs: seen.map_or(Seen::Unknown(Ignorance::NotAsked), |view| view.jobs.clone()),
        readiness: seen.map_or(Seen::Unknown(Ignorance::NotAsked), |view| view.readiness.clone()),
    }
}

/// Never hands out a serial that any Job in the namespace bears, even when the record was lost.
pub(super) fn next_serial(memory: &Memory, world: &World) -> u64 {
    highest_serial(world).max(memory.serial).saturating_add(1)
}

fn highest_serial(world: &World) -> u64 {
    let jobs = world.components.values().filter_map(|view| view.jobs.known()).flatten();
    let slices = world.slices.known().into_iter().flat_map(BTreeMap::values);
    let shared = slices.filter_map(|view| view.jobs.known()).flatten();
    jobs.chain(shared).map(|job| job.serial).max().unwrap_or(0)
}

/// What each seat may do.
fn permissions(memory: &Memory, seats: &[Seat], mode: Mode<'_>, now: Timestamp) -> Vec<Permission> {
    match mode {
        Mode::Rollout { plan: Some(_), admit } => rollout(memory, seats, admit, now),
        Mode::Rollout { plan: None, .. } => vec![Permission::Held; seats.len()],
        Mode::Leaving => leaving(memory),
        Mode::Abandoned => vec![Permission::Abandoned; seats.len()],
    }
}

/// Admits what its level and the four places of a level allow; what is not wanted any more leaves.
fn rollout(memory: &Memory, seats: &[Seat], admit: bool, now: Timestamp) -> Vec<Permission> {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    // A level is open when every component below it is ready.
    let mut open = u32::MAX;
    for seat in seats {
        let (Some(plan), record) = (&seat.seen.plan, memory.components.get(&seat.name)) else { continue };
        let busy = record.is_some_and(component::Record::is_under_way);
        *places.entry(plan.level).or_default() += usize::from(busy);
        if record.is_none_or(|record| record.phase != Phase::Ready) {
            open = open.min(plan.level);
        }
    }
    let mut permission = |seat: &Seat| {
        let (Some(plan), record) = (&seat.seen.plan, memory.components.get(&seat.name)) else {
            return Permission::Leaving { turn: admit };
        };
        let taken = places.entry(plan.level).or_default();
        let under_way = record.is_some_and(component::Record::is_under_way);
        // What was committed under another order waits for its level like everything else.
        let is_open = plan.level <= open;
        let starts = !under_way && *taken < PARALLEL_MAX && is_open;
        // A component that waits out a pause takes no place: it is counted once it is under way.
        let due = |at: &Option<Timestamp>| at.is_none_or(|at| at <= now);
        let phase = record.map(|record| &record.phase);
        let counts = starts && matches!(phase, Some(Phase::Pending { not_before }) if due(not_before));
        *taken += usize::from(counts);
        if admit && is_open && (under_way || starts) { Permission::Admitted } else { Permission::Held }
    };
    seats.iter().map(&mut permission).collect()
}

/// Lets the highest level that still has something go; the others drain meanwhile.
fn leaving(memory: &Memory) -> Vec<Permission> {
    let gone = |record: &component::Record| matches!(record.phase, Phase::Gone { .. });
    let top = memory.components.values().filter(|record| !gone(record)).map(|record| record.level).max();
    let permission = |record: &component::Record| Permission::Leaving { turn: Some(record.level) == top };
    memory.components.values().map(permission).collect()
}

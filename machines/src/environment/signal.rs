//! The one verdict that an environment acts on, computed from its record and its world.

use super::{
    binding::occupancy,
    furniture,
    phase::{Binding, Cause, Failure, Phase, Record},
    plan::{Invalid, Plan},
    slices,
    status::Reason,
    world::{Occupancy, World},
};
use crate::{component, job::JobFailure, kernel::Seen, names::ComponentName};

/// What the world says to this phase; first match wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal<'w> {
    /// Its deletion was asked for.
    Doomed,
    /// Its time to live is over.
    Expired,
    /// Its namespace is lost or is not its own.
    Displaced(Failure),
    /// Its inputs, or what stands at its namespace's name, could not be read.
    Unreadable,
    /// Its inputs cannot be worked with.
    Invalid(&'w Invalid),
    /// Its inputs ask for another plan, or a user asks for the same one again.
    Outdated(&'w Plan),
    /// Its namespace is not bound.
    Unbound,
    /// A slice of a shared component could not be provisioned.
    Unprovisioned(ComponentName, JobFailure),
    /// A component has failed.
    Broken(ComponentName, JobFailure),
    /// All components are ready, and those not wanted any more are gone.
    Available,
    /// Something is under way.
    Unfinished,
}

impl<'w> Signal<'w> {
    /// Returns the signal's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Doomed => "Doomed",
            Self::Expired => "Expired",
            Self::Displaced(_) => "Displaced",
            Self::Unreadable => "Unreadable",
            Self::Invalid(_) => "Invalid",
            Self::Outdated(_) => "Outdated",
            Self::Unbound => "Unbound",
            Self::Unprovisioned(..) => "Unprovisioned",
            Self::Broken(..) => "Broken",
            Self::Available => "Available",
            Self::Unfinished => "Unfinished",
        }
    }

    /// Reads the signal in the order above.
    pub fn read(record: &Record, world: &'w World) -> Self {
        if world.deletion {
            return Self::Doomed;
        }
        if !world.held && world.expires_at.is_some_and(|at| at <= world.now) {
            return Self::Expired;
        }
        match displaced(record, world) {
            Seen::Known(None) => {}
            Seen::Known(Some(failure)) => return Self::Displaced(failure),
            Seen::Unknown(_) => return Self::Unreadable,
        }
        match &world.intent {
            Seen::Unknown(_) => Self::Unreadable,
            Seen::Known(Err(invalid)) => Self::Invalid(invalid),
            Seen::Known(Ok(plan)) if outdated(record, world, plan) => Self::Outdated(plan),
            Seen::Known(Ok(_)) if !is_bound(record) => Self::Unbound,
            Seen::Known(Ok(plan)) => progress(record, world, plan),
        }
    }
}

pub(super) fn is_bound(record: &Record) -> bool {
    matches!(record.memory.binding, Binding::Bound { .. })
}

/// Compares a bound namespace with what stands at its name now.
fn displaced(record: &Record, world: &World) -> Seen<Option<Failure>> {
    if let Phase::Failed { failure } = &record.phase
        && failure.cause == Cause::Namespace
    {
        return Seen::Known(Some(failure.clone()));
    }
    let Binding::Bound { namespace } = &record.memory.binding else { return Seen::Known(None) };
    let name = &namespace.name;
    let failure = |reason, message| Seen::Known(Some(Failure { reason, message, cause: Cause::Namespace }));
    match occupancy(world, name) {
        None => Seen::Unknown(crate::kernel::seen::Ignorance::Failed),
        Some(Occupancy::Absent) => failure(Reason::NamespaceLost, format!("namespace {name} was deleted")),
        Some(Occupancy::Foreign) => failure(
            Reason::NamespaceNotManaged,
            format!("namespace {name} does not bear this environment's labels"),
        ),
        Some(Occupancy::Ours { uid, .. }) if *uid != namespace.uid => {
            failure(Reason::NamespaceLost, format!("namespace {name} was deleted and made again"))
        }
        Some(Occupancy::Ours { terminating: true, .. }) => {
            failure(Reason::NamespaceLost, format!("namespace {name} is being deleted"))
        }
        Some(Occupancy::Ours { .. }) => Seen::Known(None),
    }
}

fn outdated(record: &Record, world: &World, plan: &Plan) -> bool {
    let asked_again = world.retry.is_some() && world.retry != record.memory.retry;
    match &record.phase {
        Phase::Pending | Phase::Terminating { .. } => false,
        Phase::Deploying { plan: held } | Phase::Ready { plan: held } => {
            *held != plan.digest || asked_again || is_torn(record, plan)
        }
        Phase::Failed { failure } => match &failure.cause {
            Cause::Input => true,
            Cause::Running { plan: tried } => *tried != plan.digest || asked_again,
            Cause::Namespace => false,
        },
    }
}

/// Whether a wanted component is missing or leaves, or a slice is not provisioned: only a damaged record says so, and
/// only a rollout mends it.
fn is_torn(record: &Record, plan: &Plan) -> bool {
    let stays = |name| record.memory.components.get(name).is_some_and(|child| !child.phase.leaves());
    let torn = !plan.components.iter().all(|component| stays(&component.name));
    is_bound(record) && (torn || !slices::are_provisioned(&record.memory, plan))
}

fn progress<'w>(record: &Record, world: &World, plan: &Plan) -> Signal<'w> {
    let components = &record.memory.components;
    if let Some((name, failure)) = slices::broken(&record.memory, plan) {
        return Signal::Unprovisioned(name, failure);
    }
    let failed = |name: &ComponentName, child: &component::Record| {
        matches!(child.phase, component::Phase::Failed).then(|| (name.clone(), child.cause()))
    };
    if let Some((name, failure)) = components.iter().find_map(|(name, child)| failed(name, child)) {
        return Signal::Broken(name, failure);
    }
    let ready =
        |name| matches!(components.get(name).map(|child| &child.phase), Some(component::Phase::Ready));
    let all_ready = plan.components.iter().all(|component| ready(&component.name));
    // Only a rollout waits for its furniture and its route: a Gateway that thinks again is no reason to deploy again.
    let furnished = || {
        let memory = &record.memory;
        !matches!(record.phase, Phase::Deploying { .. })
            || furniture::stands(memory, plan) && furniture::is_routed(memory, world, plan)
    };
    let complete = components.len() == plan.components.len() && slices::are_settled(&record.memory, plan);
    if all_ready && complete && furnished() { Signal::Available } else { Signal::Unfinished }
}

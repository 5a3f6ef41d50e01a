//! What users are shown, recomputed whole from the step by one pure function.

use super::{
    Abandoned, Consumer, Phase, Record, Roster, World,
    command::{Command, Notice},
};
use crate::{
    component::{self, ATTEMPTS_MAX, Readiness},
    environment::{Condition, ConditionType, Reason, Truth},
    kernel::{Seen, Step, limits::bounded},
    names::{ComponentName, Uid},
};

/// A shared component as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The phase's name.
    pub phase: &'static str,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// Whether consumers can be provisioned.
    pub ready: bool,
    /// Who holds a place, and who was given up.
    pub roster: Roster,
    /// The newest generation that was taken up.
    pub observed_generation: i64,
}

/// Why a consumer was given up whose environment went without deprovisioning.
const ORPHANED: &str = "its environment is gone, and nobody deprovisions it";

/// Returns who holds a place by all that is known: what was read, what obligations say, and who lives. A read that
/// failed never frees a place.
pub fn roster(world: &World) -> Roster {
    let mut next = world.roster.clone();
    let Seen::Known(obligations) = &world.obligations else { return next };
    let owes = |uid: &Uid, component: &ComponentName| {
        obligations.iter().any(|owed| owed.uid == *uid && owed.component == *component)
    };
    for owed in obligations.iter().filter(|owed| !world.roster.holds(&owed.uid, &owed.component)) {
        next.consumers.push(Consumer {
            uid: owed.uid.clone(),
            environment: owed.environment.clone(),
            component: owed.component.clone(),
            since: owed.since,
        });
    }
    // A person let go, or somebody settled it by hand.
    for settled in world.roster.abandoned.iter().filter(|one| !owes(&one.uid, &one.component)) {
        next = next.release(&settled.uid, &settled.component);
    }
    let Seen::Known(living) = &world.living else { return next };
    for gone in next.consumers.clone().iter().filter(|one| !living.contains(&one.uid)) {
        if !owes(&gone.uid, &gone.component) {
            next = next.release(&gone.uid, &gone.component);
        } else if !next.has_abandoned(&gone.uid, &gone.component) {
            let Consumer { uid, environment, component, .. } = gone.clone();
            let reason = ORPHANED.to_owned();
            next = next.abandon(Abandoned { uid, environment, component, at: world.now, reason });
        }
    }
    next
}

/// Derives what users are shown.
pub(super) fn status(step: &Step<Record, Command, Notice>, world: &World) -> Status {
    let Record { phase, memory } = &step.phase;
    Status {
        phase: phase.name(),
        conditions: conditions(step, world),
        ready: matches!(phase, Phase::Ready { .. })
            && !matches!(world.readiness, Seen::Known(Readiness::Unready { .. })),
        roster: roster(world),
        observed_generation: memory.observed,
    }
}

fn conditions(step: &Step<Record, Command, Notice>, world: &World) -> Vec<Condition> {
    let Record { phase, memory } = &step.phase;
    let condition =
        |kind, truth, reason, message: &str| Condition { kind, truth, reason, message: bounded(message) };
    let waiting = match &step.waiting_on {
        Some(waiting) if waiting.detail.is_empty() => format!("waiting for {}", waiting.what),
        Some(waiting) => format!("waiting for {}: {}", waiting.what, waiting.detail),
        None => String::new(),
    };
    let (ready, reason, message) = match phase {
        Phase::Pending { idle: true } => (Truth::False, Reason::Idle, "nobody uses it".to_owned()),
        Phase::Pending { idle: false } | Phase::Deploying { .. } | Phase::Terminating { .. } => {
            (Truth::False, Reason::Progressing, waiting)
        }
        Phase::Ready { .. } => match &world.readiness {
            Seen::Known(Readiness::Unready { why, .. }) => {
                (Truth::False, Reason::ComponentUnavailable, why.clone())
            }
            Seen::Known(Readiness::Ready) | Seen::Unknown(_) => (Truth::True, Reason::Ready, places(world)),
        },
        Phase::Failed { failure } => (Truth::False, failure.reason, failure.message.clone()),
    };
    let mut all = vec![condition(ConditionType::Ready, ready, reason, &message)];
    match phase {
        Phase::Failed { .. } => all.push(condition(ConditionType::Stalled, Truth::True, reason, &message)),
        Phase::Pending { idle: true } | Phase::Ready { .. } => {}
        Phase::Pending { idle: false } | Phase::Deploying { .. } | Phase::Terminating { .. } => {
            all.push(condition(ConditionType::Reconciling, Truth::True, reason, &message));
        }
    }
    let given_up = memory.workload.as_ref().map(|workload| &workload.phase);
    if let Some(component::Phase::Gone { forced: true }) = given_up {
        let message = format!("undeploying was given up after {ATTEMPTS_MAX} attempts");
        all.push(condition(ConditionType::CleanupForced, Truth::True, Reason::AttemptsExhausted, &message));
    }
    all
}

/// Says how many places are taken; more than there may be are told, and nobody is evicted.
fn places(world: &World) -> String {
    let taken = roster(world).consumers.len();
    let plan = world.intent.known().and_then(|intent| intent.as_ref().ok());
    match plan.and_then(|plan| plan.capacity) {
        None => format!("{taken} consumers"),
        Some(max) if roster(world).consumers.len() > usize::try_from(max).unwrap_or(usize::MAX) => {
            format!("{taken} consumers, more than the {max} there may be: nobody is evicted")
        }
        Some(max) => format!("{taken} of {max} places are taken"),
    }
}

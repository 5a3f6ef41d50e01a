//! The beginning and the end of a rollout.

use super::{
    phase::{Binding, Phase, Rollout},
    plan::Plan,
    slices,
    states::Cx,
};
use crate::{
    component::{self, Planned},
    kernel::Timestamp,
    names::Digest,
};

/// Rollouts that the history keeps.
const HISTORY_MAX: usize = 5;

/// Comes back to `Pending` where a slice is to be provisioned, else begins a rollout.
pub(super) fn renew(plan: &Plan, cx: &mut Cx<'_>) -> Phase {
    let asked_again = cx.world.retry.is_some() && cx.world.retry != cx.memory.retry;
    slices::restart(cx.memory, plan, asked_again);
    if slices::are_provisioned(cx.memory, plan) {
        return begin(plan, cx);
    }
    if asked_again {
        cx.memory.retry.clone_from(&cx.world.retry);
        // What was asked for again is skipped by nobody, once it is its turn.
        cx.memory.components.values_mut().for_each(|record| record.accepted = None);
    }
    Phase::Pending
}

/// Begins a rollout: every component is reset, but one that needs nothing passes at once.
pub(super) fn begin(plan: &Plan, cx: &mut Cx<'_>) -> Phase {
    if !matches!(cx.memory.binding, Binding::Bound { .. }) {
        return Phase::Pending;
    }
    let asked_again = cx.world.retry.is_some() && cx.world.retry != cx.memory.retry;
    cx.memory.retry.clone_from(&cx.world.retry);
    for component in &plan.components {
        let record = cx.memory.components.remove(&component.name);
        let fresh = component::Record::new(component.planned.level);
        let next = restarted(record.unwrap_or(fresh), &component.planned, asked_again, cx.world.now);
        cx.memory.components.insert(component.name.clone(), next);
    }
    let history = &mut cx.memory.history;
    history.push(Rollout {
        plan: plan.digest.clone(),
        ready: None,
        reason: None,
        started_at: cx.world.now,
        ended_at: None,
    });
    history.drain(..history.len().saturating_sub(HISTORY_MAX));
    Phase::Deploying { plan: plan.digest.clone() }
}

/// Resets a component for a rollout; what is under way for the same payload goes on.
pub(crate) fn restarted(
    mut record: component::Record,
    planned: &Planned,
    asked_again: bool,
    now: Timestamp,
) -> component::Record {
    let same = |payload: Option<&Digest>| payload == Some(&planned.payload) && !asked_again;
    if record.phase.leaves() {
        // What was being taken away is not what was accepted.
        record.accepted = None;
    }
    let accepted = record.accepted.as_ref().map(|accepted| &accepted.payload);
    let under_way =
        matches!(record.phase, component::Phase::Submitting { .. } | component::Phase::Deploying { .. });
    let goes_on = under_way && same(record.payload.as_ref());
    if !goes_on {
        record.ailment = None;
        record.phase = if planned.immutable && same(accepted) {
            component::Phase::Settling { since: now, give_up_at: now.after(planned.ready_within_secs) }
        } else {
            component::Phase::Pending { not_before: None }
        };
    }
    record.level = planned.level;
    record.deploy_attempts = 0;
    record.undeploy_attempts = 0;
    record.disruptions = 0;
    record.failure = None;
    record
}

/// Ends the newest entry of the history when its rollout ends.
pub(super) fn close(to: &Phase, cx: &mut Cx<'_>) {
    let (ready, reason) = match to {
        Phase::Ready { .. } => (true, None),
        Phase::Failed { failure } => (false, Some(failure.reason)),
        Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. } => return,
    };
    if let Some(rollout) = cx.memory.history.last_mut().filter(|rollout| rollout.ended_at.is_none()) {
        rollout.ready = Some(ready);
        rollout.reason = reason;
        rollout.ended_at = Some(cx.world.now);
    }
}

//! The one verdict that a shared component acts on, computed from its record and its world.

use super::{Instance, Phase, Plan, Record, World, status::roster};
use crate::{
    component,
    environment::{Cause, Invalid},
    job::JobFailure,
    kernel::Seen,
    names::Digest,
};

/// What the world says to this phase; first match wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal<'w> {
    /// Its deletion was asked for.
    Doomed,
    /// Its inputs, its secret or its consumers could not be read.
    Unreadable,
    /// Its inputs cannot be worked with.
    Invalid(&'w Invalid),
    /// Its secret was deleted, and what was generated in it is lost.
    Robbed(&'w str),
    /// What it is to be deployed from cannot be told before its secret stands.
    Unequipped(&'w Plan),
    /// Its inputs ask for another workload, or a user asks for the same one again.
    Outdated(&'w Plan, Digest),
    /// Nobody uses it.
    Unused,
    /// Nobody has used it for too long.
    Idle,
    /// Its workload has failed.
    Broken(JobFailure),
    /// Its workload is ready.
    Available,
    /// Something is under way.
    Unfinished,
}

impl<'w> Signal<'w> {
    /// Returns the signal's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Doomed => "Doomed",
            Self::Unreadable => "Unreadable",
            Self::Invalid(_) => "Invalid",
            Self::Robbed(_) => "Robbed",
            Self::Unequipped(_) => "Unequipped",
            Self::Outdated(..) => "Outdated",
            Self::Unused => "Unused",
            Self::Idle => "Idle",
            Self::Broken(_) => "Broken",
            Self::Available => "Available",
            Self::Unfinished => "Unfinished",
        }
    }

    /// Reads the signal in the order above.
    pub fn read(record: &Record, world: &'w World) -> Self {
        if world.deletion {
            return Self::Doomed;
        }
        let plan = match &world.intent {
            Seen::Unknown(_) => return Self::Unreadable,
            Seen::Known(Err(invalid)) => return Self::Invalid(invalid),
            Seen::Known(Ok(plan)) => plan,
        };
        if let Some(instance) = &plan.instance {
            let written = record.memory.instance.as_ref() == Some(&instance.name);
            match &world.instance {
                Seen::Unknown(_) => return Self::Unreadable,
                Seen::Known(Instance::Absent) if instance.generates => match is_robbed(written, world) {
                    Seen::Unknown(_) => return Self::Unreadable,
                    Seen::Known(true) => return Self::Robbed(&instance.name),
                    Seen::Known(false) => return Self::Unequipped(plan),
                },
                Seen::Known(Instance::Absent | Instance::There { complete: false, .. }) => {
                    return Self::Unequipped(plan);
                }
                Seen::Known(Instance::There { complete: true, .. }) => {}
            }
        }
        let Some(digest) = plan.digest() else { return Self::Unequipped(plan) };
        if outdated(record, world, &digest) {
            return Self::Outdated(plan, digest);
        }
        progress(record, world, plan)
    }
}

/// Whether a secret is not there although it was, or although somebody was given of it: who only has a place has not
/// been given anything, and may well have come before the secret.
fn is_robbed(written: bool, world: &World) -> Seen<bool> {
    match &world.obligations {
        _ if written => Seen::Known(true),
        Seen::Known(owed) => Seen::Known(!owed.is_empty()),
        Seen::Unknown(why) => Seen::Unknown(*why),
    }
}

fn outdated(record: &Record, world: &World, digest: &Digest) -> bool {
    let asked_again = world.retry.is_some() && world.retry != record.memory.retry;
    match &record.phase {
        Phase::Pending { .. } | Phase::Terminating { .. } => false,
        Phase::Deploying { plan } | Phase::Ready { plan } => plan != digest || asked_again || is_torn(record),
        Phase::Failed { failure } => match &failure.cause {
            Cause::Input => true,
            Cause::Running { plan } => plan != digest || asked_again,
            Cause::Namespace => false,
        },
    }
}

/// Whether the workload is missing or leaves: only a damaged record says so, and only a rollout mends it.
fn is_torn(record: &Record) -> bool {
    record.memory.workload.as_ref().is_none_or(|workload| workload.phase.leaves())
}

fn progress<'w>(record: &Record, world: &World, plan: &Plan) -> Signal<'w> {
    let unused = roster(world).consumers.is_empty() && plan.idle_secs.is_some();
    if let Phase::Ready { .. } | Phase::Pending { idle: true } = &record.phase
        && unused
    {
        // A list that could not be read is not an empty one: somebody may be owed to of whom no status tells.
        if world.obligations.known().is_none() {
            return Signal::Unreadable;
        }
        let over = record.memory.idle_since.zip(plan.idle_secs).map(|(since, secs)| since.after(secs));
        return if over.is_some_and(|at| at <= world.now) { Signal::Idle } else { Signal::Unused };
    }
    match record.memory.workload.as_ref().map(|workload| (&workload.phase, workload)) {
        Some((component::Phase::Failed, workload)) => Signal::Broken(workload.cause()),
        Some((component::Phase::Ready, _)) => Signal::Available,
        Some(_) | None => Signal::Unfinished,
    }
}

//! The laws of a component, stepped alone as its environment steps it.

use super::{Verdict, is_pure, require, round_trips, settles, speaks};
use petri_machines::{
    component::{Command, Component, Notice, Permission, Phase, Record, World},
    job,
    kernel::{Machine, Outbox, Seen, machine::StepOf, seen::Ignorance},
};

/// A component as a machine of its own: its parent's settle loop without the parent.
#[derive(Clone, Debug, PartialEq)]
pub struct Alone;

impl Machine for Alone {
    type Phase = Record;
    type World = World;
    type Command = Command;
    type Notice = Notice;
    type Status = ();
    const VERSION: u32 = 1;

    fn dispatch(record: Record, world: &World, out: &mut Outbox<Command, Notice>) -> Record {
        Component::dispatch(record, world, out)
    }

    fn status(_: &StepOf<Self>, _: &World) {}

    fn is_watched(_: &Command) -> bool {
        true
    }
}

/// Asks every law of a component.
///
/// # Errors
/// The first law that does not hold.
pub fn all(record: &Record, world: &World) -> Verdict {
    let step = settles::<Alone>(record, world)?;
    speaks(&step, is_settled(&step.phase.phase, world), world.now)?;
    is_pure::<Alone>(record, world, &step)?;
    round_trips(record)?;
    leaves_one_way(record, world, &step)?;
    ignorance_is_safe(record, world, &step)?;
    charges_once(record, &step)
}

fn is_settled(phase: &Phase, world: &World) -> bool {
    match phase {
        Phase::Ready | Phase::Failed | Phase::Gone { .. } => true,
        // A component that leaves while it is wanted is a damaged record: the environment begins a rollout.
        phase => phase.leaves() && matches!(world.permission, Permission::Admitted | Permission::Held),
    }
}

/// Law 3: what leaves never comes back by itself, and creates nothing but undeploy Jobs.
fn leaves_one_way(record: &Record, world: &World, step: &StepOf<Alone>) -> Verdict {
    let law = "leaves one way";
    let after = &step.phase.phase;
    require(law, !record.phase.leaves() || after.leaves(), || format!("{record:?} came back to {after:?}"))?;
    let going = matches!(world.permission, Permission::Leaving { .. } | Permission::Abandoned);
    require(law, !going || after.leaves(), || format!("{record:?} stays in {after:?}"))?;
    let deploys = |command: &Command| {
        matches!(command, Command::CreateJob { op: job::Op::Deploy, .. } | Command::CreatePayload { .. })
    };
    let deploying = step.commands.iter().find(|command| deploys(command));
    require(law, !after.leaves() || deploying.is_none(), || format!("deploys while leaving: {deploying:?}"))
}

/// Law 4: what is not known never adds a deletion or an undeploy Job.
fn ignorance_is_safe(record: &Record, world: &World, step: &StepOf<Alone>) -> Verdict {
    let unknown_jobs = World { jobs: Seen::Unknown(Ignorance::Failed), ..world.clone() };
    let unknown_readiness = World { readiness: Seen::Unknown(Ignorance::Unsynced), ..world.clone() };
    let kind = |command: &Command| match command {
        Command::CreatePayload { .. } | Command::CreateJob { op: job::Op::Deploy, .. } => None,
        Command::CreateJob { .. } => Some("undeploy".to_owned()),
        Command::DeletePayload { uid, .. } => Some(format!("delete payload {uid}")),
        Command::DeleteJob { uid, .. } => Some(format!("delete job {uid}")),
    };
    let known: Vec<_> = step.commands.iter().filter_map(kind).collect();
    for world in [unknown_jobs, unknown_readiness] {
        let Ok(blind) = Alone::step(record.clone(), &world) else { continue };
        let added = blind.commands.iter().filter_map(kind).find(|one| !known.contains(one));
        require("ignorance is safe", added.is_none(), || format!("{added:?} out of ignorance: {world:?}"))?;
    }
    Ok(())
}

/// Invariant S12 at one step: one look charges at most one attempt of each kind.
fn charges_once(record: &Record, step: &StepOf<Alone>) -> Verdict {
    let after = &step.phase;
    let rise = |before: u8, after: u8| after.saturating_sub(before);
    let charged = rise(record.deploy_attempts, after.deploy_attempts)
        + rise(record.undeploy_attempts, after.undeploy_attempts)
        + rise(record.disruptions, after.disruptions);
    require("charges once", charged <= 1, || {
        format!("{charged} charges in one step: {record:?} to {after:?}")
    })
}

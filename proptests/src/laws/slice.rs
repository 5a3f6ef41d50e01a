//! The laws of a slice of a shared component, stepped alone as its environment steps it.

use super::{Verdict, is_pure, require, round_trips, settles, speaks};
use petri_machines::{
    kernel::{Machine, Outbox, Seen, machine::StepOf, seen::Ignorance},
    slice::{Command, Notice, Permission, Phase, Record, Slice, Standing, World},
};

/// A slice as a machine of its own: its parent's settle loop without the parent.
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
        Slice::dispatch(record, world, out)
    }

    fn status(_: &StepOf<Self>, _: &World) {}

    fn is_watched(_: &Command) -> bool {
        true
    }
}

/// Asks every law of a slice.
///
/// # Errors
/// The first law that does not hold.
pub fn all(record: &Record, world: &World) -> Verdict {
    let step = settles::<Alone>(record, world)?;
    let settled = matches!(step.phase.phase, Phase::Provisioned | Phase::Failed | Phase::Gone { .. });
    speaks(&step, settled, world.now)?;
    is_pure::<Alone>(record, world, &step)?;
    round_trips(record)?;
    leaves_one_way(record, world, &step)?;
    registers_only_where_there_is_a_place(world, &step)?;
    provisions_only_what_is_owed(world, &step)?;
    gives_its_place_up_last(record, world, &step)?;
    ignorance_is_safe(record, world, &step)?;
    charges_once(record, &step)
}

/// Law 3: what leaves never comes back by itself, and makes nothing but deprovision Jobs.
fn leaves_one_way(record: &Record, world: &World, step: &StepOf<Alone>) -> Verdict {
    let law = "leaves one way";
    let after = &step.phase.phase;
    require(law, !record.phase.leaves() || after.leaves(), || format!("{record:?} came back to {after:?}"))?;
    let going = world.permission == Permission::Leaving;
    require(law, !going || after.leaves(), || format!("{record:?} stays in {after:?}"))?;
    let makes = |command: &Command| match command {
        Command::Register(_) | Command::Oblige { .. } | Command::Bind => true,
        Command::CreateJob { op, .. } => !op.removes(),
        Command::DeleteJob { .. }
        | Command::Acquit { .. }
        | Command::Unbind { .. }
        | Command::Release(_)
        | Command::Abandon { .. } => false,
    };
    let made = step.commands.iter().find(|command| makes(command));
    require(law, !after.leaves() || made.is_none(), || format!("makes while leaving: {made:?}"))
}

/// S5: a registration is asked for only while the list that is written has a place, and the shared component stays.
fn registers_only_where_there_is_a_place(world: &World, step: &StepOf<Alone>) -> Verdict {
    let law = "registers only where there is a place";
    let Some(Command::Register(at)) = step.commands.iter().find(|one| matches!(one, Command::Register(_)))
    else {
        return Ok(());
    };
    let standing = world.view.as_ref().and_then(|view| view.standing.known());
    let free = match standing {
        Some(Standing::There { version, deleting, capacity, roster, queue, .. }) => {
            *version == at.version && !deleting && !roster.is_full(*capacity) && queue.is_empty()
        }
        Some(Standing::Absent) | None => false,
    };
    require(law, free, || format!("{at:?} in {standing:?}"))
}

/// S6, its beginning: nothing is provisioned before the obligation that undoes it stands; and S7: one that stands is
/// never made anew.
fn provisions_only_what_is_owed(world: &World, step: &StepOf<Alone>) -> Verdict {
    let law = "provisions only what is owed";
    let obligation = world.view.as_ref().and_then(|view| view.obligation.known());
    for command in &step.commands {
        let right = match command {
            Command::Oblige { replaces, .. } => {
                obligation.is_some_and(|found| found.as_ref().map(|found| &found.uid) == replaces.as_ref())
            }
            Command::Bind => matches!(obligation, Some(Some(_))),
            Command::Register(_)
            | Command::CreateJob { .. }
            | Command::DeleteJob { .. }
            | Command::Acquit { .. }
            | Command::Unbind { .. }
            | Command::Release(_)
            | Command::Abandon { .. } => true,
        };
        require(law, right, || format!("{command:?} with {obligation:?}"))?;
    }
    Ok(())
}

/// S6, its end: the place is given up only when no obligation is known to stand, and never out of ignorance.
fn gives_its_place_up_last(record: &Record, world: &World, step: &StepOf<Alone>) -> Verdict {
    let law = "gives its place up last";
    let obligation = world.view.as_ref().map(|view| &view.obligation);
    let released = step.commands.iter().any(|command| matches!(command, Command::Release(_)));
    let gone = matches!(step.phase.phase, Phase::Gone { forced: false })
        && !matches!(record.phase, Phase::Gone { .. });
    let met = matches!(obligation, Some(Seen::Known(None)));
    require(law, !(released || gone) || met, || format!("{:?} with {obligation:?}", step.commands))
}

/// Law 4: what is not known never adds a deletion, a deprovision Job or a release.
fn ignorance_is_safe(record: &Record, world: &World, step: &StepOf<Alone>) -> Verdict {
    let destructive = |command: &Command| match command {
        Command::CreateJob { op, .. } if op.removes() => Some("deprovision".to_owned()),
        Command::DeleteJob { uid, .. } => Some(format!("delete {uid}")),
        Command::Acquit { .. } | Command::Unbind { .. } | Command::Release(_) => Some(format!("{command:?}")),
        Command::Register(_)
        | Command::Oblige { .. }
        | Command::Bind
        | Command::CreateJob { .. }
        | Command::Abandon { .. } => None,
    };
    let known: Vec<_> = step.commands.iter().filter_map(destructive).collect();
    let why = Ignorance::Failed;
    for part in 0..5 {
        let mut blind = world.clone();
        match (&mut blind.view, part) {
            (Some(view), 0) => view.standing = Seen::Unknown(why),
            (Some(view), 1) => view.obligation = Seen::Unknown(why),
            (Some(view), 2) => view.binding = Seen::Unknown(why),
            (Some(view), 3) => view.jobs = Seen::Unknown(why),
            (view, _) => *view = None,
        }
        let Ok(step) = Alone::step(record.clone(), &blind) else { continue };
        let added = step.commands.iter().filter_map(destructive).find(|one| !known.contains(one));
        require("ignorance is safe", added.is_none(), || format!("{added:?} out of ignorance: {blind:?}"))?;
    }
    Ok(())
}

/// Invariant S12 at one step: one look charges at most one attempt.
fn charges_once(record: &Record, step: &StepOf<Alone>) -> Verdict {
    let after = &step.phase;
    let rise = |before: u8, after: u8| after.saturating_sub(before);
    let charged = rise(record.provision_attempts, after.provision_attempts)
        + rise(record.deprovision_attempts, after.deprovision_attempts)
        + rise(record.disruptions, after.disruptions);
    require("charges once", charged <= 1, || format!("{charged} charges: {record:?} to {after:?}"))
}

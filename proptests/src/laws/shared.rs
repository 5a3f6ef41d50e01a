//! The laws of a shared component.

use super::{Verdict, is_pure, require, round_trips, settles, speaks};
use petri_machines::{
    kernel::{Machine, Seen, machine::StepOf, seen::Ignorance},
    shared::{Cleanup, Command, Phase, Record, Shared, World, roster},
};
use std::collections::BTreeSet;

/// Asks every law of a shared component and returns the step they were asked of.
///
/// # Errors
/// The first law that does not hold.
pub fn all(record: &Record, world: &World) -> Result<StepOf<Shared>, super::Breach> {
    let step = settles::<Shared>(record, world)?;
    let settled = match step.phase.phase {
        Phase::Ready { .. } | Phase::Failed { .. } => true,
        Phase::Pending { .. } | Phase::Deploying { .. } | Phase::Terminating { .. } => false,
    };
    speaks(&step, settled, world.now)?;
    is_pure::<Shared>(record, world, &step)?;
    round_trips(record)?;
    let distinct: BTreeSet<&Command> = step.commands.iter().collect();
    require("asks once", distinct.len() == step.commands.len(), || format!("twice: {:?}", step.commands))?;
    terminates_one_way(record, world, &step)?;
    goes_after_its_consumers(world, &step)?;
    frees_no_place_out_of_ignorance(world)?;
    ignorance_is_safe(record, world, &step)?;
    Ok(step)
}

fn terminates_one_way(record: &Record, world: &World, step: &StepOf<Shared>) -> Verdict {
    let law = "terminates one way";
    let terminating = |record: &Record| matches!(record.phase, Phase::Terminating { .. });
    let doomed = world.deletion || terminating(record);
    require(law, !doomed || terminating(&step.phase), || format!("lives on: {:?}", step.phase.phase))?;
    let creates = step.commands.iter().find(|command| !matches!(command, Command::Cleanup(_)));
    require(law, !doomed || creates.is_none(), || format!("still creates {creates:?}"))?;
    let drops = step.commands.contains(&Command::Cleanup(Cleanup::DropFinalizer));
    let cleaned = step.phase.phase == Phase::Terminating { cleaned: true };
    require(law, !drops || cleaned, || "the finalizer goes before the clean-up".to_owned())
}

/// S6: nothing of a shared component goes while a place is held or an obligation stands, or might.
fn goes_after_its_consumers(world: &World, step: &StepOf<Shared>) -> Verdict {
    let law = "goes after its consumers";
    if !matches!(step.phase.phase, Phase::Terminating { cleaned: false }) {
        return Ok(());
    }
    let takes = |command: &Command| {
        matches!(
            command,
            Command::Cleanup(
                Cleanup::CreateUndeployJob { .. }
                    | Cleanup::DeleteInstance { .. }
                    | Cleanup::ReleaseProvider(_)
            )
        )
    };
    let taken = step.commands.iter().find(|one| takes(one));
    let left = roster(world).consumers.is_empty()
        && matches!(&world.obligations, Seen::Known(all) if all.is_empty());
    require(law, taken.is_none() || left, || format!("{taken:?} with {:?}", world.obligations))
}

/// S10: with less known, at least as many hold their places.
fn frees_no_place_out_of_ignorance(world: &World) -> Verdict {
    let law = "frees no place out of ignorance";
    let known = roster(world).consumers;
    let why = Ignorance::Failed;
    for blind in [
        World { obligations: Seen::Unknown(why), ..world.clone() },
        World { living: Seen::Unknown(why), ..world.clone() },
    ] {
        let held = roster(&blind).consumers;
        let read = &world.roster.consumers;
        let freed = known.iter().find(|one| read.contains(one) && !held.contains(one));
        require(law, freed.is_none(), || format!("{freed:?} is freed in {blind:?}"))?;
    }
    Ok(())
}

/// Law 4: whatever fact is replaced by ignorance, nothing destructive is added.
fn ignorance_is_safe(record: &Record, world: &World, step: &StepOf<Shared>) -> Verdict {
    let why = Ignorance::Failed;
    let is_decided = record.memory.workload.as_ref().is_some_and(|workload| {
        let ailment = workload.ailment.as_ref();
        workload.phase.leaves() || ailment.is_some_and(|one| one.is_over(world.now, world.pod_failure_secs))
    });
    let jobs = world.jobs.known().into_iter().flatten();
    let due: Vec<_> = jobs.filter(|job| is_decided || !petri_machines::job::is_live(job)).collect();
    let destructive = |command: &Command| match command {
        // To replace a Job that has ended is ordinary work, and so is to end one that was unable to start for too long.
        Command::Cleanup(Cleanup::DeleteJob { uid, .. }) if due.iter().any(|job| job.uid == *uid) => None,
        Command::Cleanup(Cleanup::DeletePayload { uid, .. })
            if due.iter().any(|job| job.payload.as_ref() == Some(uid)) =>
        {
            None
        }
        Command::Cleanup(Cleanup::CreateUndeployJob { .. }) => Some("undeploy".to_owned()),
        Command::Cleanup(other) => Some(format!("{other:?}")),
        _ => None,
    };
    let known: Vec<_> = step.commands.iter().filter_map(destructive).collect();
    let blinds = [
        World { intent: Seen::Unknown(why), ..world.clone() },
        World { instance: Seen::Unknown(why), ..world.clone() },
        World { jobs: Seen::Unknown(why), ..world.clone() },
        World { readiness: Seen::Unknown(why), ..world.clone() },
        World { obligations: Seen::Unknown(why), ..world.clone() },
        World { living: Seen::Unknown(why), ..world.clone() },
        World { providers: Default::default(), ..world.clone() },
    ];
    for blind in blinds {
        let Ok(step) = Shared::step(record.clone(), &blind) else { continue };
        let added = step.commands.iter().filter_map(destructive).find(|one| !known.contains(one));
        require("ignorance is safe", added.is_none(), || format!("{added:?} out of ignorance: {blind:?}"))?;
    }
    Ok(())
}

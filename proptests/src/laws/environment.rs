//! The laws of an environment.

use super::{Verdict, blindness::Blindness, is_pure, require, round_trips, settles, speaks};
use petri_machines::{
    component::Ailment,
    environment::{
        Binding, Cleanup, Command, Environment, NamespaceRef, Occupancy, Phase, Record, Sharing, Unsharing,
        World,
    },
    job::JobView,
    kernel::{Seen, machine::StepOf},
    names::NamespaceName,
};
use std::{collections::BTreeSet, rc::Rc};

/// Asks every law of an environment and returns the step they were asked of.
///
/// # Errors
/// The first law that does not hold.
pub fn all(record: &Record, world: &World) -> Result<StepOf<Environment>, super::Breach> {
    all_knowing(record, world, &mut |blindness| Rc::new(blindness.commands(record, world)))
}

/// Asks every law of an environment, of one who may know already what is asked for without some fact.
///
/// # Errors
/// The first law that does not hold.
pub fn all_knowing(
    record: &Record,
    world: &World,
    blind: &mut dyn FnMut(&Blindness) -> Rc<Vec<Command>>,
) -> Result<StepOf<Environment>, super::Breach> {
    let step = settles::<Environment>(record, world)?;
    speaks(&step, is_settled(&step.phase.phase), world.now)?;
    is_pure::<Environment>(record, world, &step)?;
    round_trips(record)?;
    terminates_one_way(record, world, &step)?;
    keeps_its_namespace(record, &step)?;
    writes_only_where_it_is_owner(world, &step)?;
    asks_once(&step)?;
    ignorance_is_safe(record, world, &step, blind)?;
    Ok(step)
}

fn is_settled(phase: &Phase) -> bool {
    match phase {
        Phase::Ready { .. } | Phase::Failed { .. } => true,
        Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. } => false,
    }
}

/// Law 3: Terminating leaves only to gone, with commands of leaving only; the finalizer goes last.
fn terminates_one_way(record: &Record, world: &World, step: &StepOf<Environment>) -> Verdict {
    let law = "terminates one way";
    let terminating = |record: &Record| matches!(record.phase, Phase::Terminating { .. });
    let doomed = world.deletion || terminating(record);
    require(law, !doomed || terminating(&step.phase), || format!("lives on: {:?}", step.phase.phase))?;
    let creates = step.commands.iter().find(|command| !matches!(command, Command::Cleanup(_)));
    require(law, !doomed || creates.is_none(), || format!("still creates {creates:?}"))?;
    let cleaned = step.phase.phase == Phase::Terminating { cleaned: true };
    for command in &step.commands {
        match command {
            Command::Cleanup(Cleanup::DeleteNamespace(_)) => {
                require(law, cleaned, || "the namespace goes before it is cleaned up".to_owned())?;
            }
            Command::Cleanup(Cleanup::DropFinalizer) => {
                require(law, cleaned, || "the finalizer goes before the clean-up".to_owned())?;
                let left = owned(&step.phase, world);
                require(law, left.is_none(), || format!("the finalizer goes before {left:?}"))?;
                require(law, !world.held, || "the finalizer goes while held".to_owned())?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns a namespace that is known to be there and to be this environment's, or that nobody could read.
fn owned(record: &Record, world: &World) -> Option<NamespaceName> {
    let binding = &record.memory.binding;
    let unread = match (binding, &world.namespaces.assigned) {
        (Binding::Unassigned | Binding::Claimed { .. }, Seen::Unknown(_)) => Some("nobody-knows"),
        _ => None,
    };
    let ours = |name: &&NamespaceName| match world.namespaces.occupancy.get(*name) {
        Some(Occupancy::Ours { uid, .. }) => {
            let recorded = binding.name() == Some(*name);
            !recorded || binding.uid().is_none_or(|bound| bound == uid)
        }
        Some(Occupancy::Absent | Occupancy::Foreign) | None => false,
    };
    let assigned = world.namespaces.assigned.known().into_iter().flatten();
    let looked_at = assigned.chain(binding.name()).filter(|name| name.is_candidate(&world.identity.uid));
    unread
        .and_then(|name| NamespaceName::new(name).ok())
        .or_else(|| looked_at.into_iter().find(|name| ours(name)).cloned())
}

/// S2: once bound, always bound to the same namespace; a claim moves only before anything was created.
fn keeps_its_namespace(record: &Record, step: &StepOf<Environment>) -> Verdict {
    let (before, after) = (&record.memory.binding, &step.phase.memory.binding);
    let bound = matches!(before, Binding::Bound { .. });
    require("keeps its namespace", !bound || before == after, || format!("{before:?} became {after:?}"))
}

/// S1: every write into a namespace names one that this very world shows as ours, by labels and by UID.
fn writes_only_where_it_is_owner(world: &World, step: &StepOf<Environment>) -> Verdict {
    for command in &step.commands {
        let Some(namespace) = namespace_of(command) else { continue };
        let confirmed = match world.namespaces.occupancy.get(&namespace.name) {
            Some(Occupancy::Ours { uid, .. }) => *uid == namespace.uid,
            Some(Occupancy::Absent | Occupancy::Foreign) | None => false,
        };
        require("writes only where it is owner", confirmed, || format!("{command:?} into what is not ours"))?;
        let derived = namespace.name.is_candidate(&world.identity.uid);
        require("writes only where it is owner", derived, || format!("{command:?} into a foreign name"))?;
    }
    Ok(())
}

/// Returns the namespace that a command writes into or deletes.
pub fn namespace_of(command: &Command) -> Option<&NamespaceRef> {
    match command {
        Command::AddFinalizer | Command::CreateNamespace { .. } => None,
        Command::Share(Sharing::Bind { namespace, .. }) => Some(namespace),
        Command::Share(_) => None,
        Command::BindOperator(namespace)
        | Command::CreateDeployerAccount(namespace)
        | Command::BindDeployer(namespace)
        | Command::CreatePayload { namespace, .. }
        | Command::CreateJob { namespace, .. }
        | Command::Furnish { namespace, .. } => Some(namespace),
        Command::Cleanup(cleanup) => match cleanup {
            Cleanup::DeleteSelf | Cleanup::DropFinalizer => None,
            Cleanup::Unshare(Unsharing::Unbind { namespace, .. }) => Some(namespace),
            Cleanup::Unshare(_) => None,
            Cleanup::DeletePayload { namespace, .. }
            | Cleanup::DeleteJob { namespace, .. }
            | Cleanup::CreateUndeployJob { namespace, .. }
            | Cleanup::Unfurnish { namespace, .. }
            | Cleanup::DeleteNamespace(namespace) => Some(namespace),
        },
    }
}

fn asks_once(step: &StepOf<Environment>) -> Verdict {
    let distinct: BTreeSet<&Command> = step.commands.iter().collect();
    require("asks once", distinct.len() == step.commands.len(), || format!("twice: {:?}", step.commands))
}

/// Law 4: whatever fact is replaced by ignorance, nothing destructive is added.
fn ignorance_is_safe(
    record: &Record,
    world: &World,
    step: &StepOf<Environment>,
    blind: &mut dyn FnMut(&Blindness) -> Rc<Vec<Command>>,
) -> Verdict {
    let known: Vec<_> = step.commands.iter().filter_map(|one| destructive(one, record, world)).collect();
    for blindness in Blindness::all(record, world) {
        let commands = blind(&blindness);
        let mut added = commands.iter().filter_map(|one| destructive(one, record, world));
        let added = added.find(|one| !known.contains(one));
        require("ignorance is safe", added.is_none(), || format!("without {blindness:?}: {added:?}"))?;
    }
    Ok(())
}

/// Returns what a command destroys, without the serial, which is no part of the decision. To replace a Job that has
/// ended is ordinary work: a failure elsewhere that nobody could read does not stop it; nor is it ignorance that ends
/// the Job of what had been decided to leave, or of what was unable to start for too long.
fn destructive(command: &Command, record: &Record, world: &World) -> Option<Command> {
    let Command::Cleanup(cleanup) = command else { return None };
    let is_due = |job: &JobView, is_decided: bool| is_decided || !petri_machines::job::is_live(job);
    let over = |ailment: &Option<Ailment>| {
        ailment.as_ref().is_some_and(|ailment| ailment.is_over(world.now, world.pod_failure_secs))
    };
    let components = world.components.iter().flat_map(|(name, view)| {
        let stored = record.memory.components.get(name);
        let decided = stored.is_some_and(|stored| stored.phase.leaves() || over(&stored.ailment));
        view.jobs.known().into_iter().flatten().filter(move |job| is_due(job, decided))
    });
    let slices = world.slices.known().into_iter().flatten().flat_map(|(name, view)| {
        let stored = record.memory.slices.get(name);
        let decided = stored.is_some_and(|stored| stored.phase.leaves() || over(&stored.ailment));
        view.jobs.known().into_iter().flatten().filter(move |job| is_due(job, decided))
    });
    let mut due = components.chain(slices);
    let is_ordinary = match cleanup {
        Cleanup::DeleteJob { uid, .. } | Cleanup::Unshare(Unsharing::DeleteJob { uid, .. }) => {
            due.any(|job| job.uid == *uid)
        }
        Cleanup::DeletePayload { uid, .. } => due.any(|job| job.payload.as_ref() == Some(uid)),
        _ => false,
    };
    if is_ordinary {
        return None;
    }
    let mut cleanup = cleanup.clone();
    match &mut cleanup {
        Cleanup::CreateUndeployJob { serial, .. }
        | Cleanup::Unshare(Unsharing::CreateDeprovisionJob { serial, .. }) => *serial = 0,
        Cleanup::DeleteSelf
        | Cleanup::DeletePayload { .. }
        | Cleanup::DeleteJob { .. }
        | Cleanup::Unfurnish { .. }
        | Cleanup::Unshare(_)
        | Cleanup::DeleteNamespace(_)
        | Cleanup::DropFinalizer => {}
    }
    Some(Command::Cleanup(cleanup))
}

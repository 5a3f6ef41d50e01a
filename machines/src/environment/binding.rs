//! The durable lock on a workload namespace, one committed stage after the other.

use super::{
    command::{Command, NamespaceRef, Notice},
    phase::{Binding, Cause, Failure, Memory},
    status::Reason,
    world::{Occupancy, World},
};
use crate::{
    kernel::{Outbox, Seen, WakeReason},
    names::NamespaceName,
};

/// Stages that one step may pass: every candidate once, and the three stages.
const STAGES_MAX: usize = 16;
/// Seconds before a namespace that could not be read is read again.
const REREAD_SECS: u64 = 2;

/// What one look at the lock came to.
enum Stage {
    /// The lock moved; look again.
    Next(Binding),
    /// It waits for a command or for the cluster.
    Waits,
    /// Work may begin.
    Bound,
    /// It can never be had.
    Impossible(Failure),
}

/// Advances the lock as far as the world allows. Returns whether work may begin.
///
/// # Errors
/// A failure when no namespace can be had.
pub(super) fn advance(
    memory: &mut Memory,
    world: &World,
    out: &mut Outbox<Command, Notice>,
) -> Result<bool, Failure> {
    for _ in 0..STAGES_MAX {
        match look(&memory.binding, world, out) {
            Stage::Next(binding) => memory.binding = binding,
            Stage::Waits => return Ok(false),
            Stage::Bound => return Ok(true),
            Stage::Impossible(failure) => return Err(failure),
        }
    }
    Ok(false)
}

/// Returns what stands at a name; a name that cannot be ours is foreign whatever stands there.
pub(super) fn occupancy<'w>(world: &'w World, name: &NamespaceName) -> Option<&'w Occupancy> {
    if name.is_candidate(&world.identity.uid) {
        world.namespaces.occupancy.get(name)
    } else {
        Some(&Occupancy::Foreign)
    }
}

fn look(binding: &Binding, world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    match binding {
        Binding::Unassigned => assign(world, out),
        Binding::Claimed { name } => claim(name, world, out),
        Binding::Bound { .. } => Stage::Bound,
    }
}

/// Looks for an assignment by label first: a lost status must not lead to a second namespace.
fn assign(world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    let Seen::Known(assigned) = &world.namespaces.assigned else { return unread(world, out) };
    match assigned.as_slice() {
        [] => choose(world, out),
        [name] => claim(name, world, out),
        more => {
            let names: Vec<&str> = more.iter().map(NamespaceName::as_str).collect();
            let message = format!("several namespaces bear this environment's UID: {}", names.join(", "));
            impossible(Reason::NamespaceNotManaged, message)
        }
    }
}

/// Chooses the first candidate that is free or already ours.
fn choose(world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    for name in NamespaceName::candidates(&world.identity.uid) {
        match world.namespaces.occupancy.get(&name) {
            Some(Occupancy::Foreign) => {}
            Some(Occupancy::Absent | Occupancy::Ours { .. }) => {
                return Stage::Next(Binding::Claimed { name });
            }
            None => return unread(world, out),
        }
    }
    impossible(
        Reason::NamespaceNotManaged,
        "all twelve names of this environment's namespace are taken".to_owned(),
    )
}

fn claim(name: &NamespaceName, world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    match occupancy(world, name) {
        None => unread(world, out),
        Some(Occupancy::Absent) => {
            out.ensure(Command::CreateNamespace { name: name.clone() });
            out.waiting_on("the namespace to appear", name.as_str());
            Stage::Waits
        }
        Some(Occupancy::Foreign) if !name.is_candidate(&world.identity.uid) => impossible(
            Reason::InvalidConfiguration,
            format!("namespace {name} is none of this environment's names"),
        ),
        Some(Occupancy::Foreign) => choose(world, out),
        Some(Occupancy::Ours { terminating: true, .. }) => {
            out.waiting_on("the namespace to finish terminating", name.as_str());
            Stage::Waits
        }
        Some(Occupancy::Ours { uid, .. }) => {
            access(&NamespaceRef { name: name.clone(), uid: uid.clone() }, world, out)
        }
    }
}

/// Sets up the rights inside the namespace, the operator's own first, they allow the rest. Its UID is recorded with the
/// first work that is committed in it: until then nothing is lost when it is replaced.
fn access(namespace: &NamespaceRef, world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    let Seen::Known(access) = world.namespaces.access else { return unread(world, out) };
    if access.operator && access.account && access.deployer {
        return Stage::Next(Binding::Bound { namespace: namespace.clone() });
    }
    if !access.operator {
        out.ensure(Command::BindOperator(namespace.clone()));
    }
    if !access.account {
        out.ensure(Command::CreateDeployerAccount(namespace.clone()));
    }
    if !access.deployer {
        out.ensure(Command::BindDeployer(namespace.clone()));
    }
    out.waiting_on("the rights in the namespace", namespace.name.as_str());
    Stage::Waits
}

fn unread(world: &World, out: &mut Outbox<Command, Notice>) -> Stage {
    out.wake_at(world.now.after(REREAD_SECS), WakeReason::Unreadable);
    out.waiting_on("namespaces to be readable", "");
    Stage::Waits
}

fn impossible(reason: Reason, message: String) -> Stage {
    Stage::Impossible(Failure { reason, message, cause: Cause::Namespace })
}

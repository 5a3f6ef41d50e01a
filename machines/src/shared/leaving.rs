//! Terminating: the consumers leave, then the workload goes, then its secret, then its Jobs, then the finalizers.

use super::{
    Instance, Memory, Phase, World,
    command::{Cleanup, Command, Notice, ProviderRef},
    states::{Cx, step_workload},
    status::roster,
};
use crate::{
    component::{self, Permission},
    kernel::{Outbox, Seen},
};
use statig::blocking::Outcome::{self, Handled, Transition};

pub(super) fn terminating(cleaned: bool, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if !cleaned {
        return if clean(cx) { Transition(Phase::Terminating { cleaned: true }) } else { Handled };
    }
    if !is_swept(cx) {
        return Handled;
    }
    let names: Vec<String> = cx.memory.providers.iter().cloned().collect();
    let mut held = false;
    for name in names {
        held |= !release_provider(&name, cx.memory, cx.world, cx.out);
    }
    if held {
        cx.out.waiting_on("the provider's finalizer to go", "");
    } else if cx.world.finalizer {
        cx.out.ensure(Command::Cleanup(Cleanup::DropFinalizer));
        cx.out.waiting_on("the own finalizer to go", "");
    } else {
        cx.out.waiting_on("the finalizers of others", "");
    }
    Handled
}

/// Takes down what was made, in order. Returns whether nothing is left of it, or it was given up.
fn clean(cx: &mut Cx<'_>) -> bool {
    let roster = roster(cx.world);
    match &cx.world.obligations {
        Seen::Unknown(_) => {
            cx.unreadable();
            return false;
        }
        Seen::Known(obligations) if !roster.consumers.is_empty() || !obligations.is_empty() => {
            cx.out.waiting_on("its consumers to leave", roster.holders());
            return false;
        }
        Seen::Known(_) => {}
    }
    // Under a lost record, its Jobs are what tells of a workload.
    if cx.memory.workload.is_none() && !cx.world.jobs.known().is_some_and(Vec::is_empty) {
        cx.memory.workload = Some(component::Record::new(0));
    }
    step_workload(cx.memory, cx.world, Permission::Leaving { turn: true }, None, cx.out);
    let gone = |one: &component::Record| matches!(one.phase, component::Phase::Gone { .. });
    if cx.memory.workload.as_ref().is_some_and(|one| !gone(one)) {
        cx.out.waiting_on("the workload to be gone", "");
        return false;
    }
    match &cx.world.instance {
        Seen::Known(Instance::Absent) => true,
        Seen::Unknown(_) => {
            cx.unreadable();
            false
        }
        Seen::Known(Instance::There { uid, .. }) => {
            cx.out.ensure(Command::Cleanup(Cleanup::DeleteInstance { uid: uid.clone() }));
            cx.out.waiting_on("the instance secret to go", "");
            false
        }
    }
}

/// Removes the Jobs, which no namespace takes with it; only now, since they are what tells of a workload under a lost
/// record. Returns whether none is left.
fn is_swept(cx: &mut Cx<'_>) -> bool {
    let Seen::Known(jobs) = &cx.world.jobs else {
        cx.unreadable();
        return false;
    };
    for job in jobs.iter().filter(|job| !job.deleting) {
        if let Some(uid) = &job.payload {
            let (name, uid) = (job.name.clone(), uid.clone());
            cx.out.ensure(Command::Cleanup(Cleanup::DeletePayload { name, uid }));
        }
        let (name, uid) = (job.name.clone(), job.uid.clone());
        cx.out.ensure(Command::Cleanup(Cleanup::DeleteJob { name, uid }));
    }
    if !jobs.is_empty() {
        cx.out.waiting_on("its Jobs to go", "");
    }
    jobs.is_empty()
}

/// Takes the finalizer from a provider that no other shared component uses. Returns whether nothing is left to do.
pub(super) fn release_provider(
    name: &str,
    memory: &mut Memory,
    world: &World,
    out: &mut Outbox<Command, Notice>,
) -> bool {
    match world.providers.get(name) {
        None => {
            out.wake_at(world.now.after(1), crate::kernel::WakeReason::Unreadable);
            out.waiting_on("a readable cluster", name);
            false
        }
        Some(Some(provider)) if provider.finalizer && !provider.others => {
            let (uid, version) = (provider.uid.clone(), provider.version.clone());
            let provider = ProviderRef { name: name.to_owned(), uid, version };
            out.ensure(Command::Cleanup(Cleanup::ReleaseProvider(provider)));
            false
        }
        Some(_) => {
            memory.providers.remove(name);
            true
        }
    }
}

//! Terminating: the components go in reverse, then the namespace, then the finalizer.

use super::{
    binding,
    children::{self, Mode},
    command::{Cleanup, Command, NamespaceRef},
    phase::{Binding, Phase},
    states::Cx,
    world::{Occupancy, World},
};
use crate::{component, kernel::Seen};
use statig::blocking::Outcome::{self, Handled, Transition};

pub(super) fn terminating(cleaned: bool, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if cx.world.held {
        cx.out.waiting_on("the hold to be removed", "");
        return Handled;
    }
    let Some(namespace) = namespace(cx) else { return Handled };
    let standing = match &namespace {
        None => Standing::Nothing,
        Some(namespace) => standing(namespace, cx.world),
    };
    if !cleaned {
        if !clean(namespace.as_ref(), &standing, cx) {
            return Handled;
        }
        return Transition(Phase::Terminating { cleaned: true });
    }
    match (standing, namespace) {
        (Standing::Unknown, _) => cx.unreadable(),
        (Standing::Usable, Some(namespace)) => {
            cx.out.ensure(Command::Cleanup(Cleanup::DeleteNamespace(namespace.clone())));
            cx.out.waiting_on("the namespace to be deleted", namespace.name.as_str());
        }
        (Standing::Leaving(why), _) => cx.out.waiting_on("the namespace to finish terminating", why),
        (Standing::Nothing | Standing::Usable, _) if cx.world.finalizer => {
            cx.out.ensure(Command::Cleanup(Cleanup::DropFinalizer));
        }
        (Standing::Nothing | Standing::Usable, _) => cx.out.waiting_on("the finalizers of others", ""),
    }
    Handled
}

/// What is left of the namespace that has to go.
enum Standing {
    Unknown,
    /// It is ours and stands.
    Usable,
    /// It is ours and is being deleted; the text says what blocks it.
    Leaving(String),
    /// It is gone, or was never ours.
    Nothing,
}

/// Finds the namespace that has to go: the recorded one, or one that is found by label when the record was lost.
/// `None` while it cannot be told; `Some(None)` when there is none.
fn namespace(cx: &mut Cx<'_>) -> Option<Option<NamespaceRef>> {
    if let Binding::Created { namespace } | Binding::Bound { namespace } = &cx.memory.binding {
        return Some(Some(namespace.clone()));
    }
    let mut names: Vec<_> = cx.memory.binding.name().cloned().into_iter().collect();
    match &cx.world.namespaces.assigned {
        Seen::Known(assigned) => names.extend(assigned.iter().cloned()),
        Seen::Unknown(_) => {
            cx.unreadable();
            return None;
        }
    }
    for name in names {
        match binding::occupancy(cx.world, &name) {
            None => {
                cx.unreadable();
                return None;
            }
            Some(Occupancy::Ours { uid, .. }) => return Some(Some(NamespaceRef { name, uid: uid.clone() })),
            Some(Occupancy::Absent | Occupancy::Foreign) => {}
        }
    }
    Some(None)
}

fn standing(namespace: &NamespaceRef, world: &World) -> Standing {
    match binding::occupancy(world, &namespace.name) {
        None => Standing::Unknown,
        Some(Occupancy::Ours { uid, terminating, blocked }) if *uid == namespace.uid => {
            if *terminating {
                Standing::Leaving(blocked.clone().unwrap_or_else(|| namespace.name.to_string()))
            } else {
                Standing::Usable
            }
        }
        Some(_) => Standing::Nothing,
    }
}

/// Lets the components go. Returns whether all of them are gone or given up.
fn clean(namespace: Option<&NamespaceRef>, standing: &Standing, cx: &mut Cx<'_>) -> bool {
    let (Some(namespace), true) = (namespace, !matches!(standing, Standing::Nothing)) else {
        for record in cx.memory.components.values_mut() {
            if !matches!(record.phase, component::Phase::Gone { .. }) {
                record.phase = component::Phase::Gone { forced: false };
            }
        }
        return true;
    };
    let mode = match standing {
        Standing::Unknown => {
            cx.unreadable();
            return false;
        }
        Standing::Usable => Mode::Leaving,
        Standing::Leaving(_) | Standing::Nothing => Mode::Abandoned,
    };
    // Under a lost record, Jobs in the namespace are what tells of components.
    for (name, view) in &cx.world.components {
        if view.jobs.known().is_some_and(|jobs| !jobs.is_empty()) {
            cx.memory.components.entry(name.clone()).or_insert_with(|| component::Record::new(0));
        }
    }
    children::tend(cx.memory, cx.world, namespace, mode, cx.out);
    cx.memory.components.values().all(|record| matches!(record.phase, component::Phase::Gone { .. }))
}

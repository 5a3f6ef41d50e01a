//! Terminating: the components go in reverse, then the namespace, then the finalizer.

use super::{
    binding,
    children::{self, Mode},
    command::{Cleanup, Command, NamespaceRef},
    furniture,
    phase::{Binding, Phase},
    slices,
    states::Cx,
    world::{Occupancy, World},
};
use crate::{
    component,
    kernel::{Seen, seen::Ignorance},
};
use statig::blocking::Outcome::{self, Handled, Transition};

/// What is awaited from the namespace's deletion to the end, in the same words: each other word costs a write.
const NAMESPACE_GONE: &str = "the namespace to be gone";

pub(super) fn terminating(cleaned: bool, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if cx.world.held {
        cx.out.waiting_on("the hold to be removed", "");
        return Handled;
    }
    let Some(namespace) = namespace(cleaned, cx) else { return Handled };
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
            cx.out.waiting_on(NAMESPACE_GONE, namespace.name.as_str());
        }
        (Standing::Leaving(why), _) => cx.out.waiting_on(NAMESPACE_GONE, why),
        (Standing::Nothing | Standing::Usable, _) if cx.world.finalizer => {
            cx.out.ensure(Command::Cleanup(Cleanup::DropFinalizer));
            // The same words to the last: a status that nobody will read is not worth a write.
            let name = cx.memory.binding.name().map(ToString::to_string).unwrap_or_default();
            cx.out.waiting_on(NAMESPACE_GONE, name);
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

/// Finds the namespace that has to go: the recorded one, then any other that bears the label (the record was lost).
/// `None` while it cannot be told; `Some(None)` when there is none.
fn namespace(cleaned: bool, cx: &mut Cx<'_>) -> Option<Option<NamespaceRef>> {
    let mut names = Vec::new();
    match &cx.memory.binding {
        Binding::Bound { namespace } => {
            if !cleaned || !matches!(standing(namespace, cx.world), Standing::Nothing) {
                return Some(Some(namespace.clone()));
            }
        }
        Binding::Claimed { name } => names.push(name.clone()),
        Binding::Unassigned => {}
    }
    match &cx.world.namespaces.assigned {
        Seen::Known(assigned) => names.extend(assigned.iter().cloned()),
        Seen::Unknown(_) => {
            cx.unreadable();
            return None;
        }
    }
    // What bears the recorded name under another UID is not the namespace that was recorded.
    let lost = cx.memory.binding.uid().and(cx.memory.binding.name());
    for name in names.into_iter().filter(|name| Some(name) != lost) {
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

/// Lets the components go, then the slices, then the routes. Returns whether all of them are gone or given up.
fn clean(namespace: Option<&NamespaceRef>, standing: &Standing, cx: &mut Cx<'_>) -> bool {
    let Some(mode) = clean_components(namespace, standing, cx) else { return false };
    // What is shared is not in the namespace: it is deprovisioned whatever became of that.
    if !slices::leave(cx.memory, cx.world, cx.out) {
        if let Seen::Unknown(why) = cx.world.slices {
            cx.out.waiting_on("a readable cluster", untold(why));
            cx.unreadable();
        }
        return false;
    }
    // A namespace that goes by itself takes its routes along.
    match namespace.filter(|_| mode == Mode::Leaving) {
        Some(namespace) => furniture::unroute(cx.memory, cx.world, namespace, cx.out),
        None => true,
    }
}

/// Says what nobody can tell while the obligations cannot be listed: a right that is missing comes back by a person only.
fn untold(why: Ignorance) -> &'static str {
    match why {
        Ignorance::Forbidden => "no right to list the Secrets that tell what is still to be deprovisioned",
        Ignorance::Unsynced | Ignorance::Failed | Ignorance::NotAsked => "",
    }
}

/// Lets the components go. Returns how they went once all of them are gone or given up.
fn clean_components(
    namespace: Option<&NamespaceRef>,
    standing: &Standing,
    cx: &mut Cx<'_>,
) -> Option<Mode<'static>> {
    let (Some(namespace), true) = (namespace, !matches!(standing, Standing::Nothing)) else {
        for record in cx.memory.components.values_mut() {
            if !matches!(record.phase, component::Phase::Gone { .. }) {
                record.phase = component::Phase::Gone { forced: false };
            }
        }
        return Some(Mode::Abandoned);
    };
    let mode = match standing {
        Standing::Unknown => {
            cx.unreadable();
            return None;
        }
        Standing::Usable => Mode::Leaving,
        Standing::Leaving(_) | Standing::Nothing => Mode::Abandoned,
    };
    // Under a lost record, Jobs in the namespace are what tells of components.
    let mut told = true;
    for (name, view) in &cx.world.components {
        match &view.jobs {
            Seen::Known(jobs) if jobs.is_empty() => {}
            Seen::Known(_) => {
                cx.memory.components.entry(name.clone()).or_insert_with(|| component::Record::new(0));
            }
            Seen::Unknown(_) => told &= mode == Mode::Abandoned || cx.memory.components.contains_key(name),
        }
    }
    if !told {
        cx.unreadable();
    }
    if mode == Mode::Leaving {
        furniture::make_room(cx.memory, cx.world, namespace, cx.out);
    }
    children::tend(cx.memory, cx.world, namespace, mode, cx.out);
    let gone = |record: &component::Record| matches!(record.phase, component::Phase::Gone { .. });
    (told && cx.memory.components.values().all(gone)).then_some(mode)
}

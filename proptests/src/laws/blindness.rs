//! The facts of a world that may be unknown, one at a time.

use petri_machines::{
    environment::{Command, Environment, FurnitureId, Record, World},
    kernel::{Machine as _, Seen, seen::Ignorance},
    names::{ComponentName, NamespaceName},
};

const WHY: Ignorance = Ignorance::Failed;

/// A fact that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blindness {
    /// What the inputs ask for.
    Intent,
    /// Which namespaces bear the label.
    Assigned,
    /// The rights.
    Access,
    /// What stands at a name.
    Namespace(NamespaceName),
    /// A component's Jobs.
    Jobs(ComponentName),
    /// A component's readiness.
    Readiness(ComponentName),
    /// All of a component that the record knows.
    Component(ComponentName),
    /// Which slices there are.
    Slices,
    /// One of the four parts of a slice.
    Slice(ComponentName, u8),
    /// A piece of furniture.
    Furniture(FurnitureId),
    /// All of it.
    Anything,
}

impl Blindness {
    /// Returns everything that is known in this world, and so may be unknown in another.
    pub fn all(record: &Record, world: &World) -> Vec<Self> {
        let mut all = Vec::new();
        all.extend(world.intent.known().map(|_| Self::Intent));
        all.extend(world.namespaces.assigned.known().map(|_| Self::Assigned));
        all.extend(world.namespaces.access.known().map(|_| Self::Access));
        all.extend(world.namespaces.occupancy.keys().cloned().map(Self::Namespace));
        for (name, view) in &world.components {
            all.extend(view.jobs.known().map(|_| Self::Jobs(name.clone())));
            all.extend(view.readiness.known().map(|_| Self::Readiness(name.clone())));
            // Without a record, not to be named means to have no Jobs: a fact, not ignorance.
            if record.memory.components.contains_key(name) {
                all.push(Self::Component(name.clone()));
            }
        }
        if let Seen::Known(slices) = &world.slices {
            all.push(Self::Slices);
            all.extend(slices.keys().flat_map(|name| (0..4).map(|part| Self::Slice(name.clone(), part))));
        }
        all.extend(world.furniture.keys().cloned().map(Self::Furniture));
        all.push(Self::Anything);
        all
    }

    /// Returns the world without this fact.
    pub fn of(&self, world: &World) -> World {
        let mut blind = world.clone();
        match self {
            Self::Intent => blind.intent = Seen::Unknown(WHY),
            Self::Assigned => blind.namespaces.assigned = Seen::Unknown(WHY),
            Self::Access => blind.namespaces.access = Seen::Unknown(WHY),
            Self::Namespace(name) => drop(blind.namespaces.occupancy.remove(name)),
            Self::Jobs(name) => {
                if let Some(view) = blind.components.get_mut(name) {
                    view.jobs = Seen::Unknown(WHY);
                }
            }
            Self::Readiness(name) => {
                if let Some(view) = blind.components.get_mut(name) {
                    view.readiness = Seen::Unknown(WHY);
                }
            }
            Self::Component(name) => drop(blind.components.remove(name)),
            Self::Slices => blind.slices = Seen::Unknown(WHY),
            Self::Slice(name, part) => blind_slice(&mut blind, name, *part),
            Self::Furniture(id) => drop(blind.furniture.remove(id)),
            Self::Anything => blind_all(&mut blind),
        }
        blind
    }

    /// Returns what the environment asks for without this fact.
    pub fn commands(&self, record: &Record, world: &World) -> Vec<Command> {
        let step = Environment::step(record.clone(), &self.of(world));
        step.map(|step| step.commands).unwrap_or_default()
    }
}

fn blind_slice(world: &mut World, name: &ComponentName, part: u8) {
    let Seen::Known(slices) = &mut world.slices else { return };
    let Some(view) = slices.get_mut(name) else { return };
    match part {
        0 => view.standing = Seen::Unknown(WHY),
        1 => view.obligation = Seen::Unknown(WHY),
        2 => view.binding = Seen::Unknown(WHY),
        _ => view.jobs = Seen::Unknown(WHY),
    }
}

fn blind_all(world: &mut World) {
    world.furniture.clear();
    world.slices = Seen::Unknown(WHY);
    world.intent = Seen::Unknown(WHY);
    world.namespaces.assigned = Seen::Unknown(WHY);
    world.namespaces.access = Seen::Unknown(WHY);
    world.namespaces.occupancy.clear();
    for view in world.components.values_mut() {
        (view.jobs, view.readiness) = (Seen::Unknown(WHY), Seen::Unknown(WHY));
    }
}

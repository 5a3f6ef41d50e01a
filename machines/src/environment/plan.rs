//! What an environment's inputs ask for, after rendering: either a plan or the reason why there is none.

use super::{
    furniture::{FurnitureId, Route},
    status::Reason,
};
use crate::{
    component::Planned,
    names::{ComponentName, Digest},
    topology::{self, GraphError},
};
use std::collections::BTreeMap;

/// One component as its template and environment describe it, rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blueprint {
    /// Its name.
    pub name: ComponentName,
    /// What must be ready before it.
    pub depends_on: Vec<ComponentName>,
    /// The digest of all that its Job gets, but for serial and trace.
    pub payload: Digest,
    /// Whether the chart source can never mean something else.
    pub immutable: bool,
    /// Seconds it has to become ready.
    pub ready_within_secs: u64,
}

/// Everything rendered, in the order of deploying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Equal digests ask for the same; without attempt, serial or trace.
    pub digest: Digest,
    /// The components, in the template's order.
    pub components: Vec<PlannedComponent>,
    /// What the namespace carries besides, with what it is made from.
    pub furniture: BTreeMap<FurnitureId, Digest>,
    /// Where requests come in: one of the furniture.
    pub route: Option<Route>,
}

/// A component with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedComponent {
    /// Its name.
    pub name: ComponentName,
    /// What is wanted of it.
    pub planned: Planned,
}

/// An input that cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The stable reason.
    pub reason: Reason,
    /// The field, and what is wrong with it.
    pub message: String,
}

impl Plan {
    /// Orders the components by level.
    ///
    /// # Errors
    /// Duplicate names, unknown dependencies and cycles.
    pub fn new(blueprints: &[Blueprint]) -> Result<Self, GraphError> {
        let graph: Vec<_> = blueprints.iter().map(|b| (b.name.clone(), b.depends_on.clone())).collect();
        let mut level_of = BTreeMap::new();
        for (level, names) in (0..).zip(topology::levels(&graph)?) {
            level_of.extend(names.into_iter().map(|name| (name, level)));
        }
        let component = |b: &Blueprint| PlannedComponent {
            name: b.name.clone(),
            planned: Planned {
                level: level_of.get(&b.name).copied().unwrap_or(0),
                payload: b.payload.clone(),
                immutable: b.immutable,
                ready_within_secs: b.ready_within_secs,
            },
        };
        let components: Vec<PlannedComponent> = blueprints.iter().map(component).collect();
        let digest = digest(&components);
        Ok(Self { digest, components, furniture: BTreeMap::new(), route: None })
    }

    /// Adds what the namespace carries besides, and where requests come in; other furniture is another plan.
    #[must_use]
    pub fn with_furniture(mut self, furniture: BTreeMap<FurnitureId, Digest>, route: Option<Route>) -> Self {
        if !furniture.is_empty() {
            let mut parts = vec![self.digest.as_str().to_owned()];
            for (id, digest) in &furniture {
                parts.extend([id.to_string(), digest.as_str().to_owned()]);
            }
            parts.extend(route.as_ref().map(|route| route.url.clone()));
            self.digest = Digest::of(&parts.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Self { furniture, route, ..self }
    }
}

/// The level stands for the dependencies: it is all that the order of work depends on.
fn digest(components: &[PlannedComponent]) -> Digest {
    let mut parts = Vec::new();
    for PlannedComponent { name, planned } in components {
        let numbers = format!("{}/{}", planned.level, planned.ready_within_secs);
        parts.extend([name.as_str().to_owned(), numbers, planned.payload.as_str().to_owned()]);
    }
    Digest::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

//! What an environment's inputs ask for, after rendering: either a plan or the reason why there is none.

use super::{
    furniture::{FurnitureId, Route},
    status::Reason,
};
use crate::{
    component::Planned,
    names::{ComponentName, Digest, SharedName},
    slice,
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

/// One shared component as its template and provider describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedBlueprint {
    /// Its name in the template.
    pub name: ComponentName,
    /// What must be ready before it.
    pub depends_on: Vec<ComponentName>,
    /// The shared component.
    pub shared: SharedName,
    /// The digest of what provisions and deprovisions it; `None` while the provider is not known.
    pub payload: Option<Digest>,
    /// Whether there is a provision Job.
    pub provisions: bool,
}

/// Everything rendered, in the order of deploying.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Equal digests ask for the same; without attempt, serial or trace.
    pub digest: Digest,
    /// The components, in the template's order.
    pub components: Vec<PlannedComponent>,
    /// The slices of shared components; all of them stand before the first component is deployed.
    pub slices: BTreeMap<ComponentName, slice::Planned>,
    /// What the namespace carries besides, with what it is made from.
    pub furniture: BTreeMap<FurnitureId, Digest>,
    /// Where requests come in: one of the furniture.
    pub route: Option<Route>,
}

/// A component with its place in the order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
        Self::with_shared(blueprints, &[])
    }

    /// Orders the components by level; shared ones count as ready nodes.
    ///
    /// # Errors
    /// Duplicate names, unknown dependencies and cycles.
    pub fn with_shared(blueprints: &[Blueprint], shared: &[SharedBlueprint]) -> Result<Self, GraphError> {
        let nodes = shared.iter().map(|b| (b.name.clone(), b.depends_on.clone()));
        let graph: Vec<_> =
            nodes.chain(blueprints.iter().map(|b| (b.name.clone(), b.depends_on.clone()))).collect();
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
        let slice = |b: &SharedBlueprint| slice::Planned {
            shared: b.shared.clone(),
            level: level_of.get(&b.name).copied().unwrap_or(0),
            payload: b.payload.clone(),
            provisions: b.provisions,
        };
        let slices: BTreeMap<_, _> = shared.iter().map(|b| (b.name.clone(), slice(b))).collect();
        let digest = digest(&components, &slices);
        Ok(Self { digest, components, slices, furniture: BTreeMap::new(), route: None })
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
fn digest(components: &[PlannedComponent], slices: &BTreeMap<ComponentName, slice::Planned>) -> Digest {
    let mut parts = Vec::new();
    for PlannedComponent { name, planned } in components {
        let numbers = format!("{}/{}", planned.level, planned.ready_within_secs);
        parts.extend([name.as_str().to_owned(), numbers, planned.payload.as_str().to_owned()]);
    }
    for (name, planned) in slices {
        let payload = planned.payload.as_ref().map(|payload| payload.as_str().to_owned());
        parts.extend([name.as_str().to_owned(), format!("shared/{}", planned.shared)]);
        parts.extend(payload);
    }
    Digest::of(&parts.iter().map(String::as_str).collect::<Vec<_>>())
}

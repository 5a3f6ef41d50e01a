//! What a namespace carries besides its components: copied Secrets, quota, limits, policy, and the route.
//!
//! All but the route stands before anything is deployed; the route comes once every component is ready, and goes
//! before the namespace is called clean; a quota goes before the first undeploy Job, which it might leave no room for.
//! What was asked for is stored before it is made, so that nothing is forgotten.

use super::{
    command::{Cleanup, Command, NamespaceRef, Notice},
    phase::Memory,
    plan::Plan,
    world::World,
};
use crate::{
    component,
    kernel::{Outbox, WakeReason},
    names::{Digest, Uid},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, fmt};

/// Seconds before something that could not be read, or that goes, is looked at again.
const REREAD_SECS: u64 = 1;
/// Seconds before a route that its Gateway has not accepted is looked at again.
const UNPUBLISHED_SECS: u64 = 10;

/// The kinds of furniture, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FurnitureKind {
    /// The template's labels and annotations on the namespace itself.
    Namespace,
    /// A copy of a shareable Secret.
    Secret,
    /// The entry of a copied Secret among the default ServiceAccount's image pull secrets.
    PullSecret,
    /// The ResourceQuota.
    ResourceQuota,
    /// The LimitRange.
    LimitRange,
    /// The NetworkPolicy.
    NetworkPolicy,
    /// The route, as an Ingress.
    Ingress,
    /// The route, as an HTTPRoute of the Gateway API.
    HttpRoute,
}

impl FurnitureKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Secret,
        Self::PullSecret,
        Self::ResourceQuota,
        Self::LimitRange,
        Self::NetworkPolicy,
        Self::Ingress,
        Self::HttpRoute,
    ];

    /// Returns the word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespace => "Namespace",
            Self::Secret => "Secret",
            Self::PullSecret => "PullSecret",
            Self::ResourceQuota => "ResourceQuota",
            Self::LimitRange => "LimitRange",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::Ingress => "Ingress",
            Self::HttpRoute => "HTTPRoute",
        }
    }

    /// Whether requests from outside come in through it.
    pub fn is_route(self) -> bool {
        match self {
            Self::Ingress | Self::HttpRoute => true,
            Self::Namespace
            | Self::Secret
            | Self::PullSecret
            | Self::ResourceQuota
            | Self::LimitRange
            | Self::NetworkPolicy => false,
        }
    }

    /// Whether it goes by itself when its environment goes; the rest goes with the namespace.
    fn goes_early(self) -> bool {
        self.is_route() || self == Self::ResourceQuota
    }
}

/// One piece of furniture; stored as `<kind>/<name>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FurnitureId {
    /// Its kind.
    pub kind: FurnitureKind,
    /// Its name within the namespace.
    pub name: String,
}

/// A stored text that names no furniture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no furniture")]
pub struct NoFurniture(String);

impl fmt::Display for FurnitureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.name)
    }
}

impl From<FurnitureId> for String {
    fn from(id: FurnitureId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for FurnitureId {
    type Error = NoFurniture;
    fn try_from(text: String) -> Result<Self, NoFurniture> {
        let parts = text.split_once('/');
        let found = parts.and_then(|(kind, name)| {
            let kind = FurnitureKind::ALL.into_iter().find(|known| known.as_str() == kind)?;
            Some(Self { kind, name: name.to_owned() })
        });
        found.ok_or(NoFurniture(text))
    }
}

/// Where a plan's requests come in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The Ingress or HTTPRoute.
    pub item: FurnitureId,
    /// The address users are told once it serves.
    pub url: String,
}

/// What stands in place of a piece of furniture, by a live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Absent,
    /// The cluster has no such kind.
    Unserved,
    /// It is being deleted, or what must be there before it is not there yet.
    Leaving,
    /// Something.
    There {
        /// The UID of the object that holds it.
        uid: Uid,
        /// What it was made from; `None` when it does not say so.
        digest: Option<Digest>,
        /// Whether it is in force: a route may wait for its Gateway.
        published: bool,
    },
}

impl Memory {
    /// Returns the furniture that a phase needs to see: what is wanted and not known to stand, and what was made and
    /// is to go.
    pub fn looks_at(&self, plan: Option<&Plan>, leaving: bool) -> BTreeSet<FurnitureId> {
        if leaving {
            return self.furniture.keys().filter(|id| id.kind.goes_early()).cloned().collect();
        }
        let Some(plan) = plan else { return BTreeSet::new() };
        let begun = |name| {
            self.components
                .get(name)
                .is_some_and(|child| !matches!(child.phase, component::Phase::Pending { .. }))
        };
        // The route is the last to come: before the last component is under way, nobody asks for it.
        let late = plan.components.iter().all(|component| begun(&component.name));
        let open = plan.furniture.iter().filter(|(id, digest)| !self.is_furnished(id, digest));
        let wanted = open.map(|(id, _)| id).filter(|id| late || !id.kind.is_route());
        let unwanted = self.furniture.keys().filter(|id| late && !plan.furniture.contains_key(id));
        wanted.chain(unwanted).cloned().collect()
    }

    fn is_furnished(&self, id: &FurnitureId, digest: &Digest) -> bool {
        self.furniture.get(id).and_then(Option::as_ref) == Some(digest)
    }

    fn all_ready(&self, plan: &Plan) -> bool {
        let ready = |name| {
            matches!(self.components.get(name).map(|child| &child.phase), Some(component::Phase::Ready))
        };
        plan.components.iter().all(|component| ready(&component.name))
    }
}

/// Whether all of a plan's furniture but its route is known to stand: a component whose payload is the same may have
/// been ready before it.
pub(super) fn stands(memory: &Memory, plan: &Plan) -> bool {
    let mut wanted = plan.furniture.iter().filter(|(id, _)| !id.kind.is_route());
    wanted.all(|(id, digest)| memory.is_furnished(id, digest))
}

/// Whether nothing but its Gateway keeps the route of a plan from serving.
pub(super) fn is_routed(memory: &Memory, world: &World, plan: &Plan) -> bool {
    let routes = plan.furniture.iter().filter(|(id, _)| id.kind.is_route());
    routes.into_iter().all(|(id, digest)| {
        memory.is_furnished(id, digest)
            || match world.furniture.get(id) {
                Some(Standing::There { digest: Some(found), .. }) => found == digest,
                // Without the Gateway API there is no URL, and that is all.
                Some(Standing::Unserved) => true,
                Some(Standing::Absent | Standing::Leaving | Standing::There { digest: None, .. }) | None => {
                    false
                }
            }
    })
}

/// Brings what must stand before anything is deployed. Returns whether it stands.
pub(super) fn furnish(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    plan: &Plan,
    out: &mut Outbox<Command, Notice>,
) -> bool {
    let mut stands = true;
    for (id, digest) in plan.furniture.iter().filter(|(id, _)| !id.kind.is_route()) {
        stands &= ensure(memory, world, namespace, (id, digest), out);
    }
    stands
}

/// Once all components are ready: brings the route, and removes what the plan does not name any more.
pub(super) fn finish(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    plan: &Plan,
    out: &mut Outbox<Command, Notice>,
) {
    if !memory.all_ready(plan) {
        return;
    }
    for (id, digest) in plan.furniture.iter().filter(|(id, _)| id.kind.is_route()) {
        ensure(memory, world, namespace, (id, digest), out);
    }
    let unwanted: Vec<FurnitureId> =
        memory.furniture.keys().filter(|id| !plan.furniture.contains_key(id)).cloned().collect();
    for id in unwanted {
        remove(memory, world, namespace, &id, out);
    }
    let published =
        |id: &FurnitureId| plan.furniture.get(id).is_some_and(|digest| memory.is_furnished(id, digest));
    memory.url = plan.route.as_ref().filter(|route| published(&route.item)).map(|route| route.url.clone());
}

/// Removes the quota of an environment that goes. Nothing waits for it: it may leave room all the same.
pub(super) fn make_room(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    out: &mut Outbox<Command, Notice>,
) {
    remove_all(memory, world, namespace, |kind| !kind.is_route(), out);
}

/// Removes the routes of an environment that goes. Returns whether none is left.
pub(super) fn unroute(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    out: &mut Outbox<Command, Notice>,
) -> bool {
    remove_all(memory, world, namespace, FurnitureKind::is_route, out)
}

fn remove_all(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    of: impl Fn(FurnitureKind) -> bool,
    out: &mut Outbox<Command, Notice>,
) -> bool {
    let mut gone = true;
    for id in memory.looks_at(None, true).iter().filter(|id| of(id.kind)) {
        gone &= remove(memory, world, namespace, id, out);
    }
    gone
}

fn ensure(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    (id, wanted): (&FurnitureId, &Digest),
    out: &mut Outbox<Command, Notice>,
) -> bool {
    if memory.is_furnished(id, wanted) {
        return true;
    }
    match world.furniture.get(id) {
        None | Some(Standing::Leaving) => {
            out.wake_at(world.now.after(REREAD_SECS), WakeReason::Unreadable);
            out.waiting_on("the namespace's furniture", id.to_string());
            return false;
        }
        Some(Standing::Unserved) => return false,
        Some(Standing::There { digest: Some(digest), published, .. }) if digest == wanted => {
            if *published {
                memory.furniture.insert(id.clone(), Some(wanted.clone()));
                return true;
            }
            out.wake_at(world.now.after(UNPUBLISHED_SECS), WakeReason::Unreadable);
            out.waiting_on("the route to be accepted", id.to_string());
        }
        Some(Standing::Absent | Standing::There { .. }) => {
            let (namespace, item, digest) = (namespace.clone(), id.clone(), wanted.clone());
            out.ensure(Command::Furnish { namespace, item, digest });
            out.waiting_on("the namespace's furniture", id.to_string());
        }
    }
    memory.furniture.insert(id.clone(), None);
    false
}

fn remove(
    memory: &mut Memory,
    world: &World,
    namespace: &NamespaceRef,
    id: &FurnitureId,
    out: &mut Outbox<Command, Notice>,
) -> bool {
    match world.furniture.get(id) {
        None => {
            out.wake_at(world.now.after(REREAD_SECS), WakeReason::Unreadable);
            out.waiting_on("the furniture to be readable", id.to_string());
            false
        }
        // What is being deleted needs nobody; its own finalizers hold the namespace, which says so.
        Some(Standing::Absent | Standing::Unserved | Standing::Leaving) => {
            memory.furniture.remove(id);
            true
        }
        Some(Standing::There { uid, .. }) => {
            let (namespace, item, uid) = (namespace.clone(), id.clone(), uid.clone());
            out.ensure(Command::Cleanup(Cleanup::Unfurnish { namespace, item, uid }));
            out.waiting_on("the furniture to go", id.to_string());
            // From now on it is not known to stand: a plan that comes back to it has to look.
            memory.furniture.insert(id.clone(), None);
            false
        }
    }
}

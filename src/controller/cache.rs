//! One watched kind in memory, with one index; fed by watch events, and says which objects changed.
//!
//! kube's reflector store is not used: after a gap in the watch it replaces its content without saying what
//! vanished, so the owner of a Job that was deleted in the gap would sleep for ever; and it has no index.
use kube::{Resource, ResourceExt, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Namespace (empty when cluster-scoped) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// What a cache must know about an object.
pub trait Cached: Send + Sync + 'static {
    /// Where it is.
    fn place(&self) -> Place;
    /// What tells two versions of it apart.
    fn version(&self) -> Option<&str>;
}

impl<K: Resource + Send + Sync + 'static> Cached for K {
    fn place(&self) -> Place {
        Place { namespace: self.namespace().unwrap_or_default(), name: self.name_any() }
    }

    fn version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

type Objects<T> = BTreeMap<Place, Arc<T>>;

struct State<T> {
    ready: bool,
    objects: Objects<T>,
    groups: BTreeMap<String, BTreeSet<Place>>,
    arriving: Objects<T>,
}

/// A kind in memory.
pub struct Cache<T> {
    groups_of: fn(&T) -> Vec<String>,
    state: RwLock<State<T>>,
}

impl<T: Cached> Cache<T> {
    /// Makes an empty cache whose objects stand in the groups that `groups_of` names.
    pub fn new(groups_of: fn(&T) -> Vec<String>) -> Self {
        let state = State {
            ready: false,
            objects: BTreeMap::new(),
            groups: BTreeMap::new(),
            arriving: BTreeMap::new(),
        };
        Self { groups_of, state: RwLock::new(state) }
    }

    /// Tells whether the first list is complete; before, absence means nothing.
    pub fn is_ready(&self) -> bool {
        self.read().ready
    }

    /// Returns the object at a place.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let place = Place { namespace: namespace.to_owned(), name: name.to_owned() };
        self.read().objects.get(&place).cloned()
    }

    /// Returns all objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// Returns the objects of a group, by namespace and name.
    pub fn group(&self, group: &str) -> Vec<Arc<T>> {
        let state = self.read();
        let places = state.groups.get(group).into_iter().flatten();
        places.filter_map(|place| state.objects.get(place).cloned()).collect()
    }

    /// Returns how many objects there are.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Tells whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes in one watch event and returns the objects that it added, changed or removed, as last seen.
    /// A replaced list names only what differs from the list before.
    pub fn apply(&self, event: Event<T>) -> Vec<Arc<T>> {
        let mut state = self.write();
        match event {
            Event::Apply(object) => {
                let object = Arc::new(object);
                let before = self.put(&mut state, Arc::clone(&object));
                before.into_iter().chain([object]).collect()
            }
            Event::Delete(object) => {
                let place = object.place();
                self.take(&mut state, &place);
                vec![Arc::new(object)]
            }
            Event::Init => {
                state.arriving.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                state.arriving.insert(object.place(), Arc::new(object));
                Vec::new()
            }
            Event::InitDone => self.replace(&mut state),
        }
    }

    fn replace(&self, state: &mut State<T>) -> Vec<Arc<T>> {
        let arrived = std::mem::take(&mut state.arriving);
        let before = std::mem::take(&mut state.objects);
        state.groups.clear();
        state.ready = true;
        let mut changed: Vec<Arc<T>> = before
            .iter()
            .filter(|(place, _)| !arrived.contains_key(place))
            .map(|(_, o)| Arc::clone(o))
            .collect();
        for (place, object) in arrived {
            let known = before.get(&place);
            if known.is_none_or(|known| known.version() != object.version()) {
                changed.extend(known.cloned());
                changed.push(Arc::clone(&object));
            }
            self.put(state, object);
        }
        changed
    }

    /// Puts an object in; returns what stood there if its groups differ (an old owner must hear of it too).
    fn put(&self, state: &mut State<T>, object: Arc<T>) -> Option<Arc<T>> {
        let place = object.place();
        let groups = (self.groups_of)(&object);
        let before = self.take(state, &place).filter(|before| (self.groups_of)(before) != groups);
        for group in groups {
            state.groups.entry(group).or_default().insert(place.clone());
        }
        state.objects.insert(place, object);
        before
    }

    fn take(&self, state: &mut State<T>, place: &Place) -> Option<Arc<T>> {
        let object = state.objects.remove(place)?;
        for group in (self.groups_of)(&object) {
            if let Some(places) = state.groups.get_mut(&group) {
                places.remove(place);
                if places.is_empty() {
                    state.groups.remove(&group);
                }
            }
        }
        Some(object)
    }

    // A poisoned lock means that a reader or writer panicked between two statements that cannot panic: go on.
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

//! One watched kind in memory, with one index; fed by watch events, and says which objects changed.
//!
//! kube's reflector store is not used: after a gap in the watch it replaces its content without saying what
//! vanished, so the owner of a Job that was deleted in the gap would sleep for ever; and it has no index.
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// Namespace (empty when cluster-scoped) and name, in this order; cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(Arc<str>);

/// Stands in no name, and before everything that does.
const BETWEEN: char = '\0';

impl Place {
    /// Names a place.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}{BETWEEN}{name}").into())
    }

    /// Names the place of an object.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }

    /// Returns the namespace; empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0.split_once(BETWEEN).unwrap_or_default().0
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.split_once(BETWEEN).unwrap_or_default().1
    }
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
        Place::of(self.meta())
    }

    fn version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

type Objects<T> = BTreeMap<Place, Arc<T>>;

struct State<T> {
    ready: bool,
    objects: Objects<T>,
    /// Pairs and no map of sets: almost every group has one object.
    groups: BTreeSet<(Arc<str>, Place)>,
    arriving: Objects<T>,
}

/// A kind in memory.
pub struct Cache<T> {
    groups_of: fn(&T) -> Vec<String>,
    same: fn(&T, &T) -> bool,
    state: RwLock<State<T>>,
}

impl<T: Cached> Cache<T> {
    /// Makes an empty cache whose objects stand in the groups that `groups_of` names.
    pub fn new(groups_of: fn(&T) -> Vec<String>) -> Self {
        let state = State {
            ready: false,
            objects: BTreeMap::new(),
            groups: BTreeSet::new(),
            arriving: BTreeMap::new(),
        };
        Self { groups_of, same: |_, _| false, state: RwLock::new(state) }
    }

    /// Says nothing of a new version of an object that is the same in all that is read.
    pub fn silent_when(mut self, same: fn(&T, &T) -> bool) -> Self {
        self.same = same;
        self
    }

    /// Tells whether the first list is complete; before, absence means nothing.
    pub fn is_ready(&self) -> bool {
        self.read().ready
    }

    /// Returns the object at a place.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.read().objects.get(&Place::new(namespace, name)).cloned()
    }

    /// Returns all objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.read().objects.values().cloned().collect()
    }

    /// Returns the objects of a group, by namespace and name.
    pub fn group(&self, group: &str) -> Vec<Arc<T>> {
        let state = self.read();
        let places = state.groups.range((Arc::from(group), Place::default())..);
        let own = places.take_while(|(of, _)| **of == *group);
        own.filter_map(|(_, place)| state.objects.get(place).cloned()).collect()
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
                let known = state.objects.get(&object.place()).cloned();
                let before = self.put(&mut state, Arc::clone(&object));
                if known.is_some_and(|known| (self.same)(&known, &object)) {
                    return Vec::new();
                }
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
        state.groups.extend(groups.into_iter().map(|group| (group.into(), place.clone())));
        state.objects.insert(place, object);
        before
    }

    fn take(&self, state: &mut State<T>, place: &Place) -> Option<Arc<T>> {
        let object = state.objects.remove(place)?;
        for group in (self.groups_of)(&object) {
            state.groups.remove(&(group.into(), place.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    fn object(name: &str, version: &str, group: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            namespace: Some("ns".to_owned()),
            name: Some(name.to_owned()),
            resource_version: Some(version.to_owned()),
            labels: Some([("group".to_owned(), group.to_owned())].into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn cache(objects: &[(&str, &str, &str)]) -> Cache<ConfigMap> {
        let cache = Cache::new(|it: &ConfigMap| it.labels().values().cloned().collect());
        list(&cache, objects);
        cache
    }

    /// A whole list arrives; returns who changed.
    fn list(cache: &Cache<ConfigMap>, objects: &[(&str, &str, &str)]) -> Vec<String> {
        assert!(cache.apply(Event::Init).is_empty());
        for (name, version, group) in objects {
            assert!(cache.apply(Event::InitApply(object(name, version, group))).is_empty());
        }
        names(&cache.apply(Event::InitDone))
    }

    fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
        objects.iter().map(|it| it.name_any()).collect()
    }

    #[test]
    fn nothing_is_known_before_the_first_list_is_complete() {
        let cache = Cache::new(|_: &ConfigMap| Vec::new());
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(object("a", "1", "g")));
        assert!(!cache.is_ready() && cache.is_empty());
        cache.apply(Event::InitDone);
        assert!(cache.is_ready() && cache.len() == 1);
    }

    #[test]
    fn a_list_after_a_gap_names_what_vanished_appeared_or_changed_and_nothing_else() {
        let cache = cache(&[("kept", "1", "g"), ("changed", "1", "g"), ("vanished", "1", "g")]);
        let mut changed = list(&cache, &[("kept", "1", "g"), ("changed", "2", "g"), ("new", "3", "g")]);
        changed.dedup();
        changed.sort();
        changed.dedup();
        assert_eq!(changed, ["changed", "new", "vanished"]);
        assert_eq!(names(&cache.all()), ["changed", "kept", "new"]);
        assert_eq!(names(&cache.group("g")), ["changed", "kept", "new"]);
    }

    #[test]
    fn the_old_content_stays_readable_while_a_new_list_arrives() {
        let cache = cache(&[("a", "1", "g")]);
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(object("b", "2", "g")));
        assert!(cache.is_ready());
        assert_eq!(names(&cache.all()), ["a"]);
        // The list breaks off and starts again: nothing of the first attempt is left.
        list(&cache, &[("c", "3", "g")]);
        assert_eq!(names(&cache.all()), ["c"]);
    }

    #[test]
    fn an_object_that_changes_its_group_is_found_in_the_new_one_and_both_owners_hear_of_it() {
        let cache = cache(&[("a", "1", "old")]);
        let changed = cache.apply(Event::Apply(object("a", "2", "new")));
        let groups: Vec<_> = changed.iter().map(|it| it.labels()["group"].clone()).collect();
        assert_eq!(groups, ["old", "new"]);
        assert!(cache.group("old").is_empty());
        assert_eq!(names(&cache.group("new")), ["a"]);
    }

    #[test]
    fn a_new_version_that_is_the_same_in_all_that_is_read_is_kept_and_wakes_nobody() {
        let cache = Cache::new(|it: &ConfigMap| it.labels().values().cloned().collect())
            .silent_when(|a, b| a.metadata.labels == b.metadata.labels);
        list(&cache, &[("a", "1", "g")]);
        assert!(cache.apply(Event::Apply(object("a", "2", "g"))).is_empty());
        assert_eq!(cache.get("ns", "a").unwrap().resource_version().as_deref(), Some("2"));
        assert_eq!(names(&cache.apply(Event::Apply(object("a", "3", "other")))), ["a", "a"]);
        assert_eq!(names(&cache.apply(Event::Apply(object("b", "4", "g")))), ["b"], "a new one is news");
        assert_eq!(names(&cache.apply(Event::Delete(object("a", "5", "other")))), ["a"]);
    }

    #[test]
    fn places_are_in_the_order_of_their_namespaces_and_then_of_their_names() {
        let mut places =
            [("a-b", "x"), ("a", "z"), ("", "y"), ("a", "b")].map(|(at, name)| Place::new(at, name));
        places.sort();
        let told = places.each_ref().map(|place| (place.namespace(), place.name()));
        assert_eq!(told, [("", "y"), ("a", "b"), ("a", "z"), ("a-b", "x")]);
    }

    #[test]
    fn a_group_whose_name_begins_like_another_is_not_that_one() {
        let cache = cache(&[("a", "1", "g"), ("b", "1", "ga"), ("c", "1", "f")]);
        assert_eq!(names(&cache.group("g")), ["a"]);
        assert!(cache.group("gb").is_empty());
    }

    #[test]
    fn a_deleted_object_is_gone_from_its_group_and_its_owner_hears_of_it() {
        let cache = cache(&[("a", "1", "g"), ("b", "1", "g")]);
        assert_eq!(names(&cache.apply(Event::Delete(object("a", "5", "g")))), ["a"]);
        assert!(cache.get("ns", "a").is_none() && cache.get("ns", "b").is_some());
        assert_eq!(names(&cache.group("g")), ["b"]);
        assert!(cache.get("other", "b").is_none());
    }
}

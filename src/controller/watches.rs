//! The watches: what is watched, what is kept of it, and whom it wakes.
use crate::{
    clock::Clock,
    controller::{
        Caches, Guarded, Key, WorkloadKind,
        cache::{Cache, Cached},
        caches::{WORKLOAD_PODS, Woken},
        kept::{Kept, parsed},
        queue::Wakes,
        watch::{SILENCE_MAX, Watched, watch},
        workload::{self, Raw},
        workload_pod,
    },
    telemetry::health::Report,
};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Pod};
use kube::{
    Client, CustomResourceExt, Resource, ResourceExt, api::Api, core::ApiResource, runtime::watcher::Event,
};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, SharedComponent, SharedComponentProvider};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, sync::Arc};
use tokio::task::JoinSet;

/// What namespaces, Jobs and pods of ours carry ([`petri_crds::meta::LABEL_MANAGED`]).
const MANAGED: &str = "petri.run/managed=true";
/// What the pods of workloads do not carry.
const NOT_MANAGED: &str = "petri.run/managed!=true";
/// What the name of every workload namespace begins with. Workloads elsewhere are dropped by this, and not by a
/// look at the known namespaces: a workload may be seen before its namespace is.
const WORKLOAD_NAMESPACE_PREFIX: &str = "petri-env-";
/// Holds the whole object once more, as somebody applied it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Where to watch.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The four own kinds are watched here only.
    pub management_namespace: String,
    /// Besides the environments' namespaces, workloads are kept from here.
    pub shared_namespace: String,
}

impl Scope {
    fn may_be_ours(&self, namespace: &str) -> bool {
        namespace.starts_with(WORKLOAD_NAMESPACE_PREFIX) || namespace == self.shared_namespace
    }
}

/// All watches; they end when this is dropped.
pub struct Watches {
    client: Client,
    clock: Clock,
    caches: Arc<Caches>,
    wakes: Wakes,
    watched: Vec<Watched>,
    tasks: JoinSet<()>,
}

impl Watches {
    /// Starts all watches; they fill `caches` and wake the keys of what changed.
    pub fn start(client: Client, scope: &Scope, caches: Arc<Caches>, wakes: Wakes, clock: Clock) -> Self {
        let mut watches = Self { client, clock, caches, wakes, watched: Vec::new(), tasks: JoinSet::new() };
        let own = &scope.management_namespace;
        watches.environments(own);
        watches.own::<EnvironmentTemplate>(
            "environmenttemplates",
            own,
            |c| &c.templates,
            |caches, template| caches.woken_by_template(&template.name_any()).into(),
        );
        watches.own::<SharedComponent>(
            "sharedcomponents",
            own,
            |c| &c.shared_components,
            |caches, it| caches.woken_by_shared(it).into(),
        );
        watches.own::<SharedComponentProvider>(
            "sharedcomponentproviders",
            own,
            |c| &c.providers,
            |caches, it| caches.woken_by_provider(&it.name_any()).into(),
        );
        watches.managed::<parsed::Namespace, _>(
            "namespaces",
            |c| &c.namespaces,
            |caches, it| caches.woken_by_owned(it).into(),
        );
        watches.managed::<parsed::Job, _>("jobs", |c| &c.jobs, Caches::woken_by_job);
        watches.managed::<parsed::Pod, _>("pods", |c| &c.pods, Caches::woken_by_job);
        WorkloadKind::ALL.into_iter().for_each(|kind| watches.workloads(kind, scope));
        watches.workload_pods(scope);
        watches
    }

    fn environments(&mut self, namespace: &str) {
        let definition = EphemeralEnvironment::crd_name().to_owned();
        let watched = Watched::new("ephemeralenvironments", Some(definition), self.clock);
        let api = Api::<Guarded<EphemeralEnvironment>>::namespaced(watched.client(&self.client), namespace);
        let keep = |read| Some(Kept::from(read));
        self.spawn(
            watched,
            api,
            None,
            |c| &c.environments,
            keep,
            |_, one| vec![Key::environment(one.name())].into(),
        );
    }

    fn own<K>(
        &mut self,
        plural: &'static str,
        namespace: &str,
        cache: fn(&Caches) -> &Cache<Guarded<K>>,
        woken: fn(&Caches, &Guarded<K>) -> Woken,
    ) where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + CustomResourceExt,
        K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let watched = Watched::new(plural, Some(K::crd_name().to_owned()), self.clock);
        let api = Api::namespaced(watched.client(&self.client), namespace);
        self.spawn(watched, api, None, cache, |object| Some(stripped(object)), woken);
    }

    fn managed<K, T>(
        &mut self,
        plural: &'static str,
        cache: fn(&Caches) -> &Cache<Kept<T>>,
        woken: fn(&Caches, &Kept<T>) -> Woken,
    ) where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        Kept<T>: From<K> + Cached,
    {
        let watched = Watched::new(plural, None, self.clock);
        let api = Api::all(watched.client(&self.client));
        let keep = |read: K| Some(Kept::from(read));
        self.spawn(watched, api, Some(MANAGED), cache, keep, woken);
    }

    fn workloads(&mut self, kind: WorkloadKind, scope: &Scope) {
        let watched = Watched::new(kind.plural(), None, self.clock);
        let api = Api::<Raw>::all_with(watched.client(&self.client), &kind.resource());
        let scope = scope.clone();
        let reduce = move |raw| workload::reduce(kind, raw, |namespace| scope.may_be_ours(namespace));
        self.spawn(watched, api, None, move |c| c.workloads_of(kind), reduce, Caches::woken_by_workload);
    }

    /// The label of a workload's pods is its chart's: they are told apart by their namespaces, here.
    fn workload_pods(&mut self, scope: &Scope) {
        let watched = Watched::new(WORKLOAD_PODS, None, self.clock);
        let api =
            Api::<workload_pod::Raw>::all_with(watched.client(&self.client), &ApiResource::erase::<Pod>(&()));
        let scope = scope.clone();
        let reduce = move |raw| workload_pod::reduce(raw, |namespace| scope.may_be_ours(namespace));
        self.spawn(watched, api, Some(NOT_MANAGED), |c| &c.workload_pods, reduce, Caches::woken_by_pod);
    }

    fn spawn<K, T: Cached>(
        &mut self,
        watched: Watched,
        api: Api<K>,
        selector: Option<&'static str>,
        cache: impl Fn(&Caches) -> &Cache<T> + Send + 'static,
        keep: impl Fn(K) -> Option<T> + Send + 'static,
        woken: fn(&Caches, &T) -> Woken,
    ) where
        K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let caches = Arc::clone(&self.caches);
        let take = move |event| {
            let Some(event) = map(event, &keep) else { return Vec::new() };
            let complete = matches!(event, Event::InitDone);
            let changed = cache(&caches).apply(event);
            if complete {
                caches.list_arrived();
            }
            changed.iter().map(|object| woken(&caches, object)).collect()
        };
        self.tasks.spawn(watch(watched.clone(), api, selector, self.wakes.clone(), take));
        self.watched.push(watched);
    }

    /// Reports on liveness: every watch must have heard the server not too long ago.
    pub fn live(watched: &[Watched]) -> Report {
        let silent: Vec<String> = watched
            .iter()
            .filter(|watched| watched.progress.silence() > SILENCE_MAX)
            .map(|it| {
                format!("watch of {}: nothing heard for {} s\n", it.plural, it.progress.silence().as_secs())
            })
            .collect();
        let ok = silent.is_empty();
        Report {
            ok,
            text: if ok { "ok: every watch hears the server\n".to_owned() } else { silent.concat() },
        }
    }

    /// Reports on readiness: every first list must be complete. Leading or not makes no difference.
    pub fn ready(watched: &[Watched], caches: &Caches) -> Report {
        let unsynced = caches.unsynced();
        let mut text = String::new();
        for it in watched {
            let state = if unsynced.contains(&it.plural) { "waiting for the first list" } else { "synced" };
            let trouble = it.progress.trouble().map(|trouble| format!(": {trouble}")).unwrap_or_default();
            text.push_str(&format!("{}: {state}{trouble}\n", it.plural));
        }
        Report { ok: unsynced.is_empty(), text }
    }

    /// Returns the accounts of the watches, for the two reports.
    pub fn watched(&self) -> Vec<Watched> {
        self.watched.clone()
    }
}

fn stripped<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    if let Some(annotations) = &mut object.meta_mut().annotations {
        annotations.remove(LAST_APPLIED);
    }
    object
}

fn map<K, T>(event: Event<K>, keep: impl Fn(K) -> Option<T>) -> Option<Event<T>> {
    Some(match event {
        Event::Apply(object) => Event::Apply(keep(object)?),
        Event::Delete(object) => Event::Delete(keep(object)?),
        Event::InitApply(object) => Event::InitApply(keep(object)?),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    })
}

#[cfg(test)]
mod tests;

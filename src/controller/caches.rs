//! Everything that is watched, in memory, with the look-ups that a reconcile needs.
use crate::controller::{
    cache::Cache,
    kept::{self, Kept},
    key::{Key, Kind},
    queue::Lane,
    workload::{Workload, WorkloadKind},
    workload_pod::{Told, WorkloadPod},
};
use crate::observe::shared_by;
use kube::{Resource, ResourceExt, core::DeserializeGuard};
use petri_crds::{
    EnvironmentTemplate, Phase, SharedComponent, SharedComponentProvider, meta::SHARED_NAMESPACE,
};
use petri_machines::names::{JobName, Uid};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::sync::Notify;

/// An own object that may not decode: one bad object must not hide the others.
pub type Guarded<K> = DeserializeGuard<K>;

/// An environment as it is kept; `None` if it does not decode.
type Environment = Kept<Option<kept::Environment>>;

/// What the second watch of pods is called.
pub(crate) const WORKLOAD_PODS: &str = "workload pods";

/// The watched kinds. A cache may be some events old: what destroys needs a live read.
///
/// Namespaces, Jobs and pods are those labelled `petri.run/managed=true`. Workloads are those in namespaces that can be
/// ours. Secrets are never here.
pub struct Caches {
    /// EphemeralEnvironments of the management namespace; `None` for those that do not decode.
    pub environments: Cache<Environment>,
    /// EnvironmentTemplates of the management namespace.
    pub templates: Cache<Guarded<EnvironmentTemplate>>,
    /// SharedComponents of the management namespace.
    pub shared_components: Cache<Guarded<SharedComponent>>,
    /// SharedComponentProviders of the management namespace.
    pub providers: Cache<Guarded<SharedComponentProvider>>,
    /// Namespaces labelled managed.
    pub namespaces: Cache<Kept<kept::Namespace>>,
    /// Managed Jobs.
    pub jobs: Cache<Kept<kept::Job>>,
    /// Pods of managed Jobs.
    pub pods: Cache<Kept<kept::Pod>>,
    /// Deployments, StatefulSets, DaemonSets.
    workloads: [Cache<Workload>; 3],
    /// Their pods.
    pub workload_pods: Cache<WorkloadPod>,
    namespace: String,
    shared_namespace: String,
    arrived: Notify,
}

impl Caches {
    /// Makes empty caches; the four own kinds are those of the management namespace.
    pub fn new(management_namespace: impl Into<String>) -> Self {
        Self {
            environments: Cache::new(uid_and_template),
            templates: Cache::new(|_| Vec::new()),
            shared_components: Cache::new(uid_and_provider),
            providers: Cache::new(|_| Vec::new()),
            namespaces: Cache::new(owner),
            jobs: Cache::new(owner).silent_when(Kept::is_same),
            pods: Cache::new(owner).silent_when(Kept::is_same),
            workloads: WorkloadKind::ALL.map(|_| {
                Cache::new(|workload: &Workload| vec![workload.namespace.clone()])
                    .silent_when(Workload::is_same)
            }),
            workload_pods: Cache::new(complaining).silent_when(WorkloadPod::is_same),
            namespace: management_namespace.into(),
            shared_namespace: SHARED_NAMESPACE.to_owned(),
            arrived: Notify::new(),
        }
    }

    /// Says where shared workloads are.
    pub fn with_shared(mut self, namespace: impl Into<String>) -> Self {
        self.shared_namespace = namespace.into();
        self
    }

    /// Returns the management namespace.
    pub fn namespace_name(&self) -> &str {
        &self.namespace
    }

    /// Tells whether every first list is complete; before, absence means nothing.
    pub fn synced(&self) -> bool {
        self.unsynced().is_empty()
    }

    /// Names the kinds whose first list is not complete.
    pub fn unsynced(&self) -> Vec<&'static str> {
        let own = [
            ("ephemeralenvironments", self.environments.is_ready()),
            ("environmenttemplates", self.templates.is_ready()),
            ("sharedcomponents", self.shared_components.is_ready()),
            ("sharedcomponentproviders", self.providers.is_ready()),
            ("namespaces", self.namespaces.is_ready()),
            ("jobs", self.jobs.is_ready()),
            ("pods", self.pods.is_ready()),
            (WORKLOAD_PODS, self.workload_pods.is_ready()),
        ];
        let workloads = WorkloadKind::ALL.map(|kind| (kind.plural(), self.workloads_of(kind).is_ready()));
        own.into_iter().chain(workloads).filter(|(_, ready)| !ready).map(|(name, _)| name).collect()
    }

    /// Waits until every first list is complete.
    pub async fn wait_synced(&self) {
        loop {
            let arrived = self.arrived.notified();
            if self.synced() {
                return;
            }
            arrived.await;
        }
    }

    /// Ends every first list with what has arrived.
    #[cfg(test)]
    pub(crate) fn sync_all(&self) {
        use kube::runtime::watcher::Event::InitDone;
        self.environments.apply(InitDone);
        self.templates.apply(InitDone);
        self.shared_components.apply(InitDone);
        self.providers.apply(InitDone);
        self.namespaces.apply(InitDone);
        self.jobs.apply(InitDone);
        self.pods.apply(InitDone);
        for cache in &self.workloads {
            cache.apply(InitDone);
        }
        self.workload_pods.apply(InitDone);
        self.list_arrived();
    }

    pub(crate) fn list_arrived(&self) {
        self.arrived.notify_waiters();
    }

    /// Returns an environment by name.
    pub fn environment(&self, name: &str) -> Option<Arc<Environment>> {
        self.environments.get(&self.namespace, name)
    }

    /// Returns the environments that decode and name this template.
    pub fn environments_of_template(&self, template: &str) -> Vec<Arc<Environment>> {
        self.environments.group(&by_template(template))
    }

    /// Returns a template by name; `.0` is `Err` when it does not decode.
    pub fn template(&self, name: &str) -> Option<Arc<Guarded<EnvironmentTemplate>>> {
        self.templates.get(&self.namespace, name)
    }

    /// Returns a SharedComponent by name; `.0` is `Err` when it does not decode.
    pub fn shared_component(&self, name: &str) -> Option<Arc<Guarded<SharedComponent>>> {
        self.shared_components.get(&self.namespace, name)
    }

    /// Returns a SharedComponentProvider by name; `.0` is `Err` when it does not decode.
    pub fn provider(&self, name: &str) -> Option<Arc<Guarded<SharedComponentProvider>>> {
        self.providers.get(&self.namespace, name)
    }

    /// Returns a managed namespace by name.
    pub fn namespace(&self, name: &str) -> Option<Arc<Kept<kept::Namespace>>> {
        self.namespaces.get("", name)
    }

    /// Returns the managed namespaces labelled with an environment's UID; more than one is a fault.
    pub fn namespaces_of(&self, environment_uid: &str) -> Vec<Arc<Kept<kept::Namespace>>> {
        self.namespaces.group(environment_uid)
    }

    /// Returns the Jobs labelled with an environment's UID, in all namespaces.
    pub fn jobs_of(&self, environment_uid: &str) -> Vec<Arc<Kept<kept::Job>>> {
        self.jobs.group(environment_uid)
    }

    /// Tells since when a Job of an owner stands, and where.
    pub fn job_found(&self, owner: &Uid, name: &JobName) -> Option<(SystemTime, String)> {
        let jobs = self.jobs_of(owner.as_str());
        let job = jobs.iter().find(|one| one.name() == name.as_str())?;
        Some((job.created.as_ref()?.0.into(), job.namespace().to_owned()))
    }

    /// Returns the Job pods labelled with an environment's UID, in all namespaces.
    pub fn pods_of(&self, environment_uid: &str) -> Vec<Arc<Kept<kept::Pod>>> {
        self.pods.group(environment_uid)
    }

    /// Returns a workload of a namespace that can be ours.
    pub fn workload(&self, kind: WorkloadKind, namespace: &str, name: &str) -> Option<Arc<Workload>> {
        self.workloads_of(kind).get(namespace, name)
    }

    /// Returns the workloads of a namespace that can be ours.
    pub fn workloads_in(&self, namespace: &str) -> Vec<Arc<Workload>> {
        self.workloads.iter().flat_map(|cache| cache.group(namespace)).collect()
    }

    /// Returns the first complaint of the pods of a workload, by their names.
    pub fn complaint(&self, namespace: &str, kind: &str, name: &str) -> Option<Told> {
        let pods = self.workload_pods.group(namespace);
        pods.iter().filter(|pod| pod.workload == (kind, name.to_owned())).find_map(|pod| pod.told.clone())
    }

    pub(crate) fn workloads_of(&self, kind: WorkloadKind) -> &Cache<Workload> {
        let [deployments, stateful_sets, daemon_sets] = &self.workloads;
        match kind {
            WorkloadKind::Deployment => deployments,
            WorkloadKind::StatefulSet => stateful_sets,
            WorkloadKind::DaemonSet => daemon_sets,
        }
    }
}

/// How long news of what goes waits for more of it: much happens then, and little of it matters.
const LULL: Duration = Duration::from_secs(1);

/// Who must look when something changed, and how soon at the latest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Woken {
    pub(crate) keys: Vec<Key>,
    pub(crate) after: Duration,
}

impl Woken {
    /// Lets the news wait if what it is of goes.
    fn unless_it_goes(keys: Vec<Key>, goes: bool) -> Self {
        Self { keys, after: if goes { LULL } else { Duration::ZERO } }
    }
}

impl From<Vec<Key>> for Woken {
    fn from(keys: Vec<Key>) -> Self {
        Self { keys, after: Duration::ZERO }
    }
}

/// Who must look when something changed. An owner that is not known yet need not be woken: its own arrival will.
impl Caches {
    /// Returns every object that is reconciled, with its lane after a start: an environment that has something to do
    /// does not wait until hundreds that rest were looked at.
    pub fn at_start(&self) -> Vec<(Lane, Key)> {
        let (resting, urgent): (Vec<_>, Vec<_>) =
            self.environments.all().into_iter().partition(|environment| rests(environment));
        let mut keys = environments(&resting);
        keys.extend(named(Kind::Template, &self.templates.all()));
        keys.extend(named(Kind::SharedComponent, &self.shared_components.all()));
        keys.extend(named(Kind::Provider, &self.providers.all()));
        let urgent = environments(&urgent).into_iter().map(|key| (Lane::Event, key));
        urgent.chain(keys.into_iter().map(|key| (Lane::Start, key))).collect()
    }

    pub(crate) fn woken_by_template(&self, template: &str) -> Vec<Key> {
        let mut keys = vec![Key::template(template)];
        keys.extend(environments(&self.environments_of_template(template)));
        keys
    }

    /// A provider wakes itself, its shared components, and whoever reads one of them.
    pub(crate) fn woken_by_provider(&self, provider: &str) -> Vec<Key> {
        let shared = self.shared_components.group(provider);
        let mut keys = vec![Key::provider(provider)];
        keys.extend(named(Kind::SharedComponent, &shared));
        keys.extend(shared.iter().flat_map(|shared| self.readers(&shared.name_any(), |_| true)));
        keys
    }

    /// A shared component wakes whoever waits for it, and the others of its provider: one of them may be the last.
    pub(crate) fn woken_by_shared(&self, shared: &Guarded<SharedComponent>) -> Vec<Key> {
        let mut keys = vec![Key::shared_component(shared.name_any())];
        if shared.meta().deletion_timestamp.is_some() {
            let provider = provider_of(shared);
            let others = provider.iter().flat_map(|provider| self.shared_components.group(provider));
            keys.extend(named(Kind::SharedComponent, &others.collect::<Vec<_>>()));
        }
        keys.extend(self.readers(&shared.name_any(), |phase| matches!(phase, None | Some(Phase::Pending))));
        keys
    }

    /// Returns the environments of the phases whose templates read a shared component.
    fn readers(&self, shared: &str, of: impl Fn(Option<Phase>) -> bool) -> Vec<Key> {
        let reads = |template: &&Arc<Guarded<EnvironmentTemplate>>| {
            template.0.as_ref().is_ok_and(|template| shared_by(template).contains(shared))
        };
        let templates = self.templates.all();
        let all =
            templates.iter().filter(reads).flat_map(|one| self.environments_of_template(&one.name_any()));
        let waits = |one: &Arc<Environment>| of(one.of.as_ref().and_then(|one| one.phase));
        environments(&all.filter(waits).collect::<Vec<_>>())
    }

    pub(crate) fn woken_by_owned<T>(&self, object: &Kept<T>) -> Vec<Key> {
        object.owner().map(|uid| self.woken_by_uid(uid)).unwrap_or_default()
    }

    /// A Job and its pod wake whom they work for; the namespace's own end is what matters where that has begun.
    pub(crate) fn woken_by_job<T>(&self, object: &Kept<T>) -> Woken {
        let goes = self.namespace(object.namespace()).is_some_and(|namespace| namespace.deleting);
        Woken::unless_it_goes(self.woken_by_owned(object), goes)
    }

    pub(crate) fn woken_by_workload(&self, workload: &Workload) -> Woken {
        self.woken_by_namespace(&workload.namespace)
    }

    /// A pod that complains wakes, and one that complained; others tell nothing that their workload does not.
    pub(crate) fn woken_by_pod(&self, pod: &WorkloadPod) -> Woken {
        if pod.told.is_some() { self.woken_by_namespace(&pod.namespace) } else { Vec::new().into() }
    }

    fn woken_by_namespace(&self, namespace: &str) -> Woken {
        if namespace == self.shared_namespace {
            // Whose a workload there is, only an inventory tells; there are few shared components.
            return named(Kind::SharedComponent, &self.shared_components.all()).into();
        }
        let Some(namespace) = self.namespace(namespace) else { return Vec::new().into() };
        let owners = namespace.owner().map(|uid| self.environments.group(&by_uid(uid))).unwrap_or_default();
        // Who leaves asks no workload whether it is ready.
        let goes = namespace.deleting || owners.iter().any(|owner| owner.deleting);
        Woken::unless_it_goes(environments(&owners), goes)
    }

    fn woken_by_uid(&self, environment_uid: &str) -> Vec<Key> {
        let mut keys = environments(&self.environments.group(&by_uid(environment_uid)));
        keys.extend(named(Kind::SharedComponent, &self.shared_components.group(&by_uid(environment_uid))));
        keys
    }
}

/// Whether an environment is where its specification left it, as far as its status tells.
fn rests(environment: &Environment) -> bool {
    let Some(known) = &environment.of else { return true };
    !environment.deleting
        && matches!(known.phase, Some(Phase::Ready | Phase::Failed))
        && known.observed == known.generation
}

fn environments(all: &[Arc<Environment>]) -> Vec<Key> {
    all.iter().map(|one| Key::environment(one.name())).collect()
}

fn named<K: Resource>(kind: Kind, objects: &[Arc<K>]) -> Vec<Key> {
    objects.iter().map(|object| Key { kind, name: object.name_any() }).collect()
}

fn by_uid(uid: &str) -> String {
    format!("uid/{uid}")
}

fn by_template(template: &str) -> String {
    format!("template/{template}")
}

fn uid_and_template(environment: &Environment) -> Vec<String> {
    let template = environment.of.as_ref().map(|known| by_template(&known.template));
    [by_uid(&environment.uid)].into_iter().chain(template).collect()
}

fn provider_of(shared: &Guarded<SharedComponent>) -> Vec<String> {
    shared.0.as_ref().ok().map(|shared| shared.spec.provider.clone()).into_iter().collect()
}

fn uid_and_provider(shared: &Guarded<SharedComponent>) -> Vec<String> {
    shared.uid().map(|uid| by_uid(&uid)).into_iter().chain(provider_of(shared)).collect()
}

/// Those that say nothing stand in no group: so one that comes right leaves its group, and is heard of.
fn complaining(pod: &WorkloadPod) -> Vec<String> {
    pod.told.iter().map(|_| pod.namespace.clone()).collect()
}

fn owner<T>(object: &Kept<T>) -> Vec<String> {
    object.owner().map(str::to_owned).into_iter().collect()
}

#[cfg(test)]
mod tests;

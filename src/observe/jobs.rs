//! The Jobs of an environment, by component: from the caches, with their ends confirmed by live reads.

use super::{Observer, fold, ignorance};
use crate::{
    client::{CALL_MAX, timed},
    error::CallError,
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, Secret},
};
use kube::{Api, api::ListParams};
use petri_crds::meta::LABEL_ENVIRONMENT_UID;
use petri_machines::{
    component,
    environment::{Identity, Namespaces, Occupancy, Record},
    job::{JobState, JobView, is_live},
    kernel::{Seen, seen::Ignorance},
    names::{ComponentName, NamespaceName, Uid},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The payload Secrets of ended Jobs that were looked for, by environment and Job.
#[derive(Debug, Default)]
pub struct Payloads(Mutex<HashMap<Uid, BTreeMap<Uid, Option<Uid>>>>);

impl Payloads {
    fn get(&self, environment: &Uid, job: &Uid) -> Option<Option<Uid>> {
        self.lock().get(environment)?.get(job).cloned()
    }

    fn put(&self, environment: &Uid, job: &Uid, secret: Option<Uid>) {
        self.lock().entry(environment.clone()).or_default().insert(job.clone(), secret);
    }

    fn retain(&self, environment: &Uid, jobs: &BTreeSet<&Uid>) {
        let mut all = self.lock();
        if let Some(of) = all.get_mut(environment) {
            of.retain(|job, _| jobs.contains(job));
            if of.is_empty() {
                all.remove(environment);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, BTreeMap<Uid, Option<Uid>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type ByComponent = BTreeMap<ComponentName, Seen<Vec<JobView>>>;

impl Observer {
    /// Reads the Jobs in the namespace that is, or may be, the environment's.
    pub(super) async fn jobs(
        &self,
        identity: &Identity,
        record: &Record,
        namespaces: &Namespaces,
    ) -> Seen<ByComponent> {
        if !(self.caches.jobs.is_ready() && self.caches.pods.is_ready()) {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        if record.memory.binding.name().is_some_and(|name| !namespaces.occupancy.contains_key(name)) {
            return Seen::Unknown(Ignorance::Failed);
        }
        let ours = |name: &str| {
            namespaces.occupancy.iter().any(|(known, occupancy)| {
                known.as_str() == name && matches!(occupancy, Occupancy::Ours { .. })
            })
        };
        let uid = identity.uid.as_str();
        let pods = self.caches.pods_of(uid);
        let mut found: BTreeMap<ComponentName, Vec<(NamespaceName, JobView)>> = BTreeMap::new();
        for job in self.caches.jobs_of(uid) {
            let namespace = job.metadata.namespace.clone().unwrap_or_default();
            let (true, Ok(name)) = (ours(&namespace), NamespaceName::new(namespace)) else { continue };
            if let Some((component, view)) = fold::view(&job, &pods) {
                found.entry(component).or_default().push((name, view));
            }
        }
        let seen = found.values().flatten().map(|(_, view)| &view.uid).collect();
        self.payloads.retain(&identity.uid, &seen);
        let mut all = ByComponent::new();
        for (component, views) in found {
            let child = record.memory.components.get(&component);
            let views = match self.confirmed(identity, child, views).await {
                Ok(views) => Seen::Known(views),
                Err(error) => Seen::Unknown(ignorance(&error)),
            };
            all.insert(component, views);
        }
        Seen::Known(all)
    }

    /// Confirms what would be acted upon: the end of the attempt's Job, and the Secrets of those it replaces.
    async fn confirmed(
        &self,
        identity: &Identity,
        child: Option<&component::Record>,
        views: Vec<(NamespaceName, JobView)>,
    ) -> Result<Vec<JobView>, CallError> {
        let attempt = child.and_then(component::Record::attempt);
        let mut kept = Vec::new();
        for (namespace, mut view) in views {
            let of_attempt = attempt.is_some_and(|attempt| attempt.serial == view.serial);
            if !is_live(&view) && of_attempt {
                match self.live(identity, &namespace, view).await? {
                    Some(confirmed) => view = confirmed,
                    None => continue,
                }
            }
            // In whatever phase: one step may lead from it to an attempt that replaces this Job.
            if !is_live(&view) && !view.deleting {
                view.payload = self.payload(&identity.uid, &namespace, &view).await?;
            }
            kept.push(view);
        }
        Ok(kept)
    }

    /// Finds the Secret of an ended Job. It is made before its Job and never made again, so that one look is enough,
    /// and a delete that names its UID is right even when it is gone meanwhile.
    async fn payload(
        &self,
        environment: &Uid,
        namespace: &NamespaceName,
        job: &JobView,
    ) -> Result<Option<Uid>, CallError> {
        if let Some(known) = self.payloads.get(environment, &job.uid) {
            return Ok(known);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace.as_str());
        let found = timed(CALL_MAX, api.get_metadata_opt(job.name.as_str())).await?;
        let uid = found.and_then(|found| found.metadata.uid).and_then(|uid| Uid::new(uid).ok());
        self.payloads.put(environment, &job.uid, uid.clone());
        Ok(uid)
    }

    /// Looks again, live, at a Job that seems to have ended. `None`: it is gone, or another has its name.
    async fn live(
        &self,
        identity: &Identity,
        namespace: &NamespaceName,
        view: JobView,
    ) -> Result<Option<JobView>, CallError> {
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace.as_str());
        let Some(job) = timed(CALL_MAX, api.get_opt(view.name.as_str())).await? else { return Ok(None) };
        let labels = job.metadata.labels.as_ref();
        let owner = labels.and_then(|labels| labels.get(LABEL_ENVIRONMENT_UID)).map(String::as_str);
        if job.metadata.uid.as_deref() != Some(view.uid.as_str()) || owner != Some(identity.uid.as_str()) {
            return Ok(None);
        }
        if !matches!(view.state, JobState::Failed(_)) {
            return Ok(Some(JobView { deleting: job.metadata.deletion_timestamp.is_some(), ..view }));
        }
        // A failure may only look like one for want of its pod in the cache.
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace.as_str());
        let own = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", view.name));
        let pods = timed(CALL_MAX, pods.list(&own)).await?.items.into_iter().map(Arc::new);
        let pods: Vec<Arc<Pod>> = pods.collect();
        Ok(fold::view(&job, &pods).map(|(_, view)| view))
    }
}

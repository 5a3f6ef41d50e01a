//! The Jobs of an environment, by component: from the caches, with their ends confirmed by live reads.

use super::{Ahead, Observer, Recheck, fold, ignorance};
use crate::{
    client::{CALL_MAX, timed},
    controller::kept::{Job, Kept, Pod, parsed},
    error::CallError,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::ListParams};
use petri_machines::{
    component::{self, Phase},
    environment::{Identity, Namespaces, Occupancy, Record},
    job::{Complaint, JobState, JobView, Op, is_live},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, JobName, NamespaceName, Uid},
    reason::FailureReason,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The payload Secrets of ended Jobs that were looked for, by environment and Job.
#[derive(Debug, Default)]
pub struct Payloads(Mutex<HashMap<Uid, Vec<Found>>>);

/// A Job, and its payload Secret if there was one.
#[derive(Debug)]
struct Found {
    job: Uid,
    secret: Option<Uid>,
}

impl Payloads {
    pub(super) fn get(&self, environment: &Uid, job: &Uid) -> Option<Option<Uid>> {
        let all = self.lock();
        let found = all.get(environment)?.iter().find(|found| found.job == *job)?;
        Some(found.secret.clone())
    }

    fn put(&self, environment: &Uid, job: &Uid, secret: Option<Uid>) {
        let mut all = self.lock();
        let of = all.entry(environment.clone()).or_default();
        of.retain(|found| found.job != *job);
        of.push(Found { job: job.clone(), secret });
    }

    fn retain(&self, environment: &Uid, jobs: &BTreeSet<&Uid>) {
        let mut all = self.lock();
        if let Some(of) = all.get_mut(environment) {
            of.retain(|found| jobs.contains(&found.job));
            if of.is_empty() {
                all.remove(environment);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, Vec<Found>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long before a Job would be ended its pod is looked at live: longer than one look at everything takes.
const CONFIRM_SECS: u64 = 60;
/// How long a Job may be without a pod before that is worth a word: its controller answers within a second.
const PODLESS_SECS: u64 = 10;
const PODLESS: &str = "no pod was made for the Job: a quota or an admission policy may refuse it";

type ByComponent = BTreeMap<ComponentName, Seen<Vec<JobView>>>;

impl Observer {
    /// Reads the Jobs in the namespace that is, or may be, the environment's.
    pub(super) async fn jobs(
        &self,
        identity: &Identity,
        record: &Record,
        namespaces: &Namespaces,
        ahead: &Ahead,
        recheck: &mut Recheck,
    ) -> Seen<ByComponent> {
        if !(self.caches.jobs.is_ready() && self.caches.pods.is_ready()) {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        if record.memory.binding.name().is_some_and(|name| !namespaces.occupancy.contains_key(name)) {
            return Seen::Unknown(Ignorance::Failed);
        }
        let mut found = self.cached(identity, namespaces, recheck);
        let seen = found.values().flatten().map(|(_, view)| &view.uid).collect();
        self.payloads.retain(&identity.uid, &seen);
        let names: BTreeSet<ComponentName> =
            found.keys().chain(record.memory.components.keys()).cloned().collect();
        let mut all = ByComponent::new();
        for component in names {
            let views = found.remove(&component).unwrap_or_default();
            let views = match self.confirmed(identity, record, namespaces, (&component, views), ahead).await {
                Ok(views) => Seen::Known(views),
                Err(error) => Seen::Unknown(ignorance(&error)),
            };
            all.insert(component, views);
        }
        Seen::Known(all)
    }

    fn cached(
        &self,
        identity: &Identity,
        namespaces: &Namespaces,
        recheck: &mut Recheck,
    ) -> BTreeMap<ComponentName, Vec<(NamespaceName, JobView)>> {
        let ours = |name: &str| {
            namespaces.occupancy.iter().any(|(known, occupancy)| {
                known.as_str() == name && matches!(occupancy, Occupancy::Ours { .. })
            })
        };
        let uid = identity.uid.as_str();
        let pods = self.caches.pods_of(uid);
        let mut found: BTreeMap<ComponentName, Vec<(NamespaceName, JobView)>> = BTreeMap::new();
        for job in self.caches.jobs_of(uid) {
            let namespace = job.namespace();
            let (true, Ok(name)) = (ours(namespace), NamespaceName::new(namespace)) else { continue };
            let Some((component, mut view)) = fold::view(&job, &pods) else { continue };
            if let Some(late_at) = late_at(&job, &pods, &view) {
                if late_at <= self.clock.now() {
                    view.state = podless();
                } else {
                    recheck.at(late_at);
                }
            }
            found.entry(component).or_default().push((name, view));
        }
        found
    }

    /// Confirms what would be acted upon: the end of the attempt's Job, that it vanished, or that its pod still cannot
    /// start when it is to be ended for that; and the Secrets of those that are replaced.
    async fn confirmed(
        &self,
        identity: &Identity,
        record: &Record,
        namespaces: &Namespaces,
        (component, views): (&ComponentName, Vec<(NamespaceName, JobView)>),
        ahead: &Ahead,
    ) -> Result<Vec<JobView>, CallError> {
        let child = record.memory.components.get(component);
        let attempt = child.and_then(component::Record::attempt);
        let mut kept = Vec::new();
        for (namespace, view) in views {
            let of_attempt = attempt.is_some_and(|attempt| attempt.serial == view.serial);
            let ended = !is_live(&view);
            let ended_soon = child.and_then(|child| child.ailment.as_ref()).is_some_and(|ailment| {
                ailment.is_over(self.clock.now().after(CONFIRM_SECS), self.defaults.pod_failure_secs)
            });
            let confirmed = async {
                if !(of_attempt && (ended || ended_soon)) {
                    return Ok(Some(view.clone()));
                }
                match ahead.jobs.get(&view.uid) {
                    Some(looked) => Ok(looked.clone()),
                    None => self.live(&identity.uid, &namespace, &view.name, &view.uid).await,
                }
            };
            // In whatever phase: one step may lead from it to an attempt that replaces this Job. Where the namespace
            // goes the Secret goes with it, and so does the right to look at it.
            let goes = matches!(
                namespaces.occupancy.get(&namespace),
                Some(Occupancy::Ours { terminating: true, .. })
            );
            let payload = async {
                if ended && !view.deleting && !goes {
                    self.payload(&identity.uid, &namespace, &view).await
                } else {
                    Ok(None)
                }
            };
            // Side by side: the user waits for what comes after both.
            let (confirmed, payload) = tokio::try_join!(confirmed, payload)?;
            kept.extend(confirmed.map(|view| {
                let payload = payload.filter(|_| !is_live(&view) && !view.deleting);
                JobView { payload, ..view }
            }));
        }
        // A cache that is behind must not turn a Job that was seen into one that was lost.
        if let (Some(child), Some(attempt), Some(namespace)) = (child, attempt, record.memory.binding.name())
            && let Some(uid) = &attempt.job
            && kept.iter().all(|view| view.serial != attempt.serial)
        {
            let name = JobName::of(&identity.uid, &identity.name, component, op(child), attempt.serial);
            kept.extend(self.live(&identity.uid, namespace, &name, uid).await?);
        }
        Ok(kept)
    }

    /// Finds the Secret of an ended Job. It is made before its Job and never made again, so that one look is enough,
    /// and a delete that names its UID is right even when it is gone meanwhile.
    pub(super) async fn payload(
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

    /// Looks at one Job and its pod, live. `None`: it is gone, or another has its name.
    pub(super) async fn live(
        &self,
        owned_by: &Uid,
        namespace: &NamespaceName,
        name: &JobName,
        uid: &Uid,
    ) -> Result<Option<JobView>, CallError> {
        let api: Api<parsed::Job> = Api::namespaced(self.client.clone(), namespace.as_str());
        let pods: Api<parsed::Pod> = Api::namespaced(self.client.clone(), namespace.as_str());
        let own = ListParams::default().labels(&format!("batch.kubernetes.io/job-name={name}"));
        let (job, pods) =
            tokio::try_join!(timed(CALL_MAX, api.get_opt(name.as_str())), timed(CALL_MAX, pods.list(&own)),)?;
        let Some(job) = job.map(Kept::from) else { return Ok(None) };
        if *job.uid != *uid.as_str() || job.owner() != Some(owned_by.as_str()) {
            return Ok(None);
        }
        let pods: Vec<_> = pods.items.into_iter().map(|pod| Arc::new(Kept::from(pod))).collect();
        Ok(fold::view(&job, &pods).map(|(_, mut view)| {
            if late_at(&job, &pods, &view).is_some_and(|at| at <= self.clock.now()) {
                view.state = podless();
            }
            view
        }))
    }
}

/// Tells from when on it is worth a word that a live Job has no pod.
fn late_at(job: &Kept<Job>, pods: &[Arc<Kept<Pod>>], view: &JobView) -> Option<Timestamp> {
    fold::podless_since(job, pods).filter(|_| is_live(view)).map(|made_at| made_at.after(PODLESS_SECS))
}

fn podless() -> JobState {
    let complaint = Complaint { reason: FailureReason::QuotaExceeded, message: PODLESS.to_owned() };
    JobState::Active { waiting: Some(complaint) }
}

fn op(child: &component::Record) -> Op {
    if matches!(child.phase, Phase::Undeploying { .. }) { Op::Undeploy } else { Op::Deploy }
}

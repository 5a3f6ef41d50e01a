//! The lives of the deployer Jobs, from watches: when each was made, and when it could do nothing any more.
//!
//! Moments are resource versions: one etcd counts them for every kind, so that they compare across watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Resource};
use kube::runtime::watcher::{self, Event, watcher};
use petri_crds::meta::{ANNOTATION_SERIAL, LABEL_COMPONENT, LABEL_MANAGED};
use tokio::task::JoinHandle;

type Lives = BTreeMap<String, Life>;

/// One Job, by its UID.
#[derive(Debug, Default, Clone)]
struct Life {
    release: String,
    serial: String,
    made: Option<u64>,
    job_ended: Option<u64>,
    /// Its pods by UID, with the moment their container ended.
    pods: BTreeMap<String, Option<u64>>,
}

impl Life {
    /// When it could do nothing any more: with its last pod, whatever became of the Job.
    fn ended(&self) -> Option<u64> {
        if self.pods.is_empty() {
            return self.job_ended;
        }
        self.pods.values().copied().collect::<Option<Vec<u64>>>()?.into_iter().max()
    }
}

/// Watches Jobs and their pods until it is dropped.
pub struct Witness {
    lives: Arc<Mutex<Lives>>,
    tasks: [JoinHandle<()>; 2],
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Witness {
    /// Begins to watch.
    pub fn start(client: &kube::Client) -> Self {
        let lives = Arc::new(Mutex::new(Lives::new()));
        let config = || watcher::Config::default().labels(&format!("{LABEL_MANAGED}=true"));
        let jobs = watcher(Api::<Job>::all(client.clone()), config());
        let pods = watcher(Api::<Pod>::all(client.clone()), config());
        let tasks = [follow(jobs, Arc::clone(&lives), on_job), follow(pods, Arc::clone(&lives), on_pod)];
        Self { lives, tasks }
    }

    /// Returns how many Jobs were seen.
    pub fn count(&self) -> usize {
        lock(&self.lives).len()
    }

    /// S3: no Job of a release was made before every former one could do nothing any more.
    pub fn one_live_job(&self) -> Vec<String> {
        overlaps(&lock(&self.lives))
    }
}

fn lock(lives: &Mutex<Lives>) -> MutexGuard<'_, Lives> {
    lives.lock().unwrap_or_else(PoisonError::into_inner)
}

fn follow<K: Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    lives: Arc<Mutex<Lives>>,
    on: fn(&mut Lives, &K, bool),
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => on(&mut lock(&lives), &object, false),
                Ok(Event::Delete(object)) => on(&mut lock(&lives), &object, true),
                Ok(Event::Init | Event::InitDone) => {}
                // The API server is away: that is what is tested.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(500)).await,
            }
        }
    })
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

fn on_job(lives: &mut Lives, job: &Job, gone: bool) {
    let life = lives.entry(job.metadata.uid.clone().unwrap_or_default()).or_default();
    let labels = job.metadata.labels.clone().unwrap_or_default();
    let component = labels.get(LABEL_COMPONENT).cloned().unwrap_or_default();
    life.release = format!("{}/{component}", job.metadata.namespace.clone().unwrap_or_default());
    let annotations = job.metadata.annotations.clone().unwrap_or_default();
    life.serial = annotations.get(ANNOTATION_SERIAL).cloned().unwrap_or_default();
    life.made.get_or_insert_with(|| version(job));
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let over = conditions
        .into_iter()
        .any(|condition| condition.status == "True" && matches!(&*condition.type_, "Complete" | "Failed"));
    if over || gone {
        life.job_ended.get_or_insert_with(|| version(job));
    }
}

fn on_pod(lives: &mut Lives, pod: &Pod, gone: bool) {
    let owner = pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Job");
    let Some(owner) = owner else { return };
    let life = lives.entry(owner.uid.clone()).or_default();
    let ended = life.pods.entry(pod.metadata.uid.clone().unwrap_or_default()).or_default();
    let status = pod.status.iter();
    let over = status.clone().any(|status| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")));
    let containers = status.flat_map(|status| status.container_statuses.iter().flatten());
    let terminated = containers
        .into_iter()
        .any(|container| container.state.as_ref().is_some_and(|state| state.terminated.is_some()));
    if over || terminated || gone {
        ended.get_or_insert_with(|| version(pod));
    }
}

fn overlaps(lives: &Lives) -> Vec<String> {
    let mut releases: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for life in lives.values().filter(|life| life.made.is_some()) {
        releases.entry(&life.release).or_default().push(life);
    }
    let mut broken = Vec::new();
    for (release, mut all) in releases {
        all.sort_by_key(|life| life.made);
        for pair in all.windows(2) {
            let [former, next] = pair else { continue };
            if former.ended().is_none_or(|ended| Some(ended) >= next.made) {
                broken.push(format!(
                    "S3: {release}: the Job of serial {} was made at {:?}, before that of serial {} ended at {:?}",
                    next.serial,
                    next.made,
                    former.serial,
                    former.ended()
                ));
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(made: u64, job_ended: Option<u64>, pod_ended: Option<Option<u64>>) -> Life {
        let pods = pod_ended.map(|ended| ("pod".to_owned(), ended)).into_iter().collect();
        Life { release: "r".into(), serial: made.to_string(), made: Some(made), job_ended, pods }
    }

    fn check(former: Life, broken: usize) {
        let lives = [("a".to_owned(), former), ("b".to_owned(), life(10, None, None))].into();
        assert_eq!(overlaps(&lives).len(), broken, "{lives:?}");
    }

    #[test]
    fn a_job_beside_a_running_one_of_its_release_breaks_s3() {
        check(life(1, Some(9), None), 0);
        check(life(1, None, Some(Some(9))), 0);
        check(life(1, None, None), 1);
        check(life(1, Some(11), None), 1);
    }

    #[test]
    fn a_pod_outlives_its_job() {
        check(life(1, Some(5), Some(None)), 1);
        check(life(1, Some(5), Some(Some(11))), 1);
        check(life(1, Some(5), Some(Some(9))), 0);
    }
}

//! The deployer's pod or Job is taken away while it works.

use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, EvictParams};
use rustix::process::Signal;

use super::{PATIENCE, create, deployer, ends, one_of_each, template};
use crate::cases::invariants::Invariants;
use crate::petri::{Error, Petri, is_ready};

/// How often it is looked whether the kubelet has asked a process to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long the deployer lingers after its Job was deleted: longer than the pause before the next attempt, which must
/// not begin beside it.
const LINGER: Duration = Duration::from_secs(14);

pub async fn evicted(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "one", &[("db", &[])]).await?;
    create(petri, "evicted", "one").await?;
    let (pod, process) = deployer(petri, "evicted").await?;
    // Else it would have done its work before the eviction reaches it.
    process.signal(Signal::STOP)?;
    pods_of(petri, &pod).evict(&name_of(&pod), &EvictParams::default()).await?;
    let started = Instant::now();
    while !process.is_asked_to_end() && started.elapsed() < PATIENCE {
        tokio::time::sleep(LOOK).await;
    }
    process.signal(Signal::CONT)?;
    let charged = ready(petri, "evicted").await?;
    let took = started.elapsed().as_secs_f64();
    if charged != 0 {
        return Err(Error::Wrong(format!("the eviction was charged as {charged} retries")));
    }
    if laws.jobs() < 2 {
        return Err(Error::Wrong("the evicted Job was not replaced".to_owned()));
    }
    finish(petri, "evicted", laws, &format!("Ready {took:.1} s after the eviction")).await
}

pub async fn deleted(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "one", &[("db", &[])]).await?;
    create(petri, "bereft", "one").await?;
    let (pod, process) = deployer(petri, "bereft").await?;
    process.signal(Signal::STOP)?;
    let job = pod.metadata.owner_references.iter().flatten().find(|owner| owner.kind == "Job");
    let job = job.map(|owner| owner.name.clone()).unwrap_or_default();
    let jobs: Api<Job> =
        Api::namespaced(petri.lab.client(), &pod.metadata.namespace.clone().unwrap_or_default());
    jobs.delete(&job, &DeleteParams::background()).await?;
    let started = Instant::now();
    tokio::time::sleep(LINGER).await;
    process.signal(Signal::CONT)?;
    let charged = ready(petri, "bereft").await?;
    let took = started.elapsed().as_secs_f64();
    finish(petri, "bereft", laws, &format!("Ready {took:.1} s after, {charged} retries charged")).await
}

fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

fn pods_of(petri: &Petri<'_>, pod: &Pod) -> Api<Pod> {
    Api::namespaced(petri.lab.client(), &pod.metadata.namespace.clone().unwrap_or_default())
}

/// Waits for Ready, and returns the most retries that were charged meanwhile.
async fn ready(petri: &Petri<'_>, name: &str) -> Result<i32, Error> {
    let charged = AtomicI32::new(0);
    petri
        .until(name, "Ready", PATIENCE, |environment| {
            let components = environment.status.iter().flat_map(|status| &status.components);
            let most = components.map(|component| component.deploy_retries).max().unwrap_or(0);
            charged.fetch_max(most, Ordering::Relaxed);
            is_ready(environment)
        })
        .await?;
    Ok(charged.into_inner())
}

async fn finish(petri: &Petri<'_>, name: &str, laws: Invariants, seen: &str) -> Result<String, Error> {
    let releases = one_of_each(petri, &petri.environments().get(name).await?).await?;
    ends(petri, name).await?;
    Ok(format!("{seen}; {releases}; {}", laws.judge().await?))
}

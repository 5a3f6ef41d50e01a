//! The checks before a write into a workload namespace: a live read, both labels, the same UID; and before a Job is
//! made, that no other of its component runs.

use super::Error;
use crate::{
    client::{CALL_MAX, timed},
    controller::kept::{Job, Kept, Pod, parsed},
    observe::fold,
    render::{Alone, NamespaceGuard},
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client, api::ListParams};
use petri_crds::meta::{LABEL_COMPONENT, LABEL_ENVIRONMENT_UID, LABEL_MANAGED, TRUE};
use std::sync::Arc;

/// Tells whether metadata bears both labels of an environment.
pub fn is_ours(metadata: &ObjectMeta, environment: &str) -> bool {
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    label(LABEL_MANAGED) == Some(TRUE) && label(LABEL_ENVIRONMENT_UID) == Some(environment)
}

pub(super) async fn check(client: &Client, guard: &NamespaceGuard) -> Result<(), Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let name = guard.namespace.name.as_str();
    let displaced = |why: &'static str| Error::Displaced { namespace: name.to_owned(), why };
    let Some(metadata) = timed(CALL_MAX, api.get_metadata_opt(name)).await?.map(|found| found.metadata)
    else {
        return Err(displaced("is gone"));
    };
    if metadata.uid.as_deref() != Some(guard.namespace.uid.as_str()) {
        return Err(displaced("is another one of the same name"));
    }
    if !is_ours(&metadata, guard.environment.as_str()) {
        return Err(displaced("does not bear this environment's labels"));
    }
    if guard.alive && metadata.deletion_timestamp.is_some() {
        return Err(displaced("is being deleted"));
    }
    Ok(())
}

/// Lists the Jobs and the pods of the component, live. A Job that its controller has not ended yet may have ended all
/// the same: its pod says so a second or two earlier. And a pod that runs may have lost its Job, to whoever deleted it.
pub(super) async fn check_alone(client: &Client, alone: &Alone) -> Result<(), Error> {
    let Alone { namespace, owner, component, .. } = alone;
    let own = format!("{LABEL_ENVIRONMENT_UID}={owner},{LABEL_COMPONENT}={component}");
    let own = ListParams::default().labels(&own);
    let jobs: Api<parsed::Job> = Api::namespaced(client.clone(), namespace);
    let pods: Api<parsed::Pod> = Api::namespaced(client.clone(), namespace);
    let (jobs, pods) = tokio::try_join!(timed(CALL_MAX, jobs.list(&own)), timed(CALL_MAX, pods.list(&own)))?;
    let pods: Vec<_> = pods.items.into_iter().map(|pod| Arc::new(Kept::from(pod))).collect();
    let mut others = jobs.items.into_iter().map(Kept::from).filter(|job| job.name() != alone.job.as_str());
    if let Some(job) = others.find(|job| is_live(job, &pods)) {
        return Err(Error::Busy(format!("job {}", job.name())));
    }
    match pods.iter().find(|pod| !pod.of.told.is_over && !is_of(&pod.of, alone)) {
        None => Ok(()),
        Some(pod) => Err(Error::Busy(format!("pod {}", pod.name()))),
    }
}

fn is_live(job: &Kept<Job>, pods: &[Arc<Kept<Pod>>]) -> bool {
    fold::view(job, pods).is_some_and(|(_, view)| petri_machines::job::is_live(&view))
}

fn is_of(pod: &Pod, alone: &Alone) -> bool {
    pod.job.as_ref().is_some_and(|job| *job.name == *alone.job.as_str())
}

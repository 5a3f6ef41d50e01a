//! What a cluster does by itself: pods start and end, Helm changes releases, workloads become ready, namespaces go.

use super::cluster::{Cluster, Job, Pod, Release, Space};
use petri_machines::{
    job::{JobFailure, Op},
    names::ComponentName,
    reason::FailureReason,
};

/// An outcome that Helm reported: the God's-eye truth that invariant S8 compares with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The Job.
    pub job: Job,
    /// What it was to install.
    pub payload: Option<petri_machines::names::Digest>,
    /// Whether it did.
    pub succeeded: bool,
}

/// Starts the oldest waiting pod of a component: it needs the deployer's rights, and to deploy its Secret.
pub fn pod_starts(cluster: &mut Cluster, component: &ComponentName) -> bool {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours && !space.terminating);
    for space in ours {
        let Space { secrets, jobs, access, .. } = space;
        let waits = |(name, job): &(&petri_machines::names::JobName, &mut Job)| {
            job.component == *component
                && job.pod == Pod::Waiting
                && !job.deleting
                && (job.op.removes() || secrets.contains_key(*name))
        };
        let able = access.account && access.deployer;
        if let Some((name, job)) = jobs.iter_mut().filter(|_| able).find(waits) {
            (job.pod, job.complaint) = (Pod::Running, None);
            job.mounted = secrets.get(name).map(|secret| secret.payload.clone());
            cluster.changed();
            return true;
        }
    }
    false
}

/// Ends the running pod of a component. A failed Helm leaves what it began.
pub fn pod_ends(
    cluster: &mut Cluster,
    component: &ComponentName,
    failure: Option<JobFailure>,
) -> Option<Outcome> {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours);
    for space in ours {
        let running = |(_, job): &(_, &mut Job)| job.component == *component && job.pod == Pod::Running;
        let Some((_, job)) = space.jobs.iter_mut().find(running) else { continue };
        let payload = job.mounted.clone();
        let succeeded = failure.is_none();
        job.pod = failure.map_or(Pod::Succeeded, Pod::Failed);
        let job = job.clone();
        helm(space, &job, payload.clone(), succeeded);
        cluster.changed();
        return Some(Outcome { job, payload, succeeded });
    }
    None
}

fn helm(space: &mut Space, job: &Job, payload: Option<petri_machines::names::Digest>, succeeded: bool) {
    let component = job.component.clone();
    match (job.op, succeeded) {
        (Op::Deploy, true) => {
            space
                .releases
                .insert(component, Release { payload, serial: job.serial, ready: false, complaint: None });
        }
        // What a failed Helm applied stands without an inventory.
        (Op::Deploy, false) => {
            space.releases.insert(component, Release { payload, serial: 0, ready: false, complaint: None });
        }
        (Op::Undeploy, true) => drop(space.releases.remove(&component)),
        (Op::Undeploy, false) | (Op::Provision | Op::Deprovision, _) => {}
    }
}

/// Makes a workload serve, or not.
pub fn workload(cluster: &mut Cluster, component: &ComponentName, ready: bool) -> bool {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours && !space.terminating);
    let release = ours.into_iter().find_map(|space| space.releases.get_mut(component));
    let changed = release.is_some_and(|release| {
        let was = (release.ready, release.complaint.take());
        release.ready = ready;
        was != (ready, None)
    });
    if changed {
        cluster.changed();
    }
    changed
}

/// Keeps a waiting pod of a component from starting: its image, a quota, the scheduler.
pub fn pod_complains(cluster: &mut Cluster, component: &ComponentName, reason: FailureReason) -> bool {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours && !space.terminating);
    let mut jobs = ours.flat_map(|space| space.jobs.values_mut());
    let waits = |job: &&mut Job| job.component == *component && job.pod == Pod::Waiting && !job.deleting;
    let changed = jobs.find(waits).is_some_and(|job| job.complaint.replace(reason) != Some(reason));
    if changed {
        cluster.changed();
    }
    changed
}

/// Keeps a pod of a workload from starting or staying.
pub fn workload_complains(cluster: &mut Cluster, component: &ComponentName, reason: FailureReason) -> bool {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours && !space.terminating);
    let mut releases = ours.filter_map(|space| space.releases.get_mut(component));
    let changed = releases.find(|release| release.serial > 0).is_some_and(|release| {
        let was = (release.ready, release.complaint.replace(reason));
        release.ready = false;
        was != (false, Some(reason))
    });
    if changed {
        cluster.changed();
    }
    changed
}

/// Takes the pods of Jobs that are being deleted, and then the Jobs. A Helm that was killed leaves what it began.
pub fn deleted_jobs_go(cluster: &mut Cluster) -> bool {
    let mut changed = false;
    for space in cluster.spaces.values_mut() {
        let going: Vec<_> =
            space.jobs.iter().filter(|(_, job)| job.deleting).map(|(n, j)| (n.clone(), j.clone())).collect();
        for (name, job) in going {
            if job.pod == Pod::Running && job.op == Op::Deploy {
                helm(space, &job, None, false);
            }
            space.jobs.remove(&name);
            changed = true;
        }
    }
    if changed {
        cluster.changed();
    }
    changed
}

/// Deletes a Job by somebody's hand.
pub fn job_deleted_by_hand(cluster: &mut Cluster, component: &ComponentName) -> bool {
    let ours = cluster.spaces.values_mut().filter(|space| space.ours);
    let job = ours
        .into_iter()
        .flat_map(|space| space.jobs.values_mut())
        .filter(|job| job.component == *component && !job.deleting)
        .max_by_key(|job| job.serial);
    let Some(job) = job else { return false };
    job.deleting = true;
    cluster.changed();
    true
}

/// One step of the namespace controller: pods and Jobs, then everything else, then the namespace.
pub fn namespaces_go(cluster: &mut Cluster) -> bool {
    let Some((name, space)) = cluster.spaces.iter_mut().find(|(_, space)| space.terminating) else {
        return false;
    };
    let is_empty = space.secrets.is_empty()
        && space.releases.is_empty()
        && space.furniture.is_empty()
        && space.access == Default::default();
    if !space.jobs.is_empty() {
        space.jobs.clear();
    } else if !is_empty {
        space.secrets.clear();
        space.releases.clear();
        space.furniture.clear();
        space.access = Default::default();
    } else {
        let name = name.clone();
        cluster.spaces.remove(&name);
    }
    cluster.changed();
    true
}

/// Lets everything happen that happens without faults; one thing at a time. Returns whether anything did.
pub fn quiet_progress(cluster: &mut Cluster) -> Option<Progress> {
    if deleted_jobs_go(cluster) || namespaces_go(cluster) {
        return Some(Progress::Cleaned);
    }
    let names: Vec<ComponentName> = cluster.jobs().into_iter().map(|(name, _)| name).collect();
    for name in &names {
        if pod_starts(cluster, name) {
            return Some(Progress::Started);
        }
        if let Some(outcome) = pod_ends(cluster, name, None) {
            return Some(Progress::Ended(outcome));
        }
    }
    let spaces = cluster.spaces.values().filter(|space| space.ours);
    let unready = spaces.flat_map(|space| space.releases.iter().filter(|(_, release)| !release.ready));
    let served: Vec<ComponentName> =
        unready.filter(|(_, release)| release.serial > 0).map(|(name, _)| name.clone()).collect();
    served.iter().any(|name| workload(cluster, name, true)).then_some(Progress::Served)
}

/// What happened by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something that was being deleted went.
    Cleaned,
    /// A pod started.
    Started,
    /// Helm ended.
    Ended(Outcome),
    /// A workload became ready.
    Served,
}

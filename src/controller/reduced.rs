//! What is kept in memory: what is read there. Most of what the controllers and the kubelet write of a Job and its pod
//! on the way is not, and wakes nobody.
use k8s_openapi::{
    Metadata,
    api::{
        batch::v1::{Job, JobStatus},
        core::v1::{ContainerState, ContainerStatus, Pod, PodStatus},
    },
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use petri_crds::{EphemeralEnvironment, EphemeralEnvironmentSpec, EphemeralEnvironmentStatus};

/// Reasons of a waiting container that is on its way.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Conditions of a pod that say more than how far it is.
const TELLING: [&str; 2] = ["PodScheduled", "DisruptionTarget"];
/// Phases of a pod that can do nothing any more.
const OVER: [&str; 2] = ["Succeeded", "Failed"];

/// Keeps of an environment its metadata, its template's name, its phase and of which generation that is, its namespace,
/// and whether it waits for a place at a shared component: a pass reads the object itself.
pub(crate) fn environment(environment: &mut EphemeralEnvironment) {
    let template = std::mem::take(&mut environment.spec.template);
    environment.spec = EphemeralEnvironmentSpec { template, ..Default::default() };
    environment.status = environment.status.take().map(
        |EphemeralEnvironmentStatus { phase, observed_generation, target_namespace, conditions, .. }| {
            EphemeralEnvironmentStatus {
                phase,
                observed_generation,
                target_namespace,
                conditions: conditions.into_iter().filter_map(waits).collect(),
                ..Default::default()
            }
        },
    );
}

/// Keeps of the conditions that one, without its words.
fn waits(condition: Condition) -> Option<Condition> {
    let told = condition.type_ == "SharedComponentsReady";
    told.then(|| Condition { message: String::new(), ..condition })
}

/// Keeps of a Job its metadata and its conditions.
pub(crate) fn job(job: &mut Job) {
    job.spec = None;
    let conditions = job.status.take().and_then(|status| status.conditions);
    job.status =
        conditions.map(|conditions| JobStatus { conditions: Some(conditions), ..Default::default() });
}

/// Keeps of a pod its metadata, how it ended, and what keeps it from starting.
pub(crate) fn pod(pod: &mut Pod) {
    pod.spec = None;
    pod.status = pod.status.take().map(|status| PodStatus {
        phase: status.phase.filter(|phase| OVER.contains(&phase.as_str())),
        reason: status.reason,
        message: status.message,
        // A pod that has its node says the same of it in every version.
        conditions: kept(status.conditions, |one| {
            let placed = one.type_ == "PodScheduled" && one.status == "True";
            (TELLING.contains(&one.type_.as_str()) && !placed).then_some(one)
        }),
        container_statuses: kept(status.container_statuses, container),
        ..PodStatus::default()
    });
}

/// Keeps of a container its end, and what keeps it from starting.
fn container(status: ContainerStatus) -> Option<ContainerStatus> {
    let ContainerState { waiting, terminated, .. } = status.state?;
    let on_its_way = |reason: Option<&str>| reason.is_some_and(|reason| ON_ITS_WAY.contains(&reason));
    let waiting = waiting.filter(|waiting| !on_its_way(waiting.reason.as_deref()));
    if waiting.is_none() && terminated.is_none() {
        return None;
    }
    let state = Some(ContainerState { running: None, terminated, waiting });
    Some(ContainerStatus { name: status.name, state, ..ContainerStatus::default() })
}

/// Keeps of a list what is read; an empty one is none, or it would differ from the one that is not there yet.
fn kept<T>(all: Option<Vec<T>>, keep: impl Fn(T) -> Option<T>) -> Option<Vec<T>> {
    let kept: Vec<T> = all.into_iter().flatten().filter_map(keep).collect();
    (!kept.is_empty()).then_some(kept)
}

/// Tells whether two versions of an object are the same in all that is kept of it.
pub(crate) fn is_same<K: Metadata<Ty = ObjectMeta> + Clone + PartialEq>(one: &K, other: &K) -> bool {
    let mut other = other.clone();
    other.metadata_mut().resource_version.clone_from(&one.metadata().resource_version);
    *one == other
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod_with(version: &str, status: Value) -> Pod {
        let mut it: Pod = serde_json::from_value(
            json!({"metadata": {"name": "p", "resourceVersion": version}, "status": status}),
        )
        .unwrap();
        pod(&mut it);
        it
    }

    fn deployer(state: Value) -> Value {
        json!([{"name": "deployer", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state}])
    }

    /// Whether the second status is news after the first.
    fn check(before: Value, after: Value, news: bool) {
        let (one, other) = (pod_with("1", before.clone()), pod_with("2", after.clone()));
        assert_eq!(!is_same(&one, &other), news, "{before} → {after}");
    }

    #[test]
    fn a_pod_that_goes_its_way_is_no_news_and_one_that_ends_or_cannot_is() {
        let creating = || {
            let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
                "containerStatuses": deployer(waiting)})
        };
        let running = || {
            let state = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
            json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": deployer(state),
                "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]})
        };
        let ended = |phase: &str| {
            let state = json!({"terminated": {"exitCode": 0}});
            json!({"phase": phase, "containerStatuses": deployer(state), "conditions": []})
        };
        check(json!({"phase": "Pending"}), creating(), false);
        check(creating(), running(), false);
        check(running(), ended("Running"), true);
        check(ended("Running"), ended("Succeeded"), true);
        let stuck = json!({"waiting": {"reason": "ImagePullBackOff", "message": "m"}});
        check(creating(), json!({"containerStatuses": deployer(stuck)}), true);
        let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        check(json!({"conditions": []}), disrupted, true);
        let unschedulable = |why: &str| {
            let told =
                json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why});
            json!({"conditions": [told]})
        };
        check(json!({"phase": "Pending"}), unschedulable("a"), true);
        check(unschedulable("a"), unschedulable("b"), true);
    }

    #[test]
    fn a_job_is_news_by_its_conditions_and_its_metadata_not_by_its_counts() {
        let with = |version: &str, status: Value| {
            let mut it: Job = serde_json::from_value(
                json!({"metadata": {"name": "j", "resourceVersion": version}, "status": status}),
            )
            .unwrap();
            job(&mut it);
            it
        };
        let complete = || json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert!(is_same(&with("1", json!({"active": 1})), &with("2", json!({"active": 1, "ready": 1}))));
        assert!(!is_same(&with("1", json!({"active": 1})), &with("2", complete())));
        let mut going = with("3", complete());
        going.metadata.deletion_grace_period_seconds = Some(0);
        assert!(!is_same(&with("2", complete()), &going));
    }
}

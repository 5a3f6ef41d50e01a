//! What must hold on a cluster that fails: parts of it stopped, a bad line, a dead leader, blocked deletions.
//!
//! Each case is judged by the [`invariants`](super::invariants) besides what it looks at itself.

mod deletion;
mod helm;
mod jobs;
mod odd;
mod outages;
mod outside;
mod places;
pub(super) mod process;
mod renewal;
mod replicas;
mod skew;
mod used;
mod weather;

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use kube::api::{Api, ListParams};
use petri_crds::{EphemeralEnvironment, meta};
use serde_json::{Value, json};

use super::sharing::redis;
use super::{Case, case, hooks, releases};
use crate::petri::{Error, MANAGEMENT, Petri, namespace_of, summary};
use process::Found;
pub(super) use used::{EVERYWHERE, OWN, Right, SHARED, WORKLOAD, granted, needed, show, used};

/// How long anything may take after a fault is over.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often something is looked at that passes quickly.
const GLANCE: Duration = Duration::from_millis(20);

/// Returns every case of a failing cluster, in the order they run.
pub fn faults() -> Vec<Case> {
    vec![
        case!("an API server that is away for fifteen seconds costs nothing", outages::api_server),
        case!("an etcd that is away for thirty seconds costs nothing", outages::etcd),
        case!("a kubelet that is away during a deploy Job costs nothing", outages::kubelet),
        case!("an evicted deployer is not charged", jobs::evicted),
        case!("a deployer Job deleted by hand is replaced when its pod has ended", jobs::deleted),
        case!(
            "a namespace that hangs is said with its own words, and goes on when released",
            deletion::blocked
        ),
        case!("deletion ends in each phase, twice in the foreground and by force too", deletion::phases),
        case!("helm killed at each kind of its writes is finished by the next run", helm::run),
        case!("a release is deployed and removed from every state that helm can leave it in", releases::run),
        case!("hooks that fail, hang or find no node end in time and say so", hooks::run),
        case!("a template of 64 components with the oddest values is taken", odd::large),
        case!("a template turned into a cycle under a Ready environment is said, and heals", odd::cycle),
        case!("two hundred environments of one template come and go", odd::many),
        case!("a leader that dies is followed, and one that was frozen writes nothing after", replicas::run),
        case!("ten environments live through a line that delays, cuts, refuses and loses", weather::run),
        case!(
            "an operator whose clock is an hour off ends nothing early and nothing late",
            skew::ttl_04_an_operator_whose_clock_is_an_hour_off_ends_nothing_early
        ),
        case!("a token and a certificate that are renewed under way cost nothing", renewal::run),
        case!("thirty environments race for five places while the operator is killed", places::race),
        case!(
            "a slice that cannot be removed is given up, and its place waits for a person",
            redis::abandoned
        ),
        case!("an idle shared component costs no write in five minutes", redis::quiet),
        case!("the operator was refused nothing and uses the rights it has", used::run),
    ]
}

/// Applies a template of exemplar databases; each component needs those named.
async fn template(petri: &Petri<'_>, name: &str, components: &[(&str, &[&str])]) -> Result<(), Error> {
    let component = |(name, needs): &(&str, &[&str])| json!({"name": name, "dependsOn": needs, "helm": {"path": "/charts/postgres"}});
    let components: Vec<Value> = components.iter().map(component).collect();
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": name, "namespace": MANAGEMENT}, "spec": {"components": components},
    });
    let template = serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

/// Makes an environment of a template.
async fn create(petri: &Petri<'_>, name: &str, template: &str) -> Result<(), Error> {
    let environment = super::bad_input::environment(name, template, json!({}));
    petri.apply_object(&petri.environments(), &environment).await?;
    Ok(())
}

/// Asks for the deletion, and waits until nothing is left.
async fn ends(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    petri.delete(name).await?;
    petri.until_gone(name, PATIENCE).await?;
    super::bad_input::cleaned(petri).await
}

/// Waits until a deployer of the environment runs, and returns its pod and its process.
async fn deployer(petri: &Petri<'_>, environment: &str) -> Result<(Pod, Found), Error> {
    let pods: Api<Pod> = Api::all(petri.lab.client());
    let own = ListParams::default().labels(&format!("{}={environment}", meta::LABEL_ENVIRONMENT));
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        for pod in pods.list(&own).await? {
            let uid = pod.metadata.uid.clone().unwrap_or_default();
            if let Some(found) = process::in_pod(&uid, "petri-deployer")?.pop() {
                return Ok((pod, found));
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
    let last = petri.environments().get(environment).await?;
    let what = format!("{environment}: a running deployer");
    Err(Error::Late { what, seconds: PATIENCE.as_secs(), last: summary(&last) })
}

/// Asserts that each release is there once and deployed, in the only namespace of the environment; returns the
/// revisions.
async fn one_of_each(petri: &Petri<'_>, environment: &EphemeralEnvironment) -> Result<String, Error> {
    let uid = environment.metadata.uid.clone().unwrap_or_default();
    let own = ListParams::default().labels(&format!("{}={uid}", meta::LABEL_ENVIRONMENT_UID));
    let namespaces: Api<Namespace> = Api::all(petri.lab.client());
    let namespaces = namespaces.list(&own).await?.items.len();
    if namespaces != 1 {
        return Err(Error::Wrong(format!("{namespaces} namespaces belong to the environment")));
    }
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), &namespace_of(environment)?);
    let name = environment.metadata.name.clone().unwrap_or_default();
    let mut revisions = Vec::new();
    for component in environment.status.iter().flat_map(|status| &status.components) {
        let release = format!("{name}-{}", component.name);
        let deployed = format!("owner=helm,name={release},status=deployed");
        let deployed = secrets.list(&ListParams::default().labels(&deployed)).await?.items;
        let [deployed] = deployed.as_slice() else {
            return Err(Error::Wrong(format!("{release}: {} deployed revisions", deployed.len())));
        };
        let labels = deployed.metadata.labels.clone().unwrap_or_default();
        revisions.push(format!("{release} at revision {}", labels["version"]));
    }
    Ok(revisions.join(", "))
}

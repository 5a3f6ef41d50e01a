//! What stays until somebody looked at it, what goes with its namespace, and what a crowded cluster costs.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use petri_crds::Phase;
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment, simple_template};
use crate::petri::{Error, Petri, namespace_of};

const PATIENCE: Duration = Duration::from_secs(90);
/// Longer than anything that would clean up after a failure.
const LATER: Duration = Duration::from_secs(20);
/// The class of a volume that is there already; nobody provisions it.
const CLASS: &str = "petri-e2e";
const MANY: usize = 2000;
const AT_ONCE: usize = 16;
/// How much longer a deploy may take beside so many definitions.
const LONGER_MAX: Duration = Duration::from_secs(5);
const GONE_MAX: Duration = Duration::from_secs(300);
const LABEL: &str = "petri-e2e=crowd";

/// HELM-16: the pod of a failed deploy and what it said are there until the environment is deleted.
pub async fn evidence(petri: &Petri<'_>) -> Result<String, Error> {
    simple_template(petri, "evidence", json!({"path": "/charts/nothing-here"})).await?;
    petri.apply_object(&petri.environments(), &environment("evidence", "evidence", json!({}))).await?;
    let failed = |one: &petri_crds::EphemeralEnvironment| {
        one.status.as_ref().and_then(|status| status.phase) == Some(Phase::Failed)
    };
    let found = petri.until("evidence", "Failed", PATIENCE, failed).await?;
    tokio::time::sleep(LATER).await;
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), &namespace_of(&found)?);
    let pod = pods.list(&ListParams::default()).await?.items.pop();
    let pod = pod.ok_or_else(|| Error::Wrong("the failed deployer's pod is gone".to_owned()))?;
    let log = pods.logs(pod.metadata.name.as_deref().unwrap_or_default(), &LogParams::default()).await?;
    let line = log.lines().find(|line| line.contains("nothing-here"));
    let line =
        line.ok_or_else(|| Error::Wrong(format!("the log does not say what failed: {log}")))?.to_owned();
    ends(petri, "evidence").await?;
    Ok(line.chars().take(120).collect())
}

/// HELM-17: the claims of a StatefulSet, which helm leaves, go with the namespace and free their volume.
pub async fn claims(petri: &Petri<'_>) -> Result<String, Error> {
    let volumes: Api<PersistentVolume> = Api::all(petri.lab.client());
    let volume = json!({
        "metadata": {"name": CLASS},
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/tmp", "type": "Directory"},
        },
    });
    volumes.create(&PostParams::default(), &object(volume)?).await?;
    let told = claimed(petri, &volumes).await;
    volumes.delete(CLASS, &DeleteParams::default()).await?;
    told
}

async fn claimed(petri: &Petri<'_>, volumes: &Api<PersistentVolume>) -> Result<String, Error> {
    let helm = json!({"path": "/charts/tiny", "valuesObject": {"workload": false, "claim": CLASS}});
    simple_template(petri, "claims", helm).await?;
    petri.apply_object(&petri.environments(), &environment("claims", "claims", json!({}))).await?;
    let ready = petri.until_ready("claims", PATIENCE).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(petri.lab.client(), &namespace_of(&ready)?);
    let bound = claims.list(&ListParams::default()).await?.items;
    if bound.len() != 1 {
        return Err(Error::Wrong(format!("{} claims instead of one", bound.len())));
    }
    ends(petri, "claims").await?;
    let left = claims.list(&ListParams::default()).await?.items.len();
    let phase = volumes.get(CLASS).await?.status.and_then(|status| status.phase);
    match (left, phase.as_deref()) {
        (0, Some("Released")) => Ok("one claim bound, then gone, its volume released".to_owned()),
        (left, phase) => Err(Error::Wrong(format!("{left} claims are left, the volume is {phase:?}"))),
    }
}

/// HELM-11: what helm has to discover on a crowded cluster does not eat the deadline of a deploy.
pub async fn crowd(petri: &Petri<'_>) -> Result<String, Error> {
    let helm = json!({"path": "/charts/tiny", "valuesObject": {"workload": false}});
    simple_template(petri, "crowd", helm).await?;
    life(petri, "crowd-warm").await?;
    let before = life(petri, "crowd-before").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(petri.lab.client());
    let make = |number: usize| {
        let definitions = definitions.clone();
        async move {
            definitions
                .create(&PostParams::default(), &definition(number)?)
                .await
                .map(drop)
                .map_err(Error::from)
        }
    };
    let made = stream::iter(0..MANY).map(make).buffer_unordered(AT_ONCE).try_collect::<()>().await;
    let lived = match made {
        // The server publishes them one after the other.
        Ok(()) => {
            tokio::time::sleep(LATER).await;
            to_ready(petri, "crowd-after").await
        }
        Err(error) => Err(error),
    };
    definitions.delete_collection(&DeleteParams::default(), &ListParams::default().labels(LABEL)).await?;
    let after = lived?;
    // Its namespace ends late: the cluster's own controller asks for the objects of each of the kinds first.
    petri.delete("crowd-after").await?;
    petri.until_gone("crowd-after", GONE_MAX).await?;
    cleaned(petri).await?;
    if after > before + LONGER_MAX {
        return Err(Error::Wrong(format!("{before:?} became {after:?}")));
    }
    Ok(format!(
        "created to Ready {:.1} s, beside {MANY} definitions {:.1} s",
        before.as_secs_f64(),
        after.as_secs_f64()
    ))
}

async fn to_ready(petri: &Petri<'_>, name: &str) -> Result<Duration, Error> {
    let started = Instant::now();
    petri.apply_object(&petri.environments(), &environment(name, "crowd", json!({}))).await?;
    petri.until_ready(name, PATIENCE).await?;
    Ok(started.elapsed())
}

async fn life(petri: &Petri<'_>, name: &str) -> Result<Duration, Error> {
    let took = to_ready(petri, name).await?;
    ends(petri, name).await?;
    Ok(took)
}

fn definition(number: usize) -> Result<CustomResourceDefinition, Error> {
    let (group, plural, kind) = ("crowd.petri.run", format!("things{number}"), format!("Thing{number}"));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    object(json!({
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"petri-e2e": "crowd"}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    }))
}

async fn ends(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    petri.delete(name).await?;
    petri.until_gone(name, PATIENCE).await?;
    cleaned(petri).await
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> Result<K, Error> {
    serde_json::from_value(json).map_err(|error| Error::Wrong(error.to_string()))
}

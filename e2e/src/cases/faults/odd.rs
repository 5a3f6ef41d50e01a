//! What is large, odd, or many at once, but allowed.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, Phase, meta};
use serde_json::{Value, json};

use super::{GLANCE, PATIENCE};
use crate::cases::bad_input::{cleaned, environment};
use crate::cases::invariants::Invariants;
use crate::petri::{Error, MANAGEMENT, Petri, is_ready, namespace_of, story, summary};

/// The most that a template may have.
const COMPONENTS: usize = 64;
const MANY: usize = 200;
/// The one that is made while the operator restarts.
const LATE: &str = "many-and-one";
/// Two cores work at four hundred Jobs for that long.
const LONG: Duration = Duration::from_secs(900);
/// Two seconds, and one for the API server's times, which are whole seconds.
const FIRST_WORD_SECS: f64 = 3.0;
/// How many requests are under way at once.
const AT_ONCE: usize = 20;

/// A template of the most components that are allowed, with values and annotations nobody would think of.
pub async fn large(petri: &Petri<'_>) -> Result<String, Error> {
    let long = "v".repeat(4_000);
    let odd = "Größe — 大きさ — \u{1F40C} \" ' {{ not a template }} $(HOME) \\ \t";
    let component = |number: usize| {
        json!({"name": format!("c{number}"), "helm": {"path": "/charts/tiny", "valuesObject": {
            "workload": false, "note": {"long": long, "odd": odd.replace("{{", "{ {").replace("}}", "} }")},
        }}})
    };
    template(petri, "large", &(0..COMPONENTS).map(component).collect::<Vec<_>>()).await?;
    let mut large = environment("large", "large", json!({}));
    large.metadata.annotations = Some(
        [
            (meta::ANNOTATION_RETRY, odd),
            (meta::ANNOTATION_TRACEPARENT, "00-nonsense"),
            (meta::ANNOTATION_HOLD, "perhaps"),
            ("example.com/note", odd),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
    );
    petri.apply_object(&petri.environments(), &large).await?;
    let started = Instant::now();
    let ready = petri.until_ready("large", LONG).await?;
    let took = started.elapsed().as_secs_f64();
    let there = ready.status.map_or(0, |status| status.components.len());
    if there != COMPONENTS {
        return Err(Error::Wrong(format!("{there} components are in the status")));
    }
    // Any value of the hold holds a deletion: who set it meant something.
    let free = json!({"metadata": {"annotations": {meta::ANNOTATION_HOLD: null}}});
    petri.environments().patch("large", &PatchParams::default(), &Patch::Merge(free)).await?;
    away(petri, &["large".to_owned()]).await?;
    Ok(format!("{COMPONENTS} components Ready after {took:.0} s"))
}

/// A template that is edited into a cycle under a Ready environment is said, touches nothing, and heals.
pub async fn cycle(petri: &Petri<'_>) -> Result<String, Error> {
    let bare = |name: &str, after: &[&str]| json!({"name": name, "dependsOn": after, "helm": {"path": "/charts/tiny", "valuesObject": {"workload": false}}});
    let sound = [bare("a", &[]), bare("b", &["a"])];
    template(petri, "turned", &sound).await?;
    petri.apply_object(&petri.environments(), &environment("turned", "turned", json!({}))).await?;
    let namespace = namespace_of(&petri.until_ready("turned", PATIENCE).await?)?;
    template(petri, "turned", &[bare("a", &["b"]), bare("b", &["a"])]).await?;
    let told = |found: &EphemeralEnvironment| {
        found.status.as_ref().and_then(|status| status.phase) == Some(Phase::Failed)
            && story(found).0 == "InvalidConfiguration"
            && story(found).1.contains("cycle")
    };
    let told = story(&petri.until("turned", "the cycle said", PATIENCE, told).await?).1;
    template(petri, "turned", &sound).await?;
    let healed = petri.until_ready("turned", PATIENCE).await?;
    if namespace_of(&healed)? != namespace {
        return Err(Error::Wrong("healed in another namespace".to_owned()));
    }
    away(petri, &["turned".to_owned()]).await?;
    Ok(told)
}

/// Two hundred environments of one template come up and go, and no invariant breaks.
pub async fn many(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    let bare = json!({"name": "a", "helm": {"path": "/charts/tiny", "valuesObject": {"workload": false}}});
    template(petri, "many", &[bare]).await?;
    let names: Vec<String> = (0..MANY).map(|number| format!("many-{number}")).collect();
    let started = Instant::now();
    let create = |name: String| async move {
        petri.apply_object(&petri.environments(), &environment(&name, "many", json!({}))).await.map(drop)
    };
    stream::iter(names.clone()).map(create).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    until(petri, "Ready", |all| all.len() >= MANY && all.iter().all(is_ready)).await?;
    let up = started.elapsed().as_secs_f64();
    let first = restarted(petri).await?;
    let started = Instant::now();
    away(petri, &[names, vec![LATE.to_owned()]].concat()).await?;
    let (down, judged) = (started.elapsed().as_secs_f64(), laws.judge().await?);
    Ok(format!(
        "{MANY} Ready after {up:.0} s, gone after {down:.0} s; a restarted operator's first word after {first:.0} s; {judged}"
    ))
}

/// WATCH-11, PEER-09: an operator that begins among many has time for a new one at once. Returns the seconds from the
/// start of its container to the first word about an environment that was made while nobody was there.
async fn restarted(petri: &Petri<'_>) -> Result<f64, Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let own = ListParams::default().labels("app.kubernetes.io/name=petri-operator");
    let old = pods.list(&own).await?.items;
    for pod in &old {
        pods.delete(pod.metadata.name.as_deref().unwrap_or_default(), &DeleteParams::default()).await?;
    }
    // Until it has ended, the old one still serves.
    let started = Instant::now();
    let is_old = |pod: &Pod| old.iter().any(|one| one.metadata.uid == pod.metadata.uid);
    while pods.list(&own).await?.items.iter().any(is_old) && started.elapsed() < PATIENCE {
        tokio::time::sleep(GLANCE).await;
    }
    petri.apply_object(&petri.environments(), &environment(LATE, "many", json!({}))).await?;
    let said = |found: &EphemeralEnvironment| found.status.is_some();
    let found = petri.until(LATE, "a first word", PATIENCE, said).await?;
    let first = found.metadata.managed_fields.iter().flatten().filter_map(|entry| {
        let is_status = entry.subresource.as_deref() == Some("status");
        entry.time.as_ref().filter(|_| is_status).map(|time| time.0)
    });
    let (pods, first) = (pods.list(&own).await?.items, first.min());
    let made = found.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let begun = pods.iter().filter_map(|pod| {
        let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
        Some(containers.first()?.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0)
    });
    let (Some(first), Some(begun)) = (first, begun.chain(made).max()) else {
        return Err(Error::Wrong("no first word or no running operator was seen".to_owned()));
    };
    petri.until_ready(LATE, PATIENCE).await?;
    let took = first.duration_since(begun).as_secs_f64();
    if took > FIRST_WORD_SECS {
        return Err(Error::Wrong(format!("the first word came {took:.0} s after the start")));
    }
    Ok(took)
}

async fn away(petri: &Petri<'_>, names: &[String]) -> Result<(), Error> {
    let delete = |name: String| async move { petri.delete(&name).await };
    stream::iter(names.to_vec()).map(delete).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let own = |one: &EphemeralEnvironment| names.contains(&one.metadata.name.clone().unwrap_or_default());
    until(petri, "gone", |all| !all.iter().any(own)).await?;
    cleaned(petri).await
}

async fn until(
    petri: &Petri<'_>,
    what: &str,
    done: impl Fn(&[EphemeralEnvironment]) -> bool,
) -> Result<(), Error> {
    let (started, api) = (Instant::now(), petri.environments());
    loop {
        let all = api.list(&Default::default()).await?.items;
        if done(&all) {
            return Ok(());
        }
        if started.elapsed() > LONG {
            let open = all.iter().filter(|one| !is_ready(one)).take(3).map(summary).collect::<Vec<_>>();
            let (what, last) = (format!("{} environments {what}", all.len()), open.join("\n"));
            return Err(Error::Late { what, seconds: LONG.as_secs(), last });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn template(petri: &Petri<'_>, name: &str, components: &[Value]) -> Result<(), Error> {
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": name, "namespace": MANAGEMENT}, "spec": {"components": components},
    });
    let template: EnvironmentTemplate =
        serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

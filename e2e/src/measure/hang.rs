//! Environments whose probes hang beside healthy ones: what a probe waits for, nobody else waits for.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment};
use serde_json::json;

use super::figures::{Sample, note, say, seconds};
use super::shape::{Life, ONE};
use super::{AT_ONCE, MANAGEMENT, create, delete, names, ready, trail, until};
use crate::petri::{Error, Petri};

const TEMPLATE: &str = "hangs";
/// How much later the healthy ones may be, at the 99th percentile.
const RATIO_MAX: f64 = 1.2;

/// Lets environments live one after the other, alone and then beside `count` whose probes get no answer.
///
/// # Errors
/// The healthy ones' 99th percentile is more than 1.2 times what it was alone.
pub async fn run(petri: &Petri<'_>, count: usize, times: usize) -> Result<(), Error> {
    note(format!("hang: {count} environments whose readiness.httpGet is taken and never answered"));
    ONE.apply(petri).await?;
    // The first lives find cold caches.
    lives(petri, "warm-", 3).await?;
    let alone = lives(petri, "alone-", times).await?;
    template(petri).await?;
    let hanging = names("hang-", count);
    let one = |name: String| async move {
        let mut environment = EphemeralEnvironment::new(&name, Default::default());
        environment.metadata.namespace = Some(MANAGEMENT.to_owned());
        environment.spec.template = TEMPLATE.to_owned();
        petri.apply_object(&petri.environments(), &environment).await.map(drop)
    };
    stream::iter(hanging.clone()).map(one).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    until(petri, "probed in vain", |all| hanging.iter().all(|name| all.get(name).is_some_and(hangs))).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let beside = lives(petri, "beside-", times).await?;
    delete(petri, &hanging).await?;
    alone.say_tail("hang_healthy_to_ready_alone", "s");
    beside.say_tail("hang_healthy_to_ready_beside", "s");
    let ratio = beside.at(0.99) / alone.at(0.99);
    say("hang_healthy_to_ready_p99_ratio", format!("{ratio:.2}"));
    if ratio > RATIO_MAX {
        return Err(Error::Wrong(format!("the healthy ones were {ratio:.2} times as late")));
    }
    Ok(())
}

/// Whether a probe of it has ended without an answer.
fn hangs(environment: &EphemeralEnvironment) -> bool {
    let components = environment.status.iter().flat_map(|status| &status.components);
    let mut messages = components.filter_map(|component| component.message.as_deref());
    messages.any(|message| message.contains("no answer within"))
}

/// Brings them up one after the other and takes all away at the end: a deletion takes five seconds, and nothing of it
/// is asked for here.
async fn lives(petri: &Petri<'_>, prefix: &str, times: usize) -> Result<Sample, Error> {
    let (trail, all) = (trail(petri)?, names(prefix, times));
    for name in &all {
        create(petri, std::slice::from_ref(name), ONE).await?;
        ready(petri, std::slice::from_ref(name)).await?;
    }
    delete(petri, &all).await?;
    let entries = trail.entries()?;
    let life = |name: &String| Life::read(&entries, name, ONE).map(|life| seconds(life.created, life.ready));
    all.iter().map(life).collect()
}

async fn template(petri: &Petri<'_>) -> Result<(), Error> {
    let values = json!({"service": true, "silent": true});
    let helm = json!({"path": "/charts/tiny", "valuesObject": values});
    let readiness = json!({"httpGet": {"path": "/", "port": 80}});
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": TEMPLATE, "namespace": MANAGEMENT},
        "spec": {"components": [{"name": "a", "helm": helm, "readiness": readiness}]},
    });
    let template: EnvironmentTemplate =
        serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

//! The ordinary life of an environment.

use std::time::{Duration, Instant};

use petri_crds::{Phase, meta};
use serde_json::json;

use super::bad_input::{cleaned, example};
use crate::petri::{Error, Petri, entries, is_ready, namespace_of, summary};

const PATIENCE: Duration = Duration::from_secs(120);

/// Four components in a diamond: levels in order, a page that asks the database, everything gone at the end.
pub async fn diamond(petri: &Petri<'_>) -> Result<String, Error> {
    example(petri, "template.yaml").await?;
    let started = Instant::now();
    example(petri, "alpha.yaml").await?;
    let ready = petri.until_ready("alpha", PATIENCE).await?;
    let took = started.elapsed();
    let levels: Vec<(String, Option<i32>)> = ready
        .status
        .iter()
        .flat_map(|status| &status.components)
        .map(|c| (c.name.clone(), c.level))
        .collect();
    let expected = [("postgres", 0), ("api", 1), ("worker", 1), ("web", 2)];
    if levels != expected.map(|(name, level)| (name.to_owned(), Some(level))) {
        return Err(Error::Wrong(format!("levels: {levels:?}")));
    }
    let namespace = namespace_of(&ready)?;
    let page = petri.fetch(&namespace, "alpha-web", "/").await?;
    if entries(&page).get("database").map(String::as_str) != Some("demo_alpha") {
        return Err(Error::Wrong(format!("the page does not come out of the database:\n{page}")));
    }
    let started = Instant::now();
    petri.delete("alpha").await?;
    petri.until_gone("alpha", PATIENCE).await?;
    let gone = started.elapsed();
    cleaned(petri).await?;
    Ok(format!("Ready after {:.1} s, gone after {:.1} s", took.as_secs_f64(), gone.as_secs_f64()))
}

/// Ready=False with the new generation in the write that begins the rollout; the sibling's objects stay as they are.
pub async fn change(petri: &Petri<'_>) -> Result<String, Error> {
    example(petri, "alpha.yaml").await?;
    example(petri, "beta.yaml").await?;
    petri.until_ready("alpha", PATIENCE).await?;
    let beta = petri.until_ready("beta", PATIENCE).await?;
    let changed = petri.patch("alpha", json!({"spec": {"values": {"greeting": "Second, alpha"}}})).await?;
    let generation = changed.metadata.generation;
    let taken_up = |environment: &petri_crds::EphemeralEnvironment| {
        environment.status.as_ref().is_some_and(|status| status.observed_generation == generation)
    };
    let seen = petri.until("alpha", "the change taken up", PATIENCE, taken_up).await?;
    if is_ready(&seen) {
        return Err(Error::Wrong(format!(
            "Ready with the new generation before anything ran: {}",
            summary(&seen)
        )));
    }
    let ready = petri.until_ready("alpha", PATIENCE).await?;
    let page = petri.fetch(&namespace_of(&ready)?, "alpha-web", "/").await?;
    if !page.contains("<h1>Second, alpha</h1>") {
        return Err(Error::Wrong(format!("the new greeting is not served:\n{page}")));
    }
    let still = petri.environments().get("beta").await?;
    if still.metadata.resource_version != beta.metadata.resource_version {
        return Err(Error::Wrong("the other environment was written to".to_owned()));
    }
    for name in ["alpha", "beta"] {
        petri.delete(name).await?;
    }
    for name in ["alpha", "beta"] {
        petri.until_gone(name, PATIENCE).await?;
    }
    cleaned(petri).await?;
    Ok(String::new())
}

/// Deletion begins within five seconds of the time, and a hold stops it.
pub async fn expiry(petri: &Petri<'_>) -> Result<String, Error> {
    let environment = super::bad_input::environment("short", "simple", json!({"ttl": "1s"}));
    super::bad_input::simple_template(petri, "simple", json!({})).await?;
    petri.apply_object(&petri.environments(), &environment).await?;
    let held = json!({"metadata": {"annotations": {meta::ANNOTATION_HOLD: "true"}}});
    petri.patch("short", held).await?;
    let created = petri.until_ready("short", PATIENCE).await?;
    if created.metadata.deletion_timestamp.is_some() {
        return Err(Error::Wrong("expired although it is held".to_owned()));
    }
    let released = Instant::now();
    petri.patch("short", json!({"metadata": {"annotations": {meta::ANNOTATION_HOLD: null}}})).await?;
    let leaving =
        |environment: &petri_crds::EphemeralEnvironment| environment.metadata.deletion_timestamp.is_some();
    petri.until("short", "its own deletion", Duration::from_secs(5), leaving).await?;
    let reaction = released.elapsed();
    let terminating = |environment: &petri_crds::EphemeralEnvironment| {
        environment.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Terminating))
    };
    petri.until("short", "Terminating", Duration::from_secs(5), terminating).await?;
    petri.until_gone("short", PATIENCE).await?;
    cleaned(petri).await?;
    Ok(format!("deletion began {:.2} s after the time was over", reaction.as_secs_f64()))
}

//! Environments race for the places of one PostgreSQL: never more databases than places, and none left at the end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams};
use petri_crds::SharedComponent;
use petri_crds::meta::{LABEL_OP, OP_OBLIGATION, SHARED_NAMESPACE};
use serde_json::json;

use crate::cases::bad_input::{cleaned, environment};
use crate::cases::kill::strike;
use crate::petri::{Error, MANAGEMENT, Petri, checkout, is_ready};

const PATIENCE: Duration = Duration::from_secs(180);
/// How often the database and the environments are asked.
const LOOK: Duration = Duration::from_millis(500);
/// Provider, shared component and a template; below, what they are called there and in the shared namespace.
const MANIFESTS: &str = "e2e/examples/shared.yaml";
const SHARED: &str = "shop-db";
const SERVER: &str = "shared-shop-db-0";
const ADMIN: &str = "shared-postgres-admin";

/// Many environments race for few places while the operator is killed: never more databases than places.
pub async fn race(petri: &Petri<'_>) -> Result<String, Error> {
    const ENVIRONMENTS: usize = 30;
    const PLACES: usize = 5;
    const KILLS: usize = 6;
    petri.apply(&checkout().join(MANIFESTS)).await?;
    let change = kube::api::Patch::Merge(json!({"spec": {"maxConsumers": PLACES}}));
    shared(petri).patch(SHARED, &Default::default(), &change).await?;
    template_of_a_slice(petri).await?;
    let names: Vec<String> = (1..=ENVIRONMENTS).map(|number| format!("racer-{number}")).collect();
    for name in &names {
        petri.apply_object(&petri.environments(), &environment(name, "slice", json!({}))).await?;
    }
    let started = Instant::now();
    let (mut served, mut asked, mut most, mut kills) = (BTreeSet::new(), 0, 0, 0);
    while served.len() < ENVIRONMENTS {
        if started.elapsed() > 4 * PATIENCE {
            return Err(Error::Wrong(format!("only {} of {ENVIRONMENTS} had their turn", served.len())));
        }
        // The database itself is asked; before it serves for the first time it cannot answer.
        match slices(petri).await {
            Ok(found) => (asked, most) = (asked + 1, most.max(found.len())),
            Err(error) if asked > 0 => return Err(error),
            Err(_) => {}
        }
        if most > PLACES {
            return Err(Error::Wrong(format!("{most} databases for {PLACES} places")));
        }
        for found in petri.environments().list(&ListParams::default()).await?.items {
            let name = found.metadata.name.clone().unwrap_or_default();
            if is_ready(&found) && served.insert(name.clone()) {
                petri.delete(&name).await?;
            }
        }
        tokio::time::sleep(LOOK).await;
        if kills < KILLS && served.len() > kills * ENVIRONMENTS / (KILLS + 1) && strike(petri).await.is_ok() {
            kills += 1;
        }
    }
    for name in &names {
        petri.until_gone(name, PATIENCE).await?;
    }
    let took = started.elapsed().as_secs_f64();
    expect("databases", slices(petri).await?, &[])?;
    expect("roles", roles(petri).await?, &[])?;
    nothing_owed(petri).await?;
    petri.templates().delete("slice", &DeleteParams::default()).await?;
    let file = checkout().join(MANIFESTS).display().to_string();
    petri.lab.kubectl(&["delete", "-f", &file, "--wait=true", "--timeout=120s"]).await?;
    cleaned(petri).await?;
    let counted = format!("at most {most} databases in {asked} counts");
    Ok(format!("{ENVIRONMENTS} had their turn in {took:.0} s, {counted}, {kills} kills"))
}

fn shared(petri: &Petri<'_>) -> Api<SharedComponent> {
    Api::namespaced(petri.lab.client(), MANAGEMENT)
}

/// A template of nothing but a slice.
async fn template_of_a_slice(petri: &Petri<'_>) -> Result<(), Error> {
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "slice", "namespace": MANAGEMENT},
        "spec": {"components": [{"name": "db", "sharedComponentRef": SHARED}]},
    });
    let template = serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

/// Asks PostgreSQL itself, as its administrator.
async fn query(petri: &Petri<'_>, sql: &str) -> Result<Vec<String>, Error> {
    let admin: Api<Secret> = Api::namespaced(petri.lab.client(), SHARED_NAMESPACE);
    let data = admin.get(ADMIN).await?.data.unwrap_or_default();
    let password = data.get("PGPASSWORD").map(|value| String::from_utf8_lossy(&value.0).into_owned());
    let login = format!("host=127.0.0.1 user=admin dbname=admin password={}", password.unwrap_or_default());
    let psql = ["/usr/lib/postgresql/15/bin/psql", &login, "-At", "-c", sql];
    let all: Vec<&str> = ["exec", "-n", SHARED_NAMESPACE, SERVER, "--"].into_iter().chain(psql).collect();
    let output = petri.lab.kubectl(&all).await?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

async fn slices(petri: &Petri<'_>) -> Result<Vec<String>, Error> {
    query(petri, "SELECT datname FROM pg_database WHERE datname LIKE 'env\\_%' ORDER BY 1").await
}

async fn roles(petri: &Petri<'_>) -> Result<Vec<String>, Error> {
    query(petri, "SELECT rolname FROM pg_roles WHERE rolname LIKE 'env\\_%' ORDER BY 1").await
}

fn expect(what: &str, found: Vec<String>, expected: &[&str]) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong(format!("{what}: {found:?} instead of {expected:?}")))
}

async fn secrets(petri: &Petri<'_>, labels: &str) -> Result<Vec<String>, Error> {
    let all: Api<Secret> = Api::namespaced(petri.lab.client(), SHARED_NAMESPACE);
    let found = all.list(&ListParams::default().labels(labels)).await?;
    Ok(found.into_iter().filter_map(|secret| secret.metadata.name).collect())
}

/// No obligation stands, and nobody holds a place.
async fn nothing_owed(petri: &Petri<'_>) -> Result<(), Error> {
    expect("obligations", secrets(petri, &format!("{LABEL_OP}={OP_OBLIGATION}")).await?, &[])?;
    let status = shared(petri).get(SHARED).await?.status.unwrap_or_default();
    if status.consumer_refs.is_empty() && status.abandoned.is_empty() {
        return Ok(());
    }
    Err(Error::Wrong(format!("still held: {:?} {:?}", status.consumer_refs, status.abandoned)))
}

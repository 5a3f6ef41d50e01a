//! Three environments and one PostgreSQL that has places for two.

use std::time::Instant;

use petri_crds::EphemeralEnvironment;
use serde_json::Value;

use super::{example, heading, watch_until};
use crate::petri::{self, Error, MANAGEMENT, Petri, story};

/// The provider, the shared component and the template.
const MANIFESTS: &str = "shared.yaml";
const TEMPLATE: &str = "shared-demo";
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Two share it, the third waits and goes on when one of them leaves; then all of it goes by one command.
pub async fn share(petri: &Petri<'_>) -> Result<(), Error> {
    heading("6. One PostgreSQL with two places, and three environments that want one");
    petri.apply(&example(MANIFESTS)).await?;
    println!("applied e2e/examples/{MANIFESTS}");
    let started = Instant::now();
    for name in NAMES {
        let mut environment = EphemeralEnvironment::new(name, Default::default());
        environment.metadata.namespace = Some(MANAGEMENT.to_owned());
        environment.spec.template = TEMPLATE.to_owned();
        petri.apply_object(&petri.environments(), &environment).await?;
    }
    println!("made three environments of its template {TEMPLATE}: {}", NAMES.join(", "));
    let count = |all: &[EphemeralEnvironment], test: fn(&EphemeralEnvironment) -> bool| {
        all.iter().filter(|one| test(one)).count()
    };
    watch_until(petri, "two Ready, one waiting", |all| {
        count(all, petri::is_ready) == 2 && count(all, waits) == 1
    })
    .await?;
    println!("two are Ready after {:.1} s, the third waits for a place", started.elapsed().as_secs_f64());

    heading("7. One leaves, and the third goes on");
    let all = petri.environments().list(&Default::default()).await?.items;
    let leaves = all.iter().find(|one| petri::is_ready(one)).and_then(|one| one.metadata.name.clone());
    let leaves = leaves.unwrap_or_default();
    petri.delete(&leaves).await?;
    println!("deleted {leaves}");
    let started = Instant::now();
    watch_until(petri, "the third Ready", |all| all.len() == 2 && all.iter().all(petri::is_ready)).await?;
    println!("the third is Ready after {:.1} s", started.elapsed().as_secs_f64());
    for environment in petri.environments().list(&Default::default()).await?.items {
        let name = environment.metadata.name.clone().unwrap_or_default();
        let namespace = petri::namespace_of(&environment)?;
        let told = petri.fetch(&namespace, &format!("{name}-api"), "/").await?;
        let answer: Value = serde_json::from_str(&told).map_err(|error| Error::Wrong(error.to_string()))?;
        let marker = answer["marker"].as_str().unwrap_or_default();
        println!("  {name} reads from the shared PostgreSQL: {marker}");
        if marker != format!("slice env_{name}") {
            return Err(Error::Wrong(format!("{name} does not read from its own database:\n{told}")));
        }
    }

    heading("8. Environments, PostgreSQL, provider and template are deleted in one command");
    let kinds = "eenv/one,eenv/two,eenv/three,shc/shop-db,shcp/postgres,etmpl/shared-demo";
    let all: Vec<&str> = kinds.split(',').collect();
    let flags = ["delete", "-n", MANAGEMENT, "--ignore-not-found", "--wait=false"];
    petri.lab.kubectl(&[flags.as_slice(), all.as_slice()].concat()).await?;
    println!("kubectl delete {}", all.join(" "));
    let started = Instant::now();
    watch_until(petri, "all gone", <[EphemeralEnvironment]>::is_empty).await?;
    let wait = ["wait", "-n", MANAGEMENT, "--for=delete", "shc/shop-db", "shcp/postgres", "--timeout=120s"];
    petri.lab.kubectl(&wait).await?;
    println!(
        "everything is gone after {:.1} s: databases, roles, Secrets, Jobs",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn waits(environment: &EphemeralEnvironment) -> bool {
    story(environment).0 == "SharedComponentAtCapacity"
}

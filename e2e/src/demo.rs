//! The main job, shown on a real cluster: two environments of one template, from nothing to nothing; then three that
//! share one PostgreSQL.

mod elsewhere;
mod sharing;
mod table;

pub use elsewhere::{Elsewhere, run_elsewhere};

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use petri_crds::EphemeralEnvironment;
use serde_json::json;

use crate::lab::{Lab, LabError, Options, Progress};
use crate::petri::{self, Error, Ground, Petri};
use crate::traces::{self, Receiver};
use table::Live;

/// The template of both environments, in `e2e/examples`.
const TEMPLATE: &str = "template.yaml";
/// The name of the demo's cluster.
pub const LAB: &str = "petri-demo";
/// How long one phase of the demo may take; a slow machine needs half a minute.
const PATIENCE: Duration = Duration::from_secs(240);
/// Seconds that the expiring environment is given from now on.
const TTL_LEFT_SECS: i64 = 8;

/// Runs the demo. With `keep`, the cluster and Petri stay up; `waterfall` is a folder for the picture of a trace.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run(keep: bool, waterfall: Option<&Path>) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        let progress = Progress::new();
        let options = Options::new(LAB);
        let lab = match Lab::up(options).await {
            Err(LabError::Kept(_)) => Lab::attach(LAB).await?,
            up => up?,
        };
        let told = lab.watched(tell(&lab, &progress, waterfall)).await;
        progress.clear();
        if let Err(error) = told {
            let log = Petri { lab: &lab }.operator_log().await.unwrap_or_default();
            eprintln!("the operator said last:{log}");
            return Err(error);
        }
        if keep {
            return hand_over(lab);
        }
        lab.down().await?;
        println!("The cluster is gone.");
        Ok(())
    })
}

/// Ends a kept demo.
pub async fn down() -> Result<(), Error> {
    Lab::down_named(LAB).await?;
    println!("The cluster is gone.");
    Ok(())
}

fn hand_over(mut lab: Lab) -> Result<(), Error> {
    lab.keep()?;
    println!("\nThe cluster stays up, with Petri and its template `demo`. End it with: cargo demo --down");
    println!("export KUBECONFIG={}", lab.kubeconfig().display());
    println!("kubectl apply -f e2e/examples/alpha.yaml");
    Ok(())
}

async fn tell(lab: &Lab, progress: &Progress, waterfall: Option<&Path>) -> Result<(), Error> {
    let receiver = match waterfall {
        Some(_) => Some(Receiver::start(&lab.host_address()).await?),
        None => None,
    };
    let endpoint = receiver.as_ref().map(Receiver::endpoint);
    let values: Vec<(&str, &str)> =
        endpoint.iter().map(|endpoint| ("config.otlpEndpoint", endpoint.as_str())).collect();
    let petri = Petri::install(lab, progress, &values).await?;
    progress.clear();
    heading("1. One template, two environments of it");
    petri.apply(&example(TEMPLATE)).await?;
    println!("applied e2e/examples/{TEMPLATE}");
    lives(&petri).await?;
    sharing::share(&petri).await?;
    match (&receiver, waterfall) {
        (Some(receiver), Some(folder)) => draw(receiver, folder).await,
        _ => Ok(()),
    }
}

fn example(file: &str) -> PathBuf {
    petri::checkout().join("e2e/examples").join(file)
}

/// The lives of two environments of the template, which was just applied.
async fn lives<G: Ground>(petri: &Petri<'_, G>) -> Result<(), Error> {
    let started = Instant::now();
    for file in ["alpha.yaml", "beta.yaml"] {
        petri.apply(&example(file)).await?;
        println!("applied e2e/examples/{file}");
    }
    watch_until(petri, "both Ready", |all| all.len() == 2 && all.iter().all(petri::is_ready)).await?;
    println!("both are Ready after {:.1} s", started.elapsed().as_secs_f64());

    heading("2. A page of each, through the cluster; each has its own database");
    let (alpha, beta) = (page(petri, "alpha").await?, page(petri, "beta").await?);
    if alpha["instance"] == beta["instance"] {
        return Err(Error::Wrong("both environments talk to one database".to_owned()));
    }

    heading("3. One value changes: redeployed in place");
    let value = json!({"spec": {"values": {"greeting": "Welcome back, alpha"}}});
    petri.patch("alpha", value).await?;
    watch_until(petri, "alpha Ready again", |all| all.iter().all(petri::is_ready)).await?;
    let again = page(petri, "alpha").await?;
    if again["greeting"] != "Welcome back, alpha" || again["instance"] != alpha["instance"] {
        return Err(Error::Wrong("the new greeting is not served from the same database".to_owned()));
    }

    heading("4. One expires, the other is deleted");
    expire(petri, "beta").await?;
    petri.delete("alpha").await?;
    println!("deleted alpha");
    watch_until(petri, "both gone", <[EphemeralEnvironment]>::is_empty).await?;

    heading("5. Nothing is left");
    let left = petri.leftovers().await?;
    if !left.is_empty() {
        return Err(Error::Wrong(format!("namespaces are left: {}", left.join(", "))));
    }
    println!("no workload namespace, no Job, no release");
    Ok(())
}

/// Draws the trace of the environment that was applied first.
async fn draw(receiver: &Receiver, folder: &Path) -> Result<(), Error> {
    let spans = traces::deploy_of(receiver, "alpha", Duration::from_secs(10)).await?;
    let tree = traces::Tree::of(&spans, &spans[0].trace);
    let root = tree.roots[0];
    let text = traces::text(&tree, root);
    println!("\n{text}");
    for (name, content) in [("demo.txt", text), ("demo.svg", traces::svg(&tree, root))] {
        let path = folder.join(name);
        std::fs::write(&path, content).map_err(|source| Error::File { path, source })?;
    }
    Ok(())
}

fn heading(text: &str) {
    println!("\n=== {text}");
}

/// Shows the table until the environments are as `done` says.
async fn watch_until<G: Ground>(
    petri: &Petri<'_, G>,
    what: &str,
    done: impl Fn(&[EphemeralEnvironment]) -> bool,
) -> Result<(), Error> {
    let (mut live, started) = (Live::default(), Instant::now());
    loop {
        let all = petri.environments().list(&Default::default()).await?.items;
        live.draw(&all);
        if done(&all) {
            live.end();
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            let last = all.iter().map(petri::summary).collect::<Vec<_>>().join("\n");
            return Err(Error::Late { what: what.to_owned(), seconds: PATIENCE.as_secs(), last });
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Fetches and shows the front page of an environment; returns its entries and the greeting.
async fn page<G: Ground>(
    petri: &Petri<'_, G>,
    name: &str,
) -> Result<std::collections::BTreeMap<String, String>, Error> {
    let environment = petri.environments().get(name).await?;
    let namespace = petri::namespace_of(&environment)?;
    let page = petri.fetch(&namespace, &format!("{name}-web"), "/").await?;
    let mut entries = petri::entries(&page);
    let greeting = page.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>"));
    let greeting = greeting.map(|(greeting, _)| greeting.to_owned()).unwrap_or_default();
    println!("{namespace}/{name}-web says: {greeting}");
    for key in ["database", "marker", "instance", "queries", "work-rows"] {
        println!("  {key}: {}", entries.get(key).map_or("-", String::as_str));
    }
    for key in ["instance", "marker"] {
        if entries.get(key).is_none_or(String::is_empty) {
            return Err(Error::Wrong(format!("the page of {name} shows no {key}:\n{page}")));
        }
    }
    entries.insert("greeting".to_owned(), greeting);
    Ok(entries)
}

/// Sets a time to live that ends in a few seconds.
async fn expire<G: Ground>(petri: &Petri<'_, G>, name: &str) -> Result<(), Error> {
    let environment = petri.environments().get(name).await?;
    let created = environment.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let age = created.map_or(0, |created| jiff::Timestamp::now().duration_since(created).as_secs());
    let ttl = format!("{}s", age + TTL_LEFT_SECS);
    petri.patch(name, json!({"spec": {"ttl": ttl}})).await?;
    println!("{name} has a time to live of {ttl} now: it ends in {TTL_LEFT_SECS} s");
    Ok(())
}

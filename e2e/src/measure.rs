//! How fast Petri is and what it costs, on a real cluster, beside the least that anybody could do there.
//!
//! All times are the API server's own, from its audit log: nobody who measures stands in between.

mod apiserver;
pub mod bare;
mod burst;
mod cost;
mod deployer;
mod failure;
pub(crate) mod figures;
mod fleet;
mod hang;
mod idle;
mod life;
mod process;
mod reaction;
mod shape;
mod soak;
mod trail;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use petri_crds::EphemeralEnvironment;

use crate::lab::{Lab, LabError, Options, Progress, image};
use crate::petri::{Error, MANAGEMENT, Petri, is_ready, summary};
use figures::note;
use process::Process;
use shape::Shape;
use trail::{Entry, OPERATOR, Trail};

/// The name of the cluster that is measured on.
pub const LAB: &str = "petri-measure";
/// How many requests of a burst are under way at once.
const AT_ONCE: usize = 20;
/// How long anything may take: a hundred environments on two cores need some minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// From the kubelet's report that a deployer ended to the operator's next write.
    Reaction {
        /// Jobs in each of the two runs.
        jobs: usize,
    },
    /// From created to Ready to gone.
    Life {
        /// Lives of each graph.
        times: usize,
    },
    /// Many environments at once.
    Burst {
        /// How many.
        environments: usize,
    },
    /// Requests, CPU and memory.
    Cost,
    /// petri-apiserver under load, beside the cluster's API server.
    Apiserver {
        /// Clients at once.
        clients: usize,
        /// For how long each kind of request is asked.
        secs: u64,
    },
    /// What the deployer adds to helm.
    Deployer {
        /// Lives of one release.
        times: usize,
    },
    /// From the end of a Job that failed to its reason.
    Failure {
        /// How many Jobs.
        jobs: usize,
    },
    /// Many Ready environments, a quiet minute and a fresh operator.
    Fleet {
        /// How many.
        environments: usize,
    },
    /// Healthy environments beside some whose probes get no answer.
    Hang {
        /// How many hang.
        environments: usize,
        /// Healthy lives, alone and beside them.
        times: usize,
    },
    /// The operator's memory over many lives.
    Soak {
        /// How many.
        lives: usize,
        /// Where the curve is drawn.
        plot: Option<PathBuf>,
    },
    /// What is asked of the API server while nothing happens.
    Idle {
        /// For how long.
        secs: u64,
    },
}

/// Boots a cluster, installs Petri and takes the figures; with `keep` the cluster is used again by the next call.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run(all: &[What], keep: bool) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        let progress = Progress::new();
        let (mut lab, attached) = match Lab::up(Options::new(LAB)).await {
            Err(LabError::Kept(_)) => (Lab::attach(LAB).await?, true),
            up => (up?, false),
        };
        if keep && !attached {
            lab.keep()?;
        }
        let petri = Petri::install(&lab, &progress, &[]).await?;
        if attached {
            // The image bears the same name, so that nothing else makes the Pod use the new one.
            restart(&petri).await?;
        }
        progress.clear();
        note(format!("operator and deployer built with the profile {}; {}", image::profile(), machine()));
        let measured = lab.watched(take(&petri, all)).await;
        if let Err(error) = measured {
            eprintln!("the operator said last:{}", petri.operator_log().await.unwrap_or_default());
            return Err(error);
        }
        if !keep {
            lab.down().await?;
        }
        Ok(())
    })
}

/// Ends a kept cluster.
pub async fn down() -> Result<(), Error> {
    Ok(Lab::down_named(LAB).await?)
}

async fn take(petri: &Petri<'_>, all: &[What]) -> Result<(), Error> {
    for what in all {
        match what.clone() {
            What::Reaction { jobs } => reaction::run(petri, jobs).await?,
            What::Life { times } => life::run(petri, times).await?,
            What::Burst { environments } => burst::run(petri, environments).await?,
            What::Cost => cost::run(petri).await?,
            What::Apiserver { clients, secs } => apiserver::run(petri, clients, secs).await?,
            What::Deployer { times } => deployer::run(petri, times).await?,
            What::Failure { jobs } => failure::run(petri, jobs).await?,
            What::Fleet { environments } => fleet::run(petri, environments).await?,
            What::Hang { environments, times } => hang::run(petri, environments, times).await?,
            What::Soak { lives, plot } => soak::run(petri, lives, plot.as_deref()).await?,
            What::Idle { secs } => idle::run(petri, secs).await?,
        }
    }
    Ok(())
}

/// Returns what the figures depend on besides.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    format!("one node on {cores} cores with everything else, load {load} at the start")
}

/// Replaces the operator's Pod and waits until the new one serves and the old one is gone.
async fn restart(petri: &Petri<'_>) -> Result<(), Error> {
    let deployment = "deployment/petri-operator";
    petri.lab.kubectl(&["rollout", "restart", deployment, "-n", MANAGEMENT]).await?;
    petri.lab.kubectl(&["rollout", "status", deployment, "-n", MANAGEMENT, "--timeout=120s"]).await?;
    let started = Instant::now();
    while let Err(error) = Process::operator(petri.lab) {
        if started.elapsed() > Duration::from_secs(60) {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Asks for so many operators.
async fn scale(petri: &Petri<'_>, replicas: u32) -> Result<(), Error> {
    let replicas = format!("--replicas={replicas}");
    petri.lab.kubectl(&["scale", "deployment/petri-operator", "-n", MANAGEMENT, &replicas]).await?;
    Ok(())
}

/// Returns the names of `count` environments.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// Creates environments of one template.
async fn create(petri: &Petri<'_>, names: &[String], shape: Shape) -> Result<(), Error> {
    let one = |name: String| async move {
        petri.apply_object(&petri.environments(), &shape.environment(&name)).await.map(drop)
    };
    stream::iter(names.to_vec()).map(one).buffer_unordered(AT_ONCE).try_collect().await
}

/// Deletes environments and waits until they are gone.
async fn delete(petri: &Petri<'_>, names: &[String]) -> Result<(), Error> {
    let one = |name: String| async move { petri.delete(&name).await };
    stream::iter(names.to_vec()).map(one).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    until(petri, "gone", |all| names.iter().all(|name| !all.contains_key(name))).await
}

/// Waits until environments are Ready.
async fn ready(petri: &Petri<'_>, names: &[String]) -> Result<(), Error> {
    until(petri, "Ready", |all| names.iter().all(|name| all.get(name).is_some_and(is_ready))).await
}

async fn until(
    petri: &Petri<'_>,
    what: &str,
    done: impl Fn(&BTreeMap<String, EphemeralEnvironment>) -> bool,
) -> Result<(), Error> {
    let (api, started) = (petri.environments(), Instant::now());
    loop {
        let all = api.list(&Default::default()).await?.items;
        let all: BTreeMap<String, EphemeralEnvironment> =
            all.into_iter().map(|one| (one.metadata.name.clone().unwrap_or_default(), one)).collect();
        if done(&all) {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            let last = all.iter().map(|(name, one)| format!("{name}: {}", summary(one))).collect::<Vec<_>>();
            let last = last.join("\n");
            return Err(Error::Late { what: what.to_owned(), seconds: PATIENCE.as_secs(), last });
        }
        // Seldom enough not to load the server: no figure is taken from here.
        tokio::time::sleep(Duration::from_millis(200 + 10 * all.len() as u64)).await;
    }
}

/// Begins to look at the audit log.
fn trail(petri: &Petri<'_>) -> Result<Trail, Error> {
    Trail::from_now(petri.lab.audit_log())
}

/// Counts requests of the operator by verb and resource.
fn counted<'a>(entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries.filter(|entry| entry.is_by(OPERATOR)) {
        *counts.entry(format!("{} {}", entry.verb, entry.resource())).or_default() += 1;
    }
    counts
}

/// Prints counts as comments, the largest first.
fn say_counts(what: &str, counts: &BTreeMap<String, usize>) {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let all: Vec<String> = counts.into_iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    note(format!("{what}: {}", if all.is_empty() { "none".to_owned() } else { all.join(", ") }));
}

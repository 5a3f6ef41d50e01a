//! An operator outside of the cluster, behind a line that delays, cuts, refuses and loses.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::replicas::leader;
use super::{PATIENCE, create, one_of_each, template};
use crate::cases::bad_input::cleaned;
use crate::cases::invariants::Invariants;
use crate::lab::image;
use crate::petri::{Error, MANAGEMENT, Petri};
use crate::proxy::{Proxy, Weather};

const SEED: u64 = 20_261_129;
const LIVES: usize = 10;
/// As a kubelet would, but sooner.
const RESTART: Duration = Duration::from_secs(1);

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let program = program(petri).await?;
    scale(petri, 0).await?;
    let seen = outside(petri, &program).await;
    // The cases after this one find the operator in the cluster, whatever became of this one.
    scale(petri, 1).await?;
    seen
}

/// Takes the operator's program out of its Pod.
async fn program(petri: &Petri<'_>) -> Result<PathBuf, Error> {
    let (_, process) = leader(petri).await?;
    let path = petri.lab.logs().join("petri-operator");
    let from = process.file("/usr/local/bin/petri-operator");
    let copied = tokio::fs::copy(&from, &path).await;
    copied.map_err(|source| Error::File { path: from, source })?;
    Ok(path)
}

async fn outside(petri: &Petri<'_>, program: &Path) -> Result<String, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
    let read = kube::config::Kubeconfig::read_from(petri.lab.kubeconfig()).map_err(|error| wrong(&error))?;
    let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await;
    let proxy = Proxy::start(config.map_err(|error| wrong(&error))?, Weather::new(SEED)).await?;
    let kubeconfig = kubeconfig(petri, &proxy.url()).await?;
    let operator = Outside::start(program, &kubeconfig, petri.lab.logs().join("weather.log"))?;
    let seen = lives(petri).await.map_err(|error| {
        Error::Wrong(format!("seed {SEED}: {error}\nthe operator said last:\n{}", operator.said()))
    })?;
    let tally: Vec<String> = proxy.tally().iter().map(|(what, times)| format!("{times} {what}")).collect();
    let starts = operator.starts.load(Ordering::Relaxed);
    let _ = std::fs::remove_file(kubeconfig);
    Ok(format!("seed {SEED}: {}; {starts} start(s) of the operator; {seen}", tally.join(", ")))
}

async fn lives(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "one", &[("db", &[])]).await?;
    let names: Vec<String> = (1..=LIVES).map(|number| format!("rainy-{number}")).collect();
    let started = Instant::now();
    for name in &names {
        create(petri, name, "one").await?;
    }
    for name in &names {
        let ready = petri.until_ready(name, PATIENCE).await?;
        one_of_each(petri, &ready).await?;
    }
    let ready = started.elapsed().as_secs_f64();
    for name in &names {
        petri.delete(name).await?;
    }
    for name in &names {
        petri.until_gone(name, PATIENCE).await?;
    }
    let gone = started.elapsed().as_secs_f64();
    cleaned(petri).await?;
    let judged = laws.judge().await?;
    Ok(format!("{LIVES} Ready after {ready:.1} s, gone after {gone:.1} s; {judged}"))
}

/// Sets how many operators run in the cluster, and waits until that is so.
async fn scale(petri: &Petri<'_>, replicas: i32) -> Result<(), Error> {
    let deployments: Api<Deployment> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch("petri-operator", &PatchParams::default(), &change).await?;
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let status = deployments.get("petri-operator").await?.status.unwrap_or_default();
        let (all, ready) = (status.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
        if all == replicas && ready == replicas {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Err(Error::Wrong(format!("the operator was not scaled to {replicas}")))
}

/// Writes a kubeconfig with a token of the operator's own account.
async fn kubeconfig(petri: &Petri<'_>, server: &str) -> Result<PathBuf, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..Default::default() };
    let request = TokenRequest { spec, ..Default::default() };
    let made = accounts.create_token_request("petri-operator", &PostParams::default(), &request).await?;
    let token = made.status.map(|status| status.token).unwrap_or_default();
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "weather",
        "clusters": [{"name": "weather", "cluster": {"server": server}}],
        "users": [{"name": "weather", "user": {"token": token}}],
        "contexts": [{"name": "weather", "context": {"cluster": "weather", "user": "weather"}}],
    });
    let path = petri.lab.logs().join("weather.kubeconfig");
    let file = |source| Error::File { path: path.clone(), source };
    let mut options = std::fs::File::options();
    let made = options.write(true).create(true).truncate(true).mode(0o600).open(&path).map_err(file)?;
    serde_json::to_writer(made, &content).map_err(|error| Error::Wrong(error.to_string()))?;
    Ok(path)
}

/// The operator as a process of this machine, started again whenever it ends, until this value is dropped.
struct Outside {
    keeper: JoinHandle<()>,
    starts: Arc<AtomicUsize>,
    log: PathBuf,
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The process ends with its handle, which the task holds.
        self.keeper.abort();
    }
}

impl Outside {
    fn start(program: &Path, kubeconfig: &Path, log: PathBuf) -> Result<Self, Error> {
        let file = |source| Error::File { path: log.clone(), source };
        let sink = std::fs::File::create(&log).map_err(file)?;
        let mut command = Command::new(program);
        command.args(["--management-namespace", MANAGEMENT, "--deployer-image", image::DEPLOYER]);
        command.args(["--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"]);
        command.env("KUBECONFIG", kubeconfig).env_remove("POD_UID").env_remove("POD_NAMESPACE");
        command.stdin(Stdio::null()).stdout(sink.try_clone().map_err(file)?).stderr(sink).kill_on_drop(true);
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&starts);
        let keeper = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                if let Ok(mut child) = command.spawn() {
                    let _ = child.wait().await;
                }
                tokio::time::sleep(RESTART).await;
            }
        });
        Ok(Self { keeper, starts, log })
    }

    fn said(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

//! The operator as a process of this machine, in place of the one in the cluster: with a line, a clock or credentials of
//! a test's own.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::PATIENCE;
use super::replicas::leader;
use crate::lab::image;
use crate::petri::{Error, MANAGEMENT, Petri};

/// As a kubelet would, but sooner.
const RESTART: Duration = Duration::from_secs(1);

/// Takes the operator's program out of its Pod, once one leads: an operator outside of the cluster that was ended holds
/// its Lease for a while.
pub async fn program(petri: &Petri<'_>) -> Result<PathBuf, Error> {
    let started = Instant::now();
    let process = loop {
        match leader(petri).await {
            Ok((_, process)) => break process,
            Err(error) if started.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(250)).await,
        }
    };
    let path = petri.lab.logs().join("petri-operator");
    let from = process.file("/usr/local/bin/petri-operator");
    let copied = tokio::fs::copy(&from, &path).await;
    copied.map_err(|source| Error::File { path: from, source })?;
    Ok(path)
}

/// Sets how many operators run in the cluster, and waits until that is so.
pub async fn scale(petri: &Petri<'_>, replicas: i32) -> Result<(), Error> {
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

/// Asks for a token of the operator's own account, which ends with the Secret that it is bound to.
pub async fn token(petri: &Petri<'_>, bound_to: Option<BoundObjectReference>) -> Result<String, Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let spec =
        TokenRequestSpec { expiration_seconds: Some(3600), bound_object_ref: bound_to, ..Default::default() };
    let request = TokenRequest { spec, ..Default::default() };
    let made = accounts.create_token_request("petri-operator", &PostParams::default(), &request).await?;
    Ok(made.status.map(|status| status.token).unwrap_or_default())
}

/// Returns how the lab's API server is reached, as a kubeconfig has it.
pub fn api_server(petri: &Petri<'_>) -> Result<Value, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
    let read = kube::config::Kubeconfig::read_from(petri.lab.kubeconfig()).map_err(|error| wrong(&error))?;
    let cluster = read.clusters.into_iter().find_map(|named| named.cluster);
    serde_json::to_value(cluster).map_err(|error| wrong(&error))
}

/// Writes a kubeconfig, for nobody else to read.
pub fn kubeconfig(petri: &Petri<'_>, name: &str, cluster: &Value, user: &Value) -> Result<PathBuf, Error> {
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    });
    secret(petri, &format!("{name}.kubeconfig"), &content.to_string())
}

/// Writes a file that nobody else may read, in one step: who has it open reads the old one to its end.
pub fn secret(petri: &Petri<'_>, name: &str, content: &str) -> Result<PathBuf, Error> {
    let path = petri.lab.logs().join(name);
    let new = path.with_extension("new");
    let file = |source| Error::File { path: path.clone(), source };
    let mut options = std::fs::File::options();
    let mut made = options.write(true).create(true).truncate(true).mode(0o600).open(&new).map_err(file)?;
    std::io::Write::write_all(&mut made, content.as_bytes()).map_err(file)?;
    std::fs::rename(new, &path).map_err(file)?;
    Ok(path)
}

/// The operator, started again whenever it ends, until this value is dropped.
pub struct Outside {
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
    /// Starts it with these variables; its log gets the name of the kubeconfig.
    pub fn start(program: &Path, kubeconfig: &Path, variables: &[(&str, &str)]) -> Result<Self, Error> {
        let log = kubeconfig.with_extension("log");
        let file = |source| Error::File { path: log.clone(), source };
        let sink = std::fs::File::create(&log).map_err(file)?;
        let mut command = Command::new(program);
        command.args(["--management-namespace", MANAGEMENT, "--deployer-image", image::DEPLOYER]);
        command.args(["--metrics-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0"]);
        command.env("KUBECONFIG", kubeconfig).env_remove("POD_UID").env_remove("POD_NAMESPACE");
        command.envs(variables.iter().copied());
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

    /// Returns how often it was started.
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::Relaxed)
    }

    /// Returns its whole log.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the error with the last that it said.
    pub fn explain(&self, error: &Error) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(15)..].join("\n");
        Error::Wrong(format!("{error}\nthe operator said last:\n{last}"))
    }
}

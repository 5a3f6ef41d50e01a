//! The deployer as a process of this machine, in front of a cluster: with the rights that it has in its Job, and with
//! a line to the API server that can be watched and cut.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::lab::{self, Lab, Progress, command, image};
use crate::petri::{Error, checkout};
use crate::proxy::{Side, Trap};

/// The account of the deployer.
const ACCOUNT: &str = "petri-deployer";

/// A namespace with a deployer's account, and the program.
pub struct Outside {
    /// The line to the API server.
    pub trap: Trap,
    /// The workload namespace.
    pub namespace: String,
    program: PathBuf,
    folder: PathBuf,
}

/// What is asked of the deployer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Install or upgrade.
    Deploy,
    /// Uninstall.
    Undeploy,
}

/// What a run left.
pub struct Ran {
    /// The report; none when the program was killed.
    pub report: Value,
    /// Everything that it logged.
    pub log: String,
    /// When it was started.
    pub started: Instant,
    /// When it had ended.
    pub ended: Instant,
}

impl Ran {
    /// Whether the release is as it was asked for.
    pub fn succeeded(&self) -> bool {
        self.report["outcome"] == "succeeded"
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn object<K: serde::de::DeserializeOwned>(json: Value) -> Result<K, Error> {
    serde_json::from_value(json).map_err(|error| Error::Wrong(error.to_string()))
}

/// Makes a namespace in which the deployer's account may what it may in an environment's.
///
/// # Errors
/// The API server refuses.
pub async fn namespace(lab: &Lab, name: &str) -> Result<(), Error> {
    let client = lab.client();
    let params = PostParams::default();
    Api::<Namespace>::all(client.clone())
        .create(&params, &object(json!({"metadata": {"name": name}}))?)
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    accounts.create(&params, &object(json!({"metadata": {"name": ACCOUNT}}))?).await?;
    let binding = json!({
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": name}],
    });
    Api::<RoleBinding>::namespaced(client, name).create(&params, &object(binding)?).await?;
    Ok(())
}

/// Returns the records that helm keeps of a release, by revision, with the status of each.
///
/// # Errors
/// The API server refuses.
pub async fn records(lab: &Lab, namespace: &str, release: &str) -> Result<Vec<(u32, String)>, Error> {
    let secrets: Api<Secret> = Api::namespaced(lab.client(), namespace);
    let list = secrets.list(&ListParams::default().labels(&format!("owner=helm,name={release}"))).await?;
    let labels = list.items.into_iter().filter_map(|record| record.metadata.labels);
    let record = |labels: BTreeMap<String, String>| {
        Some((labels.get("version")?.parse().ok()?, labels.get("status")?.clone()))
    };
    let mut records: Vec<(u32, String)> = labels.filter_map(record).collect();
    records.sort();
    Ok(records)
}

/// Removes a namespace without waiting for it.
///
/// # Errors
/// The API server refuses.
pub async fn remove(lab: &Lab, name: &str) -> Result<(), Error> {
    Api::<Namespace>::all(lab.client()).delete(name, &DeleteParams::default()).await?;
    Ok(())
}

impl Outside {
    /// Builds the program and opens a line of its own for it.
    ///
    /// # Errors
    /// It does not build, or the API server refuses.
    pub async fn start(lab: &Lab, namespace: &str, name: &str) -> Result<Self, Error> {
        static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
        let program = PROGRAM
            .get_or_try_init(|| async { image::program("petri-deployer", &Progress::new()).await })
            .await?
            .clone();
        let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
        let read = kube::config::Kubeconfig::read_from(lab.kubeconfig()).map_err(|error| wrong(&error))?;
        let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await;
        let mut config = config.map_err(|error| wrong(&error))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(lab.client(), namespace);
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let made = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await?;
        let token = made.status.map(|status| status.token).unwrap_or_default();
        config.auth_info = object(json!({"token": token}))?;
        let trap = Trap::start(config).await?;
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "outside",
            "clusters": [{"name": "outside", "cluster": {"server": trap.url()}}],
            "users": [{"name": "outside", "user": {}}],
            "contexts": [{"name": "outside", "context": {"cluster": "outside", "user": "outside"}}],
        });
        let folder = std::env::temp_dir().join(format!("petri-outside-{}-{name}", std::process::id()));
        let file = |source| Error::File { path: folder.clone(), source };
        std::fs::create_dir_all(folder.join("tmp")).map_err(file)?;
        std::fs::write(folder.join("kubeconfig"), kubeconfig.to_string()).map_err(file)?;
        Ok(Self { trap, namespace: namespace.to_owned(), program, folder })
    }

    /// Runs the deployer to its end; with a trap, everything of it is killed there, as when its pod dies.
    ///
    /// # Errors
    /// The program cannot be run.
    pub async fn run(
        &self,
        operation: Operation,
        release: &str,
        chart: &str,
        values: &Value,
        deadline: Duration,
        trap: Option<(&str, Side)>,
    ) -> Result<Ran, Error> {
        // An absolute path stays what it is.
        let path = checkout().join("e2e/charts").join(chart);
        let payload = json!({
            "OwnerUID": "00000000-0000-0000-0000-000000000000", "Namespace": self.namespace,
            "ReleaseName": release, "Serial": 1,
            "Component": {"name": release, "helm": {"path": path}, "values": values},
        });
        let report = self.folder.join("report");
        let _ = std::fs::remove_file(&report);
        let mut deployer = command(&self.program);
        deployer.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let operation = if operation == Operation::Deploy { "deploy" } else { "undeploy" };
        deployer.env("PETRI_OP", operation).env("PETRI_SPEC", payload.to_string());
        deployer.env("PETRI_DEADLINE_SECS", deadline.as_secs().to_string());
        deployer.env("PETRI_HELM", lab::path("helm")).env("PETRI_TERMINATION_LOG", &report);
        deployer.env("TMPDIR", self.folder.join("tmp")).env("KUBECONFIG", self.folder.join("kubeconfig"));
        // Helm is of the same group, and dies with it.
        deployer.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let file = |source| Error::File { path: self.program.clone(), source };
        let group = Arc::new(AtomicI32::new(0));
        if let Some((what, side)) = trap {
            let group = Arc::clone(&group);
            self.trap.arm(what, side, move || {
                if let Some(pid) = Pid::from_raw(group.load(Ordering::SeqCst)) {
                    let _ = kill_process_group(pid, Signal::KILL);
                }
            });
        }
        let started = Instant::now();
        let child = deployer.spawn().map_err(file)?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
        group.store(pid, Ordering::SeqCst);
        let output = child.wait_with_output().await.map_err(file)?;
        let ended = Instant::now();
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        Ok(Ran { report: serde_json::from_str(&text).unwrap_or_default(), log, started, ended })
    }
}

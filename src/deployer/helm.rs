//! Drives the real helm 4 binary: fixed arguments, values in files, its output as JSON where it has one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use petri_machines::reason::FailureReason;
use serde::Deserialize;
use tokio::process::Command;
use tracing::{debug, info};

use super::classify::{DEBUG, Failure, Stage, classify, ended_in, error_text};
use super::limits::Limits;
use super::mask::Masker;
use super::process::{self, ProcessError};
use crate::telemetry::trace;

/// What helm keeps of a release's past; its own default is 10.
const HISTORY_MAX: &str = "5";
/// Discovery on a cluster with thousands of kinds must not eat the deadline.
const BURST_LIMIT: &str = "1000";
const QPS: &str = "200";
/// Helm's own time-outs strike before the deployer's deadline, because their messages say more.
const RESERVE: Duration = Duration::from_secs(5);
/// What helm may inherit: the way to the cluster, to the network and to the trusted roots.
const INHERITED: [&str; 15] = [
    "PATH",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "KUBERNETES_SERVICE_PORT_HTTPS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GOMAXPROCS",
    "GOMEMLIMIT",
];

/// Runs helm for one release.
#[derive(Debug, Clone)]
pub struct Helm {
    binary: PathBuf,
    environment: Vec<(OsString, OsString)>,
    release: String,
    namespace: String,
    limits: Limits,
    masker: Arc<Masker>,
}

/// Names the values of an install or an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values {
    /// Files, the last one wins.
    pub files: Vec<PathBuf>,
    /// Integers over them, in `--set` syntax.
    pub integers: Vec<String>,
}

/// Carries what an install or an upgrade left.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Released {
    /// The new revision.
    #[serde(rename = "version")]
    pub revision: u32,
    /// All its objects as YAML, without hooks.
    #[serde(default)]
    pub manifest: String,
}

impl Helm {
    /// Prepares helm for a release; everything it writes stays in `home`.
    pub fn new(
        binary: &Path,
        home: &Path,
        release: &str,
        namespace: &str,
        limits: Limits,
        masker: Arc<Masker>,
    ) -> Self {
        let inherited = INHERITED.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
        let own = [
            ("HOME", home.as_os_str()),
            ("TMPDIR", home.as_os_str()),
            ("HELM_CACHE_HOME", home.join("cache").as_os_str()),
            ("HELM_CONFIG_HOME", home.join("config").as_os_str()),
            ("HELM_DATA_HOME", home.join("data").as_os_str()),
            ("HELM_MAX_HISTORY", HISTORY_MAX.as_ref()),
            ("HELM_BURST_LIMIT", BURST_LIMIT.as_ref()),
            ("HELM_QPS", QPS.as_ref()),
        ]
        .map(|(name, value)| (name.into(), value.to_owned()));
        Self {
            binary: binary.to_owned(),
            environment: inherited.chain(own).collect(),
            release: release.to_owned(),
            namespace: namespace.to_owned(),
            limits,
            masker,
        }
    }

    /// Adds a variable to helm's environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Gives the part of the environment that other programs may have as well.
    pub fn inherited(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.environment
            .iter()
            .filter(|(name, _)| name != "KUBECONFIG" && INHERITED.iter().any(|known| name == known))
            .map(|(name, value)| (name, value))
    }

    /// Gives a text without secrets.
    pub fn masked(&self, text: &str) -> String {
        self.masker.mask(text)
    }

    /// Gives the limits of the run.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Installs the chart as the first revision. Only with `--debug` helm says what it waits for.
    ///
    /// # Errors
    /// Helm's own failure, classified.
    pub async fn install(&self, chart: &Path, values: &Values) -> Result<Released, Failure> {
        let mut arguments = words(&["install", "--debug", "--server-side=true"]);
        arguments.extend(self.deploy_arguments(chart, values));
        self.released(arguments, "helm install").await
    }

    /// Upgrades to the chart and to these values only.
    ///
    /// Without `--reset-values` helm takes the last revision's values whenever the new ones are empty.
    ///
    /// # Errors
    /// Helm's own failure, classified.
    pub async fn upgrade(&self, chart: &Path, values: &Values) -> Result<Released, Failure> {
        let mut arguments = words(&["upgrade", "--debug", "--server-side=true", "--reset-values"]);
        arguments.extend(self.deploy_arguments(chart, values));
        self.released(arguments, "helm upgrade").await
    }

    /// Goes back to a revision by number, without hooks.
    ///
    /// # Errors
    /// Helm's own failure, classified.
    pub async fn rollback(&self, to: u32) -> Result<(), Failure> {
        let mut arguments = words(&["rollback", "--no-hooks", "--server-side=true", "--force-conflicts"]);
        arguments.extend(self.common(self.time()));
        arguments.extend([
            "--wait=hookOnly".into(),
            "--".into(),
            self.release.clone().into(),
            to.to_string().into(),
        ]);
        self.call(arguments, Stage::Release, "helm rollback").await.map(drop)
    }

    /// Removes the release and waits until its objects are gone.
    ///
    /// Helm takes *any* failure to read the history for "not found" and calls it a success: the caller has to
    /// look whether the records are really gone.
    ///
    /// # Errors
    /// Helm's own failure, classified.
    pub async fn uninstall(&self, hooks: bool, time: Duration) -> Result<(), Failure> {
        let mut arguments =
            words(&["uninstall", "--debug", "--wait=watcher", "--cascade=foreground", "--ignore-not-found"]);
        if !hooks {
            arguments.push("--no-hooks".into());
        }
        arguments.extend(self.common(time.min(self.time())));
        arguments.extend(["--".into(), self.release.clone().into()]);
        self.call(arguments, Stage::Removal, "helm uninstall").await.map(drop)
    }

    /// Runs `helm` with arguments for getting a chart.
    ///
    /// # Errors
    /// Helm's own failure, classified as one of the source.
    pub async fn source(&self, arguments: Vec<OsString>, what: &str) -> Result<Vec<u8>, Failure> {
        self.call(arguments, Stage::Source, what).await
    }

    /// Gives the time that helm may take for one step.
    pub fn time(&self) -> Duration {
        self.limits.remaining().saturating_sub(RESERVE).max(Duration::from_secs(1))
    }

    fn common(&self, time: Duration) -> [OsString; 4] {
        let time = format!("{}s", time.as_secs().max(1));
        ["--namespace".into(), self.namespace.clone().into(), "--timeout".into(), time.into()]
    }

    fn deploy_arguments(&self, chart: &Path, values: &Values) -> Vec<OsString> {
        let mut arguments = self.common(self.time()).to_vec();
        // A field that somebody else took is taken back: the release is Petri's, and what the chart says
        // holds.
        arguments.extend(words(&["--force-conflicts", "--skip-crds", "--wait=hookOnly", "--output=json"]));
        for file in &values.files {
            arguments.extend(["--values".into(), file.clone().into_os_string()]);
        }
        arguments.extend(values.integers.iter().map(|integer| format!("--set={integer}").into()));
        arguments.extend(["--".into(), self.release.clone().into(), chart.as_os_str().to_owned()]);
        arguments
    }

    async fn released(&self, arguments: Vec<OsString>, what: &str) -> Result<Released, Failure> {
        let output = self.call(arguments, Stage::Release, what).await?;
        // The output holds the values: an error must not quote it.
        serde_json::from_slice(&output).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Failure::new(FailureReason::HelmFailed, format!("{what} wrote no release as JSON: {place}"))
        })
    }

    /// `what` names the call and holds nothing of its arguments.
    async fn call(&self, arguments: Vec<OsString>, stage: Stage, what: &str) -> Result<Vec<u8>, Failure> {
        trace::step(what.to_owned(), self.run(arguments, stage, what)).await
    }

    async fn run(&self, arguments: Vec<OsString>, stage: Stage, what: &str) -> Result<Vec<u8>, Failure> {
        info!(message = what, release = self.release, namespace = self.namespace);
        debug!(message = what, ?arguments);
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = process::run(&mut command, &self.limits).await.map_err(|error| match error {
            ProcessError::Ended { ended, stderr, .. } => {
                let Failure { reason, message } = ended_in(stage, ended, what, &stderr);
                Failure::new(reason, self.masker.mask(&message))
            }
            ProcessError::Start { .. } => Failure::new(FailureReason::HelmFailed, error.to_string()),
        })?;
        let stderr = self.masker.mask(&output.stderr);
        for line in stderr.lines().filter(|line| !line.starts_with(DEBUG)) {
            info!(message = line, source = "helm");
        }
        if output.status.success() {
            return Ok(output.stdout);
        }
        // Classified before masking: a value must not be able to hide the cause.
        let mut text = error_text(&output.stderr);
        if stage == Stage::Source {
            // `helm repo update` tells the cause on standard output only.
            text = format!("{text} {}", String::from_utf8_lossy(&output.stdout).trim()).trim().to_owned();
        }
        let text = match text {
            text if text.is_empty() => format!("{what} ended by {} and said nothing", output.status),
            text => text,
        };
        Err(Failure::new(classify(stage, &text), self.masker.mask(&text)))
    }
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests;

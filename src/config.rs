//! Configuration of the operator: flags over environment over a strict YAML file over defaults.
//!
//! A mistake refuses the start and names the field and what it may be; all mistakes are named at once.

mod check;
pub mod reference;

pub use check::Mistake;
pub(crate) use check::is_endpoint;

use check::Checked;
use clap::Args;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not a mapping of known fields.
    #[error("{}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// Values that may not be.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Mistake>),
}

/// How kubelet gets an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PullPolicy {
    /// Pulled at every start.
    Always,
    /// Pulled when absent.
    IfNotPresent,
    /// Never pulled.
    Never,
}

impl PullPolicy {
    /// Returns it as a Pod spec writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

/// The whole configuration, checked. Fields ending in `_secs` are seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Where the custom resources are; they are watched nowhere else.
    pub management_namespace: String,
    /// Where shared components and obligations are.
    pub shared_namespace: String,
    /// The ClusterRole that the operator binds to itself in each workload namespace.
    pub workload_cluster_role: String,
    /// Image of the deployer Jobs.
    pub deployer_image: String,
    /// How kubelet gets that image.
    pub deployer_image_pull_policy: PullPolicy,
    /// ClusterRoles that the deployer gets besides `admin`.
    pub deployer_cluster_roles: Vec<String>,
    /// Objects that are reconciled at once. A pass waits for the API server nearly all of its time: with four, the end of
    /// a fifth Job waited for its turn. Each holds a connection, which is memory.
    pub workers: usize,
    /// Backstop of a deployer Job.
    pub job_deadline_secs: u64,
    /// Time to become ready where the template says nothing.
    pub default_deploy_timeout_secs: u64,
    /// How long a pod may crash or fail to pull before the attempt ends; 0 = off.
    pub pod_failure_timeout_secs: u64,
    /// Slow look at each object.
    pub resync_secs: u64,
    /// Whether a Lease decides who works.
    pub leader_election: bool,
    /// How long others wait after the last renewal they saw.
    pub lease_duration_secs: u64,
    /// Pause between renewals.
    pub lease_renew_secs: u64,
    /// How long before others may take over this process stops.
    pub lease_margin_secs: u64,
    /// Where `/metrics` is served.
    pub metrics_address: SocketAddr,
    /// Where `/healthz` and `/readyz` are served.
    pub health_address: SocketAddr,
    /// OTLP endpoint (gRPC); none = no traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp_endpoint: Option<String>,
    /// Of a hundred traces that begin here, how many are exported; a caller's own decision goes before.
    pub trace_sample_percent: u8,
    /// A level, or directives such as `info,petri=debug`.
    pub log_level: String,
}

/// What a file, the environment or the flags set; everything may be absent. Numbers are wide and signed here, so
/// that a wrong one is refused with the range and not with the name of a type.
#[derive(Clone, Debug, Default, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Settings {
    /// Namespace of the custom resources [default: the Pod's own, or petri-system]
    #[arg(long, env = "PETRI_MANAGEMENT_NAMESPACE")]
    pub management_namespace: Option<String>,
    /// Namespace of shared components [default: petri-shared]
    #[arg(long, env = "PETRI_SHARED_NAMESPACE")]
    pub shared_namespace: Option<String>,
    /// ClusterRole that the operator binds to itself in each workload namespace [default: petri-operator-workload]
    #[arg(long, env = "PETRI_WORKLOAD_CLUSTER_ROLE")]
    pub workload_cluster_role: Option<String>,
    /// Image of the deployer Jobs
    #[arg(long, env = "PETRI_DEPLOYER_IMAGE")]
    pub deployer_image: Option<String>,
    /// Always, IfNotPresent or Never [default: IfNotPresent]
    #[arg(long, env = "PETRI_DEPLOYER_IMAGE_PULL_POLICY")]
    pub deployer_image_pull_policy: Option<String>,
    /// ClusterRoles for the deployer besides admin
    #[arg(long, env = "PETRI_DEPLOYER_CLUSTER_ROLES", value_delimiter = ',')]
    pub deployer_cluster_roles: Option<Vec<String>>,
    /// Objects reconciled at once [default: 8]
    #[arg(long, env = "PETRI_WORKERS", allow_negative_numbers = true)]
    pub workers: Option<i64>,
    /// Backstop of a deployer Job, seconds [default: 900]
    #[arg(long, env = "PETRI_JOB_DEADLINE_SECS", allow_negative_numbers = true)]
    pub job_deadline_secs: Option<i64>,
    /// Time to become ready where the template says nothing, seconds [default: 900]
    #[arg(long, env = "PETRI_DEFAULT_DEPLOY_TIMEOUT_SECS", allow_negative_numbers = true)]
    pub default_deploy_timeout_secs: Option<i64>,
    /// How long a pod may crash before the attempt ends, seconds, 0 = off [default: 300]
    #[arg(long, env = "PETRI_POD_FAILURE_TIMEOUT_SECS", allow_negative_numbers = true)]
    pub pod_failure_timeout_secs: Option<i64>,
    /// Slow look at each object, seconds [default: 600]
    #[arg(long, env = "PETRI_RESYNC_SECS", allow_negative_numbers = true)]
    pub resync_secs: Option<i64>,
    /// Whether a Lease decides who works [default: true]
    #[arg(long, env = "PETRI_LEADER_ELECTION")]
    pub leader_election: Option<bool>,
    /// How long others wait after the last renewal they saw, seconds [default: 15]
    #[arg(long, env = "PETRI_LEASE_DURATION_SECS", allow_negative_numbers = true)]
    pub lease_duration_secs: Option<i64>,
    /// Pause between renewals, seconds [default: 2]
    #[arg(long, env = "PETRI_LEASE_RENEW_SECS", allow_negative_numbers = true)]
    pub lease_renew_secs: Option<i64>,
    /// How long before others may take over this process stops, seconds [default: 5]
    #[arg(long, env = "PETRI_LEASE_MARGIN_SECS", allow_negative_numbers = true)]
    pub lease_margin_secs: Option<i64>,
    /// Where /metrics is served [default: 0.0.0.0:9090]
    #[arg(long, env = "PETRI_METRICS_ADDRESS")]
    pub metrics_address: Option<String>,
    /// Where /healthz and /readyz are served [default: 0.0.0.0:8081]
    #[arg(long, env = "PETRI_HEALTH_ADDRESS")]
    pub health_address: Option<String>,
    /// OTLP endpoint (gRPC), empty = no traces
    #[arg(long, env = "PETRI_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// Of a hundred traces that begin here, how many are exported [default: 100]
    #[arg(long, env = "PETRI_TRACE_SAMPLE_PERCENT", allow_negative_numbers = true)]
    pub trace_sample_percent: Option<i64>,
    /// A level, or directives such as info,petri=debug [default: info]
    #[arg(long, env = "PETRI_LOG_LEVEL")]
    pub log_level: Option<String>,
}

/// The namespace that is used when neither the configuration nor the Pod names one.
pub const DEFAULT_NAMESPACE: &str = "petri-system";

impl Config {
    /// Reads the file, if one is named, lays `flags` over it and checks the result. `own_namespace` is the Pod's.
    ///
    /// # Errors
    /// The file cannot be read or understood, or values may not be; then all of those are named.
    pub fn load(
        file: Option<&Path>,
        flags: Settings,
        own_namespace: Option<&str>,
    ) -> Result<Self, ConfigError> {
        let base = file.map(read).transpose()?.unwrap_or_default();
        Self::check(flags.over(base), own_namespace)
    }

    fn check(settings: Settings, own_namespace: Option<&str>) -> Result<Self, ConfigError> {
        let own = own_namespace.filter(|own| !own.is_empty()).unwrap_or(DEFAULT_NAMESPACE);
        let mut check = Checked::default();
        let config = Self {
            management_namespace: check.name("managementNamespace", settings.management_namespace, own),
            shared_namespace: check.name("sharedNamespace", settings.shared_namespace, "petri-shared"),
            workload_cluster_role: check.role(
                "workloadClusterRole",
                settings.workload_cluster_role,
                "petri-operator-workload",
            ),
            deployer_image: check.image("deployerImage", settings.deployer_image, DEPLOYER_IMAGE),
            deployer_image_pull_policy: check
                .pull_policy("deployerImagePullPolicy", settings.deployer_image_pull_policy),
            deployer_cluster_roles: check.roles("deployerClusterRoles", settings.deployer_cluster_roles),
            workers: check.number("workers", settings.workers, 8, 1..=256),
            // The deployer ends itself 60 s before this, so there must be something before that.
            job_deadline_secs: check.number("jobDeadlineSecs", settings.job_deadline_secs, 900, 120..=DAY),
            default_deploy_timeout_secs: check.number(
                "defaultDeployTimeoutSecs",
                settings.default_deploy_timeout_secs,
                900,
                1..=DAY,
            ),
            pod_failure_timeout_secs: check.number(
                "podFailureTimeoutSecs",
                settings.pod_failure_timeout_secs,
                300,
                0..=DAY,
            ),
            resync_secs: check.number("resyncSecs", settings.resync_secs, 600, 10..=DAY),
            leader_election: settings.leader_election.unwrap_or(true),
            lease_duration_secs: check.number("leaseDurationSecs", settings.lease_duration_secs, 15, 3..=300),
            lease_renew_secs: check.number("leaseRenewSecs", settings.lease_renew_secs, 2, 1..=100),
            lease_margin_secs: check.number("leaseMarginSecs", settings.lease_margin_secs, 5, 1..=100),
            metrics_address: check.address("metricsAddress", settings.metrics_address, ([0, 0, 0, 0], 9090)),
            health_address: check.address("healthAddress", settings.health_address, ([0, 0, 0, 0], 8081)),
            otlp_endpoint: check.endpoint("otlpEndpoint", settings.otlp_endpoint),
            trace_sample_percent: check.number(
                "traceSamplePercent",
                settings.trace_sample_percent,
                100,
                0..=100,
            ),
            log_level: check.directives("logLevel", settings.log_level, "info"),
        };
        check.across(&config);
        check.into_result(config)
    }

    /// Returns the slow resync.
    pub fn resync(&self) -> Duration {
        Duration::from_secs(self.resync_secs)
    }
}

/// As a file that would give it again.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_saphyr::to_string(self).map_err(|_| fmt::Error)?)
    }
}

const DEPLOYER_IMAGE: &str = concat!("docker.io/petri/deployer:", env!("CARGO_PKG_VERSION"));
const DAY: i64 = 86_400;

fn read(path: &Path) -> Result<Settings, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), error })?;
    parse(&text).map_err(|message| ConfigError::Malformed { path: path.to_owned(), message })
}

fn parse(text: &str) -> Result<Settings, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Settings::default());
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

impl Settings {
    fn over(self, base: Self) -> Self {
        Self {
            management_namespace: self.management_namespace.or(base.management_namespace),
            shared_namespace: self.shared_namespace.or(base.shared_namespace),
            workload_cluster_role: self.workload_cluster_role.or(base.workload_cluster_role),
            deployer_image: self.deployer_image.or(base.deployer_image),
            deployer_image_pull_policy: self.deployer_image_pull_policy.or(base.deployer_image_pull_policy),
            deployer_cluster_roles: self.deployer_cluster_roles.or(base.deployer_cluster_roles),
            workers: self.workers.or(base.workers),
            job_deadline_secs: self.job_deadline_secs.or(base.job_deadline_secs),
            default_deploy_timeout_secs: self
                .default_deploy_timeout_secs
                .or(base.default_deploy_timeout_secs),
            pod_failure_timeout_secs: self.pod_failure_timeout_secs.or(base.pod_failure_timeout_secs),
            resync_secs: self.resync_secs.or(base.resync_secs),
            leader_election: self.leader_election.or(base.leader_election),
            lease_duration_secs: self.lease_duration_secs.or(base.lease_duration_secs),
            lease_renew_secs: self.lease_renew_secs.or(base.lease_renew_secs),
            lease_margin_secs: self.lease_margin_secs.or(base.lease_margin_secs),
            metrics_address: self.metrics_address.or(base.metrics_address),
            health_address: self.health_address.or(base.health_address),
            otlp_endpoint: self.otlp_endpoint.or(base.otlp_endpoint),
            trace_sample_percent: self.trace_sample_percent.or(base.trace_sample_percent),
            log_level: self.log_level.or(base.log_level),
        }
    }
}

#[cfg(test)]
mod tests;

//! A cluster as its administrator reaches it: a lab's, or any other by its kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Output;

use tokio::process::Command;

use crate::lab::{LabError, program, run};

/// How a cluster is reached.
#[derive(Clone)]
pub struct Cluster {
    kubeconfig: PathBuf,
    context: Option<String>,
    config: kube::Config,
    client: kube::Client,
}

impl Cluster {
    /// Reads the kubeconfig; without a context its current one is taken. Nothing is asked of the cluster yet.
    pub async fn new(kubeconfig: PathBuf, context: Option<String>) -> Result<Self, LabError> {
        let read = kube::config::Kubeconfig::read_from(&kubeconfig)?;
        let options = kube::config::KubeConfigOptions { context: context.clone(), ..Default::default() };
        let config = kube::Config::from_custom_kubeconfig(read, &options).await?;
        Ok(Self { kubeconfig, context, client: kube::Client::try_from(config.clone())?, config })
    }

    /// Returns the kubeconfig's path.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns a client with the rights of the kubeconfig's user.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// Returns a client with the same rights to which every answer is an answer: the other asks again after a 503.
    pub fn client_without_retries(&self) -> Result<kube::Client, LabError> {
        let mut config = self.config.clone();
        config.default_retry = false;
        Ok(kube::Client::try_from(config)?)
    }

    /// Runs kubectl to its end; output is captured, and a failure is an error with it.
    pub async fn kubectl<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Result<Output, LabError> {
        let mut kubectl = program("kubectl");
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(context) = &self.context {
            kubectl.args(["--context", context]);
        }
        run(kubectl.args(args)).await
    }

    /// Returns a helm that talks to this cluster.
    pub fn helm(&self) -> Command {
        let mut helm = program("helm");
        helm.arg("--kubeconfig").arg(&self.kubeconfig);
        if let Some(context) = &self.context {
            helm.args(["--kube-context", context]);
        }
        helm
    }
}

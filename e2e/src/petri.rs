//! Petri on a cluster: installed from its chart, asked and watched through the API server as a user would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, Phase};

use crate::cluster::Cluster;
use crate::lab::{Lab, LabError, Progress, image};

/// The namespace of the operator and of the custom resources.
pub const MANAGEMENT: &str = "petri-system";
/// The chart's values that the cases run with: a leader that was killed is followed soon.
pub const VALUES: [(&str, &str); 1] = [("config.leaseDurationSecs", "5")];
/// How often a state is looked at that is awaited.
const LOOK: Duration = Duration::from_millis(250);

/// Why a demo or a case on a real cluster ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster itself.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The API server refused, or did not answer.
    #[error("the API server: {}", said(.0))]
    Api(#[from] kube::Error),
    /// A program failed.
    #[error("{program} failed:\n{said}")]
    Program {
        /// Its name.
        program: String,
        /// What it said last.
        said: String,
    },
    /// Something that must come did not.
    #[error("waited {seconds} s in vain for {what}; last seen: {last}")]
    Late {
        /// What was awaited.
        what: String,
        /// How long.
        seconds: u64,
        /// What was there instead.
        last: String,
    },
    /// Something is not as it must be.
    #[error("{0}")]
    Wrong(String),
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// The server's own sentence; the whole error says the same thing three times.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns the folder of the checkout that this program was built from.
pub fn checkout() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_owned()
}

/// Where Petri runs: a lab, whose parts can be stopped and looked at, or just a cluster.
pub trait Ground: Sync {
    /// Returns the cluster.
    fn cluster(&self) -> &Cluster;
}

impl Ground for Lab {
    fn cluster(&self) -> &Cluster {
        self.cluster()
    }
}

impl Ground for Cluster {
    fn cluster(&self) -> &Cluster {
        self
    }
}

/// Petri, installed on a cluster.
pub struct Petri<'a, G: Ground = Lab> {
    /// The cluster.
    pub lab: &'a G,
}

impl<'a> Petri<'a> {
    /// Builds the images, gives them to the node and installs the chart; values go over the lab's own.
    pub async fn install(lab: &'a Lab, progress: &Progress, values: &[(&str, &str)]) -> Result<Self, Error> {
        let images = image::build(progress).await?;
        progress.step("giving the images to the node");
        lab.load_images(&images).await?;
        progress.step("installing charts/petri");
        let petri = Self { lab };
        petri.helm_upgrade(values).await?;
        Ok(petri)
    }
}

impl<G: Ground> Petri<'_, G> {
    fn client(&self) -> kube::Client {
        self.lab.cluster().client()
    }

    /// Installs or upgrades the chart and waits until the operator serves.
    pub async fn helm_upgrade(&self, values: &[(&str, &str)]) -> Result<(), Error> {
        self.helm_chart(&checkout().join("charts/petri"), values).await
    }

    /// The same with another chart of that name.
    pub async fn helm_chart(&self, chart: &Path, values: &[(&str, &str)]) -> Result<(), Error> {
        let mut helm = self.lab.cluster().helm();
        helm.args(["upgrade", "--install", "petri"]).arg(chart);
        helm.args(["--namespace", MANAGEMENT, "--create-namespace"]);
        helm.args(["--set", "image.tag=dev,deployer.image.tag=dev,apiserver.image.tag=dev"]);
        for (name, value) in values {
            // Variables are texts, also where they read like something else.
            let set = if name.starts_with("apiserver.env.") { "--set-string" } else { "--set" };
            helm.args([set, &format!("{name}={value}")]);
        }
        helm.args(["--wait", "--timeout", "120s"]);
        let output = helm.output().await.map_err(|source| Error::File { path: "helm".into(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.push_str(&self.operator_log().await.unwrap_or_default());
        Err(Error::Program { program: "helm upgrade --install petri".to_owned(), said })
    }

    /// Removes Petri: its release, its kinds and its namespace.
    pub async fn uninstall(&self) -> Result<(), Error> {
        let cluster = self.lab.cluster();
        let mut helm = cluster.helm();
        crate::lab::run(helm.args(["uninstall", "petri", "--namespace", MANAGEMENT, "--wait"])).await?;
        let kinds = checkout().join("crds/yaml");
        cluster
            .kubectl(&["delete".as_ref(), "--ignore-not-found".as_ref(), "-f".as_ref(), kinds.as_os_str()])
            .await?;
        cluster.kubectl(&["delete", "namespace", MANAGEMENT, "petri-shared", "--ignore-not-found"]).await?;
        Ok(())
    }

    /// Returns the end of the operator's log, for a failure that must be explained.
    pub async fn operator_log(&self) -> Result<String, Error> {
        let pods: Api<Pod> = Api::namespaced(self.client(), MANAGEMENT);
        let mut text = String::new();
        for pod in pods.list(&ListParams::default()).await? {
            let name = pod.metadata.name.unwrap_or_default();
            let params = kube::api::LogParams { tail_lines: Some(15), ..Default::default() };
            let log = pods.logs(&name, &params).await.unwrap_or_default();
            text.push_str(&format!("\n--- {name}\n{log}"));
        }
        Ok(text)
    }

    /// Returns the environments.
    pub fn environments(&self) -> Api<EphemeralEnvironment> {
        Api::namespaced(self.client(), MANAGEMENT)
    }

    /// Returns the templates.
    pub fn templates(&self) -> Api<EnvironmentTemplate> {
        Api::namespaced(self.client(), MANAGEMENT)
    }

    /// Applies the manifests of a file with kubectl, as a user would.
    pub async fn apply(&self, file: &Path) -> Result<(), Error> {
        self.lab.cluster().kubectl(&["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await?;
        Ok(())
    }

    /// Applies one object.
    pub async fn apply_object<K>(&self, api: &Api<K>, object: &K) -> Result<K, Error>
    where
        K: kube::Resource<DynamicType = ()>
            + serde::Serialize
            + serde::de::DeserializeOwned
            + Clone
            + std::fmt::Debug,
    {
        let name = object.meta().name.clone().unwrap_or_default();
        let params = PatchParams::apply("petri-e2e").force();
        Ok(api.patch(&name, &params, &Patch::Apply(object)).await?)
    }

    /// Merges a change into one environment.
    pub async fn patch(&self, name: &str, change: serde_json::Value) -> Result<EphemeralEnvironment, Error> {
        Ok(self.environments().patch(name, &PatchParams::default(), &Patch::Merge(change)).await?)
    }

    /// Asks for the deletion of one environment.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.environments().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until an environment is as `want` says, and returns it.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        within: Duration,
        want: impl Fn(&EphemeralEnvironment) -> bool,
    ) -> Result<EphemeralEnvironment, Error> {
        let (api, started) = (self.environments(), Instant::now());
        let mut last = "nothing".to_owned();
        while started.elapsed() < within {
            if let Some(environment) = api.get_opt(name).await? {
                if want(&environment) {
                    return Ok(environment);
                }
                last = summary(&environment);
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(Error::Late { what: format!("{name}: {what}"), seconds: within.as_secs(), last })
    }

    /// Waits until an environment's rollout of its newest generation is Ready.
    pub async fn until_ready(&self, name: &str, within: Duration) -> Result<EphemeralEnvironment, Error> {
        self.until(name, "Ready", within, is_ready).await
    }

    /// Waits until an environment is gone.
    pub async fn until_gone(&self, name: &str, within: Duration) -> Result<(), Error> {
        let (api, started) = (self.environments(), Instant::now());
        let mut last = String::new();
        while started.elapsed() < within {
            match api.get_opt(name).await? {
                None => return Ok(()),
                Some(environment) => last = summary(&environment),
            }
            tokio::time::sleep(LOOK).await;
        }
        Err(Error::Late { what: format!("{name}: gone"), seconds: within.as_secs(), last })
    }

    /// Returns what Petri has made and not removed: workload namespaces, by name.
    pub async fn leftovers(&self) -> Result<Vec<String>, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let ours = ListParams::default().labels("petri.run/environment-uid");
        let found = namespaces.list(&ours).await?;
        Ok(found.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    }

    /// Fetches a page from a service through the API server's proxy.
    pub async fn fetch(&self, namespace: &str, service: &str, path: &str) -> Result<String, Error> {
        let uri = format!("/api/v1/namespaces/{namespace}/services/{service}:80/proxy{path}");
        let request =
            http::Request::get(uri).body(Vec::new()).map_err(|error| Error::Wrong(error.to_string()))?;
        Ok(self.client().request_text(request).await?)
    }
}

/// Whether the newest generation was rolled out and is Ready.
pub fn is_ready(environment: &EphemeralEnvironment) -> bool {
    let Some(status) = &environment.status else { return false };
    let current = status.observed_generation == environment.metadata.generation;
    let ready =
        status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    current && ready && status.phase == Some(Phase::Ready)
}

/// Returns the reason and message of the Ready condition.
pub fn story(environment: &EphemeralEnvironment) -> (String, String) {
    let conditions = environment.status.iter().flat_map(|status| &status.conditions);
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    ready.map(|ready| (ready.reason.clone(), ready.message.clone())).unwrap_or_default()
}

/// Returns phase, reason, message and components in one line.
pub fn summary(environment: &EphemeralEnvironment) -> String {
    let Some(status) = &environment.status else { return "no status yet".to_owned() };
    let phase = status.phase.as_ref().map_or("-", |phase| phase.as_str());
    let (reason, message) = story(environment);
    let component = |one: &petri_crds::ComponentStatus| {
        format!("{}={} {}", one.name, one.phase.as_str(), one.message.as_deref().unwrap_or(""))
    };
    let components: Vec<String> = status.components.iter().map(component).collect();
    format!("{phase} ({reason}: {message}) [{}]", components.join("; "))
}

/// Returns the namespace an environment's workload lives in.
pub fn namespace_of(environment: &EphemeralEnvironment) -> Result<String, Error> {
    let name = environment.status.as_ref().and_then(|status| status.target_namespace.clone());
    name.ok_or_else(|| Error::Wrong("the environment has no namespace".to_owned()))
}

/// Reads the `<dd id="…">` entries of the exemplar front's page.
pub fn entries(page: &str) -> BTreeMap<String, String> {
    let entry = |line: &str| {
        let (_, rest) = line.split_once("<dd id=\"")?;
        let (id, text) = rest.split_once("\">")?;
        Some((id.to_owned(), text.trim().to_owned()))
    };
    page.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entries_of_a_page_are_read_by_their_ids() {
        let page =
            "<dl>\n<dt>marker<dd id=\"marker\">second database\n<dt>queries<dd id=\"queries\">7\n</dl>";
        let found = entries(page);
        assert_eq!(found["marker"], "second database");
        assert_eq!(found["queries"], "7");
    }
}

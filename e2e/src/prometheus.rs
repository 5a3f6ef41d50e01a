//! A real Prometheus that scrapes a lab, and what it is asked.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::lab::{Lab, Progress, promtool};
use crate::petri::{Error, MANAGEMENT, checkout};

const PORT: u16 = 9095;
/// Where the programs serve their metrics.
const METRICS: u16 = 9090;
/// How long it may take to serve.
const START_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// Runs in the lab's network until it is dropped.
pub struct Prometheus {
    address: String,
    folder: PathBuf,
    _process: Child,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // What is left in the folder for temporary files costs little.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Addresses of the metrics of every pod of the chart.
async fn targets(lab: &Lab) -> Result<Vec<String>, Error> {
    let own = ListParams::default().labels("app.kubernetes.io/name in (petri-operator,petri-apiserver)");
    let pods = Api::<Pod>::namespaced(lab.client(), MANAGEMENT).list(&own).await?;
    let address = |pod: Pod| Some(format!("{}:{METRICS}", pod.status?.pod_ip?));
    Ok(pods.into_iter().filter_map(address).collect())
}

impl Prometheus {
    /// Starts Debian's, with the chart's rules, scraping every second the pods that the chart runs now: it is built
    /// without the discovery of Kubernetes.
    pub async fn start(lab: &Lab) -> Result<Self, Error> {
        let targets = targets(lab).await?;
        let folder = std::env::temp_dir().join(format!("petri-prometheus-{}", std::process::id()));
        let file = |source| Error::File { path: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(file)?;
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [checkout().join("charts/petri/files/rules.yaml")],
            "scrape_configs": [{
                "job_name": "petri", "static_configs": [{"targets": targets}],
            }],
        });
        let config_file = folder.join("prometheus.yaml");
        std::fs::write(&config_file, config.to_string()).map_err(file)?;
        let log = std::fs::File::create(folder.join("log")).map_err(file)?;
        let program = promtool(&Progress::new()).await?.with_file_name("prometheus");
        let process = lab
            .inside(&program)
            .arg(format!("--config.file={}", config_file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address=0.0.0.0:{PORT}"))
            .arg("--enable-feature=exemplar-storage")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(file)?;
        let address = format!("http://{}:{PORT}", lab.node_address());
        let own = Self { address, folder, _process: process };
        let started = Instant::now();
        while own.get("/-/ready", &[]).await.is_err() {
            if started.elapsed() > START_MAX {
                let last = std::fs::read_to_string(own.folder.join("log")).unwrap_or_default();
                let seconds = START_MAX.as_secs();
                return Err(Error::Late { what: "Prometheus serving".to_owned(), seconds, last });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(own)
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String, Error> {
        let failed = |error: reqwest::Error| Error::Wrong(format!("Prometheus: {error}"));
        let address = format!("{}{path}", self.address);
        let address = reqwest::Url::parse_with_params(&address, query);
        let address = address.map_err(|error| Error::Wrong(error.to_string()))?;
        let answer = reqwest::get(address).await.map_err(failed)?;
        let (is_good, text) = (answer.status().is_success(), answer.text().await.map_err(failed)?);
        if is_good { Ok(text) } else { Err(Error::Wrong(format!("Prometheus: {text}"))) }
    }

    async fn ask(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Error> {
        let answer: Value = serde_json::from_str(&self.get(path, query).await?)
            .map_err(|error| Error::Wrong(format!("Prometheus: {error}")))?;
        Ok(answer["data"].clone())
    }

    /// Evaluates an expression now; returns the series of the answer.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>, Error> {
        let data = self.ask("/api/v1/query", &[("query", expression)]).await?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// Returns every rule: its name, what is wrong with it (or nothing), and whether it fires.
    pub async fn rules(&self) -> Result<Vec<(String, String, bool)>, Error> {
        let data = self.ask("/api/v1/rules", &[]).await?;
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rule = |rule: Value| {
            let trouble = if rule["health"] == "ok" { String::new() } else { text(&rule["lastError"]) + "?" };
            (text(&rule["name"]), trouble, rule["state"] == "firing")
        };
        Ok(rules.map(rule).collect())
    }

    /// Returns the traces that the exemplars of a series lead to.
    pub async fn exemplars(&self, series: &str) -> Result<Vec<String>, Error> {
        let now = jiff::Timestamp::now().as_second();
        let (start, end) = ((now - 3600).to_string(), (now + 60).to_string());
        let query = [("query", series), ("start", start.as_str()), ("end", end.as_str())];
        let data = self.ask("/api/v1/query_exemplars", &query).await?;
        let found = data.as_array().cloned().unwrap_or_default();
        let all = found.iter().flat_map(|one| one["exemplars"].as_array().cloned().unwrap_or_default());
        Ok(all.filter_map(|one| Some(one["labels"]["trace_id"].as_str()?.to_owned())).collect())
    }
}

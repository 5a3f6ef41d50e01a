//! A real OpenTelemetry collector between the programs and the receiver, assembled from its core modules.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::process::Child;

use crate::lab::{Lab, Progress, provide};
use crate::petri::Error;

const PORT: u16 = 4317;
/// How long it may take to listen.
const START_MAX: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);
const NAME: &str = "otelcol";

/// Runs in the lab's network until it is dropped.
pub struct Collector {
    endpoint: String,
    folder: std::path::PathBuf,
    process: Child,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Collector {
    /// Builds it, once per machine, and starts it; what it takes it hands on to this OTLP endpoint.
    pub async fn start(lab: &Lab, to: &str) -> Result<Self, Error> {
        let progress = Progress::new();
        let built = provide(NAME, &progress).await;
        progress.clear();
        built?;
        let folder = std::env::temp_dir().join(format!("petri-collector-{}", std::process::id()));
        let file = |source| Error::File { path: folder.clone(), source };
        std::fs::create_dir_all(&folder).map_err(file)?;
        let config = json!({
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": format!("0.0.0.0:{PORT}")}}}},
            // The receiver of the tests takes nothing compressed.
            "exporters": {"otlp_grpc": {"endpoint": to, "tls": {"insecure": true}, "compression": "none"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["otlp_grpc"]}},
            },
        });
        let config_file = folder.join("config.json");
        std::fs::write(&config_file, config.to_string()).map_err(file)?;
        let log = std::fs::File::create(folder.join("log")).map_err(file)?;
        let process = lab
            .inside(lab.bin(NAME))
            .arg(format!("--config=file:{}", config_file.display()))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(file)?;
        let address = format!("{}:{PORT}", lab.node_address());
        let own = Self { endpoint: format!("http://{address}"), folder, process };
        let started = Instant::now();
        while TcpStream::connect(&address).await.is_err() {
            if started.elapsed() > START_MAX {
                let last = std::fs::read_to_string(own.folder.join("log")).unwrap_or_default();
                let what = "the collector listening".to_owned();
                return Err(Error::Late { what, seconds: START_MAX.as_secs(), last });
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(own)
    }

    /// Returns the endpoint to configure.
    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }

    /// Makes it hang: it keeps its connections and answers nothing.
    pub fn freeze(&self) -> Result<(), Error> {
        let pid = self.process.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let pid = pid.ok_or_else(|| Error::Wrong("the collector has ended".to_owned()))?;
        kill_process(pid, Signal::STOP).map_err(|error| Error::Wrong(error.to_string()))
    }
}

//! petri-apiserver as a process of this machine, on loopback, in front of a lab's cluster.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::lab::{Lab, Progress, image};
use crate::load;
use crate::petri::{Error, MANAGEMENT};

/// It runs until it is dropped.
pub struct Gateway {
    /// Where the API is served.
    pub address: SocketAddr,
    metrics: SocketAddr,
    process: Child,
}

/// How often it is asked whether it is ready, and how long in between.
const LOOKS: u32 = 200;
const LOOK: Duration = Duration::from_millis(100);

impl Gateway {
    /// Builds it, starts it with these variables (named without the prefix), and waits until it is ready.
    ///
    /// # Errors
    /// It does not build or does not become ready.
    pub async fn start(lab: &Lab, progress: &Progress, variables: &[(&str, &str)]) -> Result<Self, Error> {
        let program = image::program("petri-apiserver", progress).await?;
        progress.clear();
        let (address, metrics) = (free()?, free()?);
        let log = std::fs::File::create(lab.logs().join("petri-apiserver.log"))
            .map_err(|source| file("petri-apiserver.log", source))?;
        let mut command = Command::new(program);
        command.env("KUBECONFIG", lab.kubeconfig()).env("PETRI_APISERVER_NAMESPACE", MANAGEMENT);
        command.env("PETRI_APISERVER_ADDRESS", address.to_string());
        command.env("PETRI_APISERVER_METRICS_ADDRESS", metrics.to_string());
        for (name, value) in variables {
            command.env(format!("PETRI_APISERVER_{name}"), value);
        }
        let process = command.stdout(Stdio::from(log)).kill_on_drop(true).spawn();
        let gateway =
            Self { address, metrics, process: process.map_err(|source| file("petri-apiserver", source))? };
        gateway.ready().await?;
        Ok(gateway)
    }

    /// Returns its address as a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the address of its metrics as a URL.
    pub fn metrics_url(&self) -> String {
        format!("http://{}", self.metrics)
    }

    /// Returns the number of its process.
    ///
    /// # Errors
    /// It has ended.
    pub fn id(&self) -> Result<u32, Error> {
        self.process.id().ok_or_else(|| Error::Wrong("petri-apiserver has ended".to_owned()))
    }

    async fn ready(&self) -> Result<(), Error> {
        let client = load::client(&self.url(), "none")?;
        let mut last = None;
        for _ in 0..LOOKS {
            let request = http::Request::get("/readyz").body(Vec::new());
            last = load::send(&client, request.map_err(|error| Error::Wrong(error.to_string()))?).await;
            if last == Some(200) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        let last = format!("{last:?}");
        Err(Error::Late { what: "petri-apiserver to be ready".to_owned(), seconds: 20, last })
    }
}

fn file(path: &str, source: std::io::Error) -> Error {
    Error::File { path: path.into(), source }
}

/// A port that nobody has now.
fn free() -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| file("loopback", source))?;
    listener.local_addr().map_err(|source| file("loopback", source))
}

//! The deployer without a cluster: the program as its Job would run it, with the real git, ssh and helm, in front of an
//! API server that knows no release. What is not done is helm's install: the chart is rendered instead.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, patch};
use http::header;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::cells::Cell;
use super::{Sources, file, make, write};
use crate::lab::{self, Progress, command, image};
use crate::petri::Error;

/// So that a server that never answers is given up soon; a source that is away is asked for 15 s.
const DEADLINE: Duration = Duration::from_secs(45);

/// What a run left.
pub struct Outcome {
    /// The reason it failed with; none when it succeeded.
    pub reason: Option<String>,
    /// The whole report.
    pub report: String,
    /// Everything that it logged.
    pub log: String,
}

/// Runs deployers.
pub struct Deployers {
    program: PathBuf,
    helm: PathBuf,
    folder: PathBuf,
    server: JoinHandle<()>,
}

impl Drop for Deployers {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Deployers {
    /// Builds the program and prepares a place for it.
    ///
    /// # Errors
    /// It does not build.
    pub async fn prepare(sources: &Sources, progress: &Progress) -> Result<Self, Error> {
        let program = image::program("petri-deployer", progress).await?;
        let folder = sources.folder.0.join("runs");
        make(&folder)?;
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| file("loopback", error))?;
        let server = format!("http://{}", listener.local_addr().map_err(|error| file("loopback", error))?);
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        });
        write(&folder.join("kubeconfig"), kubeconfig.to_string().as_bytes())?;
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, no_release()).await;
        });
        let helm = folder.join("helm");
        write(&helm, renders(&lab::path("helm")).as_bytes())?;
        lab::run(command("chmod").arg("+x").arg(&helm)).await?;
        Ok(Self { program, helm, folder, server })
    }

    /// Deploys the chart of one cell.
    ///
    /// # Errors
    /// The program cannot be run, or leaves no report.
    pub async fn run(&self, sources: &Sources, cell: &Cell) -> Result<Outcome, Error> {
        let folder = self.folder.join(cell.name);
        let credentials = folder.join("credentials");
        for folder in [&credentials, &folder.join("tmp")] {
            make(folder)?;
        }
        let mut helm = cell.helm.clone();
        if let Some(secret) = cell.secret {
            helm["credentialsSecretRef"] = json!({"name": secret});
            for (key, value) in &sources.secrets()[secret] {
                write(&credentials.join(key), value.as_bytes())?;
            }
        }
        write(&folder.join("payload"), payload(helm, &cell.values).to_string().as_bytes())?;
        let report = folder.join("report");
        let mut deployer = command(&self.program);
        deployer.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        deployer.env("PETRI_OP", "deploy").env("PETRI_SPEC_FILE", folder.join("payload"));
        deployer.env("PETRI_DEADLINE_SECS", DEADLINE.as_secs().to_string()).env("PETRI_HELM", &self.helm);
        deployer.env("PETRI_CREDENTIALS_DIR", &credentials).env("PETRI_TERMINATION_LOG", &report);
        deployer.env("TMPDIR", folder.join("tmp")).env("KUBECONFIG", self.folder.join("kubeconfig"));
        let output = deployer.stderr(Stdio::piped()).output().await;
        let output = output.map_err(|error| file(&self.program, error))?;
        let log = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let left = std::fs::read_dir(folder.join("tmp")).map_err(|error| file(&folder, error))?.count();
        if left > 0 {
            return Err(Error::Wrong(format!("{}: {left} files were left behind", cell.name)));
        }
        let text = std::fs::read_to_string(&report).map_err(|error| file(&report, error))?;
        let said: Value =
            serde_json::from_str(&text).map_err(|error| Error::Wrong(format!("{text}: {error}")))?;
        let reason = said["reason"].as_str().map(str::to_owned);
        if (said["outcome"] == "succeeded") != (output.status.success() && reason.is_none()) {
            return Err(Error::Wrong(format!("{}: {} with the report {text}", cell.name, output.status)));
        }
        Ok(Outcome { reason, report: text, log })
    }
}

fn payload(mut helm: Value, values: &Value) -> Value {
    if let Some(git) = helm.get_mut("git").and_then(Value::as_object_mut) {
        git.entry("ref").or_insert_with(|| json!("main"));
    }
    json!({
        "OwnerUID": "00000000-0000-0000-0000-000000000000", "Namespace": "petri-env-00000000",
        "ReleaseName": "env-app", "Serial": 1,
        "Component": {"name": "app", "helm": helm, "values": values},
    })
}

/// A helm that renders where it is told to install: the chart is its last argument.
fn renders(helm: &Path) -> String {
    let helm = helm.display();
    format!(
        "#!/bin/sh\nif [ \"$1\" != install ]; then exec '{helm}' \"$@\"; fi\nfor chart; do :; done\n\
         '{helm}' template release \"$chart\" >/dev/null && echo '{{\"version\":1,\"manifest\":\"\"}}'\n"
    )
}

/// The API server: there are no records of any release, and every inventory is taken.
fn no_release() -> Router {
    let json =
        |body: Bytes| -> Response { ([(header::CONTENT_TYPE, "application/json")], body).into_response() };
    let none =
        br#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}"#;
    Router::new()
        .route(
            "/api/v1/namespaces/{namespace}/secrets",
            get(move || async move { json(Bytes::from_static(none)) }),
        )
        .route(
            "/api/v1/namespaces/{namespace}/configmaps/{name}",
            patch(move |body: Bytes| async move { json(body) }),
        )
}

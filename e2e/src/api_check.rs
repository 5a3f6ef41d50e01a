//! schemathesis against petri-apiserver: its description against what it does, with a real cluster behind it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use petri_crds::{EphemeralEnvironment, meta::ANNOTATION_RETRY};
use serde_json::json;
use tokio::process::Command;

use crate::gateway::Gateway;
use crate::lab::{Lab, Options, Progress, cache_root};
use crate::load;
use crate::petri::{Error, MANAGEMENT, checkout};

/// From PyPI, into a folder of its own in the cache.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const LAB: &str = "petri-api-check";
const TOKEN: &str = "token-of-this-check-only";
/// What schemathesis is told unless something else is asked for, and what must come of it.
/// One worker: Python 3.11 loses count of its own recursion when two threads compile at once.
const EXAMPLES: [&str; 4] = ["--max-examples", "1500", "--workers", "1"];
const REQUESTS_MIN: u64 = 10_000;

/// Boots a cluster with the custom resources only, serves the API on loopback and lets schemathesis ask; returns
/// whether all that it asked was answered as described. `arguments` go to schemathesis.
///
/// # Errors
/// Something does not start.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run(arguments: &[String]) -> BoxFuture<'_, Result<bool, Error>> {
    Box::pin(async move {
        let progress = Progress::new();
        let schemathesis = schemathesis(&progress).await?;
        let _ = Lab::down_named(LAB).await;
        let lab = Lab::up(Options::new(LAB)).await?;
        lab.kubectl(&["create", "namespace", MANAGEMENT]).await?;
        let crds = checkout().join("crds/yaml").display().to_string();
        lab.kubectl(&["apply", "--server-side", "-f", &crds]).await?;
        lab.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).await?;
        let variables =
            [("AUTH_MODE", "static-token"), ("STATIC_TOKEN_ALLOWED", "true"), ("STATIC_TOKEN", TOKEN)];
        let server = Gateway::start(&lab, &progress, &variables).await?;
        let settling = tokio::spawn(settle(lab.client()));
        let mut ask = Command::new(schemathesis);
        ask.arg("--config-file").arg(checkout().join("e2e/schemathesis.toml"));
        ask.args([
            "run",
            &format!("{}/openapi.json", server.url()),
            "--checks",
            "all",
            "--continue-on-failure",
        ]);
        ask.args(["--header", &format!("Authorization: Bearer {TOKEN}"), "--warnings", "off"]);
        ask.args(["--request-timeout", "30"]);
        if arguments.is_empty() {
            ask.args(EXAMPLES)
        } else {
            ask.args(arguments)
        };
        ask.current_dir(std::env::temp_dir()).kill_on_drop(true);
        let ended = ask.status().await.map_err(|source| file("schemathesis", source));
        let counted = counted(&server).await;
        settling.abort();
        let down = lab.down().await;
        let held = ended?.success();
        down?;
        let requests: u64 = counted?.values().sum();
        println!("{requests} requests were answered");
        Ok(held && (requests >= REQUESTS_MIN || !arguments.is_empty()))
    })
}

/// Says of every environment at once that it is Ready: nothing is deployed here, and a watch is to end some time.
async fn settle(client: kube::Client) {
    let api: Api<EphemeralEnvironment> = Api::namespaced(client, MANAGEMENT);
    let mut said = BTreeMap::new();
    let mut changes =
        watcher(api.clone(), watcher::Config::default()).default_backoff().applied_objects().boxed();
    while let Some(change) = changes.next().await {
        let Ok(environment) = change else { continue };
        let name = environment.metadata.name.unwrap_or_default();
        let retry = environment.metadata.annotations.and_then(|all| all.get(ANNOTATION_RETRY).cloned());
        let about = (environment.metadata.uid, environment.metadata.generation, retry.clone());
        if said.get(&name) == Some(&about) {
            continue;
        }
        let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"phase": "Ready", "observedGeneration": about.1, "expiresAt": "2026-01-01T00:00:00Z",
            "conditions": [ready], "machine": {"retry": retry}});
        let patch = Patch::Merge(json!({ "status": status }));
        // One that is gone meanwhile needs no status.
        let _ = api.patch_status(&name, &PatchParams::default(), &patch).await;
        said.insert(name, about);
    }
}

/// Returns how many requests the server has answered, by the line of its metrics.
async fn counted(server: &Gateway) -> Result<BTreeMap<String, u64>, Error> {
    let request = http::Request::get("/metrics").body(Vec::new());
    let request = request.map_err(|error| Error::Wrong(error.to_string()))?;
    let text = load::client(&server.metrics_url(), "none")?.request_text(request).await?;
    let lines = text.lines().filter(|line| line.starts_with("petri_http_requests_total{"));
    Ok(lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(l, n)| (l.to_owned(), n.parse().unwrap_or(0)))
        .collect())
}

fn file(path: &str, source: std::io::Error) -> Error {
    Error::File { path: path.into(), source }
}

async fn schemathesis(progress: &Progress) -> Result<PathBuf, Error> {
    let folder = cache_root().join(SCHEMATHESIS.replace("==", "-"));
    let program = folder.join("bin/schemathesis");
    if program.exists() {
        return Ok(program);
    }
    progress.step(format!("installing {SCHEMATHESIS}"));
    finished(Command::new("python3").args(["-m", "venv"]).arg(&folder)).await?;
    finished(Command::new(folder.join("bin/pip")).args(["install", "--quiet", SCHEMATHESIS])).await?;
    Ok(program)
}

async fn finished(command: &mut Command) -> Result<(), Error> {
    let shown = format!("{:?}", command.as_std());
    let output = command.output().await.map_err(|source| file(&shown, source))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Program { program: shown, said: String::from_utf8_lossy(&output.stderr).into_owned() })
}

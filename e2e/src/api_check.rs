//! schemathesis against petri-apiserver: its description against what it does, with a real cluster behind it.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::lab::{Lab, Options, Progress, cache_root, image};
use crate::petri::{Error, MANAGEMENT, checkout};

/// From PyPI, into a folder of its own in the cache.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const LAB: &str = "petri-api-check";
const TOKEN: &str = "token-of-this-check-only";

/// Boots a cluster with the custom resources only, serves the API on loopback and lets schemathesis ask; returns
/// whether all that it asked was answered as described. `arguments` go to schemathesis.
///
/// # Errors
/// Something does not start.
pub async fn run(arguments: &[String]) -> Result<bool, Error> {
    let progress = Progress::new();
    let schemathesis = schemathesis(&progress).await?;
    let server = image::program("petri-apiserver", &progress).await?;
    let _ = Lab::down_named(LAB).await;
    let lab = Lab::up(Options::new(LAB)).await?;
    lab.kubectl(&["create", "namespace", MANAGEMENT]).await?;
    let crds = checkout().join("crds/yaml").display().to_string();
    lab.kubectl(&["apply", "--server-side", "-f", &crds]).await?;
    lab.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"]).await?;
    progress.clear();
    let (address, metrics) = (free()?, free()?);
    let _server = serve(&lab, &server, address, metrics).await?;
    let mut ask = Command::new(schemathesis);
    ask.arg("--config-file").arg(checkout().join("e2e/schemathesis.toml"));
    ask.args(["run", &format!("http://{address}/openapi.json"), "--checks", "all", "--continue-on-failure"]);
    ask.args(["--header", &format!("Authorization: Bearer {TOKEN}"), "--warnings", "off"]);
    // Nothing becomes ready without an operator, so a watch would never end.
    ask.args(["--exclude-operation-id", "watchEnvironment"]).args(arguments);
    ask.current_dir(std::env::temp_dir()).kill_on_drop(true);
    let ended = ask.status().await.map_err(|source| file("schemathesis", source));
    let down = lab.down().await;
    let held = ended?.success();
    down?;
    Ok(held)
}

fn file(path: &str, source: std::io::Error) -> Error {
    Error::File { path: path.into(), source }
}

/// A port that nobody has now.
fn free() -> Result<SocketAddr, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|source| file("loopback", source))?;
    listener.local_addr().map_err(|source| file("loopback", source))
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

async fn serve(
    lab: &Lab,
    program: &PathBuf,
    address: SocketAddr,
    metrics: SocketAddr,
) -> Result<Child, Error> {
    let log = std::fs::File::create(lab.logs().join("petri-apiserver.log"))
        .map_err(|source| file("petri-apiserver.log", source))?;
    let server = Command::new(program)
        .env("KUBECONFIG", lab.kubeconfig())
        .env("PETRI_APISERVER_NAMESPACE", MANAGEMENT)
        .env("PETRI_APISERVER_ADDRESS", address.to_string())
        .env("PETRI_APISERVER_METRICS_ADDRESS", metrics.to_string())
        .env("PETRI_APISERVER_AUTH_MODE", "static-token")
        .env("PETRI_APISERVER_STATIC_TOKEN_ALLOWED", "true")
        .env("PETRI_APISERVER_STATIC_TOKEN", TOKEN)
        .stdout(Stdio::from(log))
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| file("petri-apiserver", source))?;
    for _ in 0..100 {
        if TcpStream::connect(address).await.is_ok() {
            return Ok(server);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(Error::Wrong("petri-apiserver does not listen".to_owned()))
}

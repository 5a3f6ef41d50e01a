//! This workspace's programs, built by cargo and stripped.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::layer::Layer;
use crate::lab::command::{command, run};
use crate::lab::progress::Progress;
use crate::lab::{LabError, blocking, cache};

/// After this time no lab uses the layer of an older build.
const LAYER_UNUSED: Duration = Duration::from_secs(24 * 60 * 60);
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Cargo profile of the programs in the images: `PETRI_LAB_PROFILE`, else `release`.
pub fn profile() -> String {
    std::env::var("PETRI_LAB_PROFILE")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "release".into())
}

/// Builds the programs that go into images with the profile `profile`; the folder they are in.
pub async fn build(profile: &str, progress: &Progress) -> Result<PathBuf, LabError> {
    progress.step(format!("building petri's programs (profile {profile})"));
    let mut build = cargo();
    build.args(["build", "--quiet", "--profile", profile, "--package", "petri", "--package", "petri-e2e"]);
    for program in ["petri-operator", "petri-deployer", "petri-apiserver", "kubectl-petri", "petri-workload"]
    {
        build.args(["--bin", program]);
    }
    run(&mut build).await?;
    folder(profile).await
}

/// Returns the folder in which cargo puts programs of the profile `profile`.
pub async fn folder(profile: &str) -> Result<PathBuf, LabError> {
    let output = run(cargo().args(["metadata", "--no-deps", "--format-version", "1"])).await?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(std::io::Error::from)?;
    let target = PathBuf::from(metadata["target_directory"].as_str().unwrap_or("target"));
    Ok(target.join(if profile == "dev" { "debug" } else { profile }))
}

/// Builds the programs, or finds that they are built, and returns where the program `name` is.
pub async fn program(name: &str, progress: &Progress) -> Result<PathBuf, LabError> {
    Ok(build(&profile(), progress).await?.join(name))
}

/// Layer with the program `name` of `folder` at `/usr/local/bin`; made anew only when cargo has written it anew.
pub async fn layer(name: &'static str, folder: &Path) -> Result<Layer, LabError> {
    let program = folder.join(name);
    let about = std::fs::metadata(&program)?;
    let written = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let key = format!("{name}-{}-{}", written.as_nanos(), about.len());
    let stripped = cache::root().join("layers").join(format!(".{key}.{}.stripped", std::process::id()));
    let known = cache::root().join("layers").join(format!("{key}.json")).exists();
    if !known {
        cache::prune(&cache::root().join("layers"), &format!("{name}-"), LAYER_UNUSED);
        run(command("strip").arg("-o").arg(&stripped).arg(&program)).await?;
    }
    let from = stripped.clone();
    let path = format!("usr/local/bin/{name}");
    let layer = blocking(move || Layer::cached(&key, |tree| Ok(tree.copy(&path, 0o755, &from)?))).await;
    let _ = std::fs::remove_file(&stripped);
    layer
}

/// Cargo, in this checkout.
pub fn cargo() -> tokio::process::Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(WORKSPACE);
    cargo
}

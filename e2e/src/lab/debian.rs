//! Installs the Debian packages the lab needs on the machine, only those that are missing.

use std::path::{Path, PathBuf};

use super::command::{command, run};
use super::progress::Progress;
use super::{LabError, cache, lock, pins};

/// Makes sure that every package of [`pins::HOST_PACKAGES`] is there.
pub async fn install(progress: &Progress) -> Result<(), LabError> {
    if missing().is_empty() {
        return Ok(());
    }
    let _lock = lock("debian-packages", progress).await?;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    progress.step(format!("installing Debian packages: {}", missing.join(" ")));
    run(apt().arg("update")).await?;
    run(apt().args(["install", "--yes", "--no-install-recommends"]).args(&missing)).await?;
    Ok(())
}

/// Gives the folder with what these packages hold, extracted and not installed: that would start servers on this
/// machine. Built under the first one's name.
pub async fn extracted(packages: &[&str], progress: &Progress) -> Result<PathBuf, LabError> {
    let name = packages.first().copied().unwrap_or_default();
    let folder = cache::root().join("debian").join(name);
    let whole = folder.join(".whole");
    let _lock = lock(&format!("debian-{name}"), progress).await?;
    if whole.exists() {
        return Ok(folder);
    }
    progress.step(format!("getting {name}"));
    std::fs::create_dir_all(&folder)?;
    run(apt().arg("update")).await?;
    run(apt().arg("download").args(packages).current_dir(&folder)).await?;
    for entry in std::fs::read_dir(&folder)?.flatten() {
        if entry.path().extension().is_some_and(|end| end == "deb") {
            run(command("dpkg-deb").arg("--extract").arg(entry.path()).arg(&folder)).await?;
        }
    }
    std::fs::write(whole, "")?;
    Ok(folder)
}

/// Gives Prometheus' tool for rules.
pub async fn promtool(progress: &Progress) -> Result<PathBuf, LabError> {
    Ok(extracted(&["prometheus"], progress).await?.join("usr/bin/promtool"))
}

fn missing() -> Vec<&'static str> {
    let there = |path: &str| Path::new(path).exists();
    pins::HOST_PACKAGES.iter().filter(|(_, path)| !there(path)).map(|(package, _)| *package).collect()
}

fn apt() -> tokio::process::Command {
    let mut apt = command("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o", "DPkg::Lock::Timeout=300"]);
    apt
}

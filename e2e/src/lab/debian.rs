//! Installs the Debian packages the lab needs on the machine, only those that are missing.

use std::path::Path;

use super::command::{command, run};
use super::progress::Progress;
use super::{LabError, lock, pins};

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

fn missing() -> Vec<&'static str> {
    let there = |path: &str| Path::new(path).exists();
    pins::HOST_PACKAGES.iter().filter(|(_, path)| !there(path)).map(|(package, _)| *package).collect()
}

fn apt() -> tokio::process::Command {
    let mut apt = command("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "-o", "DPkg::Lock::Timeout=300"]);
    apt
}

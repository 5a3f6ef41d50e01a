//! libFuzzer against how petri-apiserver reads what it is sent; the targets are in `e2e/fuzz`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::lab::image;
use crate::petri::{Error, checkout};

/// The fuzz targets.
pub const TARGETS: [&str; 3] = ["token", "claims", "body"];
/// Longer than any token that is read to its end.
const INPUT_MAX: &str = "-max_len=20000";
/// One input may take this many seconds, and this many megabytes.
const BOUNDS: [&str; 2] = ["-timeout=5", "-rss_limit_mb=1024"];

/// Builds the targets and runs them for `time` each, all or one; fails when one breaks. With `keep` the corpus takes
/// in what reached something new.
///
/// # Errors
/// A target does not build, or an input breaks it.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run(only: Option<&str>, time: Duration, keep: bool) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        let programs = build().await?;
        for target in TARGETS.into_iter().filter(|target| only.is_none_or(|only| only == *target)) {
            let program = programs.join(target);
            let corpus = checkout().join("e2e/fuzz/corpus").join(target);
            let found = programs.join("fuzz").join(target);
            std::fs::create_dir_all(&found).map_err(|source| Error::File { path: found.clone(), source })?;
            let time = format!("-max_total_time={}", time.as_secs());
            // A first folder takes what is new.
            let artifacts = format!("-artifact_prefix={}/broken-", found.display());
            let mut command = Command::new(&program);
            command.args([time.as_str(), INPUT_MAX, artifacts.as_str(), "-print_final_stats=1"]).args(BOUNDS);
            finished(command.arg(&found).arg(&corpus), target, &["stat::number_of_executed_units", "DONE"])
                .await?;
            if keep {
                let mut merge = Command::new(&program);
                // By branches alone: by counts of them thousands of inputs would be new.
                merge.args(["-merge=1", "-use_counters=0", INPUT_MAX]).arg(&corpus).arg(&found);
                finished(&mut merge, target, &["new files"]).await?;
            }
        }
        Ok(())
    })
}

/// Builds the targets with this workspace's crates instrumented, and returns the folder that they are in. Profile and
/// packages are those of the images, so that both share the dependencies.
async fn build() -> Result<PathBuf, Error> {
    let profile = image::profile();
    let mut build = image::cargo();
    build.args(["build", "--quiet", "--profile", &profile]);
    for package in ["petri", "petri-e2e", "petri-fuzz"] {
        build.args(["--package", package]);
    }
    for target in TARGETS {
        build.args(["--bin", target]);
    }
    build.env("RUSTC_WORKSPACE_WRAPPER", checkout().join("e2e/fuzz/instrument.sh"));
    let built = build.status().await.map_err(|source| Error::File { path: "cargo".into(), source })?;
    if !built.success() {
        return Err(Error::Wrong("the fuzz targets do not build".to_owned()));
    }
    Ok(image::folder(&profile).await?)
}

/// Runs libFuzzer, shows those of its lines that have one of `words`, and all of them when it fails.
async fn finished(command: &mut Command, target: &str, words: &[&str]) -> Result<(), Error> {
    let failed = |source| Error::File { path: target.into(), source };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = child.spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if words.iter().any(|word| line.contains(word)) {
                println!("{target}: {line}");
            }
            said.push(line);
        }
    }
    if child.wait().await.map_err(failed)?.success() {
        return Ok(());
    }
    let tail = said.iter().rev().take(60).rev().cloned().collect::<Vec<_>>().join("\n");
    Err(Error::Program { program: format!("the fuzz target {target}"), said: tail })
}

//! Fetches a chart from a git repository: one commit, over http(s) only, nothing of it is run.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use petri_machines::reason::FailureReason;
use tokio::process::Command;
use tracing::info;

use super::credentials::Credentials;
use crate::deployer::classify::{Failure, Stage, classify};
use crate::deployer::files;
use crate::deployer::helm::Helm;
use crate::deployer::payload::GitSource;
use crate::deployer::process::{self, ProcessError};

/// A chart directory is small; a tree that is deeper or larger is no chart.
const ENTRIES_MAX: usize = 20_000;

/// Names a checked-out repository and the chart in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkout {
    /// Root of the repository.
    pub root: PathBuf,
    /// Directory of the chart.
    pub chart: PathBuf,
}

/// Fetches `ref`, or `fallbackRef` when the repository has no such ref.
///
/// # Errors
/// The repository is not there, refuses or cannot be reached; it has neither ref; it has no such directory.
pub async fn fetch(
    source: &GitSource,
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<Checkout, Failure> {
    check_url(&source.repo)?;
    let root = work.join("repository");
    files::fresh_directory(&root)?;
    let git = Git { root: &root, environment: environment(credentials, work), helm };
    git.run(&["init", "--quiet", "."]).await?;
    let first = git.fetch(&source.repo, &source.reference).await;
    match first {
        Err(failure)
            if failure.reason == FailureReason::ChartVersionNotFound
                && source.fallback_ref != source.reference =>
        {
            info!(message = "the ref is not there, its fallback is taken", fallback = source.fallback_ref);
            git.fetch(&source.repo, &source.fallback_ref).await?;
        }
        other => other?,
    }
    git.run(&["checkout", "--quiet", "--detach", "FETCH_HEAD"]).await?;
    // Helm would put it into the release if the chart is the repository's root.
    fs::remove_dir_all(root.join(".git")).map_err(|error| invalid(&format!("no .git: {error}")))?;
    chart_in(&root, &source.path)
}

struct Git<'a> {
    root: &'a Path,
    environment: Vec<(OsString, OsString)>,
    helm: &'a Helm,
}

impl Git<'_> {
    async fn fetch(&self, url: &str, reference: &str) -> Result<(), Failure> {
        check_ref(reference)?;
        let fixed = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--"];
        self.run(&[&fixed[..], &[url, reference]].concat()).await
    }

    async fn run(&self, arguments: &[&str]) -> Result<(), Failure> {
        let what = format!("git {}", arguments.first().unwrap_or(&""));
        info!(message = what);
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.root).env_clear();
        command.envs(self.helm.inherited()).envs(self.environment.iter().map(|(name, value)| (name, value)));
        let output = process::run(&mut command, self.helm.limits()).await.map_err(|error| match error {
            ProcessError::Ended { ended, .. } => Failure::ended(ended, &what),
            ProcessError::Start { .. } => Failure::new(FailureReason::HelmFailed, error.to_string()),
        })?;
        if output.status.success() {
            return Ok(());
        }
        let text = output.stderr.trim();
        Err(Failure::new(classify(Stage::Source, text), self.helm.masked(text)).during(&what))
    }
}

/// No file of the machine or of the user configures this git, it asks nobody, and it speaks http(s) only.
fn environment(credentials: &Credentials, work: &Path) -> Vec<(OsString, OsString)> {
    let mut settings: Vec<(&str, OsString)> = vec![
        ("protocol.allow", "never".into()),
        ("protocol.http.allow", "always".into()),
        ("protocol.https.allow", "always".into()),
        ("core.hooksPath", "/dev/null".into()),
        ("core.symlinks", "true".into()),
        ("http.lowSpeedLimit", "1000".into()),
        ("http.lowSpeedTime", "30".into()),
    ];
    if let Some(authorization) = credentials.authorization() {
        settings.push(("http.extraHeader", format!("Authorization: Basic {authorization}").into()));
        // A redirect would carry the login to another host.
        settings.push(("http.followRedirects", "false".into()));
    }
    if let Some(path) = credentials.ca_file() {
        settings.push(("http.sslCAInfo", path.as_os_str().to_owned()));
    }
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("HOME".into(), work.as_os_str().to_owned()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()),
        ("LC_ALL".into(), "C".into()),
    ];
    for (index, (key, value)) in settings.into_iter().enumerate() {
        environment.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        environment.push((format!("GIT_CONFIG_VALUE_{index}").into(), value));
    }
    environment
}

fn check_url(url: &str) -> Result<(), Failure> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split('/').next());
    match host {
        Some(host) if !host.is_empty() && !host.contains('@') => Ok(()),
        _ => Err(invalid("git.repo has to be an http or https URL without a login in it")),
    }
}

/// What git would read as a pattern, a refspec or a revision expression is no ref's name.
fn check_ref(reference: &str) -> Result<(), Failure> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || "+:^~?*[\\@{".contains(c);
    if reference.is_empty()
        || reference.starts_with('-')
        || reference.contains("..")
        || reference.contains(bad)
    {
        return Err(invalid(&format!("git.ref {reference:?} is no name of a ref")));
    }
    Ok(())
}

/// Finds the chart and makes sure that none of its links leads out of the repository, for helm follows them.
fn chart_in(root: &Path, path: &str) -> Result<Checkout, Failure> {
    let root = fs::canonicalize(root).map_err(|error| invalid(&error.to_string()))?;
    let missing =
        || Failure::new(FailureReason::ChartNotFound, format!("the repository has no directory {path:?}"));
    let chart = fs::canonicalize(root.join(path.trim_start_matches('/'))).map_err(|_| missing())?;
    if !chart.starts_with(&root) || !chart.is_dir() {
        return Err(missing());
    }
    let mut open = vec![chart.clone()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        let entries = fs::read_dir(&directory).map_err(|error| invalid(&error.to_string()))?;
        for entry in entries.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return Err(invalid("the chart has too many files"));
            }
            let kind = entry.file_type().map_err(|error| invalid(&error.to_string()))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_symlink() {
                let target = fs::canonicalize(entry.path()).ok();
                if target.is_none_or(|target| !target.starts_with(&root)) {
                    let name = entry.file_name();
                    return Err(invalid(&format!("the link {name:?} leads out of the repository")));
                }
            }
        }
    }
    Ok(Checkout { root, chart })
}

fn invalid(message: &str) -> Failure {
    Failure::new(FailureReason::ChartInvalid, message)
}

#[cfg(test)]
mod tests;

//! Fetches a chart from a git repository: one commit, over http(s) or ssh only, nothing of it is run.

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
use crate::deployer::payload::{GitSource, Transport};
use crate::deployer::process::{self, ProcessError};

mod ssh;

/// A chart directory is small; a tree that is deeper or larger is no chart.
const ENTRIES_MAX: usize = 20_000;
/// Git abbreviates a commit to seven digits at least; a shorter word is a name that somebody gave.
const SHORT_COMMIT_MIN: usize = 7;
const COMMIT: [usize; 2] = [40, 64];

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
    let transport = Transport::of(&source.repo).ok_or_else(|| invalid(Transport::RULE))?;
    let root = work.join("repository");
    files::fresh_directory(&root)?;
    let git = Git { root: &root, environment: environment(transport, credentials, work)?, helm };
    git.run(&["init", "--quiet", "."]).await?;
    let first = git.take(&source.repo, &source.reference).await;
    let commit = match first {
        Err(failure)
            if failure.reason == FailureReason::ChartVersionNotFound
                && source.fallback_ref != source.reference =>
        {
            info!(message = "the ref is not there, its fallback is taken", fallback = source.fallback_ref);
            git.take(&source.repo, &source.fallback_ref).await?
        }
        other => other?,
    };
    git.run(&["checkout", "--quiet", "--detach", &commit]).await?;
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
    /// Fetches what the name stands for and gives what to check out.
    async fn take(&self, url: &str, reference: &str) -> Result<String, Failure> {
        check_ref(reference)?;
        let failure = match self.fetch(&["--depth=1", "--"], url, &[reference]).await {
            Ok(()) => return Ok("FETCH_HEAD".to_owned()),
            Err(failure) => failure,
        };
        // An old protocol, as plain sshd speaks it, gives commits by name only at the tips.
        let refused = failure.message.contains("unadvertised object");
        let missing = failure.reason == FailureReason::ChartVersionNotFound;
        if !(missing && is_commit(reference) && (refused || is_short(reference))) {
            return Err(failure);
        }
        info!(message = "all branches are fetched to find the commit", reference);
        let all = ["+refs/heads/*:refs/petri/heads/*", "+refs/tags/*:refs/petri/tags/*"];
        self.fetch(&["--"], url, &all).await?;
        let commit = format!("{reference}^{{commit}}");
        let found = self.run(&["rev-parse", "--verify", "--end-of-options", &commit]).await;
        found.map(|found| found.trim().to_owned()).map_err(|other| match other.reason {
            FailureReason::JobDeadline => other,
            _ => failure.during(&format!("{reference} is no commit of any branch or tag")),
        })
    }

    async fn fetch(&self, how: &[&str], url: &str, references: &[&str]) -> Result<(), Failure> {
        let fixed = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"];
        self.run(&[&fixed[..], how, &[url], references].concat()).await.map(drop)
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
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
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let text = output.stderr.trim();
        Err(Failure::new(classify(Stage::Source, text), self.helm.masked(text)).during(&what))
    }
}

/// No file of the machine or of the user configures this git, it asks nobody, and it speaks one protocol only.
fn environment(
    transport: Transport,
    credentials: &Credentials,
    work: &Path,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut settings: Vec<(&str, OsString)> = vec![
        ("protocol.allow", "never".into()),
        ("core.hooksPath", "/dev/null".into()),
        ("core.symlinks", "true".into()),
        ("http.lowSpeedLimit", "1000".into()),
        ("http.lowSpeedTime", "30".into()),
    ];
    settings.extend(protocols(transport).iter().map(|name| (*name, "always".into())));
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
    if transport == Transport::Ssh {
        environment.extend(ssh::environment(credentials, work)?);
    }
    Ok(environment)
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
    links_stay(&chart, &root)?;
    Ok(Checkout { root, chart })
}

/// Makes sure that a folder is of bounded size and that none of its links leads out of `root`.
///
/// # Errors
/// It is not so.
pub fn links_stay(folder: &Path, root: &Path) -> Result<(), Failure> {
    let mut open = vec![folder.to_owned()];
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
                if target.is_none_or(|target| !target.starts_with(root)) {
                    let name = entry.file_name();
                    return Err(invalid(&format!("the link {name:?} leads out of the repository")));
                }
            }
        }
    }
    Ok(())
}

/// Says whether the word can be a commit's name, whole or shortened.
fn is_commit(word: &str) -> bool {
    (SHORT_COMMIT_MIN..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_short(word: &str) -> bool {
    !COMMIT.contains(&word.len())
}

const fn protocols(transport: Transport) -> &'static [&'static str] {
    match transport {
        Transport::Http => &["protocol.http.allow", "protocol.https.allow"],
        Transport::Ssh => &["protocol.ssh.allow"],
    }
}

fn invalid(message: &str) -> Failure {
    Failure::new(FailureReason::ChartInvalid, message)
}

#[cfg(test)]
mod tests;

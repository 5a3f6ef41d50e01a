//! Gets the chart: from this file system, a chart repository, an OCI registry or a git repository.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use backon::{ExponentialBuilder, Retryable};
use petri_machines::reason::FailureReason;
use tracing::warn;

use super::classify::Failure;
use super::files;
use super::helm::Helm;
use super::payload::{ChartSource, HelmSource};

pub mod credentials;
mod dependencies;
pub mod git;

use credentials::Credentials;

/// One second, doubled four times: what a registry asks for when it answers 429 is of this order.
const RETRIES_MAX: usize = 5;

/// Names what helm is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    /// The chart: a directory or an archive.
    pub path: PathBuf,
    /// A copy of the values file inside the chart source.
    pub values_file: Option<PathBuf>,
}

/// Gets the chart into `work`, unless it is on this file system.
///
/// # Errors
/// The source is not there, refuses, cannot be reached for long enough, or has no such chart or values file.
pub async fn locate(
    source: &HelmSource,
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<Chart, Failure> {
    let chosen = source.chart_source();
    let chosen = chosen.map_err(|error| Failure::new(FailureReason::ChartInvalid, error.to_string()))?;
    // The roots below which a values file and dependencies may stand; the first match counts.
    let (path, roots) = match chosen {
        ChartSource::Path(path) => {
            let path = on_this_file_system(path)?;
            (path.clone(), vec![path])
        }
        ChartSource::Git(git) => {
            let checkout = retry(|| git::fetch(git, credentials, helm, work)).await?;
            (checkout.chart.clone(), vec![checkout.chart, checkout.root])
        }
        ChartSource::Repository { repo, chart, version } => {
            let path = retry(|| from_repository(repo, chart, version, credentials, helm, work)).await;
            let path = match credentials.has_login() {
                // With a list of repositories helm says it itself.
                true => path?,
                false => name_missing(path, &["--repo", repo], chart, credentials, helm).await?,
            };
            (path.clone(), vec![path])
        }
        ChartSource::Oci { chart, version } => {
            let flags: &[&str] = if source.plain_http { &["--plain-http"] } else { &[] };
            let path = retry(|| from_registry(chart, version, flags, credentials, helm, work)).await;
            let path = name_missing(path, flags, chart, credentials, helm).await?;
            (path.clone(), vec![path])
        }
    };
    let values_file = match &source.values_file {
        Some(name) => Some(copy_values_file(name, &roots, work)?),
        None => None,
    };
    let within = match (&source.path, roots.last()) {
        // Charts that lie side by side on a volume are of one source.
        (Some(_), _) => path.parent().unwrap_or(&path),
        (None, Some(root)) => root,
        (None, None) => &path,
    };
    let path = dependencies::complete(path.clone(), within, source, credentials, helm, work).await?;
    Ok(Chart { path, values_file })
}

fn on_this_file_system(path: &str) -> Result<PathBuf, Failure> {
    fs::canonicalize(path).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::PermissionDenied => FailureReason::SourceUnauthorized,
            _ => FailureReason::ChartNotFound,
        };
        Failure::new(reason, format!("no chart at {path}: {error}"))
    })
}

async fn from_repository(
    repo: &str,
    chart: &str,
    version: &str,
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<PathBuf, Failure> {
    let mut arguments = words(&["pull", "--version", version]);
    let reference = if let Some(config) = credentials.repository_config(repo, work)? {
        // A login is read from a file only; helm wants the index of such a repository beforehand.
        let config = OsString::from(config);
        let update =
            ["repo".into(), "update".into(), "--repository-config".into(), config.clone(), "source".into()];
        helm.source(update.to_vec(), "helm repo update").await?;
        arguments.extend(["--repository-config".into(), config]);
        format!("source/{chart}")
    } else {
        arguments.extend(words(&["--repo", repo]));
        chart.to_owned()
    };
    pull(arguments, &reference, credentials, helm, work).await
}

async fn from_registry(
    chart: &str,
    version: Option<&str>,
    flags: &[&str],
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<PathBuf, Failure> {
    let mut arguments = words(&["pull"]);
    arguments.extend(words(flags));
    arguments.extend(version.into_iter().flat_map(|version| words(&["--version", version])));
    pull(arguments, chart, credentials, helm, work).await
}

/// Unpacks the chart into a directory of its own and gives the folder of the chart.
async fn pull(
    mut arguments: Vec<OsString>,
    reference: &str,
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<PathBuf, Failure> {
    let into = work.join("chart");
    files::fresh_directory(&into)?;
    arguments.extend(["--untar".into(), "--untardir".into(), "chart".into()]);
    arguments.extend(["--destination".into(), work.as_os_str().to_owned()]);
    arguments.extend(credentials.tls_arguments());
    arguments.extend(["--".into(), reference.into()]);
    // Helm does not always say which chart it speaks of.
    let name = reference.trim_start_matches("source/");
    let pulled = helm.source(arguments, "helm pull").await;
    pulled.map_err(|error| if error.message.contains(name) { error } else { error.during(name) })?;
    let unpacked = fs::read_dir(&into).ok().into_iter().flatten().flatten().map(|entry| entry.path());
    // For a reference by digest helm leaves an empty folder of that name beside the chart's.
    unpacked.into_iter().find(|path| path.join("Chart.yaml").is_file()).ok_or_else(|| {
        Failure::new(FailureReason::ChartInvalid, format!("the archive of {reference} holds no chart"))
    })
}

/// Helm says the same whether the chart or only its version is missing: any version at all tells them apart.
async fn name_missing(
    result: Result<PathBuf, Failure>,
    flags: &[&str],
    chart: &str,
    credentials: &Credentials,
    helm: &Helm,
) -> Result<PathBuf, Failure> {
    match result {
        Err(failure) if failure.reason == FailureReason::ChartVersionNotFound => {
            let chart = chart.split_once('@').map_or(chart, |(chart, _digest)| chart);
            let mut arguments = words(&["show", "chart", "--version", ">0.0.0-0"]);
            arguments.extend(words(flags));
            arguments.extend(credentials.tls_arguments());
            arguments.extend(["--".into(), chart.into()]);
            let any = helm.source(arguments, "helm show chart").await;
            let reason = if any.is_ok() { failure.reason } else { FailureReason::ChartNotFound };
            Err(Failure { reason, ..failure })
        }
        other => other,
    }
}

/// Asks a source again that did not answer, or said 429 or 5xx.
async fn retry<T, F: Future<Output = Result<T, Failure>>>(call: impl FnMut() -> F) -> Result<T, Failure> {
    let backoff =
        ExponentialBuilder::default().with_factor(2.0).with_jitter().with_max_times(RETRIES_MAX - 1);
    call.retry(backoff)
        .when(|failure| failure.reason == FailureReason::SourceUnreachable)
        .notify(|failure, after| warn!(message = "the chart source is asked again", %failure, ?after))
        .await
}

/// Copies the file, so that helm reads what was checked, under a name without commas (helm splits at them).
fn copy_values_file(name: &str, roots: &[PathBuf], work: &Path) -> Result<PathBuf, Failure> {
    let refuse = |why: &str| Failure::new(FailureReason::ValuesInvalid, format!("valuesFile {name:?} {why}"));
    if Path::new(name).is_absolute() {
        return Err(refuse("is an absolute path"));
    }
    for root in roots {
        let Ok(found) = fs::canonicalize(root.join(name)) else {
            continue;
        };
        if !found.starts_with(root) || !found.is_file() {
            return Err(refuse("is no file inside the chart source"));
        }
        let text = fs::read(&found).map_err(|error| refuse(&format!("cannot be read: {error}")))?;
        return files::write(&work.join("values-of-source.yaml"), &text);
    }
    Err(refuse("is not in the chart source"))
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests;

//! Fetches what a chart depends on and does not bring along, as `helm dependency build` does.
//!
//! A chart says itself where its dependencies are, and whoever writes the chart need not be who owns the
//! credentials: only the host that the chart came from is given the login.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use petri_machines::reason::FailureReason;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use super::credentials::Credentials;
use super::git::links_stay;
use super::retry;
use crate::deployer::classify::Failure;
use crate::deployer::files;
use crate::deployer::helm::Helm;
use crate::deployer::payload::{HelmSource, web};

/// A folder of charts is small; what is deeper or larger is none.
const DEPTH_MAX: usize = 32;

#[derive(Debug, Default, Deserialize)]
struct Manifest {
    #[serde(default)]
    name: String,
    #[serde(default)]
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    name: String,
    #[serde(default)]
    repository: String,
}

/// Gives the chart with all of its dependencies: as it is when it has them, otherwise completed below `work`.
///
/// `within` is the folder that dependencies in neighbouring folders have to lie in.
///
/// # Errors
/// A dependency is of a place that is not allowed, is not there, or cannot be fetched.
pub async fn complete(
    chart: PathBuf,
    within: &Path,
    source: &HelmSource,
    credentials: &Credentials,
    helm: &Helm,
    work: &Path,
) -> Result<PathBuf, Failure> {
    let dependencies = dependencies(&chart);
    let there = vendored(&chart.join("charts"));
    if dependencies.iter().all(|dependency| is_vendored(&dependency.name, &there)) {
        return Ok(chart);
    }
    for dependency in &dependencies {
        check(dependency, &chart, within)?;
    }
    let chart = if chart.starts_with(work) { chart } else { copy_of(&chart, work)? };
    let config = repositories(&dependencies, source, credentials).to_string();
    let config = files::write(&work.join("dependency-repositories.yaml"), config.as_bytes())?;
    let helm = match credentials.ca_file() {
        // Beside the usual authorities: dependencies may come from anywhere.
        Some(own) => helm.clone().with("SSL_CERT_FILE", authorities(own, work)?),
        None => helm.clone(),
    };
    let mut arguments: Vec<OsString> = ["dependency", "build", "--repository-config"].map(Into::into).into();
    arguments.push(config.into());
    arguments.extend(source.plain_http.then(|| "--plain-http".into()));
    arguments.extend(["--".into(), chart.clone().into_os_string()]);
    info!(message = "dependencies are fetched", count = dependencies.len());
    let what = "helm dependency build";
    let built = retry(|| async { helm.source(arguments.clone(), what).await.map(drop) }).await;
    built.map_err(|failure| failure.during("the chart's dependencies"))?;
    Ok(chart)
}

/// What cannot be read has none: helm says more about it when it loads the chart.
fn dependencies(chart: &Path) -> Vec<Dependency> {
    let found = manifest(&chart.join("Chart.yaml")).dependencies;
    // Charts of Helm 2 have a file of their own for it.
    if found.is_empty() { manifest(&chart.join("requirements.yaml")).dependencies } else { found }
}

fn manifest(path: &Path) -> Manifest {
    let text = fs::read_to_string(path).ok();
    text.and_then(|text| serde_saphyr::from_str(&text).ok()).unwrap_or_default()
}

/// The charts that a `charts` folder holds: the names of folders as their Chart.yaml says them, and archives.
fn vendored(charts: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(charts).into_iter().flatten().flatten();
    let name = |path: PathBuf| {
        if path.is_dir() {
            return Some(manifest(&path.join("Chart.yaml")).name);
        }
        path.file_name()?.to_str().map(str::to_owned).filter(|name| name.ends_with(".tgz"))
    };
    entries.filter_map(|entry| name(entry.path())).collect()
}

fn is_vendored(name: &str, there: &BTreeSet<String>) -> bool {
    let archive = |file: &String| {
        let version = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|rest| rest.starts_with(|c: char| c == 'v' || c.is_ascii_digit()))
    };
    there.contains(name) || there.iter().any(archive)
}

/// A dependency is of a web address, of a registry, or of a folder beside the chart.
fn check(dependency: &Dependency, chart: &Path, within: &Path) -> Result<(), Failure> {
    let Dependency { name, repository } = dependency;
    let refuse =
        |why: &str| Failure::new(FailureReason::ChartInvalid, format!("the dependency {name:?} {why}"));
    if repository.is_empty() {
        let there = chart.join("charts").join(name).is_dir();
        return if there { Ok(()) } else { Err(refuse("has no repository and is not in charts/")) };
    }
    if let Some(path) = repository.strip_prefix("file://") {
        let folder =
            fs::canonicalize(chart.join(path)).map_err(|_| refuse("is in a folder that is not there"))?;
        if Path::new(path).is_absolute() || !folder.starts_with(within) {
            return Err(refuse("lies outside of the chart source"));
        }
        return links_stay(&folder, within);
    }
    match repository.strip_prefix("oci://") {
        Some(place) if !place.is_empty() && !place.contains(['@', ' ']) => Ok(()),
        Some(_) => Err(refuse("has no usable repository")),
        None => {
            web("repository", repository).map(drop).map_err(|error| refuse(&format!("is refused: {error}")))
        }
    }
}

/// Helm wants every repository in its list, under any name.
fn repositories(dependencies: &[Dependency], source: &HelmSource, credentials: &Credentials) -> Value {
    let urls: BTreeSet<&str> = dependencies
        .iter()
        .map(|dependency| dependency.repository.as_str())
        .filter(|url| url.starts_with("http"))
        .collect();
    let entry = |(number, url): (usize, &str)| {
        let mut entry = json!({"name": format!("dependency-{number}"), "url": url});
        if source.web().is_some_and(|own| origin(own) == origin(url)) {
            let login = credentials.repository_login();
            let login = login.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
            entry.as_object_mut().into_iter().for_each(|entry| entry.extend(login.clone()));
        }
        entry
    };
    json!({"apiVersion": "v1", "repositories": urls.into_iter().enumerate().map(entry).collect::<Vec<_>>()})
}

/// Scheme, host and port; what a login is given to is equal in all three.
fn origin(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    Some((scheme, rest.split(['/', '?', '#']).next()?))
}

/// One's own authority in front of those of the environment; the system's folder is read anyway.
fn authorities(own: &Path, work: &Path) -> Result<PathBuf, Failure> {
    let mut text = fs::read(own).unwrap_or_default();
    let others = std::env::var_os("SSL_CERT_FILE").and_then(|path| fs::read(path).ok());
    text.push(b'\n');
    text.extend(others.unwrap_or_default());
    files::write(&work.join("authorities.pem"), &text)
}

/// Copies a chart that cannot be written to, beside links to its neighbours, so that `file://../x` is found.
fn copy_of(chart: &Path, work: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureReason::HelmFailed, format!("the chart cannot be copied: {error}"))
    };
    let (Some(parent), Some(name)) = (chart.parent(), chart.file_name()) else {
        return Err(Failure::new(
            FailureReason::ChartInvalid,
            "a chart with dependencies cannot be the root",
        ));
    };
    let beside = work.join("copied");
    files::fresh_directory(&beside)?;
    for neighbour in fs::read_dir(parent).map_err(failed)?.flatten() {
        if neighbour.file_name() != name {
            symlink(neighbour.path(), beside.join(neighbour.file_name())).map_err(failed)?;
        }
    }
    let copy = beside.join(name);
    copy_folder(chart, &copy, DEPTH_MAX).map_err(failed)?;
    Ok(copy)
}

fn copy_folder(from: &Path, to: &Path, depth: usize) -> std::io::Result<()> {
    let depth = depth.checked_sub(1).ok_or_else(|| std::io::Error::other("it is too deep"))?;
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target, depth)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! The images the lab gives its node: made here, without a container engine and without a registry.
//!
//! An image is a list of layers (tar files in the cache, named by what made them) and a configuration;
//! several are written into one OCI archive, so that what they share is in it once.

mod archive;
mod layer;
mod recipe;
mod root;
mod rust;

use std::path::PathBuf;
use std::time::Duration;

use super::cache;
use super::progress::Progress;
use super::{LabError, blocking};
use futures::future::BoxFuture;

pub use layer::Layer;
pub use rust::{cargo, folder, profile, program};

/// Sandbox of every pod.
pub const PAUSE: &str = "docker.io/petri/pause:1";
/// The operator.
pub const OPERATOR: &str = "docker.io/petri/operator:dev";
/// The API server.
pub const APISERVER: &str = "docker.io/petri/apiserver:dev";
/// The deployer with helm, git and the exemplar charts below `/charts`.
pub const DEPLOYER: &str = "docker.io/petri/deployer:dev";
/// The tiny HTTP workload of the exemplar charts.
pub const WORKLOAD: &str = "docker.io/petri/workload:dev";
/// PostgreSQL from Debian's packages, its programs in `/usr/lib/postgresql/15/bin`, user 999.
pub const POSTGRES: &str = "docker.io/petri/postgres:15";

/// Redis from Debian's packages, in the same root as PostgreSQL; user 999.
pub const REDIS: &str = "docker.io/petri/redis:7";

/// After this time nobody is still reading an archive; each holds some 250 MB.
const ARCHIVE_UNUSED: Duration = Duration::from_secs(60 * 60);

/// One image: its layers, lowest first, and how it runs when a pod does not say.
#[derive(Debug, Clone)]
pub struct Image {
    /// Full name with tag. No tag is `latest`, so that pods do not pull by default.
    pub name: &'static str,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// Numeric user and group, `UID:GID`.
    pub user: &'static str,
    /// Search path of programs.
    pub path: &'static str,
}

/// Builds every image but the sandbox's: what changed since the last time, which is the Rust programs.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn build(progress: &Progress) -> BoxFuture<'_, Result<Vec<Image>, LabError>> {
    Box::pin(async move { recipe::all(progress).await })
}

/// Writes `images` into one OCI archive in the cache and returns its path; one of the same content is reused.
pub async fn archive(images: &[Image]) -> Result<PathBuf, LabError> {
    let images = images.to_vec();
    blocking(move || archive_now(&images)).await
}

fn archive_now(images: &[Image]) -> Result<PathBuf, LabError> {
    let contents = archive::Contents::of(images);
    let folder = cache::root().join("images");
    let path = folder.join(format!("{}.tar", contents.digest()));
    // Used again: another lab that makes a new one must not take this one for old.
    if cache::touch(&path).is_err() {
        cache::prune(&folder, "", ARCHIVE_UNUSED);
        cache::publish(&path, |temporary| contents.write(std::fs::File::create(temporary)?))?;
    }
    Ok(path)
}

/// Archive of the sandbox image, which the node needs before its first pod.
pub(super) async fn pause() -> Result<PathBuf, LabError> {
    blocking(|| archive_now(&[recipe::pause()?])).await
}

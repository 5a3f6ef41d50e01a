//! The places that charts come from, on this machine: Debian's registry and sshd, git's own HTTP server, and a chart
//! repository, behind TLS and a login.

pub mod archives;
pub mod cells;
pub mod deployer;
mod git;
mod registry;
mod sshd;
pub mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::process::Command;
use tokio::task::JoinHandle;

use crate::issuer::{self, Tls};
use crate::lab::{self, Progress};
use crate::petri::{Error, checkout};

/// Who may read the charts.
pub const USER: &str = "me";
/// The password of [`USER`].
pub const PASSWORD: &str = "correct horse battery";
/// The version of every chart that is served.
pub const VERSION: &str = "0.1.0";

/// The running servers; they end with this value, and so does their folder.
pub struct Sources {
    /// What was asked of the web server, and by whom.
    pub seen: web::Seen,
    /// The commits of the git repository.
    pub commits: git::Commits,
    folder: Folder,
    address: String,
    port: u16,
    authority: String,
    registry: registry::Registry,
    sshd: sshd::Sshd,
    web: JoinHandle<()>,
}

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.web.abort();
    }
}

impl Sources {
    /// Starts all of them at this address of the machine, each on a port of its own, and fills them.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub async fn start(address: &str, progress: &Progress) -> Result<Self, Error> {
        lab::provide("helm", progress).await?;
        let folder = Folder(std::env::temp_dir().join(format!("petri-sources-{}", std::process::id())));
        make(&folder.0)?;
        lab::certificates(&folder.0, &[address, "localhost"])?;
        let read = |name: &str| {
            let path = folder.0.join(name);
            std::fs::read_to_string(&path).map_err(|error| file(path, error))
        };
        let (authority, tls) =
            (read("ca.crt")?, Tls { certificate: read("server.crt")?, key: read("server.key")? });
        let listener =
            tokio::net::TcpListener::bind((address, 0)).await.map_err(|error| file(address, error))?;
        let port = listener.local_addr().map_err(|error| file(address, error))?.port();
        let files = archives::all(&folder.0.join("archives"), &format!("https://{address}:{port}")).await?;
        let seen = web::Seen::default();
        let served = Arc::new(web::Served { files, git: folder.0.join("git"), seen: seen.clone(), port });
        let router = web::router(served);
        let web = tokio::spawn(async move { issuer::serve(listener, &tls, router).await });
        let registry = registry::Registry::start(address, &folder.0, progress).await?;
        let sshd = sshd::Sshd::start(address, &folder.0, progress).await?;
        let commits = git::Commits::default();
        let mut sources =
            Self { seen, commits, folder, address: address.to_owned(), port, authority, registry, sshd, web };
        sources.fill().await?;
        Ok(sources)
    }

    async fn fill(&mut self) -> Result<(), Error> {
        self.registry.fill(&self.folder.0).await?;
        self.commits = git::fill(&self.folder.0, &self.charts(), &self.repositories()?).await?;
        Ok(())
    }

    /// Returns the URL of the chart repository.
    pub fn charts(&self) -> String {
        self.web("charts")
    }

    /// Returns the URL of a path of the web server.
    pub fn web(&self, path: &str) -> String {
        format!("https://{}:{}/{path}", self.address, self.port)
    }

    /// Returns the URL of the git repository, over HTTP.
    pub fn git(&self) -> String {
        self.web("git/charts.git")
    }

    /// Returns the URL of the git repository, over ssh.
    pub fn ssh(&self) -> String {
        self.sshd.url(&self.folder.0.join("git/charts.git"))
    }

    /// Returns the folder of the registry's charts.
    pub fn oci(&self) -> String {
        format!("oci://{}/charts", self.registry.host)
    }

    /// Returns the digest of the registry's chart.
    pub fn digest(&self) -> &str {
        &self.registry.digest
    }

    /// Returns an address at which nobody listens.
    pub fn nobody(&self) -> String {
        format!("{}:1", self.address)
    }

    /// Returns the Secrets that the cells name, and what each holds.
    pub fn secrets(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, String>> {
        let of = |keys: &[(&'static str, &str)]| -> BTreeMap<&'static str, String> {
            keys.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
        };
        let authority = ("ca.crt", self.authority.as_str());
        let (key, stranger) = (self.sshd.key(), self.sshd.stranger());
        let (known, other) = (self.sshd.known(), self.sshd.other_host());
        let entry = json!({"username": USER, "password": PASSWORD});
        let docker = json!({"auths": {self.registry.host.as_str(): entry}}).to_string();
        BTreeMap::from([
            ("login", of(&[("username", USER), ("password", PASSWORD), authority])),
            ("wrong-login", of(&[("username", USER), ("password", "not it at all"), authority])),
            ("no-login", of(&[authority])),
            ("docker", of(&[(".dockerconfigjson", docker.as_str()), authority])),
            ("ssh", of(&[("ssh-privatekey", key.as_str()), ("known_hosts", known.as_str())])),
            ("ssh-stranger", of(&[("ssh-privatekey", stranger.as_str()), ("known_hosts", known.as_str())])),
            ("ssh-other-host", of(&[("ssh-privatekey", key.as_str()), ("known_hosts", other.as_str())])),
            ("ssh-no-hosts", of(&[("ssh-privatekey", key.as_str())])),
        ])
    }

    /// Returns the texts that must be seen nowhere.
    pub fn hidden(&self) -> Vec<String> {
        let keys = [self.sshd.key(), self.sshd.stranger()];
        let lines = keys.iter().flat_map(|key| key.lines()).filter(|line| !line.starts_with('-'));
        let login = base64(format!("{USER}:{PASSWORD}").as_bytes());
        lines.map(str::to_owned).chain([PASSWORD.to_owned(), "not it at all".to_owned(), login]).collect()
    }

    /// Writes a list of repositories for a helm that may read everything.
    fn repositories(&self) -> Result<PathBuf, Error> {
        let entry = json!({
            "name": "charts", "url": self.charts(), "username": USER, "password": PASSWORD,
            "caFile": self.folder.0.join("ca.crt"),
        });
        let path = self.folder.0.join("repositories.yaml");
        write(&path, json!({"apiVersion": "v1", "repositories": [entry]}).to_string().as_bytes())?;
        Ok(path)
    }
}

fn base64(bytes: &[u8]) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes)
}

fn file(path: impl AsRef<Path>, source: std::io::Error) -> Error {
    Error::File { path: path.as_ref().to_owned(), source }
}

fn make(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|error| file(path, error))
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    std::fs::write(path, content).map_err(|error| file(path, error))
}

/// The folder of an exemplar chart.
fn exemplar(chart: &str) -> PathBuf {
    checkout().join("e2e/charts").join(chart)
}

/// A helm whose files are in `folder` only.
fn helm(folder: &Path) -> Command {
    let mut helm = lab::program("helm");
    for name in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{name}_HOME"), folder.join("helm").join(name));
    }
    helm
}

/// A port of this address that nobody has now.
fn free(address: &str) -> Result<u16, Error> {
    let listener = std::net::TcpListener::bind((address, 0)).map_err(|error| file(address, error))?;
    Ok(listener.local_addr().map_err(|error| file(address, error))?.port())
}

/// Waits until something listens there.
async fn listens(what: &str, address: &str, port: u16) -> Result<(), Error> {
    for _ in 0..200 {
        if tokio::net::TcpStream::connect((address, port)).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    Err(Error::Late { what: what.to_owned(), seconds: 10, last: "nobody listens".to_owned() })
}

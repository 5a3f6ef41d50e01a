//! Debian's OCI registry with TLS and a login.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::process::Child;

use super::{PASSWORD, USER, VERSION, base64, file, free, helm, listens, make, write};
use crate::lab::{Progress, command, extracted, run};
use crate::petri::Error;

/// What `htpasswd -bnBC 5` writes for [`USER`] and [`PASSWORD`].
const LOGIN: &str = "me:$2b$05$abcdefghijklmnopqrstuuD3mHdCr44zlIZ.VZCaYRpfQhXMYnEo.\n";

/// A running registry.
pub struct Registry {
    /// Address and port.
    pub host: String,
    /// Digest of its chart `tiny`.
    pub digest: String,
    data: PathBuf,
    _process: Child,
}

impl Registry {
    /// Starts it; certificate and key are in `folder`.
    pub async fn start(address: &str, folder: &Path, progress: &Progress) -> Result<Self, Error> {
        let program = extracted(&["docker-registry"], progress).await?.join("usr/bin/docker-registry");
        let port = free(address)?;
        let (host, data) = (format!("{address}:{port}"), folder.join("registry"));
        make(&data)?;
        write(&folder.join("htpasswd"), LOGIN.as_bytes())?;
        let config = json!({
            "version": "0.1",
            "log": {"level": "error", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": data}},
            "http": {"addr": host, "tls": {"certificate": folder.join("server.crt"), "key": folder.join("server.key")}},
            "auth": {"htpasswd": {"realm": "charts", "path": folder.join("htpasswd")}},
        });
        let path = folder.join("registry.yaml");
        write(&path, config.to_string().as_bytes())?;
        let mut serve = command(program);
        serve.arg("serve").arg(path).stdout(Stdio::null()).stderr(Stdio::null());
        let process = serve.spawn().map_err(|error| file("docker-registry", error))?;
        listens("the registry", address, port).await?;
        Ok(Self { host, digest: String::new(), data, _process: process })
    }

    /// Pushes the chart `tiny`, and puts beside it what is none.
    pub(super) async fn fill(&mut self, folder: &Path) -> Result<(), Error> {
        let login =
            json!({"auths": {self.host.as_str(): {"auth": base64(format!("{USER}:{PASSWORD}").as_bytes())}}});
        let config = folder.join("registry-login.json");
        write(&config, login.to_string().as_bytes())?;
        let mut push = helm(folder);
        push.arg("push").arg(folder.join("archives").join(format!("tiny-{VERSION}.tgz")));
        push.arg(format!("oci://{}/charts", self.host)).arg("--registry-config").arg(config);
        let said = run(push.arg("--ca-file").arg(folder.join("ca.crt"))).await?;
        let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        let digest = said
            .lines()
            .find_map(|line| line.strip_prefix("Digest: "))
            .map(|digest| digest.trim().to_owned());
        self.digest = digest.ok_or_else(|| Error::Wrong(format!("helm push named no digest: {said}")))?;
        self.artifact("no-chart")
    }

    /// Puts an artifact that is no chart into the registry's own folder, in the registry's own layout.
    fn artifact(&self, name: &str) -> Result<(), Error> {
        let layer = b"hello".as_slice();
        let config = b"{}".as_slice();
        let part = |kind: &str, content: &[u8]| json!({"mediaType": kind, "size": content.len(), "digest": digest(content)});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": part("application/vnd.oci.image.config.v1+json", config),
            "layers": [part("application/vnd.oci.image.layer.v1.tar", layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let root = self.data.join("docker/registry/v2");
        let repository = root.join("repositories/charts").join(name);
        for content in [layer, config, manifest.as_slice()] {
            let digest = digest(content);
            let hex = digest.trim_start_matches("sha256:");
            let blob = root.join("blobs/sha256").join(&hex[..2]).join(hex);
            make(&blob)?;
            write(&blob.join("data"), content)?;
            link(&repository.join("_layers/sha256").join(hex), &digest)?;
        }
        let digest = digest(&manifest);
        let hex = digest.trim_start_matches("sha256:");
        link(&repository.join("_manifests/revisions/sha256").join(hex), &digest)?;
        let tag = repository.join("_manifests/tags").join(VERSION);
        link(&tag.join("current"), &digest)?;
        link(&tag.join("index/sha256").join(hex), &digest)
    }
}

fn link(folder: &Path, digest: &str) -> Result<(), Error> {
    make(folder)?;
    write(&folder.join("link"), digest.as_bytes())
}

fn digest(content: &[u8]) -> String {
    let hex: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

//! OCI archives: what `ctr images import` takes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};

use serde_json::{Value, json};
use tar::{Builder, Header};

use super::layer::sha256;
use super::{Image, Layer};

const MEDIA: &str = "application/vnd.oci.image";

/// What an archive holds: an index, small documents, and layers, each once.
pub struct Contents {
    index: Vec<u8>,
    documents: BTreeMap<String, Vec<u8>>,
    layers: BTreeMap<String, Layer>,
}

impl Contents {
    /// Contents of an archive with these images.
    pub fn of(images: &[Image]) -> Self {
        let mut contents =
            Contents { index: Vec::new(), documents: BTreeMap::new(), layers: BTreeMap::new() };
        let manifests: Vec<Value> = images.iter().map(|image| contents.manifest(image)).collect();
        contents.index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string().into_bytes();
        contents
    }

    /// Names the contents: equal images, equal digest.
    pub fn digest(&self) -> String {
        sha256(&self.index)
    }

    fn manifest(&mut self, image: &Image) -> Value {
        let diff_ids: Vec<_> = image.layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect();
        let run = json!({
            "Entrypoint": image.entrypoint,
            "Env": [format!("PATH={}", image.path)],
            "User": image.user,
        });
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": run,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let layers = image.layers.iter().map(|layer| descriptor("layer.v1.tar", &layer.digest, layer.size));
        let layers: Vec<_> = layers.collect();
        self.layers.extend(image.layers.iter().map(|layer| (layer.digest.clone(), layer.clone())));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": format!("{MEDIA}.manifest.v1+json"),
            "config": self.document("config.v1+json", &config),
            "layers": layers,
        });
        let mut described = self.document("manifest.v1+json", &manifest);
        described["annotations"] = json!({ "io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name });
        described
    }

    fn document(&mut self, kind: &str, value: &Value) -> Value {
        let text = value.to_string().into_bytes();
        let digest = sha256(&text);
        let described = descriptor(kind, &digest, text.len() as u64);
        self.documents.insert(digest, text);
        described
    }

    /// Writes the archive.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut tar = Builder::new(io::BufWriter::with_capacity(1 << 20, out));
        let mut add = |path: &str, size: u64, data: &mut dyn io::Read| {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(size);
            tar.append_data(&mut header, path, data)
        };
        let layout = br#"{"imageLayoutVersion":"1.0.0"}"#;
        add("oci-layout", layout.len() as u64, &mut layout.as_slice())?;
        add("index.json", self.index.len() as u64, &mut self.index.as_slice())?;
        for (digest, text) in &self.documents {
            add(&format!("blobs/sha256/{digest}"), text.len() as u64, &mut text.as_slice())?;
        }
        for (digest, layer) in &self.layers {
            add(&format!("blobs/sha256/{digest}"), layer.size, &mut File::open(&layer.path)?)?;
        }
        tar.into_inner()?.flush()
    }
}

fn descriptor(kind: &str, digest: &str, size: u64) -> Value {
    json!({ "mediaType": format!("{MEDIA}.{kind}"), "digest": format!("sha256:{digest}"), "size": size })
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Files of an archive by their names.
    fn written(images: &[Image]) -> BTreeMap<String, Vec<u8>> {
        let mut bytes = Vec::new();
        Contents::of(images).write(&mut bytes).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut data = Vec::new();
            entry.read_to_end(&mut data).unwrap();
            assert!(files.insert(path.clone(), data).is_none(), "{path} twice");
        }
        files
    }

    fn image(name: &'static str, layers: &[&Layer]) -> Image {
        let layers = layers.iter().map(|layer| (*layer).clone()).collect();
        Image { name, layers, entrypoint: vec!["/bin/x".into()], user: "1:1", path: "/bin" }
    }

    fn layer(contents: &str) -> Layer {
        let key = format!("test-{contents}-{}", std::process::id());
        Layer::cached(&key, |tree| Ok(tree.file("etc/name", 0o644, contents.as_bytes())?)).unwrap()
    }

    fn forget(layer: &Layer) {
        std::fs::remove_file(&layer.path).unwrap();
        std::fs::remove_file(layer.path.with_extension("json")).unwrap();
        let lock = layer.path.with_extension("");
        let lock = format!("layer-{}", lock.file_name().unwrap().to_str().unwrap());
        std::fs::remove_file(crate::lab::cache::root().join("lock").join(lock)).unwrap();
    }

    #[test]
    fn every_blob_is_named_by_its_digest_and_a_shared_layer_is_there_once() {
        let (base, top) = (layer("base"), layer("top"));
        let files =
            written(&[image("docker.io/a/one:1", &[&base]), image("docker.io/a/two:1", &[&base, &top])]);
        let blobs: Vec<_> = files
            .iter()
            .filter_map(|(path, data)| Some((path.strip_prefix("blobs/sha256/")?, data)))
            .collect();
        assert_eq!(blobs.len(), 2 + 2 + 2, "two manifests, two configurations, two layers");
        for (digest, data) in blobs {
            assert_eq!(digest, sha256(data));
        }
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        assert_eq!(index["manifests"][1]["annotations"]["io.containerd.image.name"], "docker.io/a/two:1");
        [base, top].iter().for_each(forget);
    }

    #[test]
    fn a_manifest_leads_to_its_configuration_and_layers() {
        let base = layer("chain");
        let files = written(&[image("docker.io/a/one:1", &[&base])]);
        let blob = |described: &Value| {
            let path = format!("blobs/{}", described["digest"].as_str().unwrap().replace(':', "/"));
            assert_eq!(files[&path].len() as u64, described["size"].as_u64().unwrap());
            files[&path].clone()
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "1:1");
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        assert_eq!(blob(&manifest["layers"][0]), std::fs::read(&base.path).unwrap());
        forget(&base);
    }

    #[test]
    fn equal_contents_have_equal_digests() {
        let (one, other) = (layer("same"), layer("different"));
        let again = Layer::cached(&format!("test-again-{}", std::process::id()), |tree| {
            Ok(tree.file("etc/name", 0o644, b"same")?)
        })
        .unwrap();
        assert_eq!(one.digest, again.digest);
        assert_ne!(one.digest, other.digest);
        [one, other, again].iter().for_each(forget);
    }
}

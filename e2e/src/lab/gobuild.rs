//! Builds the cluster's programs from Go modules, once per machine and version.
//!
//! Each program is built and published on its own, so an interruption costs one program; the Go tool's
//! own cache keeps the packages that program had compiled.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::cache;
use super::command::{command, run};
use super::progress::Progress;
use super::{LabError, lock, pins};

/// How the sources of one release become programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// `go build` in a small module that requires the release and replaces its staging modules.
    Kubernetes,
    /// `go build` in a small module: the release's own replace lines make `go install` refuse it.
    Module(&'static str),
    /// `go install package@version`.
    Install(&'static str),
    /// What this builder writes and compiles out of these modules: receivers, then exporters.
    Assembled {
        builder: &'static str,
        receivers: &'static [&'static str],
        exporters: &'static [&'static str],
    },
}

/// One release and the programs taken from it.
#[derive(Debug, Clone, Copy)]
pub struct Release {
    name: &'static str,
    version: &'static str,
    source: Source,
    programs: &'static [&'static str],
}

const KUBERNETES: Release = Release {
    name: "kubernetes",
    version: pins::KUBERNETES,
    source: Source::Kubernetes,
    // The API server first: it compiles what the others share.
    programs: &[
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubelet",
        "kube-proxy",
        "kubectl",
    ],
};
const ETCD: Release = Release {
    name: "etcd",
    version: pins::ETCD,
    source: Source::Module("go.etcd.io/etcd/server/v3"),
    programs: &["etcd"],
};
const CONTAINERD: Release = Release {
    name: "containerd",
    version: pins::CONTAINERD,
    source: Source::Install("github.com/containerd/containerd/v2/cmd/"),
    programs: &["containerd", "containerd-shim-runc-v2", "ctr"],
};
const COREDNS: Release = Release {
    name: "coredns",
    version: pins::COREDNS,
    source: Source::Install("github.com/coredns/"),
    programs: &["coredns"],
};
const HELM: Release = Release {
    name: "helm",
    version: pins::HELM,
    source: Source::Install("helm.sh/helm/v4/cmd/"),
    programs: &["helm"],
};

const COLLECTOR: Release = Release {
    name: "otelcol",
    version: pins::COLLECTOR,
    source: Source::Assembled {
        builder: "go.opentelemetry.io/collector/cmd/builder",
        receivers: &["go.opentelemetry.io/collector/receiver/otlpreceiver"],
        exporters: &["go.opentelemetry.io/collector/exporter/otlpexporter"],
    },
    programs: &["otelcol"],
};

/// What no cluster needs; built when it is asked for.
const BESIDES: [Release; 1] = [COLLECTOR];

/// Every release the lab is made of, in the order they are built.
pub const RELEASES: [Release; 5] = [KUBERNETES, ETCD, CONTAINERD, COREDNS, HELM];

impl Release {
    fn key(&self) -> String {
        format!("{}-v{}", self.name, self.version)
    }

    /// Folder of the finished programs.
    fn folder(&self) -> PathBuf {
        cache::root().join("bin").join(self.key())
    }

    fn missing(&self) -> Vec<&'static str> {
        self.programs.iter().copied().filter(|program| !self.folder().join(program).exists()).collect()
    }
}

/// Where the program `name` is once [`build`] has ended; the lab builds it if a release has it.
pub fn program(name: &str) -> Option<PathBuf> {
    RELEASES
        .iter()
        .chain(&BESIDES)
        .find(|release| release.programs.contains(&name))
        .map(|release| release.folder().join(name))
}

/// Every folder with finished programs.
pub fn folders() -> Vec<PathBuf> {
    RELEASES.iter().map(Release::folder).collect()
}

/// Builds one program alone, if it is missing.
pub async fn build_one(name: &str, progress: &Progress) -> Result<(), LabError> {
    let found = RELEASES.iter().chain(&BESIDES).find_map(|release| {
        let program = release.programs.iter().find(|program| **program == name)?;
        Some((release, *program))
    });
    let Some((release, program)) = found else { return Ok(()) };
    if release.folder().join(program).exists() {
        return Ok(());
    }
    let _lock = lock(&release.key(), progress).await?;
    progress.step(format!("building {program} v{} (once per machine)", release.version));
    build_program(release, program).await
}

/// Builds what is missing: about 15 minutes on two cold cores, nothing when all is there.
pub async fn build(progress: &Progress) -> Result<(), LabError> {
    let total: usize = RELEASES.iter().map(|release| release.programs.len()).sum();
    for release in RELEASES.iter().filter(|release| !release.missing().is_empty()) {
        let _lock = lock(&release.key(), progress).await?;
        for program in release.missing() {
            let missing: usize = RELEASES.iter().map(|release| release.missing().len()).sum();
            let what = format!("building {program} v{} (once per machine)", release.version);
            progress.step_of(total - missing + 1, total, what);
            build_program(release, program).await?;
        }
    }
    Ok(())
}

async fn build_program(release: &Release, program: &str) -> Result<(), LabError> {
    let path = release.folder().join(program);
    let scratch = release.folder().join(".scratch");
    // Left by a build that was killed; the lock says that nobody uses it.
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch)?;
    let mut go = match release.source {
        Source::Install(prefix) => {
            let mut go = go(&scratch);
            let package = format!("{prefix}{program}@v{}", release.version);
            go.env("GOBIN", &scratch).arg("install").args(["-ldflags", &stamps(release)]).arg(package);
            go
        }
        Source::Assembled { builder, receivers, exporters } => {
            std::fs::write(
                scratch.join("builder.yaml"),
                assembly(release, receivers, exporters).to_string(),
            )?;
            let mut go = go(&scratch);
            go.arg("run").arg(format!("{builder}@v{}", release.version));
            go.args(["--config", "builder.yaml", "--ldflags", &stamps(release)]);
            go
        }
        Source::Kubernetes | Source::Module(_) => {
            let mut go = go(&module(release).await?);
            let package = match release.source {
                Source::Module(package) => package.to_string(),
                _ => format!("k8s.io/kubernetes/cmd/{program}"),
            };
            go.arg("build")
                .args(["-ldflags", &stamps(release)])
                .arg("-o")
                .arg(scratch.join(program))
                .arg(package);
            go
        }
    };
    let built = run(&mut go).await;
    let moved = built.and_then(|_| Ok(std::fs::rename(scratch.join(program), &path)?));
    let _ = std::fs::remove_dir_all(&scratch);
    moved
}

/// What the collector's builder is told: the parts, and to put the program where the others are put.
fn assembly(release: &Release, receivers: &[&str], exporters: &[&str]) -> serde_json::Value {
    let parts = |modules: &[&str]| -> Vec<_> {
        let part = |module: &&str| serde_json::json!({"gomod": format!("{module} v{}", release.version)});
        modules.iter().map(part).collect()
    };
    serde_json::json!({
        "dist": {"name": release.name, "output_path": ".", "version": release.version},
        "receivers": parts(receivers),
        "exporters": parts(exporters),
    })
}

/// Linker flags: small binaries that know their version. Unstamped Kubernetes components call themselves
/// v0.0.0 and refuse to run with each other.
fn stamps(release: &Release) -> String {
    let version = release.version;
    match release.source {
        Source::Kubernetes => {
            let base = "k8s.io/component-base/version";
            format!(
                "-s -w -X {base}.gitVersion=v{version} -X {base}.gitMajor=1 -X {base}.gitMinor={} \
                 -X {base}.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=v{version}",
                pins::kubernetes_minor()
            )
        }
        _ if release.name == "helm" => {
            format!("-s -w -X helm.sh/helm/v4/internal/version.version=v{version}")
        }
        _ => "-s -w".to_string(),
    }
}

/// The small module that requires `release`: a `go.mod` with `tool` lines and no code.
async fn module(release: &Release) -> Result<PathBuf, LabError> {
    let folder = cache::root().join("mod").join(release.key());
    if folder.join("go.sum").exists() {
        return Ok(folder);
    }
    let scratch = cache::temporary_beside(&folder)?;
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch)?;
    let mut text = format!("module petri-lab/{}\n\ngo {}\n", release.name, pins::GO_LANGUAGE);
    let mut tools = Vec::new();
    match release.source {
        Source::Module(package) => tools.push(format!("{package}@v{}", release.version)),
        _ => {
            text.push_str(&format!("\nrequire k8s.io/kubernetes v{}\n", release.version));
            text.push_str(&staging_replacements(&kubernetes_go_mod(&scratch, release.version).await?));
            tools.extend(release.programs.iter().map(|program| format!("k8s.io/kubernetes/cmd/{program}")));
        }
    }
    std::fs::write(scratch.join("go.mod"), text)?;
    run(go(&scratch).args(["get", "-tool"]).args(tools)).await?;
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::rename(&scratch, &folder)?;
    Ok(folder)
}

async fn kubernetes_go_mod(folder: &Path, version: &str) -> Result<String, LabError> {
    Ok(std::fs::read_to_string(download(folder, "k8s.io/kubernetes", version, "GoMod").await?)?)
}

/// Returns the definition of HTTPRoute as the Gateway API publishes it.
pub async fn http_route_definition() -> Result<PathBuf, LabError> {
    let folder = download(&std::env::temp_dir(), "sigs.k8s.io/gateway-api", pins::GATEWAY_API, "Dir").await?;
    Ok(folder.join("config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"))
}

/// Returns the definitions of ServiceMonitor and PrometheusRule as Prometheus' operator publishes them.
pub async fn monitoring_definitions() -> Result<[PathBuf; 2], LabError> {
    let module = "github.com/prometheus-operator/prometheus-operator";
    let folder = download(&std::env::temp_dir(), module, pins::PROMETHEUS_OPERATOR, "Dir").await?;
    let file =
        |plural| folder.join(format!("example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"));
    Ok(["servicemonitors", "prometheusrules"].map(file))
}

/// Fetches a module without building anything of it; `part` is the field of the Go tool's answer that is wanted.
async fn download(folder: &Path, module: &str, version: &str, part: &str) -> Result<PathBuf, LabError> {
    let module = format!("{module}@v{version}");
    let output = run(go(folder).args(["mod", "download", "-json", &module])).await?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(std::io::Error::from)?;
    Ok(PathBuf::from(answer[part].as_str().unwrap_or_default()))
}

/// `k8s.io/kubernetes` requires its staging modules at v0.0.0 and replaces them by folders of its own tree;
/// who consumes it replaces each by the released one.
fn staging_replacements(kubernetes_go_mod: &str) -> String {
    let staging = kubernetes_go_mod.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("replace ");
        line.split_once(" => ./staging/").map(|(module, _)| module)
    });
    let version = pins::kubernetes_staging();
    let lines = staging.map(|module| format!("\t{module} => {module} {version}\n")).collect::<String>();
    format!("\nreplace (\n{lines})\n")
}

fn go(folder: &Path) -> Command {
    let mut go = command("go");
    go.current_dir(folder).env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false");
    go
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_staging_module_is_replaced_by_its_release() {
        let upstream = "replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/cri-api => ./staging/src/k8s.io/cri-api\n)\n\
                        replace example.com/other => example.com/fork v1.0.0\n";
        let version = pins::kubernetes_staging();
        assert_eq!(
            staging_replacements(upstream),
            format!(
                "\nreplace (\n\tk8s.io/api => k8s.io/api {version}\n\tk8s.io/cri-api => k8s.io/cri-api {version}\n)\n"
            )
        );
    }

    #[test]
    fn programs_of_two_versions_never_share_a_folder() {
        let other = Release { version: "0.0.1", ..HELM };
        assert_ne!(other.folder(), HELM.folder());
        assert_eq!(program("helm").unwrap(), HELM.folder().join("helm"));
        assert_eq!(program("docker"), None);
    }

    #[test]
    fn kubernetes_binaries_are_stamped_with_their_version() {
        let stamps = stamps(&KUBERNETES);
        assert!(stamps.contains(&format!("component-base/version.gitVersion=v{}", pins::KUBERNETES)));
        assert!(stamps.contains(&format!("client-go/pkg/version.gitVersion=v{}", pins::KUBERNETES)));
    }
}

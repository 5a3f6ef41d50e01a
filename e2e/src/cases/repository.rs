//! Charts from an HTTP repository inside the cluster, packed and indexed by the real helm.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::bad_input::{cleaned, environment, example, simple_template};
use crate::petri::{Error, Petri, checkout, is_ready, summary};

const REPOSITORY: &str = "http://charts.petri-demo.svc.cluster.local";
const PATIENCE: Duration = Duration::from_secs(120);

/// The exemplar template with its front from the repository; then a version that the repository does not have.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    serve(petri).await?;
    example(petri, "template-repository.yaml").await?;
    petri.apply_object(&petri.environments(), &environment("fetched", "demo-repository", json!({}))).await?;
    petri.until_ready("fetched", PATIENCE).await?;
    let missing = json!({"path": "", "repo": REPOSITORY, "chart": "web", "version": "9.9.9"});
    simple_template(petri, "no-version", missing).await?;
    petri.apply_object(&petri.environments(), &environment("no-version", "no-version", json!({}))).await?;
    let told = |found: &petri_crds::EphemeralEnvironment| {
        !is_ready(found) && summary(found).contains("ChartVersionNotFound")
    };
    let failed = petri.until("no-version", "ChartVersionNotFound", PATIENCE, told).await?;
    for name in ["fetched", "no-version"] {
        petri.delete(name).await?;
    }
    for name in ["fetched", "no-version"] {
        petri.until_gone(name, PATIENCE).await?;
    }
    petri.lab.kubectl(&["delete", "namespace", "petri-demo", "--wait=false"]).await?;
    cleaned(petri).await?;
    Ok(crate::petri::story(&failed).1)
}

/// Packs the exemplar charts and serves them from a pod.
async fn serve(petri: &Petri<'_>) -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("petri-charts-{}", std::process::id()));
    let made = pack(petri, &folder).await;
    let applied = match made {
        Ok(()) => publish(petri, &folder).await,
        Err(error) => Err(error),
    };
    let _ = std::fs::remove_dir_all(&folder);
    applied
}

async fn pack(petri: &Petri<'_>, folder: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_owned(), source })?;
    let folder = folder.display().to_string();
    let chart = checkout().join("e2e/charts/web").display().to_string();
    helm(petri, &["package", &chart, "--destination", &folder]).await?;
    helm(petri, &["repo", "index", &folder, "--url", REPOSITORY]).await
}

async fn helm(petri: &Petri<'_>, arguments: &[&str]) -> Result<(), Error> {
    let output = tokio::process::Command::new(petri.lab.bin("helm")).args(arguments).output().await;
    let output = output.map_err(|source| Error::File { path: "helm".into(), source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::Program { program: format!("helm {}", arguments.join(" ")), said })
}

async fn publish(petri: &Petri<'_>, folder: &Path) -> Result<(), Error> {
    let source = format!("--from-file={}", folder.display());
    petri.lab.kubectl(&["create", "namespace", "petri-demo"]).await?;
    petri.lab.kubectl(&["create", "configmap", "charts", "-n", "petri-demo", &source]).await?;
    petri.apply(&checkout().join("e2e/fixtures/chart-repository.yaml")).await?;
    let wait = ["rollout", "status", "deployment/charts", "-n", "petri-demo", "--timeout=60s"];
    petri.lab.kubectl(&wait).await?;
    Ok(())
}

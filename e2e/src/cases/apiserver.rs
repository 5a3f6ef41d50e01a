//! From a token to an environment and back: a real issuer over TLS, the API server with the rights of its chart, and
//! kubectl-petri as a pipeline runs it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams};
use petri_crds::EnvironmentTemplate;
use serde_json::{Value, json};
use tokio::process::Command;

use super::bad_input::cleaned;
use super::forward::Forward;
use crate::issuer::Tls;
use crate::lab::{Progress, image};
use crate::petri::{Error, MANAGEMENT, Petri, checkout, is_ready, namespace_of};
use crate::traces::Receiver;

const ISSUER: &str = "https://issuer.petri-issuer.svc.cluster.local:8443";
const ISSUER_PROXY: &str = "/api/v1/namespaces/petri-issuer/services/https:issuer:8443/proxy";
const API_PROXY: &str = "/api/v1/namespaces/petri-system/services/petri-apiserver:80/proxy";
/// Unknown keys are looked for once in this time.
const REFRESH: Duration = Duration::from_secs(31);
const LEASE: (&str, &str) = ("config.leaseDurationSecs", "5");

/// Up, a URL, a new signing key, other repositories that see nothing, down; and exactly the rights of the table.
pub async fn scenario_240_241_245_248_249_250_from_a_token_to_an_environment_and_back(
    petri: &Petri<'_>,
) -> Result<String, Error> {
    let tls = Tls::for_names(&["issuer.petri-issuer.svc.cluster.local", "localhost"]);
    issuer(petri, &tls).await?;
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let endpoint = receiver.endpoint();
    let values = [
        LEASE,
        ("config.otlpEndpoint", endpoint.as_str()),
        ("apiserver.enabled", "true"),
        ("apiserver.caConfigMap", "issuer"),
        ("apiserver.env.OIDC_ISSUER", ISSUER),
        ("apiserver.env.OIDC_AUDIENCE", "petri"),
        ("apiserver.env.ORGANIZATION_CLAIM", "repository_owner"),
        ("apiserver.env.ALLOWED_ORGANIZATIONS", "acme"),
        ("apiserver.env.REPOSITORY_CLAIM", "repository"),
    ];
    petri.helm_upgrade(&values).await?;
    let told = pipeline(petri, &tls, &receiver).await;
    petri.helm_upgrade(&[LEASE]).await?;
    petri.lab.kubectl(&["delete", "namespace", "petri-issuer", "--wait=false"]).await?;
    petri.lab.kubectl(&["delete", "configmap", "issuer", "-n", MANAGEMENT]).await?;
    petri.lab.kubectl(&["delete", "etmpl", "ci", "-n", MANAGEMENT, "--ignore-not-found"]).await?;
    told
}

async fn issuer(petri: &Petri<'_>, tls: &Tls) -> Result<(), Error> {
    let client = petri.lab.client();
    petri.lab.kubectl(&["create", "namespace", "petri-issuer"]).await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "petri-issuer");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "issuer"},
        "stringData": {"tls.crt": tls.certificate, "tls.key": tls.key}});
    petri.apply_object(&secrets, &object(secret)?).await?;
    let authorities: Api<ConfigMap> = Api::namespaced(client, MANAGEMENT);
    let authority = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "issuer"},
        "data": {"ca.crt": tls.certificate}});
    petri.apply_object(&authorities, &object(authority)?).await?;
    let template = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "ci", "namespace": MANAGEMENT},
        "spec": {"components": [{"name": "db", "helm": {"path": "/charts/postgres"}}],
            "ingress": {"domain": "preview.example.com"}}});
    petri.apply_object(&petri.templates(), &object::<EnvironmentTemplate>(template)?).await?;
    petri.apply(&checkout().join("e2e/fixtures/issuer.yaml")).await?;
    let wait = ["rollout", "status", "deployment/issuer", "-n", "petri-issuer", "--timeout=60s"];
    petri.lab.kubectl(&wait).await?;
    Ok(())
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| Error::Wrong(error.to_string()))
}

/// Posts to the issuer, through the cluster's own proxy.
async fn tell_issuer(petri: &Petri<'_>, path: &str, body: &Value) -> Result<String, Error> {
    let request =
        http::Request::post(format!("{ISSUER_PROXY}{path}")).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes());
    let request = request.map_err(|error| Error::Wrong(error.to_string()))?;
    Ok(petri.lab.client().request_text(request).await?)
}

async fn pipeline(petri: &Petri<'_>, tls: &Tls, receiver: &Receiver) -> Result<String, Error> {
    let held = crate::rights::prove_apiserver(&petri.lab.client(), MANAGEMENT).await;
    let held = held.map_err(|error| Error::Wrong(error.to_string()))?;
    doors(petri).await?;
    let runner = Runner::start(petri, tls).await?;
    let acme = json!({"sub": "repo:acme/app:ref:refs/heads/main", "repository": "acme/app", "repository_owner": "acme"});
    tell_issuer(petri, "/claims", &acme).await?;
    let up = runner.ci(&["up", "pr-1", "--template", "ci", "--ttl", "1h"], 0).await?;
    let url = up.lines().find_map(|line| line.strip_prefix("url: ")).unwrap_or_default();
    if url != "http://pr-1.preview.example.com" {
        return Err(Error::Wrong(format!("the URL {url:?} in\n{up}")));
    }
    let made = petri.environments().get("pr-1").await?;
    let annotations = made.metadata.annotations.unwrap_or_default();
    if annotations.get("petri.run/repository").map(String::as_str) != Some("acme/app") {
        return Err(Error::Wrong(format!("the owner is not written down: {annotations:?}")));
    }
    joined(receiver).await?;
    update(petri, &runner).await?;
    tokio::time::sleep(REFRESH).await;
    tell_issuer(petri, "/rotate", &json!({})).await?;
    runner.ci(&["wait", "pr-1"], 0).await?;
    for (repository, owner) in [("acme/other", "acme"), ("evil/app", "evil")] {
        tell_issuer(
            petri,
            "/claims",
            &json!({"sub": "x", "repository": repository, "repository_owner": owner}),
        )
        .await?;
        runner.ci(&["wait", "pr-1"], 3).await?;
    }
    runner.ci(&["up", "pr-2", "--template", "ci"], 3).await?;
    tell_issuer(petri, "/claims", &acme).await?;
    runner.ci(&["down", "pr-1", "--wait"], 0).await?;
    petri.until_gone("pr-1", Duration::from_secs(1)).await?;
    cleaned(petri).await?;
    Ok(format!("Ready at {url}, gone again; {held} rights hold"))
}

/// The rollout is told below the request that caused it, in one trace.
async fn joined(receiver: &Receiver) -> Result<(), Error> {
    let mut last = Vec::new();
    for _ in 0..40 {
        last = receiver.spans();
        let request = last
            .iter()
            .find(|span| span.service == "petri-apiserver" && span.name == "POST /v1/environments");
        let rollout = last.iter().find(|span| span.name == "deploy environment");
        if let (Some(request), Some(rollout)) = (request, rollout) {
            if rollout.parent == request.id && rollout.trace == request.trace {
                return Ok(());
            }
            let what = format!("the rollout {rollout:?} is not below the request {request:?}");
            return Err(Error::Wrong(what));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let names: BTreeSet<String> =
        last.into_iter().map(|span| format!("{} {}", span.service, span.name)).collect();
    Err(Error::Wrong(format!("no trace of request and rollout: {names:?}")))
}

/// A changed value is rolled out in place: the same object and namespace, another Job.
async fn update(petri: &Petri<'_>, runner: &Runner) -> Result<(), Error> {
    let before = petri.environments().get("pr-1").await?;
    let namespace = namespace_of(&before)?;
    let jobs: Api<Job> = Api::namespaced(petri.lab.client(), &namespace);
    let uids = async || -> Result<BTreeSet<String>, Error> {
        let found = jobs.list(&ListParams::default()).await?;
        Ok(found.into_iter().filter_map(|job| job.metadata.uid).collect())
    };
    let first = uids().await?;
    runner.ci(&["up", "pr-1", "--set", "marker=second"], 0).await?;
    let after = petri.environments().get("pr-1").await?;
    let second = uids().await?;
    let same = before.metadata.uid == after.metadata.uid && namespace == namespace_of(&after)?;
    let advanced = after.metadata.generation > before.metadata.generation;
    if same && advanced && !second.is_subset(&first) && is_ready(&after) {
        return Ok(());
    }
    let what =
        format!("same object and namespace {same}, advanced {advanced}, Jobs {first:?} then {second:?}");
    Err(Error::Wrong(format!("an update is not a rollout in place: {what}")))
}

/// Health is open, nothing else is.
async fn doors(petri: &Petri<'_>) -> Result<(), Error> {
    for (path, open) in
        [("/healthz", true), ("/readyz", true), ("/v1/environments", false), ("/openapi.json", false)]
    {
        let request = http::Request::get(format!("{API_PROXY}{path}")).body(Vec::new());
        let request = request.map_err(|error| Error::Wrong(error.to_string()))?;
        let answer = petri.lab.client().request_text(request).await;
        if answer.is_ok() != open {
            return Err(Error::Wrong(format!("{path} without a token: {answer:?}")));
        }
    }
    Ok(())
}

/// A pipeline's machine: what GitHub sets in its environment, and a way to both servers.
struct Runner {
    program: PathBuf,
    authority: PathBuf,
    api: Forward,
    issuer: Forward,
}

impl Runner {
    async fn start(petri: &Petri<'_>, tls: &Tls) -> Result<Self, Error> {
        let authority = std::env::temp_dir().join(format!("petri-issuer-{}.pem", std::process::id()));
        std::fs::write(&authority, &tls.certificate)
            .map_err(|source| Error::File { path: authority.clone(), source })?;
        Ok(Self {
            program: image::program("kubectl-petri", &Progress::new()).await?,
            authority,
            api: Forward::start(petri, MANAGEMENT, "service/petri-apiserver", 80).await?,
            issuer: Forward::start(petri, "petri-issuer", "service/issuer", 8443).await?,
        })
    }

    /// Runs `kubectl-petri ci` and returns what it printed, if it ended with this code.
    async fn ci(&self, arguments: &[&str], code: i32) -> Result<String, Error> {
        let mut command = Command::new(&self.program);
        command.arg("ci").args(arguments).args(["--timeout", "3m"]).env_clear();
        command.env("PETRI_SERVER", format!("http://127.0.0.1:{}", self.api.port));
        command.env("PETRI_CA_FILE", &self.authority);
        command.env("ACTIONS_ID_TOKEN_REQUEST_URL", format!("https://localhost:{}/token", self.issuer.port));
        command.env("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-this-job");
        command.env("GITHUB_REPOSITORY", "acme/app");
        let output = command.output().await;
        let output = output.map_err(|source| Error::File { path: self.program.clone(), source })?;
        if output.status.code() == Some(code) {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let Output { status, stdout, stderr } = output;
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        let said = format!("{status} instead of {code}\n{stdout}{stderr}");
        Err(Error::Program { program: format!("kubectl-petri ci {}", arguments.join(" ")), said })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.authority);
    }
}

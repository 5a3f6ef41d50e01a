//! One operation from the payload to the report.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use petri_machines::reason::FailureReason;
use petri_machines::release::{self, Action, Operation, Verdict};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::classify::Failure;
use super::cluster::Cluster;
use super::files::{self, WorkDirectory};
use super::helm::{Helm, Released, Values};
use super::inventory::read_manifest;
use super::limits::{Ended, Limits};
use super::mask::Masker;
use super::payload::Payload;
use super::process::GRACE;
use super::report::Report;
use super::settings::{PayloadFrom, Settings};
use super::source::credentials::Credentials;
use super::source::{self, Chart};
use super::values::large_integers;
use crate::telemetry::trace;

/// A delete hook that fails is tried again once; the third uninstall leaves the hooks out.
const UNINSTALLS_MAX: u32 = 3;
/// How often objects on their way out are looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Does what the settings ask for, within the limits, and says how it ended. No secret is in the report.
pub async fn run(settings: &Settings, limits: &Limits) -> Report {
    let work = perform(settings, limits);
    let mut work = std::pin::pin!(work);
    let result = tokio::select! {
        result = &mut work => result,
        // A program that runs gets its own grace; the deployer's requests get what is left of it.
        ended = limits.over() => match timeout(GRACE + Duration::from_secs(2), work).await {
            Ok(result) => result,
            Err(_) => Err(Failure::ended(ended, "the API server's answers")),
        },
    };
    match result {
        Ok(report) => report,
        Err(Failure { reason, message }) => Report::Failed { reason, message },
    }
}

async fn perform(settings: &Settings, limits: &Limits) -> Result<Report, Failure> {
    let text = match &settings.payload {
        PayloadFrom::Text(text) => text.clone(),
        PayloadFrom::File(path) => fs::read_to_string(path).map_err(|error| {
            let message = format!("the payload {} cannot be read: {error}", path.display());
            Failure::new(FailureReason::HelmFailed, message)
        })?,
    };
    let payload = Payload::decode(&text);
    let payload = payload.map_err(|error| Failure::new(FailureReason::ValuesInvalid, error.to_string()))?;
    let credentials = match &payload.component.helm.credentials_secret_ref {
        Some(_) if settings.operation == Operation::Deploy => Credentials::read(&settings.credentials_dir)?,
        _ => Credentials::default(),
    };
    let masker = Arc::new(masker(&payload, &credentials));
    let work = WorkDirectory::new(&settings.temp_dir)?;
    let Payload { release_name, namespace, .. } = &payload;
    let helm =
        Helm::new(&settings.helm, work.path(), release_name, namespace, limits.clone(), Arc::clone(&masker));
    let job = Job { payload: &payload, credentials: &credentials, helm, work: &work };
    let result = match settings.operation {
        Operation::Deploy => job.deploy().await,
        Operation::Undeploy => job.undeploy().await,
    };
    result.map_err(|failure| Failure { message: masker.mask(&failure.message), ..failure })
}

fn masker(payload: &Payload, credentials: &Credentials) -> Masker {
    let helm = &payload.component.helm;
    let mut public =
        vec![payload.release_name.as_str(), &payload.namespace, &payload.component.name, &payload.owner_uid];
    public.extend(
        [&helm.path, &helm.repo, &helm.chart, &helm.version, &helm.values_file]
            .into_iter()
            .flatten()
            .map(String::as_str),
    );
    public.extend(
        helm.git.iter().flat_map(|git| [git.repo.as_str(), &git.path, &git.reference, &git.fallback_ref]),
    );
    Masker::new(&payload.component.values, &credentials.secrets(), &public)
}

struct Job<'a> {
    payload: &'a Payload,
    credentials: &'a Credentials,
    helm: Helm,
    work: &'a WorkDirectory,
}

impl Job<'_> {
    async fn deploy(&self) -> Result<Report, Failure> {
        let values = serde_json::Value::Object(self.payload.component.values.clone()).to_string();
        let values = files::write(&self.work.path().join("values.yaml"), values.as_bytes())?;
        let cluster = Cluster::connect(&self.payload.namespace).await?;
        // Side by side: neither needs the other, and the first failure ends both.
        let (chart, verdict) = tokio::try_join!(self.chart(), self.verdict(&cluster))?;
        let files = chart.values_file.into_iter().chain([values]).collect();
        let values = Values { files, integers: large_integers(&self.payload.component.values) };
        let mut released = None;
        let mut skipped = None;
        for action in release::plan(Operation::Deploy, &verdict) {
            let outcome = match &action {
                Action::Install => {
                    self.helm.install(&chart.path, &values).await.map(|done| released = Some(done))
                }
                Action::Upgrade => {
                    self.helm.upgrade(&chart.path, &values).await.map(|done| released = Some(done))
                }
                Action::Rollback { to } => self.helm.rollback(*to).await,
                Action::Uninstall => {
                    let hooks = release::delete_hooks(Operation::Deploy, &verdict);
                    self.uninstall(&cluster, hooks).await.map(|record| skipped = record)
                }
                Action::Refuse(status) => {
                    let message = format!("the release has a status that is not known: {status:?}");
                    Err(Failure::new(FailureReason::HelmFailed, message))
                }
            };
            match outcome {
                Err(failure) if action.may_fail() && self.helm.limits().ended().is_none() => {
                    warn!(message = "the plan goes on after a failure", ?action, %failure);
                }
                other => other?,
            }
        }
        let Some(released) = released else {
            return Err(Failure::new(FailureReason::HelmFailed, "the plan has no install and no upgrade"));
        };
        trace::step("write inventory", self.write_inventory(&cluster, &released)).await?;
        Ok(Report::Succeeded { revision: Some(released.revision), skipped })
    }

    async fn chart(&self) -> Result<Chart, Failure> {
        trace::step("locate chart", self.find_chart()).await
    }

    async fn find_chart(&self) -> Result<Chart, Failure> {
        let source = &self.payload.component.helm;
        let registry = self.credentials.registry_config(source.web(), self.work.path())?;
        let helm = match registry {
            Some(path) => self.helm.clone().with("HELM_REGISTRY_CONFIG", path),
            None => self.helm.clone(),
        };
        source::locate(source, self.credentials, &helm, self.work.path()).await
    }

    async fn verdict(&self, cluster: &Cluster) -> Result<Verdict, Failure> {
        let history = trace::step("read history", cluster.history(&self.payload.release_name)).await?;
        let verdict = release::read(&history);
        info!(message = "release found", ?verdict, records = history.len());
        Ok(verdict)
    }

    async fn write_inventory(&self, cluster: &Cluster, released: &Released) -> Result<(), Failure> {
        let references = read_manifest(&released.manifest);
        let references =
            references.map_err(|error| Failure::new(FailureReason::HelmFailed, error.to_string()))?;
        let items = cluster.look_up(&references).await?;
        cluster.write_inventory(self.payload, &items).await?;
        info!(message = "inventory written", objects = items.len(), revision = released.revision);
        Ok(())
    }

    async fn undeploy(&self) -> Result<Report, Failure> {
        let cluster = Cluster::connect(&self.payload.namespace).await?;
        let verdict = self.verdict(&cluster).await?;
        let mut skipped = None;
        if release::plan(Operation::Undeploy, &verdict).is_empty() {
            // An uninstall that ran out of time has removed its records: what it deleted may still be there.
            trace::step("wait until gone", self.wait_until_gone(&cluster)).await?;
        } else {
            skipped = self.uninstall(&cluster, release::delete_hooks(Operation::Undeploy, &verdict)).await?;
        }
        trace::step("delete inventory", cluster.delete_inventory(&self.payload.component.name)).await?;
        Ok(Report::Succeeded { revision: None, skipped })
    }

    /// Removes the release for certain; says what had to be left out for that.
    async fn uninstall(&self, cluster: &Cluster, mut hooks: bool) -> Result<Option<String>, Failure> {
        let mut skipped = None;
        for left in (1..=UNINSTALLS_MAX).rev() {
            hooks &= left > 1;
            // With hooks to leave out in the end, each try gets its share of the time.
            let time = if hooks { self.helm.time() / left } else { self.helm.time() };
            let Err(failure) = self.helm.uninstall(hooks, time).await else {
                skipped = skipped.filter(|_| !hooks);
                break;
            };
            if let Some(ended) = self.helm.limits().ended() {
                let told = ended == Ended::Deadline && failure.reason == FailureReason::JobDeadline;
                return Err(if told { failure } else { Failure::ended(ended, "helm uninstall") });
            }
            warn!(message = "uninstall failed", hooks, %failure);
            if cluster.history(&self.payload.release_name).await?.is_empty() {
                // Helm removes the records first and complains afterwards: there is nothing to repeat.
                self.wait_until_gone(cluster).await?;
                skipped = (failure.reason != FailureReason::JobDeadline).then_some(failure.message);
                break;
            }
            match failure.reason {
                FailureReason::HookFailed if hooks => {
                    // One that timed out would do so again.
                    hooks = !failure.message.contains("context deadline exceeded");
                    skipped = Some(format!("delete hooks were left out: {}", failure.message));
                }
                FailureReason::KindNotServed => {
                    self.remove_without_helm(cluster).await?;
                    skipped = Some(format!("helm cannot remove kinds that are gone: {}", failure.message));
                    break;
                }
                _ => return Err(failure),
            }
        }
        self.records_gone(cluster).await?;
        Ok(skipped)
    }

    /// Looks after an uninstall: helm says "removed" also when it could not read the records.
    async fn records_gone(&self, cluster: &Cluster) -> Result<(), Failure> {
        match cluster.history(&self.payload.release_name).await?.len() {
            0 => Ok(()),
            left => {
                let message =
                    format!("helm called the release removed, {left} of its records are still there");
                Err(Failure::new(FailureReason::HelmFailed, message))
            }
        }
    }

    async fn remove_without_helm(&self, cluster: &Cluster) -> Result<(), Failure> {
        let items = cluster.read_inventory(&self.payload.component.name).await?;
        cluster.delete(&items).await?;
        cluster.forget(&self.payload.release_name).await?;
        self.wait_until_gone(cluster).await
    }

    /// Waits for the inventory's objects that are being deleted; one that nobody deletes was kept on purpose.
    async fn wait_until_gone(&self, cluster: &Cluster) -> Result<(), Failure> {
        let mut items = cluster.read_inventory(&self.payload.component.name).await?;
        loop {
            items = cluster.leaving(&items).await?;
            let Some(first) = items.first() else {
                return Ok(());
            };
            let what = format!("{} {} and {} more to go", first.kind, first.name, items.len() - 1);
            if let Some(ended) = self.helm.limits().ended() {
                return Err(Failure::ended(ended, &what));
            }
            info!(message = "waiting", what);
            sleep(LOOK_AGAIN.min(self.helm.limits().remaining())).await;
        }
    }
}

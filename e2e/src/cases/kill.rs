//! The operator is killed with SIGKILL right after each kind of write that it makes in a life.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;

use super::audit::Audit;
use super::bad_input::{cleaned, environment};
use super::invariants::{Invariants, OPERATOR};
use crate::petri::{Error, MANAGEMENT, Petri, is_ready, summary};

const PATIENCE: Duration = Duration::from_secs(300);
/// Writes that carry no part of the lifecycle.
const BESIDE: [&str; 3] = ["leases", "events", "environmenttemplates"];

/// One life undisturbed tells the kinds of writes; then lives with a kill after each kind that was not hit yet.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    two_components(petri).await?;
    let invariants = Invariants::start(petri)?;
    let mut quiet = Killer { hit: BTreeSet::new(), kill: false, audit: audit(petri)? };
    life(petri, &mut quiet).await?;
    let kinds = quiet.hit;
    let mut killer = Killer { hit: BTreeSet::new(), kill: true, audit: audit(petri)? };
    for _ in 0..3 {
        if !kinds.is_subset(&killer.hit) {
            life(petri, &mut killer).await?;
        }
    }
    let missed: Vec<&String> = kinds.difference(&killer.hit).collect();
    if !missed.is_empty() {
        return Err(Error::Wrong(format!("never killed after: {missed:?}")));
    }
    let judged = invariants.judge().await?;
    Ok(format!("{} kinds: {}\n{judged}", kinds.len(), kinds.into_iter().collect::<Vec<_>>().join(", ")))
}

fn audit(petri: &Petri<'_>) -> Result<Audit, Error> {
    Audit::from_now(petri.lab.audit_log())
}

async fn two_components(petri: &Petri<'_>) -> Result<(), Error> {
    let one = |name: &str, needs: &[&str]| {
        let helm = json!({"path": "/charts/postgres"});
        json!({"name": name, "dependsOn": needs, "helm": helm})
    };
    let template = json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "pair", "namespace": MANAGEMENT},
        "spec": {"components": [one("first", &[]), one("second", &["first"])]},
    });
    let template = serde_json::from_value(template).map_err(|error| Error::Wrong(error.to_string()))?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

struct Killer {
    hit: BTreeSet<String>,
    kill: bool,
    audit: Audit,
}

impl Killer {
    /// Looks at the newest writes and strikes at the first of a kind.
    async fn look(&mut self, petri: &Petri<'_>) -> Result<(), Error> {
        for request in self.audit.news()? {
            let Some(kind) = request.write().filter(|_| request.is_by(OPERATOR)) else { continue };
            if BESIDE.iter().any(|beside| kind.contains(beside)) || !self.hit.insert(kind) {
                continue;
            }
            if self.kill {
                strike(petri).await?;
                // What the dead one still wrote is not a kind that the kill came after.
                self.audit.news()?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Kills the operator's process, and its Pod so that the kubelet's restart pause does not slow the test.
pub(super) async fn strike(petri: &Petri<'_>) -> Result<(), Error> {
    let mut killed = 0;
    for process in
        std::fs::read_dir("/proc").map_err(|source| Error::File { path: "/proc".into(), source })?
    {
        let Ok(process) = process else { continue };
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let read = |file: &str| std::fs::read_to_string(process.path().join(file)).unwrap_or_default();
        let ours = read("cgroup").lines().any(|line| line.contains(petri.lab.name()));
        if ours && read("comm").trim() == "petri-operator" {
            let Some(pid) = rustix::process::Pid::from_raw(pid) else { continue };
            killed += usize::from(rustix::process::kill_process(pid, rustix::process::Signal::KILL).is_ok());
        }
    }
    if killed == 0 {
        return Err(Error::Wrong("no operator process was found to kill".to_owned()));
    }
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    for pod in pods.list(&ListParams::default()).await? {
        pods.delete(&pod.metadata.name.unwrap_or_default(), &DeleteParams::default().grace_period(0)).await?;
    }
    Ok(())
}

async fn life(petri: &Petri<'_>, killer: &mut Killer) -> Result<(), Error> {
    petri.apply_object(&petri.environments(), &environment("hunted", "pair", json!({}))).await?;
    follow(petri, killer, "Ready", |found| found.is_some_and(is_ready)).await?;
    petri.delete("hunted").await?;
    follow(petri, killer, "gone", |found| found.is_none()).await?;
    cleaned(petri).await
}

/// Follows the life until `done`.
async fn follow(
    petri: &Petri<'_>,
    killer: &mut Killer,
    what: &str,
    done: impl Fn(Option<&petri_crds::EphemeralEnvironment>) -> bool,
) -> Result<(), Error> {
    let (api, started) = (petri.environments(), Instant::now());
    let mut last = String::new();
    while started.elapsed() < PATIENCE {
        for _ in 0..20 {
            killer.look(petri).await?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let found = api.get_opt("hunted").await?;
        if done(found.as_ref()) {
            return Ok(());
        }
        last = found.as_ref().map(summary).unwrap_or_default();
    }
    Err(Error::Late { what: format!("hunted: {what}"), seconds: PATIENCE.as_secs(), last })
}

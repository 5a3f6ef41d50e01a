//! From the kubelet's report that a deployer's container has ended to the operator's next write.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::time::Duration;

use petri_crds::meta::ANNOTATION_RETRY;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::bare;
use super::figures::{Sample, millis, note, say};
use super::shape::BARE;
use super::trail::{Entry, OPERATOR};
use super::{create, delete, names, ready, trail};
use crate::lab::image;
use crate::petri::{Error, Petri, checkout, is_ready};

/// Environments that deploy side by side in the second run.
const SIDE_BY_SIDE: usize = 10;
const ONE_DEPLOY_MAX: Duration = Duration::from_secs(120);

/// Lets `jobs` Jobs end one at a time, then as many ten at once.
pub async fn run(petri: &Petri<'_>, jobs: usize) -> Result<(), Error> {
    note(
        "reaction: from the answer to the kubelet's patch that says `terminated` to the next write about it",
    );
    note("bare: one watch on pods and one merge patch of a custom resource's status, outside the cluster");
    BARE.apply(petri).await?;
    let mut bare = start_bare(petri).await?;
    let taken = both(petri, jobs).await;
    let _ = bare.kill().await;
    taken
}

async fn both(petri: &Petri<'_>, jobs: usize) -> Result<(), Error> {
    for (label, side_by_side) in [("one_at_a_time", 1), ("ten_at_once", SIDE_BY_SIDE)] {
        let names = names("reaction-", side_by_side);
        let trail = trail(petri)?;
        create(petri, &names, BARE).await?;
        ready(petri, &names).await?;
        for round in 1..jobs.div_ceil(side_by_side) {
            again(petri, &names, &format!("round-{round}")).await?;
        }
        delete(petri, &names).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let entries = trail.entries()?;
        Reactions::read(&entries).say(&format!("reaction_{label}"));
    }
    Ok(())
}

/// Runs every environment's Job once more, and waits for the end.
async fn again(petri: &Petri<'_>, names: &[String], token: &str) -> Result<(), Error> {
    for name in names {
        petri.patch(name, json!({"metadata": {"annotations": {ANNOTATION_RETRY: token}}})).await?;
    }
    for name in names {
        let done = |one: &petri_crds::EphemeralEnvironment| {
            let status = serde_json::to_string(&one.status).unwrap_or_default();
            is_ready(one) && status.contains(&format!("\"{token}\""))
        };
        petri.until(name, &format!("{token} Ready"), ONE_DEPLOY_MAX, done).await?;
    }
    Ok(())
}

/// Builds the bare client as the operator is built, and starts it.
async fn start_bare(petri: &Petri<'_>) -> Result<Child, Error> {
    let profile = image::profile();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut build = Command::new(cargo);
    // Both packages, so that what both depend on is built as it was for the images.
    build.args(["build", "--quiet", "--profile", &profile, "--package", "petri", "--package", "petri-e2e"]);
    build.args(["--bin", "petri-bare"]).current_dir(checkout());
    let failed = |said: String| Error::Program { program: "petri-bare".to_owned(), said };
    let output = build.output().await.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| checkout().join("target"), Into::into);
    let program = target.join(if profile == "dev" { "debug" } else { &profile }).join("petri-bare");
    let mut command = Command::new(program);
    command.env("KUBECONFIG", petri.lab.kubeconfig()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let stdout = child.stdout.take().ok_or_else(|| failed("no output".to_owned()))?;
    let mut lines = BufReader::new(stdout).lines();
    match tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await {
        Ok(Ok(Some(_))) => Ok(child),
        _ => Err(failed("it does not watch".to_owned())),
    }
}

/// What both did about each end of a container, in milliseconds.
#[derive(Debug, Default)]
pub struct Reactions {
    asked: Sample,
    done: Sample,
    bare_asked: Sample,
    bare_done: Sample,
    before_complete: Sample,
    unanswered: usize,
}

impl Reactions {
    /// Finds the answer to each report.
    pub fn read(entries: &[Entry]) -> Self {
        let writes =
            |entry: &&Entry| entry.is_by(OPERATOR) && entry.is("update", "ephemeralenvironments/status");
        let mut owners: HashMap<String, String> = HashMap::new();
        for write in entries.iter().filter(writes) {
            if let Some(namespace) = write.request_object["status"]["targetNamespace"].as_str() {
                owners.insert(namespace.to_owned(), write.name().to_owned());
            }
        }
        let mut first: BTreeMap<&str, &Entry> = BTreeMap::new();
        for report in entries.iter().filter(|entry| entry.ends_deployer()) {
            first.entry(report.name()).or_insert(report);
        }
        let mut found = Self::default();
        for (pod, report) in first {
            let owner = owners.get(report.namespace());
            let next = |write: &&Entry| {
                Some(write.name()) == owner.map(String::as_str) && write.asked >= report.asked
            };
            let Some(write) = entries.iter().filter(writes).filter(next).min_by_key(|write| write.asked)
            else {
                found.unanswered += 1;
                continue;
            };
            found.asked.add(millis(report.done, write.asked));
            found.done.add(millis(report.done, write.done));
            let bare = format!("fieldManager={}", bare::manager(pod));
            if let Some(patch) = entries.iter().find(|entry| entry.uri_contains(&bare)) {
                found.bare_asked.add(millis(report.done, patch.asked));
                found.bare_done.add(millis(report.done, patch.done));
            }
            let job =
                |entry: &&Entry| entry.completes_job() && pod.starts_with(&format!("{}-", entry.name()));
            if let Some(complete) = entries.iter().find(job) {
                found.before_complete.add(millis(write.done, complete.done));
            }
        }
        found
    }

    /// Prints them.
    pub fn say(&self, name: &str) {
        say(format!("{name}_jobs"), self.done.len());
        say(format!("{name}_unanswered"), self.unanswered);
        self.asked.say_tail(&format!("{name}_operator_to_request"), "ms");
        self.done.say_tail(&format!("{name}_operator_to_write_done"), "ms");
        if !self.bare_done.is_empty() {
            self.bare_asked.say_tail(&format!("{name}_bare_to_request"), "ms");
            self.bare_done.say_tail(&format!("{name}_bare_to_write_done"), "ms");
            let ratio = self.done.at(0.5) / self.bare_done.at(0.5);
            say(format!("{name}_operator_over_bare_p50_ratio"), format!("{ratio:.2}"));
        }
        if !self.before_complete.is_empty() {
            self.before_complete.say_tail(&format!("{name}_operator_before_job_complete"), "ms");
        }
    }
}

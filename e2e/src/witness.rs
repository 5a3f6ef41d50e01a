//! A witness of a whole run: it learns every secret value that comes into being, reads every line that Petri's programs
//! log, and says at the end whether one stands in the other.

use std::collections::{BTreeSet, HashSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, ListParams, LogParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use tokio::task::JoinHandle;

use crate::petri::{Error, MANAGEMENT};

/// How often it is looked for new pods: a deployer's stays when it has ended.
const LOOK: Duration = Duration::from_secs(1);
/// Shorter values are words of the language: `admin`, `postgres`.
const SECRET_MIN: usize = 12;
/// Secrets of what these prefixes name are Petri's and its environments'.
const PLACES: [&str; 3] = ["petri-env-", "petri-shared", MANAGEMENT];

#[derive(Default)]
struct Seen {
    secrets: BTreeSet<String>,
    /// Every word of every line that is long enough to be a secret.
    words: HashSet<String>,
    lines: usize,
    pods: BTreeSet<String>,
}

type Shared = Arc<Mutex<Seen>>;

fn lock(seen: &Shared) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Watches until it is asked.
pub struct Witness {
    seen: Shared,
    tasks: [JoinHandle<()>; 2],
}

impl Witness {
    /// Begins; `known` are values that are secret and stand in no Secret of their own.
    pub fn start(client: &Client, known: &[&str]) -> Self {
        let seen = Shared::default();
        lock(&seen).secrets.extend(known.iter().map(|value| (*value).to_owned()));
        let tasks = [
            tokio::spawn(learn(client.clone(), Arc::clone(&seen))),
            tokio::spawn(listen(client.clone(), Arc::clone(&seen))),
        ];
        Self { seen, tasks }
    }

    /// Says what was seen.
    ///
    /// Errors: a secret value stands in a line, or nothing was seen.
    pub fn judge(self) -> Result<String, Error> {
        self.tasks.iter().for_each(JoinHandle::abort);
        let seen = lock(&self.seen);
        let told: Vec<&String> = seen.secrets.iter().filter(|secret| is_told(secret, &seen.words)).collect();
        if !told.is_empty() {
            // Their beginnings only: this is a log, too.
            let told: Vec<String> = told.iter().map(|secret| secret.chars().take(4).collect()).collect();
            return Err(Error::Wrong(format!(
                "{} secret values were logged: {}…",
                told.len(),
                told.join("…, ")
            )));
        }
        let (lines, pods, secrets) = (seen.lines, seen.pods.len(), seen.secrets.len());
        if lines == 0 || secrets == 0 {
            return Err(Error::Wrong(format!("{lines} lines and {secrets} secrets were seen")));
        }
        Ok(format!("none of {secrets} secret values in {lines} lines of {pods} pods"))
    }
}

fn is_told(secret: &str, words: &HashSet<String>) -> bool {
    words.contains(secret) || words.iter().any(|word| word.len() > secret.len() && word.contains(secret))
}

/// Takes in the values of all Secrets, as they come and change.
async fn learn(client: Client, seen: Shared) {
    let secrets: Api<Secret> = Api::all(client);
    let mut found = pin!(watcher(secrets, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(next) = found.next().await {
        let Ok(secret) = next else { continue };
        let namespace = secret.metadata.namespace.unwrap_or_default();
        if !PLACES.iter().any(|place| namespace.starts_with(place)) {
            continue;
        }
        let values =
            secret.data.into_iter().flatten().filter_map(|(_, value)| String::from_utf8(value.0).ok());
        let values: Vec<String> = values.filter(|value| is_secret(value)).collect();
        lock(&seen).secrets.extend(values);
    }
}

/// One word that nobody has chosen as a name: no host, no path, no document.
fn is_secret(value: &str) -> bool {
    let alone = value.chars().all(|c| c.is_ascii_alphanumeric());
    let mixed = value.chars().any(|c| c.is_ascii_digit()) && value.chars().any(|c| c.is_ascii_alphabetic());
    value.len() >= SECRET_MIN && alone && mixed
}

/// Finds the pods of Petri's own programs, and reads what each says.
async fn listen(client: Client, seen: Shared) {
    let all: Api<Pod> = Api::all(client.clone());
    loop {
        for labels in ["app.kubernetes.io/name in (petri-operator,petri-apiserver)", "petri.run/managed=true"]
        {
            let Ok(pods) = all.list(&ListParams::default().labels(labels)).await else { continue };
            for pod in pods {
                let running =
                    pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Pending");
                let uid = pod.metadata.uid.clone().unwrap_or_default();
                let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
                // What a script of a provider says is the script's.
                let own = containers.map(|it| it.name.clone()).find(|name| name != "script");
                let Some(container) = own.filter(|_| running) else { continue };
                if lock(&seen).pods.insert(uid) {
                    tokio::spawn(read(client.clone(), pod, container, Arc::clone(&seen)));
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn read(client: Client, pod: Pod, container: String, seen: Shared) {
    let namespace = pod.metadata.namespace.unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client, &namespace);
    let params = LogParams { follow: true, container: Some(container), ..LogParams::default() };
    let name = pod.metadata.name.unwrap_or_default();
    let Ok(stream) = pods.log_stream(&name, &params).await else { return };
    let mut lines = stream.lines();
    while let Ok(Some(line)) = lines.try_next().await {
        let words =
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').filter(|it| it.len() >= SECRET_MIN);
        let mut seen = lock(&seen);
        seen.lines += 1;
        seen.words.extend(words.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_value_is_a_secret_and_a_name_is_none() {
        assert!(is_secret("c0ffee1234567890"));
        for name in ["admin", "shared-shop-db.petri-shared.svc", "{\"a\":1}", "Verylongnameofadatabase"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_secret_is_found_alone_and_inside_of_a_word() {
        let words = HashSet::from(["url-c0ffee1234567890".to_owned()]);
        assert!(is_told("c0ffee1234567890", &words));
        assert!(!is_told("c0ffee1234567891", &words));
    }
}

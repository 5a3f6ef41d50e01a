//! Two replicas of petri-apiserver under writes, one of which gets SIGKILL: whatever was answered holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::try_join_all;
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use petri_crds::EphemeralEnvironment;
use rustix::process::Signal;
use serde_json::json;

use super::faults::process::in_pod;
use super::forward::Forward;
use crate::load::{self, Plan};
use crate::petri::{Error, MANAGEMENT, Petri, VALUES};

const TOKEN: &str = "token-of-this-case-only";
const WRITERS: usize = 8;
/// The load before the kill, and after it.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(5);
/// Between two tries of a request that found nobody.
const PAUSE: Duration = Duration::from_millis(100);
const TRIES_MAX: usize = 200;

/// Creations, changes and deletions through both, one of them killed on the way; then what the cluster holds is compared
/// with what was answered.
pub async fn scenario_246_two_replicas_one_killed_under_load_lose_nothing_and_both_serve_again(
    petri: &Petri<'_>,
) -> Result<String, Error> {
    let mut values = VALUES.to_vec();
    values.extend([
        ("apiserver.enabled", "true"),
        ("apiserver.replicas", "2"),
        ("apiserver.env.AUTH_MODE", "static-token"),
        ("apiserver.env.STATIC_TOKEN_ALLOWED", "true"),
        ("apiserver.env.STATIC_TOKEN", TOKEN),
    ]);
    petri.helm_upgrade(&values).await?;
    let told = killed(petri).await;
    petri.helm_upgrade(&VALUES).await?;
    petri.lab.kubectl(&["delete", "eenv", "--all", "-n", MANAGEMENT, "--timeout=120s"]).await?;
    told
}

async fn killed(petri: &Petri<'_>) -> Result<String, Error> {
    let pods = pods(petri).await?;
    let ways = [forward(petri, &pods[0].0).await?, forward(petri, &pods[1].0).await?];
    for way in &ways {
        serves(way).await?;
    }
    let clients = ways.iter().map(client).collect::<Result<Vec<_>, _>>()?;
    let (clients, stop) = (Arc::new(clients), Arc::new(AtomicBool::new(false)));
    let writers = (0..WRITERS).map(|number| {
        let writer = Writer { number, clients: Arc::clone(&clients), at: number % 2, again: 0 };
        tokio::spawn(writer.run(Arc::clone(&stop)))
    });
    let writers: Vec<_> = writers.collect();
    tokio::time::sleep(BEFORE).await;
    kill(&pods[0].1)?;
    tokio::time::sleep(AFTER).await;
    stop.store(true, Ordering::SeqCst);
    let ended = try_join_all(writers).await.map_err(|error| Error::Wrong(error.to_string()))?;
    let (mut answered, mut again) = (BTreeMap::new(), 0);
    for one in ended {
        let (facts, repeated) = one?;
        answered.extend(facts);
        again += repeated;
    }
    compare(petri, &answered).await?;
    if again == 0 {
        return Err(Error::Wrong("nobody noticed that a replica was killed".to_owned()));
    }
    let wait = ["rollout", "status", "deployment/petri-apiserver", "-n", MANAGEMENT, "--timeout=60s"];
    petri.lab.kubectl(&wait).await?;
    serves(&forward(petri, &pods[0].0).await?).await?;
    let gone = answered.values().filter(|fact| fact.is_none()).count();
    Ok(format!(
        "{} environments written and {gone} of them deleted by {WRITERS} writers, {again} requests sent again; all as answered",
        answered.len()
    ))
}

/// Names and UIDs of the two pods.
async fn pods(petri: &Petri<'_>) -> Result<Vec<(String, String)>, Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let ours = ListParams::default().labels("app.kubernetes.io/name=petri-apiserver");
    let found = pods.list(&ours).await?.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let found: Vec<(String, String)> = found
        .map(|pod| (pod.metadata.name.unwrap_or_default(), pod.metadata.uid.unwrap_or_default()))
        .collect();
    if found.len() == 2 {
        Ok(found)
    } else {
        Err(Error::Wrong(format!("two replicas are wanted: {found:?}")))
    }
}

async fn forward(petri: &Petri<'_>, pod: &str) -> Result<Forward, Error> {
    Forward::start(petri, MANAGEMENT, &format!("pod/{pod}"), 8080).await
}

fn client(way: &Forward) -> Result<kube::Client, Error> {
    load::client(&format!("http://127.0.0.1:{}", way.port), TOKEN)
}

/// Some seconds of reads, all of which must be served.
async fn serves(way: &Forward) -> Result<(), Error> {
    let client = client(way)?;
    let plan = Plan { clients: 8, rate: Some(40), time: Duration::from_secs(2) };
    let report = load::run(plan, std::future::pending(), move |_| {
        let client = client.clone();
        async move { load::send(&client, Request::get("/v1/templates").body(Vec::new()).ok()?).await }
    });
    let report = report.await;
    if report.healthy == report.started && report.started > 0 {
        return Ok(());
    }
    Err(Error::Wrong(format!("a replica does not serve: {report:?}")))
}

/// Ends the program of a pod in a way that it cannot handle.
fn kill(uid: &str) -> Result<(), Error> {
    match in_pod(uid, "petri-apiserver")?.as_slice() {
        [one] => one.signal(Signal::KILL),
        found => Err(Error::Wrong(format!("one petri-apiserver is wanted in the pod {uid}: {found:?}"))),
    }
}

/// What was answered of an environment last: its ttl, or that it goes.
type Facts = BTreeMap<String, Option<String>>;

/// Writes one environment after the other, each request until it is answered.
struct Writer {
    number: usize,
    clients: Arc<Vec<kube::Client>>,
    at: usize,
    again: usize,
}

impl Writer {
    async fn run(mut self, stop: Arc<AtomicBool>) -> Result<(Facts, usize), Error> {
        let mut facts = Facts::new();
        let mut count = 0;
        while !stop.load(Ordering::SeqCst) {
            count += 1;
            let name = format!("kill-{}-{count}", self.number);
            let body = json!({"name": name, "template": "none", "ttl": "1h"}).to_string();
            self.until(&[201, 200], "POST", "/v1/environments", &body).await?;
            let ttl = format!("{}s", 7_200 + count);
            let body = json!({"name": name, "ttl": ttl}).to_string();
            self.until(&[200], "POST", "/v1/environments", &body).await?;
            let mut fact = Some(ttl);
            if count % 3 == 0 {
                // Asked for again after no answer, it may be gone.
                self.until(&[204, 404], "DELETE", &format!("/v1/environments/{name}"), "").await?;
                fact = None;
            }
            facts.insert(name, fact);
        }
        Ok((facts, self.again))
    }

    async fn until(&mut self, good: &[u16], method: &str, path: &str, body: &str) -> Result<(), Error> {
        for _ in 0..TRIES_MAX {
            let request =
                Request::builder().method(method).uri(path).header("content-type", "application/json");
            let request = request.body(body.as_bytes().to_vec());
            let request = request.map_err(|error| Error::Wrong(error.to_string()))?;
            match load::send(&self.clients[self.at], request).await {
                Some(code) if good.contains(&code) => return Ok(()),
                Some(code) => return Err(Error::Wrong(format!("{method} {path} {body}: {code}"))),
                None => {
                    self.at = 1 - self.at;
                    self.again += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(Error::Wrong(format!("{method} {path} was never answered")))
    }
}

async fn compare(petri: &Petri<'_>, answered: &Facts) -> Result<(), Error> {
    let found = petri.environments().list(&ListParams::default()).await?.items;
    let found: BTreeMap<String, EphemeralEnvironment> =
        found.into_iter().map(|one| (one.metadata.name.clone().unwrap_or_default(), one)).collect();
    let holds = |name: &str, fact: &Option<String>| match (found.get(name), fact) {
        (None, None) => true,
        (Some(one), None) => one.metadata.deletion_timestamp.is_some(),
        (Some(one), Some(ttl)) => one.spec.ttl == *ttl,
        (None, Some(_)) => false,
    };
    let lost: Vec<&String> =
        answered.iter().filter(|(name, fact)| !holds(name, fact)).map(|(name, _)| name).collect();
    if lost.is_empty() { Ok(()) } else { Err(Error::Wrong(format!("answered and lost: {lost:?}"))) }
}

//! HTTP probes: tasks of their own, off the reconcile path. A reconcile reads the last result; a result that differs
//! from the one before wakes the environment.

use crate::{
    client::{CALL_MAX, timed},
    controller::{Key, Wakes},
};
use axum::{
    body::Body,
    http::{Request, StatusCode, Uri, header::HOST},
};
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, Client};
use petri_machines::names::{ComponentName, NamespaceName, Uid};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};

/// How long one answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// The first pause between two probes.
const PERIOD_MIN: Duration = Duration::from_secs(1);
/// The longest: of one that goes on failing, and of one that serves.
const PERIOD_MAX: Duration = Duration::from_secs(10);

/// What is asked, and for which deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) environment: Uid,
    pub(super) namespace: NamespaceName,
    pub(super) serial: u64,
    /// The services of the release.
    pub(super) services: Vec<String>,
    pub(super) path: String,
    pub(super) port: i32,
}

type Outcome = Result<(), String>;
type Latest = Arc<Mutex<Option<Outcome>>>;

struct Probe {
    target: Target,
    latest: Latest,
    task: AbortHandle,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Keeps the probes of all environments.
pub struct Prober {
    client: Client,
    wakes: Wakes,
    probes: Mutex<HashMap<Key, HashMap<ComponentName, Probe>>>,
}

impl Prober {
    /// Makes a prober without probes; `client` finds the addresses of services.
    pub fn new(client: Client, wakes: Wakes) -> Self {
        Self { client, wakes, probes: Mutex::default() }
    }

    /// Returns the last result, `None` before the first; the probe is started if it does not run, and anew if it is to
    /// ask something else.
    pub(super) fn result(&self, key: &Key, component: &ComponentName, target: Target) -> Option<Outcome> {
        let mut probes = self.lock();
        let probes = probes.entry(key.clone()).or_default();
        if probes.get(component).is_none_or(|probe| probe.target != target) {
            probes.insert(component.clone(), self.start(key.clone(), target));
        }
        let latest = probes.get(component).map(|probe| Arc::clone(&probe.latest))?;
        locked(&latest).clone()
    }

    /// Ends the probes of all other components of an environment.
    pub(super) fn retain(&self, key: &Key, components: &BTreeSet<ComponentName>) {
        let mut probes = self.lock();
        if let Some(of) = probes.get_mut(key) {
            of.retain(|component, _| components.contains(component));
            if of.is_empty() {
                probes.remove(key);
            }
        }
    }

    /// Ends the probes of an environment.
    pub fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn start(&self, key: Key, target: Target) -> Probe {
        let latest = Latest::default();
        let (client, wakes) = (self.client.clone(), self.wakes.clone());
        let (asked, said) = (target.clone(), Arc::clone(&latest));
        let probing = async move {
            let http = Http::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
            let mut period = PERIOD_MIN;
            let mut at = None;
            loop {
                let outcome = ask(&client, &http, &asked, &mut at).await;
                let turned = locked(&said).as_ref().map(Result::is_ok) != Some(outcome.is_ok());
                let news = locked(&said).as_ref() != Some(&outcome);
                period = if turned && outcome.is_err() { PERIOD_MIN } else { next(period, outcome.is_ok()) };
                if news {
                    *locked(&said) = Some(outcome);
                    wakes.now(key.clone());
                }
                sleep(period).await;
            }
        };
        Probe { target, latest, task: tokio::spawn(probing).abort_handle() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, HashMap<ComponentName, Probe>>> {
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn locked(latest: &Mutex<Option<Outcome>>) -> MutexGuard<'_, Option<Outcome>> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A failing probe is repeated a fifth later each time, so that a slow start is still seen within a second or two.
fn next(period: Duration, serves: bool) -> Duration {
    if serves { PERIOD_MAX } else { (period * 6 / 5).min(PERIOD_MAX) }
}

/// Where a probe goes; looked up anew after a failure only.
struct Address {
    service: String,
    host: String,
}

async fn ask(
    client: &Client,
    http: &Http<HttpConnector, Body>,
    target: &Target,
    at: &mut Option<Address>,
) -> Outcome {
    let known = match at.take() {
        Some(known) => known,
        None => address(client, target).await?,
    };
    request(http, target, &known).await?;
    *at = Some(known);
    Ok(())
}

async fn request(http: &Http<HttpConnector, Body>, target: &Target, at: &Address) -> Outcome {
    let Address { service, host } = at;
    let name = format!("{service}.{}.svc:{}", target.namespace, target.port);
    let at = format!("http://{host}:{}{}", target.port, target.path);
    let uri: Uri = at.parse().map_err(|error| format!("GET {at}: {error}"))?;
    let request = Request::get(uri).header(HOST, &name).body(Body::empty());
    let request = request.map_err(|error| format!("GET {at}: {error}"))?;
    let shown = format!("GET http://{service}:{}{}", target.port, target.path);
    match timeout(ANSWER_MAX, http.request(request)).await {
        Err(_) => Err(format!("{shown}: no answer within {} s", ANSWER_MAX.as_secs())),
        Ok(Err(error)) => Err(format!("{shown}: {}", root_cause(&error))),
        Ok(Ok(answer)) if answer.status() == StatusCode::OK => Ok(()),
        Ok(Ok(answer)) => Err(format!("{shown}: answered {}", answer.status().as_u16())),
    }
}

/// Finds the service of the release that exposes the port, and where it is: its cluster IP, or its name in the DNS.
async fn address(client: &Client, target: &Target) -> Result<Address, String> {
    let api: Api<Service> = Api::namespaced(client.clone(), target.namespace.as_str());
    for name in &target.services {
        let found = timed(CALL_MAX, api.get_opt(name)).await;
        let found = found.map_err(|error| format!("service {name} cannot be read: {error}"))?;
        let Some(spec) = found.and_then(|found| found.spec) else { continue };
        if !spec.ports.iter().flatten().any(|port| port.port == target.port) {
            continue;
        }
        let ip = spec.cluster_ip.filter(|ip| !ip.is_empty() && ip != "None");
        let host = match ip {
            Some(ip) if ip.contains(':') => format!("[{ip}]"),
            Some(ip) => ip,
            None => format!("{name}.{}.svc", target.namespace),
        };
        return Ok(Address { service: name.clone(), host });
    }
    Err(format!("no service of the release exposes port {}", target.port))
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    root.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, response::Redirect, routing::get};
    use tokio::net::TcpListener;

    async fn check(path: &str, expected: Result<(), &str>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = |headers: axum::http::HeaderMap| async move {
            let host = headers[HOST].to_str().unwrap().to_owned();
            if host.starts_with("api.petri-env-1.svc:") { StatusCode::OK } else { StatusCode::BAD_REQUEST }
        };
        let routes = Router::new()
            .route("/healthz", get(host))
            .route("/moved", get(|| async { Redirect::temporary("/healthz") }))
            .route("/ill", get(|| async { StatusCode::SERVICE_UNAVAILABLE }))
            .route("/slow", get(std::future::pending::<()>));
        let server = tokio::spawn(async move { axum::serve(listener, routes).await });
        let http = Http::builder(TokioExecutor::new()).build_http();
        let target = Target {
            environment: Uid::new("e").unwrap(),
            namespace: NamespaceName::new("petri-env-1").unwrap(),
            serial: 1,
            services: Vec::new(),
            path: path.to_owned(),
            port: port.into(),
        };
        let at = Address { service: "api".to_owned(), host: "127.0.0.1".to_owned() };
        let outcome = request(&http, &target, &at).await;
        server.abort();
        let expected = expected.map_err(|why| format!("GET http://api:{port}{path}: {why}"));
        assert_eq!(outcome, expected);
    }

    #[tokio::test]
    async fn only_a_200_is_ready_and_a_redirect_is_not_followed() {
        check("/healthz", Ok(())).await;
        check("/moved", Err("answered 307")).await;
        check("/ill", Err("answered 503")).await;
        check("/none", Err("answered 404")).await;
    }

    #[tokio::test]
    async fn an_answer_that_does_not_come_is_not_waited_for() {
        check("/slow", Err("no answer within 2 s")).await;
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_says_so_in_the_systems_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let target = Target {
            environment: Uid::new("e").unwrap(),
            namespace: NamespaceName::new("n").unwrap(),
            serial: 1,
            services: Vec::new(),
            path: "/".to_owned(),
            port: port.into(),
        };
        let at = Address { service: "api".to_owned(), host: "127.0.0.1".to_owned() };
        let http = Http::builder(TokioExecutor::new()).build_http();
        let why = request(&http, &target, &at).await.unwrap_err();
        assert!(why.contains("Connection refused"), "{why}");
    }

    #[test]
    fn a_probe_that_fails_is_repeated_ever_later_and_never_later_than_ten_seconds() {
        let mut period = PERIOD_MIN;
        for _ in 0..5 {
            period = next(period, false);
        }
        assert!(period > Duration::from_secs(2) && period < Duration::from_secs(3), "{period:?}");
        for _ in 0..50 {
            period = next(period, false);
        }
        assert_eq!((period, next(PERIOD_MIN, true)), (PERIOD_MAX, PERIOD_MAX));
    }
}

//! Puts the runtime together: clients, watches, caches, queue, leadership, health and metrics.
use crate::{
    client::{Clients, CountRequests, Denials},
    clock::{Clock, ServerClock},
    config::Config,
    controller::{
        Caches, Reconciler, Wakes,
        definitions::Definitions,
        queue::queue,
        run::{Ended, Loop},
        watches::{Scope, Watches},
    },
    leader::{Elector, Leadership, Terms, identity},
    telemetry::{
        health::{self, Probe, Report},
        metrics::{Metrics, PHASES},
        signals::stopped,
        trace::{Source, Tracer},
    },
};
use kube::api::Api;
use opentelemetry_otlp::ExporterBuildError;
use petri_crds::SharedComponent;
use std::{collections::BTreeMap, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::sync::oneshot;
use tracing::info;

/// Name of the Lease in the management namespace.
const LEASE: &str = "petri-operator";

/// What the last spans may cost at the end.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Why the operator does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is no usable cluster configuration.
    #[error("no cluster configuration: {0}")]
    Cluster(#[from] kube::config::InferConfigError),
    /// The cluster configuration makes no client.
    #[error("no client for the cluster: {0}")]
    Client(#[from] kube::Error),
    /// An address cannot be served.
    #[error("cannot serve {0}: {1}")]
    Serve(SocketAddr, io::Error),
    /// The OTLP endpoint, or what the environment says about it, cannot be used.
    #[error("cannot export traces: {0}")]
    Traces(#[from] ExporterBuildError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
}

/// What a reconciler is made from.
#[derive(Clone)]
pub struct Parts {
    /// The configuration.
    pub config: Arc<Config>,
    /// The client for everything a reconcile does: it repeats nothing by itself, and refuses writes while this
    /// process does not lead.
    pub client: kube::Client,
    /// What is watched.
    pub caches: Arc<Caches>,
    /// To wake keys from elsewhere, such as HTTP probes.
    pub wakes: Wakes,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// To count what happens.
    pub metrics: Metrics,
    /// To tell how long it took.
    pub tracer: Tracer,
    /// To read the time that the API server stamps by.
    pub clock: ServerClock,
}

/// Runs the operator until it is told to stop or loses leadership.
///
/// # Errors
/// It cannot start. A cluster that does not answer, or lacks the custom resource definitions, is waited for.
pub async fn operate<R: Reconciler>(
    config: Config,
    build: impl FnOnce(&Parts) -> R,
) -> Result<Ended, StartError> {
    let (clock, server_clock) = (Clock, ServerClock::default());
    let metrics = Metrics::default();
    let kube_config = kube::Config::infer().await?;
    let tracer = tracer(&config, &metrics)?;
    let stop = stopped().map_err(StartError::Signals)?;
    let (denials, definitions) = (Denials::default(), Definitions::default());
    let count = CountRequests::new(metrics.clone(), denials.clone());
    let (elector, leadership) = election(&config, &Clients::unfenced(&kube_config, &count)?, clock);
    let clients = Clients::new(&kube_config, &count, &leadership, &server_clock)?;

    let scope = Scope {
        management_namespace: config.management_namespace.clone(),
        shared_namespace: config.shared_namespace.clone(),
    };
    let caches = Arc::new(Caches::new(&config.management_namespace).with_shared(&config.shared_namespace));
    let (wakes, queue) = queue(config.workers, clock);
    let watches = Watches::start(clients.watch, &scope, Arc::clone(&caches), wakes.clone(), clock);
    let account = Account { denials, definitions: definitions.clone() };
    serve(&config, &watches, &caches, &metrics, account).await?;
    tokio::spawn(definitions.follow(clients.effects.clone()));

    let (release, released) = oneshot::channel();
    let election = elector.map(|elector| tokio::spawn(elector.run(released)));
    let resync = config.resync();
    let parts = Parts {
        config: Arc::new(config),
        client: clients.effects,
        caches: Arc::clone(&caches),
        wakes: wakes.clone(),
        leadership: leadership.clone(),
        metrics: metrics.clone(),
        tracer: tracer.clone(),
        clock: server_clock,
    };
    let reconciler = Arc::new(build(&parts));
    let ended = Loop { reconciler, caches, wakes, queue, leadership, metrics, resync }.run(stop).await;
    if ended == Ended::Stopped {
        // Only now, when nothing runs any more, may somebody else begin.
        drop(release);
        if let Some(election) = election {
            // It has its own limit, and a panic in it changes nothing now.
            let _ = election.await;
        }
        tracer.flush(FLUSH_MAX).await;
    }
    Ok(ended)
}

fn tracer(config: &Config, metrics: &Metrics) -> Result<Tracer, ExporterBuildError> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(Tracer::off(metrics.clone())) };
    let variable = |name| std::env::var(name).ok();
    let source = Source {
        service: "petri-operator",
        pod: variable("POD_NAME").or_else(|| variable("HOSTNAME")),
        namespace: variable("POD_NAMESPACE"),
        job: None,
    };
    Tracer::start(endpoint, config.trace_sample_percent, source, metrics.clone())
}

fn election(config: &Config, client: &kube::Client, clock: Clock) -> (Option<Elector>, Leadership) {
    if !config.leader_election {
        return (None, Leadership::always(clock));
    }
    let terms = Terms {
        name: LEASE.to_owned(),
        identity: identity(),
        duration: Duration::from_secs(config.lease_duration_secs),
        renew: Duration::from_secs(config.lease_renew_secs),
        margin: Duration::from_secs(config.lease_margin_secs),
    };
    let elector = Elector::new(Api::namespaced(client.clone(), &config.management_namespace), terms, clock);
    let leadership = elector.leadership();
    (Some(elector), leadership)
}

/// What readiness tells besides the watches.
struct Account {
    denials: Denials,
    definitions: Definitions,
}

impl Account {
    /// A definition that is too old keeps this process from taking over from one that works; a right that is missing
    /// for one kind of work does not.
    fn add(&self, report: &mut Report) {
        report.ok &= self.definitions.are_new();
        report.text.push_str(&self.definitions.text());
        report.text.push_str(&self.denials.text());
    }
}

async fn serve(
    config: &Config,
    watches: &Watches,
    caches: &Arc<Caches>,
    metrics: &Metrics,
    account: Account,
) -> Result<(), StartError> {
    let watched = watches.watched();
    let live: Probe = {
        let watched = watched.clone();
        Arc::new(move || Watches::live(&watched))
    };
    let ready: Probe = {
        let caches = Arc::clone(caches);
        Arc::new(move || {
            let mut report = Watches::ready(&watched, &caches);
            account.add(&mut report);
            report
        })
    };
    let caches = Arc::clone(caches);
    let refresh = Arc::new(move |metrics: &Metrics| {
        metrics.set_environments(&by_phase(&caches));
        metrics.set_consumers(&consumers(&caches));
    });
    let probes = health::probes(live, ready);
    let scrape = health::scrape(metrics.clone(), refresh);
    for (address, routes) in [(config.health_address, probes), (config.metrics_address, scrape)] {
        let (bound, _) =
            health::serve(address, routes).await.map_err(|error| StartError::Serve(address, error))?;
        info!(address = %bound, "serving");
    }
    Ok(())
}

/// Counts the environments in each phase.
fn by_phase(caches: &Caches) -> BTreeMap<&'static str, i64> {
    let mut counts: BTreeMap<_, _> = PHASES.map(|phase| (phase.as_str(), 0)).into();
    for environment in caches.environments.all() {
        let phase = environment.of.as_ref().and_then(|known| known.phase).unwrap_or_default();
        *counts.entry(phase.as_str()).or_default() += 1;
    }
    counts
}

/// Counts the consumers of each shared component.
fn consumers(caches: &Caches) -> BTreeMap<String, i64> {
    let all = caches.shared_components.all();
    let count = |shared: &SharedComponent| {
        let held = shared.status.as_ref().and_then(|status| status.consumers).unwrap_or_default();
        (shared.metadata.name.clone().unwrap_or_default(), held.into())
    };
    all.iter().filter_map(|shared| shared.0.as_ref().ok()).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use axum::{body::Body, http::Request};
    use std::convert::Infallible;
    use tower::service_fn;

    #[tokio::test]
    async fn an_address_that_is_in_use_is_named_and_refuses_the_start() {
        let holder = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = holder.local_addr().unwrap();
        let (taken, free) = (Some(address.to_string()), Some("127.0.0.1:0".to_owned()));
        for (metrics_address, health_address) in [(taken.clone(), free.clone()), (free, taken)] {
            let settings = Settings { metrics_address, health_address, ..Settings::default() };
            let config = Config::load(None, settings, None).unwrap();
            let caches = Arc::new(Caches::new("petri-system"));
            let silent = service_fn(|_: Request<kube::client::Body>| {
                futures::future::pending::<Result<axum::http::Response<Body>, Infallible>>()
            });
            let scope = Scope {
                management_namespace: "petri-system".to_owned(),
                shared_namespace: "petri-shared".to_owned(),
            };
            let (wakes, _queue) = queue(1, Clock);
            let client = kube::Client::new(silent, "default");
            let watches = Watches::start(client, &scope, Arc::clone(&caches), wakes, Clock);
            let account = Account { denials: Denials::default(), definitions: Definitions::default() };
            let error = serve(&config, &watches, &caches, &Metrics::default(), account).await.unwrap_err();
            let error = error.to_string();
            assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
        }
    }
}

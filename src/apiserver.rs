//! petri-apiserver: environments over HTTP for pipelines that have an identity token and no kubeconfig.
//!
//! Stateless: what it knows is in the one management namespace. Every request is authenticated, then authorised, then
//! routed; health alone needs no token.
//!
//! - *Who*: [`oidc`] turns a token into a [`identity::Principal`], [`policy`] says whether it may come in, [`gate`] asks
//!   both of every request.
//! - *What*: [`routes`] are the REST API, [`body`] and [`query`] decode strictly, [`view`] is what is shown.
//! - *How*: [`cluster`] is the one way in which an environment is read and written; [`trail`] keeps what happened.

pub mod body;
pub mod cluster;
pub mod config;
pub mod error;
pub mod gate;
pub mod identity;
pub mod listen;
pub mod metrics;
pub mod oidc;
pub mod policy;
pub mod query;
pub mod ready;
pub mod routes;
pub mod strict;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod trail;
pub mod view;

use crate::{
    client::{Clients, CountRequests, Denials},
    clock::Clock,
    telemetry::{
        health,
        metrics::encode,
        trace::{Source, Tracer},
    },
};
use cluster::Cluster;
use config::{Auth, Config};
use gate::Authenticator;
use metrics::Metrics;
use oidc::{Expect, Provider, ProviderError, Verifier};
use opentelemetry_otlp::ExporterBuildError;
use policy::Policy;
use ready::Readiness;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch};
use tracing::{error, info};

/// What every request may use.
#[derive(Clone)]
pub struct App {
    /// The management namespace.
    pub cluster: Cluster,
    /// Who asks.
    pub authenticator: Authenticator,
    /// Who may come in.
    pub policy: Arc<Policy>,
    /// How far into the future an expiry may be extended.
    pub extension_max: Duration,
    /// What is counted.
    pub metrics: Metrics,
    /// Where spans go.
    pub tracer: Tracer,
    /// Whether the cluster can be asked.
    pub readiness: Readiness,
    /// The time.
    pub clock: Clock,
    /// Turns true when the process is to end: streams end then.
    pub stop: watch::Receiver<bool>,
}

/// Why the API server does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no usable cluster configuration.
    #[error("no cluster configuration: {0}")]
    Cluster(#[from] kube::config::InferConfigError),
    /// The cluster configuration makes no client.
    #[error("no client for the cluster: {0}")]
    Client(#[from] kube::Error),
    /// The issuer cannot be asked.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The OTLP endpoint cannot be used.
    #[error("traces cannot be exported: {0}")]
    Traces(#[from] ExporterBuildError),
    /// An address cannot be served.
    #[error("cannot serve {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// A listener failed.
    #[error("a listener failed: {0}")]
    Listener(io::Error),
}

/// Serves both ports until `stopped` is done, then drains.
///
/// # Errors
/// It cannot start, or a listener fails; the other one is drained then too.
pub async fn serve(config: Config, stopped: impl Future<Output = ()>) -> Result<(), ServeError> {
    let kube_config = kube::Config::infer().await?;
    let metrics = Metrics::default();
    let client =
        Clients::unfenced(&kube_config, &CountRequests::new(metrics.common.clone(), Denials::default()))?;
    let tracer = tracer(&config, &metrics)?;
    let authenticator = authenticator(&config, &metrics)?;
    let (stop, stopping) = watch::channel(false);
    let app = App {
        cluster: Cluster::new(client, &config.namespace),
        authenticator,
        policy: Arc::new(config.policy.clone()),
        extension_max: config.extension_max,
        metrics: metrics.clone(),
        tracer: tracer.clone(),
        readiness: Readiness::default(),
        clock: Clock,
        stop: stopping.clone(),
    };
    let api = bind(config.address).await?;
    let scrape = bind(config.metrics_address).await?;
    start_background(&app);
    let limits = listen::Limits {
        connections: config.connections_max,
        drain: config.drain,
        head: listen::HEAD_TIME_MAX,
    };
    let registry = Arc::new(metrics.registry());
    let scraped = health::expose(move || encode(&registry));
    let serving = futures::future::try_join(
        listen::serve(api, routes::router(app), limits, stopping.clone()),
        listen::serve(scrape, scraped, limits, stopping),
    );
    let served = both(serving, stopped, &stop).await.map_err(ServeError::Listener);
    tracer.flush(FLUSH_MAX).await;
    served
}

/// How long the last spans may take.
const FLUSH_MAX: Duration = Duration::from_secs(1);

fn tracer(config: &Config, metrics: &Metrics) -> Result<Tracer, ExporterBuildError> {
    let metrics = metrics.common.clone();
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(Tracer::off(metrics)) };
    let source = Source {
        service: "petri-apiserver",
        pod: std::env::var("HOSTNAME").ok(),
        namespace: Some(config.namespace.clone()),
        job: None,
    };
    Tracer::start(endpoint, config.trace_sample_percent, source, metrics)
}

/// Runs until a listener fails or the stop; then tells both to drain.
async fn both(
    serving: impl Future<Output = io::Result<((), ())>>,
    stopped: impl Future<Output = ()>,
    stop: &watch::Sender<bool>,
) -> io::Result<()> {
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        ended = &mut serving => {
            stop.send_replace(true);
            return ended.map(drop);
        }
        () = stopped => { stop.send_replace(true); }
    }
    serving.await.map(drop)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Bind(address, error))?;
    let bound = listener.local_addr().map_err(|error| ServeError::Bind(address, error))?;
    info!(address = %bound, "serving");
    Ok(listener)
}

fn authenticator(config: &Config, metrics: &Metrics) -> Result<Authenticator, ProviderError> {
    Ok(match &config.auth {
        Auth::StaticToken(token) => Authenticator::fixed(token.expose()),
        Auth::Oidc(oidc) => {
            let expect = Expect {
                issuer: oidc.issuer.clone(),
                audience: oidc.audience.clone(),
                skew: oidc.clock_skew,
                claims: oidc.claims.clone(),
                admin: oidc.admin.clone(),
            };
            let provider = Provider::new(oidc)?;
            Authenticator::Oidc(Arc::new(Verifier::new(Box::new(provider), expect, Clock, metrics.clone())))
        }
    })
}

/// Runs until the process ends.
fn start_background(app: &App) {
    if let Authenticator::Oidc(verifier) = &app.authenticator {
        let verifier = Arc::clone(verifier);
        tokio::spawn(async move { verifier.keep_fresh().await });
    } else {
        error!("STATIC TOKEN MODE: everybody with the token may do everything; for development only");
    }
    let (readiness, cluster) = (app.readiness.clone(), app.cluster.clone());
    tokio::spawn(async move { readiness.keep_looking(&cluster).await });
}

//! Answers the cycle: each question of the pure loop becomes a read, a write or a message, and the loop's end a time
//! to look again. Nothing is decided here.

mod durations;
mod environment;
mod events;
mod judge;
mod notices;
mod pace;
mod refusals;
mod shared;
mod sweep;
mod trail;

use crate::{
    adapter::Defaults,
    clock::ServerClock,
    config::Config,
    controller::{Key, Kind, Parts, Reconciler, Requeue},
    executor::Executor,
    observe::{Inventories, Ledger, Observer, Payloads, Prober},
    render::Settings,
    telemetry::metrics::Metrics,
};
use durations::Durations;
use events::Events;
use kube::Client;
use pace::Pace;
use petri_crds::{EnvironmentTemplate, SharedComponentProvider};
use petri_machines::names::NamespaceName;
use refusals::Refusals;
use std::{sync::Arc, time::Duration};
use sweep::Living;
use tracing::{Instrument as _, error_span, field::Empty};
use trail::Trails;

/// The operator's ServiceAccount; the chart's admission policy lets it bind roles to this name only.
const SERVICE_ACCOUNT: &str = "petri-operator";
/// Pause after a fault of Petri's own: only a new release will mend it, but a changed input may avoid it.
const BUG_PAUSE: Duration = Duration::from_secs(60);

/// Reconciles all kinds.
pub struct Operator {
    client: Client,
    observer: Observer,
    executor: Executor,
    settings: Settings,
    events: Events,
    refusals: Refusals,
    pace: Pace,
    durations: Durations,
    living: Living,
    trails: Trails,
    metrics: Metrics,
    clock: ServerClock,
}

impl Operator {
    /// Makes the reconciler from what the runtime has.
    pub fn new(parts: &Parts) -> Self {
        let ledger = Arc::new(Ledger::default());
        let config = &parts.config;
        let observer = Observer {
            client: parts.client.clone(),
            caches: Arc::clone(&parts.caches),
            ledger: Arc::clone(&ledger),
            inventories: Inventories::default(),
            payloads: Payloads::default(),
            prober: Prober::new(parts.client.clone(), parts.wakes.clone()),
            defaults: Defaults {
                deploy_timeout_secs: config.default_deploy_timeout_secs,
                pod_failure_secs: config.pod_failure_timeout_secs,
            },
            shared_namespace: shared_namespace(config),
            clock: parts.clock.clone(),
        };
        Self {
            client: parts.client.clone(),
            observer,
            executor: Executor::new(parts.client.clone(), parts.leadership.clone(), ledger),
            settings: settings(config),
            events: Events::new(parts.client.clone(), &config.management_namespace),
            refusals: Refusals::default(),
            pace: Pace::default(),
            durations: Durations::default(),
            living: Living::default(),
            trails: Trails::new(parts.tracer.clone()),
            metrics: parts.metrics.clone(),
            clock: parts.clock.clone(),
        }
    }
}

/// # Panics
/// Never: the configuration was checked to hold names.
fn shared_namespace(config: &Config) -> NamespaceName {
    NamespaceName::new(&config.shared_namespace).expect("a checked configuration holds names")
}

/// What of the configuration the objects are made by.
pub(crate) fn settings(config: &Config) -> Settings {
    Settings {
        management_namespace: config.management_namespace.clone(),
        shared_namespace: config.shared_namespace.clone(),
        service_account: SERVICE_ACCOUNT.to_owned(),
        workload_role: config.workload_cluster_role.clone(),
        deployer_image: config.deployer_image.clone(),
        deployer_pull_policy: config.deployer_image_pull_policy.as_str().to_owned(),
        deployer_cluster_roles: config.deployer_cluster_roles.clone(),
        job_deadline_secs: config.job_deadline_secs,
        otlp_endpoint: config.otlp_endpoint.clone(),
    }
}

impl Reconciler for Operator {
    async fn reconcile(&self, key: &Key) -> Requeue {
        // Of the highest level, so that no line of any level is without it.
        let span = || error_span!("reconcile", trace_id = Empty, span_id = Empty);
        match key.kind {
            Kind::Environment => environment::Pass::new(self, key).run().instrument(span()).await,
            Kind::Template => judge::reconcile::<EnvironmentTemplate>(self, key).await,
            Kind::Provider => judge::reconcile::<SharedComponentProvider>(self, key).await,
            Kind::SharedComponent => shared::Pass::new(self, key).run().instrument(span()).await,
        }
    }
}

#[cfg(test)]
mod tests;

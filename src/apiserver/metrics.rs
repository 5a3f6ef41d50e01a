//! What the API server counts, in a registry of its own. No label is unbounded.

use crate::{
    apiserver::gate::Barred,
    telemetry::metrics::{Metrics as Common, Took},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, info::Info},
    registry::Registry,
};

/// Labels of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The route's pattern, or `other`.
    pub route: String,
    /// A method that HTTP defines, or `OTHER`.
    pub method: &'static str,
    /// HTTP status.
    pub code: u16,
}

/// Label `reason`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// A stable word.
    pub reason: &'static str,
}

/// Label `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// A stable word.
    pub result: &'static str,
}

/// The metrics; all clones count into the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// `petri_http_requests_total`.
    pub requests: Family<RequestLabels, Counter>,
    /// `petri_http_request_duration_seconds`: until the answer begins, so that a watch counts as the instant it is.
    pub duration: Took,
    /// `petri_auth_failures_total`.
    pub auth_failures: Family<ReasonLabel, Counter>,
    /// `petri_jwks_refresh_total`.
    pub jwks_refresh: Family<ResultLabel, Counter>,
    /// Requests to Kubernetes and spans are counted as the operator counts them; nothing else of it is shown.
    pub common: Common,
}

/// A request is a few calls to Kubernetes of some milliseconds each.
const BUCKETS: [f64; 11] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            requests: Family::default(),
            duration: Took::new(BUCKETS),
            auth_failures: Family::default(),
            jwks_refresh: Family::default(),
            common: Common::default(),
        };
        // A query for them has an answer before the first of each.
        for result in ["success", "failure"] {
            metrics.jwks_refresh.get_or_create(&ResultLabel { result }).inc_by(0);
        }
        for reason in Barred::all().map(Barred::as_str) {
            metrics.auth_failures.get_or_create(&ReasonLabel { reason }).inc_by(0);
        }
        metrics
    }
}

impl Metrics {
    /// Returns a registry that all clones of `self` count into.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("petri");
        let r = &mut registry;
        r.register("http_requests", "Requests to this API", self.requests.clone());
        self.duration.register(r, "http_request_duration_seconds", "Time until the answer began");
        r.register("auth_failures", "Requests that were not let in", self.auth_failures.clone());
        r.register("jwks_refresh", "Attempts to fetch the issuer's keys", self.jwks_refresh.clone());
        self.common.register_requests_and_spans(r);
        r.register("apiserver_build", "This program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry
    }

    /// Counts a request that was not let in.
    pub fn barred(&self, barred: Barred) {
        self.auth_failures.get_or_create(&ReasonLabel { reason: barred.as_str() }).inc();
    }

    /// Counts an attempt to fetch keys.
    pub fn refreshed(&self, result: &'static str) {
        self.jwks_refresh.get_or_create(&ResultLabel { result }).inc();
    }
}

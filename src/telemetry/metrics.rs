//! The metrics of the product contract, in one registry. No label is unbounded.
use crate::controller::Kind;
use opentelemetry::trace::TraceId;
use petri_crds::Phase;
use petri_machines::{environment::Reason, job::Op};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use std::{collections::BTreeMap, time::Duration};

/// Label `phase`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabel {
    /// A phase as the status writes it.
    pub phase: &'static str,
}

/// Label `reason`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    /// A stable reason.
    pub reason: &'static str,
}

/// Label `name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NameLabel {
    /// A SharedComponent: as many as an administrator made.
    pub name: String,
}

/// Label `op`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OpLabel {
    /// What was to be done.
    pub op: &'static str,
}

/// Labels `op`, `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct JobLabels {
    /// What the Job was to do.
    pub op: &'static str,
    /// How it ended.
    pub result: &'static str,
}

/// Label `controller`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// The kind that was reconciled.
    pub controller: &'static str,
}

/// Labels `controller`, `class`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ErrorLabels {
    /// The kind that was reconciled.
    pub controller: &'static str,
    /// The class of the error.
    pub class: &'static str,
}

/// Labels `verb`, `resource`, `code`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ApiLabels {
    /// As RBAC names it.
    pub verb: &'static str,
    /// As RBAC names it, with the subresource.
    pub resource: String,
    /// HTTP status; 0 when there was no answer.
    pub code: u16,
}

/// Label `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResultLabel {
    /// What became of it.
    pub result: &'static str,
}

/// What leads from a slow bucket to a trace that fell into it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Exemplar {
    trace_id: String,
}

/// How long something takes, with the trace of one example in each bucket.
#[derive(Clone, Debug)]
pub struct Took(HistogramWithExemplars<Exemplar>);

impl Took {
    /// Makes one with these upper bounds, in seconds.
    pub fn new(buckets: impl IntoIterator<Item = f64>) -> Self {
        Self(HistogramWithExemplars::new(buckets.into_iter()))
    }

    /// Shows it in a registry under this name.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }

    /// Counts one; `trace` only if it can be looked up.
    pub fn observe(&self, took: Duration, trace: Option<TraceId>) {
        let exemplar = trace.map(|trace| Exemplar { trace_id: trace.to_string() });
        self.0.observe(took.as_secs_f64(), exemplar, None);
    }
}

type Durations<L> = Family<L, HistogramWithExemplars<Exemplar>, fn() -> HistogramWithExemplars<Exemplar>>;

/// The metrics; cheap to clone, all clones count into the same.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// `petri_environments`; set at each scrape from the cache.
    environments: Family<PhaseLabel, Gauge>,
    /// `petri_environment_phase_transitions_total`.
    pub phase_transitions: Family<PhaseLabel, Counter>,
    /// `petri_environment_deploy_duration_seconds`.
    pub deploy_duration: Took,
    /// `petri_environment_deploy_failures_total`.
    pub deploy_failures: Family<ReasonLabel, Counter>,
    /// `petri_component_deploy_duration_seconds`.
    pub component_deploy_duration: Took,
    /// `petri_deployer_jobs_total`.
    pub deployer_jobs: Family<JobLabels, Counter>,
    /// `petri_shared_component_consumers`.
    pub consumers: Family<NameLabel, Gauge>,
    /// `petri_forced_cleanups_total`.
    pub forced_cleanups: Family<OpLabel, Counter>,
    /// `petri_reconcile_duration_seconds`.
    reconcile_duration: Durations<ControllerLabel>,
    /// `petri_reconcile_errors_total`.
    pub reconcile_errors: Family<ErrorLabels, Counter>,
    /// `petri_api_requests_total`.
    pub api_requests: Family<ApiLabels, Counter>,
    /// `petri_resync_found_work_total`.
    pub resync_found_work: Counter,
    /// `petri_trace_spans_total`.
    pub trace_spans: Family<ResultLabel, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            environments: Family::default(),
            phase_transitions: Family::default(),
            deploy_duration: Took::new(MINUTES),
            deploy_failures: Family::default(),
            component_deploy_duration: Took::new(MINUTES),
            deployer_jobs: Family::default(),
            consumers: Family::default(),
            forced_cleanups: Family::default(),
            reconcile_duration: Family::new_with_constructor(|| {
                HistogramWithExemplars::new(MILLISECONDS.into_iter())
            }),
            reconcile_errors: Family::default(),
            api_requests: Family::default(),
            resync_found_work: Counter::default(),
            trace_spans: Family::default(),
        };
        metrics.begin();
        metrics
    }
}

/// How a reconcile can end badly.
const CLASSES: [&str; 8] =
    ["retry", "backoff", "rejected", "fenced", "bug", "panic", "timeout", "undecodable"];

/// The phases of an environment.
pub(crate) const PHASES: [Phase; 5] =
    [Phase::Pending, Phase::Deploying, Phase::Ready, Phase::Terminating, Phase::Failed];

/// A reconcile is a few API calls of some milliseconds each; a slow one ends at the calls' time-outs.
const MILLISECONDS: [f64; 11] = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 20.0];
/// A component takes seconds, a big environment minutes, and the default bound is fifteen of them.
const MINUTES: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0];

impl Metrics {
    /// Begins every series of a closed set with zero: what appears with its first event has no rate at that moment, and a
    /// query for it has no answer before.
    fn begin(&self) {
        for phase in PHASES {
            self.phase_transitions.get_or_create(&PhaseLabel { phase: phase.as_str() }).inc_by(0);
        }
        for reason in Reason::ALL.into_iter().filter(|reason| reason.fails()) {
            self.deploy_failures.get_or_create(&ReasonLabel { reason: reason.as_str() }).inc_by(0);
        }
        for op in Op::ALL {
            for result in ["succeeded", "failed"] {
                self.deployer_jobs.get_or_create(&JobLabels { op: op.as_str(), result }).inc_by(0);
            }
            if op.removes() {
                self.forced_cleanups.get_or_create(&OpLabel { op: op.as_str() }).inc_by(0);
            }
        }
        for controller in Kind::ALL.map(Kind::as_str) {
            for class in CLASSES {
                self.reconcile_errors.get_or_create(&ErrorLabels { controller, class }).inc_by(0);
            }
        }
    }

    /// Begins the series of spans, which a program without an endpoint has none of.
    pub fn begin_spans(&self) {
        for result in ["exported", "failed", "dropped"] {
            self.trace_spans.get_or_create(&ResultLabel { result }).inc_by(0);
        }
    }

    /// Returns a registry that all clones of `self` count into.
    pub fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("petri");
        let r = &mut registry;
        r.register("environments", "Environments by phase", self.environments.clone());
        r.register(
            "environment_phase_transitions",
            "Phases that environments entered",
            self.phase_transitions.clone(),
        );
        r.register(
            "environment_deploy_duration_seconds",
            "From the start of a rollout until the environment was ready",
            self.deploy_duration.0.clone(),
        );
        r.register("environment_deploy_failures", "Rollouts that failed", self.deploy_failures.clone());
        r.register(
            "component_deploy_duration_seconds",
            "From the first Job of a component until it was ready",
            self.component_deploy_duration.0.clone(),
        );
        r.register("deployer_jobs", "Deployer Jobs that ended", self.deployer_jobs.clone());
        r.register("shared_component_consumers", "Consumers of a shared component", self.consumers.clone());
        r.register("forced_cleanups", "Cleanup steps that were given up", self.forced_cleanups.clone());
        r.register(
            "reconcile_duration_seconds",
            "Time that one reconcile took",
            self.reconcile_duration.clone(),
        );
        r.register("reconcile_errors", "Reconciles that ended in an error", self.reconcile_errors.clone());
        r.register(
            "resync_found_work",
            "Slow resyncs that found work, which an event should have announced",
            self.resync_found_work.clone(),
        );
        self.register_requests_and_spans(r);
        r.register("build", "This program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry
    }

    /// Shows what every program of Petri has that asks the API server.
    pub fn register_requests_and_spans(&self, registry: &mut Registry) {
        registry.register(
            "api_requests",
            "Requests to the API server; code 0: no answer",
            self.api_requests.clone(),
        );
        registry.register(
            "trace_spans",
            "Spans that were exported, failed at the endpoint, or were dropped because it was slow",
            self.trace_spans.clone(),
        );
    }

    /// Sets how many consumers each shared component has; those that are not named are gone.
    pub fn set_consumers(&self, by_name: &BTreeMap<String, i64>) {
        self.consumers.clear();
        for (name, count) in by_name {
            self.consumers.get_or_create(&NameLabel { name: name.clone() }).set(*count);
        }
    }

    /// Counts one reconcile; `trace` only if it can be looked up.
    pub fn reconciled(&self, controller: &'static str, took: Duration, trace: Option<TraceId>) {
        let family = &self.reconcile_duration;
        Took(family.get_or_create(&ControllerLabel { controller }).clone()).observe(took, trace);
    }

    /// Sets how many environments are in each phase; phases that are not named are zero.
    pub fn set_environments(&self, by_phase: &BTreeMap<&'static str, i64>) {
        self.environments.clear();
        for (phase, count) in by_phase {
            self.environments.get_or_create(&PhaseLabel { phase }).set(*count);
        }
    }
}

/// Writes a registry in the OpenMetrics text format.
///
/// # Errors
/// A metric does not encode, which is a bug.
pub fn encode(registry: &Registry) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_contract_are_what_is_scraped() {
        let metrics = Metrics::default();
        metrics.set_environments(&BTreeMap::from([("Ready", 3), ("Failed", 0)]));
        metrics.phase_transitions.get_or_create(&PhaseLabel { phase: "Ready" }).inc();
        metrics.resync_found_work.inc();
        let api =
            ApiLabels { verb: "update", resource: "ephemeralenvironments/status".to_owned(), code: 409 };
        metrics.api_requests.get_or_create(&api).inc();
        let trace = TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap();
        metrics.reconciled("environment", Duration::from_millis(3), Some(trace));
        let errors = ErrorLabels { controller: "environment", class: "rejected" };
        metrics.reconcile_errors.get_or_create(&errors).inc();
        let text = encode(&metrics.registry()).unwrap();
        for line in [
            "petri_environments{phase=\"Ready\"} 3",
            "petri_environments{phase=\"Failed\"} 0",
            "petri_environment_phase_transitions_total{phase=\"Ready\"} 1",
            "petri_resync_found_work_total 1",
            "petri_api_requests_total{verb=\"update\",resource=\"ephemeralenvironments/status\",code=\"409\"} 1",
            "petri_reconcile_duration_seconds_bucket{le=\"0.005\",controller=\"environment\"} 1 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.003",
            "petri_reconcile_errors_total{controller=\"environment\",class=\"rejected\"} 1",
            "petri_build_info{version=\"0.1.0\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

//! The deployer as a program: settings from the environment, a span around the work, a report at the end.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use petri_machines::reason::FailureReason;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{Instrument as _, error, error_span, info, warn};

use super::limits::Limits;
use super::operation;
use super::report::Report;
use super::settings::{Settings, termination_log};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::trace::{self, Source, Span, Tracer};

/// What the last spans may cost: the Job's outcome waits for this process to end.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Does what the environment asks for, as the span that `TRACEPARENT` names the parent of.
pub async fn run(began: SystemTime) -> ExitCode {
    let parent = variable("TRACEPARENT").and_then(|parent| trace::parse(&parent));
    let Some(parent) = parent else { return work().await.0 };
    let tracer = tracer();
    let id = parent.trace_id();
    let place = trace::place(id, trace::fresh(id), tracer.is_on() && parent.is_sampled());
    let log = error_span!("deployer", trace_id = %id, span_id = %place.span_id());
    let (code, failure) = trace::within(&tracer, place.clone(), work().instrument(log)).await;
    tracer.emit(Span::new("deployer", &place, parent.span_id(), began, trace::now()).failed(failure));
    tracer.flush(FLUSH_MAX).await;
    code
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Traces are no reason to fail: without a usable endpoint there are none.
fn tracer() -> Tracer {
    let Some(endpoint) = variable("OTEL_EXPORTER_OTLP_ENDPOINT") else {
        return Tracer::off(Metrics::default());
    };
    let source = Source {
        service: "petri-deployer",
        pod: variable("HOSTNAME"),
        namespace: None,
        job: variable("PETRI_JOB_NAME"),
    };
    // Whether it is seen was decided by whom the trace comes from.
    Tracer::start(&endpoint, 0, source, Metrics::default()).unwrap_or_else(|error| {
        warn!(%error, "no traces");
        Tracer::off(Metrics::default())
    })
}

/// Does the work and reports it; says how it ended.
async fn work() -> (ExitCode, Option<&'static str>) {
    let report = match Settings::read(variable) {
        Ok(settings) => {
            let job = variable("PETRI_JOB_NAME").unwrap_or_default();
            info!(message = "start", operation = ?settings.operation, job);
            let limits = Limits::new(settings.deadline, stop_signal());
            operation::run(&settings, &limits).await
        }
        Err(error) => Report::Failed { reason: FailureReason::ValuesInvalid, message: error.to_string() },
    };
    let text = report.termination_log();
    let (path, create) = termination_log(variable);
    let log = OpenOptions::new().write(true).truncate(true).create(create).open(&path);
    if let Err(error) = log.and_then(|mut log| log.write_all(text.as_bytes())) {
        error!(message = "the report cannot be written", path = %path.display(), %error);
    }
    match report {
        Report::Succeeded { .. } => {
            info!(message = "end", report = text);
            (ExitCode::SUCCESS, None)
        }
        Report::Failed { reason, .. } => {
            error!(message = "end", report = text);
            (ExitCode::FAILURE, Some(reason.as_str()))
        }
    }
}

/// SIGTERM is how the kubelet asks a pod to end; SIGINT how a person does.
fn stop_signal() -> watch::Receiver<bool> {
    let (ask, stop) = watch::channel(false);
    tokio::spawn(async move {
        let (Ok(mut term), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            error!(message = "signals cannot be received");
            return;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Nobody listens any more when the work has ended.
        let _done = ask.send(true);
    });
    stop
}

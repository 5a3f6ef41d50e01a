//! The way out: a bounded queue and one task that exports batches. The SDK's own batch processor tells nobody how
//! much it drops, and blocks a thread of its own; this one counts, and needs no thread.

use super::Span;
use crate::telemetry::metrics::{Metrics, ResultLabel};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter as Otlp, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter},
};
use opentelemetry_semantic_conventions::resource::{
    K8S_JOB_NAME, K8S_NAMESPACE_NAME, K8S_POD_NAME, SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION,
};
use std::time::Duration;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};
use tracing::{info, warn};

/// What waits for a receiver that is slow: about a megabyte. A rollout of ten components makes some hundred spans.
const QUEUE_MAX: usize = 2048;
/// The default of OpenTelemetry.
const BATCH_MAX: usize = 512;
/// How long a batch waits for company.
const LINGER: Duration = Duration::from_secs(1);
/// A receiver that takes longer hangs; what it was given is lost.
const EXPORT_MAX: Duration = Duration::from_secs(5);

enum Message {
    Span(Box<SpanData>),
    Flush(oneshot::Sender<()>),
}

/// Says which program the spans come from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// `service.name`.
    pub service: &'static str,
    /// The pod, which also is the instance.
    pub pod: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The Job that it belongs to.
    pub job: Option<String>,
}

impl Source {
    fn resource(self) -> Resource {
        let named = [
            (SERVICE_INSTANCE_ID, self.pod.clone()),
            (K8S_POD_NAME, self.pod),
            (K8S_NAMESPACE_NAME, self.namespace),
            (K8S_JOB_NAME, self.job),
        ];
        let fixed = [(SERVICE_NAME, self.service), (SERVICE_VERSION, env!("CARGO_PKG_VERSION"))];
        let named = named.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?)));
        let fixed = fixed.map(|(key, value)| KeyValue::new(key, value));
        Resource::builder_empty().with_attributes(fixed.into_iter().chain(named)).build()
    }
}

/// Takes spans; cheap to clone. Without an endpoint it takes none.
#[derive(Clone, Debug)]
pub struct Tracer {
    queue: Option<mpsc::Sender<Message>>,
    metrics: Metrics,
    percent: u8,
}

impl Tracer {
    /// Makes one that takes nothing.
    pub fn off(metrics: Metrics) -> Self {
        Self { queue: None, metrics, percent: 0 }
    }

    /// Exports to an OTLP endpoint; nothing is connected before there is something to send. Of the traces that begin
    /// here `percent` are seen. Must be called inside a runtime.
    ///
    /// # Errors
    /// The endpoint, or a variable `OTEL_EXPORTER_OTLP_*`, cannot be used.
    pub fn start(
        endpoint: &str,
        percent: u8,
        source: Source,
        metrics: Metrics,
    ) -> Result<Self, ExporterBuildError> {
        let exporter = Otlp::builder().with_tonic().with_endpoint(endpoint).with_timeout(EXPORT_MAX);
        let mut exporter = exporter.build()?;
        exporter.set_resource(&source.resource());
        metrics.begin_spans();
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(run(exporter, receiver, metrics.clone()));
        Ok(Self { queue: Some(sender), metrics, percent })
    }

    /// Whether anything comes of a span.
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// Whether a trace that begins here is seen.
    pub fn samples(&self, trace: opentelemetry::trace::TraceId) -> bool {
        self.is_on() && super::is_sampled(trace, self.percent)
    }

    /// Hands a span over, if it is sampled. Never waits: a full queue drops it.
    pub fn emit(&self, span: Span) {
        let Some(queue) = &self.queue else { return };
        if !span.0.span_context.is_sampled() {
            return;
        }
        if queue.try_send(Message::Span(Box::new(span.0))).is_err() {
            count(&self.metrics, "dropped", 1);
        }
    }

    /// Waits until all that was handed over before is exported or lost, but not longer than `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(queue) = &self.queue else { return };
        let (done, wait) = oneshot::channel();
        let flushed = async {
            if queue.send(Message::Flush(done)).await.is_ok() {
                // An exporter that ended has nothing left to wait for.
                let _ = wait.await;
            }
        };
        if timeout(limit, flushed).await.is_err() {
            warn!("spans were left behind: the OTLP endpoint did not take them in time");
        }
    }
}

fn count(metrics: &Metrics, result: &'static str, spans: usize) {
    let spans = u64::try_from(spans).unwrap_or(u64::MAX);
    metrics.trace_spans.get_or_create(&ResultLabel { result }).inc_by(spans);
}

async fn run(exporter: impl SpanExporter, mut queue: mpsc::Receiver<Message>, metrics: Metrics) {
    let mut works = true;
    loop {
        let (batch, flushes, ended) = gather(&mut queue).await;
        if !batch.is_empty() {
            let spans = batch.len();
            let outcome = match timeout(EXPORT_MAX, exporter.export(batch)).await {
                Ok(outcome) => outcome.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer in {} s", EXPORT_MAX.as_secs())),
            };
            count(&metrics, if outcome.is_ok() { "exported" } else { "failed" }, spans);
            match &outcome {
                Err(error) if works => {
                    warn!(error, spans, "spans are lost: the OTLP endpoint does not take them")
                }
                Ok(()) if !works => info!("the OTLP endpoint takes spans again"),
                _ => {}
            }
            works = outcome.is_ok();
        }
        for flush in flushes {
            // Who asked may have stopped waiting.
            let _ = flush.send(());
        }
        if ended {
            return;
        }
    }
}

/// Waits for a span, then for more of them until the batch is full, its time is over or somebody waits for it.
async fn gather(queue: &mut mpsc::Receiver<Message>) -> (Vec<SpanData>, Vec<oneshot::Sender<()>>, bool) {
    let (mut batch, mut flushes) = (Vec::new(), Vec::new());
    let mut due = None;
    while batch.len() < BATCH_MAX && flushes.is_empty() {
        let message = match due {
            None => queue.recv().await,
            Some(due) => match timeout_at(due, queue.recv()).await {
                Ok(message) => message,
                Err(_) => break,
            },
        };
        match message {
            None => return (batch, flushes, true),
            Some(Message::Span(span)) => batch.push(*span),
            Some(Message::Flush(done)) => flushes.push(done),
        }
        due.get_or_insert_with(|| Instant::now() + LINGER);
    }
    (batch, flushes, false)
}

//! Traces by OTLP (gRPC). Spans are made whole, when what they tell of has ended: most of them outlive the reconcile
//! that began them, and some the process. So their ids are derived wherever two programs, or two lives of one, must
//! name the same span.
//!
//! Nothing here waits: a span that finds the queue full is dropped and counted.

mod export;

use crate::clock::Clock;
use opentelemetry::{
    Context, InstrumentationScope, KeyValue,
    propagation::TextMapPropagator,
    trace::{
        Event, Link, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
        TraceState,
    },
};
use opentelemetry_sdk::{
    propagation::TraceContextPropagator,
    trace::{Sampler, SamplingDecision, ShouldSample as _, SpanData, SpanEvents, SpanLinks},
};
use petri_machines::names::Uid;
use sha2::{Digest as _, Sha256};
use std::{
    borrow::Cow,
    collections::HashMap,
    fmt::Display,
    sync::atomic::{AtomicU64, Ordering},
    time::SystemTime,
};

pub use export::{Source, Tracer};

/// Name of the instrumentation scope of all spans.
const SCOPE: &str = "petri";

/// Derives the id of an environment generation's trace: nothing has to be written down for it.
pub fn trace_id(environment: &Uid, generation: i64) -> TraceId {
    let hash = Sha256::digest(format!("petri trace {environment} {generation}"));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    TraceId::from_bytes(bytes)
}

/// Derives the id of a span that several programs must name alike.
pub fn derived(trace: TraceId, what: &str) -> SpanId {
    let hash = Sha256::digest(format!("petri span {trace} {what}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    SpanId::from_bytes(bytes)
}

/// Gives an id that no other span of the trace has.
pub fn fresh(trace: TraceId) -> SpanId {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    derived(trace, &format!("{} {} {number}", std::process::id(), Clock.wall().as_nanosecond()))
}

/// Gives a span's place: its trace, its id, and whether anybody will see it.
pub fn place(trace: TraceId, span: SpanId, sampled: bool) -> SpanContext {
    let flags = if sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    SpanContext::new(trace, span, flags, false, TraceState::NONE)
}

/// Decides by the trace's id whether it is seen: all programs decide alike.
pub fn is_sampled(trace: TraceId, percent: u8) -> bool {
    let sampler = Sampler::TraceIdRatioBased(f64::from(percent) / 100.0);
    let result = sampler.should_sample(None, trace, "", &SpanKind::Internal, &[], &[]);
    result.decision == SamplingDecision::RecordAndSample
}

/// Writes a place as W3C `traceparent`.
pub fn traceparent(place: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", place.trace_id(), place.span_id(), place.trace_flags().to_u8())
}

/// Reads a W3C `traceparent`; nothing, if it is not one.
pub fn parse(traceparent: &str) -> Option<SpanContext> {
    // The SDK takes ids that are too short for small numbers.
    if !traceparent.split('-').map(str::len).eq([2, 32, 16, 2]) {
        return None;
    }
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
}

/// Makes a span that has ended.
#[derive(Clone, Debug)]
pub struct Span(SpanData);

impl Span {
    /// Makes the span at `place` below `parent`.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        place: &SpanContext,
        parent: SpanId,
        began: SystemTime,
        ended: SystemTime,
    ) -> Self {
        Self(SpanData {
            span_context: place.clone(),
            parent_span_id: parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: began,
            end_time: ended.max(began),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder(SCOPE).build(),
        })
    }

    /// Gives its id.
    pub fn id(&self) -> SpanId {
        self.0.span_context.span_id()
    }

    /// Says that it is a request to another program.
    #[must_use]
    pub fn client(mut self) -> Self {
        self.0.span_kind = SpanKind::Client;
        self
    }

    /// Says that it is a request of another program.
    #[must_use]
    pub fn server(mut self) -> Self {
        self.0.span_kind = SpanKind::Server;
        self
    }

    /// Adds an attribute. Names and stable words only: what comes from values or messages may be secret.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Display) -> Self {
        self.0.attributes.push(KeyValue::new(key, value.to_string()));
        self
    }

    /// Says that it failed; `why` is a stable word.
    #[must_use]
    pub fn failed(mut self, why: Option<&'static str>) -> Self {
        if let Some(why) = why {
            self.0.status = Status::error(why);
        }
        self
    }

    /// Links it to another span, such as an earlier attempt.
    #[must_use]
    pub fn linked(mut self, other: Option<SpanContext>) -> Self {
        self.0.links.links.extend(other.map(|other| Link::new(other, Vec::new(), 0)));
        self
    }

    /// Marks a moment in it.
    #[must_use]
    pub fn event(mut self, name: &'static str, at: SystemTime) -> Self {
        self.0.events.events.push(Event::new(name, at, Vec::new(), 0));
        self
    }
}

/// Gives the time as spans have it.
pub fn now() -> SystemTime {
    Clock.wall().into()
}

tokio::task_local! {
    static CURRENT: (Tracer, SpanContext);
}

/// Runs `work` as the span at `place`, below which [`step`]s hang.
pub async fn within<T>(tracer: &Tracer, place: SpanContext, work: impl Future<Output = T>) -> T {
    if place.is_sampled() { CURRENT.scope((tracer.clone(), place), work).await } else { work.await }
}

/// Runs `work` as a span of its own below the one it is called in; only runs it, when there is none.
///
/// # Errors
/// The work's own.
pub async fn step<T, E: Word>(
    name: impl Into<Cow<'static, str>>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Ok((tracer, parent)) = CURRENT.try_with(Clone::clone) else { return work.await };
    let trace = parent.trace_id();
    let place = place(trace, fresh(trace), true);
    let began = now();
    let result = CURRENT.scope((tracer.clone(), place.clone()), work).await;
    let why = result.as_ref().err().map(Word::word);
    tracer.emit(Span::new(name, &place, parent.span_id(), began, now()).failed(why));
    result
}

/// An error that has a stable word for itself, which is no secret.
pub trait Word {
    /// Gives the word.
    fn word(&self) -> &'static str;
}

#[cfg(test)]
pub(crate) mod receiver;
#[cfg(test)]
mod tests;

use super::receiver::{Receiver, hanging};
use super::*;
use crate::telemetry::metrics::{Metrics, encode};
use std::time::{Duration, Instant};

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn start(endpoint: &str, metrics: &Metrics) -> Tracer {
    let source = Source { service: "petri-test", pod: Some("pod-1".to_owned()), ..Source::default() };
    Tracer::start(endpoint, 100, source, metrics.clone()).unwrap()
}

fn span(number: u8) -> Span {
    let trace = TraceId::from_bytes([1; 16]);
    Span::new(
        "one",
        &place(trace, SpanId::from_bytes([number.max(1); 8]), true),
        SpanId::INVALID,
        now(),
        now(),
    )
}

fn counted(metrics: &Metrics, result: &str) -> u64 {
    let line = format!("petri_trace_spans_total{{result=\"{result}\"}} ");
    let text = encode(&metrics.registry()).unwrap();
    text.lines().find_map(|found| found.strip_prefix(&line)).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_span_arrives_with_its_place_its_attributes_its_links_and_its_program() {
    let (receiver, metrics) = (Receiver::default(), Metrics::default());
    let tracer = start(&receiver.start().await, &metrics);
    let parent = parse(CALLER).unwrap();
    let here = place(parent.trace_id(), derived(parent.trace_id(), "x"), true);
    let made = Span::new("create jobs", &here, parent.span_id(), now(), now()).client();
    tracer.emit(made.with("k8s.job.name", "j").linked(Some(parent.clone())).failed(Some("backoff")));
    tracer.flush(Duration::from_secs(5)).await;
    let spans = receiver.spans();
    let [got] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!(got.trace_id, parent.trace_id().to_bytes());
    assert_eq!((got.span_id.as_slice(), got.name.as_str()), (&here.span_id().to_bytes()[..], "create jobs"));
    assert_eq!(
        (&got.parent_span_id, &got.links[0].span_id),
        (&parent.span_id().to_bytes().to_vec(), &parent.span_id().to_bytes().to_vec())
    );
    assert_eq!(got.attributes[0].key, "k8s.job.name");
    assert_eq!(got.status.as_ref().unwrap().message, "backoff");
    let program = receiver.resources();
    assert!(["petri-test", "pod-1"].iter().all(|word| program.contains(word)), "{program}");
    assert_eq!((counted(&metrics, "exported"), counted(&metrics, "dropped")), (1, 0));
}

#[tokio::test]
async fn a_receiver_that_hangs_delays_nobody_and_what_it_costs_is_counted() {
    let metrics = Metrics::default();
    let tracer = start(&hanging().await, &metrics);
    let began = Instant::now();
    (0..5000).for_each(|_| tracer.emit(span(1)));
    assert!(began.elapsed() < Duration::from_secs(1), "emitting took {:?}", began.elapsed());
    assert_eq!(counted(&metrics, "dropped"), 5000 - 2048);
    let began = Instant::now();
    tracer.flush(Duration::from_millis(300)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "flushing took {:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(counted(&metrics, "failed") >= 512, "a batch is given up after its time");
}

#[tokio::test]
async fn an_endpoint_that_refuses_loses_spans_and_takes_them_again_later() {
    let metrics = Metrics::default();
    let tracer = start("http://127.0.0.1:1", &metrics);
    tracer.emit(span(1));
    tracer.flush(Duration::from_secs(5)).await;
    assert_eq!(counted(&metrics, "failed"), 1);
    tracer.emit(span(2));
    tracer.flush(Duration::from_secs(5)).await;
    assert_eq!(counted(&metrics, "failed"), 2, "it goes on trying");
}

#[tokio::test]
async fn without_an_endpoint_nothing_is_kept_and_nothing_waits() {
    let metrics = Metrics::default();
    let tracer = Tracer::off(metrics.clone());
    tracer.emit(span(1));
    tracer.flush(Duration::from_secs(60)).await;
    assert_eq!(encode(&metrics.registry()).unwrap().matches("petri_trace_spans_total{").count(), 0);
    assert!(!tracer.samples(TraceId::from_bytes([1; 16])));
}

#[tokio::test]
async fn steps_hang_below_the_one_they_are_called_in_and_tell_a_stable_word_of_a_failure() {
    struct Broken;
    impl Word for Broken {
        fn word(&self) -> &'static str {
            "ChartNotFound"
        }
    }
    let (receiver, metrics) = (Receiver::default(), Metrics::default());
    let tracer = start(&receiver.start().await, &metrics);
    let root = parse(CALLER).unwrap();
    let work = step("locate chart", step("helm pull", async { Err::<(), _>(Broken) }));
    assert!(within(&tracer, root.clone(), work).await.is_err());
    assert!(step("alone", async { Ok::<_, Broken>(1) }).await.is_ok_and(|one| one == 1));
    tracer.flush(Duration::from_secs(5)).await;
    let spans = receiver.spans();
    let [outer, inner] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((outer.name.as_str(), inner.name.as_str()), ("locate chart", "helm pull"));
    assert_eq!(outer.parent_span_id, root.span_id().to_bytes());
    assert_eq!(inner.parent_span_id, outer.span_id);
    assert_eq!(inner.status.as_ref().unwrap().message, "ChartNotFound");
}

#[test]
fn an_id_is_the_same_for_every_program_and_another_for_every_generation() {
    let uid = Uid::new("0b1c").unwrap();
    assert_eq!(trace_id(&uid, 1), trace_id(&uid, 1));
    assert_ne!(trace_id(&uid, 1), trace_id(&uid, 2));
    let trace = trace_id(&uid, 1);
    assert_eq!(derived(trace, "job"), derived(trace, "job"));
    assert_ne!(fresh(trace), fresh(trace));
}

#[test]
fn a_traceparent_is_read_as_it_is_written_and_anything_else_is_none() {
    assert_eq!(traceparent(&parse(CALLER).unwrap()), CALLER);
    for wrong in ["", "x", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01"] {
        assert!(parse(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn the_share_of_traces_that_is_seen_is_decided_by_their_ids() {
    let uid = Uid::new("0b1c").unwrap();
    let seen = |percent| (0..1000).filter(|number| is_sampled(trace_id(&uid, *number), percent)).count();
    assert_eq!((seen(0), seen(100)), (0, 1000));
    assert!((200..300).contains(&seen(25)), "{}", seen(25));
    assert_eq!(seen(25), seen(25));
}

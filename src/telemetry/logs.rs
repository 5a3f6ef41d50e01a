//! JSON lines on standard output, with the trace they belong to.
use crate::clock::Clock;
use serde::{Serializer as _, ser::SerializeMap as _};
use serde_json::{Map, Value};
use std::{error::Error, fmt, time::Duration};
use tracing::{Event, Subscriber, info, warn};
use tracing_serde::{AsSerde as _, SerdeMapVisitor};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormattedFields,
        format::{FormatEvent, FormatFields, JsonFields, Writer},
    },
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

/// Always in force, under whatever is configured. kube's request log calls every refused request an error, and
/// refusals are expected here; the others are chatter of the connection, whose end the watches report themselves.
const QUIET: &str = "kube_client::client=error,kube_client::client::builder=off,hyper_util=warn,h2=warn,rustls=warn,tower=warn";

const LOOK_AGAIN: Duration = Duration::from_secs(10);

type Fault = Box<dyn Error + Send + Sync>;

/// Changes what is logged while the process runs.
pub struct Levels(Box<dyn Fn(EnvFilter) -> Result<(), Fault> + Send>);

impl Levels {
    /// Takes other directives.
    ///
    /// # Errors
    /// They make no filter.
    pub fn set(&self, directives: &str) -> Result<(), Fault> {
        (self.0)(filter(directives)?)
    }
}

/// Starts logging by these directives. `RUST_LOG`, if set, replaces them for good: then nothing is returned that could
/// change them.
///
/// # Errors
/// The directives make no filter, or logging was started before.
pub fn start(directives: &str) -> Result<Option<Levels>, Fault> {
    let replaced = std::env::var("RUST_LOG").ok().filter(|replaced| !replaced.is_empty());
    let builder = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(Line);
    let chosen = filter(replaced.as_deref().unwrap_or(directives))?;
    let builder = builder.with_env_filter(chosen).with_filter_reloading();
    let handle = builder.reload_handle();
    builder.finish().try_init()?;
    let levels = Levels(Box::new(move |filter| Ok(handle.reload(filter)?)));
    Ok(replaced.is_none().then_some(levels))
}

/// Looks at the configured directives for ever, and takes up a change. A person turns a level up to see something
/// now; kubelet takes a minute to bring a changed file, so looking more often gains nothing.
pub async fn follow<E: fmt::Display>(
    levels: Levels,
    mut current: String,
    read: impl Fn() -> Result<String, E> + Send,
) {
    let mut said = None;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let changed = match read() {
            Ok(directives) if directives == current => continue,
            Ok(directives) => levels.set(&directives).map(|()| directives).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match changed {
            Ok(directives) => {
                info!(before = current, after = directives, "the log level was changed");
                current = directives;
                said = None;
            }
            Err(error) if said.as_ref() != Some(&error) => {
                warn!(error, "the changed configuration is not taken up: it would refuse the next start");
                said = Some(error);
            }
            Err(_) => {}
        }
    }
}

fn filter(directives: &str) -> Result<EnvFilter, Fault> {
    Ok(EnvFilter::try_new(format!("{QUIET},{directives}"))?)
}

/// One line: time, level, the event's fields, the target, and the fields of the spans around it (trace and span).
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        cx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut around = Map::new();
        for span in cx.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let Some(fields) = extensions.get::<FormattedFields<N>>() else { continue };
            if let Ok(Value::Object(fields)) = serde_json::from_str(fields) {
                around.extend(fields);
            }
        }
        let line = encode(event, &around).map_err(|_| fmt::Error)?;
        writeln!(writer, "{line}")
    }
}

fn encode(event: &Event<'_>, around: &Map<String, Value>) -> Result<String, Fault> {
    let mut line = Vec::new();
    let mut json = serde_json::Serializer::new(&mut line);
    let mut map = json.serialize_map(None)?;
    map.serialize_entry("timestamp", &Clock.wall())?;
    map.serialize_entry("level", &event.metadata().level().as_serde())?;
    let mut visitor = SerdeMapVisitor::new(map);
    event.record(&mut visitor);
    let mut map = visitor.take_serializer()?;
    map.serialize_entry("target", event.metadata().target())?;
    for (key, value) in around {
        map.serialize_entry(key, value)?;
    }
    map.end()?;
    Ok(String::from_utf8(line)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io,
        sync::{Arc, Mutex, PoisonError},
    };
    use tracing::error_span;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_stable_names_and_the_trace_it_belongs_to() {
        let sink = Sink::default();
        let writer = sink.clone();
        let logs = tracing_subscriber::fmt().fmt_fields(JsonFields::new()).event_format(Line);
        let logs = logs.with_env_filter("info").with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(logs, || {
            let span = error_span!("reconcile", trace_id = tracing::field::Empty, span_id = "2");
            let _entered = span.enter();
            span.record("trace_id", tracing::field::display("1"));
            info!(environment = "pr-7", from = "Pending", "phase changed");
        });
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert!(line["timestamp"].is_string(), "{text}");
        let wanted = [
            ("level", "INFO"),
            ("message", "phase changed"),
            ("environment", "pr-7"),
            ("from", "Pending"),
            ("target", "petri::telemetry::logs::tests"),
            ("trace_id", "1"),
            ("span_id", "2"),
        ];
        for (key, value) in wanted {
            assert_eq!(line[key], value, "{text}");
        }
        assert_eq!((text.lines().count(), line.as_object().unwrap().len()), (1, wanted.len() + 1), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_level_that_changes_in_the_file_is_taken_up_once_and_a_wrong_one_is_not() {
        let set = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&set);
        let levels = Levels(Box::new(move |filter| {
            seen.lock().unwrap().push(filter.to_string());
            Ok(())
        }));
        let file = Arc::new(Mutex::new(Ok("info")));
        let read = Arc::clone(&file);
        let read = move || read.lock().unwrap().map(str::to_owned);
        tokio::spawn(follow(levels, "info".to_owned(), read));
        for (content, changes) in
            [(Ok("info"), 0), (Ok("info,petri=debug"), 1), (Err("bad"), 1), (Ok("=,="), 1)]
        {
            *file.lock().unwrap() = content;
            tokio::time::sleep(3 * LOOK_AGAIN).await;
            assert_eq!(set.lock().unwrap().len(), changes, "{content:?}");
        }
        assert!(set.lock().unwrap()[0].contains("petri=debug"));
    }
}

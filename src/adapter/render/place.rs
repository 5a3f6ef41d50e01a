//! Where an execution failed: gotmpl does not tell, so the text is run once more with a marker before each action.
//!
//! What that run prints differs in white space and is thrown away; what it evaluates, and in which order, does not.

use super::{
    Output, RANGE_STEPS_MAX, functions,
    scan::{Action, Kind},
};
use gotmpl::{MissingKey, Template, Value};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// No text can call it: the names that one may call are checked before.
const MARKER: &str = "petriAt";

/// Finds the action that a text failed in; or that printed nothing's name, where the text came to its end.
pub(super) fn failed<'a>(source: &str, actions: &'a [Action], data: &Value) -> Option<&'a Action> {
    let last = Arc::new(AtomicUsize::new(usize::MAX));
    let mark = {
        let last = Arc::clone(&last);
        Arc::new(move |args: &[Value]| {
            let number = args.first().and_then(Value::as_int).and_then(|number| usize::try_from(number).ok());
            last.store(number.unwrap_or(usize::MAX), Ordering::Relaxed);
            Ok(Value::String("".into()))
        })
    };
    let mut functions = functions::all();
    functions.insert(MARKER.to_owned(), mark);
    let template = Template::new("").missing_key(MissingKey::Error).max_range_iters(RANGE_STEPS_MAX);
    let template = template.funcs(functions).parse(&marked(source, actions)).ok()?;
    let mut output = Watched { output: Output::default(), last: Arc::clone(&last), nothing: None };
    let place = match template.execute_fmt(&mut output, data) {
        Ok(()) => output.nothing?,
        Err(_) => last.load(Ordering::Relaxed),
    };
    actions.get(place)
}

/// The text with markers. An `else if` becomes an `else` with an `if` in it, which Go defines it to be, so that its
/// condition has a marker of its own.
fn marked(source: &str, actions: &[Action]) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    let mut from = 0;
    for (number, action) in actions.iter().enumerate() {
        let text = |from, to| source.get(from..to).unwrap_or_default();
        out.push_str(text(from, action.at));
        let marker = format!("{{{{ {MARKER} {number} }}}}");
        match action.kind {
            Kind::Plain => out.extend([&marker, text(action.at, action.end)]),
            Kind::Frame => out.push_str(text(action.at, action.end)),
            Kind::Chained(second) => out.extend(["{{ else }}", &marker, "{{", text(second, action.end)]),
            Kind::End(chained) => out.push_str(&"{{ end }}".repeat(chained + 1)),
        }
        from = action.end;
    }
    out + source.get(from..).unwrap_or_default()
}

/// Sees when nothing's name is printed.
struct Watched {
    output: Output,
    last: Arc<AtomicUsize>,
    nothing: Option<usize>,
}

impl fmt::Write for Watched {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.contains(super::NO_VALUE) {
            self.nothing.get_or_insert_with(|| self.last.load(Ordering::Relaxed));
        }
        self.output.write_str(part)
    }
}

//! Go templates in values: gotmpl with `missingkey=error`, and around it the checks that it lacks.
//!
//! gotmpl accepts some texts that Go refuses (blocks that are never closed, undeclared variables, `<no value>`):
//! a typo must not pass. And its callers may be strangers, so everything is bounded: range steps, expanded nodes,
//! bytes that functions make, bytes of the result.

mod functions;
mod place;
mod scan;
mod syntax;

use gotmpl::{MissingKey, Template, TemplateError, Value, parse::Parser};
use scan::Action;
use std::fmt;
use syntax::Read;

/// Steps of all `range` loops of one text together; the data holds no list, so more is a mistake or an attack.
const RANGE_STEPS_MAX: u64 = 100;
/// Bytes of one rendered text; the payload of a whole component fits into a Secret of 1 MiB.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What Go prints for a value that is nothing.
const NO_VALUE: &str = "<no value>";

/// What a template sees as its dot.
#[derive(Clone, Debug)]
pub struct Variables(Value);

impl Variables {
    /// Takes the data as JSON; a key that is absent is an error where a template uses it.
    pub fn new(data: &serde_json::Value) -> Self {
        Self(gotmpl::to_value(data).unwrap_or(Value::Nil))
    }
}

/// Says why a text does not render, and where; line and column count from 1. Never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct RenderError {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

/// Something wrong at one byte of the text.
#[derive(Debug)]
struct Fault {
    at: usize,
    message: String,
}

impl Fault {
    fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    fn locate(self, source: &str) -> RenderError {
        let before = source.get(..self.at.min(source.len())).unwrap_or(source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        RenderError { line, column, message: self.message }
    }
}

/// Renders one text.
///
/// # Errors
/// The text is no template, uses something that does not exist, or exceeds a bound.
pub fn render(source: &str, variables: &Variables) -> Result<String, RenderError> {
    if !source.contains("{{") {
        return Ok(source.to_owned());
    }
    let actions = scan::check(source).map_err(|fault| fault.locate(source))?;
    let (main, defines) = Parser::new(source, "{{", "}}").and_then(Parser::parse).map_err(unparsed)?;
    let reads = syntax::check(source, &main, &defines).map_err(|fault| fault.locate(source))?;
    let template = Template::new("")
        .missing_key(MissingKey::Error)
        .max_range_iters(RANGE_STEPS_MAX)
        .funcs(functions::all())
        .parse(source)
        .map_err(unparsed)?;
    let mut output = Output::default();
    let fault = match template.execute_fmt(&mut output, &variables.0) {
        Ok(()) if output.text.contains(NO_VALUE) => {
            let at = place::failed(source, &actions, &variables.0).map_or(0, |action| action.at);
            Fault::new(at, format!("the result holds {NO_VALUE:?}: something in it does not exist"))
        }
        Ok(()) => return Ok(output.text),
        Err(error) => {
            let action = place::failed(source, &actions, &variables.0);
            let at = action.map_or(0, |action| action.at);
            match error {
                TemplateError::MissingKey { key } => missing(&key, &reads, action, &variables.0),
                _ if output.full => {
                    Fault::new(at, format!("the result has more than {OUTPUT_BYTES_MAX} bytes"))
                }
                other => Fault::new(at, failed(other)),
            }
        }
    };
    Err(fault.locate(source))
}

/// gotmpl names the last key only; the whole path stands in the text.
fn missing(key: &str, reads: &[Read], action: Option<&Action>, data: &Value) -> Fault {
    let lacks = |read: &Read| {
        let known = |path: &[String]| path.iter().try_fold(data, |at, name| at.field(name)).is_some();
        let names = read.path.as_ref().unwrap_or(&read.written);
        let ends = |depth: &usize| names.get(*depth).is_some_and(|name| name == key);
        let depth = (0..names.len()).filter(ends).find(|depth| {
            let (before, with) = (names.get(..*depth), names.get(..=*depth));
            read.path.is_none() || (before.is_some_and(known) && !with.is_some_and(known))
        })?;
        let path = names.get(..=depth).unwrap_or_default().join(".");
        Some(Fault::new(read.at, format!("{}.{path} does not exist", read.of)))
    };
    let inside = |read: &&Read| action.is_none_or(|action| (action.at..action.end).contains(&read.at));
    let here = reads.iter().filter(inside).find_map(lacks);
    let at = action.map_or(0, |action| action.at);
    here.unwrap_or_else(|| Fault::new(at, format!("key {key:?} does not exist")))
}

fn unparsed(error: TemplateError) -> RenderError {
    match error {
        TemplateError::Parse { line, col, message, .. } | TemplateError::Lex { line, col, message, .. } => {
            RenderError { line, column: col, message }
        }
        other => RenderError { line: 1, column: 1, message: failed(other) },
    }
}

fn failed(error: TemplateError) -> String {
    match error {
        TemplateError::Exec(message) => message,
        TemplateError::RangeIterLimit => format!("range takes more than {RANGE_STEPS_MAX} steps"),
        other => other.to_string(),
    }
}

/// A text that takes no more than its bound.
#[derive(Default)]
struct Output {
    text: String,
    full: bool,
}

impl fmt::Write for Output {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.full = self.text.len() + part.len() > OUTPUT_BYTES_MAX;
        if self.full {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

#[cfg(test)]
mod table;
#[cfg(test)]
mod tests;

//! Go templates in values: gotmpl with `missingkey=error`, and around it the checks that it lacks.
//!
//! gotmpl accepts some texts that Go refuses (blocks that are never closed, undeclared variables, `<no value>`):
//! a typo must not pass. And its callers may be strangers, so everything is bounded: range steps, expanded nodes,
//! bytes that functions make, bytes of the result.

mod functions;
mod scan;
mod syntax;

use gotmpl::{MissingKey, Template, TemplateError, Value, parse::Parser};
use std::fmt;

/// Steps of all `range` loops of one text together; the data holds no list, so more is a mistake or an attack.
const RANGE_STEPS_MAX: u64 = 100;
/// Bytes of one rendered text; the payload of a whole component fits into a Secret of 1 MiB.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// What a template sees as its dot.
#[derive(Clone, Debug)]
pub struct Variables(Value);

impl Variables {
    /// Takes the data as JSON; a key that is absent is an error where a template uses it.
    pub fn new(data: &serde_json::Value) -> Self {
        Self(gotmpl::to_value(data).unwrap_or(Value::Nil))
    }
}

/// Says why a text does not render.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// The text is no template; line and column count from 1.
    #[error("{line}:{column}: {message}")]
    Syntax {
        /// Line.
        line: usize,
        /// Column, in characters.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A variable does not exist.
    #[error("{0} does not exist")]
    MissingKey(String),
    /// A value is used that is nothing.
    #[error("the result holds \"<no value>\": something in it does not exist")]
    NoValue,
    /// A function failed, or a bound was hit.
    #[error("{0}")]
    Failed(String),
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
        RenderError::Syntax { line, column, message: self.message }
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
    scan::check(source).map_err(|fault| fault.locate(source))?;
    let (main, defines) = Parser::new(source, "{{", "}}").and_then(Parser::parse).map_err(failed)?;
    let used = syntax::check(&main, &defines).map_err(|fault| fault.locate(source))?;
    let template = Template::new("")
        .missing_key(MissingKey::Error)
        .max_range_iters(RANGE_STEPS_MAX)
        .funcs(functions::all())
        .parse(source)
        .map_err(failed)?;
    let mut output = Output::default();
    template.execute_fmt(&mut output, &variables.0).map_err(|error| match error {
        TemplateError::MissingKey { key } => RenderError::MissingKey(path(&key, &used, &variables.0)),
        _ if output.full => RenderError::Failed(format!("the result has more than {OUTPUT_BYTES_MAX} bytes")),
        other => failed(other),
    })?;
    if output.text.contains("<no value>") && !source.contains("<no value>") {
        return Err(RenderError::NoValue);
    }
    Ok(output.text)
}

/// gotmpl names the last key only; the whole path stands in the text.
fn path(key: &str, used: &[Vec<String>], data: &Value) -> String {
    let up_to_missing = |chain: &Vec<String>| {
        let mut at = data;
        for (depth, name) in chain.iter().enumerate() {
            match at.field(name) {
                Some(next) => at = next,
                None => return (name == key).then(|| format!(".{}", chain[..=depth].join("."))),
            }
        }
        None
    };
    used.iter().find_map(up_to_missing).unwrap_or_else(|| format!("key {key:?}"))
}

fn failed(error: TemplateError) -> RenderError {
    match error {
        TemplateError::Parse { line, col, message, .. } | TemplateError::Lex { line, col, message, .. } => {
            RenderError::Syntax { line, column: col, message }
        }
        TemplateError::Exec(message) => RenderError::Failed(message),
        TemplateError::RangeIterLimit => {
            RenderError::Failed(format!("range takes more than {RANGE_STEPS_MAX} steps"))
        }
        other => RenderError::Failed(other.to_string()),
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
mod tests;

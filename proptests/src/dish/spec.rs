//! What a user may ask for, in one line of text: `a:1; b:1<-a; c:2!<-a b`.
//!
//! A component is `name:payload`, `!` marks an immutable chart source, `<-` is followed by what it depends on.
//! A line that begins with `!` cannot be worked with; the rest of it is the message.

use petri_machines::{
    environment::{Blueprint, Invalid, Plan, Reason},
    names::{ComponentName, Digest},
};

/// Seconds that a component of the dish has to become ready.
pub const READY_WITHIN_SECS: u64 = 900;

/// A line that is no specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a specification: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads one line.
///
/// # Errors
/// What is wrong with which part.
pub fn parse(line: &str) -> Result<Result<Plan, Invalid>, Malformed> {
    if let Some(message) = line.strip_prefix('!') {
        return Ok(Err(Invalid { reason: Reason::TemplateNotFound, message: message.trim().to_owned() }));
    }
    let parts = line.split(';').map(str::trim).filter(|part| !part.is_empty());
    let blueprints = parts.map(blueprint).collect::<Result<Vec<_>, _>>()?;
    Ok(Plan::new(&blueprints)
        .map_err(|error| Invalid { reason: Reason::InvalidConfiguration, message: error.to_string() }))
}

fn blueprint(part: &str) -> Result<Blueprint, Malformed> {
    let bad = |why: &str| Malformed(format!("{part:?}: {why}"));
    let (head, needs) = part.split_once("<-").unwrap_or((part, ""));
    let (name, payload) = head.trim().split_once(':').ok_or_else(|| bad("expected name:payload"))?;
    let component = |text: &str| ComponentName::new(text).map_err(|error| bad(&error.to_string()));
    Ok(Blueprint {
        name: component(name.trim())?,
        depends_on: needs.split_whitespace().map(component).collect::<Result<_, _>>()?,
        payload: Digest::of(&[name.trim(), payload.trim().trim_end_matches('!')]),
        immutable: payload.trim().ends_with('!'),
        ready_within_secs: READY_WITHIN_SECS,
    })
}

//! What a user may ask for, in one line of text: `a:1; b:1<-a; c:2!<-a b`.
//!
//! A component is `name:payload`, `!` marks an immutable chart source, `<-` is followed by what it depends on.
//! A part that begins with `+` is furniture: `+Secret/pull:1`, `+HTTPRoute/web:1`; a route has an address, too.
//! A line that begins with `!` cannot be worked with; the rest of it is the message.

use petri_machines::{
    environment::{Blueprint, FurnitureId, Invalid, Plan, Reason, Route},
    names::{ComponentName, Digest},
};
use std::collections::BTreeMap;

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
    let (extras, parts): (Vec<&str>, Vec<&str>) = parts.partition(|part| part.starts_with('+'));
    let blueprints = parts.into_iter().map(blueprint).collect::<Result<Vec<_>, _>>()?;
    let furniture = extras.into_iter().map(piece).collect::<Result<BTreeMap<_, _>, _>>()?;
    let route = furniture.keys().find(|item| item.kind.is_route());
    let route = route.map(|item| Route { item: item.clone(), url: format!("http://{}", item.name) });
    Ok(Plan::new(&blueprints)
        .map(|plan| plan.with_furniture(furniture, route))
        .map_err(|error| Invalid { reason: Reason::InvalidConfiguration, message: error.to_string() }))
}

fn piece(part: &str) -> Result<(FurnitureId, Digest), Malformed> {
    let bad = |why: &str| Malformed(format!("{part:?}: {why}"));
    let (id, made_from) = part[1..].split_once(':').ok_or_else(|| bad("expected +Kind/name:content"))?;
    let id = FurnitureId::try_from(id.trim().to_owned()).map_err(|error| bad(&error.to_string()))?;
    let digest = Digest::of(&[&id.to_string(), made_from.trim()]);
    Ok((id, digest))
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

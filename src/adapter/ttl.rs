//! When an environment's time to live ends.

use petri_crds::{DurationError, EnvironmentTemplate, EphemeralEnvironment, Ttl};
use petri_machines::kernel::Timestamp;

/// Holds the two moments that a time to live makes; both `None` for an environment that does not expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    /// When the environment deletes itself.
    pub at: Option<Timestamp>,
    /// When a tenth of its time to live is left.
    pub near_at: Option<Timestamp>,
}

/// Says when an environment expires, counted from its creation. Its own `ttl` counts whether or not the template is
/// there; an empty one takes the template's, and nothing when there is no template.
///
/// # Errors
/// The text that decides is no Go duration, or negative.
pub fn expiry(
    environment: &EphemeralEnvironment,
    template: Option<&EnvironmentTemplate>,
) -> Result<Expiry, DurationError> {
    let inherited = template.map_or("", |template| template.spec.ttl.as_str());
    let Some(secs) = Ttl::resolve(&environment.spec.ttl, inherited)? else { return Ok(Expiry::default()) };
    let created = environment.metadata.creation_timestamp.as_ref();
    let Some(created) = created.and_then(|time| u64::try_from(time.0.as_second()).ok()).map(Timestamp) else {
        return Ok(Expiry::default());
    };
    Ok(Expiry { at: Some(created.after(secs)), near_at: Some(created.after(secs - secs / 10)) })
}

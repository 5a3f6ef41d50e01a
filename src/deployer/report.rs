//! What a deployer Job says at its end, through the container's termination log.

use petri_machines::reason::FailureReason;
use serde::{Deserialize, Serialize};

/// Kubernetes keeps this much of a termination message, in bytes, and cuts the rest off blindly.
pub const TERMINATION_LOG_MAX: usize = 4096;

/// Shares the room of a cut message between its start and its end: errors are wrapped from the outside in, so
/// the root cause stands at the end.
const HEAD_SHARE: usize = 3;

/// Holds the outcome of one Job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Report {
    /// The release is what was asked for.
    Succeeded {
        /// Revision of the release in force; none after an undeploy.
        #[serde(skip_serializing_if = "Option::is_none")]
        revision: Option<u32>,
        /// What had to be left out to get there, for example a delete hook that kept failing.
        #[serde(skip_serializing_if = "Option::is_none")]
        skipped: Option<String>,
    },
    /// The release is not what was asked for.
    Failed {
        /// Cause, from the closed set.
        reason: FailureReason,
        /// Detail for a person.
        message: String,
    },
}

/// Reads every field as text first: what stands in a termination log need not be ours.
#[derive(Deserialize)]
struct Raw {
    outcome: String,
    revision: Option<u32>,
    skipped: Option<String>,
    reason: Option<String>,
    message: Option<String>,
}

impl Report {
    /// Reads a termination message; `None` when it is not a report (the container runtime writes there as
    /// well).
    ///
    /// A reason that is not known, as from a newer deployer, becomes `HelmFailed`.
    pub fn parse(text: &str) -> Option<Self> {
        let raw: Raw = serde_json::from_str(text.trim()).ok()?;
        match raw.outcome.as_str() {
            "succeeded" => Some(Self::Succeeded { revision: raw.revision, skipped: raw.skipped }),
            "failed" => {
                let name = raw.reason?;
                let message = raw.message.unwrap_or_default();
                Some(match FailureReason::from_name(&name) {
                    Some(reason) => Self::Failed { reason, message },
                    None => Self::Failed {
                        reason: FailureReason::HelmFailed,
                        message: format!("{name}: {message}"),
                    },
                })
            }
            _ => None,
        }
    }

    /// Gives the JSON for the termination log: at most [`TERMINATION_LOG_MAX`] bytes, text cut in the middle.
    pub fn termination_log(&self) -> String {
        let mut room = TERMINATION_LOG_MAX;
        loop {
            let text = self.with_text(|text| cut_in_the_middle(&printable(text), room)).json();
            let Some(excess) = text.len().checked_sub(TERMINATION_LOG_MAX + 1) else {
                return text;
            };
            // Escapes make the JSON longer than the text; what is over is at least halved each time.
            room = room.saturating_sub((excess / 2).max(1));
        }
    }

    fn with_text(&self, change: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Succeeded { revision, skipped } => {
                Self::Succeeded { revision: *revision, skipped: skipped.as_deref().map(change) }
            }
            Self::Failed { reason, message } => Self::Failed { reason: *reason, message: change(message) },
        }
    }

    fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| r#"{"outcome":"failed"}"#.to_owned())
    }
}

/// Leaves line breaks and tabs, makes blanks of the other control characters (JSON would need six bytes for
/// each).
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// Shortens `text` to at most `max` bytes by leaving out its middle; never splits a character.
pub fn cut_in_the_middle(text: &str, max: usize) -> String {
    const MARK: &str = " … ";
    if text.len() <= max {
        return text.to_owned();
    }
    let Some(room) = max.checked_sub(MARK.len()) else {
        return String::new();
    };
    let head = text.floor_char_boundary(room / HEAD_SHARE);
    let tail = text.ceil_char_boundary(text.len() - (room - head));
    format!("{}{MARK}{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests;

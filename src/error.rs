//! What can go wrong with one call to the API server, and with starting up.
use crate::telemetry::trace::Word;
use kube::core::Status;
use std::{error::Error as StdError, time::Duration};

/// The effects client refused a write because this process does not lead, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not lead: no write is sent")]
pub struct NotLeading;

/// Why one call to the API server has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered with an error.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// There was no answer in time; a write may have been done.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The write was not sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The connection failed, or the answer made no sense; a write may have been done.
    #[error("{}", causes(.0.as_ref()))]
    Transport(#[source] Box<kube::Error>),
}

impl CallError {
    /// Returns the server's answer, if it gave one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api(status) => Some(status),
            Self::TimedOut(_) | Self::NotLeading(_) | Self::Transport(_) => None,
        }
    }

    /// Tells whether the server said that there is no such object (or no such kind).
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Tells whether a precondition failed or the name is taken (409).
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// Tells whether a write may have been done although there is no answer.
    pub fn is_ambiguous(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::Transport(_) => true,
            Self::Api(status) => status.code >= 500,
            Self::NotLeading(_) => false,
        }
    }
}

impl Word for CallError {
    fn word(&self) -> &'static str {
        match self {
            Self::Api(status) if status.code >= 500 => "server_error",
            Self::Api(_) => "refused",
            Self::TimedOut(_) => "timed_out",
            Self::NotLeading(_) => "not_leading",
            Self::Transport(_) => "no_answer",
        }
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api(status),
            other if is_caused_by_not_leading(&other) => Self::NotLeading(NotLeading),
            other => Self::Transport(Box::new(other)),
        }
    }
}

/// Writes an error with what caused it, without saying anything twice: what matters ("connection refused") is
/// usually the last cause.
pub fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

fn is_caused_by_not_leading(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<NotLeading>() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer failed: {inner}")]
    struct Outer {
        #[source]
        inner: Inner,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("inner failed")]
    struct Inner(#[source] std::io::Error);

    #[test]
    fn every_cause_is_said_once() {
        let error = Outer { inner: Inner(std::io::Error::other("connection refused")) };
        assert_eq!(causes(&error), "outer failed: inner failed: connection refused");
    }

    #[test]
    fn an_answer_of_the_server_keeps_its_words_and_is_ambiguous_only_from_500() {
        let answered = |code: u16| {
            let status = Status { code, message: "it says so".to_owned(), ..Status::default() };
            CallError::from(kube::Error::Api(Box::new(status)))
        };
        assert_eq!(answered(409).to_string(), "it says so");
        assert!(answered(409).is_conflict() && answered(404).is_not_found());
        assert!(!answered(409).is_ambiguous() && answered(503).is_ambiguous());
        assert!(CallError::TimedOut(Duration::from_secs(8)).is_ambiguous());
        assert!(!CallError::NotLeading(NotLeading).is_ambiguous());
    }
}

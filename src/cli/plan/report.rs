//! What `plan` prints for programs.

use super::manifest::Place;
use petri_machines::environment::Invalid;
use serde::Serialize;
use serde_json::{Map, Value};

/// All of it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) environments: Vec<Environment>,
    pub(super) errors: Vec<Fault>,
}

/// One environment that would be deployed.
#[derive(Debug, Serialize)]
pub(super) struct Environment {
    pub(super) name: String,
    pub(super) levels: Vec<Vec<String>>,
    pub(super) components: Vec<Component>,
}

/// One of its Helm components.
#[derive(Debug, Serialize)]
pub(super) struct Component {
    pub(super) name: String,
    pub(super) release: String,
    pub(super) values: Map<String, Value>,
    pub(super) env: Vec<Value>,
    pub(super) job: Job,
}

/// Its first deploy Job.
#[derive(Debug, Serialize)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) digest: String,
}

/// Why something would not be deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) path: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(place: Place, reason: &str, message: String) -> Self {
        Self { file: place.file, line: place.line, path: place.path, reason: reason.to_owned(), message }
    }

    pub(super) fn of(place: Place, invalid: Invalid) -> Self {
        Self::new(place, invalid.reason.as_str(), invalid.message)
    }
}

//! What the deployer is told by its environment.

use std::path::PathBuf;
use std::time::Duration;

use petri_machines::release::Operation;

use super::payload::CREDENTIALS_DIR;

/// The operator's default: a Job's backstop of 15 minutes less the minute in which the deployer ends itself.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(14 * 60);
/// No Job lasts longer than a day.
const DEADLINE_MAX_SECS: u64 = 24 * 60 * 60;
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Holds the deployer's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What is to be done (`PETRI_OP`).
    pub operation: Operation,
    /// Where the payload stands.
    pub payload: PayloadFrom,
    /// The deployer's own time (`PETRI_DEADLINE_SECS`).
    pub deadline: Duration,
    /// Helm's binary (`PETRI_HELM`, default `helm` on the path).
    pub helm: PathBuf,
    /// Where a private directory may be made.
    pub temp_dir: PathBuf,
    /// Where the credentials of the chart source are mounted.
    pub credentials_dir: PathBuf,
}

/// Says where the payload stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PayloadFrom {
    /// In a file (`PETRI_SPEC_FILE`).
    File(PathBuf),
    /// In the environment (`PETRI_SPEC`).
    Text(String),
}

/// Says which variable is wrong. Never holds the payload.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// A variable has a value that is not allowed.
    #[error("{name} is {value:?}, expected {expected}")]
    Value {
        /// Name of the variable.
        name: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        expected: &'static str,
    },
    /// A variable is missing.
    #[error("{0} is not set")]
    Missing(&'static str),
}

impl Settings {
    /// Reads the settings through `variable`, which looks a variable up.
    ///
    /// # Errors
    /// A variable is missing or wrong.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let operation = match set("PETRI_OP").as_deref() {
            Some("deploy") => Operation::Deploy,
            Some("undeploy") => Operation::Undeploy,
            Some(other) => {
                let expected = "deploy or undeploy";
                return Err(SettingsError::Value { name: "PETRI_OP", value: other.to_owned(), expected });
            }
            None => return Err(SettingsError::Missing("PETRI_OP")),
        };
        let payload = match (set("PETRI_SPEC_FILE"), set("PETRI_SPEC")) {
            (Some(path), _) => PayloadFrom::File(path.into()),
            (None, Some(text)) => PayloadFrom::Text(text),
            (None, None) => return Err(SettingsError::Missing("PETRI_SPEC_FILE")),
        };
        let path = |name: &str, default: &str| PathBuf::from(set(name).unwrap_or_else(|| default.to_owned()));
        Ok(Self {
            operation,
            payload,
            deadline: deadline(set("PETRI_DEADLINE_SECS"))?,
            helm: path("PETRI_HELM", "helm"),
            temp_dir: path("TMPDIR", "/tmp"),
            credentials_dir: path("PETRI_CREDENTIALS_DIR", CREDENTIALS_DIR),
        })
    }
}

fn deadline(value: Option<String>) -> Result<Duration, SettingsError> {
    let Some(value) = value else {
        return Ok(DEADLINE_DEFAULT);
    };
    match value.parse::<u64>() {
        Ok(secs) if (1..=DEADLINE_MAX_SECS).contains(&secs) => Ok(Duration::from_secs(secs)),
        _ => {
            let expected = "whole seconds, one to a day";
            Err(SettingsError::Value { name: "PETRI_DEADLINE_SECS", value, expected })
        }
    }
}

/// Gives the file for the report; the second part says whether it may be created.
///
/// The kubelet makes the default one; without a kubelet there must be none.
pub fn termination_log(variable: impl Fn(&str) -> Option<String>) -> (PathBuf, bool) {
    match variable("PETRI_TERMINATION_LOG").filter(|value| !value.is_empty()) {
        Some(path) => (path.into(), true),
        None => (TERMINATION_LOG.into(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    }

    #[test]
    fn two_variables_are_enough() {
        let settings = read(&[("PETRI_OP", "undeploy"), ("PETRI_SPEC", "{}")]).expect("enough");
        assert_eq!(settings.operation, Operation::Undeploy);
        assert_eq!(settings.payload, PayloadFrom::Text("{}".to_owned()));
        assert_eq!(settings.deadline, Duration::from_secs(840));
    }

    #[test]
    fn the_file_goes_before_the_text() {
        let all = [
            ("PETRI_OP", "deploy"),
            ("PETRI_SPEC", "{}"),
            ("PETRI_SPEC_FILE", "/p"),
            ("PETRI_DEADLINE_SECS", "9"),
        ];
        let settings = read(&all).expect("good");
        assert_eq!(settings.payload, PayloadFrom::File("/p".into()));
        assert_eq!(settings.deadline, Duration::from_secs(9));
    }

    #[test]
    fn a_variable_that_is_missing_or_wrong_is_named() {
        let message = |variables: &[(&str, &str)]| read(variables).expect_err("refused").to_string();
        assert_eq!(message(&[]), "PETRI_OP is not set");
        assert_eq!(message(&[("PETRI_OP", "x")]), "PETRI_OP is \"x\", expected deploy or undeploy");
        assert_eq!(message(&[("PETRI_OP", "deploy")]), "PETRI_SPEC_FILE is not set");
        for secs in ["0", "-1", "1e3", "86401", "99999999999999999999"] {
            let text =
                message(&[("PETRI_OP", "deploy"), ("PETRI_SPEC", "{}"), ("PETRI_DEADLINE_SECS", secs)]);
            assert!(text.starts_with("PETRI_DEADLINE_SECS is"), "{text}");
        }
    }
}

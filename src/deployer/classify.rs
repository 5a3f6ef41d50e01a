//! From what helm says to a reason: one table per stage, first match wins.
//!
//! The texts are those of helm 4.3.1 and of the API server 1.37; `testdata/` holds a real sample of each.

use petri_machines::reason::FailureReason;

use crate::telemetry::trace;

use super::limits::Ended;

/// Carries why an attempt failed, as it will be reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", .reason.as_str())]
pub struct Failure {
    /// Cause, from the closed set.
    pub reason: FailureReason,
    /// Detail for a person.
    pub message: String,
}

impl trace::Word for Failure {
    fn word(&self) -> &'static str {
        self.reason.as_str()
    }
}

impl Failure {
    /// Makes a failure.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Makes the failure of work that had to end early; `what` names the work.
    pub fn ended(ended: Ended, what: &str) -> Self {
        match ended {
            Ended::Deadline => Self::new(FailureReason::JobDeadline, format!("no time is left for {what}")),
            Ended::Stopped => {
                Self::new(FailureReason::HelmFailed, format!("stopped by SIGTERM during {what}"))
            }
        }
    }

    /// Puts what was being done before the message.
    #[must_use]
    pub fn during(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }
}

/// Names what helm was doing: the same words mean different things in different stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Getting the chart.
    Source,
    /// Installing, upgrading or rolling back.
    Release,
    /// Uninstalling.
    Removal,
}

/// A rule holds when the text contains all of its parts.
type Rule = (&'static [&'static str], FailureReason);

const SOURCE: &[Rule] = &[
    (&["401 Unauthorized"], FailureReason::SourceUnauthorized),
    (&["403 Forbidden"], FailureReason::SourceUnauthorized),
    (&["status code 401"], FailureReason::SourceUnauthorized),
    (&["status code 403"], FailureReason::SourceUnauthorized),
    (&["basic credential not found"], FailureReason::SourceUnauthorized),
    (&["The requested URL returned error: 403"], FailureReason::SourceUnauthorized),
    (&["Authentication failed"], FailureReason::SourceUnauthorized),
    (&["could not read Username"], FailureReason::SourceUnauthorized),
    (&["Permission denied (publickey"], FailureReason::SourceUnauthorized),
    (&["Host key verification failed"], FailureReason::SourceUnauthorized),
    (&["could not find : no matching version"], FailureReason::ChartVersionNotFound),
    (&["could not find : entry not found"], FailureReason::ChartNotFound),
    (&[" chart not found in repo "], FailureReason::ChartNotFound),
    (&["can't get a valid version for "], FailureReason::ChartVersionNotFound),
    (&["is out of sync with the dependencies file"], FailureReason::ChartInvalid),
    (&["no chart name found"], FailureReason::ChartNotFound),
    (&["no chart version found for "], FailureReason::ChartVersionNotFound),
    (&["chart \"", "\" version \"", " not found in "], FailureReason::ChartVersionNotFound),
    (&["chart \"", " not found in "], FailureReason::ChartNotFound),
    (&["\"FetchReference\" on source", ": not found"], FailureReason::ChartVersionNotFound),
    (&["unable to locate any tags"], FailureReason::ChartNotFound),
    (&["could not locate a version matching"], FailureReason::ChartVersionNotFound),
    (&["/index.yaml : 404"], FailureReason::ChartNotFound),
    (&["fetch", " : 404 "], FailureReason::ChartNotFound),
    (&["couldn't find remote ref"], FailureReason::ChartVersionNotFound),
    (&["not our ref"], FailureReason::ChartVersionNotFound),
    (&["does not allow request for unadvertised object"], FailureReason::ChartVersionNotFound),
    (&["Needed a single revision"], FailureReason::ChartVersionNotFound),
    (&["repository '", "' not found"], FailureReason::ChartNotFound),
    (&["does not appear to be a git repository"], FailureReason::ChartNotFound),
    (&["improper constraint"], FailureReason::ChartVersionNotFound),
    (&["gzip: invalid header"], FailureReason::ChartInvalid),
    (&["Chart.yaml file is missing"], FailureReason::ChartInvalid),
    (&["cannot load Chart.yaml"], FailureReason::ChartInvalid),
    (&["validation: chart.metadata"], FailureReason::ChartInvalid),
    (&["chart illegally contains"], FailureReason::ChartInvalid),
    (&["chart illegally references"], FailureReason::ChartInvalid),
    (&["decompressed chart is larger than"], FailureReason::ChartInvalid),
    (&["chart name not specified"], FailureReason::ChartInvalid),
    (&["no files in chart archive"], FailureReason::ChartInvalid),
    (&["manifest does not contain minimum number of descriptors"], FailureReason::ChartInvalid),
    (&["with mediatype application/vnd.cncf.helm."], FailureReason::ChartInvalid),
];

/// Precise causes stand before the frame they come in (a hook may fail by a quota), the frame before vague
/// causes.
const RELEASE: &[Rule] = &[
    (&["field is immutable"], FailureReason::ImmutableField),
    (&["updates to statefulset spec for fields other than"], FailureReason::ImmutableField),
    (&["spec is immutable after creation"], FailureReason::ImmutableField),
    (&["may not change once set"], FailureReason::ImmutableField),
    (&["no matches for kind"], FailureReason::KindNotServed),
    (&["sh.helm.release.", "Too long: may not be more than"], FailureReason::ReleaseTooLarge),
    (&["create: failed to create: Request entity too large"], FailureReason::ReleaseTooLarge),
    (&["create: failed to create: etcdserver: request is too large"], FailureReason::ReleaseTooLarge),
    (&["exceeded quota"], FailureReason::QuotaExceeded),
    (&["failed quota"], FailureReason::QuotaExceeded),
    (&["is forbidden: ", "usage per "], FailureReason::QuotaExceeded),
    (&["admission webhook ", " denied the request"], FailureReason::AdmissionDenied),
    (&["ValidatingAdmissionPolicy ", "denied request"], FailureReason::AdmissionDenied),
    (&["violates PodSecurity"], FailureReason::AdmissionDenied),
    (&["is forbidden: User ", " cannot "], FailureReason::Forbidden),
    (&["attempting to grant RBAC permissions not currently held"], FailureReason::Forbidden),
    (&["Apply failed with ", " conflict"], FailureReason::Conflict),
    (&["another operation (install/upgrade/rollback) is in progress"], FailureReason::Conflict),
    (&["cannot be imported into the current release"], FailureReason::Conflict),
    (&["cannot reuse a name that is still in use"], FailureReason::Conflict),
    (&["the object has been modified"], FailureReason::Conflict),
    (&["field not declared in schema"], FailureReason::ChartInvalid),
    (&["failed to create typed patch object"], FailureReason::ChartInvalid),
    (&["error validating data"], FailureReason::ChartInvalid),
    (&[" is invalid: "], FailureReason::ValuesInvalid),
    (&["values don't meet the specifications of the schema"], FailureReason::ValuesInvalid),
    (&["failed to parse", "values"], FailureReason::ValuesInvalid),
    (&["cannot unmarshal yaml document"], FailureReason::ValuesInvalid),
    (&["failed pre-install: "], FailureReason::HookFailed),
    (&["failed post-install: "], FailureReason::HookFailed),
    (&["pre-upgrade hooks failed: "], FailureReason::HookFailed),
    (&["post-upgrade hooks failed: "], FailureReason::HookFailed),
    (&["execution error at ("], FailureReason::RenderFailed),
    (&["executing \""], FailureReason::RenderFailed),
    (&["parse error at ("], FailureReason::RenderFailed),
    (&["YAML parse error on "], FailureReason::RenderFailed),
    (&["path \"", "\" not found"], FailureReason::ChartNotFound),
    (&["unable to detect chart at "], FailureReason::ChartInvalid),
    (&["cannot load Chart.yaml"], FailureReason::ChartInvalid),
    (&["Chart.yaml file is missing"], FailureReason::ChartInvalid),
    (&["validation: chart.metadata"], FailureReason::ChartInvalid),
    (&["missing in charts/ directory"], FailureReason::ChartInvalid),
    (&["charts are not installable"], FailureReason::ChartInvalid),
    (&["chart requires kubeVersion"], FailureReason::ChartInvalid),
    (&["gzip: invalid header"], FailureReason::ChartInvalid),
    (&["chart illegally "], FailureReason::ChartInvalid),
    (&["decompressed chart is larger than"], FailureReason::ChartInvalid),
    (&["chart name not specified"], FailureReason::ChartInvalid),
    (&["no files in chart archive"], FailureReason::ChartInvalid),
    (&["context deadline exceeded"], FailureReason::JobDeadline),
    (&["timed out waiting"], FailureReason::JobDeadline),
];

/// Helm gives a delete hook's failure no name of its own; every other failure of an uninstall has one.
const REMOVAL: &[Rule] = &[
    (&["no matches for kind"], FailureReason::KindNotServed),
    (&["is forbidden: User ", " cannot "], FailureReason::Forbidden),
    (&["warning: Hook "], FailureReason::HookFailed),
    (&["uninstallation completed with ", "context deadline exceeded"], FailureReason::JobDeadline),
    (&["uninstallation completed with ", " still exists. "], FailureReason::JobDeadline),
    (&["uninstallation completed with "], FailureReason::HelmFailed),
    (&["failed to delete release"], FailureReason::HelmFailed),
    (&["Release not loaded"], FailureReason::HelmFailed),
    (&["cluster unreachable"], FailureReason::HelmFailed),
    (&["resource Job/"], FailureReason::HookFailed),
    (&["resource Pod/"], FailureReason::HookFailed),
    (&["unable to build kubernetes object for "], FailureReason::HookFailed),
];

/// What helm's own account of its steps begins with.
pub const DEBUG: &str = "level=DEBUG";

/// Finds the reason for an error text of helm (or git, for a source).
pub fn classify(stage: Stage, text: &str) -> FailureReason {
    let (table, default) = match stage {
        Stage::Source => (SOURCE, FailureReason::SourceUnreachable),
        Stage::Release => (RELEASE, FailureReason::HelmFailed),
        Stage::Removal => (REMOVAL, FailureReason::HelmFailed),
    };
    table
        .iter()
        .find(|(parts, _)| parts.iter().all(|part| text.contains(part)))
        .map_or(default, |(_, reason)| *reason)
}

/// Makes the failure of a helm that had to end early. What it waited for when the deadline struck says more than the
/// deadline, and while it installs or upgrades it waits for nothing but hooks.
pub fn ended_in(stage: Stage, ended: Ended, what: &str, stderr: &str) -> Failure {
    let failure = Failure::ended(ended, what);
    let Some(waited) = waited_for(stderr).filter(|_| ended == Ended::Deadline) else { return failure };
    let reason = if stage == Stage::Release { FailureReason::HookFailed } else { failure.reason };
    Failure::new(reason, format!("{}: it waited for {waited}", failure.message))
}

/// Reads what helm waits for off its log, which names one object whenever that changes.
fn waited_for(stderr: &str) -> Option<String> {
    const WAITS: &str = "msg=\"waiting for resource\" ";
    const DONE: &str = "msg=\"all resources achieved desired status\"";
    let last = stderr.lines().rfind(|line| line.contains(WAITS) || line.contains(DONE))?;
    let (_, told) = last.split_once(WAITS)?;
    let word = |key: &str| told.split(' ').find_map(|pair| pair.strip_prefix(key));
    Some(format!("{} {} ({})", word("kind=")?, word("name=")?, word("actualStatus=")?))
}

/// Takes the error out of helm's standard error: what follows the last `Error: `, or all that is no debugging.
///
/// With `--debug` helm says the cause of a failed uninstall in a log line only; it is put behind.
pub fn error_text(stderr: &str) -> String {
    let start =
        if stderr.starts_with("Error: ") { Some(0) } else { stderr.rfind("\nError: ").map(|at| at + 1) };
    let Some(start) = start else {
        let said: Vec<&str> = stderr.lines().filter(|line| !line.starts_with(DEBUG)).collect();
        return said.join("\n").trim().to_owned();
    };
    let error = stderr[start..].trim_start_matches("Error: ").trim();
    let hidden = stderr[..start]
        .lines()
        .filter(|line| line.contains("uninstall: Failed to delete release"))
        .find_map(|line| line.split_once(" error="));
    match hidden {
        Some((_, cause)) => {
            format!("{error}: {}", cause.trim_matches('"').replace("\\\"", "\"").replace("\\n", " "))
        }
        None => error.to_owned(),
    }
}

#[cfg(test)]
mod tests;

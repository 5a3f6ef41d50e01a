//! Why an attempt at a component failed: a closed set, shown to users as `lastFailureReason`.

use serde::{Deserialize, Serialize};

/// Names the cause of a failed attempt; the strings are part of the API and never change.
///
/// The order is that of an attempt's life: find the chart, render it, get it admitted, run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FailureReason {
    /// The chart source has no such chart.
    ChartNotFound,
    /// The chart is there, this version of it is not.
    ChartVersionNotFound,
    /// The chart was read and is no valid chart.
    ChartInvalid,
    /// The chart source refused the credentials, or asked for some.
    SourceUnauthorized,
    /// The chart source could not be reached.
    SourceUnreachable,
    /// The values, their file or the payload are not usable with this chart.
    ValuesInvalid,
    /// A template of the chart failed to render.
    RenderFailed,
    /// The release does not fit into a Secret (1 MiB).
    ReleaseTooLarge,
    /// The upgrade changes a field that cannot change.
    ImmutableField,
    /// The chart holds a kind that this cluster does not serve.
    KindNotServed,
    /// The deployer's rights do not cover an object of the chart.
    Forbidden,
    /// An admission policy or webhook refused an object.
    AdmissionDenied,
    /// A quota or limit of the namespace is exhausted.
    QuotaExceeded,
    /// An image cannot be pulled.
    ImagePull,
    /// No node takes a pod.
    Unschedulable,
    /// A hook of the chart failed.
    HookFailed,
    /// A container ends again and again.
    CrashLoop,
    /// The workload was not ready in time.
    ReadinessTimeout,
    /// The attempt used up its time.
    JobDeadline,
    /// Another writer holds the release or a field of it.
    Conflict,
    /// Helm failed in a way not named here.
    HelmFailed,
}

impl FailureReason {
    /// Lists every reason, in order.
    pub const ALL: [Self; 21] = [
        Self::ChartNotFound,
        Self::ChartVersionNotFound,
        Self::ChartInvalid,
        Self::SourceUnauthorized,
        Self::SourceUnreachable,
        Self::ValuesInvalid,
        Self::RenderFailed,
        Self::ReleaseTooLarge,
        Self::ImmutableField,
        Self::KindNotServed,
        Self::Forbidden,
        Self::AdmissionDenied,
        Self::QuotaExceeded,
        Self::ImagePull,
        Self::Unschedulable,
        Self::HookFailed,
        Self::CrashLoop,
        Self::ReadinessTimeout,
        Self::JobDeadline,
        Self::Conflict,
        Self::HelmFailed,
    ];

    /// Gives the stable string that status, events and metrics use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChartNotFound => "ChartNotFound",
            Self::ChartVersionNotFound => "ChartVersionNotFound",
            Self::ChartInvalid => "ChartInvalid",
            Self::SourceUnauthorized => "SourceUnauthorized",
            Self::SourceUnreachable => "SourceUnreachable",
            Self::ValuesInvalid => "ValuesInvalid",
            Self::RenderFailed => "RenderFailed",
            Self::ReleaseTooLarge => "ReleaseTooLarge",
            Self::ImmutableField => "ImmutableField",
            Self::KindNotServed => "KindNotServed",
            Self::Forbidden => "Forbidden",
            Self::AdmissionDenied => "AdmissionDenied",
            Self::QuotaExceeded => "QuotaExceeded",
            Self::ImagePull => "ImagePull",
            Self::Unschedulable => "Unschedulable",
            Self::HookFailed => "HookFailed",
            Self::CrashLoop => "CrashLoop",
            Self::ReadinessTimeout => "ReadinessTimeout",
            Self::JobDeadline => "JobDeadline",
            Self::Conflict => "Conflict",
            Self::HelmFailed => "HelmFailed",
        }
    }

    /// Finds the reason of a stable string; `None` for anything else.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

    /// Says whether trying again with the same input cannot help.
    pub const fn permanent(self) -> bool {
        match self {
            Self::ChartNotFound
            | Self::ChartVersionNotFound
            | Self::ChartInvalid
            | Self::SourceUnauthorized
            | Self::ValuesInvalid
            | Self::RenderFailed
            | Self::ReleaseTooLarge
            | Self::ImmutableField
            | Self::KindNotServed
            | Self::Forbidden
            | Self::AdmissionDenied => true,
            Self::SourceUnreachable
            | Self::QuotaExceeded
            | Self::ImagePull
            | Self::Unschedulable
            | Self::HookFailed
            | Self::CrashLoop
            | Self::ReadinessTimeout
            | Self::JobDeadline
            | Self::Conflict
            | Self::HelmFailed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_string_and_the_stored_form_are_the_same() {
        for reason in FailureReason::ALL {
            let stored = serde_json::to_string(&reason).expect("a unit variant serialises");
            assert_eq!(stored, format!("\"{}\"", reason.as_str()));
            assert_eq!(FailureReason::from_name(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn the_list_of_all_reasons_is_in_order_and_without_a_double() {
        assert!(FailureReason::ALL.is_sorted_by(|a, b| a < b));
        assert_eq!(FailureReason::ALL.into_iter().filter(|r| r.permanent()).count(), 11);
    }
}

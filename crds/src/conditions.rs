//! The stable words of status: condition types, their reasons, and why a component failed.
//!
//! Scripts and dashboards match on these strings, so a variant may be added but never renamed.

/// Declares an enum whose variants are their own stable text.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every variant, in order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text that stands in status, events and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }

            /// Finds the variant of a text; `None` for a word of another version.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// The conditions that Petri writes; the first three follow kstatus and tell one story at a time.
    ConditionType {
        /// The object does what its spec says.
        Ready,
        /// Petri is working on it.
        Reconciling,
        /// Nothing more happens without somebody's change.
        Stalled,
        /// The workload namespace is assigned and owned; never reconsidered once true.
        NamespaceBound,
        /// Everything that deletion owes is done; only the namespace and the finalizer are left.
        CleanupComplete,
        /// A step of deletion failed five times and was skipped.
        CleanupForced,
        /// Every shared component of the environment is registered, ready and provisioned.
        SharedComponentsReady,
        /// At most a tenth of the TTL is left.
        Expiring,
        /// The template is valid: graph, names, template syntax, references.
        Accepted,
    }
}

words! {
    /// Why a condition has its status.
    Reason {
        /// The template does not exist.
        TemplateNotFound,
        /// The TTL of environment or template is no Go duration, or negative.
        InvalidTTL,
        /// Graph, names or references are wrong, found only by looking at several objects.
        InvalidConfiguration,
        /// A value did not render.
        RenderFailed,
        /// The namespace does not carry our labels.
        NamespaceNotManaged,
        /// The bound namespace is gone, or another one has its name.
        NamespaceLost,
        /// A deployer Job used up its attempts or met a permanent error.
        DeployFailed,
        /// A component was deployed and did not become ready in time.
        ReadinessTimeout,
        /// A provision Job used up its attempts.
        ProvisionFailed,
        /// A shared component has no free slot; the message names the holders.
        SharedComponentAtCapacity,
        /// A shared component is not ready yet.
        SharedComponentNotReady,
        /// Work is under way.
        Progressing,
        /// A component that was ready is not any more.
        ComponentUnavailable,
        /// The annotation `petri.run/hold` keeps the environment as it is.
        Held,
        /// All is as the spec says.
        Ready,
        /// The object is being deleted.
        Terminating,
        /// A shared component without consumers was undeployed.
        Idle,
        /// The stored record belongs to a newer operator; this one holds.
        VersionAhead,
        /// A bug of Petri; the message says where.
        InternalError,
    }
}

words! {
    /// Why a component's last attempt failed; the closed set of `lastFailureReason`.
    FailureReason {
        /// The chart is not where the source says.
        ChartNotFound,
        /// The chart has no such version.
        ChartVersionNotFound,
        /// The chart does not load or does not render.
        ChartInvalid,
        /// The chart's source refused the credentials.
        SourceUnauthorized,
        /// The chart's source did not answer.
        SourceUnreachable,
        /// The values do not fit the chart's schema.
        ValuesInvalid,
        /// A value did not render.
        RenderFailed,
        /// The release record does not fit into a Secret.
        ReleaseTooLarge,
        /// The change touches an immutable field.
        ImmutableField,
        /// The chart holds a kind that the cluster does not serve.
        KindNotServed,
        /// The deployer may not do what the chart asks for.
        Forbidden,
        /// An admission policy or webhook refused an object.
        AdmissionDenied,
        /// A quota left no room.
        QuotaExceeded,
        /// An image could not be pulled.
        ImagePull,
        /// No node takes the pod.
        Unschedulable,
        /// A hook of the chart failed.
        HookFailed,
        /// A container keeps crashing.
        CrashLoop,
        /// The component was deployed and did not become ready in time.
        ReadinessTimeout,
        /// The Job ran out of its deadline.
        JobDeadline,
        /// Somebody else owns a field that the chart sets.
        Conflict,
        /// Helm failed in a way that has no word of its own.
        HelmFailed,
    }
}

impl FailureReason {
    /// Whether another attempt cannot get better; such an error fails at once.
    #[must_use]
    pub const fn is_permanent(self) -> bool {
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
    fn every_word_parses_back_to_itself_and_a_strange_word_to_nothing() {
        for word in ConditionType::ALL {
            assert_eq!(ConditionType::parse(word.as_str()), Some(*word));
        }
        for word in Reason::ALL {
            assert_eq!(Reason::parse(word.as_str()), Some(*word));
        }
        for word in FailureReason::ALL {
            assert_eq!(FailureReason::parse(word.as_str()), Some(*word));
        }
        assert_eq!(Reason::parse("progressing"), None);
    }

    #[test]
    fn eleven_of_the_twenty_one_failure_reasons_are_permanent() {
        assert_eq!(FailureReason::ALL.len(), 21);
        assert_eq!(FailureReason::ALL.iter().filter(|reason| reason.is_permanent()).count(), 11);
    }
}

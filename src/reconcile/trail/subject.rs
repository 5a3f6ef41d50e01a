//! What a trail has to know of its object: an environment or a shared component.

use petri_machines::{
    component, environment,
    job::Op,
    names::{ComponentName, EnvironmentName, Uid},
    reason::FailureReason,
    shared, slice,
};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Environment,
    Shared,
}

/// One object with the record that it has at this moment.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Subject {
    kind: Kind,
    pub(super) name: EnvironmentName,
    pub(super) uid: Uid,
    pub(super) generation: i64,
    /// The newest generation that was taken up.
    pub(super) observed: i64,
    /// Where what it has deployed is.
    pub(super) namespace: Option<String>,
    pub(super) phase: &'static str,
    /// How the rollout ended, and why if badly; nothing while it is under way.
    pub(super) rest: Option<(&'static str, Option<&'static str>)>,
    pub(super) leaves: bool,
    /// What tells this rollout from earlier ones of the life, in seconds; zero for the first. Nothing, where no beginning
    /// is stored.
    pub(super) rollout: Option<u64>,
    /// When the rollout began that has not ended.
    pub(super) begun: Option<u64>,
    /// The attempts that are under way, for Jobs that an earlier process made.
    pub(super) serials: BTreeMap<ComponentName, u64>,
}

impl Subject {
    /// Looks at an environment.
    pub(in crate::reconcile) fn environment(
        identity: &environment::Identity,
        record: &environment::Record,
    ) -> Self {
        use environment::Phase;
        let memory = &record.memory;
        let components = memory
            .components
            .iter()
            .filter_map(|(component, child)| Some((component.clone(), child.attempt()?.serial)));
        let slices = memory
            .slices
            .iter()
            .filter_map(|(component, child)| Some((component.clone(), child.attempt()?.serial)));
        Self {
            kind: Kind::Environment,
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            generation: identity.generation,
            observed: memory.observed,
            namespace: memory.binding.name().map(ToString::to_string),
            phase: record.phase.name(),
            rest: match &record.phase {
                Phase::Ready { .. } => Some(("ready", None)),
                Phase::Failed { failure } => Some(("failed", Some(failure.reason.as_str()))),
                Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. } => None,
            },
            leaves: matches!(record.phase, Phase::Terminating { .. }),
            rollout: Some(match memory.history.as_slice() {
                [] | [_] => 0,
                [.., last] => last.started_at.0,
            }),
            begun: memory
                .history
                .last()
                .filter(|rollout| rollout.ended_at.is_none())
                .map(|rollout| rollout.started_at.0),
            serials: components.chain(slices).collect(),
        }
    }

    /// Looks at a shared component, whose workload is in the namespace of all of them. Its name takes the place of an
    /// environment's and of a component's.
    pub(in crate::reconcile) fn shared(
        identity: &environment::Identity,
        component: &ComponentName,
        namespace: &str,
        record: &shared::Record,
    ) -> Self {
        use shared::Phase;
        let memory = &record.memory;
        let serial =
            memory.workload.as_ref().and_then(component::Record::attempt).map(|attempt| attempt.serial);
        Self {
            kind: Kind::Shared,
            name: identity.name.clone(),
            uid: identity.uid.clone(),
            generation: identity.generation,
            observed: memory.observed,
            namespace: Some(namespace.to_owned()),
            phase: record.phase.name(),
            rest: match &record.phase {
                Phase::Ready { .. } => Some(("ready", None)),
                Phase::Pending { idle: true } => Some(("idle", None)),
                Phase::Failed { failure } => Some(("failed", Some(failure.reason.as_str()))),
                Phase::Pending { .. } | Phase::Deploying { .. } | Phase::Terminating { .. } => None,
            },
            leaves: matches!(record.phase, Phase::Terminating { .. }),
            rollout: None,
            begun: None,
            serials: serial.map(|serial| (component.clone(), serial)).into_iter().collect(),
        }
    }

    pub(super) fn root_name(&self, leaves: bool) -> &'static str {
        match (self.kind, leaves) {
            (Kind::Environment, false) => "deploy environment",
            (Kind::Environment, true) => "delete environment",
            (Kind::Shared, false) => "deploy shared component",
            (Kind::Shared, true) => "delete shared component",
        }
    }

    /// Gives the attributes that name it: name, UID, generation.
    pub(super) fn keys(&self) -> [&'static str; 3] {
        match self.kind {
            Kind::Environment => {
                ["petri.environment.name", "petri.environment.uid", "petri.environment.generation"]
            }
            Kind::Shared => [
                "petri.shared_component.name",
                "petri.shared_component.uid",
                "petri.shared_component.generation",
            ],
        }
    }
}

/// What a notice says that a trace tells, too.
#[derive(Clone, Copy, Debug)]
pub(in crate::reconcile) enum Told<'a> {
    /// A Job's outcome was accepted.
    JobEnded {
        /// Of which component.
        component: &'a ComponentName,
        /// What it did.
        op: Op,
        /// Why it failed.
        failure: Option<FailureReason>,
    },
    /// What was deployed is ready, or was given up on while it became so.
    Settled {
        /// Of which component.
        component: &'a ComponentName,
        /// Whether it is ready.
        ready: bool,
    },
}

impl<'a> Told<'a> {
    /// Takes what it wants from a notice of an environment.
    pub(in crate::reconcile) fn environment(notice: &'a environment::Notice) -> Option<Self> {
        match notice {
            environment::Notice::Component { component, notice } => Self::component(component, notice),
            environment::Notice::Slice { component, notice } => match notice {
                slice::Notice::JobEnded { op, failure } => {
                    Some(Self::JobEnded { component, op: *op, failure: *failure })
                }
                slice::Notice::Moved { .. }
                | slice::Notice::Retried { .. }
                | slice::Notice::Forced { .. } => None,
            },
            environment::Notice::Moved { .. } | environment::Notice::Expired => None,
        }
    }

    /// Takes what it wants from a notice of a component, or of a shared component's workload.
    pub(in crate::reconcile) fn component(
        component: &'a ComponentName,
        notice: &component::Notice,
    ) -> Option<Self> {
        match notice {
            component::Notice::JobEnded { op, failure } => {
                Some(Self::JobEnded { component, op: *op, failure: *failure })
            }
            component::Notice::Moved { from: "Settling", to } => {
                Some(Self::Settled { component, ready: *to == "Ready" })
            }
            component::Notice::Moved { .. }
            | component::Notice::Retried { .. }
            | component::Notice::Forced { .. } => None,
        }
    }
}

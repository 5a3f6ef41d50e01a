//! What is stored of an environment: decisions, never facts that can be read back.

use super::{command::NamespaceRef, furniture::FurnitureId, status::Reason};
use crate::{
    component,
    kernel::Timestamp,
    names::{ComponentName, Digest, NamespaceName, Uid},
    slice,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where an environment rests, in the order of its life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// Its namespace is being bound.
    Pending,
    /// Its components are being brought to this plan.
    Deploying {
        /// The plan being rolled out.
        plan: Digest,
    },
    /// All components of this plan were ready.
    Ready {
        /// The plan that was rolled out.
        plan: Digest,
    },
    /// Nothing more is tried until what caused it changes.
    Failed {
        /// Why.
        failure: Failure,
    },
    /// It goes.
    Terminating {
        /// Whether everything inside the namespace was cleaned up, or given up; committed before the namespace goes.
        cleaned: bool,
    },
}

/// Why an environment failed, and what may end it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The stable reason.
    pub reason: Reason,
    /// What a person needs to know.
    pub message: String,
    /// What kind of change ends it.
    pub cause: Cause,
}

/// What caused a failure, and therefore what can end it besides deletion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "camelCase")]
pub enum Cause {
    /// The input was refused: another input ends it.
    Input,
    /// The plan was tried: another plan, or a retry, ends it.
    Running {
        /// The plan that was tried.
        plan: Digest,
    },
    /// The namespace is lost or not ours: only deletion ends it.
    Namespace,
}

/// The durable lock on a workload namespace; it only ever moves forward, and once bound not at all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "camelCase")]
pub enum Binding {
    /// No name was chosen.
    #[default]
    Unassigned,
    /// This name was chosen; the namespace may or may not exist, and its rights are being set up.
    Claimed {
        /// The name.
        name: NamespaceName,
    },
    /// Work may begin.
    Bound {
        /// The namespace.
        namespace: NamespaceRef,
    },
}

impl Binding {
    /// Returns the namespace's name as far as it is decided.
    pub fn name(&self) -> Option<&NamespaceName> {
        match self {
            Self::Unassigned => None,
            Self::Claimed { name } => Some(name),
            Self::Bound { namespace } => Some(&namespace.name),
        }
    }

    /// Returns the namespace's UID as far as it is known.
    pub fn uid(&self) -> Option<&Uid> {
        match self {
            Self::Unassigned | Self::Claimed { .. } => None,
            Self::Bound { namespace } => Some(&namespace.uid),
        }
    }
}

/// One rollout, for the history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// The plan.
    pub plan: Digest,
    /// Whether it became ready; `None` while under way or when another plan took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// What an environment remembers in whatever phase it rests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// The namespace.
    #[serde(default)]
    pub binding: Binding,
    /// The last serial that was handed out to an attempt.
    #[serde(default)]
    pub serial: u64,
    /// The components: those of the plan, and those that still have to go.
    #[serde(default)]
    pub components: BTreeMap<ComponentName, component::Record>,
    /// The slices of shared components: those of the plan, and those that still have to go.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slices: BTreeMap<ComponentName, slice::Record>,
    /// The furniture that was asked for, with what it was made from once it was seen in force.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub furniture: BTreeMap<FurnitureId, Option<Digest>>,
    /// The address of the route that was seen in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The newest generation of the spec that was taken up.
    #[serde(default)]
    pub observed: i64,
    /// The retry token that was honoured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// The last rollouts, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Rollout>,
}

/// The stored form of an environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Where it rests.
    pub phase: Phase,
    /// What it remembers besides.
    #[serde(flatten)]
    pub memory: Memory,
}

impl Default for Record {
    /// Returns the record of an object that has none: a new one, or one whose status was erased.
    fn default() -> Self {
        Self { phase: Phase::Pending, memory: Memory::default() }
    }
}

impl Phase {
    /// Returns the phase's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Deploying { .. } => "Deploying",
            Self::Ready { .. } => "Ready",
            Self::Failed { .. } => "Failed",
            Self::Terminating { .. } => "Terminating",
        }
    }
}

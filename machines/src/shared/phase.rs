//! What is stored of a shared component: decisions, never facts that can be read back.

use crate::{component, environment::Failure, kernel::Timestamp, names::Digest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where a shared component rests, in the order of its life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all_fields = "camelCase")]
pub enum Phase {
    /// Nothing is deployed.
    Pending {
        /// Whether nobody uses it: then its workload goes, until somebody comes.
        #[serde(default)]
        idle: bool,
    },
    /// Its workload is being brought to this plan.
    Deploying {
        /// The plan being rolled out.
        plan: Digest,
    },
    /// Its workload was ready.
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
        /// Whether its workload and its secret are gone, or given up.
        cleaned: bool,
    },
}

impl Phase {
    /// Returns the phase's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "Pending",
            Self::Deploying { .. } => "Deploying",
            Self::Ready { .. } => "Ready",
            Self::Failed { .. } => "Failed",
            Self::Terminating { .. } => "Terminating",
        }
    }
}

/// What a shared component remembers in whatever phase it rests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// The last serial that was handed out to an attempt.
    #[serde(default)]
    pub serial: u64,
    /// Its workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<component::Record>,
    /// The providers on which the finalizer was put.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub providers: BTreeSet<String>,
    /// The name of the instance secret, once it was seen to stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Since when nobody uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_since: Option<Timestamp>,
    /// The newest generation of the spec that was taken up.
    #[serde(default)]
    pub observed: i64,
    /// The retry token that was honoured last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
}

/// The stored form of a shared component.
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
        Self { phase: Phase::Pending { idle: false }, memory: Memory::default() }
    }
}

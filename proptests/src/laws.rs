//! The laws of the machines, as plain functions: the property tests, the dish and the explorer all ask the same ones.
//!
//! They hold for any stored record in any world, for worlds that can happen and for worlds that cannot.

pub mod blindness;
pub mod component;
pub mod environment;
pub mod shared;
pub mod slice;

use petri_machines::kernel::{
    Machine, WaitingOn, Wake,
    machine::{Step, StepOf},
    time::Timestamp,
};
use std::fmt::{Debug, Display};

/// A law that does not hold, and what shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The law's name.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

impl Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "law {:?} is broken: {}", self.law, self.what)
    }
}

impl std::error::Error for Breach {}

/// What a law says.
pub type Verdict = Result<(), Breach>;

/// Returns a breach of `law` unless `holds`.
pub fn require(law: &'static str, holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(Breach { law, what: what() }) }
}

/// What is awaited without any watch that would tell of its end: such a rest needs a wake.
const UNWATCHED: [&str; 5] = [
    "a readable cluster",
    "namespaces to be readable",
    "the pause before the next attempt",
    "a running Job to end",
    "the workload to become ready",
];

/// Law 1, settles: a step is never an error, and stepping again changes nothing and says nothing.
///
/// # Errors
/// The difference between the two steps.
pub fn settles<M: Machine>(phase: &M::Phase, world: &M::World) -> Result<StepOf<M>, Breach> {
    let law = "settles";
    let step = |phase: &M::Phase| {
        M::step(phase.clone(), world).map_err(|error| Breach { law, what: format!("{error} in {phase:?}") })
    };
    let once = step(phase)?;
    let twice = step(&once.phase)?;
    require(law, twice.notices.is_empty(), || format!("says again {:?}", twice.notices))?;
    same(law, "phase", &once.phase, &twice.phase)?;
    same(law, "commands", &once.commands, &twice.commands)?;
    same(law, "wake", &once.wake, &twice.wake)?;
    same(law, "waiting_on", &once.waiting_on, &twice.waiting_on)?;
    same("settles", "status", &M::status(&once, world), &M::status(&twice, world))?;
    Ok(once)
}

/// Law 2, speaks: what is neither settled nor asks for anything says what it waits for; what no watch reports on is
/// waited for with a wake; a wake lies ahead.
///
/// # Errors
/// The silent step.
pub fn speaks<P: Debug, C: Debug, N: Debug>(step: &Step<P, C, N>, settled: bool, now: Timestamp) -> Verdict {
    let law = "speaks";
    let Step { commands, wake, waiting_on, .. } = step;
    require(law, settled || !commands.is_empty() || waiting_on.is_some(), || format!("silent: {step:?}"))?;
    let unwatched = |waiting: &WaitingOn| UNWATCHED.contains(&waiting.what);
    let blind = commands.is_empty() && waiting_on.as_ref().is_some_and(unwatched) && wake.is_none();
    require(law, !blind, || format!("waits for what nobody reports, without a wake: {step:?}"))?;
    require(law, wake.is_none_or(|Wake { at, .. }| at > now), || format!("a wake in the past: {wake:?}"))
}

/// Law 6, pure: the same input gives the same output.
///
/// # Errors
/// The two outputs.
pub fn is_pure<M: Machine>(phase: &M::Phase, world: &M::World, step: &StepOf<M>) -> Verdict {
    let again = M::step(phase.clone(), world);
    require("is pure", again.as_ref() == Ok(step), || format!("{step:?}\n  {again:?}"))
}

/// Law 5, round trip: what is stored is read back as it was.
///
/// # Errors
/// What came back.
pub fn round_trips<T>(record: &T) -> Verdict
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    let law = "round trips";
    let broken = |error: serde_json::Error| Breach { law, what: error.to_string() };
    let text = serde_json::to_string(record).map_err(broken)?;
    same(law, "record", record, &serde_json::from_str(&text).map_err(broken)?)
}

fn same<T: PartialEq + Debug>(law: &'static str, what: &str, left: &T, right: &T) -> Verdict {
    require(law, left == right, || format!("{what} differs:\n  {left:?}\n  {right:?}"))
}

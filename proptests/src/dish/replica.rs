//! One operator: it advances the shipped `Cycle`, one ask at a time, and may be crashed between any two.

use super::{
    apply,
    cluster::{Cluster, Own, Specs},
    observe::{Blind, observe},
};
use petri_machines::{
    environment::{Command, Environment, Notice, Record, World},
    kernel::{
        Machine, WakeReason,
        cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
        dialogue::Turn,
    },
};
use serde::{Deserialize, Serialize};

/// Seconds after a `Backoff` or `Rejected` before the operator looks again.
pub const BACKOFF_SECS: u64 = 5;
/// Seconds between two looks that nothing asked for.
pub const RESYNC_SECS: u64 = 600;

/// What goes wrong at one ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fault {
    /// The operator dies before the ask is answered.
    CrashBefore,
    /// The effect happens, the operator dies before it hears of it.
    CrashAfter,
    /// The effect happens, the answer is lost; the operator takes it for a failure.
    Lost,
}

/// What one ask came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The own object was read.
    Read,
    /// The world was built.
    Observed(Box<(Record, World)>),
    /// A write of the record was tried.
    Stored(Box<Result<Record, Refusal>>),
    /// A command was tried; the flag says whether it changed anything.
    Applied(Box<World>, Command, Result<bool, Refusal>),
    /// Something was said.
    Notified(Vec<Notice>),
    /// The operator died.
    Crashed,
}

/// One operator.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    running: Option<(Cycle<Environment>, Ask<Environment>)>,
    read: Option<Own>,
    world: Option<World>,
    seen: u64,
    /// When it looks again without being told.
    pub due: Option<u64>,
    /// How its last cycle ended.
    pub last: Option<Done>,
    /// The read that fails next.
    pub blind: Option<Blind>,
}

impl Replica {
    /// Whether something told it to look.
    pub fn is_told(&self, cluster: &Cluster) -> bool {
        self.running.is_some() || self.seen < cluster.events || self.due.is_some_and(|at| at <= cluster.now)
    }

    /// Whether its last cycle ended with something to wait for besides the environment's expiry.
    pub fn waits(&self) -> bool {
        match &self.last {
            Some(Done::Settled { wake: Some(wake), .. }) => {
                !matches!(wake.reason, WakeReason::Expiry | WakeReason::ExpiryNear)
            }
            Some(Done::Refused(_)) => true,
            Some(
                Done::Settled { wake: None, .. }
                | Done::Gone
                | Done::Held { .. }
                | Done::Bug(_)
                | Done::OutOfTurn,
            )
            | None => false,
        }
    }

    /// Misses everything that the watches said so far.
    pub fn misses_events(&mut self, cluster: &Cluster) {
        self.seen = cluster.events;
    }

    /// Dies and starts again: caches are filled anew, every object is looked at.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Answers one ask, begins a cycle when none runs. Returns what happened.
    pub fn step(&mut self, cluster: &mut Cluster, specs: &Specs, fault: Option<Fault>) -> Event {
        let (cycle, ask) = self.running.take().unwrap_or_else(|| {
            let mut cycle = Cycle::default();
            match cycle.advance(None) {
                Turn::Ask(ask) => (cycle, ask),
                Turn::Sleep { .. } | Turn::Done(_) => unreachable!("a cycle begins with an ask"),
            }
        });
        if fault == Some(Fault::CrashBefore) {
            self.restart();
            return Event::Crashed;
        }
        let (answer, event) = self.answer(ask, cluster, specs);
        match fault {
            Some(Fault::CrashAfter) => {
                self.restart();
                // The effect is real, so the oracle must hear of it.
                event
            }
            Some(Fault::Lost) => {
                self.go_on(cycle, lost(answer), cluster);
                event
            }
            Some(Fault::CrashBefore) | None => {
                self.go_on(cycle, answer, cluster);
                event
            }
        }
    }

    fn answer(
        &mut self,
        ask: Ask<Environment>,
        cluster: &mut Cluster,
        specs: &Specs,
    ) -> (Answer<Environment>, Event) {
        match ask {
            Ask::Read => {
                self.seen = cluster.events;
                self.due = None;
                self.read = cluster.own.clone();
                (Answer::Own(self.read.as_ref().map(stored)), Event::Read)
            }
            Ask::Observe(record) => {
                let own = self.read.clone().unwrap_or_else(|| unreachable!("observed after a read"));
                let world = observe(cluster, specs, &own, &record, self.blind.take());
                self.world = Some(world.clone());
                (Answer::World(world.clone()), Event::Observed(Box::new((record, world))))
            }
            Ask::Store { phase, status } => {
                let read = self.read.as_mut().unwrap_or_else(|| unreachable!("stored after a read"));
                let result = apply::store(cluster, read, phase.clone(), status);
                (Answer::Stored(result), Event::Stored(Box::new(result.map(|()| phase))))
            }
            Ask::Apply(command) => {
                let read = self.read.as_mut().unwrap_or_else(|| unreachable!("applied after a read"));
                let world = self.world.clone().unwrap_or_else(|| unreachable!("applied after a look"));
                let result = apply::apply(cluster, read, &world, &command);
                (Answer::Applied(result.map(|_| ())), Event::Applied(Box::new(world), command, result))
            }
            Ask::Notify(notices) => (Answer::Notified, Event::Notified(notices)),
        }
    }

    fn go_on(&mut self, mut cycle: Cycle<Environment>, answer: Answer<Environment>, cluster: &Cluster) {
        match cycle.advance(Some(answer)) {
            Turn::Ask(ask) => self.running = Some((cycle, ask)),
            Turn::Sleep { until, .. } => self.due = Some(until.0),
            Turn::Done(done) => {
                self.due = due(&done, cluster.now);
                self.last = Some(done);
            }
        }
    }

    /// Whether a cycle is under way.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the ask that is answered next, if a cycle is under way.
    pub fn pending(&self) -> Option<&Ask<Environment>> {
        self.running.as_ref().map(|(_, ask)| ask)
    }
}

fn stored(own: &Own) -> Stored<Environment> {
    Stored {
        phase: own.record.clone().unwrap_or_default(),
        status: own.status.clone(),
        version: own.record.as_ref().map_or(0, |_| Environment::VERSION),
    }
}

fn lost(answer: Answer<Environment>) -> Answer<Environment> {
    match answer {
        Answer::Stored(_) => Answer::Stored(Err(Refusal::Retry)),
        Answer::Applied(_) => Answer::Applied(Err(Refusal::Backoff)),
        other @ (Answer::Own(_) | Answer::World(_) | Answer::Notified) => other,
    }
}

fn due(done: &Done, now: u64) -> Option<u64> {
    match done {
        Done::Gone => None,
        Done::Refused(Refusal::Retry | Refusal::Fenced) => Some(now),
        Done::Refused(Refusal::Backoff | Refusal::Rejected) => Some(now + BACKOFF_SECS),
        Done::Settled { again: true, .. } => Some(now),
        Done::Settled { wake, again: false } => {
            Some(wake.map_or(now + RESYNC_SECS, |wake| wake.at.0.min(now + RESYNC_SECS)))
        }
        Done::Held { .. } | Done::Bug(_) | Done::OutOfTurn => Some(now + RESYNC_SECS),
    }
}

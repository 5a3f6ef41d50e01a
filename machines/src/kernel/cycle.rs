//! The one loop, as a dialogue: it alone orders reads and writes. The shell, or the simulated cluster, only answers.
//!
//! Read → Observe → (step) → Store, if record or status differ → Apply, one command at a time → Notify → done.
//!
//! A crash is: stop calling [`Cycle::advance`] between any two asks. Nothing of a cycle is stored.

use super::{
    dialogue::Turn,
    machine::{Machine, StepOf},
    time::Wake,
};

/// What is stored of one object, as one quorum read found it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<M: Machine> {
    /// The machine's record.
    pub phase: M::Phase,
    /// What users were last shown; `None` before the first write.
    pub status: Option<M::Status>,
    /// The version the record was written by; 0 when there is none.
    pub version: u32,
}

/// What the cycle wants to know or have done.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask<M: Machine> {
    /// Read the own object from the API server, not from a cache.
    Read,
    /// Build the world that this phase may look at.
    Observe(M::Phase),
    /// Write record and status, on condition that the object is still as it was read.
    Store {
        /// The new record.
        phase: M::Phase,
        /// The new status.
        status: M::Status,
    },
    /// Apply one command: one API write.
    Apply(M::Command),
    /// Say these things; they may be lost.
    Notify(Vec<M::Notice>),
}

/// The shell's answer to one ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<M: Machine> {
    /// To [`Ask::Read`]: the object, or that it is gone.
    Own(Option<Stored<M>>),
    /// To [`Ask::Observe`].
    World(M::World),
    /// To [`Ask::Store`].
    Stored(Result<(), Refusal>),
    /// To [`Ask::Apply`].
    Applied(Result<(), Refusal>),
    /// To [`Ask::Notify`].
    Notified,
}

/// How a write was refused. Everything ends the cycle; what differs is when to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// Somebody wrote first, or the answer was lost: look again at once.
    Retry,
    /// The server is unwell or lags: look again after a growing pause.
    Backoff,
    /// The server will not take it, whatever happens: look again after a growing pause, and say so.
    Rejected,
    /// A precondition failed: the object is not the one that was meant. Look again at once.
    Fenced,
}

/// How a cycle ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The object is gone.
    Gone,
    /// The record was written by a newer release and is left alone.
    Held {
        /// The version that was found.
        found: u32,
    },
    /// A write was refused; nothing after it was applied.
    Refused(Refusal),
    /// All was said and done.
    Settled {
        /// When to look again without being told.
        wake: Option<Wake>,
        /// Whether something was applied that no watch reports on: look again at once.
        again: bool,
    },
    /// The machine has a fault.
    Bug(String),
    /// The shell answered another question than it was asked.
    OutOfTurn,
}

/// What is left to do after the record was stored.
#[derive(Clone, Debug)]
struct Rest<M: Machine> {
    commands: std::vec::IntoIter<M::Command>,
    notices: Vec<M::Notice>,
    wake: Option<Wake>,
    again: bool,
}

#[derive(Clone, Debug)]
enum Stage<M: Machine> {
    Start,
    Reading,
    Observing(Stored<M>),
    Storing(StepOf<M>),
    Applying(Rest<M>),
    Notifying(Done),
    Over,
}

/// One pass of the loop over one object.
#[derive(Clone, Debug)]
pub struct Cycle<M: Machine>(Stage<M>);

impl<M: Machine> Default for Cycle<M> {
    fn default() -> Self {
        Self(Stage::Start)
    }
}

impl<M: Machine> Cycle<M> {
    /// Takes the answer to the last ask (`None` at first) and returns the next ask, or the end.
    pub fn advance(&mut self, answer: Option<Answer<M>>) -> Turn<Ask<M>, Done> {
        match (std::mem::replace(&mut self.0, Stage::Over), answer) {
            (Stage::Start, None) => self.ask(Stage::Reading, Ask::Read),
            (Stage::Reading, Some(Answer::Own(None))) => Turn::Done(Done::Gone),
            (Stage::Reading, Some(Answer::Own(Some(own)))) if own.version > M::VERSION => {
                Turn::Done(Done::Held { found: own.version })
            }
            (Stage::Reading, Some(Answer::Own(Some(own)))) => {
                let phase = own.phase.clone();
                self.ask(Stage::Observing(own), Ask::Observe(phase))
            }
            (Stage::Observing(own), Some(Answer::World(world))) => self.decide(own, &world),
            (Stage::Storing(_), Some(Answer::Stored(Err(refusal)))) => Turn::Done(Done::Refused(refusal)),
            (Stage::Storing(step), Some(Answer::Stored(Ok(())))) => self.apply(step),
            (Stage::Applying(rest), Some(Answer::Applied(Err(refusal)))) => {
                self.end(rest.notices, Done::Refused(refusal))
            }
            (Stage::Applying(rest), Some(Answer::Applied(Ok(())))) => self.next(rest),
            (Stage::Notifying(done), Some(Answer::Notified)) => Turn::Done(done),
            _ => Turn::Done(Done::OutOfTurn),
        }
    }

    fn decide(&mut self, own: Stored<M>, world: &M::World) -> Turn<Ask<M>, Done> {
        let step = match M::step(own.phase.clone(), world) {
            Ok(step) => step,
            Err(bug) => return Turn::Done(Done::Bug(bug.to_string())),
        };
        let status = M::status(&step, world);
        if step.phase == own.phase && own.status.as_ref() == Some(&status) {
            return self.apply(step);
        }
        let store = Ask::Store { phase: step.phase.clone(), status };
        self.ask(Stage::Storing(step), store)
    }

    fn ask(&mut self, stage: Stage<M>, ask: Ask<M>) -> Turn<Ask<M>, Done> {
        self.0 = stage;
        Turn::Ask(ask)
    }

    fn apply(&mut self, step: StepOf<M>) -> Turn<Ask<M>, Done> {
        let again = step.commands.iter().any(|command| !M::is_watched(command));
        self.next(Rest { commands: step.commands.into_iter(), notices: step.notices, wake: step.wake, again })
    }

    fn next(&mut self, mut rest: Rest<M>) -> Turn<Ask<M>, Done> {
        match rest.commands.next() {
            Some(command) => self.ask(Stage::Applying(rest), Ask::Apply(command)),
            None => self.end(rest.notices, Done::Settled { wake: rest.wake, again: rest.again }),
        }
    }

    /// The transition is stored whatever became of the commands, so it is announced in either case.
    fn end(&mut self, notices: Vec<M::Notice>, done: Done) -> Turn<Ask<M>, Done> {
        if notices.is_empty() {
            return Turn::Done(done);
        }
        self.ask(Stage::Notifying(done), Ask::Notify(notices))
    }
}

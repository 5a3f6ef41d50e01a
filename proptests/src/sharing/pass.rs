//! One pass of the shipped loop over one object, held between any two of its asks.

use super::{
    apply,
    cluster::{Cluster, Environment, Shared},
    observe,
};
use crate::laws::{self, Breach, Verdict};
use petri_machines::{
    environment::{self, Cleanup, Command, Sharing, Unsharing},
    kernel::{
        Machine, Wake,
        cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
        dialogue::Turn,
    },
    names::{EnvironmentName, SharedName},
    shared,
};

/// A pass that has asked something.
#[derive(Clone, Debug)]
pub struct Pass<M: Machine, O> {
    cycle: Cycle<M>,
    /// What it asks.
    pub ask: Ask<M>,
    read: Option<O>,
}

/// Over an environment.
pub type EnvironmentPass = Pass<environment::Environment, Environment>;
/// Over a shared component.
pub type SharedPass = Pass<shared::Shared, Shared>;

/// What a pass says to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It asks on.
    Asks,
    /// It is over, and says when to look again.
    Over(Option<Wake>),
}

/// What is answered, and what was done for it, for people.
pub type Answered<M> = Result<(Answer<M>, Option<String>), Breach>;

impl<M: Machine, O> Pass<M, O> {
    /// Begins a pass.
    ///
    /// # Errors
    /// A fault of the loop.
    pub fn begin() -> Result<Self, Breach> {
        let mut cycle = Cycle::default();
        match cycle.advance(None) {
            Turn::Ask(ask) => Ok(Self { cycle, ask, read: None }),
            Turn::Sleep { .. } | Turn::Done(_) => out_of_turn(),
        }
    }

    /// Gives the answer to what was asked.
    ///
    /// # Errors
    /// A fault of the machine or of the loop.
    pub fn go_on(&mut self, answer: Answer<M>) -> Result<Next, Breach> {
        match self.cycle.advance(Some(answer)) {
            Turn::Ask(ask) => {
                self.ask = ask;
                Ok(Next::Asks)
            }
            Turn::Done(Done::Bug(what)) => Err(Breach { law: "has no bug", what }),
            Turn::Done(Done::OutOfTurn) => out_of_turn(),
            Turn::Done(Done::Settled { wake, .. }) => Ok(Next::Over(wake)),
            Turn::Sleep { .. } | Turn::Done(_) => Ok(Next::Over(None)),
        }
    }
}

impl<M: Machine, O> Pass<M, O> {
    /// The object as it was read.
    pub fn read(&self) -> Option<&O> {
        self.read.as_ref()
    }
}

fn out_of_turn<T>() -> Result<T, Breach> {
    Err(Breach { law: "answers in turn", what: "an ask out of turn".to_owned() })
}

impl EnvironmentPass {
    /// Answers what is asked; a blind look sees nothing of what is shared.
    ///
    /// # Errors
    /// An ask out of turn.
    pub fn answer(
        &mut self,
        cluster: &mut Cluster,
        name: &EnvironmentName,
        blind: bool,
    ) -> Answered<environment::Environment> {
        let mut what = None;
        let answer = match self.ask.clone() {
            Ask::Read => {
                self.read = cluster.environments.get(name).cloned();
                Answer::Own(self.read.as_ref().map(|own| Stored {
                    phase: own.record.clone().unwrap_or_default(),
                    status: own.status.clone(),
                    version: u32::from(own.record.is_some()),
                }))
            }
            Ask::Observe(record) => {
                let Some(own) = &self.read else { return out_of_turn() };
                Answer::World(observe::environment(cluster, name, own, &record, blind))
            }
            Ask::Store { phase, status } => {
                let Some(read) = &mut self.read else { return out_of_turn() };
                let told = format!("stores {} {:?}", phase.phase.name(), phases(&phase));
                let stored = apply::store_environment(cluster, name, read, phase, status);
                what = Some(format!("{told}: {stored:?}"));
                Answer::Stored(stored)
            }
            Ask::Apply(command) => {
                let Some(read) = &mut self.read else { return out_of_turn() };
                let done = apply::environment(cluster, name, read, &command);
                what = Some(format!("{command:?}: {done:?}"));
                Answer::Applied(done.map(drop))
            }
            Ask::Notify(_) => Answer::Notified,
        };
        Ok((answer, what))
    }

    /// Asks the laws of what was seen.
    ///
    /// # Errors
    /// The law that does not hold.
    pub fn laws(&self, answer: &Answer<environment::Environment>) -> Verdict {
        match (&self.ask, answer) {
            (Ask::Observe(record), Answer::World(world)) => laws::environment::all(record, world).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether what it asks is a write that the version of what was read guards, whatever happened since.
    pub fn is_fenced(&self) -> bool {
        match &self.ask {
            Ask::Store { .. } => true,
            Ask::Apply(command) => is_listed(command),
            Ask::Read | Ask::Observe(_) | Ask::Notify(_) => false,
        }
    }
}

/// Whether a command writes the list of consumers.
pub fn is_listed(command: &Command) -> bool {
    matches!(
        command,
        Command::Share(Sharing::Register { .. })
            | Command::Cleanup(Cleanup::Unshare(Unsharing::Release { .. } | Unsharing::Abandon { .. }))
    )
}

impl SharedPass {
    /// Answers what is asked; a blind look sees neither obligations nor who lives.
    ///
    /// # Errors
    /// An ask out of turn.
    pub fn answer(
        &mut self,
        cluster: &mut Cluster,
        name: &SharedName,
        blind: bool,
    ) -> Answered<shared::Shared> {
        let mut what = None;
        let answer = match self.ask.clone() {
            Ask::Read => {
                self.read = cluster.shared.get(name).cloned();
                Answer::Own(self.read.as_ref().map(|own| {
                    let shown = |status| shared::Status { roster: own.roster.clone(), ..status };
                    Stored {
                        phase: own.record.clone().unwrap_or_default(),
                        status: own.status.clone().map(shown),
                        version: u32::from(own.record.is_some()),
                    }
                }))
            }
            Ask::Observe(record) => {
                let Some(own) = &self.read else { return out_of_turn() };
                Answer::World(observe::shared(cluster, name, own, &record, blind))
            }
            Ask::Store { phase, status } => {
                let Some(read) = &mut self.read else { return out_of_turn() };
                let told = format!("stores {:?}", phase.phase);
                let stored = apply::store_shared(cluster, name, read, phase, status);
                what = Some(format!("{told}: {stored:?}"));
                Answer::Stored(stored)
            }
            Ask::Apply(command) => {
                let Some(read) = &mut self.read else { return out_of_turn() };
                let done = apply::shared(cluster, name, read, &command);
                what = Some(format!("{command:?}: {done:?}"));
                Answer::Applied(done.map(drop))
            }
            Ask::Notify(_) => Answer::Notified,
        };
        Ok((answer, what))
    }

    /// Asks the laws of what was seen.
    ///
    /// # Errors
    /// The law that does not hold.
    pub fn laws(&self, answer: &Answer<shared::Shared>) -> Verdict {
        match (&self.ask, answer) {
            (Ask::Observe(record), Answer::World(world)) => laws::shared::all(record, world).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether what it asks is a write that the version of what was read guards, whatever happened since.
    pub fn is_fenced(&self) -> bool {
        matches!(self.ask, Ask::Store { .. })
    }
}

/// The answer that never came, to a write that was or was not made.
pub fn lost<M: Machine>(answer: Answer<M>) -> Answer<M> {
    match answer {
        Answer::Stored(_) => Answer::Stored(Err(Refusal::Retry)),
        Answer::Applied(_) => Answer::Applied(Err(Refusal::Backoff)),
        other => other,
    }
}

fn phases(record: &environment::Record) -> Vec<String> {
    let slices = record.memory.slices.iter();
    slices.map(|(name, slice)| format!("{name}: {}", slice.phase.name())).collect()
}

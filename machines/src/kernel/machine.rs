//! The contract of a machine and its settle loop.

use super::{limits::HOPS_MAX, outbox::Outbox, outbox::WaitingOn, time::Wake};
use std::fmt::Debug;

/// The result of one evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<P, C, N> {
    /// Where the machine rests now.
    pub phase: P,
    /// Desired facts; re-emitted at every step until the world shows them done. One command is one API write.
    pub commands: Vec<C>,
    /// Said once about a transition (event, metric, span); may be lost.
    pub notices: Vec<N>,
    /// When to look again, and why.
    pub wake: Option<Wake>,
    /// Why nothing more happens.
    pub waiting_on: Option<WaitingOn>,
}

/// A fault of the machine itself, never of its world.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum StepError {
    /// The machine went on changing its phase.
    #[error("machine did not settle within {limit} hops")]
    Unsettled {
        /// The bound that was exceeded.
        limit: u8,
    },
}

/// The step of a machine.
pub type StepOf<M> = Step<<M as Machine>::Phase, <M as Machine>::Command, <M as Machine>::Notice>;

/// A pure, level-triggered machine: the same phase and the same world give the same step, always.
pub trait Machine: Sized {
    /// What is stored: decisions, never facts that can be read back.
    type Phase: Clone + Debug + PartialEq;
    /// Everything the machine may look at.
    type World;
    /// A desired fact: one API write, safe to apply again.
    type Command: Clone + Debug + PartialEq;
    /// Something to be said once.
    type Notice: Clone + Debug + PartialEq;
    /// What users are shown; a pure function of the step. Carries no moment of its own computation.
    type Status: Clone + Debug + PartialEq;
    /// The version of the stored form; raised whenever `Phase` changes its meaning.
    const VERSION: u32;

    /// Handles one signal. Implementations call [`Outbox::moved`] exactly when they changed their phase.
    fn dispatch(
        phase: Self::Phase,
        world: &Self::World,
        out: &mut Outbox<Self::Command, Self::Notice>,
    ) -> Self::Phase;

    /// Derives what users are shown from a step and the world it was made in.
    fn status(step: &StepOf<Self>, world: &Self::World) -> Self::Status;

    /// Whether the effect of the command is reported by a watch; what is not is read again at once.
    fn is_watched(command: &Self::Command) -> bool;

    /// Runs to a fixed point. The outputs of phases that were only passed through are dropped, except for notices.
    fn step(mut phase: Self::Phase, world: &Self::World) -> Result<StepOf<Self>, StepError> {
        let mut notices = Vec::new();
        for _ in 0..=HOPS_MAX {
            let mut out = Outbox::default();
            phase = Self::dispatch(phase, world, &mut out);
            notices.append(&mut out.notices);
            if !out.moved {
                let Outbox { commands, wake, waiting_on, .. } = out;
                return Ok(Step { phase, commands, notices, wake, waiting_on });
            }
        }
        Err(StepError::Unsettled { limit: HOPS_MAX })
    }
}

//! The states of an environment and their handlers, on statig without its macro (see ARCHITECTURE.md for why).

use super::{
    binding,
    children::{self, Mode},
    command::{Cleanup, Command, Notice, Sharing, Unsharing},
    furniture, leaving,
    phase::{Binding, Cause, Failure, Memory, Phase, Record},
    plan::{Invalid, Plan},
    rollout,
    signal::Signal,
    slices,
    status::{self, Reason, Status},
    world::World,
};
use crate::{
    component,
    job::JobFailure,
    kernel::{Machine, Outbox, Seen, WakeReason, limits::bounded, machine::StepOf},
    names::{ComponentName, Digest},
    reason::FailureReason,
};
use statig::blocking::{
    IntoStateMachine, IntoStateMachineExt as _,
    Outcome::{self, Handled, Super, Transition},
    State, Superstate,
};

/// Components of one level that are worked on at once; more only slow each other down on a small cluster.
pub const PARALLEL_MAX: usize = 4;
/// Seconds before something that could not be read is read again.
const REREAD_SECS: u64 = 5;

/// Every transition between phases. The explorer proves that these are taken and no others.
pub const EDGES: &[(&str, &str)] = &[
    ("Pending", "Deploying"),
    ("Pending", "Failed"),
    ("Pending", "Terminating"),
    ("Deploying", "Deploying"),
    ("Deploying", "Ready"),
    ("Deploying", "Failed"),
    ("Deploying", "Terminating"),
    ("Ready", "Deploying"),
    ("Ready", "Failed"),
    ("Ready", "Terminating"),
    ("Failed", "Pending"),
    ("Failed", "Deploying"),
    ("Failed", "Failed"),
    ("Failed", "Terminating"),
    ("Terminating", "Terminating"),
];
/// Transitions that only an environment with shared components takes, or one whose record was damaged.
pub const SHARING: &[(&str, &str)] = &[("Deploying", "Pending"), ("Ready", "Pending")];

/// The machine of one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment;

/// What a handler may look at and say.
pub struct Cx<'a> {
    pub(super) memory: &'a mut Memory,
    pub(super) world: &'a World,
    pub(super) out: &'a mut Outbox<Command, Notice>,
    /// The name of the signal that is handled.
    pub(super) signal: &'static str,
}

impl Cx<'_> {
    /// Asks to look again soon, since no watch tells when a failed read would succeed.
    pub(super) fn unreadable(&mut self) {
        self.out.wake_at(self.world.now.after(REREAD_SECS), WakeReason::Unreadable);
        self.out.waiting_on("a readable cluster", "");
    }
}

/// The superstate of all phases that are not leaving.
pub enum Above {
    /// Not leaving.
    Alive,
}

impl IntoStateMachine for Environment {
    type Event<'e> = Signal<'e>;
    type Context<'c> = Cx<'c>;
    type State = Phase;
    type Superstate<'s> = Above;

    fn initial() -> Phase {
        Phase::Pending
    }

    // `before_transition` has its arguments swapped in statig 0.4.1; this one is right.
    fn after_transition(&mut self, from: &Phase, to: &Phase, cx: &mut Cx<'_>) {
        let why = match to {
            Phase::Failed { failure } => Some((failure.reason, failure.message.clone())),
            Phase::Pending | Phase::Deploying { .. } | Phase::Ready { .. } | Phase::Terminating { .. } => {
                None
            }
        };
        rollout::close(to, cx);
        cx.out.moved(Notice::Moved { from: from.name(), to: to.name(), signal: cx.signal, why });
    }
}

impl State<Environment> for Phase {
    fn call_handler(&mut self, _: &mut Environment, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Self> {
        match self {
            Self::Pending => pending(signal, cx),
            Self::Deploying { plan } => deploying(plan, signal),
            Self::Ready { plan } => ready(plan, signal),
            Self::Failed { failure } => failed(failure, signal, cx),
            Self::Terminating { cleaned } => leaving::terminating(*cleaned, cx),
        }
    }

    fn superstate(&mut self) -> Option<Above> {
        match self {
            Self::Pending | Self::Deploying { .. } | Self::Ready { .. } | Self::Failed { .. } => {
                Some(Above::Alive)
            }
            Self::Terminating { .. } => None,
        }
    }
}

impl Superstate<Environment> for Above {
    fn call_handler(&mut self, _: &mut Environment, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
        match self {
            Self::Alive => alive(signal, cx),
        }
    }
}

/// What every phase does that is not leaving: deletion, expiry, a lost namespace, bad input, a new plan.
fn alive(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Doomed => {
            if cx.world.expires_at.is_some_and(|at| at <= cx.world.now) {
                cx.out.notice(Notice::Expired);
            }
            Transition(Phase::Terminating { cleaned: false })
        }
        Signal::Expired => {
            cx.out.ensure(Command::Cleanup(Cleanup::DeleteSelf));
            cx.out.waiting_on("the own deletion", "the time to live is over");
            Handled
        }
        Signal::Displaced(failure) => Transition(Phase::Failed { failure: failure.clone() }),
        Signal::Invalid(invalid) => {
            let message = bounded(&invalid.message);
            Transition(Phase::Failed {
                failure: Failure { reason: invalid.reason, message, cause: Cause::Input },
            })
        }
        Signal::Unreadable => {
            cx.unreadable();
            Handled
        }
        Signal::Outdated(plan) => Transition(rollout::renew(plan, cx)),
        Signal::Unbound
        | Signal::Unprovisioned(..)
        | Signal::Broken(..)
        | Signal::Available
        | Signal::Unfinished => Handled,
    }
}

fn pending(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Unbound
        | Signal::Unprovisioned(..)
        | Signal::Broken(..)
        | Signal::Available
        | Signal::Unfinished => {
            let Seen::Known(Ok(plan)) = &cx.world.intent else { return Handled };
            // Commands are applied in order: the namespace is made under the finalizer, with one record for both.
            if !cx.world.finalizer {
                cx.out.ensure(Command::AddFinalizer);
            }
            match binding::advance(cx.memory, cx.world, cx.out) {
                Err(failure) => Transition(Phase::Failed { failure }),
                Ok(true) if cx.world.finalizer => provision(plan, cx),
                Ok(true) => {
                    cx.out.waiting_on("the own finalizer", "");
                    Handled
                }
                Ok(false) => Handled,
            }
        }
        Signal::Doomed
        | Signal::Expired
        | Signal::Displaced(_)
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Outdated(_) => Super,
    }
}

/// Brings the slices that the plan names; only then does anything of it begin.
fn provision(plan: &Plan, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let Binding::Bound { namespace } = cx.memory.binding.clone() else { return Handled };
    // Nothing was ever handed out by this record: it is new, or was erased, and then the Jobs know better.
    if cx.memory.serial == 0 && !children::recover(cx.memory, cx.world) {
        cx.unreadable();
        return Handled;
    }
    let mode = slices::Mode::Rollout { plan: Some(plan), admit: true };
    slices::tend(cx.memory, cx.world, Some(&namespace), mode, cx.out);
    if let Some((name, failure)) = slices::broken(cx.memory, plan) {
        return Transition(unprovisioned(&plan.digest, &name, &failure));
    }
    if slices::are_provisioned(cx.memory, plan) { Transition(rollout::begin(plan, cx)) } else { Handled }
}

fn deploying(plan: &Digest, signal: &Signal<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Available => Transition(Phase::Ready { plan: plan.clone() }),
        Signal::Broken(name, failure) => Transition(broken(plan, name, failure)),
        Signal::Unprovisioned(name, failure) => Transition(unprovisioned(plan, name, failure)),
        Signal::Unbound => Transition(Phase::Pending),
        Signal::Doomed
        | Signal::Expired
        | Signal::Displaced(_)
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Outdated(_)
        | Signal::Unfinished => Super,
    }
}

fn unprovisioned(plan: &Digest, name: &ComponentName, failure: &JobFailure) -> Phase {
    let message = bounded(&format!("component {name}: {}", failure.message));
    let cause = Cause::Running { plan: plan.clone() };
    Phase::Failed { failure: Failure { reason: Reason::ProvisionFailed, message, cause } }
}

fn broken(plan: &Digest, name: &ComponentName, failure: &JobFailure) -> Phase {
    let reason = match failure.reason {
        FailureReason::ReadinessTimeout => Reason::ReadinessTimeout,
        FailureReason::ChartNotFound
        | FailureReason::ChartVersionNotFound
        | FailureReason::ChartInvalid
        | FailureReason::SourceUnauthorized
        | FailureReason::SourceUnreachable
        | FailureReason::ValuesInvalid
        | FailureReason::RenderFailed
        | FailureReason::ReleaseTooLarge
        | FailureReason::ImmutableField
        | FailureReason::KindNotServed
        | FailureReason::Forbidden
        | FailureReason::AdmissionDenied
        | FailureReason::QuotaExceeded
        | FailureReason::ImagePull
        | FailureReason::Unschedulable
        | FailureReason::HookFailed
        | FailureReason::CrashLoop
        | FailureReason::JobDeadline
        | FailureReason::Conflict
        | FailureReason::HelmFailed => Reason::DeployFailed,
    };
    let message = bounded(&format!("component {name}: {}: {}", failure.reason.as_str(), failure.message));
    Phase::Failed { failure: Failure { reason, message, cause: Cause::Running { plan: plan.clone() } } }
}

fn ready(plan: &Digest, signal: &Signal<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Unbound => Transition(Phase::Pending),
        Signal::Unfinished | Signal::Broken(..) | Signal::Unprovisioned(..) => {
            Transition(Phase::Deploying { plan: plan.clone() })
        }
        Signal::Doomed
        | Signal::Expired
        | Signal::Displaced(_)
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Outdated(_)
        | Signal::Available => Super,
    }
}

fn failed(failure: &Failure, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Displaced(same) if same == failure => {
            // Nothing ends it, yet what a user asks for meanwhile is taken note of.
            if cx.world.intent.known().is_none() && cx.memory.observed < cx.world.identity.generation {
                cx.unreadable();
            }
            Handled
        }
        Signal::Invalid(invalid) if is_same(failure, invalid) => Handled,
        Signal::Unbound
        | Signal::Unprovisioned(..)
        | Signal::Broken(..)
        | Signal::Available
        | Signal::Unfinished => Handled,
        Signal::Doomed
        | Signal::Expired
        | Signal::Displaced(_)
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Outdated(_) => Super,
    }
}

fn is_same(failure: &Failure, invalid: &Invalid) -> bool {
    failure.cause == Cause::Input
        && failure.reason == invalid.reason
        && failure.message == bounded(&invalid.message)
}

/// Steps the components before the environment itself, as long as it stays and its namespace can be worked in.
fn tend(record: &mut Record, world: &World, out: &mut Outbox<Command, Notice>) {
    let Binding::Bound { namespace } = &record.memory.binding else { return };
    // Unread is not ours: nothing is written before the namespace was looked at.
    if binding::occupancy(world, &namespace.name).is_none() {
        return;
    }
    let namespace = namespace.clone();
    let plan = world.intent.known().and_then(|intent| intent.as_ref().ok());
    let (admit, plan) = match &record.phase {
        // The slices of one that is pending are stepped once its namespace is bound, which may be in this very step.
        Phase::Pending | Phase::Terminating { .. } => return,
        Phase::Deploying { plan: held } => (true, plan.filter(|plan| plan.digest == *held)),
        Phase::Ready { plan: held } => (false, plan.filter(|plan| plan.digest == *held)),
        Phase::Failed { failure } => match &failure.cause {
            Cause::Running { plan: tried } => (false, plan.filter(|plan| plan.digest == *tried)),
            Cause::Input => (false, None),
            Cause::Namespace => return,
        },
    };
    let furnished =
        plan.is_none_or(|plan| furniture::furnish(&mut record.memory, world, &namespace, plan, out));
    let mode = Mode::Rollout { plan, admit: admit && furnished };
    children::tend(&mut record.memory, world, &namespace, mode, out);
    let mode = slices::Mode::Rollout { plan, admit };
    slices::tend(&mut record.memory, world, Some(&namespace), mode, out);
    if let Some(plan) = plan {
        furniture::finish(&mut record.memory, world, &namespace, plan, out);
        let wanted = |name: &ComponentName| plan.components.iter().any(|component| component.name == *name);
        let gone = |record: &component::Record| matches!(record.phase, component::Phase::Gone { .. });
        record.memory.components.retain(|name, record| wanted(name) || !gone(record));
    }
}

impl Environment {
    /// Steps the components, unless something outranks them, and returns the verdict that the environment then acts on.
    pub fn hear<'w>(record: &mut Record, world: &'w World, out: &mut Outbox<Command, Notice>) -> Signal<'w> {
        let ahead = Signal::read(record, world);
        if !matches!(ahead, Signal::Doomed | Signal::Expired | Signal::Displaced(_) | Signal::Outdated(_)) {
            tend(record, world, out);
        }
        Signal::read(record, world)
    }
}

impl Machine for Environment {
    type Phase = Record;
    type World = World;
    type Command = Command;
    type Notice = Notice;
    type Status = Status;
    const VERSION: u32 = 1;

    fn dispatch(mut record: Record, world: &World, out: &mut Outbox<Command, Notice>) -> Record {
        let signal = Self::hear(&mut record, world, out);
        if !matches!(record.phase, Phase::Terminating { .. }) {
            wake_for_expiry(world, out);
        }
        let mut idle = Environment.uninitialized_state_machine();
        *idle.state_mut() = record.phase.clone();
        let mut cx = Cx { memory: &mut record.memory, world, out, signal: signal.name() };
        // Runs entry actions towards the stored phase; there are none, on purpose.
        let mut machine = idle.init_with_context(&mut cx);
        machine.handle_with_context(&signal, &mut cx);
        let phase = machine.state().clone();
        record.phase = phase;
        if world.intent.known().is_some() {
            record.memory.observed = world.identity.generation;
        }
        record
    }

    fn status(step: &StepOf<Self>, world: &World) -> Status {
        status::status(step, world)
    }

    fn is_watched(command: &Command) -> bool {
        match command {
            Command::AddFinalizer
            | Command::CreateNamespace { .. }
            | Command::CreatePayload { .. }
            | Command::CreateJob { .. } => true,
            Command::BindOperator(_)
            | Command::CreateDeployerAccount(_)
            | Command::BindDeployer(_)
            | Command::Furnish { .. } => false,
            Command::Share(share) => matches!(share, Sharing::CreateProvisionJob { .. }),
            Command::Cleanup(Cleanup::Unfurnish { .. }) => false,
            Command::Cleanup(Cleanup::Unshare(unshare)) => {
                matches!(unshare, Unsharing::CreateDeprovisionJob { .. } | Unsharing::DeleteJob { .. })
            }
            Command::Cleanup(
                Cleanup::DeleteSelf
                | Cleanup::DeletePayload { .. }
                | Cleanup::DeleteJob { .. }
                | Cleanup::CreateUndeployJob { .. }
                | Cleanup::DeleteNamespace(_)
                | Cleanup::DropFinalizer,
            ) => true,
        }
    }
}

fn wake_for_expiry(world: &World, out: &mut Outbox<Command, Notice>) {
    if let Some(at) = world.expires_at.filter(|at| !world.held && *at > world.now) {
        out.wake_at(at, WakeReason::Expiry);
    }
    if let Some(at) = world.expiring_at.filter(|at| *at > world.now) {
        out.wake_at(at, WakeReason::ExpiryNear);
    }
}

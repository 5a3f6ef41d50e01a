//! The states of a shared component and their handlers, on statig without its macro (see ARCHITECTURE.md for why).

use super::{
    Instance, Memory, Phase, Plan, Record, World,
    command::{Cleanup, Command, Notice, ProviderRef},
    leaving,
    signal::Signal,
    status::{self, Status, roster},
};
use crate::{
    component::{self, Component, Permission},
    environment::{Cause, Failure, Reason, restarted},
    kernel::{
        Machine, Outbox, Seen, WakeReason,
        limits::{HOPS_MAX, bounded},
        machine::StepOf,
        seen::Ignorance,
    },
    names::Digest,
};
use statig::blocking::{
    IntoStateMachine, IntoStateMachineExt as _,
    Outcome::{self, Handled, Super, Transition},
    State, Superstate,
};

/// Seconds before something that could not be read is read again.
const REREAD_SECS: u64 = 5;

/// Every transition between phases.
pub const EDGES: &[(&str, &str)] = &[
    ("Pending", "Pending"),
    ("Pending", "Deploying"),
    ("Pending", "Failed"),
    ("Pending", "Terminating"),
    // Its finalizer was taken away.
    ("Deploying", "Pending"),
    ("Deploying", "Deploying"),
    ("Deploying", "Ready"),
    ("Deploying", "Failed"),
    ("Deploying", "Terminating"),
    ("Ready", "Pending"),
    ("Ready", "Deploying"),
    ("Ready", "Failed"),
    ("Ready", "Terminating"),
    ("Failed", "Pending"),
    ("Failed", "Deploying"),
    ("Failed", "Failed"),
    ("Failed", "Terminating"),
    ("Terminating", "Terminating"),
];

/// The machine of one SharedComponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared;

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
        self.out.waiting_on("a readable cluster", self.untold());
    }

    /// A right that is missing comes back by a person only, who must be told.
    fn untold(&self) -> &'static str {
        let refused = Ignorance::Forbidden;
        let is_refused =
            self.world.instance == Seen::Unknown(refused) || self.world.obligations == Seen::Unknown(refused);
        if is_refused { "no right to read the Secrets of the shared namespace" } else { "" }
    }
}

/// The superstate of all phases that are not leaving.
pub enum Above {
    /// Not leaving.
    Alive,
}

impl IntoStateMachine for Shared {
    type Event<'e> = Signal<'e>;
    type Context<'c> = Cx<'c>;
    type State = Phase;
    type Superstate<'s> = Above;

    fn initial() -> Phase {
        Phase::Pending { idle: false }
    }

    // `before_transition` has its arguments swapped in statig 0.4.1; this one is right.
    fn after_transition(&mut self, from: &Phase, to: &Phase, cx: &mut Cx<'_>) {
        let why = match to {
            Phase::Failed { failure } => Some((failure.reason, failure.message.clone())),
            Phase::Pending { idle: true } => Some((Reason::Idle, "nobody uses it".to_owned())),
            Phase::Pending { idle: false }
            | Phase::Deploying { .. }
            | Phase::Ready { .. }
            | Phase::Terminating { .. } => None,
        };
        cx.out.moved(Notice::Moved { from: from.name(), to: to.name(), signal: cx.signal, why });
    }
}

impl State<Shared> for Phase {
    fn call_handler(&mut self, _: &mut Shared, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Self> {
        match self {
            Self::Pending { idle } => pending(*idle, signal, cx),
            Self::Deploying { plan } => deploying(plan, signal),
            Self::Ready { .. } => ready(signal, cx),
            Self::Failed { failure } => failed(failure, signal),
            Self::Terminating { cleaned } => leaving::terminating(*cleaned, cx),
        }
    }

    fn superstate(&mut self) -> Option<Above> {
        match self {
            Self::Pending { .. } | Self::Deploying { .. } | Self::Ready { .. } | Self::Failed { .. } => {
                Some(Above::Alive)
            }
            Self::Terminating { .. } => None,
        }
    }
}

impl Superstate<Shared> for Above {
    fn call_handler(&mut self, _: &mut Shared, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
        match self {
            Self::Alive => alive(signal, cx),
        }
    }
}

/// What every phase does that is not leaving.
fn alive(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Doomed => Transition(Phase::Terminating { cleaned: false }),
        Signal::Unreadable => {
            cx.unreadable();
            Handled
        }
        Signal::Invalid(invalid) => Transition(refused(invalid.reason, &invalid.message)),
        Signal::Robbed(name) => Transition(robbed(name)),
        Signal::Unequipped(plan) => {
            equip(plan, cx);
            Handled
        }
        Signal::Outdated(plan, digest) => Transition(begin(plan, digest, cx)),
        Signal::Unused | Signal::Idle | Signal::Broken(_) | Signal::Available | Signal::Unfinished => Handled,
    }
}

fn refused(reason: Reason, message: &str) -> Phase {
    Phase::Failed { failure: Failure { reason, message: bounded(message), cause: Cause::Input } }
}

fn robbed(name: &str) -> Phase {
    refused(
        Reason::InvalidConfiguration,
        &format!("Secret {name} was deleted, and what was generated in it is lost: put it back"),
    )
}

/// Has the instance secret written.
fn equip(plan: &Plan, cx: &mut Cx<'_>) {
    let name = plan.instance.as_ref().map(|instance| instance.name.clone()).unwrap_or_default();
    if !is_held(plan, cx) {
        return;
    }
    match &cx.world.instance {
        Seen::Known(Instance::Absent) => cx.out.ensure(Command::WriteInstance { replaces: None }),
        Seen::Known(Instance::There { uid, complete: false }) => {
            cx.out.ensure(Command::WriteInstance { replaces: Some(uid.clone()) });
        }
        Seen::Known(Instance::There { complete: true, .. }) | Seen::Unknown(_) => cx.unreadable(),
    }
    cx.out.waiting_on("the instance secret to stand", name);
}

/// Holds the own object and the provider, before anything is made. Returns whether both are held.
fn is_held(plan: &Plan, cx: &mut Cx<'_>) -> bool {
    if !cx.world.finalizer {
        cx.out.ensure(Command::AddFinalizer);
        cx.out.waiting_on("the own finalizer", "");
        return false;
    }
    let name = plan.provider.clone();
    match cx.world.providers.get(&name) {
        None => {
            cx.unreadable();
            return false;
        }
        Some(None) => {
            cx.out.waiting_on("the provider", name);
            return false;
        }
        Some(Some(provider)) if provider.finalizer => {}
        Some(Some(provider)) if provider.deleting => {
            cx.out.waiting_on("the provider to be gone", name);
            return false;
        }
        Some(Some(provider)) => {
            cx.memory.providers.insert(name.clone());
            let (uid, version) = (provider.uid.clone(), provider.version.clone());
            cx.out.ensure(Command::HoldProvider(ProviderRef { name: name.clone(), uid, version }));
            cx.out.waiting_on("the provider's finalizer", name);
            return false;
        }
    }
    cx.memory.providers.insert(name);
    true
}

fn pending(idle: bool, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Unused | Signal::Idle if idle => {
            cx.out.waiting_on("somebody to use it", "");
            Handled
        }
        Signal::Unused | Signal::Idle | Signal::Broken(_) | Signal::Available | Signal::Unfinished => {
            let Seen::Known(Ok(plan)) = &cx.world.intent else { return Handled };
            if idle {
                let gone = |one: &component::Record| matches!(one.phase, component::Phase::Gone { .. });
                if cx.memory.workload.as_ref().is_some_and(|one| !gone(one)) {
                    cx.out.waiting_on("the workload to be gone", "");
                    return Handled;
                }
                cx.memory.workload = None;
                cx.memory.idle_since = None;
                return Transition(Phase::Pending { idle: false });
            }
            let Some(digest) = plan.digest() else { return Handled };
            if !is_held(plan, cx) {
                return Handled;
            }
            Transition(begin(plan, &digest, cx))
        }
        Signal::Doomed
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Robbed(_)
        | Signal::Unequipped(_)
        | Signal::Outdated(..) => Super,
    }
}

/// Begins a rollout; a workload that needs nothing passes at once.
fn begin(plan: &Plan, digest: &Digest, cx: &mut Cx<'_>) -> Phase {
    let Some(workload) = &plan.workload else { return Phase::Pending { idle: false } };
    if !cx.world.finalizer || !cx.memory.providers.contains(&plan.provider) {
        return Phase::Pending { idle: false };
    }
    let asked_again = cx.world.retry.is_some() && cx.world.retry != cx.memory.retry;
    cx.memory.retry.clone_from(&cx.world.retry);
    cx.memory.idle_since = None;
    let record = cx.memory.workload.take().unwrap_or_else(|| component::Record::new(0));
    cx.memory.workload = Some(restarted(record, workload, asked_again, cx.world.now));
    Phase::Deploying { plan: digest.clone() }
}

fn deploying(plan: &Digest, signal: &Signal<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Available | Signal::Unused | Signal::Idle => Transition(Phase::Ready { plan: plan.clone() }),
        Signal::Broken(failure) => {
            let message = bounded(&format!("{}: {}", failure.reason.as_str(), failure.message));
            let cause = Cause::Running { plan: plan.clone() };
            Transition(Phase::Failed { failure: Failure { reason: Reason::DeployFailed, message, cause } })
        }
        Signal::Doomed
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Robbed(_)
        | Signal::Unequipped(_)
        | Signal::Outdated(..)
        | Signal::Unfinished => Super,
    }
}

fn ready(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Unused => {
            let since = *cx.memory.idle_since.get_or_insert(cx.world.now);
            let plan = cx.world.intent.known().and_then(|intent| intent.as_ref().ok());
            match plan.and_then(|plan| plan.idle_secs).map(|secs| since.after(secs)) {
                Some(at) if at > cx.world.now => cx.out.wake_at(at, WakeReason::Idle),
                Some(_) => return Transition(Phase::Pending { idle: true }),
                None => {}
            }
            Handled
        }
        Signal::Idle => Transition(Phase::Pending { idle: true }),
        Signal::Available => {
            cx.memory.idle_since = None;
            Handled
        }
        Signal::Unfinished | Signal::Broken(_) => Transition(Phase::Pending { idle: false }),
        Signal::Doomed
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Robbed(_)
        | Signal::Unequipped(_)
        | Signal::Outdated(..) => Super,
    }
}

fn failed(failure: &Failure, signal: &Signal<'_>) -> Outcome<Phase> {
    let is_same = |reason: Reason, message: &str| {
        failure.cause == Cause::Input && failure.reason == reason && failure.message == bounded(message)
    };
    match signal {
        Signal::Invalid(invalid) if is_same(invalid.reason, &invalid.message) => Handled,
        Signal::Robbed(name) if robbed(name) == (Phase::Failed { failure: failure.clone() }) => Handled,
        Signal::Unused | Signal::Idle | Signal::Broken(_) | Signal::Available | Signal::Unfinished => Handled,
        Signal::Doomed
        | Signal::Unreadable
        | Signal::Invalid(_)
        | Signal::Robbed(_)
        | Signal::Unequipped(_)
        | Signal::Outdated(..) => Super,
    }
}

/// Steps the workload as far as the phase lets it.
fn tend(record: &mut Record, ahead: &Signal<'_>, world: &World, out: &mut Outbox<Command, Notice>) {
    let plan = world.intent.known().and_then(|intent| intent.as_ref().ok());
    let wanted = |held: &Digest| plan.filter(|plan| plan.digest().as_ref() == Some(held));
    let (permission, plan) = match &record.phase {
        Phase::Pending { idle: true } => match ahead {
            Signal::Unused | Signal::Idle | Signal::Broken(_) | Signal::Available | Signal::Unfinished => {
                (Permission::Leaving { turn: true }, None)
            }
            Signal::Doomed
            | Signal::Unreadable
            | Signal::Invalid(_)
            | Signal::Robbed(_)
            | Signal::Unequipped(_)
            | Signal::Outdated(..) => return,
        },
        Phase::Deploying { plan } => (Permission::Admitted, wanted(plan)),
        Phase::Ready { plan } => (Permission::Held, wanted(plan)),
        Phase::Failed { .. } => (Permission::Held, None),
        Phase::Pending { idle: false } | Phase::Terminating { .. } => return,
    };
    step_workload(&mut record.memory, world, permission, plan, out);
}

/// Runs the workload to its fixed point.
pub(super) fn step_workload(
    memory: &mut Memory,
    world: &World,
    permission: Permission,
    plan: Option<&Plan>,
    out: &mut Outbox<Command, Notice>,
) {
    let Some(mut record) = memory.workload.take() else { return };
    let jobs = world.jobs.known().into_iter().flatten();
    let highest = jobs.map(|job| job.serial).max().unwrap_or(0).max(memory.serial);
    let seen = component::World {
        now: world.now,
        pod_failure_secs: world.pod_failure_secs,
        permission,
        plan: plan.and_then(|plan| plan.workload.clone()),
        next_serial: highest.saturating_add(1),
        jobs: world.jobs.clone(),
        readiness: world.readiness.clone(),
    };
    let (mut child, mut notices) = (Outbox::default(), Vec::new());
    for _ in 0..=HOPS_MAX {
        child = Outbox::default();
        record = Component::dispatch(record, &seen, &mut child);
        let moved = child.take_moved();
        notices.append(child.notices_mut());
        if !moved {
            break;
        }
    }
    child.notices_mut().append(&mut notices);
    memory.serial = memory.serial.max(record.attempt().map_or(0, |attempt| attempt.serial));
    memory.workload = Some(record);
    out.adopt(child, |command| Some(Command::of(command)), Notice::Workload);
}

/// Lets go the consumers that a person lets go, and the providers that are not used any more.
fn keep_house(record: &mut Record, world: &World, out: &mut Outbox<Command, Notice>) {
    if let (Some(uid), Seen::Known(obligations)) = (&world.forget, &world.obligations) {
        let known = roster(world);
        let given_up = obligations
            .iter()
            .filter(|owed| owed.uid == *uid && known.has_abandoned(&owed.uid, &owed.component));
        for owed in given_up {
            out.ensure(Command::Cleanup(Cleanup::Forget { secret: owed.secret.clone() }));
        }
    }
    if !matches!(Signal::read(record, world), Signal::Available | Signal::Unused) {
        return;
    }
    let (Phase::Ready { .. }, Seen::Known(Ok(plan))) = (&record.phase, &world.intent) else { return };
    let old: Vec<String> =
        record.memory.providers.iter().filter(|name| **name != plan.provider).cloned().collect();
    for name in old {
        leaving::release_provider(&name, &mut record.memory, world, out);
    }
}

impl Machine for Shared {
    type Phase = Record;
    type World = World;
    type Command = Command;
    type Notice = Notice;
    type Status = Status;
    const VERSION: u32 = 1;

    fn dispatch(mut record: Record, world: &World, out: &mut Outbox<Command, Notice>) -> Record {
        let ahead = Signal::read(&record, world);
        if !matches!(ahead, Signal::Doomed | Signal::Outdated(..)) {
            tend(&mut record, &ahead, world, out);
        }
        keep_house(&mut record, world, out);
        if let (Seen::Known(Ok(plan)), Seen::Known(Instance::There { .. })) = (&world.intent, &world.instance)
        {
            record.memory.instance = plan.instance.as_ref().map(|instance| instance.name.clone());
        }
        let signal = Signal::read(&record, world);
        let mut idle = Shared.uninitialized_state_machine();
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
        !matches!(
            command,
            Command::WriteInstance { .. }
                | Command::Cleanup(Cleanup::Forget { .. } | Cleanup::DeleteInstance { .. })
        )
    }
}

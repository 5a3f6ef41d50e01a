//! The states of a slice and their handlers, on statig without its macro (see ARCHITECTURE.md for why).

use super::{
    Command, Notice, Phase, Planned, Record, Signal, World,
    signal::{Debt, Entry, Progress, Rest},
};
use crate::{
    component::{ATTEMPTS_MAX, Ailment, DISRUPTIONS_MAX, DRAIN_GRACE_SECS, backoff_secs},
    job::{self, Attempt, JobFailure, JobState, JobView, Op},
    kernel::{Outbox, Timestamp, WakeReason, limits::bounded},
    reason::FailureReason,
};
use statig::blocking::{
    IntoStateMachine, IntoStateMachineExt as _,
    Outcome::{self, Handled, Super, Transition},
    State, Superstate,
};

/// Seconds before a read that failed is repeated when no watch will tell.
const REREAD_SECS: u64 = 5;
/// Seconds before one that gave precedence to an earlier one looks again: no watch tells when that one lets be.
pub const QUEUE_SECS: u64 = 5;

/// What is awaited where all places are taken.
pub const AT_CAPACITY: &str = "a place at a shared component";
/// What is awaited where a shared component does not serve.
pub const NOT_READY: &str = "a shared component to be ready";

/// Every transition between phases.
pub const EDGES: &[(&str, &str)] = &[
    ("Pending", "Provisioning"),
    ("Pending", "Provisioned"),
    ("Pending", "Draining"),
    ("Provisioning", "Pending"),
    ("Provisioning", "Provisioning"),
    ("Provisioning", "Provisioned"),
    ("Provisioning", "Failed"),
    ("Provisioning", "Draining"),
    ("Provisioned", "Draining"),
    ("Failed", "Draining"),
    ("Draining", "Deprovisioning"),
    ("Draining", "Releasing"),
    ("Deprovisioning", "Deprovisioning"),
    ("Deprovisioning", "Retreating"),
    ("Deprovisioning", "Releasing"),
    ("Retreating", "Deprovisioning"),
    ("Retreating", "Releasing"),
    ("Releasing", "Gone"),
];

/// The machine of one slice.
pub struct Slice;

/// What a handler may look at and say.
pub struct Cx<'a> {
    record: &'a mut Record,
    world: &'a World,
    out: &'a mut Outbox<Command, Notice>,
}

/// The superstate of all phases that may still be asked to leave.
pub enum Above {
    /// Staying, so far.
    Staying,
}

impl IntoStateMachine for Slice {
    type Event<'e> = Signal<'e>;
    type Context<'c> = Cx<'c>;
    type State = Phase;
    type Superstate<'s> = Above;

    fn initial() -> Phase {
        Phase::Pending { not_before: None }
    }

    // `before_transition` has its arguments swapped in statig 0.4.1; this one is right.
    fn after_transition(&mut self, from: &Phase, to: &Phase, cx: &mut Cx<'_>) {
        cx.record.ailment = None;
        cx.out.moved(Notice::Moved { from: from.name(), to: to.name() });
    }
}

impl State<Slice> for Phase {
    fn call_handler(&mut self, _: &mut Slice, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Self> {
        match self {
            Self::Pending { not_before } => pending(*not_before, signal, cx),
            Self::Provisioning { attempt } => provisioning(attempt, signal, cx),
            Self::Provisioned | Self::Failed => Super,
            Self::Draining { kill_at } => draining(*kill_at, signal, cx),
            Self::Deprovisioning { attempt } => deprovisioning(attempt, signal, cx),
            Self::Retreating { not_before } => retreating(*not_before, signal, cx),
            Self::Releasing { forced } => releasing(*forced, signal, cx),
            Self::Gone { .. } => Handled,
        }
    }

    fn superstate(&mut self) -> Option<Above> {
        (!self.leaves()).then_some(Above::Staying)
    }
}

impl Superstate<Slice> for Above {
    fn call_handler(&mut self, _: &mut Slice, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
        match self {
            Self::Staying => common(signal, cx, |cx| {
                Transition(Phase::Draining { kill_at: cx.world.now.after(DRAIN_GRACE_SECS) })
            }),
        }
    }
}

/// What every phase does alike. A signal that a phase does not know of asks for nothing in it.
fn common(
    signal: &Signal<'_>,
    cx: &mut Cx<'_>,
    leave: impl Fn(&mut Cx<'_>) -> Outcome<Phase>,
) -> Outcome<Phase> {
    match signal {
        Signal::Leaving => leave(cx),
        Signal::Unreadable(_) => {
            cx.out.wake_at(cx.world.now.after(REREAD_SECS), WakeReason::Unreadable);
            waiting(cx, "a readable cluster", "")
        }
        Signal::Held => waiting(cx, "its turn", ""),
        Signal::Busy(job) => waiting(cx, "an older Job of the consumer to end", job.name.as_str()),
        Signal::Early
        | Signal::Entry(_)
        | Signal::Attempt(_)
        | Signal::Debt(_)
        | Signal::Rest(_)
        | Signal::Quiet => Handled,
    }
}

fn waiting(cx: &mut Cx<'_>, what: &'static str, detail: &str) -> Outcome<Phase> {
    cx.out.waiting_on(what, bounded(detail));
    Handled
}

fn pending(not_before: Option<Timestamp>, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Early => pause(not_before, cx),
        Signal::Entry(entry) => enter(entry, cx),
        Signal::Leaving
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Busy(_)
        | Signal::Attempt(_)
        | Signal::Debt(_)
        | Signal::Rest(_)
        | Signal::Quiet => Super,
    }
}

fn enter(entry: &Entry<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let shared = cx.record.shared.clone();
    if let Some((what, detail)) = entry.wait(&shared) {
        if let Entry::Behind(_) = entry {
            cx.out.wake_at(cx.world.now.after(QUEUE_SECS), WakeReason::Unwatched);
        }
        return waiting(cx, what, &detail);
    }
    match entry {
        Entry::Missing | Entry::Closing | Entry::Full(_) | Entry::Behind(_) | Entry::Unready(_) => Handled,
        Entry::Later(first) => waiting(cx, "a place at another shared component first", first.as_str()),
        Entry::Free(fence) => {
            cx.out.ensure(Command::Register(fence.clone()));
            waiting(cx, "the registration", shared.as_str())
        }
        Entry::Unobliged(payload, found) => {
            cx.out.ensure(Command::Oblige { payload: (*payload).clone(), replaces: found.cloned() });
            waiting(cx, "the obligation to stand", shared.as_str())
        }
        Entry::Unbound => {
            cx.out.ensure(Command::Bind);
            waiting(cx, "the binding to stand", shared.as_str())
        }
        Entry::Admitted(plan) => Transition(provision(plan, cx)),
    }
}

fn pause(not_before: Option<Timestamp>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if let Some(at) = not_before {
        cx.out.wake_at(at, WakeReason::Backoff);
    }
    let why = cx.record.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    waiting(cx, "the pause before the next attempt", &why)
}

fn provision(plan: &Planned, cx: &mut Cx<'_>) -> Phase {
    cx.record.payload.clone_from(&plan.payload);
    cx.record.level = plan.level;
    if plan.provisions {
        return Phase::Provisioning { attempt: Attempt { serial: cx.world.next_serial, job: None } };
    }
    provisioned(cx)
}

fn provisioned(cx: &mut Cx<'_>) -> Phase {
    cx.record.accepted.clone_from(&cx.record.payload);
    cx.record.provision_attempts = 0;
    cx.record.disruptions = 0;
    cx.record.failure = None;
    Phase::Provisioned
}

fn provisioning(attempt: &Attempt, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Attempt(Progress::Absent) => start(Op::Provision, attempt, cx),
        Signal::Attempt(Progress::Active(job)) if attempt.job.is_none() => {
            Transition(Phase::Provisioning { attempt: seen(attempt, job) })
        }
        Signal::Attempt(Progress::Active(job)) => attend(job, "the provision Job to end", cx),
        Signal::Attempt(Progress::Succeeded) => {
            cx.out.notice(Notice::JobEnded { op: Op::Provision, failure: None });
            Transition(provisioned(cx))
        }
        Signal::Attempt(Progress::Broken(failure)) => charge_provision(told(cx, (*failure).clone()), cx),
        Signal::Attempt(Progress::Lost) => charge_provision(told(cx, lost()), cx),
        Signal::Leaving
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Early
        | Signal::Busy(_)
        | Signal::Entry(_)
        | Signal::Debt(_)
        | Signal::Rest(_)
        | Signal::Quiet => Super,
    }
}

/// Removes what has ended and is replaced by this attempt, and makes its Job.
fn start(op: Op, attempt: &Attempt, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if let Some(view) = &cx.world.view {
        for old in job::replaced(attempt, &view.jobs) {
            cx.out.ensure(Command::DeleteJob { name: old.name.clone(), uid: old.uid.clone() });
        }
    }
    cx.out.ensure(Command::CreateJob { op, serial: attempt.serial });
    waiting(cx, "a Job to appear", op.as_str())
}

fn seen(attempt: &Attempt, job: &JobView) -> Attempt {
    Attempt { serial: attempt.serial, job: Some(job.uid.clone()) }
}

fn lost() -> JobFailure {
    let message = "the Job was deleted before its outcome was known".to_owned();
    JobFailure { reason: FailureReason::HelmFailed, message, disrupted: false }
}

/// Waits for a Job whose pod may be unable to start; one that was unable for too long is ended.
fn attend(job: &JobView, what: &'static str, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let complaint = match &job.state {
        JobState::Active { waiting } => waiting.clone(),
        JobState::Succeeded | JobState::Failed(_) => None,
    };
    let detail = complaint.as_ref().map(|complaint| complaint.message.clone()).unwrap_or_default();
    if job.deleting {
        return waiting(cx, "a Job and its pod to go", &detail);
    }
    match Ailment::note(&mut cx.record.ailment, complaint, cx.world.now, cx.world.pod_failure_secs) {
        Err(_) => {
            cx.out.ensure(Command::DeleteJob { name: job.name.clone(), uid: job.uid.clone() });
            waiting(cx, "a Job and its pod to go", &detail)
        }
        Ok(at) => {
            if let Some(at) = at {
                cx.out.wake_at(at, WakeReason::PodFailure);
            }
            waiting(cx, what, &detail)
        }
    }
}

/// Prefers what kept the pod from starting to how its Job then ended.
fn told(cx: &Cx<'_>, ended: JobFailure) -> JobFailure {
    let over = |ailment: &&Ailment| ailment.is_over(cx.world.now, cx.world.pod_failure_secs);
    cx.record.ailment.as_ref().filter(over).map_or(ended, Ailment::failure)
}

/// Charges one failed attempt, unless the cluster disrupted it. Returns how many were charged; none for a disruption.
fn charge(op: Op, mut failure: JobFailure, cx: &mut Cx<'_>) -> Option<u8> {
    failure.message = bounded(&failure.message);
    let record = &mut *cx.record;
    cx.out.notice(Notice::JobEnded { op, failure: Some(failure.reason) });
    let excused = failure.disrupted && record.disruptions < DISRUPTIONS_MAX;
    let attempts =
        if op.removes() { &mut record.deprovision_attempts } else { &mut record.provision_attempts };
    if excused {
        record.disruptions = record.disruptions.saturating_add(1);
    } else {
        *attempts = attempts.saturating_add(1);
    }
    let charged = *attempts;
    record.failure = Some(failure);
    (!excused).then_some(charged)
}

fn charge_provision(failure: JobFailure, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let reason = failure.reason;
    let charged = charge(Op::Provision, failure, cx);
    if charged.is_some_and(|attempts| attempts >= ATTEMPTS_MAX) {
        return Transition(Phase::Failed);
    }
    let attempts = cx.record.provision_attempts;
    cx.out.notice(Notice::Retried { op: Op::Provision, attempts, reason });
    Transition(Phase::Pending { not_before: Some(cx.world.now.after(backoff_secs(attempts))) })
}

fn draining(kill_at: Timestamp, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let Signal::Busy(_) = signal else { return go_on(signal, cx) };
    if kill_at > cx.world.now {
        cx.out.wake_at(kill_at, WakeReason::DrainDeadline);
        return waiting(cx, "a running Job to end", "");
    }
    let jobs = cx.world.view.iter().filter_map(|view| view.jobs.known()).flatten();
    for job in jobs.filter(|job| job::is_live(job) && !job.deleting) {
        cx.out.ensure(Command::DeleteJob { name: job.name.clone(), uid: job.uid.clone() });
    }
    waiting(cx, "a running Job and its pod to go", "")
}

/// What follows once no Job runs: the next attempt, or the end.
fn go_on(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let Signal::Debt(debt) = signal else { return common(signal, cx, |_| Handled) };
    match debt {
        Debt::Owed => {
            let attempt = Attempt { serial: cx.world.next_serial, job: None };
            Transition(Phase::Deprovisioning { attempt })
        }
        Debt::GivenUp => Transition(Phase::Releasing { forced: true }),
        Debt::Clear => Transition(Phase::Releasing { forced: false }),
    }
}

fn deprovisioning(attempt: &Attempt, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Attempt(Progress::Absent) => start(Op::Deprovision, attempt, cx),
        Signal::Attempt(Progress::Active(job)) if attempt.job.is_none() => {
            Transition(Phase::Deprovisioning { attempt: seen(attempt, job) })
        }
        Signal::Attempt(Progress::Active(job)) => attend(job, "the deprovision Job to end", cx),
        Signal::Attempt(Progress::Succeeded) => {
            cx.out.notice(Notice::JobEnded { op: Op::Deprovision, failure: None });
            Transition(Phase::Releasing { forced: false })
        }
        Signal::Attempt(Progress::Broken(failure)) => charge_deprovision(told(cx, (*failure).clone()), cx),
        Signal::Attempt(Progress::Lost) => charge_deprovision(told(cx, lost()), cx),
        Signal::Leaving
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Early
        | Signal::Busy(_)
        | Signal::Entry(_)
        | Signal::Debt(_)
        | Signal::Rest(_)
        | Signal::Quiet => common(signal, cx, |_| Handled),
    }
}

/// After the last failed attempt the slice is given up, visibly, and its place stays taken.
fn charge_deprovision(failure: JobFailure, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let reason = failure.reason;
    charge(Op::Deprovision, failure, cx);
    let attempts = cx.record.deprovision_attempts;
    if attempts >= ATTEMPTS_MAX {
        cx.out.notice(Notice::Forced { reason });
        return Transition(Phase::Releasing { forced: true });
    }
    cx.out.notice(Notice::Retried { op: Op::Deprovision, attempts, reason });
    Transition(Phase::Retreating { not_before: cx.world.now.after(backoff_secs(attempts)) })
}

fn retreating(not_before: Timestamp, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    if *signal == Signal::Early { pause(Some(not_before), cx) } else { go_on(signal, cx) }
}

fn releasing(forced: bool, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let Signal::Rest(rest) = signal else { return common(signal, cx, |_| Handled) };
    match rest {
        Rest::Clear => return Transition(Phase::Gone { forced }),
        Rest::Obliged(uid) => cx.out.ensure(Command::Acquit { uid: (*uid).clone() }),
        Rest::Jobs(jobs) => {
            for job in jobs.iter().filter(|job| !job.deleting) {
                cx.out.ensure(Command::DeleteJob { name: job.name.clone(), uid: job.uid.clone() });
            }
        }
        Rest::Bound(uid) => cx.out.ensure(Command::Unbind { uid: (*uid).clone() }),
        Rest::Registered(fence) => cx.out.ensure(Command::Release(fence.clone())),
        Rest::Unwritten(at) => {
            let reason = bounded(&cx.record.cause().message);
            cx.out.ensure(Command::Abandon { at: at.clone(), reason });
        }
    }
    let shared = cx.record.shared.clone();
    waiting(cx, "the place to be given up", shared.as_str())
}

impl Slice {
    /// Handles one signal and returns the slice's record after it.
    pub fn dispatch(mut record: Record, world: &World, out: &mut Outbox<Command, Notice>) -> Record {
        let held = record.clone();
        let signal = Signal::read(&held, world);
        let mut idle = Slice.uninitialized_state_machine();
        *idle.state_mut() = record.phase.clone();
        let mut cx = Cx { record: &mut record, world, out };
        // Runs entry actions towards the stored phase; there are none, on purpose.
        let mut machine = idle.init_with_context(&mut cx);
        machine.handle_with_context(&signal, &mut cx);
        let phase = machine.state().clone();
        record.phase = phase;
        record
    }
}

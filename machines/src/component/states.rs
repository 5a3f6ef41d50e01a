//! The states of a component and their handlers, on statig without its macro (see ARCHITECTURE.md for why).

use super::{Ailment, Command, Notice, Phase, Record, Signal, World};
use crate::{
    job::{self, Attempt, Complaint, JobFailure, JobView, Op},
    kernel::{Outbox, Timestamp, WakeReason, limits::bounded},
    names::Uid,
    reason::FailureReason,
};
use statig::blocking::{
    IntoStateMachine, IntoStateMachineExt as _,
    Outcome::{self, Handled, Super, Transition},
    State, Superstate,
};

/// Failed attempts after which a component is given up, counted for each operation alone.
pub const ATTEMPTS_MAX: u8 = 5;
/// Disrupted attempts that are not charged; a node that drains for ever must not keep a component for ever.
pub const DISRUPTIONS_MAX: u8 = 20;
/// Seconds that a running deployer Job is given when its component has to go.
pub const DRAIN_GRACE_SECS: u64 = 30;
/// Seconds before a read that failed is repeated when no watch will tell.
const REREAD_SECS: u64 = 5;
const BACKOFF_FIRST_SECS: u64 = 10;
const BACKOFF_MAX_SECS: u64 = 300;

/// Returns the pause after the `failed`-th failed attempt: 10 s, 20 s, 40 s … at most 5 minutes.
pub fn backoff_secs(failed: u8) -> u64 {
    let doublings = u32::from(failed.saturating_sub(1).min(8));
    BACKOFF_FIRST_SECS.saturating_mul(1 << doublings).min(BACKOFF_MAX_SECS)
}

/// Every transition between phases. The explorer proves that these are taken and no others; a rollout of the parent
/// begins anew beside them.
pub const EDGES: &[(&str, &str)] = &[
    ("Pending", "Submitting"),
    ("Pending", "Draining"),
    ("Pending", "Gone"),
    ("Submitting", "Deploying"),
    ("Submitting", "Draining"),
    ("Submitting", "Gone"),
    ("Deploying", "Pending"),
    ("Deploying", "Settling"),
    ("Deploying", "Failed"),
    ("Deploying", "Draining"),
    ("Deploying", "Gone"),
    ("Settling", "Pending"),
    ("Settling", "Ready"),
    ("Settling", "Failed"),
    ("Settling", "Draining"),
    ("Settling", "Gone"),
    ("Ready", "Draining"),
    ("Ready", "Gone"),
    ("Failed", "Draining"),
    ("Failed", "Gone"),
    ("Draining", "Undeploying"),
    ("Draining", "Gone"),
    ("Undeploying", "Undeploying"),
    ("Undeploying", "Retreating"),
    ("Undeploying", "Gone"),
    ("Retreating", "Undeploying"),
    ("Retreating", "Gone"),
];

/// The machine of one component.
pub struct Component;

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

impl IntoStateMachine for Component {
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

impl State<Component> for Phase {
    fn call_handler(&mut self, _: &mut Component, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Self> {
        match self {
            Self::Pending { not_before } => pending(*not_before, signal, cx),
            Self::Submitting { attempt } => submitting(attempt, signal, cx),
            Self::Deploying { attempt } => deploying(attempt, signal, cx),
            Self::Settling { give_up_at, .. } => settling(*give_up_at, signal, cx),
            Self::Ready | Self::Failed => Super,
            Self::Draining { kill_at } => draining(*kill_at, signal, cx),
            Self::Undeploying { attempt } => undeploying(attempt, signal, cx),
            Self::Retreating { not_before } => retreating(*not_before, signal, cx),
            Self::Gone { .. } => Handled,
        }
    }

    fn superstate(&mut self) -> Option<Above> {
        match self {
            Self::Pending { .. }
            | Self::Submitting { .. }
            | Self::Deploying { .. }
            | Self::Settling { .. }
            | Self::Ready
            | Self::Failed => Some(Above::Staying),
            Self::Draining { .. }
            | Self::Undeploying { .. }
            | Self::Retreating { .. }
            | Self::Gone { .. } => None,
        }
    }
}

impl Superstate<Component> for Above {
    fn call_handler(&mut self, _: &mut Component, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
        match self {
            Self::Staying => staying(signal, cx),
        }
    }
}

/// Leaving is handled once for all phases that stay.
fn staying(signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Abandoned => Transition(Phase::Gone { forced: false }),
        Signal::Leaving { .. } => {
            let jobs = cx.world.jobs.known();
            if !cx.record.touched && jobs.is_some_and(Vec::is_empty) {
                return Transition(Phase::Gone { forced: false });
            }
            Transition(Phase::Draining { kill_at: cx.world.now.after(DRAIN_GRACE_SECS) })
        }
        Signal::Unreadable(_) => unreadable(cx),
        Signal::Held => waiting(cx, "its turn", ""),
        Signal::Admitted
        | Signal::Early
        | Signal::Busy(_)
        | Signal::Absent
        | Signal::Active(_)
        | Signal::Succeeded(_)
        | Signal::Broken(..)
        | Signal::Lost
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Handled,
    }
}

fn unreadable(cx: &mut Cx<'_>) -> Outcome<Phase> {
    cx.out.wake_at(cx.world.now.after(REREAD_SECS), WakeReason::Unreadable);
    waiting(cx, "a readable cluster", "")
}

fn waiting(cx: &mut Cx<'_>, what: &'static str, detail: &str) -> Outcome<Phase> {
    cx.out.waiting_on(what, bounded(detail));
    Handled
}

fn pending(not_before: Option<Timestamp>, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Admitted => {
            cx.record.payload = cx.world.plan.as_ref().map(|plan| plan.payload.clone());
            cx.record.level = cx.world.plan.as_ref().map_or(cx.record.level, |plan| plan.level);
            cx.record.touched = true;
            // The attempt may change the release: from now on what was accepted before says nothing.
            cx.record.accepted = None;
            Transition(Phase::Submitting { attempt: Attempt { serial: cx.world.next_serial, job: None } })
        }
        Signal::Early => {
            if let Some(at) = not_before {
                cx.out.wake_at(at, WakeReason::Backoff);
            }
            let why = cx.record.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
            waiting(cx, "the pause before the next attempt", &why)
        }
        Signal::Abandoned
        | Signal::Leaving { .. }
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Busy(_)
        | Signal::Absent
        | Signal::Active(_)
        | Signal::Succeeded(_)
        | Signal::Broken(..)
        | Signal::Lost
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Super,
    }
}

fn submitting(attempt: &Attempt, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Absent => {
            replace(attempt, cx);
            start(Op::Deploy, attempt, cx);
            waiting(cx, "the deployer Job to appear", "")
        }
        Signal::Busy(other) => waiting(cx, "an older Job of the release to end", other.name.as_str()),
        Signal::Active(job) | Signal::Succeeded(job) | Signal::Broken(job, _) => {
            Transition(Phase::Deploying { attempt: seen(attempt, job) })
        }
        // A Job that was recorded before its phase was: the record is damaged, the verdict is not.
        Signal::Lost => charge_deploy(lost(), true, cx),
        Signal::Abandoned
        | Signal::Leaving { .. }
        | Signal::Unreadable(_)
        | Signal::Admitted
        | Signal::Held
        | Signal::Early
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Super,
    }
}

/// Removes what has ended and is replaced by this attempt: the Secret first, it cannot be listed once its Job is gone.
fn replace(attempt: &Attempt, cx: &mut Cx<'_>) {
    for old in job::replaced(attempt, &cx.world.jobs) {
        delete_payload(old, cx.out);
        cx.out.ensure(Command::DeleteJob { name: old.name.clone(), uid: old.uid.clone() });
    }
}

fn delete_payload(job: &JobView, out: &mut Outbox<Command, Notice>) {
    if let Some(uid) = &job.payload {
        out.ensure(Command::DeletePayload { name: job.name.clone(), uid: uid.clone() });
    }
}

/// Ends a Job before its time; its Secret second, since a pod without it would neither start nor fail.
fn end(job: &JobView, out: &mut Outbox<Command, Notice>) {
    out.ensure(Command::DeleteJob { name: job.name.clone(), uid: job.uid.clone() });
    delete_payload(job, out);
}

fn start(op: Op, attempt: &Attempt, cx: &mut Cx<'_>) {
    if !op.removes() {
        cx.out.ensure(Command::CreatePayload { serial: attempt.serial });
    }
    cx.out.ensure(Command::CreateJob { op, serial: attempt.serial });
}

fn seen(attempt: &Attempt, job: &JobView) -> Attempt {
    Attempt { serial: attempt.serial, job: Some(job.uid.clone()) }
}

fn deploying(attempt: &Attempt, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Active(job) => attend(job, "the deployer Job to end", cx),
        Signal::Succeeded(job) => {
            let payload = cx.record.payload.clone();
            cx.record.accepted = payload.map(|payload| accepted(attempt, job.uid.clone(), payload));
            cx.out.notice(Notice::JobEnded { op: Op::Deploy, failure: None });
            Transition(settle(cx))
        }
        Signal::Broken(_, failure) => charge_deploy(told(cx, (*failure).clone()), true, cx),
        // Absent is said only of a Job that was never recorded: a damaged record.
        Signal::Lost | Signal::Absent => charge_deploy(told(cx, lost()), true, cx),
        Signal::Busy(other) => waiting(cx, "an older Job of the release to end", other.name.as_str()),
        Signal::Abandoned
        | Signal::Leaving { .. }
        | Signal::Unreadable(_)
        | Signal::Admitted
        | Signal::Held
        | Signal::Early
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Super,
    }
}

fn accepted(attempt: &Attempt, job: Uid, payload: crate::names::Digest) -> super::Accepted {
    super::Accepted { serial: attempt.serial, job, payload }
}

/// Readiness is given its time from now on.
fn settle(cx: &Cx<'_>) -> Phase {
    let within = cx.world.plan.as_ref().map_or(0, |plan| plan.ready_within_secs);
    Phase::Settling { since: cx.world.now, give_up_at: cx.world.now.after(within) }
}

fn lost() -> JobFailure {
    let message = "the Job was deleted before its outcome was known".to_owned();
    JobFailure { reason: FailureReason::HelmFailed, message, disrupted: false }
}

/// Remembers since when a complaint of its class stands. Returns the failure once that was too long.
fn ail(complaint: Option<Complaint>, cx: &mut Cx<'_>) -> Option<JobFailure> {
    match Ailment::note(&mut cx.record.ailment, complaint, cx.world.now, cx.world.pod_failure_secs) {
        Err(failure) => return Some(failure),
        Ok(Some(at)) => cx.out.wake_at(at, WakeReason::PodFailure),
        Ok(None) => {}
    }
    None
}

/// Waits for a Job whose pod may be unable to start. One that was unable for too long is ended, and what becomes of it
/// is charged once it is gone: never are there two of them.
fn attend(job: &JobView, what: &'static str, cx: &mut Cx<'_>) -> Outcome<Phase> {
    let complaint = match &job.state {
        job::JobState::Active { waiting } => waiting.clone(),
        job::JobState::Succeeded | job::JobState::Failed(_) => None,
    };
    let detail = complaint.as_ref().map(|complaint| complaint.message.clone()).unwrap_or_default();
    if job.deleting {
        // A pod that is being ended says nothing of why it could not start: what was told before stands.
        return waiting(cx, "a Job and its pod to go", &detail);
    }
    if ail(complaint, cx).is_none() {
        return waiting(cx, what, &detail);
    }
    end(job, cx.out);
    waiting(cx, "a Job and its pod to go", &detail)
}

/// Prefers what kept the pod from starting to how its Job then ended.
fn told(cx: &Cx<'_>, ended: JobFailure) -> JobFailure {
    let over = |ailment: &&Ailment| ailment.is_over(cx.world.now, cx.world.pod_failure_secs);
    cx.record.ailment.as_ref().filter(over).map_or(ended, Ailment::failure)
}

fn settling(give_up_at: Timestamp, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Ready => {
            cx.record.deploy_attempts = 0;
            cx.record.disruptions = 0;
            cx.record.failure = None;
            Transition(Phase::Ready)
        }
        Signal::Unready(why, cause) => {
            let complaint = cause.map(|reason| Complaint { reason, message: (*why).to_owned() });
            if let Some(failure) = ail(complaint, cx) {
                return charge_deploy(failure, false, cx);
            }
            cx.out.wake_at(give_up_at, WakeReason::ReadinessDeadline);
            waiting(cx, "the workload to become ready", why)
        }
        Signal::Overdue(why) => {
            let message = format!("not ready in time: {why}");
            let failure = JobFailure { reason: FailureReason::ReadinessTimeout, message, disrupted: false };
            charge_deploy(failure, false, cx)
        }
        Signal::Abandoned
        | Signal::Leaving { .. }
        | Signal::Unreadable(_)
        | Signal::Admitted
        | Signal::Held
        | Signal::Early
        | Signal::Busy(_)
        | Signal::Absent
        | Signal::Active(_)
        | Signal::Succeeded(_)
        | Signal::Broken(..)
        | Signal::Lost
        | Signal::Quiet => Super,
    }
}

/// Charges one failed deploy attempt, unless the cluster disrupted it, and decides whether another follows.
fn charge_deploy(mut failure: JobFailure, by_job: bool, cx: &mut Cx<'_>) -> Outcome<Phase> {
    failure.message = bounded(&failure.message);
    let (reason, record) = (failure.reason, &mut *cx.record);
    if by_job {
        cx.out.notice(Notice::JobEnded { op: Op::Deploy, failure: Some(reason) });
    }
    let excused = failure.disrupted && record.disruptions < DISRUPTIONS_MAX;
    if excused {
        record.disruptions = record.disruptions.saturating_add(1);
    } else {
        record.deploy_attempts = record.deploy_attempts.saturating_add(1);
    }
    record.failure = Some(failure);
    let exhausted = record.deploy_attempts >= ATTEMPTS_MAX;
    if !excused && (exhausted || reason.permanent()) {
        return Transition(Phase::Failed);
    }
    let (serial, attempts) = (record.serial(), record.deploy_attempts);
    cx.out.notice(Notice::Retried { op: Op::Deploy, serial, attempts, reason });
    let pause = backoff_secs(record.deploy_attempts);
    Transition(Phase::Pending { not_before: Some(cx.world.now.after(pause)) })
}

fn draining(kill_at: Timestamp, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Abandoned => Transition(Phase::Gone { forced: false }),
        Signal::Admitted => Transition(undeploy_anew(cx)),
        Signal::Busy(_) if kill_at > cx.world.now => {
            cx.out.wake_at(kill_at, WakeReason::DrainDeadline);
            waiting(cx, "a running Job to end", "")
        }
        Signal::Busy(_) => {
            for job in
                cx.world.jobs.known().into_iter().flatten().filter(|job| job::is_live(job) && !job.deleting)
            {
                end(job, cx.out);
            }
            waiting(cx, "a running Job and its pod to go", "")
        }
        Signal::Held => waiting(cx, "what depends on it to go", ""),
        Signal::Unreadable(_) => unreadable(cx),
        Signal::Leaving { .. }
        | Signal::Early
        | Signal::Absent
        | Signal::Active(_)
        | Signal::Succeeded(_)
        | Signal::Broken(..)
        | Signal::Lost
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Handled,
    }
}

fn undeploy_anew(cx: &mut Cx<'_>) -> Phase {
    cx.record.touched = true;
    Phase::Undeploying { attempt: Attempt { serial: cx.world.next_serial, job: None } }
}

fn undeploying(attempt: &Attempt, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Abandoned => Transition(Phase::Gone { forced: false }),
        Signal::Absent => {
            replace(attempt, cx);
            start(Op::Undeploy, attempt, cx);
            waiting(cx, "the undeploy Job to appear", "")
        }
        Signal::Busy(other) => waiting(cx, "an older Job of the release to end", other.name.as_str()),
        Signal::Active(job) if attempt.job.is_none() => {
            Transition(Phase::Undeploying { attempt: seen(attempt, job) })
        }
        Signal::Active(job) => attend(job, "the undeploy Job to end", cx),
        Signal::Succeeded(_) => {
            cx.out.notice(Notice::JobEnded { op: Op::Undeploy, failure: None });
            Transition(Phase::Gone { forced: false })
        }
        Signal::Broken(_, failure) => charge_undeploy(told(cx, (*failure).clone()), cx),
        Signal::Lost => charge_undeploy(told(cx, lost()), cx),
        Signal::Unreadable(_) => unreadable(cx),
        Signal::Leaving { .. }
        | Signal::Admitted
        | Signal::Held
        | Signal::Early
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Handled,
    }
}

/// Charges one failed undeploy attempt; after the last one the component is given up, visibly.
fn charge_undeploy(mut failure: JobFailure, cx: &mut Cx<'_>) -> Outcome<Phase> {
    failure.message = bounded(&failure.message);
    let reason = failure.reason;
    cx.out.notice(Notice::JobEnded { op: Op::Undeploy, failure: Some(reason) });
    if failure.disrupted && cx.record.disruptions < DISRUPTIONS_MAX {
        cx.record.disruptions = cx.record.disruptions.saturating_add(1);
    } else {
        cx.record.undeploy_attempts = cx.record.undeploy_attempts.saturating_add(1);
    }
    cx.record.failure = Some(failure);
    let (serial, attempts) = (cx.record.serial(), cx.record.undeploy_attempts);
    if attempts >= ATTEMPTS_MAX {
        cx.out.notice(Notice::Forced { serial, reason });
        return Transition(Phase::Gone { forced: true });
    }
    cx.out.notice(Notice::Retried { op: Op::Undeploy, serial, attempts, reason });
    Transition(Phase::Retreating { not_before: cx.world.now.after(backoff_secs(attempts)) })
}

fn retreating(not_before: Timestamp, signal: &Signal<'_>, cx: &mut Cx<'_>) -> Outcome<Phase> {
    match signal {
        Signal::Abandoned => Transition(Phase::Gone { forced: false }),
        Signal::Admitted => Transition(undeploy_anew(cx)),
        Signal::Early => {
            cx.out.wake_at(not_before, WakeReason::Backoff);
            waiting(cx, "the pause before the next attempt", "")
        }
        Signal::Leaving { .. }
        | Signal::Unreadable(_)
        | Signal::Held
        | Signal::Busy(_)
        | Signal::Absent
        | Signal::Active(_)
        | Signal::Succeeded(_)
        | Signal::Broken(..)
        | Signal::Lost
        | Signal::Ready
        | Signal::Unready(..)
        | Signal::Overdue(_)
        | Signal::Quiet => Handled,
    }
}

impl Component {
    /// Handles one signal and returns the component's record after it.
    pub fn dispatch(mut record: Record, world: &World, out: &mut Outbox<Command, Notice>) -> Record {
        let held = record.clone();
        let signal = Signal::read(&held, world);
        let mut idle = Component.uninitialized_state_machine();
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

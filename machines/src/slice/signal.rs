//! The one verdict that a slice acts on, computed from its record and its world.

use super::{AT_CAPACITY, Fence, NOT_READY, Permission, Phase, Planned, Record, Standing, View, World};
use crate::{
    job::{self, Attempt, JobFailure, JobView, Op, Verdict},
    kernel::{Seen, seen::Ignorance},
    names::{Digest, EnvironmentName, SharedName, Uid},
    shared::Roster,
};

/// What the world says to this phase; first match wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal<'w> {
    /// It has to go.
    Leaving,
    /// What the phase needs could not be read.
    Unreadable(Ignorance),
    /// It must not start yet.
    Held,
    /// A pause is not over.
    Early,
    /// Another Job of the consumer has not ended.
    Busy(&'w JobView),
    /// How far it is from being provisioned.
    Entry(Entry<'w>),
    /// How far the attempt's Job is.
    Attempt(Progress<'w>),
    /// What is owed, now that no Job runs.
    Debt(Debt),
    /// What stands yet of what was released.
    Rest(Rest<'w>),
    /// Nothing is awaited.
    Quiet,
}

/// How far a slice is from being provisioned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'w> {
    /// There is no shared component of that name.
    Missing,
    /// The shared component goes and takes nobody in.
    Closing,
    /// All places are taken.
    Full(&'w Roster),
    /// There is a place, and somebody who came earlier waits for it.
    Behind(&'w [EnvironmentName]),
    /// A place at another shared component has to be taken first.
    Later(&'w SharedName),
    /// There is a place.
    Free(Fence),
    /// The shared component does not serve.
    Unready(&'w str),
    /// The obligation does not stand as it should.
    Unobliged(&'w Digest, Option<&'w Uid>),
    /// The binding Secret does not stand.
    Unbound,
    /// All stands: provisioning may begin, if there is any.
    Admitted(&'w Planned),
}

impl Progress<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Absent => "Absent",
            Self::Active(_) => "Active",
            Self::Succeeded => "Succeeded",
            Self::Broken(_) => "Broken",
            Self::Lost => "Lost",
        }
    }
}

impl Debt {
    fn name(self) -> &'static str {
        match self {
            Self::Owed => "Owed",
            Self::GivenUp => "GivenUp",
            Self::Clear => "Clear",
        }
    }
}

impl Rest<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Obliged(_) => "Obliged",
            Self::Jobs(_) => "Jobs",
            Self::Bound(_) => "Bound",
            Self::Registered(_) => "Registered",
            Self::Unwritten(_) => "Unwritten",
            Self::Clear => "Clear",
        }
    }
}

impl Entry<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::Closing => "Closing",
            Self::Full(_) => "Full",
            Self::Behind(_) => "Behind",
            Self::Later(_) => "Later",
            Self::Free(_) => "Free",
            Self::Unready(_) => "Unready",
            Self::Unobliged(..) => "Unobliged",
            Self::Unbound => "Unbound",
            Self::Admitted(_) => "Admitted",
        }
    }

    /// Says what is awaited, where that is somebody else's: as it is told to users.
    pub fn wait(&self, shared: &SharedName) -> Option<(&'static str, String)> {
        let unready = |why: &str| Some((NOT_READY, format!("SharedComponent {shared} {why}")));
        let full = |why: &str| Some((AT_CAPACITY, format!("SharedComponent {shared}: {why}")));
        match self {
            Self::Missing => unready("does not exist"),
            Self::Closing => unready("is being deleted"),
            Self::Unready(why) => unready(&format!("is not ready: {why}")),
            Self::Full(roster) => {
                let (places, holders) = (roster.consumers.len(), roster.holders());
                full(&format!("all {places} places are taken by {holders}"))
            }
            Self::Behind(queue) => {
                let first = queue.first().map(ToString::to_string).unwrap_or_default();
                full(&format!("a place is free, and {first} came earlier"))
            }
            Self::Later(_) | Self::Free(_) | Self::Unobliged(..) | Self::Unbound | Self::Admitted(_) => None,
        }
    }
}

/// How far the Job of an attempt is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'w> {
    /// It is not there yet.
    Absent,
    /// It runs.
    Active(&'w JobView),
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Broken(&'w JobFailure),
    /// It vanished.
    Lost,
}

/// What is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debt {
    /// There is something to deprovision.
    Owed,
    /// There is something to deprovision, and that it was given up is written down.
    GivenUp,
    /// There is nothing to deprovision.
    Clear,
}

/// What stands yet of a slice that was released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest<'w> {
    /// The obligation, which is met.
    Obliged(&'w Uid),
    /// Jobs.
    Jobs(&'w [JobView]),
    /// The binding Secret.
    Bound(&'w Uid),
    /// The place.
    Registered(Fence),
    /// That it was given up is not written down.
    Unwritten(Fence),
    /// Nothing.
    Clear,
}

impl<'w> Signal<'w> {
    /// Returns the signal's name: where it says how far something is, that.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Leaving => "Leaving",
            Self::Unreadable(_) => "Unreadable",
            Self::Held => "Held",
            Self::Early => "Early",
            Self::Busy(_) => "Busy",
            Self::Entry(entry) => entry.name(),
            Self::Attempt(progress) => progress.name(),
            Self::Debt(debt) => debt.name(),
            Self::Rest(rest) => rest.name(),
            Self::Quiet => "Quiet",
        }
    }

    /// Reads the signal. Leaving outranks everything.
    pub fn read(record: &Record, world: &'w World) -> Self {
        if world.permission == Permission::Leaving && !record.phase.leaves() {
            return Self::Leaving;
        }
        let view = world.view.as_ref().filter(|view| view.shared == record.shared);
        match &record.phase {
            Phase::Provisioned | Phase::Failed | Phase::Gone { .. } => return Self::Quiet,
            Phase::Pending { not_before } if not_before.is_some_and(|at| at > world.now) => {
                return Self::Early;
            }
            Phase::Retreating { not_before } if *not_before > world.now => return Self::Early,
            Phase::Pending { .. }
            | Phase::Provisioning { .. }
            | Phase::Draining { .. }
            | Phase::Deprovisioning { .. }
            | Phase::Retreating { .. }
            | Phase::Releasing { .. } => {}
        }
        match view {
            None => Self::Unreadable(Ignorance::NotAsked),
            Some(view) => Self::of(&record.phase, world, view),
        }
    }

    fn of(phase: &Phase, world: &'w World, view: &'w View) -> Self {
        match phase {
            Phase::Pending { .. } => pending(world, view).unwrap_or_else(Self::Unreadable),
            Phase::Provisioning { attempt } => verdict(attempt, Op::Provision, world, view),
            Phase::Deprovisioning { attempt } => verdict(attempt, Op::Deprovision, world, view),
            Phase::Draining { .. } | Phase::Retreating { .. } => {
                owed(world, view).unwrap_or_else(Self::Unreadable)
            }
            Phase::Releasing { forced } => left(*forced, world, view).unwrap_or_else(Self::Unreadable),
            Phase::Provisioned | Phase::Failed | Phase::Gone { .. } => Self::Quiet,
        }
    }
}

type Read<'w> = Result<Signal<'w>, Ignorance>;

fn known<T>(fact: &Seen<T>) -> Result<&T, Ignorance> {
    match fact {
        Seen::Known(fact) => Ok(fact),
        Seen::Unknown(why) => Err(*why),
    }
}

/// A place first, so that an idle workload returns; then the Secrets, so that nothing is made that nobody could undo.
fn pending<'w>(world: &'w World, view: &'w View) -> Read<'w> {
    let Some(plan) = world.plan.as_ref().filter(|_| world.permission == Permission::Admitted) else {
        return Ok(Signal::Held);
    };
    if let Some(job) = known(&view.jobs)?.iter().find(|job| job::is_live(job)) {
        return Ok(Signal::Busy(job));
    }
    let obligation = known(&view.obligation)?.as_ref();
    let Standing::There { uid, version, deleting, ready, why, capacity, roster, queue } =
        known(&view.standing)?
    else {
        return Ok(Signal::Entry(Entry::Missing));
    };
    if !roster.holds(&world.consumer, &world.component) {
        return Ok(Signal::Entry(if *deleting {
            Entry::Closing
        } else if roster.is_full(*capacity) {
            Entry::Full(roster)
        } else if !queue.is_empty() {
            Entry::Behind(queue)
        } else if let Some(first) = &world.after {
            Entry::Later(first)
        } else {
            Entry::Free(fence(view, uid, version))
        }));
    }
    if !ready {
        return Ok(Signal::Entry(Entry::Unready(why)));
    }
    let Some(payload) = &plan.payload else {
        return Ok(Signal::Entry(Entry::Unready("its provider cannot be used")));
    };
    let stands = obligation.is_some_and(|obligation| obligation.payload.as_ref() == Some(payload));
    if !stands {
        let found = obligation.map(|obligation| &obligation.uid);
        return Ok(Signal::Entry(Entry::Unobliged(payload, found)));
    }
    if known(&view.binding)?.is_none() {
        return Ok(Signal::Entry(Entry::Unbound));
    }
    Ok(Signal::Entry(Entry::Admitted(plan)))
}

fn fence(view: &View, uid: &Uid, version: &str) -> Fence {
    Fence { shared: view.shared.clone(), uid: uid.clone(), version: version.to_owned() }
}

fn verdict<'w>(attempt: &Attempt, op: Op, world: &World, view: &'w View) -> Signal<'w> {
    match job::verdict(attempt, op, &view.jobs) {
        Verdict::Unknown(why) => Signal::Unreadable(why),
        Verdict::Busy(job) => Signal::Busy(job),
        Verdict::Absent if op == Op::Provision && world.permission == Permission::Held => Signal::Held,
        Verdict::Absent => Signal::Attempt(Progress::Absent),
        Verdict::Lost => Signal::Attempt(Progress::Lost),
        Verdict::Active(job) => Signal::Attempt(Progress::Active(job)),
        Verdict::Succeeded(_) => Signal::Attempt(Progress::Succeeded),
        Verdict::Failed(_, failure) => Signal::Attempt(Progress::Broken(failure)),
    }
}

/// What is owed is told by the obligation alone.
fn owed<'w>(world: &'w World, view: &'w View) -> Read<'w> {
    if let Some(job) = known(&view.jobs)?.iter().find(|job| job::is_live(job)) {
        return Ok(Signal::Busy(job));
    }
    let standing = known(&view.standing)?;
    Ok(Signal::Debt(match known(&view.obligation)? {
        Some(obligation) if obligation.deprovisions => match standing {
            Standing::There { roster, .. } if roster.has_abandoned(&world.consumer, &world.component) => {
                Debt::GivenUp
            }
            Standing::There { .. } | Standing::Absent => Debt::Owed,
        },
        Some(_) | None => Debt::Clear,
    }))
}

fn left<'w>(forced: bool, world: &'w World, view: &'w View) -> Read<'w> {
    let place = match known(&view.standing)? {
        Standing::Absent => None,
        Standing::There { uid, version, roster, .. } => Some((roster, fence(view, uid, version))),
    };
    let (consumer, component) = (&world.consumer, &world.component);
    if forced {
        return Ok(Signal::Rest(match place {
            Some((roster, fence)) if !roster.has_abandoned(consumer, component) => Rest::Unwritten(fence),
            Some(_) | None => Rest::Clear,
        }));
    }
    if let Some(obligation) = known(&view.obligation)? {
        return Ok(Signal::Rest(Rest::Obliged(&obligation.uid)));
    }
    let jobs = known(&view.jobs)?;
    if !jobs.is_empty() {
        return Ok(Signal::Rest(Rest::Jobs(jobs)));
    }
    if world.has_namespace
        && let Some(uid) = known(&view.binding)?
    {
        return Ok(Signal::Rest(Rest::Bound(uid)));
    }
    Ok(Signal::Rest(match place {
        Some((roster, fence)) if roster.holds(consumer, component) => Rest::Registered(fence),
        Some(_) | None => Rest::Clear,
    }))
}

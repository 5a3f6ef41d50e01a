//! One pass over one shared component: each question of the cycle has its answer in a file of its own.

mod read;
mod tell;
mod write;

use super::{
    Operator,
    trail::{Spans, Subject},
};
use crate::{
    client::noting_missing_rights,
    controller::{Key, Requeue},
    executor::class,
    observe::SharedObservation,
    telemetry::trace,
};
use kube::Api;
use petri_crds::SharedComponent;
use petri_machines::{
    environment::Identity as EnvironmentIdentity,
    kernel::{
        WakeReason,
        cycle::{Answer, Ask, Cycle, Done},
        dialogue::Turn,
    },
    names::ComponentName,
    shared::{Identity, Record, Shared},
};
use std::time::Duration;
use tracing::{error, warn};

/// A record of a newer release is left alone; it is looked at again when the object changes, or after this long.
const HELD_PAUSE: Duration = Duration::from_secs(600);
/// The shortest wait for a moment, so that a clock that stands still does not make a busy loop.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// What one pass has read so far.
pub(super) struct Pass<'a> {
    operator: &'a Operator,
    key: &'a Key,
    api: Api<SharedComponent>,
    read: Option<(SharedComponent, Identity)>,
    /// What it is called where an environment and its component would be; nothing, if the name does not fit.
    named: Option<(EnvironmentIdentity, ComponentName)>,
    observation: Option<SharedObservation>,
    /// What the server said when it was not let read.
    unread: Option<String>,
    /// The record that was stored last, or found.
    record: Record,
    worked: bool,
    /// The own finalizer went: nothing comes after.
    left: bool,
    spans: Option<Spans<'a>>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(operator: &'a Operator, key: &'a Key) -> Self {
        let api = Api::namespaced(operator.client.clone(), &operator.settings.management_namespace);
        Self {
            operator,
            key,
            api,
            read: None,
            named: None,
            observation: None,
            unread: None,
            record: Record::default(),
            worked: false,
            left: false,
            spans: None,
        }
    }

    /// Answers the cycle to its end, and says when to look again.
    pub(super) async fn run(mut self) -> Requeue {
        let mut cycle = Cycle::<Shared>::default();
        let mut answer = None;
        let requeue = loop {
            match cycle.advance(answer.take()) {
                Turn::Ask(ask) => match self.answer(ask).await {
                    Ok(given) => answer = Some(given),
                    Err(requeue) => break requeue,
                },
                Turn::Done(done) => break self.end(&done).await,
                Turn::Sleep { .. } => break self.end(&Done::OutOfTurn).await,
            }
        };
        let requeue = if self.worked { requeue.worked() } else { requeue };
        let subject = self.subject();
        match (self.spans, subject) {
            (Some(spans), Some(subject)) => spans.end(&subject, self.left, requeue),
            _ => requeue,
        }
    }

    /// The own object as its trace tells of it.
    fn subject(&self) -> Option<Subject> {
        let (identity, component) = self.named.as_ref()?;
        let namespace = &self.operator.settings.shared_namespace;
        Some(Subject::shared(identity, component, namespace, &self.record))
    }

    async fn answer(&mut self, ask: Ask<Shared>) -> Result<Answer<Shared>, Requeue> {
        Ok(match ask {
            Ask::Read => Answer::Own(self.read().await?),
            Ask::Observe(record) => {
                let Some((object, identity)) = &self.read else {
                    return Err(self.fault("observing before reading"));
                };
                let began = trace::now();
                let looks = Box::pin(self.operator.observer.observe_shared(object, identity, &record));
                let (observation, unread) = noting_missing_rights(looks).await;
                if let Some(spans) = &mut self.spans {
                    spans.done("observe", began, None);
                }
                let world = observation.world.clone();
                (self.record, self.observation, self.unread) = (record, Some(observation), unread);
                Answer::World(world)
            }
            Ask::Store { phase, status } => Answer::Stored(self.store(phase, &status).await),
            Ask::Apply(command) => Answer::Applied(self.apply(&command).await),
            Ask::Notify(notices) => {
                self.notify(&notices);
                Answer::Notified
            }
        })
    }

    async fn end(&mut self, done: &Done) -> Requeue {
        let Operator { pace, refusals, observer, clock, trails, .. } = self.operator;
        match done {
            Done::Gone => {
                pace.reset(self.key);
                refusals.forget(self.key);
                trails.forget(self.key);
                if let Some((_, identity)) = &self.read {
                    observer.inventories.forget(&identity.uid);
                }
                Requeue::gone()
            }
            Done::Held { found } => {
                warn!(key = %self.key, version = found, "the record is of a newer release and is left alone");
                Requeue::after(HELD_PAUSE)
            }
            Done::Refused(refusal) => {
                Requeue::failed(class::name(*refusal), pace.refused(self.key, *refusal))
            }
            Done::Settled { wake, again } => {
                match self.unread.take() {
                    Some(note) => self.complain(note).await,
                    None => refusals.forget(self.key),
                }
                let wait = wake.map(|wake| {
                    let wait = clock.until(wake.at).max(WAIT_MIN);
                    let spread = if wake.reason == WakeReason::Backoff { wait / 10 } else { Duration::ZERO };
                    wait + super::pace::jitter(spread)
                });
                if *again {
                    let soon = pace.soon(self.key);
                    return Requeue::after(wait.map_or(soon, |wait| wait.min(soon)));
                }
                pace.reset(self.key);
                wait.map_or_else(Requeue::settled, Requeue::after)
            }
            Done::Bug(what) => self.fault(what),
            Done::OutOfTurn => self.fault("the loop was answered out of turn"),
        }
    }

    fn fault(&self, what: &str) -> Requeue {
        error!(key = %self.key, what, "a fault of Petri's own");
        Requeue::failed("bug", super::BUG_PAUSE)
    }
}

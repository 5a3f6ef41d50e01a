//! One pass over one environment: each question of the cycle has its answer in a file of its own.

mod end;
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
    observe::{Ahead, Observation},
    telemetry::trace,
};
use kube::Api;
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    environment::{Environment, Identity, Record},
    kernel::{
        cycle::{Answer, Ask, Cycle, Done},
        dialogue::Turn,
    },
};

/// What one pass has read so far.
pub(super) struct Pass<'a> {
    operator: &'a Operator,
    key: &'a Key,
    api: Api<EphemeralEnvironment>,
    read: Option<Found>,
    ahead: Ahead,
    observation: Option<Observation>,
    /// What the server said when it was not let read.
    unread: Option<String>,
    /// The record that was stored last, or found.
    record: Record,
    stored: bool,
    applied: bool,
    /// The own finalizer went: nothing comes after.
    left: bool,
    spans: Option<Spans<'a>>,
}

/// The own object as it was last read or written.
struct Found {
    object: EphemeralEnvironment,
    identity: Identity,
}

impl<'a> Pass<'a> {
    pub(super) fn new(operator: &'a Operator, key: &'a Key) -> Self {
        let api = Api::namespaced(operator.client.clone(), &operator.settings.management_namespace);
        Self {
            operator,
            key,
            api,
            read: None,
            ahead: Ahead::default(),
            observation: None,
            unread: None,
            record: Record::default(),
            stored: false,
            applied: false,
            left: false,
            spans: None,
        }
    }

    /// Answers the cycle to its end, and says when to look again.
    pub(super) async fn run(mut self) -> Requeue {
        let mut cycle = Cycle::<Environment>::default();
        let mut answer = None;
        let requeue = loop {
            match cycle.advance(answer.take()) {
                Turn::Ask(ask) => match self.answer(ask).await {
                    Ok(given) => answer = Some(given),
                    Err(requeue) => break requeue,
                },
                Turn::Done(done) => break self.end(done).await,
                Turn::Sleep { .. } => break self.end(Done::OutOfTurn).await,
            }
        };
        let requeue = if self.stored || self.applied { requeue.worked() } else { requeue };
        match (self.spans, &self.read) {
            (Some(spans), Some(found)) => {
                let subject = Subject::environment(&found.identity, &self.record);
                spans.end(&subject, self.left, requeue)
            }
            _ => requeue,
        }
    }

    async fn answer(&mut self, ask: Ask<Environment>) -> Result<Answer<Environment>, Requeue> {
        Ok(match ask {
            Ask::Read => Answer::Own(self.read().await?),
            Ask::Observe(record) => {
                let Some(found) = &self.read else { return Err(self.fault("observing before reading")) };
                let (observer, began) = (&self.operator.observer, trace::now());
                let ahead = std::mem::take(&mut self.ahead);
                let looks = Box::pin(observer.observe(&found.object, &found.identity, &record, &ahead));
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
}

//! One pass over one environment.

mod end;

use super::{
    Operator,
    events::Said,
    notices::{self, About},
    trail::{Spans, job_of},
};
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Key, Requeue},
    executor::{
        Error,
        class::{self, call_class},
    },
    observe::{Ahead, Observation, identity},
    render::{Extras, Own, RenderContext, effects},
    store,
    telemetry::trace,
};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Resource as _};
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    environment::{Cleanup, Command, Environment, Identity, Notice, Record, Status},
    kernel::{
        cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
        dialogue::Turn,
    },
    names::JobName,
};
use tracing::{debug, error, warn};

/// What one pass has read so far.
pub(super) struct Pass<'a> {
    operator: &'a Operator,
    key: &'a Key,
    api: Api<EphemeralEnvironment>,
    read: Option<Found>,
    ahead: Ahead,
    observation: Option<Observation>,
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
            (Some(spans), Some(found)) => spans.end(&found.identity, &self.record, self.left, requeue),
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
                let observation = observer.observe(&found.object, &found.identity, &record, &ahead).await;
                if let Some(spans) = &mut self.spans {
                    spans.done("observe", began, None);
                }
                let world = observation.world.clone();
                (self.record, self.observation) = (record, Some(observation));
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

    /// Reads the own object, not from a cache.
    async fn read(&mut self) -> Result<Option<Stored<Environment>>, Requeue> {
        let namespace = &self.operator.settings.management_namespace;
        let api: Api<Guarded<EphemeralEnvironment>> =
            Api::namespaced(self.operator.client.clone(), namespace);
        let (observer, began) = (&self.operator.observer, trace::now());
        let own = timed(CALL_MAX, api.get_opt(&self.key.name));
        let (own, ahead) = tokio::join!(own, observer.ahead(&self.key.name));
        self.ahead = ahead;
        let found = match own {
            Ok(found) => found,
            Err(error) => return Err(self.refused(&error)),
        };
        let Some(found) = found else { return Ok(None) };
        let object = match found.0 {
            Ok(object) => object,
            // Deletion must end: what it needs is the metadata and what is found by labels.
            Err(bad) if bad.metadata.deletion_timestamp.is_some() => {
                warn!(key = %self.key, error = bad.error, "the object does not decode; leaving by its metadata");
                EphemeralEnvironment { metadata: bad.metadata, ..EphemeralEnvironment::default() }
            }
            Err(error) => {
                warn!(key = %self.key, %error, "the object does not decode and is left alone");
                self.tell_undecodable(&error.to_string()).await;
                return Err(Requeue::failed("undecodable", self.operator.pace.backoff(self.key)));
            }
        };
        let identity = identity(&object).map_err(|error| self.fault(&error.to_string()))?;
        let stored = adapter::record::stored(&object);
        let leaving = object.metadata.deletion_timestamp.is_some();
        let record = stored.as_ref().map(|stored| stored.phase.clone()).unwrap_or_default();
        let spans = Spans::new(&self.operator.trails, self.key, &object, &identity, &record, began);
        let here = tracing::Span::current();
        here.record("trace_id", tracing::field::display(spans.step().trace_id()));
        here.record("span_id", tracing::field::display(spans.step().span_id()));
        self.spans = Some(spans);
        self.read = Some(Found { object, identity });
        match stored {
            Ok(stored) => Ok(Some(stored)),
            // Deletion must end: what there is to clean up is found again by labels, as under an erased record.
            Err(error) if leaving => {
                warn!(key = %self.key, %error, "the stored record cannot be read; leaving without it");
                Ok(Some(Stored { phase: Record::default(), status: None, version: 0 }))
            }
            // Nobody can tell what was decided, so nothing is done: erasing the record is a person's decision.
            Err(error) => {
                let what = format!("the stored record cannot be read: {error}");
                self.confess(&what).await;
                Err(self.fault(&what))
            }
        }
    }

    /// Writes record and status; the answer is the object that everything after is based on.
    async fn store(&mut self, record: Record, status: &Status) -> Result<(), Refusal> {
        let Some(found) = &mut self.read else { return Err(Refusal::Retry) };
        let (now, began) = (self.operator.clock.wall(), trace::now());
        let mut object = found.object.clone();
        object.status = Some(adapter::status::status(found.object.status.as_ref(), &record, status, now));
        let outcome = store::replace_status(&self.api, &object).await;
        if let Some(spans) = &mut self.spans {
            spans.done("store", began, outcome.as_ref().err().map(|error| class::name(call_class(error))));
        }
        match outcome {
            Ok(object) => {
                if let Some(spans) = &mut self.spans {
                    spans.stored(&found.identity, &record);
                }
                found.object = object;
                self.record = record;
                self.stored = true;
                self.operator.pace.reset(self.key);
                Ok(())
            }
            Err(error) => {
                let refusal = call_class(&error);
                debug!(key = %self.key, %error, class = class::name(refusal), "nothing stored");
                Err(refusal)
            }
        }
    }

    async fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
        let (Some(found), Some(observation)) = (&self.read, &self.observation) else {
            return Err(Refusal::Retry);
        };
        let own = own(&found.object);
        let extras = extras(observation);
        let job = job_of(command, &found.identity);
        let traceparent = job.as_ref().zip(self.spans.as_ref()).map(|(job, spans)| spans.traceparent(job));
        let cx = RenderContext {
            identity: &found.identity,
            own: &own,
            settings: &self.operator.settings,
            inputs: &observation.payloads,
            namespace_extras: &extras,
            furniture: &observation.furniture,
            backend: observation.backend.as_ref(),
            traceparent: traceparent.as_deref(),
            sharing: &observation.sharing,
            place: Some(&observation.place),
            now: self.operator.clock.now(),
            shared: None,
        };
        let rendered = match effects(command, &cx) {
            Ok(rendered) => rendered,
            Err(error) => {
                let refusal = error.class();
                match refusal {
                    Refusal::Rejected => {
                        error!(key = %self.key, ?command, %error, "a command cannot be rendered")
                    }
                    Refusal::Retry | Refusal::Fenced | Refusal::Backoff => {
                        warn!(key = %self.key, ?command, %error, "not rendered");
                    }
                }
                return Err(refusal);
            }
        };
        for effect in &rendered {
            let began = trace::now();
            let outcome = self.operator.executor.apply(effect).await;
            if let Some(spans) = &mut self.spans {
                let why = outcome.as_ref().err().map(|error| class::name(error.class()));
                spans.wrote(effect, job.as_ref(), began, why);
            }
            if let Err(error) = outcome {
                return Err(self.failed(command, &error));
            }
            self.applied = true;
        }
        debug!(key = %self.key, ?command, "applied");
        self.left |= matches!(command, Command::Cleanup(Cleanup::DropFinalizer));
        if let Command::Cleanup(Cleanup::DeleteNamespace(namespace)) = command {
            self.operator.observer.inventories.forget(&namespace.uid);
        }
        Ok(())
    }

    fn failed(&self, command: &Command, error: &Error) -> Refusal {
        let refusal = error.class();
        match refusal {
            Refusal::Rejected => {
                error!(key = %self.key, ?command, %error, "refused for good");
                self.complain(error);
            }
            Refusal::Backoff => warn!(key = %self.key, ?command, %error, "not applied"),
            Refusal::Retry | Refusal::Fenced => debug!(key = %self.key, ?command, %error, "not applied"),
        }
        refusal
    }

    /// Tells the user of a write that the server will not take, once.
    fn complain(&self, error: &Error) {
        let (Some(found), note) = (&self.read, error.to_string()) else { return };
        if self.operator.refusals.is_news(self.key, &note) {
            let said = Said { warning: true, reason: "Refused", action: "Write", note, job: None };
            let now = self.operator.clock.wall();
            self.operator.events.publish(reference(&found.object), vec![said], now);
        }
    }

    fn notify(&self, all: &[Notice]) {
        let Some(found) = &self.read else { return };
        let operator = self.operator;
        let now = operator.clock.now();
        let trace = self.spans.as_ref().and_then(Spans::sampled);
        let durations = &operator.durations;
        let about =
            About { key: self.key, identity: &found.identity, record: &self.record, now, durations, trace };
        if let Some(spans) = &self.spans {
            let jobs = || operator.observer.caches.jobs_of(found.identity.uid.as_str()).into_iter();
            let created = |job: &JobName| {
                let job = jobs().find(|one| one.metadata.name.as_deref() == Some(job.as_str()))?;
                job.metadata.creation_timestamp.as_ref().map(|at| at.0.into())
            };
            spans.noticed(all, &found.identity, &self.record, created);
        }
        let said = all.iter().filter_map(|notice| notices::say(notice, &about, &operator.metrics)).collect();
        operator.events.publish(reference(&found.object), said, operator.clock.wall());
    }
}

fn own(object: &EphemeralEnvironment) -> Own {
    let meta = object.metadata.clone();
    Own {
        namespace: meta.namespace.unwrap_or_default(),
        resource_version: meta.resource_version.unwrap_or_default(),
        finalizers: meta.finalizers.unwrap_or_default(),
    }
}

fn extras(observation: &Observation) -> Extras {
    let settings = observation.template.as_ref().and_then(|template| template.spec.namespace.as_ref());
    Extras {
        labels: settings.map(|settings| settings.labels.clone()).unwrap_or_default(),
        annotations: settings.map(|settings| settings.annotations.clone()).unwrap_or_default(),
        consumes: observation.consumes.clone(),
    }
}

fn reference(object: &EphemeralEnvironment) -> ObjectReference {
    object.object_ref(&())
}

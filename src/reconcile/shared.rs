//! One pass over one shared component.

use super::{Operator, events::Said};
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Key, Requeue},
    executor::class::{self, call_class},
    observe::{SharedObservation, random},
    render::{Extras, Own, RenderContext, SharedContext, shared_effect},
    store,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Resource as _,
    core::{ApiResource, DynamicObject},
};
use petri_crds::{SharedComponent, SharedComponentSpec, SharedComponentStatus};
use petri_machines::{
    component,
    environment::{Identity as EnvironmentIdentity, NamespaceRef},
    kernel::{
        WakeReason,
        cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
        dialogue::Turn,
    },
    names::{ComponentName, EnvironmentName, SharedName, Uid},
    shared::{Command, Identity, Notice, Record, Shared, Status},
};
use serde::Deserialize as _;
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration};
use tracing::{debug, error, info, warn};

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
    observation: Option<SharedObservation>,
    worked: bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(operator: &'a Operator, key: &'a Key) -> Self {
        let api = Api::namespaced(operator.client.clone(), &operator.settings.management_namespace);
        Self { operator, key, api, read: None, observation: None, worked: false }
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
                Turn::Done(done) => break self.end(&done),
                Turn::Sleep { .. } => break self.end(&Done::OutOfTurn),
            }
        };
        if self.worked { requeue.worked() } else { requeue }
    }

    async fn answer(&mut self, ask: Ask<Shared>) -> Result<Answer<Shared>, Requeue> {
        Ok(match ask {
            Ask::Read => Answer::Own(self.read().await?),
            Ask::Observe(record) => {
                let Some((object, identity)) = &self.read else {
                    return Err(self.fault("observing before reading"));
                };
                let observation = self.operator.observer.observe_shared(object, identity, &record).await;
                let world = observation.world.clone();
                self.observation = Some(observation);
                Answer::World(world)
            }
            Ask::Store { phase, status } => Answer::Stored(self.store(&phase, &status).await),
            Ask::Apply(command) => Answer::Applied(self.apply(&command).await),
            Ask::Notify(notices) => {
                self.notify(&notices);
                Answer::Notified
            }
        })
    }

    async fn read(&mut self) -> Result<Option<Stored<Shared>>, Requeue> {
        let pace = &self.operator.pace;
        let namespace = &self.operator.settings.management_namespace;
        let api: Api<Guarded<SharedComponent>> = Api::namespaced(self.operator.client.clone(), namespace);
        let found = match timed(CALL_MAX, api.get_opt(&self.key.name)).await {
            Ok(found) => found,
            Err(error) => {
                warn!(key = %self.key, %error, "the own object cannot be read");
                return Err(Requeue::failed(class::name(call_class(&error)), pace.backoff(self.key)));
            }
        };
        let Some(found) = found else { return Ok(None) };
        let object = match found.0 {
            Ok(object) => object,
            // Deletion must end: what it needs is the metadata, what can be read of the rest, and the labels.
            Err(bad) if bad.metadata.deletion_timestamp.is_some() => {
                warn!(key = %self.key, error = bad.error, "the object does not decode; leaving by what does");
                self.salvage(bad.metadata).await?
            }
            Err(error) => {
                warn!(key = %self.key, %error, "the object does not decode and is left alone");
                self.tell("InvalidConfiguration", &error.to_string()).await;
                return Err(Requeue::failed("undecodable", pace.backoff(self.key)));
            }
        };
        let leaving = object.metadata.deletion_timestamp.is_some();
        let meta = &object.metadata;
        let identity = Uid::new(meta.uid.clone().unwrap_or_default()).and_then(|uid| {
            let name = SharedName::new(meta.name.clone().unwrap_or_default())?;
            Ok(Identity { uid, name, generation: meta.generation.unwrap_or_default() })
        });
        let identity = identity.map_err(|error| self.fault(&error.to_string()))?;
        let roster = object.status.as_ref().is_none_or(|status| adapter::shared::roster(status).is_some());
        // Of one that leaves, the obligations tell who holds a place.
        if !roster && !leaving {
            let what = "status.consumerRefs cannot be read: somebody else's hand was in it";
            self.tell("InternalError", what).await;
            return Err(self.fault(what));
        }
        let stored = adapter::shared::stored(&object);
        self.read = Some((object, identity));
        match stored {
            Ok(stored) => Ok(Some(stored)),
            // Deletion must end: what there is to clean up is found again by labels, as under an erased record.
            Err(error) if leaving => {
                warn!(key = %self.key, error, "the stored record cannot be read; leaving without it");
                Ok(Some(Stored { phase: Record::default(), status: None, version: 0 }))
            }
            Err(error) => {
                let what = format!("the stored record cannot be read: {error}");
                self.tell("InternalError", &what).await;
                Err(self.fault(&what))
            }
        }
    }

    /// Reads what there is to read of an object that does not decode.
    async fn salvage(&self, metadata: ObjectMeta) -> Result<SharedComponent, Requeue> {
        let raw = match timed(CALL_MAX, self.raw().get_opt(&self.key.name)).await {
            Ok(raw) => raw.map(|raw| raw.data).unwrap_or_default(),
            Err(error) => {
                return Err(Requeue::failed(
                    class::name(call_class(&error)),
                    self.operator.pace.backoff(self.key),
                ));
            }
        };
        let provider = raw.pointer("/spec/provider").and_then(Value::as_str).unwrap_or_default().to_owned();
        let status = raw.get("status").and_then(|status| SharedComponentStatus::deserialize(status).ok());
        let spec = SharedComponentSpec { provider, ..SharedComponentSpec::default() };
        Ok(SharedComponent { metadata, spec, status })
    }

    /// The own kind without its type, for an object that has none.
    fn raw(&self) -> Api<DynamicObject> {
        let namespace = &self.operator.settings.management_namespace;
        let kind = ApiResource::erase::<SharedComponent>(&());
        Api::namespaced_with(self.operator.client.clone(), namespace, &kind)
    }

    /// Tells the user why nothing is done; a raw patch, since what it is about cannot be written back whole.
    async fn tell(&self, reason: &str, why: &str) {
        let (api, now) = (self.raw(), self.operator.clock.wall());
        if let Err(error) = store::tell(&api, &self.key.name, reason, why, now).await {
            warn!(key = %self.key, %error, "why nothing is done could not be told");
        }
    }

    async fn store(&mut self, record: &Record, status: &Status) -> Result<(), Refusal> {
        let Some((found, _)) = &mut self.read else { return Err(Refusal::Retry) };
        let now = self.operator.clock.wall();
        let mut object = found.clone();
        object.status = Some(adapter::shared::status(found.status.as_ref(), record, status, now));
        match store::replace_status(&self.api, &object).await {
            Ok(object) => {
                *found = object;
                self.worked = true;
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
        let (Some((object, identity)), Some(observation)) = (&self.read, &self.observation) else {
            return Err(Refusal::Retry);
        };
        let meta = &object.metadata;
        let own = Own {
            namespace: meta.namespace.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        };
        let place = self.operator.observer.shared_namespace.clone();
        let namespace = NamespaceRef { name: place.clone(), uid: identity.uid.clone() };
        // A plan exists only for a name that fits; what leaves without one has nothing that bears it.
        let named = ComponentName::new(identity.name.as_str())
            .and_then(|component| Ok((component, EnvironmentName::new(identity.name.as_str())?)));
        let Ok((component, name)) = named else { return Err(Refusal::Rejected) };
        let release = adapter::sharing::release(identity.name.as_str()).map_err(|_| Refusal::Rejected)?;
        let environment =
            EnvironmentIdentity { uid: identity.uid.clone(), name, generation: identity.generation };
        let cx = RenderContext {
            identity: &environment,
            own: &own,
            settings: &self.operator.settings,
            inputs: &BTreeMap::new(),
            namespace_extras: &Extras::default(),
            furniture: &BTreeMap::new(),
            backend: None,
            traceparent: None,
            sharing: &BTreeMap::new(),
            place: Some(&place),
            now: self.operator.clock.now(),
            shared: Some(&release),
        };
        let at = SharedContext { cx, component: &component, namespace: &namespace, observation, random };
        let effect = match shared_effect(command, &at) {
            Ok(effect) => effect,
            Err(error) => {
                error!(key = %self.key, ?command, %error, "a command cannot be rendered");
                return Err(error.class());
            }
        };
        match self.operator.executor.apply(&effect).await {
            Ok(()) => {
                self.worked = true;
                debug!(key = %self.key, ?command, "applied");
                Ok(())
            }
            Err(error) => {
                let refusal = error.class();
                warn!(key = %self.key, ?command, %error, class = class::name(refusal), "not applied");
                if refusal == Refusal::Rejected {
                    self.complain(error.to_string());
                }
                Err(refusal)
            }
        }
    }

    /// Tells the user of a write that the server will not take, once.
    fn complain(&self, note: String) {
        let Some((object, _)) = &self.read else { return };
        if self.operator.refusals.is_news(self.key, &note) {
            let said = Said { warning: true, reason: "Refused", action: "Write", note, job: None };
            self.operator.events.publish(object.object_ref(&()), vec![said], self.operator.clock.wall());
        }
    }

    fn notify(&self, all: &[Notice]) {
        let Some((object, identity)) = &self.read else { return };
        let said: Vec<Said> = all.iter().filter_map(|notice| say(notice, &identity.name)).collect();
        self.operator.events.publish(object.object_ref(&()), said, self.operator.clock.wall());
    }

    fn end(&self, done: &Done) -> Requeue {
        let Operator { pace, refusals, observer, clock, .. } = self.operator;
        match done {
            Done::Gone => {
                pace.reset(self.key);
                refusals.forget(self.key);
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
                refusals.forget(self.key);
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

/// Logs a notice; returns the event to publish, if it makes one.
fn say(notice: &Notice, shared: &SharedName) -> Option<Said> {
    match notice {
        Notice::Moved { from, to, why } => {
            info!(%shared, from, to, "phase changed");
            let (reason, note) = match why {
                Some((reason, message)) => (reason.as_str(), message.clone()),
                None => (*to, format!("{from} → {to}")),
            };
            Some(Said { warning: *to == "Failed", reason, action: "Transition", note, job: None })
        }
        Notice::Workload(component::Notice::Moved { from, to }) => {
            debug!(%shared, from, to, "workload changed");
            None
        }
        Notice::Workload(component::Notice::JobEnded { op, failure }) => {
            let reason = failure.map(|reason| reason.as_str());
            info!(%shared, op = op.as_str(), reason, "job ended");
            None
        }
        Notice::Workload(component::Notice::Retried { op, attempts, reason, .. }) => {
            let note = format!("{} attempt {attempts} failed: {}", op.as_str(), reason.as_str());
            warn!(%shared, note, "attempt failed");
            Some(Said { warning: true, reason: reason.as_str(), action: "Retry", note, job: None })
        }
        Notice::Workload(component::Notice::Forced { reason, .. }) => {
            let note = format!("undeploying was given up: {}", reason.as_str());
            warn!(%shared, note, "given up");
            Some(Said { warning: true, reason: "CleanupForced", action: "Undeploy", note, job: None })
        }
    }
}

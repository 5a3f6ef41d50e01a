//! What was decided is stored, then applied: record and status first, one command at a time after it.

use super::Pass;
use crate::{
    adapter,
    executor::class::{self, call_class},
    observe::random,
    reconcile::{
        refusals::{OLDER, not_stored},
        trail::JobOf,
    },
    render::{Extras, Own, RenderContext, SharedContext, shared_effect},
    store,
    telemetry::trace,
};
use petri_machines::{
    environment::NamespaceRef,
    kernel::cycle::Refusal,
    shared::{Cleanup, Command, Record, Status},
};
use std::collections::BTreeMap;
use tracing::{debug, error, warn};

impl Pass<'_> {
    pub(super) async fn store(&mut self, record: Record, status: &Status) -> Result<(), Refusal> {
        let Some((found, _)) = &mut self.read else { return Err(Refusal::Retry) };
        let (now, began) = (self.operator.clock.wall(), trace::now());
        let mut object = found.clone();
        object.status = Some(adapter::shared::status(found.status.as_ref(), &record, status, now));
        self.operator.put_refusal(self.key, &mut object);
        // A refusal is told in place of what the machine would say: where it stands already, nothing is left to write.
        if object.status == found.status {
            self.record = record;
            return Ok(());
        }
        let outcome = store::replace_status(&self.api, &object).await;
        if let Some(spans) = &mut self.spans {
            spans.done("store", began, outcome.as_ref().err().map(|error| class::name(call_class(error))));
        }
        let object = match outcome {
            Ok(object) => object,
            Err(error) => {
                let (refusal, told) = not_stored(self.key, &error);
                if let Some(told) = told {
                    self.complain(told).await;
                }
                return Err(refusal);
            }
        };
        let is_kept = adapter::shared::stored(&object).is_ok_and(|stored| stored.phase == record);
        // A status that says of a refusal what it said before is no news, and no reason to hurry.
        let is_news = found.metadata.resource_version != object.metadata.resource_version;
        *found = object;
        if !is_kept {
            error!(key = %self.key, what = OLDER, "nothing stored");
            self.complain(OLDER.to_owned()).await;
            return Err(Refusal::Rejected);
        }
        self.record = record;
        if is_news {
            self.worked = true;
            self.operator.pace.reset(self.key);
        }
        if let (Some(subject), Some(spans)) = (self.subject(), &mut self.spans) {
            spans.stored(&subject);
        }
        Ok(())
    }

    pub(super) async fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
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
        // What leaves without a name that fits has nothing that bears it.
        let Some((environment, component)) = &self.named else { return Err(Refusal::Rejected) };
        let release = adapter::sharing::release(identity.name.as_str()).map_err(|_| Refusal::Rejected)?;
        let job = JobOf::shared(command, component, environment);
        let traceparent = job.as_ref().zip(self.spans.as_ref()).map(|(job, spans)| spans.traceparent(job));
        let cx = RenderContext {
            identity: environment,
            own: &own,
            settings: &self.operator.settings,
            inputs: &BTreeMap::new(),
            namespace_extras: &Extras::default(),
            furniture: &BTreeMap::new(),
            backend: None,
            traceparent: traceparent.as_deref(),
            sharing: &BTreeMap::new(),
            place: Some(&place),
            now: self.operator.clock.now(),
            shared: Some(&release),
        };
        let at = SharedContext { cx, component, namespace: &namespace, observation, random };
        let effect = match shared_effect(command, &at) {
            Ok(effect) => effect,
            Err(error) => {
                error!(key = %self.key, ?command, %error, "a command cannot be rendered");
                return Err(error.class());
            }
        };
        let began = trace::now();
        let outcome = self.operator.executor.apply(&effect).await;
        if let Some(spans) = &mut self.spans {
            let why = outcome.as_ref().err().map(|error| class::name(error.class()));
            spans.wrote(&effect, job.as_ref(), began, why);
        }
        match outcome {
            Ok(()) => {
                self.worked = true;
                self.left |= matches!(command, Command::Cleanup(Cleanup::DropFinalizer));
                debug!(key = %self.key, ?command, "applied");
                Ok(())
            }
            Err(error) => {
                let refusal = error.class();
                warn!(key = %self.key, ?command, %error, class = class::name(refusal), "not applied");
                if refusal == Refusal::Rejected {
                    self.complain(error.to_string()).await;
                }
                Err(refusal)
            }
        }
    }
}

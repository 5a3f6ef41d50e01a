//! What was decided is stored, then applied: record and status first, one command at a time after it.

use super::Pass;
use crate::{
    adapter,
    executor::{
        Error,
        class::{self, call_class},
    },
    observe::Observation,
    reconcile::{
        refusals::{OLDER, not_stored},
        trail::{JobOf, Subject},
    },
    render::{Extras, Own, RenderContext, effects},
    store,
    telemetry::trace,
};
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    environment::{Cleanup, Command, Record, Status},
    kernel::cycle::Refusal,
};
use tracing::{debug, error, warn};

impl Pass<'_> {
    /// Writes record and status; the answer is the object that everything after is based on.
    pub(super) async fn store(&mut self, record: Record, status: &Status) -> Result<(), Refusal> {
        let Some(found) = &self.read else { return Err(Refusal::Retry) };
        let (now, began) = (self.operator.clock.wall(), trace::now());
        let mut object = found.object.clone();
        object.status = Some(adapter::status::status(found.object.status.as_ref(), &record, status, now));
        self.operator.put_refusal(self.key, &mut object);
        // A refusal is told in place of what the machine would say: where it stands already, nothing is left to write.
        if object.status == found.object.status {
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
        let is_kept = is_kept(&object, &record);
        let Some(found) = &mut self.read else { return Err(Refusal::Retry) };
        // A status that says of a refusal what it said before is no news, and no reason to hurry.
        let is_news = found.object.metadata.resource_version != object.metadata.resource_version;
        found.object = object;
        if !is_kept {
            error!(key = %self.key, what = OLDER, "nothing stored");
            self.complain(OLDER.to_owned()).await;
            return Err(Refusal::Rejected);
        }
        if let Some(spans) = &mut self.spans {
            spans.stored(&Subject::environment(&found.identity, &record));
        }
        self.record = record;
        if is_news {
            self.stored = true;
            self.operator.pace.reset(self.key);
        }
        Ok(())
    }

    pub(super) async fn apply(&mut self, command: &Command) -> Result<(), Refusal> {
        let (Some(found), Some(observation)) = (&self.read, &self.observation) else {
            return Err(Refusal::Retry);
        };
        let own = own(&found.object);
        let extras = extras(observation);
        let job = JobOf::environment(command, &found.identity);
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
                return Err(self.failed(command, &error).await);
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

    async fn failed(&mut self, command: &Command, error: &Error) -> Refusal {
        let refusal = error.class();
        match refusal {
            Refusal::Rejected => {
                error!(key = %self.key, ?command, %error, "refused for good");
                self.complain(error.to_string()).await;
            }
            Refusal::Backoff => warn!(key = %self.key, ?command, %error, "not applied"),
            Refusal::Retry | Refusal::Fenced => debug!(key = %self.key, ?command, %error, "not applied"),
        }
        refusal
    }
}

/// Whether the server kept the record, which must stand before anything is done.
fn is_kept(object: &EphemeralEnvironment, record: &Record) -> bool {
    adapter::record::stored(object).is_ok_and(|stored| stored.phase == *record)
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

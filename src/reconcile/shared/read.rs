//! The own object as the API server has it, and what is done about one that cannot be read.

use super::Pass;
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Requeue},
    executor::class::{self, call_class},
    reconcile::trail::Spans,
    store,
    telemetry::trace,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api,
    core::{ApiResource, DynamicObject},
};
use petri_crds::{SharedComponent, SharedComponentSpec, SharedComponentStatus};
use petri_machines::{
    environment::Identity as EnvironmentIdentity,
    kernel::cycle::Stored,
    names::{ComponentName, EnvironmentName, SharedName, Uid},
    shared::{Identity, Record, Shared},
};
use serde::Deserialize as _;
use serde_json::Value;
use tracing::warn;

impl Pass<'_> {
    pub(super) async fn read(&mut self) -> Result<Option<Stored<Shared>>, Requeue> {
        let (pace, began) = (&self.operator.pace, trace::now());
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
        self.record = stored.as_ref().map(|stored| stored.phase.clone()).unwrap_or_default();
        self.named = named(&identity);
        self.spans = self
            .subject()
            .map(|subject| Spans::new(&self.operator.trails, self.key, &object.metadata, subject, began));
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
}

/// Gives its name in the places of an environment's and of a component's: no plan exists for one that does not fit.
fn named(identity: &Identity) -> Option<(EnvironmentIdentity, ComponentName)> {
    let component = ComponentName::new(identity.name.as_str()).ok()?;
    let name = EnvironmentName::new(identity.name.as_str()).ok()?;
    let uid = identity.uid.clone();
    Some((EnvironmentIdentity { uid, name, generation: identity.generation }, component))
}

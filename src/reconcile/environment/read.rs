//! The own object as the API server has it, and what is done about one that cannot be read.

use super::{Found, Pass};
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Requeue},
    observe::identity,
    reconcile::trail::{Spans, Subject},
    telemetry::trace,
};
use kube::Api;
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    environment::{Environment, Record},
    kernel::cycle::Stored,
};
use tracing::warn;

impl Pass<'_> {
    /// Reads the own object, not from a cache.
    pub(super) async fn read(&mut self) -> Result<Option<Stored<Environment>>, Requeue> {
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
        if self.operator.living.seen(self.key, &identity.uid)
            && let Err(error) = self.operator.sweep(self.key, Some(&identity.uid)).await
        {
            warn!(key = %self.key, %error, "what an earlier environment of the name left is looked for again");
        }
        let stored = adapter::record::stored(&object);
        let leaving = object.metadata.deletion_timestamp.is_some();
        let record = stored.as_ref().map(|stored| stored.phase.clone()).unwrap_or_default();
        let subject = Subject::environment(&identity, &record);
        let spans = Spans::new(&self.operator.trails, self.key, &object.metadata, subject, began);
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
}

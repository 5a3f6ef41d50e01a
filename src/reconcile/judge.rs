//! The `Accepted` condition of a template or a provider, before anybody uses it.

use super::Operator;
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Key, Requeue},
    error::CallError,
    executor::class::{self, call_class},
    store,
};
use k8s_openapi::{NamespaceResourceScope, jiff};
use kube::{Api, Resource};
use petri_crds::{EnvironmentTemplate, SharedComponentProvider};
use petri_machines::kernel::cycle::Refusal;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use tracing::{info, warn};

/// What others use, and what is judged before.
pub(super) trait Judged:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned
{
    /// Returns the object with the verdict in its status; `None` when it is there already.
    fn judged(&self, now: jiff::Timestamp) -> Option<Self>;
}

impl Judged for EnvironmentTemplate {
    fn judged(&self, now: jiff::Timestamp) -> Option<Self> {
        let status = adapter::template_status::changed(self, now)?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Judged for SharedComponentProvider {
    fn judged(&self, now: jiff::Timestamp) -> Option<Self> {
        let status = adapter::provider_status::changed(self, now)?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

pub(super) async fn reconcile<K: Judged>(operator: &Operator, key: &Key) -> Requeue {
    let namespace = &operator.settings.management_namespace;
    let guarded: Api<Guarded<K>> = Api::namespaced(operator.client.clone(), namespace);
    let found = match timed(CALL_MAX, guarded.get_opt(&key.name)).await {
        Err(error) => return failed(operator, key, &error),
        Ok(None) => {
            operator.pace.reset(key);
            return Requeue::gone();
        }
        Ok(Some(found)) => match found.0 {
            Ok(found) => found,
            Err(error) => {
                warn!(%key, %error, "the object does not decode and is left alone");
                return Requeue::failed("undecodable", operator.pace.backoff(key));
            }
        },
    };
    let Some(judged) = found.judged(operator.clock.wall()) else {
        operator.pace.reset(key);
        return Requeue::settled();
    };
    let api: Api<K> = Api::namespaced(operator.client.clone(), namespace);
    match store::replace_status(&api, &judged).await {
        Ok(_) => {
            info!(%key, "judged");
            operator.pace.reset(key);
            Requeue::settled().worked()
        }
        Err(error) => failed(operator, key, &error),
    }
}

fn failed(operator: &Operator, key: &Key, error: &CallError) -> Requeue {
    let refusal = call_class(error);
    if refusal != Refusal::Retry {
        warn!(%key, %error, "not judged");
    }
    Requeue::failed(class::name(refusal), operator.pace.refused(key, refusal))
}

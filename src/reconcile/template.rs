//! A template's `Accepted` condition, before anybody uses it.

use super::Operator;
use crate::{
    adapter,
    client::{CALL_MAX, timed},
    controller::{Guarded, Key, Requeue},
    error::CallError,
    executor::class::{self, call_class},
    store,
};
use kube::Api;
use petri_crds::EnvironmentTemplate;
use petri_machines::kernel::cycle::Refusal;
use tracing::{info, warn};

pub(super) async fn reconcile(operator: &Operator, key: &Key) -> Requeue {
    let namespace = &operator.settings.management_namespace;
    let guarded: Api<Guarded<EnvironmentTemplate>> = Api::namespaced(operator.client.clone(), namespace);
    let template = match timed(CALL_MAX, guarded.get_opt(&key.name)).await {
        Err(error) => return failed(operator, key, &error),
        Ok(None) => {
            operator.pace.reset(key);
            return Requeue::gone();
        }
        Ok(Some(found)) => match found.0 {
            Ok(template) => template,
            Err(error) => {
                warn!(%key, %error, "the object does not decode and is left alone");
                return Requeue::failed("undecodable", operator.pace.backoff(key));
            }
        },
    };
    let now = operator.clock.wall();
    let Some(status) = adapter::template_status::changed(&template, now) else {
        operator.pace.reset(key);
        return Requeue::settled();
    };
    let mut object = template;
    object.status = Some(status);
    let api: Api<EnvironmentTemplate> = Api::namespaced(operator.client.clone(), namespace);
    match store::replace_status(&api, &object).await {
        Ok(_) => {
            info!(%key, "template judged");
            operator.pace.reset(key);
            Requeue::settled().worked()
        }
        Err(error) => failed(operator, key, &error),
    }
}

fn failed(operator: &Operator, key: &Key, error: &CallError) -> Requeue {
    let refusal = call_class(error);
    if refusal != Refusal::Retry {
        warn!(%key, %error, "template not judged");
    }
    Requeue::failed(class::name(refusal), operator.pace.refused(key, refusal))
}

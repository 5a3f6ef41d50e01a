//! The check before every write into a workload namespace: a live read, both labels, the same UID.

use super::Error;
use crate::{
    client::{CALL_MAX, timed},
    render::NamespaceGuard,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, Client};
use petri_crds::meta::{LABEL_ENVIRONMENT_UID, LABEL_MANAGED, TRUE};

/// Tells whether metadata bears both labels of an environment.
pub fn is_ours(metadata: &ObjectMeta, environment: &str) -> bool {
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
    label(LABEL_MANAGED) == Some(TRUE) && label(LABEL_ENVIRONMENT_UID) == Some(environment)
}

pub(super) async fn check(client: &Client, guard: &NamespaceGuard) -> Result<(), Error> {
    let api: Api<Namespace> = Api::all(client.clone());
    let name = guard.namespace.name.as_str();
    let displaced = |why: &'static str| Error::Displaced { namespace: name.to_owned(), why };
    let Some(metadata) = timed(CALL_MAX, api.get_metadata_opt(name)).await?.map(|found| found.metadata)
    else {
        return Err(displaced("is gone"));
    };
    if metadata.uid.as_deref() != Some(guard.namespace.uid.as_str()) {
        return Err(displaced("is another one of the same name"));
    }
    if !is_ours(&metadata, guard.environment.as_str()) {
        return Err(displaced("does not bear this environment's labels"));
    }
    if guard.alive && metadata.deletion_timestamp.is_some() {
        return Err(displaced("is being deleted"));
    }
    Ok(())
}

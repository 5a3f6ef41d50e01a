//! What a deployer Job is told: a deploy by an immutable Secret, an undeploy, which holds nothing secret, by its Job.

use super::{Attempt, Made, RenderContext, RenderError, Resource, objects, text};
use crate::adapter::{RenderedComponent, names::undeploy_payload};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use petri_crds::meta::{ANNOTATION_SERIAL, LABEL_COMPONENT, LABEL_OP};
use petri_machines::names::ReleaseName;
use std::collections::BTreeMap;

/// The key of the payload in its Secret, and its file's name in the pod.
pub(super) const SPEC_KEY: &str = "spec.json";

/// Metadata of a Job and of its Secret: the same name, labels and serial, so that each is found from the other.
pub(super) fn metadata(attempt: &Attempt<'_>, cx: &RenderContext<'_>) -> ObjectMeta {
    let mut labels = objects::labels(cx);
    labels.insert(LABEL_COMPONENT.to_owned(), attempt.component.to_string());
    labels.insert(LABEL_OP.to_owned(), attempt.op.as_str().to_owned());
    ObjectMeta {
        name: Some(attempt.name(cx).to_string()),
        namespace: text(&attempt.namespace.name),
        labels: Some(labels),
        annotations: Some(BTreeMap::from([(ANNOTATION_SERIAL.to_owned(), attempt.serial.to_string())])),
        ..ObjectMeta::default()
    }
}

/// Returns what an undeploy is told: which release goes.
pub(super) fn undeploy(attempt: &Attempt<'_>, cx: &RenderContext<'_>) -> Result<String, RenderError> {
    let release = match cx.shared {
        Some(release) => release.clone(),
        None => ReleaseName::of(&cx.identity.name, attempt.component)?,
    };
    let (uid, namespace) = (&cx.identity.uid, &attempt.namespace.name);
    let payload = undeploy_payload(uid, &release, namespace, attempt.component, attempt.serial);
    Ok(serde_json::to_string(&payload)?)
}

/// The Secret of a deploy.
pub(super) fn secret(
    attempt: &Attempt<'_>,
    input: &RenderedComponent,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let payload = input.payload(&cx.identity.uid, &attempt.namespace.name, attempt.serial);
    let data = BTreeMap::from([(SPEC_KEY.to_owned(), ByteString(serde_json::to_vec(&payload)?))]);
    let secret = Secret {
        metadata: metadata(attempt, cx),
        data: Some(data),
        immutable: Some(true),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    };
    Made::new(Resource::Secret, &secret)
}

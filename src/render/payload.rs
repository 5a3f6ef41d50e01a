//! The immutable Secret that tells a deployer Job what to do.

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

/// The Secret; an undeploy needs the release's name only.
pub(super) fn secret(
    attempt: &Attempt<'_>,
    input: Option<&RenderedComponent>,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let (uid, namespace) = (&cx.identity.uid, &attempt.namespace.name);
    let payload = match input {
        Some(input) => input.payload(uid, namespace, attempt.serial),
        None => {
            let release = match cx.shared {
                Some(release) => release.clone(),
                None => ReleaseName::of(&cx.identity.name, attempt.component)?,
            };
            undeploy_payload(uid, &release, namespace, attempt.component, attempt.serial)
        }
    };
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

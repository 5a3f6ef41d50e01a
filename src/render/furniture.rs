//! Furniture of a namespace: quota, limits, policy, copied Secrets, and the route.

use super::{
    Effect, Merge, RenderContext, RenderError, Resource, Target, Write,
    objects::{Labels, labels},
};
use crate::adapter::furniture::{Furnishing, RouteSpec};
use kube::core::DynamicObject;
use petri_crds::meta::ANNOTATION_DIGEST;
use petri_machines::{
    environment::{FurnitureId, FurnitureKind, NamespaceRef},
    names::{Digest, Uid},
};
use serde_json::{Map, Value, json};

/// The ServiceAccount that pods run as which name none.
pub const DEFAULT_ACCOUNT: &str = "default";
/// The port of a service of which nothing is known.
const HTTP: i32 = 80;

/// The service that gets a route's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// Its name.
    pub service: String,
    /// Its port.
    pub port: i32,
}

/// Returns the kind of the object that holds a piece of furniture.
pub fn resource(kind: FurnitureKind) -> Resource {
    match kind {
        FurnitureKind::Namespace => Resource::Namespace,
        FurnitureKind::Secret => Resource::Secret,
        FurnitureKind::PullSecret => Resource::ServiceAccount,
        FurnitureKind::ResourceQuota => Resource::ResourceQuota,
        FurnitureKind::LimitRange => Resource::LimitRange,
        FurnitureKind::NetworkPolicy => Resource::NetworkPolicy,
        FurnitureKind::Ingress => Resource::Ingress,
        FurnitureKind::HttpRoute => Resource::HttpRoute,
    }
}

/// Returns the object that holds a piece of furniture.
fn target(id: &FurnitureId, namespace: &NamespaceRef) -> Target {
    let (inside, name) = match id.kind {
        FurnitureKind::Namespace => (None, namespace.name.to_string()),
        FurnitureKind::PullSecret => (Some(namespace.name.to_string()), DEFAULT_ACCOUNT.to_owned()),
        FurnitureKind::Secret
        | FurnitureKind::ResourceQuota
        | FurnitureKind::LimitRange
        | FurnitureKind::NetworkPolicy
        | FurnitureKind::Ingress
        | FurnitureKind::HttpRoute => (Some(namespace.name.to_string()), id.name.clone()),
    };
    Target { resource: resource(id.kind), namespace: inside, name }
}

pub(super) fn furnish(
    id: &FurnitureId,
    digest: &Digest,
    namespace: &NamespaceRef,
    cx: &RenderContext<'_>,
) -> Result<Effect, RenderError> {
    let made = cx.furniture.get(id).ok_or_else(|| RenderError::NoFurniture(id.clone()))?;
    let target = target(id, namespace);
    let write = match made {
        Furnishing::Namespace { labels, annotations } => {
            let mut annotations = annotations.clone();
            annotations.insert(ANNOTATION_DIGEST.to_owned(), digest.as_str().to_owned());
            let mut changed = let_go(cx);
            changed.extend(labels.iter().map(|(key, value)| (key.clone(), json!(value))));
            let body = json!({"metadata": {
                "uid": namespace.uid, "labels": changed, "annotations": annotations,
            }});
            Write::Patch { target, merge: Merge::Json, body }
        }
        Furnishing::PullSecret(name) => {
            let body = json!({"imagePullSecrets": [{"name": name}]});
            Write::Patch { target, merge: Merge::Strategic, body }
        }
        Furnishing::Secret { kind, data } => {
            upsert(target, digest, &Labels::new(), json!({"type": kind, "data": data}), cx)?
        }
        Furnishing::Spec(spec) => upsert(target, digest, &Labels::new(), json!({"spec": spec}), cx)?,
        Furnishing::Route(route) => {
            let spec = if id.kind == FurnitureKind::HttpRoute { http_route } else { ingress };
            let body = json!({"spec": spec(route, &backend(route, cx))});
            upsert(target, digest, &route.annotations, body, cx)?
        }
    };
    Ok(Effect { guard: Some(cx.guard(namespace, true)), alone: None, write, grants: None })
}

/// The labels of consumers that the namespace bears, each to be removed.
fn let_go(cx: &RenderContext<'_>) -> Map<String, Value> {
    cx.namespace_extras.consumes.iter().map(|label| (label.clone(), Value::Null)).collect()
}

/// Labels that the template put on the namespace stay: which were there before is not known. Those of consumers are
/// Petri's own, and go.
pub(super) fn unfurnish(
    id: &FurnitureId,
    uid: &Uid,
    namespace: &NamespaceRef,
    cx: &RenderContext<'_>,
) -> Effect {
    let target = target(id, namespace);
    let write = match id.kind {
        FurnitureKind::Namespace => {
            let annotations = json!({ANNOTATION_DIGEST: null});
            let body = json!({"metadata": {"uid": uid, "labels": let_go(cx), "annotations": annotations}});
            Write::Patch { target, merge: Merge::Json, body }
        }
        FurnitureKind::PullSecret => {
            let gone = json!([{"$patch": "delete", "name": id.name}]);
            let body = json!({"metadata": {"uid": uid}, "imagePullSecrets": gone});
            Write::Patch { target, merge: Merge::Strategic, body }
        }
        FurnitureKind::Secret
        | FurnitureKind::ResourceQuota
        | FurnitureKind::LimitRange
        | FurnitureKind::NetworkPolicy
        | FurnitureKind::Ingress
        | FurnitureKind::HttpRoute => {
            Write::Delete { target, uid: uid.clone(), resource_version: None, foreground: false }
        }
    };
    Effect { guard: Some(cx.guard(namespace, false)), alone: None, write, grants: None }
}

fn upsert(
    target: Target,
    digest: &Digest,
    annotations: &Labels,
    body: Value,
    cx: &RenderContext<'_>,
) -> Result<Write, RenderError> {
    let api = target.resource.api();
    let mut annotations = annotations.clone();
    annotations.insert(ANNOTATION_DIGEST.to_owned(), digest.as_str().to_owned());
    let mut object = json!({
        "apiVersion": api.api_version,
        "kind": api.kind,
        "metadata": {
            "name": target.name, "namespace": target.namespace,
            "labels": labels(cx), "annotations": annotations,
        },
    });
    if let (Some(object), Value::Object(body)) = (object.as_object_mut(), body) {
        object.extend(body);
    }
    let object: DynamicObject = serde_json::from_value(object)?;
    Ok(Write::Upsert { target, object: Box::new(object) })
}

/// The service that was found, or the name that charts give theirs by custom.
fn backend(route: &RouteSpec, cx: &RenderContext<'_>) -> Backend {
    let custom = || Backend { service: route.release.clone(), port: route.port.unwrap_or(HTTP) };
    cx.backend.cloned().unwrap_or_else(custom)
}

fn ingress(route: &RouteSpec, backend: &Backend) -> Value {
    let service = json!({"name": backend.service, "port": {"number": backend.port}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": {"service": service}});
    let mut spec = json!({"rules": [{"host": route.host, "http": {"paths": [path]}}]});
    if let Some(class) = &route.class {
        spec["ingressClassName"] = json!(class);
    }
    if let Some(secret) = &route.tls {
        spec["tls"] = json!([{"hosts": [route.host], "secretName": secret}]);
    }
    spec
}

fn http_route(route: &RouteSpec, backend: &Backend) -> Value {
    json!({
        "parentRefs": [route.gateway],
        "hostnames": [route.host],
        "rules": [{"backendRefs": [{"name": backend.service, "port": backend.port}]}],
    })
}

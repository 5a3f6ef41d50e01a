//! The workload namespace, the rights in it, and the labels that everything bears.

use super::{Made, RenderContext, RenderError, Resource, text};
use crate::adapter::furniture::Furnishing;
use k8s_openapi::{
    api::{
        core::v1::{Namespace, ServiceAccount},
        rbac::v1::{RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use petri_crds::meta::{
    ANNOTATION_DIGEST, DEPLOYER_SERVICE_ACCOUNT, LABEL_ENVIRONMENT, LABEL_ENVIRONMENT_UID, LABEL_MANAGED,
    LABEL_MANAGED_BY, LABEL_PART_OF, LABEL_SHARED, MANAGED_BY, PART_OF, TRUE,
};
use petri_machines::{
    environment::{FurnitureKind, NamespaceRef},
    names::{LABEL_MAX, NamespaceName},
};
use std::collections::BTreeMap;

/// The operator's RoleBinding in a workload namespace; the chart's admission policy knows the name.
const OPERATOR_BINDING: &str = "petri-operator";
/// What the deployer may do in a workload namespace: everything that a namespace's owner may.
const DEPLOYER_ROLE: &str = "admin";
const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) type Labels = BTreeMap<String, String>;

/// Returns the labels of everything that belongs to the environment.
pub(super) fn labels(cx: &RenderContext<'_>) -> Labels {
    let mut labels = Labels::new();
    let mut put = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.to_owned()));
    put(LABEL_MANAGED, TRUE);
    put(LABEL_ENVIRONMENT_UID, cx.identity.uid.as_str());
    put(LABEL_MANAGED_BY, MANAGED_BY);
    put(LABEL_PART_OF, PART_OF);
    let name = cx.identity.name.as_str();
    // An object's name may be longer than a label's value; nothing decides by this label.
    if cx.shared.is_some() {
        put(LABEL_SHARED, name);
    } else if name.len() <= LABEL_MAX {
        put(LABEL_ENVIRONMENT, name);
    }
    labels
}

/// The namespace, already with both labels that make it ours.
pub(super) fn namespace(name: &NamespaceName, cx: &RenderContext<'_>) -> Result<Made, RenderError> {
    let mut all = cx.namespace_extras.labels.clone();
    let mut annotations = cx.namespace_extras.annotations.clone();
    let own = cx.furniture.iter().find(|(id, _)| id.kind == FurnitureKind::Namespace);
    // The digest says that all of it stands: so all of it must.
    if let Some((_, Furnishing::Namespace { labels, annotations: more })) = own {
        all.extend(labels.clone());
        annotations.extend(more.clone());
    }
    all.extend(labels(cx));
    annotations
        .extend(own.map(|(_, made)| (ANNOTATION_DIGEST.to_owned(), made.digest().as_str().to_owned())));
    let metadata = ObjectMeta {
        name: text(name),
        labels: Some(all),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        ..ObjectMeta::default()
    };
    Made::new(Resource::Namespace, &Namespace { metadata, ..Namespace::default() })
}

fn metadata(name: &str, namespace: &NamespaceRef, cx: &RenderContext<'_>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: text(&namespace.name),
        labels: Some(labels(cx)),
        ..ObjectMeta::default()
    }
}

pub(super) fn operator_binding(
    namespace: &NamespaceRef,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let subject = subject(&cx.settings.service_account, &cx.settings.management_namespace);
    binding(metadata(OPERATOR_BINDING, namespace, cx), &cx.settings.workload_role, subject)
}

pub(super) fn deployer_account(
    namespace: &NamespaceRef,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let metadata = metadata(DEPLOYER_SERVICE_ACCOUNT, namespace, cx);
    Made::new(Resource::ServiceAccount, &ServiceAccount { metadata, ..ServiceAccount::default() })
}

/// The deployer's RoleBinding to `admin`, or to one of the roles that the configuration adds.
pub(super) fn deployer_binding(
    namespace: &NamespaceRef,
    extra: Option<&str>,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let name = match extra {
        None => DEPLOYER_SERVICE_ACCOUNT.to_owned(),
        Some(role) => format!("{DEPLOYER_SERVICE_ACCOUNT}-{role}"),
    };
    let subject = subject(DEPLOYER_SERVICE_ACCOUNT, namespace.name.as_str());
    binding(metadata(&name, namespace, cx), extra.unwrap_or(DEPLOYER_ROLE), subject)
}

fn subject(account: &str, namespace: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        name: account.to_owned(),
        namespace: Some(namespace.to_owned()),
        api_group: None,
    }
}

fn binding(metadata: ObjectMeta, role: &str, subject: Subject) -> Result<Made, RenderError> {
    let role_ref =
        RoleRef { api_group: RBAC.to_owned(), kind: "ClusterRole".to_owned(), name: role.to_owned() };
    Made::new(Resource::RoleBinding, &RoleBinding { metadata, role_ref, subjects: Some(vec![subject]) })
}

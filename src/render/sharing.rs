//! Slices of shared components: obligation, binding, provision and deprovision Jobs, and the list of consumers.

use super::{Alone, Effect, Made, RenderContext, RenderError, Resource, Target, Write, job, objects};
use crate::{
    adapter::{shared, sharing as adapter},
    observe::Sharing,
};
use k8s_openapi::{
    ByteString,
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{
            Capabilities, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, PodSpec, PodTemplateSpec,
            Secret, SecretKeySelector, SecurityContext, Volume, VolumeMount,
        },
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use petri_crds::{
    JobScript, SharedComponent,
    meta::{
        ANNOTATION_DIGEST, ANNOTATION_SERIAL, ANNOTATION_TRACEPARENT, GENERATED_SECRET_KEY, LABEL_COMPONENT,
        LABEL_OP, LABEL_SHARED, OP_OBLIGATION,
    },
};
use petri_machines::{
    environment::{self, Unsharing},
    job::Op,
    names::{ComponentName, Digest, JobName, Uid},
    shared::{Abandoned, Consumer, Roster},
    slice::Fence,
};
use std::collections::BTreeMap;

/// The container of a provision or deprovision Job.
pub const SCRIPT_CONTAINER: &str = "script";
const SCRATCH: &str = "petri-tmp";

pub(super) fn share(command: &environment::Sharing, cx: &RenderContext<'_>) -> Result<Effect, RenderError> {
    match command {
        environment::Sharing::Register { at, component } => {
            let consumer = Consumer {
                uid: cx.identity.uid.clone(),
                environment: cx.identity.name.clone(),
                component: component.clone(),
                since: cx.now,
            };
            list(at, component, cx, |roster, own| {
                let deleting = own.metadata.deletion_timestamp.is_some();
                roster.register(consumer, own.spec.capacity(), deleting).ok()
            })
        }
        environment::Sharing::Oblige { component, payload, replaces } => {
            oblige(component, payload, replaces.as_ref(), cx)
        }
        environment::Sharing::Bind { namespace, component } => {
            Ok(cx.effect(Some(namespace), binding(component, cx)?))
        }
        environment::Sharing::CreateProvisionJob { component, serial } => {
            script_job(component, Op::Provision, *serial, cx)
        }
    }
}

pub(super) fn unshare(command: &Unsharing, cx: &RenderContext<'_>) -> Result<Effect, RenderError> {
    let shared = |resource, name: String, uid: &Uid, foreground| {
        let target = Target { resource, namespace: Some(cx.settings.shared_namespace.clone()), name };
        let write = Write::Delete { target, uid: uid.clone(), resource_version: None, foreground };
        Effect { guard: None, alone: None, write, grants: None }
    };
    match command {
        Unsharing::CreateDeprovisionJob { component, serial } => {
            script_job(component, Op::Deprovision, *serial, cx)
        }
        Unsharing::DeleteJob { name, uid } => Ok(shared(Resource::Job, name.to_string(), uid, true)),
        Unsharing::Acquit { component, uid } => {
            Ok(shared(Resource::Secret, obligation_name(component, cx), uid, false))
        }
        Unsharing::Unbind { namespace, component, uid } => {
            let name = adapter::binding_name(&cx.identity.name, component);
            let target =
                Target { resource: Resource::Secret, namespace: Some(namespace.name.to_string()), name };
            let write = Write::Delete { target, uid: uid.clone(), resource_version: None, foreground: false };
            Ok(Effect { guard: Some(cx.guard(namespace, false)), alone: None, write, grants: None })
        }
        Unsharing::Release { at, component } => {
            list(at, component, cx, |roster, _| Some(roster.release(&cx.identity.uid, component)))
        }
        Unsharing::Abandon { at, component, reason } => {
            let abandoned = Abandoned {
                uid: cx.identity.uid.clone(),
                environment: cx.identity.name.clone(),
                component: component.clone(),
                at: cx.now,
                reason: reason.clone(),
            };
            list(at, component, cx, |roster, _| Some(roster.abandon(abandoned)))
        }
    }
}

fn sharing<'c>(component: &ComponentName, cx: &RenderContext<'c>) -> Result<&'c Sharing, RenderError> {
    cx.sharing.get(component).ok_or_else(|| RenderError::NoInput(component.clone()))
}

fn obligation_name(component: &ComponentName, cx: &RenderContext<'_>) -> String {
    adapter::obligation_name(&cx.identity.uid, &cx.identity.name, component)
}

/// Writes the list of a shared component that is still what was decided on: its resourceVersion is the fence.
fn list(
    at: &Fence,
    component: &ComponentName,
    cx: &RenderContext<'_>,
    change: impl FnOnce(&Roster, &SharedComponent) -> Option<Roster>,
) -> Result<Effect, RenderError> {
    let stale = || RenderError::Stale(component.clone());
    let own = sharing(component, cx)?.shared.as_ref().ok_or_else(stale)?;
    let meta = &own.metadata;
    let is_meant = meta.uid.as_deref() == Some(at.uid.as_str())
        && meta.resource_version.as_deref() == Some(at.version.as_str());
    let status = own.status.clone().unwrap_or_default();
    let roster = shared::roster(&status).filter(|_| is_meant).ok_or_else(stale)?;
    let roster = change(&roster, own).ok_or_else(stale)?;
    let mut object = own.clone();
    object.status = Some(shared::with_roster(status, &roster));
    let target = Target {
        resource: Resource::SharedComponent,
        namespace: meta.namespace.clone(),
        name: at.shared.to_string(),
    };
    let object = serde_json::from_value(serde_json::to_value(&object)?)?;
    let write = Write::Status { target, object: Box::new(object) };
    Ok(Effect { guard: None, alone: None, write, grants: None })
}

/// The labels of what belongs to a slice.
fn labels(
    component: &ComponentName,
    op: &str,
    shared: &str,
    cx: &RenderContext<'_>,
) -> BTreeMap<String, String> {
    let mut labels = objects::labels(cx);
    labels.insert(LABEL_COMPONENT.to_owned(), component.to_string());
    labels.insert(LABEL_OP.to_owned(), op.to_owned());
    labels.insert(LABEL_SHARED.to_owned(), shared.to_owned());
    labels
}

/// The obligation, rendered with what stands in the one that it replaces.
fn oblige(
    component: &ComponentName,
    payload: &Digest,
    replaces: Option<&Uid>,
    cx: &RenderContext<'_>,
) -> Result<Effect, RenderError> {
    let sharing = sharing(component, cx)?;
    let missing = || RenderError::Unready(component.clone());
    let provider = sharing.provider.as_ref().ok_or_else(missing)?;
    let shared =
        sharing.shared.as_ref().and_then(|shared| shared.metadata.name.clone()).ok_or_else(missing)?;
    let namespace = cx.place.ok_or_else(missing)?;
    let held = replaces.and(sharing.obligation.as_ref());
    if held.and_then(|held| held.metadata.uid.as_deref()) != replaces.map(Uid::as_str) {
        return Err(RenderError::Stale(component.clone()));
    }
    let data = held.and_then(|held| held.data.as_ref());
    let text = |key: &str| {
        data.and_then(|data| data.get(key)).and_then(|text| String::from_utf8(text.0.clone()).ok())
    };
    let generated = text(adapter::GENERATED).unwrap_or_else(|| sharing.generated.clone());
    let frozen = text(adapter::INSTANCE).and_then(|text| serde_json::from_str(&text).ok());
    let instance: BTreeMap<String, String> =
        frozen.or_else(|| sharing.instance.clone()).ok_or_else(missing)?;
    let binding = text(adapter::BINDING).and_then(|text| serde_json::from_str(&text).ok());
    let workload = adapter::Workload {
        name: &shared,
        namespace: &cx.settings.shared_namespace,
        secret: &sharing.secret,
    };
    let consumer = adapter::Consumer { environment: &cx.identity.name, namespace, workload };
    let data = adapter::obligation(&provider.spec, &consumer, &generated, &instance, binding.as_ref())?;
    let metadata = ObjectMeta {
        name: Some(obligation_name(component, cx)),
        namespace: Some(cx.settings.shared_namespace.clone()),
        labels: Some(labels(component, OP_OBLIGATION, &shared, cx)),
        annotations: Some([(ANNOTATION_DIGEST.to_owned(), payload.as_str().to_owned())].into()),
        uid: replaces.map(ToString::to_string),
        resource_version: held.and_then(|held| held.metadata.resource_version.clone()),
        ..ObjectMeta::default()
    };
    let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() };
    let Effect { write, .. } = cx.effect(None, Made::new(Resource::Secret, &secret)?);
    let write = match (write, replaces) {
        (Write::Create { target, object }, Some(_)) => Write::Replace { target, object },
        (write, _) => write,
    };
    Ok(Effect { guard: None, alone: None, write, grants: None })
}

/// The binding as the obligation has it.
fn binding(component: &ComponentName, cx: &RenderContext<'_>) -> Result<Made, RenderError> {
    let held = sharing(component, cx)?.obligation.as_ref().and_then(|secret| secret.data.as_ref());
    let held = held.ok_or_else(|| RenderError::Unready(component.clone()))?;
    let text = |key: &str| held.get(key).map(|text| text.0.as_slice()).unwrap_or_default();
    let values: BTreeMap<String, String> = serde_json::from_slice(text(adapter::BINDING))?;
    let mut data: BTreeMap<String, ByteString> =
        values.into_iter().map(|(key, value)| (key, ByteString(value.into_bytes()))).collect();
    data.insert(GENERATED_SECRET_KEY.to_owned(), ByteString(text(adapter::GENERATED).to_vec()));
    let mut labels = objects::labels(cx);
    labels.insert(LABEL_COMPONENT.to_owned(), component.to_string());
    let metadata = ObjectMeta {
        name: Some(adapter::binding_name(&cx.identity.name, component)),
        namespace: cx.place.map(ToString::to_string),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() };
    Made::new(Resource::Secret, &secret)
}

/// A Job that runs a script of the obligation; no value of it stands in the Job.
fn script_job(
    component: &ComponentName,
    op: Op,
    serial: u64,
    cx: &RenderContext<'_>,
) -> Result<Effect, RenderError> {
    let missing = || RenderError::Unready(component.clone());
    let sharing = sharing(component, cx)?;
    let held = sharing.obligation.as_ref().ok_or_else(missing)?;
    let data = held.data.as_ref().ok_or_else(missing)?;
    let text = data.get(&adapter::script_key(op.as_str())).ok_or_else(missing)?;
    let script: JobScript = serde_json::from_slice(&text.0)?;
    let shared = held.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_SHARED));
    let name = JobName::of(&cx.identity.uid, &cx.identity.name, component, op, serial);
    let mut annotations = BTreeMap::from([(ANNOTATION_SERIAL.to_owned(), serial.to_string())]);
    annotations.extend(cx.traceparent.map(|parent| (ANNOTATION_TRACEPARENT.to_owned(), parent.to_owned())));
    let metadata = ObjectMeta {
        name: Some(name.to_string()),
        namespace: Some(cx.settings.shared_namespace.clone()),
        labels: Some(labels(component, op.as_str(), shared.map(String::as_str).unwrap_or_default(), cx)),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(job::pod_metadata(&metadata)),
        spec: Some(pod(script, &obligation_name(component, cx), cx)),
    };
    let spec = JobSpec {
        backoff_limit: Some(0),
        active_deadline_seconds: Some(i64::try_from(cx.settings.job_deadline_secs).unwrap_or(i64::MAX)),
        template,
        ..JobSpec::default()
    };
    let made = Made::new(Resource::Job, &Job { metadata, spec: Some(spec), ..Job::default() })?;
    let alone = Alone {
        namespace: cx.settings.shared_namespace.clone(),
        owner: cx.identity.uid.clone(),
        component: component.clone(),
        job: name,
    };
    Ok(Effect { alone: Some(alone), ..cx.effect(None, made) })
}

fn pod(script: JobScript, obligation: &str, cx: &RenderContext<'_>) -> PodSpec {
    let command = if script.script.is_empty() {
        script.command
    } else {
        vec!["/bin/sh".to_owned(), "-c".to_owned(), script.script]
    };
    let own = |mut variable: EnvVar| {
        let reference = variable.value_from.as_mut().and_then(|from| from.secret_key_ref.as_mut());
        if let Some(reference) = reference.filter(|reference| reference.name.is_empty()) {
            reference.name = obligation.to_owned();
        }
        variable
    };
    let generated =
        SecretKeySelector { key: adapter::GENERATED.to_owned(), name: obligation.to_owned(), optional: None };
    let mut env = vec![
        EnvVar {
            name: "PETRI_ENV_NAME".to_owned(),
            value: Some(cx.identity.name.to_string()),
            ..EnvVar::default()
        },
        EnvVar {
            name: "PETRI_GENERATED_SECRET".to_owned(),
            value_from: Some(EnvVarSource { secret_key_ref: Some(generated), ..EnvVarSource::default() }),
            ..EnvVar::default()
        },
    ];
    env.extend(cx.traceparent.map(|parent| EnvVar {
        name: "TRACEPARENT".to_owned(),
        value: Some(parent.to_owned()),
        ..EnvVar::default()
    }));
    env.extend(script.env.into_iter().map(own));
    let mut volumes = script.volumes;
    let mut mounts = script.volume_mounts;
    if mounts.iter().all(|mount| mount.mount_path != "/tmp") {
        let scratch = EmptyDirVolumeSource::default();
        volumes.push(Volume { name: SCRATCH.to_owned(), empty_dir: Some(scratch), ..Volume::default() });
        let (name, mount_path) = (SCRATCH.to_owned(), "/tmp".to_owned());
        mounts.push(VolumeMount { name, mount_path, ..VolumeMount::default() });
    }
    let container = Container {
        name: SCRIPT_CONTAINER.to_owned(),
        image: Some(script.image),
        command: Some(command),
        env: Some(env),
        env_from: Some(script.env_from).filter(|all| !all.is_empty()),
        resources: Some(job::resources()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(mounts),
        ..Container::default()
    };
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(job::pod_security()),
        containers: vec![container],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

#[cfg(test)]
mod tests;

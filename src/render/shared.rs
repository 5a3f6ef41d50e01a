//! A shared component: finalizers, the instance secret, and the deployer's Jobs in the shared namespace.

use super::{
    Alone, Attempt, Effect, Made, RenderContext, RenderError, Resource, Target, Write, job, objects, payload,
};
use crate::{
    adapter::{RenderedComponent, sharing::generated},
    observe::SharedObservation,
};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use petri_crds::{
    SharedComponentProvider,
    meta::{FINALIZER_SHARED, LABEL_SHARED},
};
use petri_machines::{
    environment::NamespaceRef,
    job::Op,
    names::{ComponentName, JobName, Uid},
    shared::{Cleanup, Command, ProviderRef},
};

/// All that a command of a shared component may need besides itself.
pub struct SharedContext<'a> {
    /// The shared component in the place of an environment, with its release.
    pub cx: RenderContext<'a>,
    /// Its name as a component, and the shared namespace.
    pub component: &'a ComponentName,
    /// The shared namespace.
    pub namespace: &'a NamespaceRef,
    /// What was observed.
    pub observation: &'a SharedObservation,
    /// Four random bytes.
    pub random: fn() -> u32,
}

/// Renders a command of a shared component: one effect.
///
/// # Errors
/// A fault of Petri: a command without its input.
pub fn shared_effect(command: &Command, at: &SharedContext<'_>) -> Result<Effect, RenderError> {
    match command {
        Command::AddFinalizer => Ok(own_finalizers(at, true)),
        Command::HoldProvider(provider) => finalizers(provider, at, true),
        Command::WriteInstance { replaces } => instance(replaces.as_ref(), at),
        Command::CreatePayload { serial } => payload(*serial, at),
        Command::CreateJob { serial } => deployer(Op::Deploy, *serial, at),
        Command::Cleanup(cleanup) => match cleanup {
            Cleanup::CreateUndeployJob { serial } => deployer(Op::Undeploy, *serial, at),
            Cleanup::DeletePayload { name, uid } => {
                Ok(delete(Resource::Secret, name.as_str(), uid, false, at))
            }
            Cleanup::DeleteJob { name, uid } => Ok(delete(Resource::Job, name.as_str(), uid, true, at)),
            Cleanup::Forget { secret } => {
                let name = at.observation.obligations.get(secret);
                let name = name.ok_or_else(|| RenderError::Stale(at.component.clone()))?;
                Ok(delete(Resource::Secret, name, secret, false, at))
            }
            Cleanup::DeleteInstance { uid } => {
                let name = at.observation.instance.as_ref().and_then(|secret| secret.metadata.name.clone());
                let name = name.ok_or_else(|| RenderError::Stale(at.component.clone()))?;
                Ok(delete(Resource::Secret, &name, uid, false, at))
            }
            Cleanup::ReleaseProvider(provider) => finalizers(provider, at, false),
            Cleanup::DropFinalizer => Ok(own_finalizers(at, false)),
        },
    }
}

fn bare(write: Write) -> Effect {
    Effect { guard: None, alone: None, write, grants: None }
}

fn delete(resource: Resource, name: &str, uid: &Uid, foreground: bool, at: &SharedContext<'_>) -> Effect {
    let namespace = Some(at.namespace.name.to_string());
    let target = Target { resource, namespace, name: name.to_owned() };
    bare(Write::Delete { target, uid: uid.clone(), resource_version: None, foreground })
}

/// Puts the finalizer on a list, or takes it off; those of others stay.
fn changed(all: &[String], hold: bool) -> Vec<String> {
    let others = all.iter().filter(|one| *one != FINALIZER_SHARED).cloned();
    others.chain(hold.then(|| FINALIZER_SHARED.to_owned())).collect()
}

fn own_finalizers(at: &SharedContext<'_>, hold: bool) -> Effect {
    let own = at.cx.own;
    bare(Write::Finalizers {
        target: Target {
            resource: Resource::SharedComponent,
            namespace: Some(own.namespace.clone()),
            name: at.cx.identity.name.to_string(),
        },
        uid: at.cx.identity.uid.clone(),
        resource_version: own.resource_version.clone(),
        finalizers: changed(&own.finalizers, hold),
    })
}

fn finalizers(provider: &ProviderRef, at: &SharedContext<'_>, hold: bool) -> Result<Effect, RenderError> {
    let held: Option<&SharedComponentProvider> = at.observation.providers.get(&provider.name);
    let held = held.ok_or_else(|| RenderError::Stale(at.component.clone()))?;
    Ok(bare(Write::Finalizers {
        target: Target {
            resource: Resource::Provider,
            namespace: Some(at.cx.own.namespace.clone()),
            name: provider.name.clone(),
        },
        uid: provider.uid.clone(),
        resource_version: provider.version.clone(),
        finalizers: changed(held.metadata.finalizers.as_deref().unwrap_or_default(), hold),
    }))
}

/// The instance secret: fixed values as the provider has them now, generated ones as they stand, or fresh. A key that
/// the provider does not name any more stays.
fn instance(replaces: Option<&Uid>, at: &SharedContext<'_>) -> Result<Effect, RenderError> {
    let stale = || RenderError::Stale(at.component.clone());
    let provider = at.observation.provider.as_ref().ok_or_else(stale)?;
    let wanted = provider.spec.instance_secret.as_ref().ok_or_else(stale)?;
    let held = replaces.and(at.observation.instance.as_ref());
    if held.and_then(|held| held.metadata.uid.as_deref()) != replaces.map(Uid::as_str) {
        return Err(stale());
    }
    let mut data = held.and_then(|held| held.data.clone()).unwrap_or_default();
    for (key, wanted) in &wanted.keys {
        match (&wanted.value, &wanted.generate) {
            (Some(value), _) => drop(data.insert(key.clone(), ByteString(value.clone().into_bytes()))),
            (None, Some(generate)) => {
                let stands = data.get(key).is_some_and(|value| !value.0.is_empty());
                if !stands {
                    data.insert(key.clone(), ByteString(generated(generate, at.random).into_bytes()));
                }
            }
            (None, None) => {}
        }
    }
    let mut labels = objects::labels(&at.cx);
    labels.insert(LABEL_SHARED.to_owned(), at.component.to_string());
    let metadata = ObjectMeta {
        name: Some(at.observation.instance_name.clone().ok_or_else(stale)?),
        namespace: Some(at.namespace.name.to_string()),
        labels: Some(labels),
        uid: replaces.map(ToString::to_string),
        resource_version: held.and_then(|held| held.metadata.resource_version.clone()),
        ..ObjectMeta::default()
    };
    let secret = Secret { metadata, data: Some(data), type_: Some("Opaque".to_owned()), ..Secret::default() };
    let Effect { write, .. } = at.cx.effect(None, Made::new(Resource::Secret, &secret)?);
    Ok(bare(match (write, replaces) {
        (Write::Create { target, object }, Some(_)) => Write::Replace { target, object },
        (write, _) => write,
    }))
}

fn attempt<'a>(op: Op, serial: u64, at: &'a SharedContext<'a>) -> Attempt<'a> {
    Attempt { namespace: at.namespace, component: at.component, op, serial }
}

fn input<'a>(at: &'a SharedContext<'_>) -> Result<&'a RenderedComponent, RenderError> {
    at.observation.rendered.as_ref().ok_or_else(|| RenderError::NoInput(at.component.clone()))
}

fn payload(serial: u64, at: &SharedContext<'_>) -> Result<Effect, RenderError> {
    let secret = payload::secret(&attempt(Op::Deploy, serial, at), input(at)?, &at.cx)?;
    Ok(at.cx.effect(None, secret))
}

fn deployer(op: Op, serial: u64, at: &SharedContext<'_>) -> Result<Effect, RenderError> {
    let about = attempt(op, serial, at);
    let job: JobName = about.name(&at.cx);
    let alone = Alone {
        namespace: at.namespace.name.to_string(),
        owner: at.cx.identity.uid.clone(),
        component: at.component.clone(),
        job,
    };
    let input = if op.removes() { None } else { Some(input(at)?) };
    Ok(Effect { alone: Some(alone), ..at.cx.effect(None, job::job(&about, input, &at.cx)?) })
}

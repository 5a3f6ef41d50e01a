//! Writes to the own object.

use super::{Effect, RenderContext, Resource, Target, Write};
use petri_crds::meta::FINALIZER_ENVIRONMENT;

fn target(cx: &RenderContext<'_>) -> Target {
    Target {
        resource: Resource::Environment,
        namespace: Some(cx.own.namespace.clone()),
        name: cx.identity.name.to_string(),
    }
}

fn finalizers(cx: &RenderContext<'_>, finalizers: Vec<String>) -> Effect {
    let write = Write::Finalizers {
        target: target(cx),
        uid: cx.identity.uid.clone(),
        resource_version: cx.own.resource_version.clone(),
        finalizers,
    };
    Effect { guard: None, write, grants: None, alone: None }
}

/// Adds ours to those of others.
pub(super) fn add_finalizer(cx: &RenderContext<'_>) -> Effect {
    let mut all = cx.own.finalizers.clone();
    if !all.iter().any(|one| one == FINALIZER_ENVIRONMENT) {
        all.push(FINALIZER_ENVIRONMENT.to_owned());
    }
    finalizers(cx, all)
}

/// Removes ours and leaves those of others.
pub(super) fn drop_finalizer(cx: &RenderContext<'_>) -> Effect {
    let others = cx.own.finalizers.iter().filter(|one| *one != FINALIZER_ENVIRONMENT);
    finalizers(cx, others.cloned().collect())
}

/// Expiry: a change that landed since the object was read (an extension) wins.
pub(super) fn delete(cx: &RenderContext<'_>) -> Effect {
    let write = Write::Delete {
        target: target(cx),
        uid: cx.identity.uid.clone(),
        resource_version: Some(cx.own.resource_version.clone()),
        foreground: false,
    };
    Effect { guard: None, write, grants: None, alone: None }
}

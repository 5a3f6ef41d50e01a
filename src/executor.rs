//! Effect → API call. It decides nothing: it checks what the effect says must hold, makes one call, reads back a name
//! that was taken, and classes what went wrong.

pub mod class;
pub mod guard;

pub use class::Error;

use crate::{
    client::{CALL_MAX, timed},
    error::CallError,
    leader::Leadership,
    observe::Ledger,
    render::{Effect, Merge, NamespaceGuard, Resource, Target, Write},
};
use kube::{
    Client,
    api::{
        Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
};
use petri_crds::meta::{
    ANNOTATION_SERIAL, FINALIZER_ENVIRONMENT, FINALIZER_SHARED, LABEL_COMPONENT, LABEL_ENVIRONMENT_UID,
    LABEL_MANAGED, LABEL_OP,
};
use petri_machines::names::Uid;
use serde_json::json;
use std::sync::Arc;

/// Makes the writes of all environments.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    leadership: Leadership,
    ledger: Arc<Ledger>,
}

impl Executor {
    /// Makes an executor; `client` must not repeat requests by itself.
    pub fn new(client: Client, leadership: Leadership, ledger: Arc<Ledger>) -> Self {
        Self { client, leadership, ledger }
    }

    /// Applies one effect: the guard's read, then one write; a name that was taken is read back.
    ///
    /// # Errors
    /// What went wrong, classed. After some of them the write may nevertheless have been done.
    pub async fn apply(&self, effect: &Effect) -> Result<(), Error> {
        if !self.leadership.is_leading() {
            return Err(Error::Call(CallError::NotLeading(crate::error::NotLeading)));
        }
        let owned = async {
            match &effect.guard {
                Some(guard) => guard::check(&self.client, guard).await,
                None => Ok(()),
            }
        };
        let alone = async {
            match &effect.alone {
                Some(alone) => guard::check_alone(&self.client, alone).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(owned, alone)?;
        self.write(&effect.write).await.map_err(|error| self.excuse(error, effect.guard.as_ref()))?;
        if let Some(guard) = &effect.guard {
            self.note(&guard.namespace.uid, effect);
        }
        Ok(())
    }

    fn note(&self, namespace: &Uid, effect: &Effect) {
        if let Some(right) = effect.grants {
            self.ledger.record(namespace, right);
        }
        if matches!(&effect.write, Write::Delete { target, .. } if target.resource == Resource::Namespace) {
            self.ledger.forget(namespace);
        }
    }

    /// A refusal right after the operator's own RoleBinding was made is the authorizer's lag.
    fn excuse(&self, error: Error, guard: Option<&NamespaceGuard>) -> Error {
        match (error, guard) {
            (Error::Call(call), Some(guard))
                if class::is_forbidden(&call) && self.ledger.may_lag(&guard.namespace.uid) =>
            {
                Error::Lagging(call)
            }
            (error, _) => error,
        }
    }

    async fn write(&self, write: &Write) -> Result<(), Error> {
        match write {
            Write::Create { target, object } => self.create(target, object).await,
            Write::Upsert { target, object } => self.upsert(target, object).await,
            Write::Replace { target, object } => {
                timed(CALL_MAX, self.api(target).replace(&target.name, &PostParams::default(), object))
                    .await?;
                Ok(())
            }
            Write::Status { target, object } => {
                let (api, params) = (self.api(target), PostParams::default());
                timed(CALL_MAX, api.replace_status(&target.name, &params, object)).await?;
                Ok(())
            }
            Write::Patch { target, merge, body } => {
                let patch = match merge {
                    Merge::Json => Patch::Merge(body),
                    Merge::Strategic => Patch::Strategic(body),
                };
                let (api, params) = (self.api(target), PatchParams::default());
                timed(CALL_MAX, api.patch(&target.name, &params, &patch)).await?;
                Ok(())
            }
            Write::Delete { target, uid, resource_version, foreground } => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(uid.to_string()),
                        resource_version: resource_version.clone(),
                    }),
                    propagation_policy: Some(if *foreground {
                        PropagationPolicy::Foreground
                    } else {
                        PropagationPolicy::Background
                    }),
                    ..DeleteParams::default()
                };
                match timed(CALL_MAX, self.api(target).delete(&target.name, &params)).await {
                    Ok(_) => Ok(()),
                    Err(error) if error.is_not_found() => Ok(()),
                    // Both preconditions name what was read: whatever stands there now is something else.
                    Err(error) if error.is_conflict() => Err(Error::Fenced(error)),
                    Err(error) => Err(Error::Call(error)),
                }
            }
            Write::Finalizers { target, uid, resource_version, finalizers } => {
                let patch = Patch::Merge(json!({"metadata": {
                    "uid": uid, "resourceVersion": resource_version, "finalizers": finalizers,
                }}));
                let (api, params) = (self.api(target), PatchParams::default());
                let call = api.patch_metadata(&target.name, &params, &patch);
                let holds = finalizers.iter().any(|one| is_ours(one));
                match timed(CALL_MAX, call).await {
                    Ok(_) => Ok(()),
                    // What follows is made under the finalizer: for what is gone, nothing may be made.
                    Err(error) if error.is_not_found() && holds => Err(Error::Fenced(error)),
                    Err(error) if error.is_not_found() => Ok(()),
                    Err(error) => Err(Error::Call(error)),
                }
            }
        }
    }

    async fn create(&self, target: &Target, object: &DynamicObject) -> Result<(), Error> {
        let error = match timed(CALL_MAX, self.api(target).create(&PostParams::default(), object)).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if !class::is_taken(&error) {
            return Err(Error::Call(error));
        }
        if class::is_taken_by_the_dying(&error) {
            return Err(Error::Occupied(error));
        }
        if target.resource == Resource::RoleBinding {
            // Nobody but the operator makes one of this name here, by admission; and it may not be read.
            return Ok(());
        }
        self.read_back(target, object, error).await
    }

    /// Replaces the object as it was just read, keeping what others put on its metadata.
    async fn upsert(&self, target: &Target, wanted: &DynamicObject) -> Result<(), Error> {
        let api = self.api(target);
        let Some(found) = timed(CALL_MAX, api.get_opt(&target.name)).await? else {
            return self.create(target, wanted).await;
        };
        if !is_same(&found, wanted) {
            return Err(Error::Foreign(target.clone()));
        }
        let mut object = wanted.clone();
        let (ours, mut metadata) = (std::mem::take(&mut object.metadata), found.metadata);
        metadata.labels.get_or_insert_default().extend(ours.labels.unwrap_or_default());
        metadata.annotations.get_or_insert_default().extend(ours.annotations.unwrap_or_default());
        metadata.managed_fields = None;
        object.metadata = metadata;
        timed(CALL_MAX, api.replace(&target.name, &PostParams::default(), &object)).await?;
        Ok(())
    }

    /// Decides whether what bears the name is what was to be created: by an earlier call whose answer was lost.
    async fn read_back(
        &self,
        target: &Target,
        wanted: &DynamicObject,
        taken: CallError,
    ) -> Result<(), Error> {
        let found = timed(CALL_MAX, self.api(target).get_opt(&target.name)).await?;
        match found {
            // It went between the two calls: the name is free now.
            None => Err(Error::Occupied(taken)),
            Some(found) if !is_same(&found, wanted) => Err(Error::Foreign(target.clone())),
            Some(found) if found.metadata.deletion_timestamp.is_some() => Err(Error::Occupied(taken)),
            Some(_) => Ok(()),
        }
    }

    fn api(&self, target: &Target) -> Api<DynamicObject> {
        let resource = target.resource.api();
        match &target.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn is_ours(finalizer: &str) -> bool {
    [FINALIZER_ENVIRONMENT, FINALIZER_SHARED].contains(&finalizer)
}

/// Compares what tells one made object from another: owner, component, operation and serial.
fn is_same(found: &DynamicObject, wanted: &DynamicObject) -> bool {
    let label = |object: &DynamicObject, key: &str| {
        object.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned()
    };
    let serial = |object: &DynamicObject| {
        object.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_SERIAL)).cloned()
    };
    let keys = [LABEL_MANAGED, LABEL_ENVIRONMENT_UID, LABEL_COMPONENT, LABEL_OP];
    keys.into_iter().all(|key| label(found, key) == label(wanted, key)) && serial(found) == serial(wanted)
}

#[cfg(test)]
mod tests;

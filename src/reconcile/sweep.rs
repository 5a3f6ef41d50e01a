//! What an environment left that went without its clean-up. A DELETE that the API server began before the finalizer was
//! added takes no notice of it: the object goes, the write of the finalizer was answered with success all the same, and
//! the pass that made it goes on to the namespace.

use super::Operator;
use crate::{
    client::{CALL_MAX, timed},
    controller::Key,
    error::CallError,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Preconditions},
};
use petri_crds::meta::{LABEL_ENVIRONMENT_UID, LABEL_MANAGED, TRUE};
use petri_machines::names::Uid;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tracing::warn;

/// The UIDs of the environments that this process has looked at, by name, until it was looked what they left.
#[derive(Debug, Default)]
pub(super) struct Living(Mutex<HashMap<Key, Vec<Uid>>>);

impl Living {
    /// Takes note of an environment as it was read; tells whether an earlier one of its name is gone.
    pub(super) fn seen(&self, key: &Key, uid: &Uid) -> bool {
        let mut all = self.lock();
        let uids = all.entry(key.clone()).or_insert_with(|| Vec::with_capacity(1));
        if !uids.contains(uid) {
            uids.push(uid.clone());
        }
        uids.len() > 1
    }

    fn gone(&self, key: &Key, alive: Option<&Uid>) -> Vec<Uid> {
        self.lock().get(key).into_iter().flatten().filter(|uid| Some(*uid) != alive).cloned().collect()
    }

    fn forget(&self, key: &Key, gone: &Uid) {
        let mut all = self.lock();
        if let Some(uids) = all.get_mut(key) {
            uids.retain(|uid| uid != gone);
            if uids.is_empty() {
                all.remove(key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Uid>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Operator {
    /// Deletes what the environments of a name left behind, all but the one that is there.
    ///
    /// # Errors
    /// The list or a delete was refused or not answered: the same is to be done again.
    pub(super) async fn sweep(&self, key: &Key, alive: Option<&Uid>) -> Result<(), CallError> {
        for uid in self.living.gone(key, alive) {
            self.sweep_one(key, &uid).await?;
            self.living.forget(key, &uid);
        }
        Ok(())
    }

    /// Deletes the namespaces of an environment as a live list finds them; one that goes is left to go.
    async fn sweep_one(&self, key: &Key, uid: &Uid) -> Result<(), CallError> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let own = format!("{LABEL_MANAGED}={TRUE},{LABEL_ENVIRONMENT_UID}={uid}");
        let found = timed(CALL_MAX, api.list_metadata(&ListParams::default().labels(&own))).await?;
        for left in found.items.into_iter().map(|found| found.metadata) {
            if left.deletion_timestamp.is_some() {
                continue;
            }
            let namespace = left.name.unwrap_or_default();
            warn!(%key, namespace, "the environment went before its finalizer counted; its namespace is deleted");
            let preconditions = Some(Preconditions { uid: left.uid, resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::default() };
            match timed(CALL_MAX, api.delete(&namespace, &params)).await {
                Err(error) if !error.is_not_found() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

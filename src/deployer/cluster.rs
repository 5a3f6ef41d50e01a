//! The deployer's own requests to the API server: the release's records, and the inventory.

use std::collections::BTreeMap;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::core::GroupVersion;
use kube::discovery::{ApiCapabilities, ApiResource, Scope, pinned_group};
use kube::{Api, Client, Config, ResourceExt};
use petri_machines::reason::FailureReason;
use petri_machines::release::Revision;
use tracing::warn;

use super::classify::Failure;
use super::inventory::{self, Item, Reference};
use super::payload::Payload;

const FIELD_MANAGER: &str = "petri-deployer";
/// No answer comes that late: small reads and writes only.
const ANSWER: Duration = Duration::from_secs(15);
/// Reads side by side; the API server answers each in milliseconds.
const READS_MAX: usize = 8;
/// 0.1 s, doubled six times: a right that was just granted, or an API server that restarts, is there by then.
const RETRIES_MAX: usize = 7;

/// Speaks to the API server about one release.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    namespace: String,
}

/// The kinds of one group and version, as the API server serves them.
type Kinds = BTreeMap<(String, String), (ApiResource, ApiCapabilities)>;

impl Cluster {
    /// Connects by the pod's ServiceAccount, or by `KUBECONFIG` outside a cluster. No request is made yet.
    ///
    /// # Errors
    /// There is neither, or it cannot be read.
    pub async fn connect(namespace: &str) -> Result<Self, Failure> {
        let failed = |error: String| {
            Failure::new(FailureReason::HelmFailed, format!("no way to the cluster: {error}"))
        };
        let mut config = Config::infer().await.map_err(|error| failed(error.to_string()))?;
        config.read_timeout = Some(ANSWER);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| failed(error.to_string()))?;
        Ok(Self::new(client, namespace))
    }

    /// Uses a client that is there already.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    /// Reads the release's history from the labels that helm puts on its records; the records themselves are
    /// large.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn history(&self, release: &str) -> Result<Vec<Revision>, Failure> {
        let list = self.records(release).await?;
        list.iter()
            .map(|(name, labels)| {
                let revision = labels.get("version").and_then(|version| version.parse().ok());
                let status = labels.get("status").cloned();
                revision.zip(status).map(|(revision, status)| Revision { revision, status }).ok_or_else(
                    || {
                        Failure::new(
                            FailureReason::HelmFailed,
                            format!("the record {name} has no version or status"),
                        )
                    },
                )
            })
            .collect()
    }

    /// Deletes the release's records without touching its objects.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn forget(&self, release: &str) -> Result<(), Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        for (name, _) in self.records(release).await? {
            let delete = || async { gone(secrets.delete(&name, &DeleteParams::default()).await.map(drop)) };
            retry(delete).await.map_err(|error| failure(&error, "deleting a record of the release"))?;
        }
        Ok(())
    }

    async fn records(&self, release: &str) -> Result<Vec<(String, BTreeMap<String, String>)>, Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let parameters = ListParams::default().labels(&format!("owner=helm,name={release}"));
        let list = retry_first(|| secrets.list_metadata(&parameters)).await;
        let list = list.map_err(|error| failure(&error, "reading the release's history"))?;
        Ok(list.items.into_iter().map(|record| (record.name_any(), record.labels().clone())).collect())
    }

    /// Looks up the UIDs of a manifest's objects. One that is not there has an empty UID: it was, a moment
    /// ago.
    ///
    /// Objects of other namespaces are left out, and so are those that the deployer may not read.
    ///
    /// # Errors
    /// The API server does not answer for long enough, or does not serve a kind any more.
    pub async fn look_up(&self, references: &[Reference]) -> Result<Vec<Item>, Failure> {
        let kinds = self.kinds(references.iter().map(|reference| reference.api_version.as_str())).await?;
        let ours = |reference: &&Reference| {
            reference.namespace.as_ref().is_none_or(|namespace| *namespace == self.namespace)
        };
        let mut items: Vec<Item> = stream::iter(references.iter().filter(ours))
            .map(|reference| self.look_up_one(reference, &kinds))
            .buffered(READS_MAX)
            .try_collect::<Vec<_>>()
            .await?
            .into_iter()
            .flatten()
            .collect();
        items.dedup();
        Ok(items)
    }

    async fn look_up_one(&self, reference: &Reference, kinds: &Kinds) -> Result<Option<Item>, Failure> {
        let Reference { api_version, kind, name, .. } = reference;
        let Some(api) = self.api(kinds, api_version, kind) else {
            let message = format!("{kind} of {api_version} is not served any more");
            return Err(Failure::new(FailureReason::KindNotServed, message));
        };
        match retry(|| api.get_metadata_opt(name)).await {
            Ok(found) => Ok(Some(Item {
                api_version: api_version.clone(),
                kind: kind.clone(),
                name: name.clone(),
                uid: found.and_then(|object| object.uid()).unwrap_or_default(),
            })),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                warn!(
                    message = "an object of the release is left out of the inventory",
                    kind,
                    name,
                    error = status.message
                );
                Ok(None)
            }
            Err(error) => Err(failure(&error, &format!("reading {kind} {name}"))),
        }
    }

    /// Finds which of an inventory's objects are still there and on their way out.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn leaving(&self, items: &[Item]) -> Result<Vec<Item>, Failure> {
        let kinds = self.kinds(items.iter().map(|item| item.api_version.as_str())).await?;
        let looks = stream::iter(items.iter()).map(|item| async {
            let Some(api) = self.api(&kinds, &item.api_version, &item.kind) else {
                return Ok(None);
            };
            let found = retry(|| api.get_metadata_opt(&item.name)).await;
            let found =
                found.map_err(|error| failure(&error, &format!("reading {} {}", item.kind, item.name)))?;
            let leaves = found.is_some_and(|object| {
                object.uid().as_deref() == Some(&item.uid) && object.metadata.deletion_timestamp.is_some()
            });
            Ok(leaves.then(|| item.clone()))
        });
        Ok(looks.buffered(READS_MAX).try_collect::<Vec<_>>().await?.into_iter().flatten().collect())
    }

    /// Deletes an inventory's objects, each by its UID, dependents first.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn delete(&self, items: &[Item]) -> Result<(), Failure> {
        let kinds = self.kinds(items.iter().map(|item| item.api_version.as_str())).await?;
        for item in items.iter().filter(|item| !item.uid.is_empty()) {
            let Some(api) = self.api(&kinds, &item.api_version, &item.kind) else {
                continue;
            };
            let parameters = DeleteParams {
                propagation_policy: Some(PropagationPolicy::Foreground),
                preconditions: Some(Preconditions { uid: Some(item.uid.clone()), resource_version: None }),
                ..DeleteParams::default()
            };
            let delete = || async { gone(api.delete(&item.name, &parameters).await.map(drop)) };
            retry(delete)
                .await
                .map_err(|error| failure(&error, &format!("deleting {} {}", item.kind, item.name)))?;
        }
        Ok(())
    }

    /// Writes the component's inventory.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn write_inventory(&self, payload: &Payload, items: &[Item]) -> Result<(), Failure> {
        let config_map = inventory::config_map(payload, items);
        let name = config_map.name_any();
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&config_map);
        let written = retry(|| async { self.config_maps().patch(&name, &parameters, &patch).await }).await;
        written.map(drop).map_err(|error| failure(&error, "writing the inventory"))
    }

    /// Reads the component's inventory; empty when there is none.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn read_inventory(&self, component: &str) -> Result<Vec<Item>, Failure> {
        let name = inventory::config_map_name(component);
        let found = retry(|| async { self.config_maps().get_opt(&name).await }).await;
        let found = found.map_err(|error| failure(&error, "reading the inventory"))?;
        Ok(found.as_ref().map(inventory::read_config_map).unwrap_or_default())
    }

    /// Deletes the component's inventory, if there is one.
    ///
    /// # Errors
    /// The API server refuses, or does not answer for long enough.
    pub async fn delete_inventory(&self, component: &str) -> Result<(), Failure> {
        let name = inventory::config_map_name(component);
        let delete =
            || async { gone(self.config_maps().delete(&name, &DeleteParams::default()).await.map(drop)) };
        retry(delete).await.map_err(|error| failure(&error, "deleting the inventory"))
    }

    fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Asks for the kinds of each group and version once. One that is not served has none.
    async fn kinds(&self, api_versions: impl Iterator<Item = &str>) -> Result<Kinds, Failure> {
        let mut api_versions: Vec<&str> = api_versions.collect();
        api_versions.sort_unstable();
        api_versions.dedup();
        let mut kinds = Kinds::new();
        for api_version in api_versions {
            let Ok(gv) = api_version.parse::<GroupVersion>() else {
                continue;
            };
            match retry(|| pinned_group(&self.client, &gv)).await {
                Ok(group) => {
                    kinds.extend(group.versioned_resources(&gv.version).into_iter().map(|(resource, can)| {
                        ((api_version.to_owned(), resource.kind.clone()), (resource, can))
                    }))
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(failure(&error, &format!("reading the kinds of {api_version}"))),
            }
        }
        Ok(kinds)
    }

    fn api(&self, kinds: &Kinds, api_version: &str, kind: &str) -> Option<Api<DynamicObject>> {
        let (resource, can) = kinds.get(&(api_version.to_owned(), kind.to_owned()))?;
        Some(match can.scope {
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), &self.namespace, resource),
        })
    }
}

/// Takes "not there" and "another one is there" for a deletion that is done.
fn gone(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}

/// Asks again for what may pass: no answer, 5xx, 429.
async fn retry<T, F: Future<Output = kube::Result<T>>>(call: impl FnMut() -> F) -> kube::Result<T> {
    retry_when(call, |code| matches!(code, 429 | 500..)).await
}

/// Asks again after a 403 too: the authorizer lags behind a new RoleBinding. After the first answer it has
/// caught up.
async fn retry_first<T, F: Future<Output = kube::Result<T>>>(call: impl FnMut() -> F) -> kube::Result<T> {
    retry_when(call, |code| matches!(code, 403 | 429 | 500..)).await
}

async fn retry_when<T, F: Future<Output = kube::Result<T>>>(
    call: impl FnMut() -> F,
    again: impl Fn(u16) -> bool,
) -> kube::Result<T> {
    let backoff = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(100))
        .with_factor(2.0)
        .with_jitter()
        .with_max_times(RETRIES_MAX);
    call.retry(backoff)
        .when(|error| match error {
            kube::Error::Api(status) => again(status.code),
            _ => true,
        })
        .notify(|error, after| warn!(message = "the API server is asked again", %error, ?after))
        .await
}

fn failure(error: &kube::Error, what: &str) -> Failure {
    let (reason, text) = match error {
        kube::Error::Api(status) => {
            let reason = match status.code {
                403 => FailureReason::Forbidden,
                409 => FailureReason::Conflict,
                _ => FailureReason::HelmFailed,
            };
            (reason, status.message.clone())
        }
        other => (FailureReason::HelmFailed, other.to_string()),
    };
    Failure::new(reason, text).during(what)
}

#[cfg(test)]
mod tests;

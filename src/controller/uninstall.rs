//! What the chart asks before it is removed: without the operator, nobody would take away what environments hold.

use crate::client::{CALL_MAX, timed};
use crate::error::CallError;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PartialObjectMeta},
};
use petri_crds::{EphemeralEnvironment, SharedComponent};
use std::time::Duration;

/// How often what is on its way out is looked at; the hook's own deadline ends it.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Names that a refusal tells.
const NAMED_MAX: usize = 5;

/// What is done about environments that live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Uninstall {
    /// Nothing: the uninstall is refused.
    Refuse,
    /// They are deleted and waited for.
    Drain,
}

/// Why the operator must stay.
#[derive(Debug, thiserror::Error)]
pub enum Needed {
    /// There is no usable cluster configuration.
    #[error("no cluster configuration: {0}")]
    Cluster(#[from] kube::Error),
    /// The API server does not say.
    #[error("what lives cannot be read: {0}")]
    Unknown(#[from] CallError),
    /// Something lives that only the operator can take away.
    #[error("{count} {kind} live and need the operator to go: {names}; {advice}")]
    Living {
        /// Their kind, plural.
        kind: &'static str,
        /// How many.
        count: usize,
        /// Some of them.
        names: String,
        /// What can be done.
        advice: &'static str,
    },
}

/// Lets an uninstall pass when nothing lives, or after everything was drained.
///
/// # Errors
/// Something lives, or nobody can tell.
pub async fn check(client: Client, namespace: &str, what: Uninstall) -> Result<(), Needed> {
    let environments: Api<EphemeralEnvironment> = Api::namespaced(client.clone(), namespace);
    if what == Uninstall::Drain {
        for name in names(&environments).await? {
            match timed(CALL_MAX, environments.delete(&name, &DeleteParams::default())).await {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        while !names(&environments).await?.is_empty() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
    none(
        "environments",
        names(&environments).await?,
        "delete them first, or roll back to the last revision and upgrade with uninstall=drain",
    )?;
    // A drain deletes none of these: what they hold may be worth more than the uninstall.
    let shared: Api<SharedComponent> = Api::namespaced(client, namespace);
    none("shared components", names(&shared).await?, "delete them first, with the data that they hold")
}

async fn names<K>(api: &Api<K>) -> Result<Vec<String>, CallError>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = timed(CALL_MAX, api.list_metadata(&ListParams::default())).await?;
    let name = |one: PartialObjectMeta<K>| one.metadata.name;
    Ok(list.items.into_iter().filter_map(name).collect())
}

fn none(kind: &'static str, names: Vec<String>, advice: &'static str) -> Result<(), Needed> {
    if names.is_empty() {
        return Ok(());
    }
    let count = names.len();
    let mut names: Vec<String> = names.into_iter().take(NAMED_MAX).collect();
    if count > NAMED_MAX {
        names.push("…".to_owned());
    }
    Err(Needed::Living { kind, count, names: names.join(", "), advice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{
        body::Body,
        http::{Method, Request, Response},
    };
    use serde_json::json;
    use std::sync::{Arc, Mutex};
    use tower::{BoxError, service_fn};

    /// A server whose environments go one look after they were deleted.
    async fn checked(living: &[&str], what: Uninstall) -> (Result<(), String>, Vec<String>) {
        let living: Vec<String> = living.iter().map(|name| (*name).to_owned()).collect();
        let state = Arc::new(Mutex::new((living, Vec::new())));
        let shared = Arc::clone(&state);
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let mut state = shared.lock().unwrap();
            let path = request.uri().path().to_owned();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            if request.method() == Method::DELETE {
                state.1.push(name.clone());
                state.0.retain(|one| *one != name);
            }
            let all = if path.contains("sharedcomponents") { Vec::new() } else { state.0.clone() };
            let items: Vec<_> = all.iter().map(|name| json!({"metadata": {"name": name}})).collect();
            let body = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": name}, "items": items});
            let body = if request.method() == Method::DELETE {
                json!({"kind": "Status", "apiVersion": "v1", "status": "Success"})
            } else {
                body
            };
            std::future::ready(Ok::<_, BoxError>(Response::new(Body::from(body.to_string()))))
        });
        let result = check(Client::new(service, "petri-system"), "petri-system", what).await;
        let deleted = state.lock().unwrap().1.clone();
        (result.map_err(|error| error.to_string()), deleted)
    }

    #[tokio::test]
    async fn an_uninstall_is_refused_while_environments_live_and_says_which() {
        let (result, deleted) = checked(&["a", "b"], Uninstall::Refuse).await;
        let said = result.unwrap_err();
        assert!(said.contains("2 environments live") && said.contains("a, b"), "{said}");
        assert!(deleted.is_empty());
    }

    #[tokio::test]
    async fn an_uninstall_passes_when_nothing_lives() {
        assert_eq!(checked(&[], Uninstall::Refuse).await, (Ok(()), Vec::new()));
    }

    #[tokio::test]
    async fn a_drain_deletes_and_waits_until_all_is_gone() {
        let (result, deleted) = checked(&["a", "b"], Uninstall::Drain).await;
        assert_eq!((result, deleted), (Ok(()), vec!["a".to_owned(), "b".to_owned()]));
    }
}

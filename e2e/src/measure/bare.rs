//! The least that anybody could do: a watch on the deployers' pods, and one patch when a container has ended.
//!
//! It runs outside the cluster against the same API server, on one thread, and is built as the operator is.

use std::collections::HashSet;
use std::path::Path;

use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use petri_crds::EphemeralEnvironment;
use serde_json::json;

use crate::petri::Error;

/// The object that it patches, in a namespace that the operator does not look at.
pub const OBJECT: &str = "bare-client";
/// Where that is.
pub const NAMESPACE: &str = "default";

/// Returns how a patch is named after the pod it answers: by its field manager, which stands in the audit log.
pub fn manager(pod: &str) -> String {
    format!("bare-{pod}")
}

/// Watches and patches until it is ended. Says `watching` on standard output when the first list is there.
///
/// # Errors
/// The watch or a patch failed: then there is nothing to compare with.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run(kubeconfig: &Path) -> BoxFuture<'_, Result<(), Error>> {
    Box::pin(async move {
        let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
        let read = kube::config::Kubeconfig::read_from(kubeconfig).map_err(|error| wrong(&error))?;
        let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await;
        let client = kube::Client::try_from(config.map_err(|error| wrong(&error))?)?;
        let own: Api<EphemeralEnvironment> = Api::namespaced(client.clone(), NAMESPACE);
        if own.get_opt(OBJECT).await?.is_none() {
            let mut object = EphemeralEnvironment::new(OBJECT, Default::default());
            object.spec.template = "none".to_owned();
            own.create(&PostParams::default(), &object).await?;
        }
        let watched = watcher::Config::default().labels("petri.run/managed=true");
        let mut events = std::pin::pin!(watcher(Api::<Pod>::all(client), watched));
        let (mut told, mut first) = (HashSet::new(), true);
        while let Some(event) = events.try_next().await.map_err(|error| wrong(&error))? {
            match event {
                watcher::Event::InitApply(pod) => drop(told.insert(pod.metadata.name.unwrap_or_default())),
                watcher::Event::InitDone if first => {
                    println!("watching");
                    first = false;
                }
                watcher::Event::Apply(pod) if has_ended(&pod) => {
                    let name = pod.metadata.name.unwrap_or_default();
                    if told.insert(name.clone()) {
                        let params =
                            PatchParams { field_manager: Some(manager(&name)), ..Default::default() };
                        let patch = Patch::Merge(json!({"status": {"url": name}}));
                        own.patch_status(OBJECT, &params, &patch).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    })
}

fn has_ended(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().any(|one| {
        one.name == "deployer" && one.state.as_ref().is_some_and(|state| state.terminated.is_some())
    })
}

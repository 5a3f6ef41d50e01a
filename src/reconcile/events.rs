//! Kubernetes Events. They are said once and may be lost: nothing waits for them and nothing depends on them.
//!
//! Published by plain creates: kube's recorder counts an event onto an earlier one and loses its note.

use crate::client::{CALL_MAX, timed};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use petri_crds::meta::{LABEL_MANAGED_BY, MANAGED_BY};
use petri_machines::{
    kernel::limits::bounded,
    names::{JobName, NamespaceName},
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use tracing::debug;

const CONTROLLER: &str = "petri.run/operator";
/// Names of objects that an event's own name still fits behind.
const NAME_MAX: usize = 200;

/// One thing to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether it is bad news.
    pub(super) warning: bool,
    /// One stable word.
    pub(super) reason: &'static str,
    /// What was done, one stable word.
    pub(super) action: &'static str,
    /// For people.
    pub(super) note: String,
    /// The Job that it is about besides: its namespace and its name.
    pub(super) job: Option<(NamespaceName, JobName)>,
}

impl Said {
    fn related(&self) -> Option<ObjectReference> {
        self.job.as_ref().map(|(namespace, name)| ObjectReference {
            api_version: Some("batch/v1".to_owned()),
            kind: Some("Job".to_owned()),
            namespace: Some(namespace.to_string()),
            name: Some(name.to_string()),
            ..ObjectReference::default()
        })
    }
}

/// Publishes events in the management namespace.
pub(super) struct Events {
    api: Api<Event>,
    instance: String,
    number: Arc<AtomicU32>,
}

impl Events {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        let instance = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
        let instance = instance.unwrap_or_else(|_| "petri-operator".to_owned());
        Self { api: Api::namespaced(client, namespace), instance, number: Arc::default() }
    }

    /// Publishes in order, beside the reconcile.
    pub(super) fn publish(&self, regarding: ObjectReference, all: Vec<Said>, now: Timestamp) {
        if all.is_empty() {
            return;
        }
        let api = self.api.clone();
        let events: Vec<Event> = all.into_iter().map(|said| self.event(&regarding, said, now)).collect();
        tokio::spawn(async move {
            for event in events {
                if let Err(error) = timed(CALL_MAX, api.create(&PostParams::default(), &event)).await {
                    debug!(%error, reason = event.reason, "event not published");
                }
            }
        });
    }

    fn event(&self, regarding: &ObjectReference, said: Said, now: Timestamp) -> Event {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let about = regarding.name.as_deref().unwrap_or_default();
        let about = about.get(..about.len().min(NAME_MAX)).unwrap_or(about);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{about}.{:x}{:04x}", now.as_microsecond(), number % 0x1_0000)),
                namespace: regarding.namespace.clone(),
                labels: Some(BTreeMap::from([(LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned())])),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(if said.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(said.reason.to_owned()),
            action: Some(said.action.to_owned()),
            // Longer notes are refused.
            note: Some(bounded(&said.note)),
            regarding: Some(regarding.clone()),
            related: said.related(),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petri_machines::{
        job::Op,
        names::{ComponentName, EnvironmentName, Uid},
    };

    #[test]
    fn an_event_about_a_failed_attempt_names_its_job() {
        let uid = Uid::new("u").unwrap();
        let name = EnvironmentName::new("pr-7").unwrap();
        let job = JobName::of(&uid, &name, &ComponentName::new("api").unwrap(), Op::Deploy, 3);
        let namespace = NamespaceName::candidates(&uid)[0].clone();
        let (note, job) = ("x".to_owned(), Some((namespace.clone(), job)));
        let related =
            Said { warning: true, reason: "HelmFailed", action: "Retry", note, job }.related().unwrap();
        assert_eq!(
            (related.kind.as_deref(), related.namespace.as_deref()),
            (Some("Job"), Some(namespace.as_str()))
        );
        assert!(related.name.unwrap().starts_with("petri-deploy-pr-7-api-"));
    }
}

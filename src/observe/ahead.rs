//! What is read beside the environment itself, before its record can say that it is needed: a pass that follows an event
//! waits for one answer after the other, and the user waits with it.

use super::{Observer, fold};
use crate::client::{CALL_MAX, timed};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use petri_machines::{
    job::{JobView, is_live},
    names::{NamespaceName, Uid},
};
use std::collections::BTreeMap;

/// Live reads that were made on the word of the caches. What is not among them is read when it is asked for.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The namespace that the cached status names.
    pub(super) namespace: Option<(NamespaceName, Option<Namespace>)>,
    /// Jobs that the cache saw end, by UID; `None` for those that are gone.
    pub(super) jobs: BTreeMap<Uid, Option<JobView>>,
}

impl Observer {
    /// Reads the namespace that the cached environment names, and the Jobs that have ended since the last pass. Of an
    /// environment or a namespace that goes no Job is read ahead: the rights there go, too.
    pub async fn ahead(&self, environment: &str) -> Ahead {
        let Some(cached) = self.caches.environment(environment) else { return Ahead::default() };
        let named = cached.of.as_ref().and_then(|known| known.namespace.as_deref());
        let (Ok(uid), Some(Ok(name))) = (Uid::new(&*cached.uid), named.map(NamespaceName::new)) else {
            return Ahead::default();
        };
        let place = self.caches.namespace(name.as_str());
        let settled = !cached.deleting && place.is_some_and(|place| !place.deleting);
        let jobs = async { if settled { self.ends_ahead(&uid, &name).await } else { BTreeMap::new() } };
        let (namespace, jobs) = tokio::join!(self.namespace_ahead(&name), jobs);
        Ahead { namespace: namespace.map(|found| (name, found)), jobs }
    }

    async fn namespace_ahead(&self, name: &NamespaceName) -> Option<Option<Namespace>> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        timed(CALL_MAX, api.get_opt(name.as_str())).await.ok()
    }

    /// An end is looked at once: the Secret of a Job whose end was seen before is known.
    async fn ends_ahead(&self, uid: &Uid, namespace: &NamespaceName) -> BTreeMap<Uid, Option<JobView>> {
        let pods = self.caches.pods_of(uid.as_str());
        let views =
            self.caches.jobs_of(uid.as_str()).into_iter().filter(|job| job.namespace() == namespace.as_str());
        let views = views.filter_map(|job| fold::view(&job, &pods)).map(|(_, view)| view);
        let news = views
            .filter(|view| !is_live(view) && !view.deleting && self.payloads.get(uid, &view.uid).is_none());
        let looks = news.map(|view| async move {
            let (live, _) = tokio::join!(
                self.live(uid, namespace, &view.name, &view.uid),
                self.payload(uid, namespace, &view),
            );
            Some((view.uid, live.ok()?))
        });
        join_all(looks).await.into_iter().flatten().collect()
    }
}

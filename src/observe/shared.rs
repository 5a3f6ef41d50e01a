//! What is seen of a shared component: its provider, its secret, its workload, and who uses it.

use super::{
    Observer, ignorance, is_deleted,
    slices::{label, texts, uid},
};
use crate::{
    adapter::{
        RenderedComponent,
        shared::{SharedInputs, plan, roster},
        sharing,
    },
    client::{CALL_MAX, timed},
    controller::Guarded,
    error::CallError,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::ListParams};
use petri_crds::{
    EphemeralEnvironment, SharedComponent, SharedComponentProvider,
    meta::{
        ANNOTATION_FORGET, ANNOTATION_RETRY, FINALIZER_SHARED, LABEL_COMPONENT, LABEL_ENVIRONMENT,
        LABEL_ENVIRONMENT_UID, LABEL_MANAGED, LABEL_OP, LABEL_SHARED, OP_OBLIGATION,
    },
};
use petri_machines::{
    component,
    environment::NamespaceRef,
    job::{JobView, Op, is_live},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, EnvironmentName, JobName, Uid},
    shared::{Identity, Instance, Owed, Provider, Record, Roster, World},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A world, and what rendering needs besides.
pub struct SharedObservation {
    /// What the machine looks at.
    pub world: World,
    /// What the deploy Job gets.
    pub rendered: Option<RenderedComponent>,
    /// The provider.
    pub provider: Option<Arc<SharedComponentProvider>>,
    /// The providers that bear, or are to bear, the finalizer, as they were read.
    pub providers: BTreeMap<String, SharedComponentProvider>,
    /// The instance secret.
    pub instance: Option<Secret>,
    /// Its name, where the provider has one.
    pub instance_name: Option<String>,
    /// The obligations, by UID.
    pub obligations: BTreeMap<Uid, String>,
}

impl Observer {
    /// Builds the world of one shared component as it was read, for the record that it holds.
    pub async fn observe_shared(
        &self,
        own: &SharedComponent,
        identity: &Identity,
        record: &Record,
    ) -> SharedObservation {
        let provider = self.provider(&own.spec.provider).await;
        let held = provider.known().cloned().flatten();
        let wanted = held.as_ref().and_then(|provider| provider.spec.instance_secret.as_ref());
        let written = record.memory.instance.as_deref();
        let (name, secret) =
            self.instance(wanted.map(|secret| secret.name.as_str()), identity, written).await;
        let values = secret.as_ref().ok().and_then(Clone::clone).map(|secret| texts(secret.data));
        let complete = values.as_ref().is_some_and(|values| is_complete(held.as_deref(), values));
        let inputs = SharedInputs {
            shared: own,
            provider: held.as_deref(),
            instance: values.as_ref().filter(|_| complete),
            secret: name.as_deref().unwrap_or_default(),
            namespace: &self.shared_namespace,
            defaults: self.defaults,
        };
        let (intent, rendered) = match (&provider, &secret) {
            (Seen::Unknown(why), _) => (Seen::Unknown(*why), None),
            (_, Err(error)) => (Seen::Unknown(ignorance(error)), None),
            (Seen::Known(_), Ok(_)) => match plan(&inputs) {
                Ok((plan, rendered)) => (Seen::Known(Ok(plan)), rendered),
                Err(invalid) => (Seen::Known(Err(invalid)), None),
            },
        };
        let instance = stands(&secret, identity, is_deleted(&own.metadata), complete);
        let roster = own.status.as_ref().map_or(Some(Roster::default()), roster).unwrap_or_default();
        let (obligations, listed) = self.owed(identity).await;
        let providers = self.providers(own, record).await;
        let annotation = |key| own.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let world = World {
            now: self.clock.now(),
            pod_failure_secs: self.defaults.pod_failure_secs,
            identity: identity.clone(),
            deletion: is_deleted(&own.metadata),
            finalizer: own.metadata.finalizers.iter().flatten().any(|one| one == FINALIZER_SHARED),
            retry: annotation(ANNOTATION_RETRY).filter(|token| !token.is_empty()),
            forget: annotation(ANNOTATION_FORGET).and_then(|uid| Uid::new(uid).ok()),
            intent,
            providers: self.seen(own, &providers),
            instance,
            jobs: self.workload_jobs(identity, record).await,
            readiness: self.shared_readiness(identity, record).await,
            living: self.living(&roster, &obligations).await,
            roster,
            obligations,
        };
        let providers = providers.into_iter().filter_map(|(name, found)| Some((name, found?))).collect();
        SharedObservation {
            world,
            rendered,
            provider: held,
            providers,
            instance: secret.ok().flatten(),
            instance_name: name,
            obligations: listed,
        }
    }

    /// Finds the instance secret: by the provider, or, without one, by what was written.
    async fn instance(
        &self,
        wanted: Option<&str>,
        identity: &Identity,
        written: Option<&str>,
    ) -> (Option<String>, Result<Option<Secret>, CallError>) {
        match (wanted, written) {
            (Some(wanted), written) => {
                let (name, secret) = self.instance_of(wanted, identity.name.as_str(), written).await;
                (Some(name), secret)
            }
            (None, Some(written)) => (None, self.secret(written).await),
            (None, None) => (None, Ok(None)),
        }
    }

    async fn secret(&self, name: &str) -> Result<Option<Secret>, CallError> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.shared_namespace.as_str());
        timed(CALL_MAX, api.get_opt(name)).await
    }

    /// Finds the instance secret of a shared component and the name that it has or is to have: the provider's name for
    /// it, or, where another shared component of the provider has that, one of its own. What was written once under
    /// one of the names is looked for under no other.
    pub(super) async fn instance_of(
        &self,
        wanted: &str,
        shared: &str,
        written: Option<&str>,
    ) -> (String, Result<Option<Secret>, CallError>) {
        let own = sharing::instance_name(wanted, shared);
        if written == Some(own.as_str()) {
            let found = self.secret(&own).await;
            return (own, found);
        }
        let is_others = |secret: &Secret| maker(secret).is_some_and(|maker| maker != shared);
        let found = match self.secret(wanted).await {
            Ok(found) => found,
            Err(error) => return (wanted.to_owned(), Err(error)),
        };
        let taken = found.as_ref().is_some_and(is_others);
        if written == Some(wanted) || (found.is_some() && !taken) {
            return (wanted.to_owned(), Ok(found.filter(|_| !taken)));
        }
        match self.secret(&own).await {
            Ok(None) if !taken => (wanted.to_owned(), Ok(None)),
            found => (own, found),
        }
    }

    /// Reads the providers that the record and the spec name, live; one that could not be read is missing.
    async fn providers(
        &self,
        own: &SharedComponent,
        record: &Record,
    ) -> BTreeMap<String, Option<SharedComponentProvider>> {
        let mut names: BTreeSet<String> = record.memory.providers.clone();
        // One that does not decode may name none.
        names.extend(Some(own.spec.provider.clone()).filter(|name| !name.is_empty()));
        let api: Api<Guarded<SharedComponentProvider>> =
            Api::namespaced(self.client.clone(), self.caches.namespace_name());
        let mut all = BTreeMap::new();
        for name in names {
            match timed(CALL_MAX, api.get_opt(&name)).await {
                Ok(None) => drop(all.insert(name, None)),
                Ok(Some(found)) => {
                    if let Ok(provider) = found.0 {
                        all.insert(name, Some(provider));
                    }
                }
                Err(_) => {}
            }
        }
        all
    }

    fn seen(
        &self,
        own: &SharedComponent,
        providers: &BTreeMap<String, Option<SharedComponentProvider>>,
    ) -> BTreeMap<String, Option<Provider>> {
        let one = |(name, found): (&String, &Option<SharedComponentProvider>)| {
            let users = self.caches.shared_components.group(name);
            let others = users
                .iter()
                .any(|other| other.0.as_ref().is_ok_and(|other| other.metadata.uid != own.metadata.uid));
            let provider = found.as_ref().map(|found| Provider {
                uid: uid(&found.metadata),
                version: found.metadata.resource_version.clone().unwrap_or_default(),
                deleting: is_deleted(&found.metadata),
                finalizer: found.metadata.finalizers.iter().flatten().any(|one| one == FINALIZER_SHARED),
                others,
            });
            (name.clone(), provider)
        };
        providers.iter().map(one).collect()
    }

    /// Lists what is owed to a shared component, and the names of the Secrets that say so.
    async fn owed(&self, identity: &Identity) -> (Seen<Vec<Owed>>, BTreeMap<Uid, String>) {
        let own = format!("{LABEL_SHARED}={},{LABEL_OP}={OP_OBLIGATION}", identity.name);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.shared_namespace.as_str());
        let found = match timed(CALL_MAX, api.list(&ListParams::default().labels(&own))).await {
            Ok(found) => found.items,
            Err(error) => return (Seen::Unknown(ignorance(&error)), BTreeMap::new()),
        };
        let owed = |secret: &Secret| {
            let meta = &secret.metadata;
            let made_at = meta.creation_timestamp.as_ref()?;
            let environment = label(meta, LABEL_ENVIRONMENT).unwrap_or_else(|| "unnamed".to_owned());
            Some(Owed {
                secret: uid(meta),
                uid: Uid::new(label(meta, LABEL_ENVIRONMENT_UID)?).ok()?,
                environment: EnvironmentName::new(environment).ok()?,
                component: ComponentName::new(label(meta, LABEL_COMPONENT)?).ok()?,
                since: Timestamp(u64::try_from(made_at.0.as_second()).ok()?),
            })
        };
        let names = found.iter().filter_map(|one| Some((uid(&one.metadata), one.metadata.name.clone()?)));
        (Seen::Known(found.iter().filter_map(owed).collect()), names.collect())
    }

    /// Tells which of the environments that hold a place or owe something are there. One that the cache does not show
    /// is looked for live: only then is it gone.
    async fn living(&self, roster: &Roster, obligations: &Seen<Vec<Owed>>) -> Seen<BTreeSet<Uid>> {
        if !self.caches.environments.is_ready() {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let held = roster.consumers.iter().map(|one| (one.uid.clone(), one.environment.clone()));
        let owed = obligations.known().into_iter().flatten();
        let named: BTreeMap<Uid, EnvironmentName> =
            held.chain(owed.map(|one| (one.uid.clone(), one.environment.clone()))).collect();
        let api: Api<Guarded<EphemeralEnvironment>> =
            Api::namespaced(self.client.clone(), self.caches.namespace_name());
        let mut living = BTreeSet::new();
        for (uid, name) in named {
            let is_same = |found: Option<&str>| found == Some(uid.as_str());
            let cached = self.caches.environment(name.as_str());
            let cached = cached.is_some_and(|found| is_same(Some(&found.uid)));
            let there = cached || {
                match timed(CALL_MAX, api.get_metadata_opt(name.as_str())).await {
                    Ok(found) => found.is_some_and(|found| is_same(found.metadata.uid.as_deref())),
                    Err(error) => return Seen::Unknown(ignorance(&error)),
                }
            };
            if there {
                living.insert(uid);
            }
        }
        Seen::Known(living)
    }

    async fn workload_jobs(&self, identity: &Identity, record: &Record) -> Seen<Vec<JobView>> {
        if !(self.caches.jobs.is_ready() && self.caches.pods.is_ready()) {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let Ok(component) = ComponentName::new(identity.name.as_str()) else {
            return Seen::Known(Vec::new());
        };
        let child = record.memory.workload.as_ref();
        let attempt = child.and_then(component::Record::attempt);
        let mut jobs = Vec::new();
        for mut view in self.shared_jobs(&identity.uid, &component) {
            let of_attempt = attempt.is_some_and(|attempt| attempt.serial == view.serial);
            if of_attempt && !is_live(&view) {
                match self.live(&identity.uid, &self.shared_namespace, &view.name, &view.uid).await {
                    Ok(None) => continue,
                    Ok(Some(found)) => view = found,
                    Err(error) => return Seen::Unknown(ignorance(&error)),
                }
            }
            if !is_live(&view) && !view.deleting {
                match self.payload(&identity.uid, &self.shared_namespace, &view).await {
                    Ok(payload) => view.payload = payload,
                    Err(error) => return Seen::Unknown(ignorance(&error)),
                }
            }
            jobs.push(view);
        }
        // A cache that is behind must not turn a Job that was seen into one that was lost.
        if let (Some(child), Some(attempt)) = (child, attempt)
            && let (Some(uid), Ok(name)) = (&attempt.job, EnvironmentName::new(identity.name.as_str()))
            && jobs.iter().all(|view| view.serial != attempt.serial)
        {
            let leaves = matches!(child.phase, component::Phase::Undeploying { .. });
            let op = if leaves { Op::Undeploy } else { Op::Deploy };
            let job = JobName::of(&identity.uid, &name, &component, op, attempt.serial);
            match self.live(&identity.uid, &self.shared_namespace, &job, uid).await {
                Ok(found) => jobs.extend(found),
                Err(error) => return Seen::Unknown(ignorance(&error)),
            }
        }
        Seen::Known(jobs)
    }

    async fn shared_readiness(
        &self,
        identity: &Identity,
        record: &Record,
    ) -> Seen<petri_machines::component::Readiness> {
        let Ok(component) = ComponentName::new(identity.name.as_str()) else {
            return Seen::Unknown(Ignorance::NotAsked);
        };
        // The inventories are kept by an UID: the shared component stands for its part of the shared namespace.
        let place = NamespaceRef { name: self.shared_namespace.clone(), uid: identity.uid.clone() };
        match record.memory.workload.as_ref() {
            None => Seen::Unknown(Ignorance::NotAsked),
            Some(child) => self.readiness_of(&place, &component, child).await,
        }
    }
}

/// Says what stands of the instance secret. What somebody else made may be used, and stays when its user goes.
fn stands(
    secret: &Result<Option<Secret>, CallError>,
    identity: &Identity,
    leaves: bool,
    complete: bool,
) -> Seen<Instance> {
    let others = |secret: &Secret| maker(secret).as_deref() != Some(identity.name.as_str());
    match secret {
        Err(error) => Seen::Unknown(ignorance(error)),
        Ok(None) => Seen::Known(Instance::Absent),
        Ok(Some(secret)) if leaves && others(secret) => Seen::Known(Instance::Absent),
        Ok(Some(secret)) => Seen::Known(Instance::There { uid: uid(&secret.metadata), complete }),
    }
}

/// The shared component that a Secret was made for; `None` for one that somebody else made.
fn maker(secret: &Secret) -> Option<String> {
    label(&secret.metadata, LABEL_MANAGED)?;
    label(&secret.metadata, LABEL_SHARED)
}

/// Whether every key of the instance secret stands, the fixed ones with their values.
fn is_complete(provider: Option<&SharedComponentProvider>, values: &BTreeMap<String, String>) -> bool {
    let wanted = provider.and_then(|provider| provider.spec.instance_secret.as_ref());
    wanted.is_none_or(|wanted| {
        wanted.keys.iter().all(|(key, wanted)| match (&wanted.value, values.get(key)) {
            (Some(value), Some(found)) => value == found,
            (None, Some(found)) => !found.is_empty(),
            (_, None) => false,
        })
    })
}

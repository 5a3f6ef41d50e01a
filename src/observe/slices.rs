//! What is seen of an environment's slices of shared components: obligations by a live list, places by a live read.

use super::{Observer, ignorance, is_deleted};
use crate::{
    adapter::{
        shared::roster,
        sharing::{self, Keys, SliceInput, SliceInputs},
    },
    client::{CALL_MAX, timed},
    controller::Guarded,
    error::CallError,
};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{Api, api::ListParams};
use petri_crds::{
    EnvironmentTemplate, EphemeralEnvironment, Generate, SharedComponent, SharedComponentProvider,
    meta::{
        ANNOTATION_DIGEST, LABEL_COMPONENT, LABEL_ENVIRONMENT_UID, LABEL_OP, LABEL_SHARED, OP_OBLIGATION,
    },
};
use petri_machines::{
    environment::{Binding, Identity, Record},
    job::{JobView, is_live},
    kernel::{Seen, seen::Ignorance},
    names::{ComponentName, EnvironmentName, JobName, SharedName, Uid},
    shared::Roster,
    slice::{self, Obligation, Phase, Standing, View},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What rendering needs of one slice.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// The shared component as it was read live.
    pub shared: Option<SharedComponent>,
    /// Its provider.
    pub provider: Option<Arc<SharedComponentProvider>>,
    /// The obligation that stands.
    pub obligation: Option<Secret>,
    /// The values of the instance secret, where an obligation is to be rendered.
    pub instance: Option<BTreeMap<String, String>>,
    /// The name of that secret.
    pub secret: String,
    /// A fresh value, where an obligation is to be made.
    pub generated: String,
}

/// All that is seen of an environment's slices.
pub(super) struct Slices {
    pub(super) views: Seen<BTreeMap<ComponentName, View>>,
    pub(super) inputs: SliceInputs,
    pub(super) sharing: BTreeMap<ComponentName, Sharing>,
}

type Obligations = BTreeMap<ComponentName, (SharedName, Secret)>;

/// Whose slices are looked at.
struct Look<'a> {
    own: &'a EphemeralEnvironment,
    identity: &'a Identity,
    record: &'a Record,
    wanted: BTreeMap<ComponentName, SharedName>,
}

impl Look<'_> {
    fn record(&self, name: &ComponentName) -> Option<&slice::Record> {
        self.record.memory.slices.get(name)
    }

    /// Whether the phase of a slice looks at the shared component.
    fn is_open(&self, name: &ComponentName, shared: &SharedName) -> bool {
        let quiet = self.record(name).is_some_and(|record| {
            matches!(record.phase, Phase::Provisioned | Phase::Failed | Phase::Gone { .. })
        });
        !quiet || is_deleted(&self.own.metadata) || self.wanted.get(name) != Some(shared)
    }
}

impl Observer {
    pub(super) async fn slices(
        &self,
        own: &EphemeralEnvironment,
        identity: &Identity,
        record: &Record,
        template: Option<&EnvironmentTemplate>,
    ) -> Slices {
        let look = Look { own, identity, record, wanted: wanted(template) };
        let mut all = Slices {
            views: Seen::Known(BTreeMap::new()),
            inputs: SliceInputs::new(),
            sharing: BTreeMap::new(),
        };
        let leaves = is_deleted(&own.metadata);
        if look.wanted.is_empty() && record.memory.slices.is_empty() && !leaves {
            return all;
        }
        if !(self.caches.jobs.is_ready()
            && self.caches.pods.is_ready()
            && self.caches.shared_components.is_ready())
        {
            all.views = Seen::Unknown(Ignorance::Unsynced);
            return all;
        }
        let obligations = match self.obligations_of(&identity.uid).await {
            Ok(obligations) => obligations,
            // What never used anything shared is not held up by a namespace that it has no part in.
            Err(error) if ignorance(&error) == Ignorance::Forbidden && is_aloof(&look) => Obligations::new(),
            Err(error) => {
                all.views = Seen::Unknown(ignorance(&error));
                return all;
            }
        };
        let mut views = BTreeMap::new();
        for (name, shared) in self.named(&look, &obligations) {
            let held = obligations.get(&name).map(|(_, secret)| secret);
            let (view, sharing) = self.slice(&look, &name, &shared, held).await;
            all.inputs.insert(name.to_string(), input(&view, &sharing));
            views.insert(name.clone(), view);
            all.sharing.insert(name, sharing);
        }
        all.views = Seen::Known(views);
        all
    }

    /// Lists what is owed for an environment: the only truth about it.
    async fn obligations_of(&self, uid: &Uid) -> Result<Obligations, CallError> {
        let own = format!("{LABEL_ENVIRONMENT_UID}={uid},{LABEL_OP}={OP_OBLIGATION}");
        let api: Api<Secret> = Api::namespaced(self.client.clone(), self.shared_namespace.as_str());
        let found = timed(CALL_MAX, api.list(&ListParams::default().labels(&own))).await?;
        let named = |secret: Secret| {
            let component = ComponentName::new(label(&secret.metadata, LABEL_COMPONENT)?).ok()?;
            let shared = SharedName::new(label(&secret.metadata, LABEL_SHARED)?).ok()?;
            Some((component, (shared, secret)))
        };
        Ok(found.items.into_iter().filter_map(named).collect())
    }

    /// Names every slice, each with the shared component that it is or was one of: what is recorded counts before what
    /// is owed, that before a place that is held, and that before what is wanted.
    fn named(&self, look: &Look<'_>, obligations: &Obligations) -> BTreeMap<ComponentName, SharedName> {
        let mut named = look.wanted.clone();
        for job in self.caches.jobs_of(look.identity.uid.as_str()) {
            let (component, shared) = (job.of.component.as_deref(), job.of.shared.as_deref());
            if let (Some(Ok(component)), Some(Ok(shared))) =
                (component.map(ComponentName::new), shared.map(SharedName::new))
            {
                named.insert(component, shared);
            }
        }
        for object in self.caches.shared_components.all() {
            let Ok(object) = &object.0 else { continue };
            let Ok(shared) = SharedName::new(object.metadata.name.clone().unwrap_or_default()) else {
                continue;
            };
            let held = object.status.iter().flat_map(|status| &status.consumer_refs);
            for held in held.filter(|held| held.uid == look.identity.uid.as_str()) {
                if let Ok(component) = ComponentName::new(&held.component) {
                    named.insert(component, shared.clone());
                }
            }
        }
        named.extend(obligations.iter().map(|(name, (shared, _))| (name.clone(), shared.clone())));
        let recorded = look.record.memory.slices.iter();
        named.extend(recorded.map(|(name, record)| (name.clone(), record.shared.clone())));
        named
    }

    async fn slice(
        &self,
        look: &Look<'_>,
        name: &ComponentName,
        shared: &SharedName,
        held: Option<&Secret>,
    ) -> (View, Sharing) {
        let open = look.is_open(name, shared);
        let (standing, object) = if open {
            self.standing_of(look, shared).await
        } else {
            (Seen::Unknown(Ignorance::NotAsked), None)
        };
        let provider = match object.as_ref().or(self.cached_shared(shared).as_ref()) {
            Some(object) => self.provider(&object.spec.provider).await.known().cloned().flatten(),
            None => None,
        };
        let obligation = held.map(|secret| Obligation {
            uid: uid(&secret.metadata),
            shared: shared.clone(),
            payload: annotation(&secret.metadata, ANNOTATION_DIGEST)
                .and_then(|text| serde_json::from_value(text.into()).ok()),
            deprovisions: secret
                .data
                .iter()
                .flatten()
                .any(|(key, _)| *key == sharing::script_key("deprovision")),
        });
        let mut found = Sharing { shared: object, provider, obligation: held.cloned(), ..Sharing::default() };
        self.prepare(&mut found, obligation.as_ref(), open).await;
        let view = View {
            shared: shared.clone(),
            standing,
            obligation: Seen::Known(obligation),
            binding: if open { self.binding(look, name).await } else { Seen::Unknown(Ignorance::NotAsked) },
            jobs: self.slice_jobs(look, name).await,
        };
        (view, found)
    }

    /// Reads and draws what an obligation is rendered from, if one is to be.
    async fn prepare(&self, sharing: &mut Sharing, obligation: Option<&Obligation>, open: bool) {
        let Some(provider) = sharing.provider.clone().filter(|_| open) else { return };
        let payload = sharing::digest(&provider.spec);
        if obligation.is_some_and(|obligation| obligation.payload.as_ref() == Some(&payload)) {
            return;
        }
        sharing.generated = sharing::generated(&Generate::default(), random);
        sharing.instance = match &provider.spec.instance_secret {
            None => Some(BTreeMap::new()),
            Some(wanted) => {
                let Some(object) = &sharing.shared else { return };
                let written = crate::adapter::shared::stored(object).ok();
                let written = written.and_then(|stored| stored.phase.memory.instance);
                let shared = object.metadata.name.as_deref().unwrap_or_default();
                let (name, found) = self.instance_of(&wanted.name, shared, written.as_deref()).await;
                sharing.secret = name;
                found.ok().flatten().map(|secret| texts(secret.data))
            }
        };
    }

    /// The shared component as the cache has it, to find its provider by.
    fn cached_shared(&self, shared: &SharedName) -> Option<SharedComponent> {
        self.caches.shared_component(shared.as_str())?.0.as_ref().ok().cloned()
    }

    async fn standing_of(
        &self,
        look: &Look<'_>,
        shared: &SharedName,
    ) -> (Seen<Standing>, Option<SharedComponent>) {
        let namespace = look.own.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Guarded<SharedComponent>> = Api::namespaced(self.client.clone(), namespace);
        let object = match timed(CALL_MAX, api.get_opt(shared.as_str())).await {
            Err(error) => return (Seen::Unknown(ignorance(&error)), None),
            Ok(None) => return (Seen::Known(Standing::Absent), None),
            Ok(Some(found)) => match found.0 {
                Ok(object) => object,
                Err(_) => return (Seen::Unknown(Ignorance::Failed), None),
            },
        };
        let status = object.status.clone().unwrap_or_default();
        let Some(roster) = roster(&status) else { return (Seen::Unknown(Ignorance::Failed), None) };
        let told = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        let standing = Standing::There {
            uid: uid(&object.metadata),
            version: object.metadata.resource_version.clone().unwrap_or_default(),
            deleting: is_deleted(&object.metadata),
            ready: status.ready == Some(true),
            why: told.map_or_else(|| "nothing is known of it yet".to_owned(), |told| told.message.clone()),
            capacity: object.spec.capacity(),
            queue: self.queue(look, shared, &roster),
            roster,
        };
        (Seen::Known(standing), Some(object))
    }

    /// Names the environments that wait for a place at a shared component and were there earlier.
    fn queue(&self, look: &Look<'_>, shared: &SharedName, roster: &Roster) -> Vec<EnvironmentName> {
        let own = (look.own.metadata.creation_timestamp.clone(), look.identity.uid.as_str());
        let mut queue = self.caches.environments.all();
        queue.retain(|one| {
            (one.created.clone(), &*one.uid) < own
                && !one.deleting
                && one.of.as_ref().is_some_and(|known| {
                    known.waits_for_place
                        && self.next_place(&one.uid, &known.template, (shared, roster)).as_ref()
                            == Some(shared)
                })
        });
        queue.sort_by_key(|one| (one.created.clone(), one.uid.clone()));
        queue.iter().filter_map(|one| EnvironmentName::new(one.name()).ok()).collect()
    }

    /// Finds where an environment is to take its next place: only there it stands in a queue. Places are taken in the
    /// order of the shared components' names.
    fn next_place(
        &self,
        environment: &str,
        template: &str,
        seen: (&SharedName, &Roster),
    ) -> Option<SharedName> {
        let template = self.caches.template(template);
        let wanted = wanted(template.as_ref().and_then(|template| template.0.as_ref().ok()));
        let mut places: Vec<(SharedName, ComponentName)> =
            wanted.into_iter().map(|(component, shared)| (shared, component)).collect();
        places.sort();
        let own = Uid::new(environment).ok()?;
        let holds = |(shared, component): &(SharedName, ComponentName)| {
            if shared == seen.0 {
                return seen.1.holds(&own, component);
            }
            let status = self.cached_shared(shared).and_then(|shared| shared.status).unwrap_or_default();
            roster(&status).is_some_and(|roster| roster.holds(&own, component))
        };
        places.into_iter().find(|place| !holds(place)).map(|(shared, _)| shared)
    }

    async fn binding(&self, look: &Look<'_>, name: &ComponentName) -> Seen<Option<Uid>> {
        let Binding::Bound { namespace } = &look.record.memory.binding else { return Seen::Known(None) };
        let leaves = is_deleted(&look.own.metadata);
        let place = self.caches.namespace(namespace.name.as_str());
        if leaves && place.is_none_or(|place| place.deleting) {
            // It goes with the namespace, and so does the right to look at it.
            return Seen::Known(None);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace.name.as_str());
        let binding = sharing::binding_name(&look.identity.name, name);
        match timed(CALL_MAX, api.get_metadata_opt(&binding)).await {
            Ok(found) => Seen::Known(found.map(|found| uid(&found.metadata))),
            // Without the namespace there are no rights in it.
            Err(_) if leaves => Seen::Known(None),
            Err(error) => Seen::Unknown(ignorance(&error)),
        }
    }

    /// The provision and deprovision Jobs of a slice; what would be acted upon is confirmed by a live read.
    async fn slice_jobs(&self, look: &Look<'_>, name: &ComponentName) -> Seen<Vec<JobView>> {
        let attempt = look.record(name).and_then(slice::Record::attempt);
        let mut jobs = Vec::new();
        for view in self.shared_jobs(&look.identity.uid, name) {
            let of_attempt = attempt.is_some_and(|attempt| attempt.serial == view.serial);
            if !of_attempt || is_live(&view) {
                jobs.push(view);
                continue;
            }
            match self.live(&look.identity.uid, &self.shared_namespace, &view.name, &view.uid).await {
                Ok(found) => jobs.extend(found),
                Err(error) => return Seen::Unknown(ignorance(&error)),
            }
        }
        // A cache that is behind must not turn a Job that was seen into one that was lost.
        if let Some(attempt) = attempt
            && let Some(uid) = &attempt.job
            && jobs.iter().all(|view| view.serial != attempt.serial)
        {
            let op = match look.record(name).map(|record| &record.phase) {
                Some(Phase::Deprovisioning { .. }) => petri_machines::job::Op::Deprovision,
                _ => petri_machines::job::Op::Provision,
            };
            let job = JobName::of(&look.identity.uid, &look.identity.name, name, op, attempt.serial);
            match self.live(&look.identity.uid, &self.shared_namespace, &job, uid).await {
                Ok(found) => jobs.extend(found),
                Err(error) => return Seen::Unknown(ignorance(&error)),
            }
        }
        Seen::Known(jobs)
    }

    /// The Jobs of one owner in the shared namespace, as the cache has them.
    pub(super) fn shared_jobs(&self, owner: &Uid, component: &ComponentName) -> Vec<JobView> {
        let pods = self.caches.pods_of(owner.as_str());
        let all = self.caches.jobs_of(owner.as_str());
        let here = all.iter().filter(|job| job.namespace() == self.shared_namespace.as_str());
        let own = here.filter_map(|job| super::fold::view(job, &pods)).filter(|(of, _)| of == component);
        own.map(|(_, view)| view).collect()
    }

    /// A provider from the cache; one that is not there is looked for live, since both may just have been applied.
    pub(super) async fn provider(&self, name: &str) -> Seen<Option<Arc<SharedComponentProvider>>> {
        if let Some(found) = self.caches.provider(name) {
            return Seen::Known(found.0.as_ref().ok().cloned().map(Arc::new));
        }
        let api: Api<Guarded<SharedComponentProvider>> =
            Api::namespaced(self.client.clone(), self.caches.namespace_name());
        match timed(CALL_MAX, api.get_opt(name)).await {
            Ok(found) => Seen::Known(found.and_then(|found| found.0.ok()).map(Arc::new)),
            Err(error) => Seen::Unknown(ignorance(&error)),
        }
    }
}

/// Whether an environment has a record of its own that names nothing shared, and wants nothing shared.
fn is_aloof(look: &Look<'_>) -> bool {
    let is_stored = look.own.status.as_ref().is_some_and(|status| status.machine.is_some());
    is_stored && look.record.memory.slices.is_empty() && look.wanted.is_empty()
}

fn wanted(template: Option<&EnvironmentTemplate>) -> BTreeMap<ComponentName, SharedName> {
    let components = template.into_iter().flat_map(|template| &template.spec.components);
    let shared = components.filter_map(|component| {
        let name = ComponentName::new(&component.name).ok()?;
        Some((name, SharedName::new(component.shared()?).ok()?))
    });
    shared.collect()
}

/// What the plan gets to know: by the provider, else by what the obligation says of it.
fn input(view: &View, sharing: &Sharing) -> SliceInput {
    let provider = sharing.provider.as_ref().map(|provider| &provider.spec);
    let usable = provider.filter(|spec| sharing::check(spec).is_ok());
    let obligation = view.obligation.known().cloned().flatten();
    let data = sharing.obligation.as_ref().and_then(|secret| secret.data.as_ref());
    let bound = data.and_then(|data| data.get(sharing::BINDING));
    let bound = bound.and_then(|text| serde_json::from_slice(&text.0).ok());
    let keys = match (bound, usable) {
        (Some(values), _) => Keys::Bound(values),
        (None, Some(spec)) => Keys::declared(spec),
        (None, None) => Keys::Unknown,
    };
    let provisioned = || data.is_some_and(|data| data.contains_key(&sharing::script_key("provision")));
    SliceInput {
        payload: usable.map(sharing::digest).or(obligation.and_then(|obligation| obligation.payload)),
        provisions: usable.map_or_else(provisioned, |spec| spec.provision.is_some()),
        keys,
    }
}

/// Four bytes of the operating system's randomness.
///
/// # Panics
/// The operating system has none, which no supported one does after it has started.
pub(crate) fn random() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the operating system gives randomness");
    u32::from_le_bytes(bytes)
}

/// The values of a Secret that are texts.
pub(super) fn texts(data: Option<BTreeMap<String, ByteString>>) -> BTreeMap<String, String> {
    let text = |(key, value): (String, ByteString)| Some((key, String::from_utf8(value.0).ok()?));
    data.into_iter().flatten().filter_map(text).collect()
}

pub(super) fn label(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.labels.as_ref()?.get(key).cloned()
}

fn annotation(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(key).cloned()
}

pub(super) fn uid(meta: &ObjectMeta) -> Uid {
    // No API server shows an object without one.
    Uid::new(meta.uid.clone().unwrap_or_default()).unwrap_or_else(|_| unreachable!("an object has a UID"))
}

/// The names of the shared components that a template reads, for who must be woken.
pub(crate) fn shared_by(template: &EnvironmentTemplate) -> BTreeSet<String> {
    wanted(Some(template)).into_values().map(String::from).collect()
}

//! Caches and live reads → everything an environment may look at. Reads only, but for the probes it keeps running.
//!
//! Caches give breadth; a live read decides wherever a wrong answer would destroy: what a namespace is, and whether a
//! Job has really ended.

mod ahead;
pub(crate) mod fold;
mod furniture;
mod inventory;
mod jobs;
mod ledger;
mod namespaces;
mod probe;
mod readiness;
mod shared;
mod slices;

pub use ahead::Ahead;
pub use inventory::Inventories;
pub use jobs::Payloads;
pub use ledger::Ledger;
pub use probe::Prober;
pub use shared::SharedObservation;
pub use slices::Sharing;
pub(crate) use slices::{random, shared_by};

use crate::{
    adapter::{
        Defaults, Inputs, Intent, RenderedComponent, check, furniture::Furnishing, intent,
        sharing::SliceInputs,
    },
    client::{CALL_MAX, timed},
    clock::ServerClock,
    controller::{Caches, Guarded, Key},
    error::CallError,
    render::Backend,
};
use futures::future::join;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use petri_crds::{
    EnvironmentTemplate, EphemeralEnvironment,
    meta::{ANNOTATION_HOLD, ANNOTATION_RETRY, FINALIZER_ENVIRONMENT, TRUE},
};
use petri_machines::{
    environment::{ComponentView, FurnitureId, Identity, Invalid, Occupancy, Plan, Reason, Record, World},
    job::JobView,
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, EnvironmentName, NameError, NamespaceName, Uid},
};
use readiness::Asked;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Seconds before Secrets that kept a plan from being made are read again.
const SECRET_SECS: u64 = 15;

/// Looks at the cluster for all environments.
pub struct Observer {
    /// For live reads.
    pub client: Client,
    /// What is watched.
    pub caches: Arc<Caches>,
    /// What was seen given.
    pub ledger: Arc<Ledger>,
    /// Inventories that were read.
    pub inventories: Inventories,
    /// Payload Secrets that were found.
    pub payloads: Payloads,
    /// HTTP probes.
    pub prober: Prober,
    /// What holds where a template says nothing.
    pub defaults: Defaults,
    /// Where shared workloads, obligations and provision Jobs are.
    pub shared_namespace: NamespaceName,
    /// The time.
    pub clock: ServerClock,
}

/// A world, and what rendering needs besides.
pub struct Observation {
    /// What the machine looks at.
    pub world: World,
    /// What the Jobs of the plan's components get.
    pub payloads: BTreeMap<ComponentName, RenderedComponent>,
    /// What the namespace carries besides, as the plan has it.
    pub furniture: BTreeMap<FurnitureId, Furnishing>,
    /// The service behind the route, if it was looked for and found.
    pub backend: Option<Backend>,
    /// What rendering needs of the slices of shared components.
    pub sharing: BTreeMap<ComponentName, Sharing>,
    /// Where the environment is or will be.
    pub place: NamespaceName,
    /// The labels of consumers that the namespace bears.
    pub consumes: Vec<String>,
    /// The template, if it was found.
    pub template: Option<Arc<EnvironmentTemplate>>,
    /// When to look again for something that no watch reports on, only to tell it.
    pub recheck: Option<Timestamp>,
}

/// The earliest moment to look again.
#[derive(Clone, Copy, Debug, Default)]
struct Recheck(Option<Timestamp>);

impl Recheck {
    fn at(&mut self, at: Timestamp) {
        self.0 = Some(self.0.map_or(at, |earlier| earlier.min(at)));
    }
}

/// Names an environment.
///
/// # Errors
/// The object has no UID or no name, which no API server does.
pub fn identity(own: &EphemeralEnvironment) -> Result<Identity, NameError> {
    let meta = &own.metadata;
    Ok(Identity {
        uid: Uid::new(meta.uid.clone().unwrap_or_default())?,
        name: EnvironmentName::new(meta.name.clone().unwrap_or_default())?,
        generation: meta.generation.unwrap_or_default(),
    })
}

impl Observer {
    /// Builds the world of one environment as it was read, for the record that it holds.
    pub async fn observe(
        &self,
        own: &EphemeralEnvironment,
        identity: &Identity,
        record: &Record,
        ahead: &Ahead,
    ) -> Observation {
        let (namespaces, (found, slices)) =
            join(self.namespaces(identity, record, is_deleted(&own.metadata), ahead), async {
                let found = self.template(own).await;
                let shown = found.known().and_then(|found| found.as_ref().ok()).and_then(Option::as_deref);
                let slices = self.slices(own, identity, record, shown).await;
                (found, slices)
            })
            .await;
        let place = place(record, &namespaces, &identity.uid);
        let mut recheck = Recheck::default();
        let (template, intent) = self.intent(own, found, &slices.inputs, &place, &mut recheck).await;
        let expiry = expiry(own, &intent);
        let (plan, payloads, made) = match intent {
            Seen::Unknown(why) => (Seen::Unknown(why), BTreeMap::new(), BTreeMap::new()),
            Seen::Known(intent) => (Seen::Known(intent.plan), intent.payloads, intent.furniture),
        };
        let jobs = self.jobs(identity, record, &namespaces, ahead, &mut recheck).await;
        let components = self.components(identity, record, jobs, &plan, &payloads).await;
        let wanted = plan.known().and_then(|plan| plan.as_ref().ok());
        let furniture = self.furniture(record, wanted, is_deleted(&own.metadata)).await;
        let backend = self.backend(record, &made, &furniture).await;
        let annotation = |key| own.metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let world = World {
            now: self.clock.now(),
            pod_failure_secs: self.defaults.pod_failure_secs,
            identity: identity.clone(),
            deletion: is_deleted(&own.metadata),
            finalizer: own.metadata.finalizers.iter().flatten().any(|one| one == FINALIZER_ENVIRONMENT),
            held: annotation(ANNOTATION_HOLD).as_deref() == Some(TRUE),
            retry: annotation(ANNOTATION_RETRY).filter(|token| !token.is_empty()),
            expires_at: expiry.0,
            expiring_at: expiry.1,
            intent: plan,
            namespaces,
            components,
            slices: slices.views,
            furniture,
        };
        let sharing = slices.sharing;
        Observation {
            world,
            payloads,
            furniture: made,
            backend,
            sharing,
            consumes: self.consumes(&place),
            place,
            template,
            recheck: recheck.0,
        }
    }

    async fn intent(
        &self,
        own: &EphemeralEnvironment,
        template: Seen<Result<Option<Arc<EnvironmentTemplate>>, Invalid>>,
        slices: &SliceInputs,
        place: &NamespaceName,
        recheck: &mut Recheck,
    ) -> (Option<Arc<EnvironmentTemplate>>, Seen<Intent>) {
        let defaults = self.defaults;
        let nothing =
            Inputs { environment: own, template: None, namespace: place, secrets: None, slices, defaults };
        let template = match template {
            Seen::Unknown(why) => return (None, Seen::Unknown(why)),
            Seen::Known(Err(invalid)) => {
                return (None, Seen::Known(Intent { plan: Err(invalid), ..intent(&nothing) }));
            }
            Seen::Known(Ok(template)) => template,
        };
        // What goes needs no Secret.
        let copies = template.as_ref().filter(|_| !is_deleted(&own.metadata));
        let secrets = match copies {
            None => None,
            Some(template) => {
                match self.secrets(own.metadata.namespace.as_deref().unwrap_or_default(), template).await {
                    Seen::Unknown(why) => return (Some(Arc::clone(template)), Seen::Unknown(why)),
                    Seen::Known(secrets) => Some(secrets),
                }
            }
        };
        let inputs = Inputs { template: template.as_deref(), secrets: secrets.as_ref(), ..nothing };
        let intent = intent(&inputs);
        // Secrets are not watched: one that is missing is looked for again.
        if intent.plan.is_err() && template.as_ref().is_some_and(|found| !found.spec.secrets.is_empty()) {
            recheck.at(self.clock.now().after(SECRET_SECS));
        }
        (template, Seen::Known(intent))
    }

    /// Tells which labels of consumers a namespace bears.
    fn consumes(&self, place: &NamespaceName) -> Vec<String> {
        let held = self.caches.namespace(place.as_str());
        held.iter().flat_map(|held| &held.of.consumes).map(ToString::to_string).collect()
    }

    /// Ends what is kept for an environment that is gone.
    pub fn forget(&self, key: &Key) {
        self.prober.forget(key);
    }

    /// The template from the cache; one that is not there is looked for live, since both may just have been applied.
    async fn template(
        &self,
        own: &EphemeralEnvironment,
    ) -> Seen<Result<Option<Arc<EnvironmentTemplate>>, Invalid>> {
        if !self.caches.templates.is_ready() {
            return Seen::Unknown(Ignorance::Unsynced);
        }
        let name = own.spec.template.as_str();
        if let Err(message) = check::template_name(name) {
            return Seen::Known(Err(Invalid { reason: Reason::InvalidConfiguration, message }));
        }
        let found = match self.caches.template(name) {
            Some(found) => Some(found.0.clone().map_err(|error| error.to_string())),
            None => {
                let namespace = own.metadata.namespace.as_deref().unwrap_or_default();
                let api: Api<Guarded<EnvironmentTemplate>> = Api::namespaced(self.client.clone(), namespace);
                match timed(CALL_MAX, api.get_opt(name)).await {
                    Ok(found) => found.map(|found| found.0.map_err(|error| error.to_string())),
                    Err(error) => return Seen::Unknown(ignorance(&error)),
                }
            }
        };
        Seen::Known(match found {
            None => Ok(None),
            Some(Ok(template)) => Ok(Some(Arc::new(template))),
            Some(Err(error)) => Err(Invalid {
                reason: Reason::InvalidConfiguration,
                message: format!("EnvironmentTemplate {name:?} does not decode: {error}"),
            }),
        })
    }

    async fn components(
        &self,
        identity: &Identity,
        record: &Record,
        jobs: Seen<BTreeMap<ComponentName, Seen<Vec<JobView>>>>,
        plan: &Seen<Result<Plan, Invalid>>,
        payloads: &BTreeMap<ComponentName, RenderedComponent>,
    ) -> BTreeMap<ComponentName, ComponentView> {
        let mut names: BTreeSet<ComponentName> = record.memory.components.keys().cloned().collect();
        if let Seen::Known(Ok(plan)) = plan {
            names.extend(plan.components.iter().map(|component| component.name.clone()));
        }
        names.extend(jobs.known().into_iter().flat_map(BTreeMap::keys).cloned());
        let mut views = BTreeMap::new();
        let mut probed = BTreeSet::new();
        for name in names {
            let jobs = match &jobs {
                Seen::Unknown(why) => Seen::Unknown(*why),
                Seen::Known(jobs) => jobs.get(&name).cloned().unwrap_or(Seen::Known(Vec::new())),
            };
            let asked = Asked { identity, record, name: &name, rendered: payloads.get(&name) };
            let readiness = self.readiness(&asked, &mut probed).await;
            views.insert(name, ComponentView { jobs, readiness });
        }
        self.prober.retain(&Key::environment(identity.name.as_str()), &probed);
        views
    }
}

fn is_deleted(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some()
}

/// While the inputs cannot be read, what was last shown holds on; a template that is gone takes its time to live along.
fn expiry(own: &EphemeralEnvironment, intent: &Seen<Intent>) -> (Option<Timestamp>, Option<Timestamp>) {
    let shown = || {
        let at = own.status.as_ref().and_then(|status| status.expires_at.as_ref());
        at.and_then(|at| u64::try_from(at.0.as_second()).ok()).map(Timestamp)
    };
    match intent {
        Seen::Known(intent) => (intent.expires_at, intent.expiring_at),
        Seen::Unknown(_) => (shown(), None),
    }
}

/// Where the environment is or will be, for templates that name their namespace.
fn place(record: &Record, namespaces: &petri_machines::environment::Namespaces, uid: &Uid) -> NamespaceName {
    let assigned = namespaces.assigned.known().and_then(|assigned| assigned.first());
    let decided = record.memory.binding.name().or(assigned).cloned();
    let candidates = NamespaceName::candidates(uid);
    let foreign = |name: &&NamespaceName| namespaces.occupancy.get(*name) == Some(&Occupancy::Foreign);
    // There are twelve candidates; the fallback is for the compiler.
    decided
        .or_else(|| candidates.iter().find(|name| !foreign(name)).or(candidates.first()).cloned())
        .unwrap_or_else(|| unreachable!("an environment has twelve candidate names"))
}

/// Says why a read gave nothing.
fn ignorance(error: &CallError) -> Ignorance {
    match error.status() {
        Some(status) if status.code == 403 => Ignorance::Forbidden,
        Some(_) | None => Ignorance::Failed,
    }
}

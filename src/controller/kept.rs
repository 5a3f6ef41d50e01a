//! What is kept of environments, namespaces, Jobs and their pods: what is read there. Most of what the controllers and
//! the kubelet write of a Job and its pod on the way is not, and wakes nobody. Live reads of Jobs and pods go the same way.
use super::{
    Guarded,
    cache::{Cached, Place},
};
use crate::observe::fold::PodTold;
use k8s_openapi::{
    api::{batch, core},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use petri_crds::{
    EphemeralEnvironment, Phase,
    meta::{
        ANNOTATION_SERIAL, LABEL_COMPONENT, LABEL_ENVIRONMENT_UID, LABEL_OP, LABEL_SHARED,
        LABEL_SHARED_PREFIX,
    },
};
use petri_machines::{
    environment::{ConditionType, Reason},
    job::Op,
};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// The parts of namespaces, Jobs and pods that are parsed; all else is skipped. An environment is parsed as a whole: one
/// that no pass can read must not pass for one that waits.
pub mod parsed {
    use super::{Deserialize, ObjectMeta, Resource, batch, core, metadata};

    /// A Namespace.
    #[derive(Clone, Debug, Deserialize, Resource)]
    #[resource(inherit = core::v1::Namespace)]
    pub struct Namespace {
        #[serde(deserialize_with = "metadata")]
        pub(super) metadata: ObjectMeta,
    }

    /// A Job.
    #[derive(Clone, Debug, Deserialize, Resource)]
    #[resource(inherit = batch::v1::Job)]
    pub struct Job {
        #[serde(deserialize_with = "metadata")]
        pub(super) metadata: ObjectMeta,
        pub(super) status: Option<JobStatus>,
    }

    /// Of its status.
    #[derive(Clone, Debug, Default, Deserialize)]
    #[serde(default)]
    pub(super) struct JobStatus {
        pub(super) conditions: Vec<batch::v1::JobCondition>,
    }

    /// A Pod of a Job.
    #[derive(Clone, Debug, Deserialize, Resource)]
    #[resource(inherit = core::v1::Pod)]
    pub struct Pod {
        #[serde(deserialize_with = "metadata")]
        pub(super) metadata: ObjectMeta,
        pub(super) status: Option<core::v1::PodStatus>,
    }
}

/// Parses what is read of metadata, and above all not the managed fields.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let read = Read::deserialize(from)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        labels: read.labels,
        annotations: read.annotations,
        owner_references: read.owner_references,
        ..ObjectMeta::default()
    })
}

/// An object as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    place: Place,
    version: Box<str>,
    owner: Option<Box<str>>,
    /// Its UID.
    pub uid: Box<str>,
    /// When it was created.
    pub created: Option<Time>,
    /// It is being deleted.
    pub deleting: bool,
    /// What is kept of its kind.
    pub of: T,
}

impl<T> Kept<T> {
    fn new(meta: &ObjectMeta, of: T) -> Self {
        Self {
            place: Place::of(meta),
            version: text(meta.resource_version.as_ref()),
            owner: label(meta, LABEL_ENVIRONMENT_UID),
            uid: text(meta.uid.as_ref()),
            created: meta.creation_timestamp.clone(),
            deleting: meta.deletion_timestamp.is_some(),
            of,
        }
    }

    /// Returns its namespace; empty when it is cluster-scoped.
    pub fn namespace(&self) -> &str {
        self.place.namespace()
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.place.name()
    }

    /// Returns the UID of the environment or the shared component that it bears as a label.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

impl<T: PartialEq> Kept<T> {
    /// Tells whether two versions are the same in all that is kept.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { place, version: _, owner, uid, created, deleting, of } = self;
        (place, owner, uid, created, deleting, of)
            == (&other.place, &other.owner, &other.uid, &other.created, &other.deleting, &other.of)
    }
}

impl<T: Send + Sync + 'static> Cached for Kept<T> {
    fn place(&self) -> Place {
        self.place.clone()
    }

    fn version(&self) -> Option<&str> {
        Some(&self.version)
    }
}

/// What is kept of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// `spec.template`.
    pub template: Box<str>,
    /// `status.phase`; `None` as long as it says none.
    pub phase: Option<Phase>,
    /// `status.observedGeneration`.
    pub observed: Option<i64>,
    /// `status.targetNamespace`.
    pub namespace: Option<Box<str>>,
    /// It waits for a place at a shared component.
    pub waits_for_place: bool,
}

/// One that does not decode is kept all the same.
impl From<Guarded<EphemeralEnvironment>> for Kept<Option<Environment>> {
    fn from(read: Guarded<EphemeralEnvironment>) -> Self {
        let kept = Self::new(read.meta(), None);
        Self { of: read.0.ok().map(Environment::from), ..kept }
    }
}

impl From<EphemeralEnvironment> for Environment {
    fn from(read: EphemeralEnvironment) -> Self {
        let status = read.status.unwrap_or_default();
        let waits = |one: &Condition| {
            one.type_ == ConditionType::SharedComponentsReady.as_str()
                && one.reason == Reason::SharedComponentAtCapacity.as_str()
        };
        Self {
            generation: read.metadata.generation,
            template: read.spec.template.into(),
            phase: status.phase,
            observed: status.observed_generation,
            namespace: status.target_namespace.map(Into::into),
            waits_for_place: status.conditions.iter().any(waits),
        }
    }
}

/// What is kept of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The labels that say what shared components it uses.
    pub consumes: Box<[Box<str>]>,
}

impl From<parsed::Namespace> for Kept<Namespace> {
    fn from(parsed::Namespace { metadata }: parsed::Namespace) -> Self {
        let labels = metadata.labels.iter().flat_map(BTreeMap::keys).map(String::as_str);
        let consumes = labels.filter(|label| label.starts_with(LABEL_SHARED_PREFIX)).map(Into::into);
        Self::new(&metadata, Namespace { consumes: consumes.collect() })
    }
}

/// What is kept of a Job: for whom it is, and how far its controller says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The component that it is for.
    pub component: Option<Box<str>>,
    /// The shared component that it is for a slice of.
    pub shared: Option<Box<str>>,
    /// What it does.
    pub op: Option<Op>,
    /// The attempt that it is.
    pub serial: Option<u64>,
    /// The conditions that hold.
    pub holds: Box<[Holds]>,
}

/// A condition that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holds {
    /// Its type.
    pub kind: Box<str>,
    /// Its reason.
    pub reason: Box<str>,
    /// Its message.
    pub message: Box<str>,
}

impl From<parsed::Job> for Kept<Job> {
    fn from(parsed::Job { metadata, status }: parsed::Job) -> Self {
        let op = label(&metadata, LABEL_OP);
        let conditions = status.into_iter().flat_map(|status| status.conditions);
        let holds = conditions.filter(|one| one.status == "True").map(|one| Holds {
            kind: one.type_.into(),
            reason: text(one.reason.as_ref()),
            message: text(one.message.as_ref()),
        });
        let job = Job {
            component: label(&metadata, LABEL_COMPONENT),
            shared: label(&metadata, LABEL_SHARED),
            op: op.and_then(|op| Op::ALL.into_iter().find(|known| known.as_str() == &*op)),
            serial: metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_SERIAL)?.parse().ok()),
            holds: holds.collect(),
        };
        Self::new(&metadata, job)
    }
}

/// What is kept of a pod of a Job: whose it is, and what it tells of the Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The Job that made it.
    pub job: Option<Controller>,
    /// What it tells.
    pub told: PodTold,
}

/// Who made an object and will see to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
}

impl From<parsed::Pod> for Kept<Pod> {
    fn from(parsed::Pod { metadata, status }: parsed::Pod) -> Self {
        let mut owners = metadata.owner_references.iter().flatten();
        let job = owners
            .find(|owner| owner.controller == Some(true))
            .map(|owner| Controller { name: owner.name.as_str().into(), uid: owner.uid.as_str().into() });
        Self::new(&metadata, Pod { job, told: status.as_ref().map(PodTold::from).unwrap_or_default() })
    }
}

fn text(text: Option<&String>) -> Box<str> {
    text.map(String::as_str).unwrap_or_default().into()
}

fn label(meta: &ObjectMeta, key: &str) -> Option<Box<str>> {
    meta.labels.as_ref()?.get(key).map(|value| value.as_str().into())
}

#[cfg(test)]
mod tests;

//! What the simulated API server holds. All of it is data: a state can be cloned, compared and returned to.

use petri_machines::{
    environment::{Access, FurnitureId, Invalid, Plan, Record, Status},
    job::{Complaint, JobFailure, JobState, JobView, Op},
    kernel::Seen,
    names::{ComponentName, Digest, EnvironmentName, JobName, NamespaceName, Uid},
    reason::FailureReason,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
};

/// What a user may ask for; the specification at an index is what the environment's spec says.
pub type Specs = Vec<Result<Plan, Invalid>>;

/// The environment's own object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// Rises with every write to the object.
    pub resource_version: u64,
    /// Rises with every change of the spec, and when it begins to be deleted.
    pub generation: i64,
    /// Which specification is asked for.
    pub spec: usize,
    /// Petri's finalizer.
    pub finalizer: bool,
    /// Whether it is being deleted.
    pub deletion: bool,
    /// The annotation `petri.run/hold`.
    pub held: bool,
    /// The annotation `petri.run/retry`.
    pub retry: Option<String>,
    /// When its time to live ends.
    pub expires_at: Option<u64>,
    /// The stored record.
    pub record: Option<Record>,
    /// The rest of the status.
    pub status: Option<Status>,
}

impl Own {
    /// Returns a new object.
    pub fn new(expires_at: Option<u64>) -> Self {
        Self {
            resource_version: 1,
            generation: 1,
            spec: 0,
            finalizer: false,
            deletion: false,
            held: false,
            retry: None,
            expires_at,
            record: None,
            status: None,
        }
    }

    /// Marks it as being deleted, as the API server does: its generation rises with its version. Returns whether it
    /// was not marked before.
    pub fn doom(&mut self) -> bool {
        let changed = !std::mem::replace(&mut self.deletion, true);
        self.generation += i64::from(changed);
        self.resource_version += u64::from(changed);
        changed
    }
}

/// A namespace and all that is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Space {
    /// Its UID.
    pub uid: Uid,
    /// Both labels, with this environment's UID; `false` is somebody else's namespace.
    pub ours: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The objects that give rights.
    pub access: Access3,
    /// The payload Secrets.
    pub secrets: BTreeMap<JobName, Secret>,
    /// The Jobs with their pods.
    pub jobs: BTreeMap<JobName, Job>,
    /// What Helm installed.
    pub releases: BTreeMap<ComponentName, Release>,
    /// What stands there besides, with what it was made from.
    pub furniture: BTreeMap<FurnitureId, Digest>,
}

/// The rights objects; comparable and hashable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Access3 {
    /// The operator's RoleBinding.
    pub operator: bool,
    /// The deployer's ServiceAccount.
    pub account: bool,
    /// The deployer's RoleBinding.
    pub deployer: bool,
}

impl From<Access3> for Access {
    fn from(access: Access3) -> Self {
        let Access3 { operator, account, deployer } = access;
        Self { operator, account, deployer }
    }
}

/// A payload Secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Secret {
    /// Its UID.
    pub uid: Uid,
    /// What a deploy Job is to install; `None` for an undeploy.
    pub payload: Digest,
}

/// A Job with its pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its UID.
    pub uid: Uid,
    /// Whose release it works on.
    pub component: ComponentName,
    /// What it does.
    pub op: Op,
    /// The attempt.
    pub serial: u64,
    /// Its pod.
    pub pod: Pod,
    /// What its Secret held when its pod started: whoever deletes the Secret then takes nothing from the pod.
    pub mounted: Option<Digest>,
    /// What keeps a waiting pod from starting.
    pub complaint: Option<FailureReason>,
    /// Whether it is being deleted in the foreground: its name is taken until its pod is gone.
    pub deleting: bool,
}

/// How far the pod of a Job is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pod {
    /// It waits for a node, an image or its Secret.
    Waiting,
    /// Helm works.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed(JobFailure),
}

/// What Helm installed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// The payload that was installed.
    pub payload: Option<Digest>,
    /// The attempt that installed it; its inventory bears this serial.
    pub serial: u64,
    /// Whether the workload serves.
    pub ready: bool,
    /// What keeps one of its pods from starting or staying.
    pub complaint: Option<FailureReason>,
}

/// The simulated cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Seconds.
    pub now: u64,
    /// UIDs handed out.
    pub uids: u64,
    /// Whether Jobs and Secrets get UIDs that follow from their names: that keeps an explored world finite.
    pub names_uids: bool,
    /// The environment, until it is gone.
    pub own: Option<Own>,
    /// All namespaces.
    pub spaces: BTreeMap<NamespaceName, Space>,
    /// What the operator's Job cache holds while it lags; `None` when it is current.
    pub lagging: Option<Vec<(ComponentName, JobView)>>,
    /// Rises with every change that a watch reports.
    pub events: u64,
    /// Whether Gateways have not accepted the routes.
    pub gateway_down: bool,
}

impl Hash for Cluster {
    /// The status follows from the record: equality compares it, the hash need not.
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.now, self.uids, &self.spaces, &self.lagging, self.gateway_down).hash(state);
        if let Some(own) = &self.own {
            (own.spec, own.finalizer, own.deletion, own.held, &own.retry, &own.record).hash(state);
        }
    }
}

impl Cluster {
    /// Returns a cluster that holds nothing but a new environment.
    pub fn new(ttl_secs: Option<u64>) -> Self {
        Self {
            now: 0,
            uids: 0,
            names_uids: false,
            own: Some(Own::new(ttl_secs)),
            spaces: BTreeMap::new(),
            lagging: None,
            events: 1,
            gateway_down: false,
        }
    }

    /// Returns the environment's UID.
    pub fn owner() -> Uid {
        Uid::new("e1").unwrap_or_else(|_| unreachable!("a constant UID is not empty"))
    }

    /// Returns the environment's name.
    pub fn name() -> EnvironmentName {
        EnvironmentName::new("preview").unwrap_or_else(|_| unreachable!("a constant name is not empty"))
    }

    /// Returns the UID of a new Job or Secret. Their names are unique, unless one is deleted before it was recorded.
    pub fn uid_of(&mut self, kind: &str, name: &JobName) -> Uid {
        if !self.names_uids {
            return self.fresh_uid(kind);
        }
        Uid::new(format!("{kind}-{name}")).unwrap_or_else(|_| unreachable!("never empty"))
    }

    /// Returns a UID that was never used.
    pub fn fresh_uid(&mut self, kind: &str) -> Uid {
        self.uids += 1;
        Uid::new(format!("{kind}-{}", self.uids)).unwrap_or_else(|_| unreachable!("never empty"))
    }

    /// Returns all Jobs of namespaces that are ours, as the API server has them now.
    pub fn jobs(&self) -> Vec<(ComponentName, JobView)> {
        let spaces = self.spaces.values().filter(|space| space.ours);
        spaces
            .flat_map(|space| {
                space.jobs.iter().map(|(name, job)| (job.component.clone(), job.view(name, space)))
            })
            .collect()
    }

    /// Returns the Jobs as the operator's cache shows them.
    pub fn cached_jobs(&self) -> Vec<(ComponentName, JobView)> {
        self.lagging.clone().unwrap_or_else(|| self.jobs())
    }

    /// Returns the names under which Jobs, releases or Secrets are known anywhere that is ours.
    pub fn traces(&self) -> BTreeSet<NamespaceName> {
        self.spaces.iter().filter(|(_, space)| space.ours).map(|(name, _)| name.clone()).collect()
    }

    /// Tells the watches.
    pub fn changed(&mut self) {
        self.events += 1;
    }
}

impl Job {
    /// Returns the Job as the operator sees it.
    pub fn view(&self, name: &JobName, space: &Space) -> JobView {
        self.view_with(name, space.secrets.get(name).map(|secret| secret.uid.clone()))
    }

    /// Returns the Job as the operator sees it beside the Secret that bears its name.
    pub fn view_with(&self, name: &JobName, payload: Option<Uid>) -> JobView {
        let state = match &self.pod {
            Pod::Waiting => JobState::Active { waiting: self.complaint.map(complaint) },
            Pod::Running => JobState::Active { waiting: None },
            Pod::Succeeded => JobState::Succeeded,
            Pod::Failed(failure) => JobState::Failed(failure.clone()),
        };
        JobView {
            name: name.clone(),
            uid: self.uid.clone(),
            serial: self.serial,
            op: self.op,
            state,
            deleting: self.deleting,
            payload,
        }
    }

    /// Whether its pod may still do something.
    pub fn is_live(&self) -> bool {
        matches!(self.pod, Pod::Waiting | Pod::Running)
    }
}

fn complaint(reason: FailureReason) -> Complaint {
    Complaint { reason, message: "it cannot start".to_owned() }
}

impl Release {
    /// Returns what the operator sees of a release whose accepted serial is `accepted`.
    pub fn readiness(
        release: Option<&Self>,
        accepted: Option<u64>,
    ) -> Seen<petri_machines::component::Readiness> {
        use petri_machines::{component::Readiness, kernel::seen::Ignorance};
        match release.filter(|release| Some(release.serial) == accepted) {
            Some(release) if release.ready => Seen::Known(Readiness::Ready),
            Some(release) => {
                let why = "0 of 1 replicas".to_owned();
                Seen::Known(Readiness::Unready { why, cause: release.complaint })
            }
            // Whoever took the inventory away, nothing that was accepted serves.
            None if accepted.is_some() => {
                Seen::Known(Readiness::Unready { why: "no inventory".to_owned(), cause: None })
            }
            None => Seen::Unknown(Ignorance::NotAsked),
        }
    }
}

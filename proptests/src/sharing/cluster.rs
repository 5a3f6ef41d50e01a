//! What the simulated API server holds of shared components, their consumers, and the slices that were really made.

use petri_machines::{
    environment::{Access, Plan, Record as EnvironmentRecord, Status as EnvironmentStatus},
    job::{JobFailure, JobState, JobView, Op},
    names::{ComponentName, Digest, EnvironmentName, JobName, SharedName, Uid},
    reason::FailureReason,
    shared::{Record as SharedRecord, Roster, Status as SharedStatus},
};
use std::collections::{BTreeMap, BTreeSet};

/// One component of one environment.
pub type Consumer = (Uid, ComponentName);

/// An environment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Environment {
    /// Its UID.
    pub uid: Uid,
    /// Rises with every write to it.
    pub version: u64,
    /// What it asks for.
    pub plan: Plan,
    /// Petri's finalizer.
    pub finalizer: bool,
    /// Whether it is being deleted.
    pub deletion: bool,
    /// The annotation `petri.run/retry`.
    pub retry: Option<String>,
    /// The stored record.
    pub record: Option<EnvironmentRecord>,
    /// The rest of the status.
    pub status: Option<EnvironmentStatus>,
    /// Whether its namespace is there, and the rights in it.
    pub space: Option<Access>,
    /// The binding Secrets in it.
    pub bindings: BTreeSet<ComponentName>,
}

/// A shared component.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shared {
    /// Its UID.
    pub uid: Uid,
    /// Rises with every write to it.
    pub version: u64,
    /// How many consumers there may be; 0 for any number.
    pub capacity: u32,
    /// Seconds after which an unused workload goes.
    pub idle_secs: Option<u64>,
    /// Petri's finalizer.
    pub finalizer: bool,
    /// Whether it is being deleted.
    pub deletion: bool,
    /// The annotation `petri.run/forget`.
    pub forget: Option<Uid>,
    /// The stored record.
    pub record: Option<SharedRecord>,
    /// The status, but for the list.
    pub status: Option<SharedStatus>,
    /// The list in the status.
    pub roster: Roster,
    /// What stands of its workload: the serial that deployed it.
    pub release: Option<u64>,
}

impl Environment {
    /// Returns an environment of which nothing was done.
    pub fn new(uid: Uid, plan: Plan) -> Self {
        Self {
            uid,
            version: 1,
            plan,
            finalizer: false,
            deletion: false,
            retry: None,
            record: None,
            status: None,
            space: None,
            bindings: BTreeSet::new(),
        }
    }
}

impl Shared {
    /// Returns a shared component of which nothing was done.
    pub fn new(uid: Uid, capacity: u32, idle_secs: Option<u64>) -> Self {
        Self {
            uid,
            version: 1,
            capacity,
            idle_secs,
            finalizer: false,
            deletion: false,
            forget: None,
            record: None,
            status: None,
            roster: Roster::default(),
            release: None,
        }
    }
}

/// An obligation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Obligation {
    /// Its UID.
    pub uid: Uid,
    /// To whom it is owed.
    pub shared: SharedName,
    /// Whose it is.
    pub environment: EnvironmentName,
    /// What it was rendered from.
    pub payload: Digest,
    /// What was generated.
    pub generated: u64,
    /// When it was made.
    pub since: u64,
}

/// A Job in the shared namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its UID.
    pub uid: Uid,
    /// Whose it is: an environment or a shared component.
    pub owner: Uid,
    /// Which component of it.
    pub component: ComponentName,
    /// What it does.
    pub op: Op,
    /// The attempt.
    pub serial: u64,
    /// `None` while it runs; then whether it ended well.
    pub ended: Option<bool>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Job {
    /// Returns the Job as the operator sees it.
    pub fn view(&self, name: &JobName) -> JobView {
        let failure = || JobFailure {
            reason: FailureReason::HelmFailed,
            message: "it broke".to_owned(),
            disrupted: false,
        };
        let state = match self.ended {
            None => JobState::Active { waiting: None },
            Some(true) => JobState::Succeeded,
            Some(false) => JobState::Failed(failure()),
        };
        JobView {
            name: name.clone(),
            uid: self.uid.clone(),
            serial: self.serial,
            op: self.op,
            state,
            deleting: self.deleting,
            payload: None,
        }
    }
}

/// The simulated cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Seconds.
    pub now: u64,
    /// UIDs handed out.
    pub uids: u64,
    /// Whether UIDs go with names, so that equal states look equal.
    pub named: bool,
    /// The environments.
    pub environments: BTreeMap<EnvironmentName, Environment>,
    /// The shared components.
    pub shared: BTreeMap<SharedName, Shared>,
    /// The obligations.
    pub obligations: BTreeMap<Consumer, Obligation>,
    /// The Jobs in the shared namespace.
    pub jobs: BTreeMap<JobName, Job>,
    /// Whether the one provider bears the finalizer.
    pub provider: bool,
    /// The instance secrets that stand, each with what was generated in it.
    pub instance: BTreeMap<SharedName, u64>,
    /// The slices that were really made, each with the value it was made with.
    pub slices: BTreeMap<(SharedName, Consumer), u64>,
    /// Who was let go by a person.
    pub forgotten: BTreeSet<Uid>,
}

impl Cluster {
    /// Returns a UID that was never used; where names tell enough apart, the one that goes with the name.
    pub fn fresh(&mut self, kind: &str, name: &str) -> Uid {
        self.uids += 1;
        let uid = if self.named { format!("{kind}-{name}") } else { format!("{kind}-{}", self.uids) };
        Uid::new(uid).unwrap_or_else(|_| unreachable!("never empty"))
    }

    /// Returns the Jobs of one component as the operator sees them.
    pub fn jobs_of(&self, owner: &Uid, component: &ComponentName) -> Vec<JobView> {
        let own = self.jobs.iter().filter(|(_, job)| job.owner == *owner && job.component == *component);
        own.map(|(name, job)| job.view(name)).collect()
    }

    /// Lets a Job that ended have its effect. One that failed may have done its work, or half of it: what a provision
    /// Job made stands.
    pub fn effect(&mut self, job: &Job, fails: bool) {
        let id = (job.owner.clone(), job.component.clone());
        match job.op {
            Op::Provision => {
                if let Some(owed) = self.obligations.get(&id) {
                    self.slices.insert((owed.shared.clone(), id), owed.generated);
                }
            }
            Op::Deprovision => {
                if !fails {
                    self.slices.retain(|(_, one), _| *one != id);
                }
            }
            Op::Deploy | Op::Undeploy => {
                let release = (job.op == Op::Deploy && !fails).then_some(job.serial);
                for own in self.shared.values_mut().filter(|own| own.uid == job.owner) {
                    own.release = release;
                }
            }
        }
    }

    /// Returns the UIDs of the environments that are there.
    pub fn living(&self) -> BTreeSet<Uid> {
        self.environments.values().map(|one| one.uid.clone()).collect()
    }
}

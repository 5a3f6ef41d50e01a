//! The shell's writes, against the simulated cluster: the executor's checks, one request, and the class of its answer.

use super::{
    cluster::{Cluster, Job, Own, Pod, Space},
    server::{Refused, Written},
};
use petri_machines::{
    environment::{Cleanup, Command, NamespaceRef, Record, Status, World},
    job::Op,
    kernel::cycle::Refusal,
    names::{ComponentName, JobName, NamespaceName, Uid},
};

/// Writes record and status on condition that the object is still the one that was read.
///
/// # Errors
/// `Retry` when somebody wrote first, `Fenced` when the object is gone.
pub fn store(cluster: &mut Cluster, read: &mut Own, record: Record, status: Status) -> Result<(), Refusal> {
    cluster.replace_status(read.resource_version, record, status).map_err(class)?;
    cluster.own.iter().for_each(|own| *read = own.clone());
    Ok(())
}

/// How the executor classes a refusal; a delete classes its conflicts itself.
fn class(refused: Refused) -> Refusal {
    match refused {
        Refused::Conflict => Refusal::Retry,
        Refused::Exists | Refused::Dying | Refused::Terminating | Refused::Expired => Refusal::Backoff,
        Refused::NotFound => Refusal::Fenced,
    }
}

/// What is gone already was deleted; what is another one is spared.
fn deleted(written: Written) -> Result<bool, Refusal> {
    match written {
        Err(Refused::NotFound) => Ok(false),
        Err(Refused::Conflict) => Err(Refusal::Fenced),
        written => written.map_err(class),
    }
}

/// Applies one command. Returns whether it changed anything.
///
/// # Errors
/// As a real API server and the executor's checks would refuse it.
pub fn apply(
    cluster: &mut Cluster,
    read: &mut Own,
    world: &World,
    command: &Command,
) -> Result<bool, Refusal> {
    match command {
        Command::AddFinalizer => add_finalizer(cluster, read),
        Command::CreateNamespace { name } => create_namespace(cluster, name),
        Command::BindOperator(namespace) => grant(cluster, namespace, |space| &mut space.access.operator),
        Command::CreateDeployerAccount(namespace) => {
            grant(cluster, namespace, |space| &mut space.access.account)
        }
        Command::BindDeployer(namespace) => grant(cluster, namespace, |space| &mut space.access.deployer),
        Command::CreatePayload { namespace, component, serial } => {
            create_payload(cluster, namespace, component, *serial, world)
        }
        Command::CreateJob { namespace, component, serial } => {
            create_job(cluster, namespace, component, Op::Deploy, *serial)
        }
        Command::Furnish { namespace, item, digest } => {
            let space = creatable(cluster, namespace)?;
            Ok(space.furniture.insert(item.clone(), digest.clone()).as_ref() != Some(digest))
        }
        // This dish has no shared components: the one of them is `crate::sharing`.
        Command::Share(_) => Err(Refusal::Rejected),
        Command::Cleanup(cleanup) => clean(cluster, read, cleanup),
    }
}

fn clean(cluster: &mut Cluster, read: &mut Own, cleanup: &Cleanup) -> Result<bool, Refusal> {
    match cleanup {
        Cleanup::DeleteSelf => delete_self(cluster, read),
        Cleanup::DropFinalizer => set_finalizer(cluster, read, false),
        Cleanup::DeletePayload { namespace, name, uid } => {
            writable(cluster, namespace)?;
            deleted(cluster.delete_secret(&namespace.name, name, uid))
        }
        Cleanup::DeleteJob { namespace, name, uid } => {
            writable(cluster, namespace)?;
            deleted(cluster.delete_job(&namespace.name, name, uid))
        }
        Cleanup::CreateUndeployJob { namespace, component, serial } => {
            create_job(cluster, namespace, component, Op::Undeploy, *serial)
        }
        Cleanup::Unfurnish { namespace, item, .. } => {
            Ok(writable(cluster, namespace)?.furniture.remove(item).is_some())
        }
        Cleanup::Unshare(_) => Err(Refusal::Rejected),
        Cleanup::DeleteNamespace(namespace) => {
            deleted(cluster.delete_namespace(&namespace.name, &namespace.uid))
        }
    }
}

fn add_finalizer(cluster: &mut Cluster, read: &mut Own) -> Result<bool, Refusal> {
    if cluster.own.as_ref().is_some_and(|own| own.deletion && !own.finalizer) {
        return Err(Refusal::Rejected);
    }
    let changed = set_finalizer(cluster, read, true)?;
    cluster.own.iter().for_each(|own| read.resource_version = own.resource_version);
    Ok(changed)
}

/// The precondition is the version as it was read or last written. What is gone needs none any more, and nothing may be
/// made under one that it cannot get.
fn set_finalizer(cluster: &mut Cluster, read: &Own, held: bool) -> Result<bool, Refusal> {
    match cluster.set_finalizer(read.resource_version, held) {
        Err(Refused::NotFound) if held => Err(Refusal::Fenced),
        Err(Refused::NotFound) => Ok(false),
        written => written.map_err(class),
    }
}

/// An extension that lands first wins.
fn delete_self(cluster: &mut Cluster, read: &Own) -> Result<bool, Refusal> {
    deleted(cluster.delete_own(read.resource_version))
}

/// A name that is taken is read back: it may be what an earlier call made whose answer was lost.
fn create_namespace(cluster: &mut Cluster, name: &NamespaceName) -> Result<bool, Refusal> {
    match cluster.create_namespace(name) {
        Err(Refused::Exists) if cluster.spaces.get(name).is_some_and(|space| space.ours) => Ok(false),
        Err(Refused::Exists) => Err(Refusal::Fenced),
        written => written.map_err(class),
    }
}

/// The live check before every write into a namespace: labels and UID, and what a terminating namespace refuses.
fn writable<'c>(cluster: &'c mut Cluster, namespace: &NamespaceRef) -> Result<&'c mut Space, Refusal> {
    match cluster.spaces.get_mut(&namespace.name) {
        Some(space) if space.ours && space.uid == namespace.uid => Ok(space),
        Some(_) | None => Err(Refusal::Fenced),
    }
}

fn creatable<'c>(cluster: &'c mut Cluster, namespace: &NamespaceRef) -> Result<&'c mut Space, Refusal> {
    writable(cluster, namespace)?;
    let space = cluster.creatable(&namespace.name).map_err(class)?;
    // 403 of another kind: the rights are not there.
    if space.access.operator { Ok(space) } else { Err(Refusal::Backoff) }
}

fn grant(
    cluster: &mut Cluster,
    namespace: &NamespaceRef,
    which: impl Fn(&mut Space) -> &mut bool,
) -> Result<bool, Refusal> {
    writable(cluster, namespace)?;
    Ok(!std::mem::replace(which(cluster.creatable(&namespace.name).map_err(class)?), true))
}

/// Returns the name that Secret and Job of an attempt share.
pub fn job_name(component: &ComponentName, op: Op, serial: u64) -> JobName {
    JobName::of(&Cluster::owner(), &Cluster::name(), component, op, serial)
}

fn create_payload(
    cluster: &mut Cluster,
    namespace: &NamespaceRef,
    component: &ComponentName,
    serial: u64,
    world: &World,
) -> Result<bool, Refusal> {
    let name = job_name(component, Op::Deploy, serial);
    let plan = world.intent.known().and_then(|intent| intent.as_ref().ok());
    let planned = plan.and_then(|plan| plan.components.iter().find(|one| one.name == *component));
    let payload = planned.map(|one| one.planned.payload.clone()).ok_or(Refusal::Rejected)?;
    creatable(cluster, namespace)?;
    taken(cluster.create_secret(&namespace.name, &name, payload))
}

/// A namesake that is not going is the Job that was meant; one that goes has its name until its pod is gone.
fn create_job(
    cluster: &mut Cluster,
    namespace: &NamespaceRef,
    component: &ComponentName,
    op: Op,
    serial: u64,
) -> Result<bool, Refusal> {
    let name = job_name(component, op, serial);
    let space = creatable(cluster, namespace)?;
    // A live list, not the cache: another Job of the release that has not ended forbids this one.
    if space.jobs.iter().any(|(other, job)| *other != name && job.component == *component && job.is_live()) {
        return Err(Refusal::Backoff);
    }
    // The server gives it another UID.
    let uid = Cluster::owner();
    let (pod, complaint) = (Pod::Waiting, None);
    let (component, mounted) = (component.clone(), None);
    let job = Job { uid, component, op, serial, pod, mounted, complaint, deleting: false };
    taken(cluster.create_job(&namespace.name, &name, job))
}

/// What has a name that nobody else gives is what was meant, unless it goes.
fn taken(written: Written) -> Result<bool, Refusal> {
    match written {
        Err(Refused::Exists) => Ok(false),
        written => written.map_err(class),
    }
}

impl Space {
    /// Returns an empty namespace.
    pub fn new(uid: Uid, ours: bool) -> Self {
        Self {
            uid,
            ours,
            terminating: false,
            access: super::cluster::Access3::default(),
            secrets: std::collections::BTreeMap::new(),
            jobs: std::collections::BTreeMap::new(),
            releases: std::collections::BTreeMap::new(),
            furniture: std::collections::BTreeMap::new(),
        }
    }
}

//! The shell's writes, against the simulated cluster, with the preconditions of a real API server.

use super::cluster::{Cluster, Job, Own, Pod, Secret, Space};
use petri_machines::{
    environment::{Cleanup, Command, NamespaceRef, Record, Status, World},
    job::Op,
    kernel::cycle::Refusal,
    names::{ComponentName, JobName, NamespaceName, Uid},
};

/// Writes record and status on condition that the object is still the one that was read.
///
/// # Errors
/// `Retry` when somebody wrote first, or the object is gone.
pub fn store(cluster: &mut Cluster, read: &mut Own, record: Record, status: Status) -> Result<(), Refusal> {
    let own = cluster.own.as_mut().filter(|own| own.resource_version == read.resource_version);
    let own = own.ok_or(Refusal::Retry)?;
    own.record = Some(record);
    own.status = Some(status);
    own.resource_version += 1;
    *read = own.clone();
    cluster.changed();
    Ok(())
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
        Cleanup::DropFinalizer => drop_finalizer(cluster),
        Cleanup::DeletePayload { namespace, name, uid } => {
            let space = writable(cluster, namespace)?;
            match space.secrets.get(name) {
                None => return Ok(false),
                Some(secret) if secret.uid != *uid => return Err(Refusal::Fenced),
                Some(_) => drop(space.secrets.remove(name)),
            }
            Ok(true)
        }
        Cleanup::DeleteJob { namespace, name, uid } => {
            let space = writable(cluster, namespace)?;
            let Some(job) = space.jobs.get_mut(name) else { return Ok(false) };
            if job.uid != *uid {
                return Err(Refusal::Fenced);
            }
            let changed = !std::mem::replace(&mut job.deleting, true);
            cluster.changed();
            Ok(changed)
        }
        Cleanup::CreateUndeployJob { namespace, component, serial } => {
            create_job(cluster, namespace, component, Op::Undeploy, *serial)
        }
        Cleanup::Unfurnish { namespace, item, .. } => {
            Ok(writable(cluster, namespace)?.furniture.remove(item).is_some())
        }
        Cleanup::Unshare(_) => Err(Refusal::Rejected),
        Cleanup::DeleteNamespace(namespace) => {
            let Some(space) = cluster.spaces.get_mut(&namespace.name) else { return Ok(false) };
            if space.uid != namespace.uid {
                return Err(Refusal::Fenced);
            }
            let changed = !std::mem::replace(&mut space.terminating, true);
            cluster.changed();
            Ok(changed)
        }
    }
}

fn add_finalizer(cluster: &mut Cluster, read: &mut Own) -> Result<bool, Refusal> {
    let own = cluster.own.as_mut().ok_or(Refusal::Retry)?;
    if own.deletion {
        return Err(Refusal::Rejected);
    }
    let changed = !std::mem::replace(&mut own.finalizer, true);
    own.resource_version += 1;
    read.resource_version = own.resource_version;
    cluster.changed();
    Ok(changed)
}

fn drop_finalizer(cluster: &mut Cluster) -> Result<bool, Refusal> {
    let own = cluster.own.as_mut().ok_or(Refusal::Retry)?;
    own.finalizer = false;
    own.resource_version += 1;
    if own.deletion {
        cluster.own = None;
    }
    cluster.changed();
    Ok(true)
}

/// The precondition is the version as it was read or last written: an extension that lands first wins.
fn delete_self(cluster: &mut Cluster, read: &Own) -> Result<bool, Refusal> {
    let own = cluster.own.as_mut().ok_or(Refusal::Retry)?;
    if own.resource_version != read.resource_version {
        return Err(Refusal::Fenced);
    }
    let changed = !std::mem::replace(&mut own.deletion, true);
    own.resource_version += 1;
    if !own.finalizer {
        cluster.own = None;
    }
    cluster.changed();
    Ok(changed)
}

fn create_namespace(cluster: &mut Cluster, name: &NamespaceName) -> Result<bool, Refusal> {
    if cluster.spaces.contains_key(name) {
        return Err(Refusal::Retry);
    }
    let uid = cluster.fresh_uid("ns");
    cluster.spaces.insert(name.clone(), Space::new(uid, true));
    cluster.changed();
    Ok(true)
}

/// The live check before every write into a namespace: labels and UID, and what a terminating namespace refuses.
fn writable<'c>(cluster: &'c mut Cluster, namespace: &NamespaceRef) -> Result<&'c mut Space, Refusal> {
    match cluster.spaces.get_mut(&namespace.name) {
        Some(space) if space.ours && space.uid == namespace.uid => Ok(space),
        Some(_) | None => Err(Refusal::Fenced),
    }
}

fn creatable<'c>(cluster: &'c mut Cluster, namespace: &NamespaceRef) -> Result<&'c mut Space, Refusal> {
    let space = writable(cluster, namespace)?;
    // 403: the namespace is terminating, or the rights are not there.
    if space.terminating || !space.access.operator { Err(Refusal::Backoff) } else { Ok(space) }
}

fn grant(
    cluster: &mut Cluster,
    namespace: &NamespaceRef,
    which: impl Fn(&mut Space) -> &mut bool,
) -> Result<bool, Refusal> {
    let space = writable(cluster, namespace)?;
    if space.terminating {
        return Err(Refusal::Backoff);
    }
    Ok(!std::mem::replace(which(space), true))
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
    if creatable(cluster, namespace)?.secrets.contains_key(&name) {
        return Ok(false);
    }
    let uid = cluster.uid_of("secret", &name);
    creatable(cluster, namespace)?.secrets.insert(name, Secret { uid, payload });
    Ok(true)
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
    match space.jobs.get(&name) {
        Some(job) if job.deleting => return Err(Refusal::Backoff),
        Some(_) => return Ok(false),
        None => {}
    }
    let uid = cluster.uid_of("job", &name);
    let (pod, complaint) = (Pod::Waiting, None);
    let job = Job { uid, component: component.clone(), op, serial, pod, complaint, deleting: false };
    creatable(cluster, namespace)?.jobs.insert(name, job);
    cluster.changed();
    Ok(true)
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

//! The shell's writes, with the preconditions of a real API server.

use super::{
    cluster::{Cluster, Environment, Job, Obligation, Shared},
    observe::{PROVIDER, component, ns_uid},
};
use petri_machines::{
    environment::{self, Access, Cleanup, Command, Sharing, Unsharing},
    job::Op,
    kernel::{Timestamp, cycle::Refusal},
    names::{ComponentName, EnvironmentName, JobName, SharedName, Uid},
    shared::{self, Abandoned, Consumer, Roster},
    slice::Fence,
};

type Done = Result<bool, Refusal>;

/// Applies one command of an environment, as it was read. Returns whether it changed anything.
///
/// # Errors
/// As a real API server and the executor's checks would refuse it.
pub fn environment(
    cluster: &mut Cluster,
    name: &EnvironmentName,
    read: &mut Environment,
    command: &Command,
) -> Done {
    if let Some(done) = listed(cluster, name, read, command) {
        return done;
    }
    let Some(own) = cluster.environments.get_mut(name).filter(|own| own.uid == read.uid) else {
        return Err(Refusal::Fenced);
    };
    match command {
        Command::AddFinalizer => {
            if own.deletion {
                return Err(Refusal::Rejected);
            }
            own.version += 1;
            read.version = own.version;
            Ok(!std::mem::replace(&mut own.finalizer, true))
        }
        Command::CreateNamespace { .. } => {
            let is_new = own.space.is_none();
            own.space.get_or_insert_default();
            Ok(is_new)
        }
        Command::BindOperator(_) => grant(own, |access| &mut access.operator),
        Command::CreateDeployerAccount(_) => grant(own, |access| &mut access.account),
        Command::BindDeployer(_) => grant(own, |access| &mut access.deployer),
        Command::Share(share) => match share {
            // Writes of the list are made above.
            Sharing::Register { .. } => Err(Refusal::Rejected),
            Sharing::Oblige { component, payload, replaces } => {
                let shared = read.plan.slices.get(component).map(|planned| planned.shared.clone());
                let shared = shared.ok_or(Refusal::Rejected)?;
                oblige(
                    cluster,
                    name,
                    (read.uid.clone(), component.clone()),
                    shared,
                    payload,
                    replaces.as_ref(),
                )
            }
            Sharing::Bind { component, .. } => {
                let obliged = cluster.obligations.contains_key(&(read.uid.clone(), component.clone()));
                let own = cluster.environments.get_mut(name).filter(|own| own.space.is_some() && obliged);
                Ok(own.ok_or(Refusal::Fenced)?.bindings.insert(component.clone()))
            }
            Sharing::CreateProvisionJob { component, serial } => {
                create(cluster, (&read.uid, name, component), Op::Provision, *serial)
            }
        },
        Command::Cleanup(Cleanup::Unshare(unshare)) => undo(cluster, name, read, unshare),
        Command::Cleanup(Cleanup::DeleteNamespace(_)) => {
            own.bindings.clear();
            Ok(own.space.take().is_some())
        }
        Command::Cleanup(Cleanup::DropFinalizer) => {
            own.finalizer = false;
            if own.deletion {
                cluster.environments.remove(name);
            }
            Ok(true)
        }
        Command::Cleanup(_)
        | Command::CreatePayload { .. }
        | Command::CreateJob { .. }
        | Command::Furnish { .. } => Err(Refusal::Rejected),
    }
}

fn grant(own: &mut Environment, which: impl Fn(&mut Access) -> &mut bool) -> Done {
    let access = own.space.as_mut().ok_or(Refusal::Fenced)?;
    Ok(!std::mem::replace(which(access), true))
}

/// Writes the list of a shared component that is still as it was read.
fn list(cluster: &mut Cluster, at: &Fence, change: impl FnOnce(&Shared) -> Option<Roster>) -> Done {
    let own = cluster.shared.get_mut(&at.shared).filter(|own| own.uid == at.uid).ok_or(Refusal::Fenced)?;
    if own.version.to_string() != at.version {
        return Err(Refusal::Retry);
    }
    let roster = change(own).ok_or(Refusal::Retry)?;
    own.roster = roster;
    own.version += 1;
    Ok(true)
}

fn oblige(
    cluster: &mut Cluster,
    environment: &EnvironmentName,
    id: (Uid, ComponentName),
    shared: SharedName,
    payload: &petri_machines::names::Digest,
    replaces: Option<&Uid>,
) -> Done {
    match (cluster.obligations.get_mut(&id), replaces) {
        (Some(held), Some(uid)) if held.uid == *uid => {
            let before = held.clone();
            held.payload = payload.clone();
            Ok(*held != before)
        }
        (Some(_), None) => Ok(false),
        (None, None) => {
            let uid = cluster.fresh("obligation", &format!("{}-{}", id.0, id.1));
            let (generated, since) = (cluster.uids, cluster.now);
            let (environment, payload) = (environment.clone(), payload.clone());
            cluster
                .obligations
                .insert(id, Obligation { uid, shared, environment, payload, generated, since });
            Ok(true)
        }
        (Some(_) | None, Some(_)) => Err(Refusal::Fenced),
    }
}

/// A live list, not the cache: another Job of the consumer that has not ended forbids this one.
fn create(
    cluster: &mut Cluster,
    (owner, name, component): (&Uid, &EnvironmentName, &ComponentName),
    op: Op,
    serial: u64,
) -> Done {
    let job = JobName::of(owner, name, component, op, serial);
    let own = |held: &Job| held.owner == *owner && held.component == *component;
    if cluster.jobs.iter().any(|(other, held)| *other != job && own(held) && held.ended.is_none()) {
        return Err(Refusal::Backoff);
    }
    match cluster.jobs.get(&job) {
        Some(held) if held.deleting => return Err(Refusal::Backoff),
        Some(_) => return Ok(false),
        None => {}
    }
    let shares = matches!(op, Op::Provision | Op::Deprovision);
    if shares && !cluster.obligations.contains_key(&(owner.clone(), component.clone())) {
        return Err(Refusal::Fenced);
    }
    let uid = cluster.fresh("job", job.as_str());
    let (owner, component) = (owner.clone(), component.clone());
    cluster.jobs.insert(job, Job { uid, owner, component, op, serial, ended: None, deleting: false });
    Ok(true)
}

fn delete(cluster: &mut Cluster, name: &JobName, uid: &Uid) -> Done {
    match cluster.jobs.get_mut(name) {
        None => Ok(false),
        Some(job) if job.uid != *uid => Err(Refusal::Fenced),
        Some(job) => Ok(!std::mem::replace(&mut job.deleting, true)),
    }
}

fn undo(cluster: &mut Cluster, name: &EnvironmentName, read: &Environment, unshare: &Unsharing) -> Done {
    match unshare {
        Unsharing::CreateDeprovisionJob { component, serial } => {
            create(cluster, (&read.uid, name, component), Op::Deprovision, *serial)
        }
        Unsharing::DeleteJob { name, uid } => delete(cluster, name, uid),
        Unsharing::Acquit { component, uid } => {
            let id = (read.uid.clone(), component.clone());
            match cluster.obligations.get(&id) {
                None => Ok(false),
                Some(held) if held.uid != *uid => Err(Refusal::Fenced),
                Some(_) => Ok(cluster.obligations.remove(&id).is_some()),
            }
        }
        Unsharing::Unbind { component, .. } => {
            let own = cluster.environments.get_mut(name).ok_or(Refusal::Fenced)?;
            Ok(own.bindings.remove(component))
        }
        // Writes of the list are made above.
        Unsharing::Release { .. } | Unsharing::Abandon { .. } => Err(Refusal::Rejected),
    }
}

/// Makes a write of the list of consumers, if the command is one. It is guarded by the version of the shared component
/// alone: an operator that was frozen makes it even when its environment is gone.
fn listed(
    cluster: &mut Cluster,
    name: &EnvironmentName,
    read: &Environment,
    command: &Command,
) -> Option<Done> {
    let (uid, now) = (read.uid.clone(), Timestamp(cluster.now));
    Some(match command {
        Command::Share(Sharing::Register { at, component }) => {
            let (environment, component) = (name.clone(), component.clone());
            let consumer = Consumer { uid, environment, component, since: now };
            list(cluster, at, |own| {
                let capacity = Some(own.capacity).filter(|max| *max > 0);
                own.roster.register(consumer, capacity, own.deletion).ok()
            })
        }
        Command::Cleanup(Cleanup::Unshare(Unsharing::Release { at, component })) => {
            list(cluster, at, |own| Some(own.roster.release(&uid, component)))
        }
        Command::Cleanup(Cleanup::Unshare(Unsharing::Abandon { at, component, reason })) => {
            let (environment, component) = (name.clone(), component.clone());
            let abandoned = Abandoned { uid, environment, component, at: now, reason: reason.clone() };
            list(cluster, at, |own| Some(own.roster.abandon(abandoned)))
        }
        _ => return None,
    })
}

/// Applies one command of a shared component.
///
/// # Errors
/// As a real API server and the executor's checks would refuse it.
pub fn shared(
    cluster: &mut Cluster,
    name: &SharedName,
    read: &mut Shared,
    command: &shared::Command,
) -> Done {
    let environment = EnvironmentName::new(name.as_str()).map_err(|_| Refusal::Rejected)?;
    let work = component(name);
    let Some(own) = cluster.shared.get_mut(name).filter(|own| own.uid == read.uid) else {
        return Err(Refusal::Fenced);
    };
    match command {
        shared::Command::AddFinalizer => {
            if own.deletion {
                return Err(Refusal::Rejected);
            }
            own.version += 1;
            read.version = own.version;
            Ok(!std::mem::replace(&mut own.finalizer, true))
        }
        shared::Command::HoldProvider(provider) => {
            Ok(provider.name == PROVIDER && !std::mem::replace(&mut cluster.provider, true))
        }
        shared::Command::WriteInstance { .. } => {
            let made = cluster.uids;
            let is_new = !cluster.instance.contains_key(name);
            cluster.instance.entry(name.clone()).or_insert(made);
            Ok(is_new)
        }
        shared::Command::CreatePayload { .. } => Ok(true),
        shared::Command::CreateJob { serial } => {
            create(cluster, (&read.uid, &environment, &work), Op::Deploy, *serial)
        }
        shared::Command::Cleanup(cleanup) => match cleanup {
            shared::Cleanup::DeletePayload { .. } => Ok(true),
            shared::Cleanup::CreateUndeployJob { serial } => {
                create(cluster, (&read.uid, &environment, &work), Op::Undeploy, *serial)
            }
            shared::Cleanup::DeleteJob { name, uid } => delete(cluster, name, uid),
            shared::Cleanup::Forget { secret } => {
                let held = cluster.obligations.len();
                cluster.obligations.retain(|_, owed| owed.uid != *secret);
                Ok(cluster.obligations.len() != held)
            }
            shared::Cleanup::DeleteInstance { uid } => {
                Ok(*uid == ns_uid(&read.uid) && cluster.instance.remove(name).is_some())
            }
            shared::Cleanup::ReleaseProvider(_) => Ok(std::mem::replace(&mut cluster.provider, false)),
            shared::Cleanup::DropFinalizer => {
                own.finalizer = false;
                if own.deletion {
                    cluster.shared.remove(name);
                }
                Ok(true)
            }
        },
    }
}

/// Writes an environment's record, if it is still as it was read.
///
/// # Errors
/// Somebody wrote first, or it is gone.
pub fn store_environment(
    cluster: &mut Cluster,
    name: &EnvironmentName,
    read: &mut Environment,
    record: environment::Record,
    status: environment::Status,
) -> Result<(), Refusal> {
    let own = cluster.environments.get_mut(name);
    let own = own.filter(|own| own.uid == read.uid && own.version == read.version).ok_or(Refusal::Retry)?;
    (own.record, own.status) = (Some(record), Some(status));
    own.version += 1;
    *read = own.clone();
    Ok(())
}

/// Writes a shared component's record and list, if it is still as it was read.
///
/// # Errors
/// Somebody wrote first, or it is gone.
pub fn store_shared(
    cluster: &mut Cluster,
    name: &SharedName,
    read: &mut Shared,
    record: shared::Record,
    status: shared::Status,
) -> Result<(), Refusal> {
    let own = cluster.shared.get_mut(name);
    let own = own.filter(|own| own.uid == read.uid && own.version == read.version).ok_or(Refusal::Retry)?;
    own.roster = status.roster.clone();
    (own.record, own.status) = (Some(record), Some(status));
    own.version += 1;
    *read = own.clone();
    Ok(())
}

//! The simulated API server's own answers: what each write does, and in which words it is refused.
//!
//! The operator's commands end here ([`super::apply`]), and [`crate::conformance`] asks the same of a real server.

use super::cluster::{Cluster, Job, Own, Secret, Space};
use petri_machines::{
    environment::{Record, Status},
    names::{Digest, JobName, NamespaceName, Uid},
};

/// How a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// 404: it is not there, or its namespace is not.
    NotFound,
    /// 409 `AlreadyExists`.
    Exists,
    /// 409 `AlreadyExists`, "object is being deleted": the namesake goes.
    Dying,
    /// 409 `Conflict`: a precondition does not hold.
    Conflict,
    /// 403 with the cause `NamespaceTerminating`.
    Terminating,
    /// 410: the watch begins further back than the server remembers.
    Expired,
}

/// What a write came to: whether it changed anything.
pub type Written = Result<bool, Refused>;

impl Cluster {
    /// Creates a namespace.
    ///
    /// # Errors
    /// `Exists`, `Dying`.
    pub fn create_namespace(&mut self, name: &NamespaceName) -> Written {
        match self.spaces.get(name) {
            Some(space) if space.terminating => return Err(Refused::Dying),
            Some(_) => return Err(Refused::Exists),
            None => {}
        }
        let uid = self.fresh_uid("ns");
        self.spaces.insert(name.clone(), Space::new(uid, true));
        self.changed();
        Ok(true)
    }

    /// Deletes a namespace: from then on it is terminating.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn delete_namespace(&mut self, name: &NamespaceName, uid: &Uid) -> Written {
        let space = self.spaces.get_mut(name).ok_or(Refused::NotFound)?;
        same(&space.uid, uid)?;
        let changed = !std::mem::replace(&mut space.terminating, true);
        self.changed();
        Ok(changed)
    }

    /// Returns a namespace in which something is to be created.
    ///
    /// # Errors
    /// `NotFound`, `Terminating`.
    pub fn creatable(&mut self, name: &NamespaceName) -> Result<&mut Space, Refused> {
        let space = self.spaces.get_mut(name).ok_or(Refused::NotFound)?;
        if space.terminating { Err(Refused::Terminating) } else { Ok(space) }
    }

    /// Creates a Secret.
    ///
    /// # Errors
    /// Those of its namespace; `Exists`.
    pub fn create_secret(&mut self, namespace: &NamespaceName, name: &JobName, payload: Digest) -> Written {
        if self.creatable(namespace)?.secrets.contains_key(name) {
            return Err(Refused::Exists);
        }
        let uid = self.uid_of("secret", name);
        self.creatable(namespace)?.secrets.insert(name.clone(), Secret { uid, payload });
        Ok(true)
    }

    /// Deletes a Secret; it is gone at once.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn delete_secret(&mut self, namespace: &NamespaceName, name: &JobName, uid: &Uid) -> Written {
        let space = self.spaces.get_mut(namespace).ok_or(Refused::NotFound)?;
        same(&space.secrets.get(name).ok_or(Refused::NotFound)?.uid, uid)?;
        space.secrets.remove(name);
        Ok(true)
    }

    /// Creates a Job; the UID is the server's.
    ///
    /// # Errors
    /// Those of its namespace; `Exists`, `Dying`.
    pub fn create_job(&mut self, namespace: &NamespaceName, name: &JobName, job: Job) -> Written {
        match self.creatable(namespace)?.jobs.get(name) {
            Some(job) if job.deleting => return Err(Refused::Dying),
            Some(_) => return Err(Refused::Exists),
            None => {}
        }
        let uid = self.uid_of("job", name);
        self.creatable(namespace)?.jobs.insert(name.clone(), Job { uid, ..job });
        self.changed();
        Ok(true)
    }

    /// Deletes a Job in the foreground: it stays until its pod is gone.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn delete_job(&mut self, namespace: &NamespaceName, name: &JobName, uid: &Uid) -> Written {
        let space = self.spaces.get_mut(namespace).ok_or(Refused::NotFound)?;
        let job = space.jobs.get_mut(name).ok_or(Refused::NotFound)?;
        same(&job.uid, uid)?;
        let changed = !std::mem::replace(&mut job.deleting, true);
        self.changed();
        Ok(changed)
    }

    /// Replaces the own object's status. What is that way already is not written: its version stays.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn replace_status(&mut self, version: u64, record: Record, status: Status) -> Written {
        let own = self.own_at(version)?;
        let (record, status) = (Some(record), Some(status));
        let changed = own.record != record || own.status != status;
        (own.record, own.status) = (record, status);
        own.resource_version += u64::from(changed);
        self.changed();
        Ok(changed)
    }

    /// Sets or drops the finalizer. An object that is being deleted goes with its last one.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn set_finalizer(&mut self, version: u64, finalizer: bool) -> Written {
        let own = self.own_at(version)?;
        let changed = std::mem::replace(&mut own.finalizer, finalizer) != finalizer;
        own.resource_version += u64::from(changed);
        if own.deletion && !own.finalizer {
            self.own = None;
        }
        self.changed();
        Ok(changed)
    }

    /// Deletes the own object: it goes at once, or waits for its finalizer. That is a change of its generation, too.
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub fn delete_own(&mut self, version: u64) -> Written {
        let own = self.own_at(version)?;
        let changed = own.doom();
        if !own.finalizer {
            self.own = None;
        }
        self.changed();
        Ok(changed)
    }

    fn own_at(&mut self, version: u64) -> Result<&mut Own, Refused> {
        let own = self.own.as_mut().ok_or(Refused::NotFound)?;
        if own.resource_version == version { Ok(own) } else { Err(Refused::Conflict) }
    }
}

fn same(found: &Uid, named: &Uid) -> Result<(), Refused> {
    if found == named { Ok(()) } else { Err(Refused::Conflict) }
}

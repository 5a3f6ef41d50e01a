//! What this process has seen given in each workload namespace.
//!
//! The operator may not read RoleBindings, so what it created, or found created, is remembered here. After a restart
//! the ledger is empty: then the creates are repeated and answered with "already exists".

use crate::render::Right;
use petri_machines::{environment::Access, names::Uid};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// How long after a RoleBinding was made a 403 may be the authorizer's lag; it lags by far less than a second.
const LAG_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    access: Access,
    bound_at: Option<Instant>,
}

/// Remembers rights by the namespace's UID.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<HashMap<Uid, Entry>>);

impl Ledger {
    /// Returns what was seen given in this namespace.
    pub fn access(&self, namespace: &Uid) -> Access {
        self.lock().get(namespace).map(|entry| entry.access).unwrap_or_default()
    }

    /// Records that a right is there.
    pub fn record(&self, namespace: &Uid, right: Right) {
        let mut entries = self.lock();
        let entry = entries.entry(namespace.clone()).or_default();
        match right {
            Right::Operator => {
                entry.access.operator = true;
                entry.bound_at = Some(Instant::now());
            }
            Right::Account => entry.access.account = true,
            Right::Deployer => entry.access.deployer = true,
        }
    }

    /// Tells whether a refusal in this namespace may come from an authorizer that has not seen the RoleBinding yet.
    pub fn may_lag(&self, namespace: &Uid) -> bool {
        let bound_at = self.lock().get(namespace).and_then(|entry| entry.bound_at);
        bound_at.is_some_and(|at| at.elapsed() < LAG_MAX)
    }

    /// Forgets a namespace that goes.
    pub fn forget(&self, namespace: &Uid) {
        self.lock().remove(namespace);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uid, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

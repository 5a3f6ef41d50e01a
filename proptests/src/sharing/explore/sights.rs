//! What one member's moves depend on: itself, and of the others what is looked at. Equal sights, equal moves.

use super::super::{
    cluster::{Environment, Shared},
    state::{Host, Tenant},
};
use petri_machines::environment::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Another environment, as an environment's operator looks at it: whether it waits for a place, and for which.
pub(super) fn rival(tenant: &Tenant) -> Tenant {
    let seen =
        |own: &Environment| Environment { status: own.status.clone(), ..present(own, own.plan.clone()) };
    let own = tenant.own.as_ref().map(seen);
    Tenant {
        own,
        obligations: BTreeMap::new(),
        jobs: BTreeMap::new(),
        slices: BTreeMap::new(),
        forgotten: false,
    }
}

/// An environment of which it only matters that it is there.
fn present(own: &Environment, plan: Plan) -> Environment {
    Environment {
        uid: own.uid.clone(),
        version: own.version,
        plan,
        finalizer: false,
        deletion: own.deletion,
        retry: None,
        record: None,
        status: None,
        space: None,
        bindings: BTreeSet::new(),
    }
}

/// A shared component, as an environment's operator looks at it: its places, and whether it is ready.
pub(super) fn counter(host: &Host) -> Host {
    let own = host.own.as_ref().map(|own| Shared {
        idle_secs: None,
        finalizer: false,
        forget: None,
        record: None,
        release: None,
        ..own.clone()
    });
    Host { own, jobs: BTreeMap::new(), instance: false }
}

/// An environment, as a shared component's operator looks at it: whether it lives, and what it owes.
pub(super) fn debtor(tenant: &Tenant) -> Tenant {
    let nothing = || Plan::with_shared(&[], &[]).unwrap_or_else(|_| unreachable!("no dependencies"));
    let own = tenant.own.as_ref().map(|own| Environment { deletion: false, ..present(own, nothing()) });
    let mut jobs = tenant.jobs.clone();
    jobs.retain(|_, job| job.ended.is_none());
    Tenant { own, jobs, ..tenant.clone() }
}

/// Another shared component, as a shared component's operator looks at it: whether it is there.
pub(super) fn neighbour(host: &Host) -> Host {
    let own = host.own.as_ref().map(|own| Shared::new(own.uid.clone(), 0, None));
    Host { own, jobs: BTreeMap::new(), instance: false }
}

//! What the operator sees of a state, as numbers: equal numbers, equal decision.

use super::{
    intern::Interner,
    state::{Cell, Codec, KIDS, State},
};
use crate::{
    dish::{
        cluster::{Cluster, Own, Specs},
        observe::observe,
    },
    laws::blindness::Blindness,
};
use petri_machines::{
    component::Readiness,
    environment::{Cleanup, Command, Record, World},
    job::JobView,
    kernel::{Seen, seen::Ignorance},
};

/// What it sees of a component: its Jobs and its readiness.
pub(super) type View = (Vec<JobView>, Seen<Readiness>);
/// Everything but the components; of each the number of its record and of its view.
pub(super) type Sight = (u32, [(u32, u32); KIDS]);

/// What is left of a sight without some fact of a component, or without anything; its numbers are none of a whole
/// sight's. `None` for what all components are looked at with.
pub(super) fn blind_sight(
    codec: &Codec,
    known: &mut Interner<View>,
    state: &State,
    views: &[u32; KIDS],
    world: &World,
    blindness: &Blindness,
) -> Option<Sight> {
    const NO_JOBS: u32 = 1 << 31;
    const NO_READINESS: u32 = 1 << 30;
    const NOTHING: u32 = 1 << 29;
    const ANYTHING: u32 = 1 << 28;
    let mut sight = (state.head, [(0, 0); KIDS]);
    for (seen, (kid, view)) in sight.1.iter_mut().zip(state.kids.iter().zip(views)) {
        *seen = (kid.record, *view);
    }
    let (name, mark) = match blindness {
        Blindness::Jobs(name) => (name, NO_JOBS),
        Blindness::Readiness(name) => (name, NO_READINESS),
        Blindness::Component(name) => (name, NOTHING),
        Blindness::Anything => {
            for (seen, name) in sight.1.iter_mut().zip(&codec.names) {
                seen.1 = ANYTHING | u32::from(world.components.contains_key(name));
            }
            return Some(sight);
        }
        Blindness::Intent
        | Blindness::Assigned
        | Blindness::Access
        | Blindness::Namespace(_)
        | Blindness::Slices
        | Blindness::Slice(..)
        | Blindness::Furniture(_) => return None,
    };
    let at = codec.kid_of(name)?;
    let (jobs, readiness) = View::clone(known.value(views[at]));
    sight.1[at].1 = mark
        | match mark {
            NO_JOBS => known.number((Vec::new(), readiness)),
            NO_READINESS => known.number((jobs, Seen::Unknown(Ignorance::Failed))),
            _ => 0,
        };
    Some(sight)
}

pub(super) fn job_views(cell: &Cell) -> Vec<JobView> {
    let payload = |name| cell.secrets.get(name).map(|secret| secret.uid.clone());
    cell.jobs.iter().map(|(name, job)| job.view_with(name, payload(name))).collect()
}

/// What the operator sees: its record and its world.
pub(super) fn sight(cluster: &Cluster, specs: &Specs) -> (Record, World) {
    let own = cluster.own.clone().unwrap_or_else(|| Own::new(None));
    let record = own.record.clone().unwrap_or_default();
    let world = observe(cluster, specs, &own, &record, None);
    (record, world)
}

/// The component whose part of the cluster a command changes.
pub(super) fn kid_of(codec: &Codec, command: &Command) -> Option<usize> {
    match command {
        Command::CreatePayload { component, .. } | Command::CreateJob { component, .. } => {
            codec.kid_of(component)
        }
        Command::Cleanup(cleanup) => match cleanup {
            Cleanup::CreateUndeployJob { component, .. } => codec.kid_of(component),
            Cleanup::DeletePayload { name, .. } | Cleanup::DeleteJob { name, .. } => codec.kid_of_job(name),
            Cleanup::DeleteSelf
            | Cleanup::Unfurnish { .. }
            | Cleanup::Unshare(_)
            | Cleanup::DeleteNamespace(_)
            | Cleanup::DropFinalizer => None,
        },
        Command::AddFinalizer
        | Command::CreateNamespace { .. }
        | Command::BindOperator(_)
        | Command::CreateDeployerAccount(_)
        | Command::BindDeployer(_)
        | Command::Furnish { .. }
        | Command::Share(_) => None,
    }
}

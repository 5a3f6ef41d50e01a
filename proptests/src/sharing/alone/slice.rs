//! The machine of a slice alone.

use super::{AILED, BASE, LATE, POD_FAILURE_SECS, Report, few, job_lists, kept, some_failure, uid};
use crate::laws::{
    Breach,
    slice::{Alone, all},
};
use petri_machines::{
    component::{ATTEMPTS_MAX, DISRUPTIONS_MAX},
    job::Op,
    kernel::{Machine as _, Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, Digest, EnvironmentName, SharedName, Uid},
    shared::{Abandoned, Consumer, Roster},
    slice::{Notice, Obligation, Permission, Phase, Planned, Record, Standing, View, World},
};
use std::collections::BTreeSet;

/// Explores the machine to closure.
///
/// # Errors
/// The first law that does not hold.
pub fn explore() -> Result<Report, Breach> {
    let mut report = Report::default();
    let first = Record::new(shared(), 0);
    let mut known = BTreeSet::from([first.clone()]);
    let mut frontier = vec![first];
    while let Some(record) = frontier.pop() {
        let stored = serde_json::to_value(&record).unwrap_or_default();
        report.stored.entry(record.phase.name().to_lowercase()).or_insert(stored);
        for world in worlds(&record) {
            all(&record, &world)?;
            report.atlas.slice(&record, &world);
            report.steps += 1;
            let step = Alone::step(record.clone(), &world);
            let step = step.map_err(|error| Breach { law: "settles", what: error.to_string() })?;
            for notice in &step.notices {
                if let Notice::Moved { from, to } = notice {
                    report.moves.insert((from, to));
                }
            }
            let next = canonical(step.phase, world.now.0);
            if known.insert(next.clone()) {
                frontier.push(next);
            }
        }
    }
    report.records = known.len();
    Ok(report)
}

/// Asks every law of a record in all of its worlds.
///
/// # Errors
/// The first law that does not hold.
pub fn holds(record: &Record) -> Result<(), Breach> {
    worlds(record).iter().try_for_each(|world| all(record, world))
}

fn shared() -> SharedName {
    SharedName::new("pg").unwrap_or_else(|_| unreachable!("a label"))
}

fn component() -> ComponentName {
    ComponentName::new("db").unwrap_or_else(|_| unreachable!("a label"))
}

fn environment(name: &str) -> EnvironmentName {
    EnvironmentName::new(name).unwrap_or_else(|_| unreachable!("a name"))
}

fn payload(version: &str) -> Digest {
    Digest::of(&[version])
}

fn canonical(mut record: Record, now: u64) -> Record {
    match &mut record.phase {
        Phase::Pending { not_before: Some(at) }
        | Phase::Draining { kill_at: at }
        | Phase::Retreating { not_before: at } => kept(at, now),
        Phase::Provisioning { attempt } | Phase::Deprovisioning { attempt } => attempt.serial = 2,
        Phase::Pending { not_before: None }
        | Phase::Provisioned
        | Phase::Failed
        | Phase::Releasing { .. }
        | Phase::Gone { .. } => {}
    }
    record.provision_attempts = few(record.provision_attempts, ATTEMPTS_MAX);
    record.deprovision_attempts = few(record.deprovision_attempts, ATTEMPTS_MAX);
    record.disruptions = few(record.disruptions, DISRUPTIONS_MAX);
    record.failure = record.failure.map(|_| some_failure());
    if let Some(ailment) = &mut record.ailment {
        let over = ailment.is_over(Timestamp(now), POD_FAILURE_SECS);
        ailment.since = Timestamp(if over { BASE - POD_FAILURE_SECS } else { BASE });
    }
    record
}

fn standings() -> Vec<Seen<Standing>> {
    let consumer = |of: &str| Consumer {
        uid: uid(of),
        environment: environment(of),
        component: component(),
        since: Timestamp(1),
    };
    let abandoned = Abandoned {
        uid: uid("own"),
        environment: environment("own"),
        component: component(),
        at: Timestamp(1),
        reason: String::new(),
    };
    let there = |consumers: &[&str], ready, deleting, waits: &[&str]| Standing::There {
        uid: uid("shared"),
        version: "7".to_owned(),
        deleting,
        ready,
        why: String::new(),
        capacity: Some(1),
        roster: Roster {
            consumers: consumers.iter().map(|one| consumer(one)).collect(),
            abandoned: Vec::new(),
        },
        queue: waits.iter().map(|one| environment(one)).collect(),
    };
    let mut given_up = there(&["own"], true, false, &[]);
    if let Standing::There { roster, .. } = &mut given_up {
        roster.abandoned.push(abandoned);
    }
    let known = [
        Standing::Absent,
        there(&[], true, false, &[]),
        there(&[], true, false, &["earlier"]),
        there(&[], true, true, &[]),
        there(&["other"], true, false, &[]),
        there(&["own"], false, false, &[]),
        there(&["own"], true, false, &[]),
        given_up,
    ];
    known.into_iter().map(Seen::Known).chain([Seen::Unknown(Ignorance::Failed)]).collect()
}

fn obligations() -> Vec<Seen<Option<Obligation>>> {
    let one = |version: &str, deprovisions| Obligation {
        uid: uid("owed"),
        shared: shared(),
        payload: Some(payload(version)),
        deprovisions,
    };
    let known = [None, Some(one("v1", true)), Some(one("v2", true)), Some(one("v1", false))];
    known.into_iter().map(Seen::Known).chain([Seen::Unknown(Ignorance::Failed)]).collect()
}

/// What is seen when all is well, and with one thing otherwise.
fn glances(op: Option<Op>) -> Vec<View> {
    let base = View {
        shared: shared(),
        standing: Seen::Unknown(Ignorance::Failed),
        obligation: obligations().swap_remove(1),
        binding: Seen::Known(Some(uid("binding"))),
        jobs: Seen::Known(Vec::new()),
    };
    let mut all: Vec<View> =
        standings().into_iter().map(|standing| View { standing, ..base.clone() }).collect();
    let held = all.swap_remove(HELD);
    all.extend(obligations().into_iter().map(|obligation| View { obligation, ..held.clone() }));
    all.extend(bindings().into_iter().map(|binding| View { binding, ..held.clone() }));
    all.extend(job_lists(op, Op::Provision).into_iter().map(|jobs| View { jobs, ..held.clone() }));
    all
}

/// The standing in which the place is held and the shared component serves.
const HELD: usize = 6;

fn bindings() -> [Seen<Option<Uid>>; 3] {
    [Seen::Known(None), Seen::Known(Some(uid("binding"))), Seen::Unknown(Ignorance::Failed)]
}

/// All that may be seen while no Job is there.
fn views() -> Vec<View> {
    let mut views = Vec::new();
    for standing in standings() {
        for obligation in obligations() {
            for binding in bindings() {
                views.push(View {
                    shared: shared(),
                    standing: standing.clone(),
                    obligation: obligation.clone(),
                    binding,
                    jobs: Seen::Known(Vec::new()),
                });
            }
        }
    }
    views
}

/// What may be wanted in a phase, and how, and whether all is looked at that there is to see.
fn wishes(record: &Record) -> Vec<(Permission, Option<Planned>, Option<SharedName>, bool)> {
    let plan = |version: Option<&str>, provisions| {
        Some(Planned { shared: shared(), level: 0, payload: version.map(payload), provisions })
    };
    let releases = matches!(record.phase, Phase::Releasing { .. } | Phase::Draining { .. });
    let mut all = vec![
        (Permission::Leaving, None, None, releases),
        (Permission::Held, plan(Some("v1"), true), None, false),
        (Permission::Admitted, None, None, false),
    ];
    if matches!(record.phase, Phase::Pending { .. }) {
        let first = SharedName::new("aa").ok();
        all.extend([
            (Permission::Admitted, plan(Some("v1"), true), None, true),
            (Permission::Admitted, plan(Some("v1"), true), first, false),
            (Permission::Admitted, plan(Some("v1"), false), None, false),
            (Permission::Admitted, plan(None, true), None, false),
        ]);
    } else {
        all.push((Permission::Admitted, plan(Some("v1"), true), None, false));
    }
    all
}

fn worlds(record: &Record) -> Vec<World> {
    let op = match &record.phase {
        Phase::Provisioning { .. } => Some(Op::Provision),
        Phase::Deprovisioning { .. } => Some(Op::Deprovision),
        Phase::Pending { .. }
        | Phase::Provisioned
        | Phase::Failed
        | Phase::Draining { .. }
        | Phase::Retreating { .. }
        | Phase::Releasing { .. }
        | Phase::Gone { .. } => None,
    };
    let times: &[u64] = match &record.phase {
        Phase::Provisioning { .. } | Phase::Deprovisioning { .. } => &[BASE, AILED],
        Phase::Pending { not_before: Some(_) } | Phase::Draining { .. } | Phase::Retreating { .. } => {
            &[BASE, LATE]
        }
        Phase::Pending { not_before: None }
        | Phase::Provisioned
        | Phase::Failed
        | Phase::Releasing { .. }
        | Phase::Gone { .. } => &[BASE],
    };
    // Only one that is released looks for its binding in its namespace.
    let places: &[bool] =
        if matches!(record.phase, Phase::Releasing { .. }) { &[true, false] } else { &[true] };
    let (glances, views) = (glances(op), views());
    let mut worlds = Vec::new();
    for (permission, plan, after, whole) in wishes(record) {
        let seen = glances.iter().chain(views.iter().filter(|_| whole)).map(Some).chain([None]);
        for view in seen {
            for now in times {
                for has_namespace in places {
                    worlds.push(World {
                        now: Timestamp(*now),
                        pod_failure_secs: POD_FAILURE_SECS,
                        consumer: uid("own"),
                        component: component(),
                        permission,
                        after: after.clone(),
                        has_namespace: *has_namespace,
                        plan: plan.clone(),
                        next_serial: 3,
                        view: view.cloned(),
                    });
                }
            }
        }
    }
    worlds
}

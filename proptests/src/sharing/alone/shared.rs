//! The machine of a shared component alone. From each of some whole worlds one thing at a time is otherwise.

use super::{AILED, BASE, LATE, POD_FAILURE_SECS, Report, job_lists, uid};
use crate::{
    explorer::alone::canonical as canonical_workload,
    laws::{Breach, shared::all},
};
use petri_machines::{
    component::{self, ATTEMPTS_MAX, Planned, Readiness},
    environment::{Invalid, Reason},
    job::Op,
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, Digest, EnvironmentName, SharedName, Uid},
    reason::FailureReason,
    shared::{
        Consumer, Identity, Instance, InstancePlan, Notice, Owed, Plan, Provider, Record, Roster, World,
    },
};
use std::collections::{BTreeMap, BTreeSet};

const PROVIDER: &str = "p";
const IDLE_SECS: u64 = 60;

/// Explores the machine to closure.
///
/// # Errors
/// The first law that does not hold.
pub fn explore() -> Result<Report, Breach> {
    let mut report = Report::default();
    let first = Record::default();
    let mut known = BTreeSet::from([first.clone()]);
    let mut frontier = vec![first];
    while let Some(record) = frontier.pop() {
        let workload = record.memory.workload.as_ref().map_or("none", |workload| workload.phase.name());
        let key = format!("{}_{workload}", record.phase.name()).to_lowercase();
        report.stored.entry(key).or_insert_with(|| serde_json::to_value(&record).unwrap_or_default());
        for world in worlds(&record) {
            let step = all(&record, &world)?;
            report.atlas.shared(&record, &world);
            report.steps += 1;
            for notice in &step.notices {
                if let Notice::Moved { from, to, .. } = notice {
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

fn canonical(mut record: Record, now: u64) -> Record {
    record.memory.workload = record.memory.workload.map(|workload| {
        let mut workload = canonical_workload(workload, now);
        // How its attempts go is explored with the component: here one fails, or is the last.
        let last = |attempts: u8| if attempts == 0 { 0 } else { attempts.max(ATTEMPTS_MAX - 1) };
        workload.deploy_attempts = last(workload.deploy_attempts);
        workload.undeploy_attempts = last(workload.undeploy_attempts);
        (workload.disruptions, workload.ailment) = (0, None);
        if let Some(accepted) = &mut workload.accepted {
            accepted.payload = Digest::of(&["chart"]);
        }
        workload
    });
    // How long it has been unused is told by the world's clock, and a token that was honoured is followed by others.
    record.memory.idle_since = record.memory.idle_since.map(|_| Timestamp(BASE));
    record.memory.retry = None;
    record.memory.serial = 2;
    record
}

/// Asks every law of a record in all of its worlds.
///
/// # Errors
/// The first law that does not hold.
pub fn holds(record: &Record) -> Result<(), Breach> {
    worlds(record).iter().try_for_each(|world| all(record, world).map(drop))
}

fn consumer(of: &str) -> Consumer {
    Consumer {
        uid: uid(of),
        environment: EnvironmentName::new(of).unwrap_or_else(|_| unreachable!("a name")),
        component: ComponentName::new("db").unwrap_or_else(|_| unreachable!("a label")),
        since: Timestamp(1),
    }
}

fn owed(of: &str) -> Owed {
    let Consumer { uid: consumer, environment, component, since } = consumer(of);
    Owed { secret: uid("owed"), uid: consumer, environment, component, since }
}

fn planned(chart: &str) -> Plan {
    let payload = Digest::of(&[chart]);
    Plan {
        provider: PROVIDER.to_owned(),
        workload: Some(Planned { level: 0, payload, immutable: false, ready_within_secs: 900 }),
        instance: Some(InstancePlan { name: "secret".to_owned(), generates: true }),
        capacity: Some(1),
        idle_secs: Some(IDLE_SECS),
    }
}

/// A world in which all is well, somebody uses it, and nothing is asked for.
fn used(readiness: Seen<Readiness>) -> World {
    World {
        now: Timestamp(BASE),
        pod_failure_secs: POD_FAILURE_SECS,
        identity: Identity {
            uid: uid("shared"),
            name: SharedName::new("pg").unwrap_or_else(|_| unreachable!("a label")),
            generation: 1,
        },
        deletion: false,
        finalizer: true,
        retry: None,
        forget: None,
        intent: Seen::Known(Ok(planned("chart"))),
        providers: providers(Some(true), false, false),
        instance: Seen::Known(Instance::There { uid: uid("secret"), complete: true }),
        jobs: Seen::Known(Vec::new()),
        readiness,
        roster: Roster { consumers: vec![consumer("env")], abandoned: Vec::new() },
        obligations: Seen::Known(Vec::new()),
        living: Seen::Known(BTreeSet::from([uid("env")])),
    }
}

/// `finalizer` is `None` for a provider that is not there.
fn providers(finalizer: Option<bool>, deleting: bool, others: bool) -> BTreeMap<String, Option<Provider>> {
    let version = "1".to_owned();
    let provider =
        |finalizer| Provider { uid: uid("provider"), version: version.clone(), deleting, finalizer, others };
    [(PROVIDER.to_owned(), finalizer.map(provider))].into()
}

fn unused(world: &World) -> World {
    World { roster: Roster::default(), living: Seen::Known(BTreeSet::<Uid>::new()), ..world.clone() }
}

type Change = Box<dyn Fn(&mut World)>;

fn change(change: impl Fn(&mut World) + 'static) -> Change {
    Box::new(change)
}

/// Everything that may be otherwise.
fn changes() -> Vec<Change> {
    let why = Ignorance::Failed;
    let invalid = |message: &str| {
        Seen::Known(Err(Invalid { reason: Reason::InvalidConfiguration, message: message.to_owned() }))
    };
    let intent = |to: Seen<Result<Plan, Invalid>>| change(move |world| world.intent = to.clone());
    let plan = |of: &dyn Fn(&mut Plan)| {
        let mut plan = planned("chart");
        of(&mut plan);
        Seen::Known(Ok(plan))
    };
    let instance = |to: Instance| change(move |world| world.instance = Seen::Known(to.clone()));
    let partial = Instance::There { uid: uid("secret"), complete: false };
    let provider = |finalizer, deleting, others| {
        change(move |world| world.providers = providers(finalizer, deleting, others))
    };
    let mut all = vec![
        change(|_| {}),
        change(|world| world.finalizer = false),
        change(|world| world.deletion = true),
        change(|world| world.retry = Some("again".to_owned())),
        change(|world| world.forget = Some(uid("env"))),
        intent(Seen::Unknown(why)),
        intent(invalid("one")),
        intent(invalid("two")),
        intent(Seen::Known(Ok(planned("another")))),
        intent(plan(&|plan| plan.workload = None)),
        intent(plan(&|plan| plan.instance = None)),
        intent(plan(&|plan| plan.idle_secs = None)),
        instance(Instance::Absent),
        instance(partial),
        change(move |world| world.instance = Seen::Unknown(why)),
        provider(None, false, false),
        provider(Some(false), false, false),
        provider(Some(false), true, false),
        provider(Some(true), true, false),
        provider(Some(true), false, true),
        change(|world| world.providers.clear()),
        change(move |world| world.readiness = Seen::Unknown(why)),
        change(|world| {
            let cause = Some(FailureReason::CrashLoop);
            world.readiness = Seen::Known(Readiness::Unready { why: String::new(), cause });
        }),
        change(|world| world.obligations = Seen::Known(vec![owed("env")])),
        change(|world| world.obligations = Seen::Known(vec![owed("gone")])),
        change(move |world| world.obligations = Seen::Unknown(why)),
        change(move |world| world.living = Seen::Unknown(why)),
        change(|world| world.living = Seen::Known(BTreeSet::new())),
        change(|world| {
            world.now = Timestamp(AILED);
        }),
        change(|world| {
            world.now = Timestamp(LATE);
        }),
    ];
    all.push(change(|world| {
        let given_up = petri_machines::shared::Abandoned {
            uid: uid("env"),
            environment: consumer("env").environment,
            component: consumer("env").component,
            at: Timestamp(1),
            reason: String::new(),
        };
        world.roster = world.roster.abandon(given_up);
        world.obligations = Seen::Known(vec![owed("env")]);
        world.forget = Some(uid("env"));
    }));
    all
}

fn worlds(record: &Record) -> Vec<World> {
    let attempt = record.memory.workload.as_ref().and_then(|workload| {
        let leaves = matches!(workload.phase, component::Phase::Undeploying { .. });
        workload.attempt().map(|_| if leaves { Op::Undeploy } else { Op::Deploy })
    });
    let settles = record.memory.workload.as_ref().is_some_and(|workload| workload.attempt().is_none());
    let readiness = if settles { Seen::Known(Readiness::Ready) } else { Seen::Unknown(Ignorance::NotAsked) };
    let used = used(readiness);
    let unused = unused(&used);
    let doomed = World { deletion: true, ..unused.clone() };
    let bare = World {
        finalizer: false,
        providers: providers(Some(false), false, false),
        instance: Seen::Known(Instance::Absent),
        intent: Seen::Known(Ok(Plan { workload: None, ..planned("chart") })),
        ..used.clone()
    };
    let mut worlds = Vec::new();
    for base in [used, unused, doomed, bare] {
        for jobs in job_lists(attempt, Op::Deploy) {
            worlds.push(World { jobs, ..base.clone() });
        }
        for change in changes() {
            let mut world = base.clone();
            change(&mut world);
            worlds.push(world);
        }
    }
    worlds
}

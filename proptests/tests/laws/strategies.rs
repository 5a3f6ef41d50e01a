//! Strategies for records and worlds. The pools are small on purpose: what matters is whether two things are equal.

use petri_machines::{
    component::{self, Accepted, Ailment, Permission, Planned, Readiness},
    environment::{
        self, Access, Binding, Blueprint, Cause, ComponentView, Failure, FurnitureId, FurnitureKind,
        Identity, Invalid, Memory, NamespaceRef, Namespaces, Occupancy, Plan, Reason, Rollout, Route,
        Standing,
    },
    job::{Attempt, Complaint, JobFailure, JobState, JobView, Op},
    kernel::{Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, Digest, EnvironmentName, JobName, NamespaceName, Uid},
    reason::FailureReason,
};
use proptest::{collection::btree_map, collection::vec, option, prelude::*, sample::select};
use std::collections::BTreeMap;

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

pub fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

pub fn name(text: &str) -> ComponentName {
    ComponentName::new(text).unwrap()
}

pub fn time() -> impl Strategy<Value = Timestamp> + Clone {
    prop_oneof![8 => (0..1000u64).prop_map(Timestamp), 1 => Just(Timestamp(u64::MAX))]
}

/// The present; a deadline may lie at the end of time, the present may not.
pub fn present() -> impl Strategy<Value = Timestamp> {
    (0..1000u64).prop_map(Timestamp)
}

pub fn payload() -> impl Strategy<Value = Digest> + Clone {
    select(vec![Digest::of(&["first"]), Digest::of(&["second"])])
}

fn ignorance() -> impl Strategy<Value = Ignorance> + Clone {
    select(vec![Ignorance::Unsynced, Ignorance::Failed, Ignorance::Forbidden, Ignorance::NotAsked])
}

pub fn seen<T: Clone + std::fmt::Debug + 'static>(
    fact: impl Strategy<Value = T>,
) -> impl Strategy<Value = Seen<T>> {
    prop_oneof![5 => fact.prop_map(Seen::Known), 1 => ignorance().prop_map(Seen::Unknown)]
}

fn job_uid() -> impl Strategy<Value = Uid> + Clone {
    select(vec![uid("j1"), uid("j2"), uid("j3")])
}

pub fn failure() -> impl Strategy<Value = JobFailure> + Clone {
    (select(FailureReason::ALL.to_vec()), select(vec!["", "boom", "long"]), any::<bool>()).prop_map(
        |(reason, message, disrupted)| {
            let message = if message == "long" { "é".repeat(4000) } else { message.to_owned() };
            JobFailure { reason, message, disrupted }
        },
    )
}

fn complaint() -> impl Strategy<Value = Complaint> + Clone {
    (pod_reason(), select(vec!["", "back-off", "long"])).prop_map(|(reason, message)| {
        let message = if message == "long" { "é".repeat(4000) } else { message.to_owned() };
        Complaint { reason, message }
    })
}

fn pod_reason() -> impl Strategy<Value = FailureReason> + Clone {
    select(vec![FailureReason::ImagePull, FailureReason::CrashLoop, FailureReason::AdmissionDenied])
}

fn pod_failure_secs() -> impl Strategy<Value = u64> + Clone {
    select(vec![0, 1, 300, u64::MAX])
}

fn op() -> impl Strategy<Value = Op> + Clone {
    select(vec![Op::Deploy, Op::Undeploy])
}

pub fn serial() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![20 => 0..5u64, 1 => Just(u64::MAX)]
}

pub fn attempt() -> impl Strategy<Value = Attempt> + Clone {
    (serial(), option::of(job_uid())).prop_map(|(serial, job)| Attempt { serial, job })
}

pub fn job() -> impl Strategy<Value = JobView> + Clone {
    let state = prop_oneof![
        option::of(complaint()).prop_map(|waiting| JobState::Active { waiting }),
        Just(JobState::Succeeded),
        failure().prop_map(JobState::Failed),
    ];
    (serial(), job_uid(), op(), state, any::<bool>(), any::<bool>()).prop_map(
        |(serial, uid, op, state, deleting, payload)| {
            let name = JobName::new(format!("petri-{}-{}", op.as_str(), serial % 100)).unwrap();
            let payload = payload.then(|| Uid::new(format!("secret-{uid}")).unwrap());
            JobView { name, uid, serial, op, state, deleting, payload }
        },
    )
}

/// Jobs of one component; no two of them share a UID.
pub fn jobs() -> impl Strategy<Value = Vec<JobView>> + Clone {
    vec(job(), 0..4).prop_map(|mut jobs| {
        jobs.sort_by(|a, b| a.uid.cmp(&b.uid));
        jobs.dedup_by(|a, b| a.uid == b.uid);
        jobs
    })
}

fn component_phase() -> impl Strategy<Value = component::Phase> + Clone {
    use component::Phase;
    prop_oneof![
        option::of(time()).prop_map(|not_before| Phase::Pending { not_before }),
        attempt().prop_map(|attempt| Phase::Submitting { attempt }),
        attempt().prop_map(|attempt| Phase::Deploying { attempt }),
        (time(), time()).prop_map(|(since, give_up_at)| Phase::Settling { since, give_up_at }),
        Just(Phase::Ready),
        Just(Phase::Failed),
        time().prop_map(|kill_at| Phase::Draining { kill_at }),
        attempt().prop_map(|attempt| Phase::Undeploying { attempt }),
        time().prop_map(|not_before| Phase::Retreating { not_before }),
        any::<bool>().prop_map(|forced| Phase::Gone { forced }),
    ]
}

pub fn attempts() -> impl Strategy<Value = u8> + Clone {
    prop_oneof![10 => 0..6u8, 1 => Just(u8::MAX), 1 => 19..21u8]
}

pub fn component() -> impl Strategy<Value = component::Record> + Clone {
    let accepted =
        (serial(), job_uid(), payload()).prop_map(|(serial, job, payload)| Accepted { serial, job, payload });
    let counters = (attempts(), attempts(), attempts());
    let ailment = (time(), complaint()).prop_map(|(since, complaint)| Ailment { since, complaint });
    (
        component_phase(),
        0..4u32,
        option::of(payload()),
        option::of(accepted),
        counters,
        option::of(failure()),
        option::of(ailment),
        any::<bool>(),
    )
        .prop_map(|(phase, level, payload, accepted, counters, failure, ailment, touched)| {
            component::Record {
                phase,
                level,
                payload,
                accepted,
                deploy_attempts: counters.0,
                undeploy_attempts: counters.1,
                disruptions: counters.2,
                failure,
                ailment,
                touched,
            }
        })
}

pub fn readiness() -> impl Strategy<Value = Readiness> + Clone {
    let unready = option::of(pod_reason())
        .prop_map(|cause| Readiness::Unready { why: "web: 0 of 1 replicas".to_owned(), cause });
    prop_oneof![Just(Readiness::Ready), unready]
}

pub fn planned() -> impl Strategy<Value = Planned> + Clone {
    (0..4u32, payload(), any::<bool>(), select(vec![0, 60, u64::MAX])).prop_map(
        |(level, payload, immutable, ready_within_secs)| Planned {
            level,
            payload,
            immutable,
            ready_within_secs,
        },
    )
}

pub fn component_world() -> impl Strategy<Value = component::World> {
    let permission = prop_oneof![
        3 => Just(Permission::Admitted),
        2 => Just(Permission::Held),
        3 => any::<bool>().prop_map(|turn| Permission::Leaving { turn }),
        1 => Just(Permission::Abandoned),
    ];
    let times = (present(), pod_failure_secs());
    (times, permission, option::weighted(0.8, planned()), serial(), seen(jobs()), seen(readiness())).prop_map(
        |((now, pod_failure_secs), permission, plan, next_serial, jobs, readiness)| component::World {
            now,
            pod_failure_secs,
            permission,
            plan,
            next_serial,
            jobs,
            readiness,
        },
    )
}

/// A plan over some of the names. Who depends on whom is drawn as a mask over the names before it: never a cycle.
pub fn plan() -> impl Strategy<Value = Plan> + Clone {
    vec((any::<bool>(), 0..8usize, payload(), any::<bool>(), select(vec![0, 60])), NAMES.len()).prop_map(
        |drawn| {
            let taken: Vec<usize> = (0..NAMES.len()).filter(|i| drawn[*i].0).collect();
            let blueprint = |i: &usize| Blueprint {
                name: name(NAMES[*i]),
                depends_on: taken
                    .iter()
                    .filter(|j| *j < i && drawn[*i].1 & (1 << **j) != 0)
                    .map(|j| name(NAMES[*j]))
                    .collect(),
                payload: drawn[*i].2.clone(),
                immutable: drawn[*i].3,
                ready_within_secs: drawn[*i].4,
            };
            Plan::new(&taken.iter().map(blueprint).collect::<Vec<_>>()).unwrap()
        },
    )
}

fn furniture_id() -> impl Strategy<Value = FurnitureId> + Clone {
    let kinds = [FurnitureKind::Secret, FurnitureKind::Ingress, FurnitureKind::HttpRoute];
    select(kinds.to_vec()).prop_map(|kind| FurnitureId { kind, name: "petri".to_owned() })
}

/// A plan with or without furniture; the route may be missing from it.
fn furnished() -> impl Strategy<Value = Plan> {
    let route = option::of(furniture_id().prop_map(|item| Route { item, url: "http://preview".to_owned() }));
    (plan(), btree_map(furniture_id(), payload(), 0..3), route, crate::sharing::plans())
        .prop_map(|(plan, furniture, route, slices)| Plan { slices, ..plan.with_furniture(furniture, route) })
}

fn standing() -> impl Strategy<Value = Standing> + Clone {
    let there = (option::of(payload()), any::<bool>()).prop_map(|(digest, published)| Standing::There {
        uid: uid("f1"),
        digest,
        published,
    });
    prop_oneof![
        1 => Just(Standing::Absent),
        1 => Just(Standing::Unserved),
        1 => Just(Standing::Leaving),
        3 => there,
    ]
}

pub fn identity() -> Identity {
    Identity { uid: uid("e1"), name: EnvironmentName::new("preview").unwrap(), generation: 3 }
}

fn namespace_name() -> impl Strategy<Value = NamespaceName> + Clone {
    let candidates = NamespaceName::candidates(&identity().uid);
    let foreign = NamespaceName::new("petri-shared").unwrap();
    prop_oneof![
        8 => Just(candidates[0].clone()),
        3 => Just(candidates[1].clone()),
        1 => select(candidates),
        1 => Just(foreign),
    ]
}

fn namespace_uid() -> impl Strategy<Value = Uid> + Clone {
    select(vec![uid("n1"), uid("n1"), uid("n2")])
}

fn binding() -> impl Strategy<Value = Binding> + Clone {
    let namespace = (namespace_name(), namespace_uid()).prop_map(|(name, uid)| NamespaceRef { name, uid });
    prop_oneof![
        1 => Just(Binding::Unassigned),
        1 => namespace_name().prop_map(|name| Binding::Claimed { name }),
        4 => namespace.prop_map(|namespace| Binding::Bound { namespace }),
    ]
}

fn occupancy() -> impl Strategy<Value = Occupancy> + Clone {
    prop_oneof![
        2 => Just(Occupancy::Absent),
        2 => Just(Occupancy::Foreign),
        6 => (namespace_uid(), prop::bool::weighted(0.2), option::of(Just("a finalizer".to_owned()))).prop_map(
            |(uid, terminating, blocked)| Occupancy::Ours { uid, terminating, blocked }
        ),
    ]
}

fn namespaces() -> impl Strategy<Value = Namespaces> {
    let access = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(operator, account, deployer)| Access { operator, account, deployer });
    let first = NamespaceName::candidates(&identity().uid)[0].clone();
    (
        seen(vec(namespace_name(), 0..3)),
        option::weighted(0.9, occupancy()),
        btree_map(namespace_name(), occupancy(), 0..4),
        seen(access),
        prop::bool::weighted(0.1),
    )
        .prop_map(move |(assigned, at_first, mut occupancy, access, all_taken)| {
            occupancy.extend(at_first.map(|at| (first.clone(), at)));
            if all_taken {
                let names = NamespaceName::candidates(&identity().uid);
                occupancy = names.into_iter().map(|name| (name, Occupancy::Foreign)).collect();
            }
            Namespaces { assigned, occupancy, access }
        })
}

fn reason() -> impl Strategy<Value = Reason> + Clone {
    select(vec![Reason::TemplateNotFound, Reason::InvalidTTL, Reason::RenderFailed, Reason::NamespaceLost])
}

fn phase(plan: Digest) -> impl Strategy<Value = environment::Phase> {
    use environment::Phase;
    let held = prop_oneof![4 => Just(plan), 1 => Just(Digest::of(&["another plan"]))];
    let cause = prop_oneof![
        Just(Cause::Input),
        held.clone().prop_map(|plan| Cause::Running { plan }),
        Just(Cause::Namespace)
    ];
    let failure = (reason(), select(vec!["", "no such template"]), cause)
        .prop_map(|(reason, message, cause)| Failure { reason, message: message.to_owned(), cause });
    prop_oneof![
        Just(Phase::Pending),
        held.clone().prop_map(|plan| Phase::Deploying { plan }),
        held.prop_map(|plan| Phase::Ready { plan }),
        failure.prop_map(|failure| Phase::Failed { failure }),
        any::<bool>().prop_map(|cleaned| Phase::Terminating { cleaned }),
    ]
}

fn history(plan: Digest) -> impl Strategy<Value = Vec<Rollout>> {
    let one = (option::of(any::<bool>()), option::of(reason()), time(), option::of(time())).prop_map(
        move |(ready, reason, started_at, ended_at)| Rollout {
            plan: plan.clone(),
            ready,
            reason,
            started_at,
            ended_at,
        },
    );
    vec(one, 0..7)
}

pub fn token() -> impl Strategy<Value = Option<String>> + Clone {
    select(vec![None, Some("t1".to_owned()), Some("t2".to_owned())])
}

pub fn record(plan: Digest) -> impl Strategy<Value = environment::Record> {
    let components = btree_map(select(NAMES.to_vec()).prop_map(name), component(), 0..5);
    let furniture = btree_map(furniture_id(), option::of(payload()), 0..3);
    let rest = (0..5i64, token(), history(plan.clone()), crate::sharing::records());
    (phase(plan), binding(), serial(), components, furniture, rest).prop_map(
        |(phase, binding, serial, components, furniture, (observed, retry, history, slices))| {
            environment::Record {
                phase,
                memory: Memory {
                    binding,
                    serial,
                    components,
                    slices,
                    observed,
                    retry,
                    history,
                    furniture,
                    url: None,
                },
            }
        },
    )
}

/// Gives the Jobs of a component names of their own: the UIDs may clash, as nothing that exists does.
fn of(component: &str, mut view: ComponentView) -> ComponentView {
    if let Seen::Known(jobs) = &mut view.jobs {
        for job in jobs {
            job.name = JobName::new(format!("{}-{component}", job.name)).unwrap();
        }
    }
    view
}

fn views() -> impl Strategy<Value = BTreeMap<ComponentName, ComponentView>> {
    let view =
        (seen(jobs()), seen(readiness())).prop_map(|(jobs, readiness)| ComponentView { jobs, readiness });
    let some = vec(option::weighted(0.85, view), NAMES.len());
    some.prop_map(|views| {
        let named = NAMES.iter().zip(views);
        named.filter_map(|(one, view)| Some((name(one), of(one, view?)))).collect()
    })
}

pub fn world(plan: Plan) -> impl Strategy<Value = environment::World> {
    let intent = prop_oneof![
        8 => Just(Ok(plan)),
        1 => (reason(), select(vec!["", "no such template"]))
            .prop_map(|(reason, message)| Err(Invalid { reason, message: message.to_owned() })),
    ];
    let own = (
        present(),
        prop::bool::weighted(0.25),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.1),
        token(),
    );
    let times = (option::weighted(0.3, time()), option::weighted(0.3, time()), pod_failure_secs());
    let furniture = (btree_map(furniture_id(), standing(), 0..4), crate::sharing::views());
    (own, times, seen(intent), namespaces(), views(), furniture).prop_map(
        |(
            (now, deletion, finalizer, held, retry),
            (expires_at, expiring_at, pod_failure_secs),
            intent,
            namespaces,
            components,
            (furniture, slices),
        )| {
            environment::World {
                now,
                pod_failure_secs,
                identity: identity(),
                deletion,
                finalizer,
                held,
                retry,
                expires_at,
                expiring_at,
                intent,
                namespaces,
                components,
                slices,
                furniture,
            }
        },
    )
}

/// Any record and any world; they share a plan, so that a record is often current.
pub fn life() -> impl Strategy<Value = (environment::Record, environment::World)> {
    furnished().prop_flat_map(|plan| (record(plan.digest.clone()), world(plan)))
}

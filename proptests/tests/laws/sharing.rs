//! Slices and shared components keep their laws in any world.

use crate::{
    cases,
    strategies::{
        self, attempt, attempts, failure, jobs, name, payload, present, readiness, seen, serial, time, uid,
    },
};
use petri_machines::{
    component::Planned as Workload,
    environment::{Cause, Failure, Invalid, Reason},
    kernel::{Seen, Timestamp},
    names::{ComponentName, EnvironmentName, SharedName, Uid},
    shared::{self, Abandoned, Consumer, Instance, InstancePlan, Owed, Provider, Roster},
    slice::{self, Obligation, Permission, Planned, Standing, View},
};
use petri_proptests::laws;
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};
use std::collections::BTreeMap;

const SLICES: [&str; 3] = ["a", "x", "y"];

fn shared_name() -> impl Strategy<Value = SharedName> + Clone {
    select(vec![SharedName::new("pg").unwrap(), SharedName::new("redis").unwrap()])
}

fn environment() -> EnvironmentName {
    EnvironmentName::new("preview").unwrap()
}

fn consumer_uid() -> impl Strategy<Value = Uid> + Clone {
    select(vec![uid("e1"), uid("e2"), uid("e3")])
}

fn slice_name() -> impl Strategy<Value = ComponentName> + Clone {
    select(SLICES.to_vec()).prop_map(name)
}

fn roster() -> impl Strategy<Value = Roster> + Clone {
    let ids = || vec((consumer_uid(), slice_name(), time()), 0..4);
    (ids(), ids()).prop_map(|(consumers, abandoned)| {
        let mut roster = Roster::default();
        for (uid, component, at) in abandoned {
            let reason = "it broke".to_owned();
            roster = roster.abandon(Abandoned { uid, environment: environment(), component, at, reason });
        }
        for (uid, component, since) in consumers {
            let one = Consumer { uid, environment: environment(), component, since };
            roster = roster.register(one, None, false).unwrap();
        }
        roster
    })
}

fn standing() -> impl Strategy<Value = Standing> + Clone {
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.7));
    let queue = vec(Just(environment()), 0..2);
    let there = (flags, option::of(0..4u32), roster(), queue).prop_map(
        |((deleting, ready), capacity, roster, queue)| Standing::There {
            uid: uid("s1"),
            version: "7".to_owned(),
            deleting,
            ready,
            why: "0 of 1 replicas".to_owned(),
            capacity,
            roster,
            queue,
        },
    );
    prop_oneof![1 => Just(Standing::Absent), 6 => there]
}

fn obligation() -> impl Strategy<Value = Obligation> + Clone {
    (shared_name(), option::of(payload()), any::<bool>()).prop_map(|(shared, payload, deprovisions)| {
        Obligation { uid: uid("o1"), shared, payload, deprovisions }
    })
}

fn view() -> impl Strategy<Value = View> {
    (
        shared_name(),
        seen(standing()),
        seen(option::of(obligation())),
        seen(option::of(Just(uid("b1")))),
        seen(jobs()),
    )
        .prop_map(|(shared, standing, obligation, binding, jobs)| View {
            shared,
            standing,
            obligation,
            binding,
            jobs,
        })
}

fn planned() -> impl Strategy<Value = Planned> + Clone {
    (shared_name(), 0..3u32, option::weighted(0.8, payload()), any::<bool>())
        .prop_map(|(shared, level, payload, provisions)| Planned { shared, level, payload, provisions })
}

fn phase() -> impl Strategy<Value = slice::Phase> + Clone {
    use slice::Phase;
    prop_oneof![
        2 => option::of(time()).prop_map(|not_before| Phase::Pending { not_before }),
        1 => attempt().prop_map(|attempt| Phase::Provisioning { attempt }),
        2 => Just(Phase::Provisioned),
        1 => Just(Phase::Failed),
        1 => time().prop_map(|kill_at| Phase::Draining { kill_at }),
        1 => attempt().prop_map(|attempt| Phase::Deprovisioning { attempt }),
        1 => time().prop_map(|not_before| Phase::Retreating { not_before }),
        1 => any::<bool>().prop_map(|forced| Phase::Releasing { forced }),
        1 => any::<bool>().prop_map(|forced| Phase::Gone { forced }),
    ]
}

fn record() -> impl Strategy<Value = slice::Record> + Clone {
    let counters = (attempts(), attempts(), attempts());
    let payloads = (option::of(payload()), option::of(payload()));
    (phase(), shared_name(), 0..3u32, payloads, counters, option::of(failure())).prop_map(
        |(phase, shared, level, (accepted, payload), counters, failure)| slice::Record {
            phase,
            shared,
            level,
            accepted,
            payload,
            provision_attempts: counters.0,
            deprovision_attempts: counters.1,
            disruptions: counters.2,
            failure,
            ailment: None,
        },
    )
}

fn slice_world() -> impl Strategy<Value = slice::World> {
    let permission = select(vec![Permission::Admitted, Permission::Held, Permission::Leaving]);
    let after = option::weighted(0.2, shared_name());
    let rest = (any::<bool>(), option::weighted(0.8, planned()), serial(), option::weighted(0.9, view()));
    (present(), permission, slice_name(), after, rest).prop_map(
        |(now, permission, component, after, (has_namespace, plan, next_serial, view))| slice::World {
            now,
            pod_failure_secs: 300,
            consumer: uid("e1"),
            component,
            permission,
            after,
            has_namespace,
            plan,
            next_serial,
            view,
        },
    )
}

/// Slices of an environment's record; none is the most common.
pub fn records() -> impl Strategy<Value = BTreeMap<ComponentName, slice::Record>> {
    prop_oneof![Just(BTreeMap::new()), btree_map(slice_name(), record(), 0..3)]
}

/// Slices of a plan.
pub fn plans() -> impl Strategy<Value = BTreeMap<ComponentName, Planned>> {
    prop_oneof![Just(BTreeMap::new()), btree_map(slice_name(), planned(), 0..3)]
}

/// What is seen of slices. The Jobs of each have names and UIDs of their own.
pub fn views() -> impl Strategy<Value = Seen<BTreeMap<ComponentName, View>>> {
    let own = |(name, mut view): (ComponentName, View)| {
        if let Seen::Known(jobs) = &mut view.jobs {
            for job in jobs {
                job.uid = uid(&format!("{}-{name}", job.uid));
            }
        }
        (name, view)
    };
    seen(btree_map(slice_name(), view(), 0..3).prop_map(move |all| all.into_iter().map(own).collect()))
}

fn shared_phase() -> impl Strategy<Value = shared::Phase> {
    use shared::Phase;
    let digest =
        || plan().prop_map(|plan| plan.digest().unwrap_or_else(|| petri_machines::names::Digest::of(&[])));
    let cause = prop_oneof![Just(Cause::Input), digest().prop_map(|plan| Cause::Running { plan })];
    let failed = cause.prop_map(|cause| Phase::Failed {
        failure: Failure { reason: Reason::InvalidConfiguration, message: "no".to_owned(), cause },
    });
    prop_oneof![
        2 => any::<bool>().prop_map(|idle| Phase::Pending { idle }),
        1 => digest().prop_map(|plan| Phase::Deploying { plan }),
        2 => digest().prop_map(|plan| Phase::Ready { plan }),
        1 => failed,
        2 => any::<bool>().prop_map(|cleaned| Phase::Terminating { cleaned }),
    ]
}

fn shared_record() -> impl Strategy<Value = shared::Record> {
    let providers = btree_set(select(vec!["p".to_owned(), "q".to_owned()]), 0..2);
    let instance = option::of(Just("secret".to_owned()));
    let rest = (providers, instance, option::of(time()), 0..4i64, strategies::token());
    (shared_phase(), serial(), option::of(strategies::component()), rest).prop_map(
        |(phase, serial, workload, (providers, instance, idle_since, observed, retry))| shared::Record {
            phase,
            memory: shared::Memory { serial, workload, providers, instance, idle_since, observed, retry },
        },
    )
}

fn plan() -> impl Strategy<Value = shared::Plan> {
    let instance =
        option::of(any::<bool>().prop_map(|generates| InstancePlan { name: "secret".to_owned(), generates }));
    let workload = option::weighted(0.8, (payload(), any::<bool>())).prop_map(|drawn| {
        drawn.map(|(payload, immutable)| Workload { level: 0, payload, immutable, ready_within_secs: 60 })
    });
    (
        select(vec!["p", "q"]),
        workload,
        instance,
        option::of(1..3u32),
        option::of(select(vec![0, 10, u64::MAX])),
    )
        .prop_map(|(provider, workload, instance, capacity, idle_secs)| shared::Plan {
            provider: provider.to_owned(),
            workload,
            instance,
            capacity,
            idle_secs,
        })
}

fn provider() -> impl Strategy<Value = Provider> {
    (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(finalizer, deleting, others)| {
        Provider { uid: uid("p1"), version: "3".to_owned(), deleting, finalizer, others }
    })
}

fn owed() -> impl Strategy<Value = Vec<Owed>> {
    vec((consumer_uid(), slice_name(), time()), 0..3).prop_map(|all| {
        let mut owed: Vec<Owed> = all
            .into_iter()
            .map(|(uid, component, since)| Owed {
                secret: strategies::uid(&format!("o-{uid}-{component}")),
                uid,
                environment: environment(),
                component,
                since,
            })
            .collect();
        owed.sort();
        owed.dedup_by(|a, b| a.secret == b.secret);
        owed
    })
}

fn shared_world() -> impl Strategy<Value = shared::World> {
    let instance = prop_oneof![
        Just(Instance::Absent),
        any::<bool>().prop_map(|complete| Instance::There { uid: uid("i1"), complete }),
    ];
    let intent = prop_oneof![
        8 => plan().prop_map(Ok),
        1 => Just(Err(Invalid { reason: Reason::InvalidConfiguration, message: "no".to_owned() })),
    ];
    let own = (
        present(),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.8),
        strategies::token(),
        option::of(consumer_uid()),
    );
    let providers = btree_map(select(vec!["p".to_owned(), "q".to_owned()]), option::of(provider()), 0..3);
    let workload = (seen(jobs()), seen(readiness()));
    let consumers = (roster(), seen(owed()), seen(btree_set(consumer_uid(), 0..4)));
    (own, seen(intent), providers, seen(instance), workload, consumers).prop_map(
        |(
            (now, deletion, finalizer, retry, forget),
            intent,
            providers,
            instance,
            (jobs, readiness),
            consumers,
        )| {
            let (roster, obligations, living) = consumers;
            shared::World {
                now,
                pod_failure_secs: 300,
                identity: shared::Identity {
                    uid: uid("s1"),
                    name: SharedName::new("pg").unwrap(),
                    generation: 2,
                },
                deletion,
                finalizer,
                retry,
                forget,
                intent,
                providers,
                instance,
                jobs,
                readiness,
                roster,
                obligations,
                living,
            }
        },
    )
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn a_slice_keeps_every_law_in_any_world(record in record(), world in slice_world()) {
        laws::slice::all(&record, &world).map_err(|breach| TestCaseError::fail(breach.to_string()))?;
    }

    #[test]
    fn a_shared_component_keeps_every_law_in_any_world(record in shared_record(), world in shared_world()) {
        laws::shared::all(&record, &world).map_err(|breach| TestCaseError::fail(breach.to_string()))?;
    }

    #[test]
    fn s5_a_list_of_consumers_never_grows_past_its_bound(roster in roster(), max in 0..4u32, uid in consumer_uid()) {
        let one = Consumer { uid, environment: environment(), component: name("x"), since: Timestamp(1) };
        let before = roster.consumers.len();
        if let Ok(next) = roster.register(one, Some(max), false) {
            prop_assert!(next.consumers.len() <= before.max(max as usize));
        }
    }
}

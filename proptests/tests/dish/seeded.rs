//! Lives under random faults: safety while they last, then convergence, then silence, then a clean end.

use crate::{CHAIN, DIAMOND};
use petri_machines::{names::ComponentName, reason::FailureReason};
use petri_proptests::{
    dish::{Op, observe::Blind, replica::Fault},
    plans::{self, Plan},
};
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::RngSeed};

fn component() -> impl Strategy<Value = ComponentName> + Clone {
    select(vec!["a", "b", "c", "d"]).prop_map(|name| ComponentName::new(name).unwrap())
}

fn faults() -> impl Strategy<Value = Op> {
    select(vec![Fault::CrashBefore, Fault::CrashAfter, Fault::Lost])
        .prop_map(|fault| Op::Step { fault: Some(fault) })
}

/// What the cluster does.
pub fn nature() -> impl Strategy<Value = Op> {
    let reason = select(FailureReason::ALL.to_vec());
    prop_oneof![
        4 => component().prop_map(|component| Op::PodStarts { component }),
        4 => component().prop_map(|component| Op::PodSucceeds { component }),
        1 => (component(), reason, any::<bool>())
            .prop_map(|(component, reason, disrupted)| Op::PodFails { component, reason, disrupted }),
        4 => (component(), prop::bool::weighted(0.9)).prop_map(|(component, ready)| Op::Workload { component, ready }),
        2 => Just(Op::DeletedJobsGo),
        2 => Just(Op::NamespacesGo),
        1 => select(vec![1, 5, 30, 300, 1000]).prop_map(|secs| Op::Clock { secs }),
    ]
}

/// What users and strangers do.
pub fn users() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3usize).prop_map(|spec| Op::Spec { spec }),
        2 => select(vec!["t1", "t2"]).prop_map(|token| Op::Retry { token: token.to_owned() }),
        2 => any::<bool>().prop_map(|held| Op::Hold { held }),
        2 => Just(Op::Delete),
        1 => component().prop_map(|component| Op::JobDeletedByHand { component }),
        1 => (0..2usize).prop_map(|candidate| Op::ForeignNamespace { candidate }),
        1 => Just(Op::NamespaceDeletedByHand),
    ]
}

fn complaint() -> impl Strategy<Value = FailureReason> {
    select(vec![FailureReason::ImagePull, FailureReason::CrashLoop, FailureReason::Unschedulable])
}

/// What goes wrong between the operator and the cluster.
fn trouble(lags: bool) -> impl Strategy<Value = Op> {
    let blind = select(vec![
        Blind::Intent,
        Blind::Assigned,
        Blind::Namespace,
        Blind::Access,
        Blind::Jobs,
        Blind::Readiness,
    ]);
    prop_oneof![
        4 => faults(),
        2 => Just(Op::MissEvents),
        2 => blind.prop_map(|read| Op::Blind { read }),
        1 => (component(), complaint()).prop_map(|(component, reason)| Op::PodComplains { component, reason }),
        1 => (component(), complaint())
            .prop_map(|(component, reason)| Op::WorkloadComplains { component, reason }),
        1 => any::<bool>().prop_map(|accepts| Op::Gateway { accepts }),
        1 => any::<bool>().prop_map(move |on| Op::JobCache { lags: on && lags }),
    ]
}

fn ops(lags: bool) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => Just(Op::Cycle),
        4 => Just(Op::Step { fault: None }),
        10 => nature(),
        2 => users(),
        2 => trouble(lags),
    ];
    vec(op, 0..120)
}

fn specs() -> impl Strategy<Value = Vec<&'static str>> {
    select(vec![
        vec![CHAIN, "a:1; b:2<-a; c:1<-b", "a:1; b:1<-a"],
        vec![DIAMOND, "a:2; b:1<-a; c:1<-a; d:1<-b c", "! no such template"],
        vec!["a:1!; b:1!<-a", "a:1!; b:2!<-a", "b:1!; a:1!<-b"],
        vec!["a:1; b:1; c:1; d:1", "a:1; b:1; c:1; d:2", "a:1"],
        vec!["a:1; b:1<-a; +Secret/pull:1; +HTTPRoute/web:1", "a:1; +Secret/pull:2", "a:1; +Ingress/web:1"],
    ])
}

/// Runs the operations, then lets all faults end. The options are the first thing a failure shows.
fn check(specs: Vec<&'static str>, ttl_secs: Option<u64>, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let plan = Plan { specs, ttl_secs, ops };
    let failed = |breach| {
        let ops = serde_json::to_string(&plan.ops).unwrap();
        TestCaseError::fail(format!("specs {:?}, ttl {:?}, ops {ops}\n{breach}", plan.specs, plan.ttl_secs))
    };
    plans::check(&plan).map(drop).map_err(failed)
}

/// Few cases by default, so that the whole package stays quick, and the same ones each time, so that one tree has one
/// answer. `PROPTEST_CASES` asks for more and `PROPTEST_RNG_SEED` for others.
pub fn options(quick: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { quick };
    let rng_seed = if asked.rng_seed == RngSeed::Random { RngSeed::Fixed(0) } else { asked.rng_seed };
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 3_000, ..asked }
}

proptest! {
    #![proptest_config(options(60))]

    #[test]
    fn any_life_is_safe_and_comes_to_its_end(
        specs in specs(),
        ttl in option::weighted(0.3, select(vec![10u64, 600, 5000])),
        ops in ops(false),
    ) {
        check(specs, ttl, ops)?;
    }

    #[test]
    fn amnesia_is_harmless_at_any_moment(specs in specs(), before in ops(false), after in ops(false)) {
        let ops = [before, vec![Op::Amnesia], after].concat();
        check(specs, None, ops)?;
    }

    #[test]
    fn any_life_is_safe_though_the_job_cache_lags(specs in specs(), ops in ops(true)) {
        check(specs, None, ops)?;
    }
}

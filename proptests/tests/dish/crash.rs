//! Create, become ready, change, delete, be gone: with a crash at every ask of that life, one life for each.

use crate::{CHAIN, DIAMOND, dish, fault, must, run, settle};
use petri_machines::environment::Phase;
use petri_proptests::dish::{Dish, Op, cluster::Cluster, replica::Fault};

/// Runs one life; the n-th ask of the operator meets the fault. Returns how many asks there were.
fn life(specs: &[&str], at: Option<(usize, Fault)>) -> (Dish, usize) {
    let options = format!("specs {specs:?}, fault {at:?}");
    let mut dish = dish(specs);
    // The laws are asked of every observation of the life without faults; the others visit the same states.
    dish.asks_laws = at.is_none();
    let mut asks = 0;
    for (act, op) in [None, Some(Op::Spec { spec: 1 }), Some(Op::Delete)].into_iter().enumerate() {
        if let Some(op) = op {
            run(&mut dish, &op, &options);
        }
        asks = live(&mut dish, asks, at, &options);
        check(&dish, act, &options);
    }
    (dish, asks)
}

/// Lets everything proceed, counting asks; the clock runs only when nothing else does.
fn live(dish: &mut Dish, mut asks: usize, at: Option<(usize, Fault)>, options: &str) -> usize {
    loop {
        while dish.operator.is_told(&dish.cluster) || dish.operator.is_running() {
            let op = match at {
                Some((n, kind)) if n == asks => fault(kind),
                _ => Op::Step { fault: None },
            };
            run(dish, &op, options);
            asks += 1;
        }
        let progressed = dish.progress();
        if !must(progressed, options, dish) && dish.is_at_rest() {
            return asks;
        }
        if !dish.operator.is_told(&dish.cluster) {
            dish.pass_time();
        }
        assert!(asks < 5_000, "{options}\nno end\n{}", dish.log.join("\n"));
    }
}

fn check(dish: &Dish, act: usize, options: &str) {
    let record = Cluster::record(&dish.cluster);
    let plan = |spec: usize| dish.specs[spec].as_ref().unwrap().digest.clone();
    let ok = match act {
        0 | 1 => record.is_some_and(|record| record.phase == Phase::Ready { plan: plan(act) }),
        _ => dish.cluster.own.is_none() && dish.cluster.spaces.is_empty(),
    };
    assert!(ok, "{options}\nact {act} ended in {record:?}\n{}", dish.log.join("\n"));
    let attempts = record.into_iter().flat_map(|record| record.memory.components.values());
    let charged = attempts.map(|child| child.deploy_attempts + child.undeploy_attempts).max().unwrap_or(0);
    assert_eq!(charged, 0, "{options}\na crash was charged to a component\n{}", dish.log.join("\n"));
}

/// Crashes one life after the effect of every ask, and loses every answer once. A crash before an ask is one after
/// the ask before it.
fn crash_everywhere(specs: &[&str]) {
    let (quiet, asks) = life(specs, None);
    assert_eq!(quiet.idle_writes, 0, "a write that changes nothing\n{}", quiet.log.join("\n"));
    let mut lives = 1;
    for n in 0..asks {
        for kind in [Fault::CrashAfter, Fault::Lost] {
            life(specs, Some((n, kind)));
            lives += 1;
        }
    }
    println!("{specs:?}: {asks} asks, {} writes, {lives} lives", quiet.writes);
}

#[test]
fn a_chain_survives_a_crash_between_any_two_asks() {
    crash_everywhere(&[CHAIN, "a:1; b:2<-a; c:1<-b"]);
}

#[test]
fn a_diamond_survives_a_crash_between_any_two_asks() {
    crash_everywhere(&[DIAMOND, "a:1; b:2<-a; c:1<-a; d:2<-b c"]);
}

#[test]
fn a_component_that_disappears_is_undeployed_whatever_crashes() {
    crash_everywhere(&["a:1!; b:1!<-a", "a:1!"]);
}

#[test]
fn two_crashes_in_one_life_end_where_none_does() {
    let specs = ["a:1; b:1<-a", "a:2; b:1<-a"];
    let (_, asks) = life(&specs, None);
    for first in (0..asks).step_by(3) {
        let options =
            format!("specs {specs:?}, every ask from {first} in steps of 7 is crashed after its effect");
        let mut dish = dish(&specs);
        dish.asks_laws = false;
        for n in 0..asks {
            let crashed = n >= first && (n - first) % 7 == 0;
            run(&mut dish, &Op::Step { fault: crashed.then_some(Fault::CrashAfter) }, &options);
        }
        run(&mut dish, &Op::Delete, &options);
        settle(&mut dish, &options);
        check(&dish, 2, &options);
    }
}

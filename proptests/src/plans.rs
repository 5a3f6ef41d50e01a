//! Seeded plans: many lives under random faults, for the whole proof. A failing plan is cut down to the operations
//! that matter and kept as a scenario; the seed is only the way to it.

use crate::{
    dish::{Dish, Op, observe::Blind, replica::Fault},
    laws::{Breach, require},
};
use petri_machines::{names::ComponentName, reason::FailureReason};

/// A life that may go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What may be asked for.
    pub specs: Vec<&'static str>,
    /// Seconds until it expires.
    pub ttl_secs: Option<u64>,
    /// What happens.
    pub ops: Vec<Op>,
}

/// The worlds that plans are drawn from.
const WORLDS: [&[&str]; 6] = [
    &["a:1; b:1<-a; +Secret/pull:1; +HTTPRoute/web:1", "a:1; b:1<-a; +Secret/pull:2", "a:2; +Ingress/web:1"],
    &["a:1; b:1<-a; c:1<-b", "a:1; b:2<-a; c:1<-b", "a:1; b:1<-a"],
    &["a:1; b:1<-a; c:1<-a; d:1<-b c", "a:2; b:1<-a; c:1<-a; d:1<-b c", "! no such template"],
    &["a:1!; b:1!<-a", "a:1!; b:2!<-a", "b:1!; a:1!<-b"],
    &["a:1; b:1; c:1; d:1", "a:1; b:1; c:1; d:2", "a:1"],
    &["a:1!", "a:2!", "b:1!"],
];

/// What keeps pods from starting.
const COMPLAINTS: [FailureReason; 3] =
    [FailureReason::ImagePull, FailureReason::CrashLoop, FailureReason::Unschedulable];

/// SplitMix64: small, known, and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap_or(0)
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Draws the plan of a seed. How much of each kind of trouble it has is drawn too (swarm testing).
pub fn draw(seed: u64) -> Plan {
    let random = &mut Random(seed);
    let specs = random.pick(&WORLDS).to_vec();
    let ttl_secs = random.chance(25).then(|| random.pick(&[10, 600, 5000]));
    let (faults, users, trouble) = (random.below(30), random.below(15), random.below(25));
    let length = random.below(140);
    let ops = (0..length)
        .map(|_| match random.below(100) {
            roll if roll < faults / 2 => fault(random),
            roll if roll < faults / 2 + users => user(random),
            roll if roll < faults / 2 + users + trouble / 2 => nuisance(random),
            roll if roll < 62 => nature(random, faults),
            roll if roll < 75 => Op::Step { fault: None },
            _ => Op::Cycle,
        })
        .collect();
    Plan { specs, ttl_secs, ops }
}

fn component(random: &mut Random) -> ComponentName {
    let name = random.pick(&["a", "b", "c", "d"]);
    ComponentName::new(name).unwrap_or_else(|_| unreachable!("a letter is a name"))
}

fn fault(random: &mut Random) -> Op {
    Op::Step { fault: Some(random.pick(&[Fault::CrashBefore, Fault::CrashAfter, Fault::Lost])) }
}

fn user(random: &mut Random) -> Op {
    match random.below(20) {
        0..8 => Op::Spec { spec: random.below(3) },
        8..11 => Op::Retry { token: random.pick(&["t1", "t2"]).to_owned() },
        11..14 => Op::Hold { held: random.chance(50) },
        14..16 => Op::Delete,
        16..18 => Op::JobDeletedByHand { component: component(random) },
        18 => Op::ForeignNamespace { candidate: random.below(3) },
        _ => Op::NamespaceDeletedByHand,
    }
}

fn nuisance(random: &mut Random) -> Op {
    let blind =
        [Blind::Intent, Blind::Assigned, Blind::Namespace, Blind::Access, Blind::Jobs, Blind::Readiness];
    match random.below(7) {
        0 => Op::MissEvents,
        4 => Op::PodComplains { component: component(random), reason: random.pick(&COMPLAINTS) },
        5 => Op::WorkloadComplains { component: component(random), reason: random.pick(&COMPLAINTS) },
        6 => Op::Gateway { accepts: random.chance(50) },
        1 | 2 => Op::Blind { read: random.pick(&blind) },
        _ => Op::JobCache { lags: random.chance(50) },
    }
}

fn nature(random: &mut Random, faults: usize) -> Op {
    let component = component(random);
    match random.below(20) {
        0..5 => Op::PodStarts { component },
        5..10 if random.chance(faults) => {
            Op::PodFails { component, reason: random.pick(&FailureReason::ALL), disrupted: random.chance(30) }
        }
        5..10 => Op::PodSucceeds { component },
        10..15 => Op::Workload { component, ready: !random.chance(faults / 2) },
        15..17 => Op::DeletedJobsGo,
        17..19 => Op::NamespacesGo,
        _ => Op::Clock { secs: random.pick(&[1, 5, 30, 300, 1000]) },
    }
}

/// Lives a plan: safe while it lasts; then faults end, it converges, is silent, and can be deleted without a trace.
///
/// # Errors
/// What broke, with the whole life.
pub fn check(plan: &Plan) -> Result<Dish, Breach> {
    let malformed = |error: crate::dish::spec::Malformed| Breach { law: "bounds", what: error.to_string() };
    let mut dish = Dish::new(&plan.specs, plan.ttl_secs).map_err(malformed)?;
    dish.asks_laws = false;
    match live(plan, &mut dish) {
        Ok(()) => Ok(dish),
        Err(breach) => Err(Breach { what: format!("{}\n{}", breach.what, dish.log.join("\n")), ..breach }),
    }
}

fn live(plan: &Plan, dish: &mut Dish) -> Result<(), Breach> {
    for op in &plan.ops {
        dish.run(op)?;
    }
    dish.run(&Op::Hold { held: false })?;
    dish.settle()?;
    dish.stay_silent()?;
    dish.run(&Op::Delete)?;
    dish.settle()?;
    let gone = dish.cluster.own.is_none() && dish.cluster.traces().is_empty();
    require("ends gone", gone, || format!("{:?}", dish.cluster.own))
}

/// Leaves out operations as long as the same law breaks; larger pieces first.
pub fn shrink(plan: &Plan, law: &'static str) -> Plan {
    let mut least = plan.clone();
    let mut piece = least.ops.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < least.ops.len() {
            let mut shorter = least.clone();
            shorter.ops.drain(at..(at + piece).min(shorter.ops.len()));
            match check(&shorter) {
                Err(breach) if breach.law == law => least = shorter,
                Err(_) | Ok(_) => at += piece,
            }
        }
        piece /= 2;
    }
    least
}

//! The shipped loop in a simulated cluster: fault-free lives, and the same lives with a crash at every ask.

mod crash;
mod seeded;

use petri_proptests::dish::{Dish, Op, replica::Fault};

/// A chain of three.
const CHAIN: &str = "a:1; b:1<-a; c:1<-b";
/// Four components in a diamond.
const DIAMOND: &str = "a:1; b:1<-a; c:1<-a; d:1<-b c";

fn dish(specs: &[&str]) -> Dish {
    Dish::new(specs, None).unwrap()
}

/// Ends the test with the options, the breach and the whole life.
#[track_caller]
fn must<T>(result: Result<T, petri_proptests::laws::Breach>, options: &str, dish: &Dish) -> T {
    result.unwrap_or_else(|breach| panic!("{options}\n{breach}\n{}", dish.log.join("\n")))
}

fn settle(dish: &mut Dish, options: &str) {
    let settled = dish.settle();
    must(settled, options, dish);
}

fn run(dish: &mut Dish, op: &Op, options: &str) {
    let ran = dish.run(op);
    must(ran, options, dish);
}

fn fault(fault: Fault) -> Op {
    Op::Step { fault: Some(fault) }
}

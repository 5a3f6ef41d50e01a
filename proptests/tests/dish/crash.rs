//! Create, become ready, change, delete, be gone: with a fault at every ask of that life, one life for each.

use crate::{CHAIN, DIAMOND};
use petri_proptests::{
    crash::{self, At},
    dish::replica::Fault,
};

/// Fails with the whole life in which the fault was not survived.
#[track_caller]
fn check(specs: &[&str]) {
    match crash::everywhere(specs) {
        Ok(lives) => println!("{specs:?}: {lives} lives"),
        Err(breach) => panic!("{breach}"),
    }
}

#[test]
fn a_chain_survives_a_crash_between_any_two_asks() {
    check(&[CHAIN, "a:1; b:2<-a; c:1<-b"]);
}

#[test]
fn a_diamond_survives_a_crash_between_any_two_asks() {
    check(&[DIAMOND, "a:1; b:2<-a; c:1<-a; d:2<-b c"]);
}

#[test]
fn a_component_that_disappears_is_undeployed_whatever_crashes() {
    check(&["a:1!; b:1!<-a", "a:1!"]);
}

#[test]
fn many_crashes_in_one_life_end_where_none_does() {
    let specs = ["a:1; b:1<-a", "a:2; b:1<-a"];
    for (first, step) in [(0, 2), (1, 2), (2, 3), (0, 5), (4, 7)] {
        let faults: Vec<_> = (first..400).step_by(step).map(|n| (At::Write(n), Fault::CrashAfter)).collect();
        if let Err(breach) = crash::live(&specs, &faults) {
            panic!("{breach}");
        }
    }
}

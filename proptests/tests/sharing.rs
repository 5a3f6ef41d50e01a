//! Shared components in the dish: environments race for places under faults.

use petri_machines::{shared, slice};
use petri_proptests::{
    atlas::Atlas,
    sharing::{
        alone::{explore_shared, explore_slice},
        explore::{Bounds, LEAST, all, explore},
        live_all,
    },
};

/// Plans by default, so that the package stays quick; `PETRI_PLANS` asks for more.
const PLANS: u64 = 60;

#[test]
fn s5_s6_s7_hold_whatever_happens_and_all_that_was_provisioned_is_deprovisioned() {
    let plans = std::env::var("PETRI_PLANS").ok().and_then(|plans| plans.parse().ok()).unwrap_or(PLANS);
    let from = std::env::var("PETRI_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let counts = live_all(from..from + plans).unwrap_or_else(|breach| panic!("{breach}"));
    println!("plans: {plans}, {counts:?}");
    assert!(counts.s5 >= plans && counts.s6 >= plans && counts.s7 >= plans, "hardly asked: {counts:?}");
}

/// Explores one world; the bounds are the first thing a failure shows.
#[track_caller]
fn world(bounds: Bounds) {
    let began = std::time::Instant::now();
    let report = explore(&bounds).unwrap_or_else(|breach| panic!("{bounds:?}\n{breach}"));
    println!("{:.1} s, {report:?}: {bounds:?}", began.elapsed().as_secs_f64());
}

#[test]
fn small_worlds_of_shared_components_have_no_dead_end_and_never_go_round_in_a_circle() {
    world(LEAST);
    let wish = std::env::var("PETRI_WORLDS").ok().and_then(|worlds| worlds.parse().ok()).unwrap_or(0);
    all().into_iter().skip(1).take(wish).for_each(world);
}

#[track_caller]
fn is_current(atlas: &Atlas, machine: &str, what: &str) {
    let about = format!(
        "What {what} does at each signal, as the explorer took it: `proptests/tests/sharing.rs` generates this file and \
         checks that it is current.\nA signal is the one verdict on record and world, read in the order of \
         `{machine}::Signal`."
    );
    assert!(
        atlas.is_current(machine, &about),
        "machines/atlas/{machine}.md is not current: ATLAS=write cargo test -p petri-proptests --test sharing"
    );
}

#[test]
fn a_slice_alone_takes_every_declared_edge_and_no_other() {
    let report = explore_slice().unwrap_or_else(|breach| panic!("{breach}"));
    println!("{} records, {} steps", report.records, report.steps);
    assert_eq!(report.moves, slice::EDGES.iter().copied().collect(), "taken and declared differ");
    is_current(&report.atlas, "slice", "one slice of a shared component");
}

#[test]
fn a_shared_component_alone_takes_every_declared_edge_and_no_other() {
    let report = explore_shared().unwrap_or_else(|breach| panic!("{breach}"));
    println!("{} records, {} steps", report.records, report.steps);
    assert_eq!(report.moves, shared::EDGES.iter().copied().collect(), "taken and declared differ");
    is_current(&report.atlas, "shared", "a shared component");
}

//! Small worlds, explored to closure in a quick profile; `cargo proof` explores larger ones.

use petri_machines::{
    component,
    environment::{EDGES, SHARING},
};
use petri_proptests::{
    atlas::Atlas,
    explorer::{Bounds, Found, alone, explore, state::Budget},
};
use std::collections::BTreeSet;

/// Explores one world; the bounds are the first thing a failure shows.
fn world(found: &mut Found, specs: &[&str], ttl_secs: Option<u64>, budget: Budget) {
    let specs = specs.iter().map(|line| (*line).to_owned()).collect();
    let bounds = Bounds { specs, ttl_secs, budget, draws: true, states_max: 40_000 };
    let report = explore(&bounds).unwrap_or_else(|breach| panic!("{bounds:?}\n{breach}"));
    println!("{} states, {} edges, {:.1} s: {bounds:?}", report.states, report.edges, report.core_secs);
    found.merge(report.found);
}

#[track_caller]
fn is_current(atlas: &Atlas, machine: &str, about: &str) {
    let current = atlas.is_current(machine, about);
    assert!(
        current,
        "machines/atlas/{machine}.md is not current: ATLAS=write cargo test -p petri-proptests --test explorer"
    );
}

/// Laws 7 to 10, and that every invariant had something to say.
#[test]
fn small_worlds_have_no_dead_end_and_take_every_declared_edge_and_no_other() {
    let (found, none) = (&mut Found::default(), Budget::default());
    world(found, &["a:1"], None, Budget { faults: 1, ..none });
    world(found, &["a:1", "a:2"], None, Budget { specs: 1, ..none });
    world(found, &["a:1", "! nothing", "! still nothing"], Some(100), Budget { specs: 2, ..none });
    world(found, &["a:1!; b:1!<-a; +Secret/pull:1; +Ingress/web:1"], None, none);
    assert_eq!(found.moves, EDGES.iter().copied().collect::<BTreeSet<_>>(), "taken and declared differ");
    assert!(SHARING.iter().all(|edge| !found.moves.contains(edge)), "a sound life repaired itself");
    let asked: Vec<&str> = found.counts.keys().copied().collect();
    for invariant in
        ["S2", "S3", "S4: deploys", "S4: undeploys", "S8", "S10", "S11", "S12", "Terminating", "nothing"]
    {
        assert!(asked.iter().any(|name| name.starts_with(invariant)), "{invariant} never fired: {asked:?}");
    }
    let about = "What an EphemeralEnvironment does at each signal, as the explorer took it: \
                 `proptests/tests/explorer.rs` generates this file and checks that it is current.\n\
                 A signal is the one verdict on record and world, read in the order of `environment::Signal`; \
                 the commands are those of the rest, the components' among them.";
    is_current(&found.atlas, "environment", about);
}

#[test]
fn a_component_alone_takes_every_declared_edge_and_no_other() {
    let report = alone::explore().unwrap_or_else(|breach| panic!("{breach}"));
    println!("{} records, {} steps", report.records, report.steps);
    assert_eq!(report.moves, component::EDGES.iter().copied().collect(), "taken and declared differ");
    let about = "What one component does at each signal, as the explorer took it: \
                 `proptests/tests/explorer.rs` generates this file and checks that it is current.\n\
                 A signal is the one verdict on record and world, read in the order of `component::Signal`.";
    is_current(&report.atlas, "component", about);
}

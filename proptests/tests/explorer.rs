//! Small worlds, explored to closure in a quick profile; `cargo proof` explores larger ones.

use petri_machines::environment::{EDGES, REPAIRS};
use petri_proptests::explorer::{Bounds, edges::Found, explore, node::Budget};
use std::collections::BTreeSet;

/// Explores one world; the bounds are the first thing a failure shows.
fn world(found: &mut Found, specs: &[&str], ttl_secs: Option<u64>, budget: Budget) {
    let specs = specs.iter().map(|line| (*line).to_owned()).collect();
    let bounds = Bounds { specs, ttl_secs, budget, states_max: 20_000 };
    let report = explore(&bounds).unwrap_or_else(|breach| panic!("{bounds:?}\n{breach}"));
    println!("{} states, {} edges: {bounds:?}", report.states, report.edges);
    found.merge(report.found);
}

/// Laws 7, 8 and 9, and that every invariant had something to say.
#[test]
fn small_worlds_have_no_dead_end_and_take_every_declared_edge_and_no_other() {
    let (found, none) = (&mut Found::default(), Budget { specs: 0, faults: 0, retries: 0 });
    world(found, &["a:1"], None, Budget { faults: 1, ..none });
    world(found, &["a:1", "a:2"], None, Budget { specs: 1, ..none });
    world(found, &["a:1", "! nothing", "! still nothing"], Some(100), Budget { specs: 2, ..none });
    world(found, &["a:1!; b:1!<-a"], None, none);
    assert_eq!(found.moves, EDGES.iter().copied().collect::<BTreeSet<_>>(), "taken and declared differ");
    assert!(REPAIRS.iter().all(|edge| !found.moves.contains(edge)), "a sound life repaired itself");
    let asked: Vec<&str> = found.counts.keys().copied().collect();
    for invariant in
        ["S2", "S3", "S4: deploys", "S4: undeploys", "S8", "S10", "S11", "S12", "Terminating", "nothing"]
    {
        assert!(asked.iter().any(|name| name.starts_with(invariant)), "{invariant} never fired: {asked:?}");
    }
}

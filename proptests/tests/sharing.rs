//! Shared components in the dish: environments race for places under faults.

use petri_proptests::sharing::{Counts, live};

/// Plans by default, so that the package stays quick; `PETRI_PLANS` asks for more.
const PLANS: u64 = 60;

#[test]
fn s5_s6_s7_hold_whatever_happens_and_all_that_was_provisioned_is_deprovisioned() {
    let plans = std::env::var("PETRI_PLANS").ok().and_then(|plans| plans.parse().ok()).unwrap_or(PLANS);
    let from = std::env::var("PETRI_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut counts = Counts::default();
    for seed in from..from + plans {
        match live(seed) {
            Ok(one) => counts.add(&one),
            Err(breach) => panic!("{breach}"),
        }
    }
    println!("plans: {plans}, {counts:?}");
    assert!(counts.s5 >= plans && counts.s6 >= plans && counts.s7 >= plans, "hardly asked: {counts:?}");
}

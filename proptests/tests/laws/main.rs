//! The laws over any stored record and any world, by random generation with shrinking.

mod environment;
mod parts;
mod strategies;

use proptest::prelude::ProptestConfig;

/// Returns the options of a law: failing cases become scenarios, not stored seeds.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..ProptestConfig::default() }
}

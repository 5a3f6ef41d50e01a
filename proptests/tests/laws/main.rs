//! The laws over any stored record and any world, by random generation with shrinking.

mod environment;
mod parts;
mod sharing;
mod strategies;

use proptest::{prelude::ProptestConfig, test_runner::RngSeed};

/// Few cases by default, so that the package stays quick, and the same ones each time, so that one tree has one answer.
/// `PROPTEST_CASES` asks for more and `PROPTEST_RNG_SEED` for others. Failing cases become scenarios, not stored seeds.
fn cases(quick: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { quick };
    let rng_seed = if asked.rng_seed == RngSeed::Random { RngSeed::Fixed(0) } else { asked.rng_seed };
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4_000, ..asked }
}

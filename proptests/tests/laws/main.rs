//! The laws over any stored record and any world, by random generation with shrinking.

mod environment;
mod parts;
mod sharing;
mod strategies;

use proptest::prelude::ProptestConfig;

/// Few cases by default, so that the package stays quick; `PROPTEST_CASES` asks for more. Failing cases become
/// scenarios, not stored seeds.
fn cases(quick: u32) -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { quick };
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 4_000, ..asked }
}

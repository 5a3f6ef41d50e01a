//! The laws of the two machines of an environment.

use crate::{cases, strategies};
use petri_proptests::laws;
use proptest::prelude::*;

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn an_environment_keeps_every_law_in_any_world((record, world) in strategies::life()) {
        laws::environment::all(&record, &world).map_err(|breach| TestCaseError::fail(breach.to_string()))?;
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn a_component_keeps_every_law_in_any_world(
        record in strategies::component(),
        world in strategies::component_world(),
    ) {
        laws::component::all(&record, &world).map_err(|breach| TestCaseError::fail(breach.to_string()))?;
    }
}

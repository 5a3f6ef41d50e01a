//! The dish answers as a real API server does; the same cases run on one by `cargo verify --only cluster`.

use petri_proptests::conformance::check_dish;

#[test]
fn the_dish_answers_as_a_real_api_server_does() {
    check_dish().unwrap_or_else(|breach| panic!("{breach}"));
}

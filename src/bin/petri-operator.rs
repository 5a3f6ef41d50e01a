//! petri-operator.
fn main() {}

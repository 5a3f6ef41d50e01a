//! petri-deployer.
fn main() {}

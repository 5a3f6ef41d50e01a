//! petri-operator: reads its configuration, and runs until it is told to stop or loses leadership.
use petri::{controller::program, reconcile::Operator};
use std::process::ExitCode;

fn main() -> ExitCode {
    program::run(Operator::new)
}

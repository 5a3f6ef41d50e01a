//! kubectl-petri: as `kubectl petri …`, or by itself in a pipeline.
use clap::Parser;
use petri::cli::{Arguments, run};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    run(Arguments::parse()).await
}

//! `cargo demo`: Petri's main job on a real cluster on this machine.

use std::process::ExitCode;

use clap::Parser;
use petri_e2e::demo;

/// Boots a cluster, installs Petri, brings up two environments of one template and takes them down again.
#[derive(Parser)]
struct Arguments {
    /// Leaves the cluster up and prints how to reach it.
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Ends the cluster that `--keep` left.
    #[arg(long)]
    down: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = if arguments.down { demo::down().await } else { demo::run(arguments.keep).await };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("demo: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    eprintln!(
        "Nothing was left running. Run `cargo demo` again; `cargo demo --keep` leaves the cluster up to look at."
    );
    ExitCode::FAILURE
}

//! `cargo verify`: every test of the project, the real cluster included.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use petri_e2e::verify;

/// Runs every test, part by part, and closes with one count.
#[derive(Parser)]
struct Arguments {
    /// Runs only these parts: format, lint, tests, proof, fuzz, lab, cluster, faults, operations.
    #[arg(long, value_delimiter = ',', value_parser = verify::PARTS)]
    only: Vec<String>,
    /// Runs only the cases on the cluster whose name contains this.
    #[arg(long)]
    case: Option<String>,
    /// Runs the cases on this cluster, started by `cargo lab up` with its images loaded, and leaves it running.
    #[arg(long)]
    lab: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let started = Instant::now();
    let count = verify::run(&arguments.only, arguments.case.as_deref(), arguments.lab.as_deref()).await;
    println!("verified in {:.0} s", started.elapsed().as_secs_f64());
    println!("{} passed, {} failed", count.passed, count.failed);
    if count.failed == 0 && count.passed > 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "Repeat one part with `cargo verify --only PART`, one case with `--only cluster --case WORDS`."
    );
    ExitCode::FAILURE
}

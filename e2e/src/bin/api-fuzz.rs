//! `cargo api-fuzz`: libFuzzer against how petri-apiserver reads tokens, claims and bodies.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use petri_e2e::api_fuzz;

/// Looks for inputs that break the parsing of tokens, claims and bodies, from those in e2e/fuzz/corpus on.
#[derive(Parser)]
struct Arguments {
    /// Only this target: token, claims or body.
    #[arg(long, value_parser = api_fuzz::TARGETS)]
    target: Option<String>,
    /// How long, each.
    #[arg(long, default_value_t = 8)]
    secs: u64,
    /// Adds to the corpus what reached something new, and nothing that only repeats it.
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let time = Duration::from_secs(arguments.secs);
    match api_fuzz::run(arguments.target.as_deref(), time, arguments.keep).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("api-fuzz: {error}");
            ExitCode::FAILURE
        }
    }
}

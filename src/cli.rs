//! kubectl-petri: what people and pipelines use. One module for each subcommand.

pub mod ci;
pub mod plan;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Environments from the command line and from pipelines.
#[derive(Parser)]
#[command(name = "kubectl-petri", bin_name = "kubectl petri", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// For pipelines: by the API server, with the pipeline's own identity token
    Ci(ci::Arguments),
    /// What Petri would do with manifests, without a cluster
    Plan(plan::Arguments),
}

/// Runs the subcommand.
pub async fn run(arguments: Arguments) -> ExitCode {
    match arguments.command {
        Command::Ci(arguments) => ci::run(arguments).await,
        Command::Plan(arguments) => plan::run(&arguments),
    }
}

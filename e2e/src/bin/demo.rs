//! `cargo demo`: Petri's main job on a real cluster on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use petri_e2e::demo::{self, Elsewhere};

/// Boots a cluster, installs Petri, brings up two environments of one template and takes them down again.
#[derive(Parser)]
struct Arguments {
    /// Leaves the cluster up and prints how to reach it.
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Ends the cluster that `--keep` left.
    #[arg(long)]
    down: bool,
    /// Uses the cluster of this kubeconfig instead of one of its own.
    #[arg(long, value_name = "FILE", conflicts_with = "down")]
    kubeconfig: Option<PathBuf>,
    /// Takes this context of the kubeconfig, not its current one.
    #[arg(long, requires = "kubeconfig")]
    context: Option<String>,
    /// Takes the images from this registry (HOST/PATH), not from the nodes.
    #[arg(long, value_name = "HOST/PATH", requires = "kubeconfig")]
    registry: Option<String>,
    /// Draws the first environment's trace: text to the screen, SVG and text into this folder.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["down", "kubeconfig"])]
    waterfall: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { keep, down, kubeconfig, context, registry, waterfall } = Arguments::parse();
    let elsewhere = kubeconfig.is_some();
    let done = match kubeconfig {
        Some(kubeconfig) => demo::run_elsewhere(Elsewhere { kubeconfig, context, registry, keep }).await,
        None if down => demo::down().await,
        None => demo::run(keep, waterfall.as_deref()).await,
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("demo: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    if elsewhere {
        eprintln!("Run it again with --keep to look at what stands there.");
        return ExitCode::FAILURE;
    }
    eprintln!(
        "Nothing was left running. Run `cargo demo` again; `cargo demo --keep` leaves the cluster up to look at."
    );
    ExitCode::FAILURE
}

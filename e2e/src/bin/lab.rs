//! `cargo lab`: a cluster to work with by hand.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petri_e2e::lab::{COMPONENTS, Lab, LabError, Options, Progress, image};

/// Starts, ends and shows one-node clusters on this machine.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Starts a cluster and leaves it running.
    Up {
        /// Its name.
        #[arg(long, default_value = "lab")]
        name: String,
        /// Its address block, 1 to 50.
        #[arg(long)]
        index: Option<u8>,
        /// Builds Petri's images and gives them to the node.
        #[arg(long)]
        images: bool,
        /// Stays, and ends the cluster with Ctrl-C.
        #[arg(long)]
        hold: bool,
    },
    /// Ends a cluster and removes all it left.
    Down {
        /// Its name.
        #[arg(long, default_value = "lab")]
        name: String,
    },
    /// Builds Petri's images; gives them to the cluster if it runs.
    Images {
        /// The cluster's name.
        #[arg(long, default_value = "lab")]
        name: String,
    },
    /// Lists the clusters.
    Status {
        /// Only this one.
        #[arg(long)]
        name: Option<String>,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Up { name, index, images, hold } => up(Options { name, index, keep: !hold }, images).await,
        Command::Down { name } => Lab::down_named(&name).await,
        Command::Images { name } => images(&name).await,
        Command::Status { name } => {
            status(name.as_deref());
            Ok(())
        }
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("lab: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

async fn up(options: Options, with_images: bool) -> Result<(), LabError> {
    let hold = !options.keep;
    let lab = match Lab::up(options.clone()).await {
        Err(LabError::Kept(name)) => Lab::attach(&name).await?,
        up => up?,
    };
    if with_images {
        load(&lab).await?;
    }
    println!("export KUBECONFIG={}", lab.kubeconfig().display());
    if hold { Err(lab.died().await) } else { Ok(()) }
}

async fn images(name: &str) -> Result<(), LabError> {
    match Lab::attach(name).await {
        Ok(lab) => load(&lab).await,
        Err(LabError::Absent(_)) => {
            let progress = Progress::new();
            let path = image::archive(&image::build(&progress).await?).await?;
            progress.clear();
            println!("{}", path.display());
            Ok(())
        }
        Err(error) => Err(error),
    }
}

async fn load(lab: &Lab) -> Result<(), LabError> {
    let progress = Progress::new();
    let images = image::build(&progress).await?;
    progress.step("giving the images to the node");
    lab.load_images(&images).await?;
    progress.clear();
    images.iter().for_each(|image| println!("{}", image.name));
    Ok(())
}

fn status(name: Option<&str>) {
    for lab in Lab::list().iter().filter(|lab| name.is_none_or(|name| name == lab.name)) {
        let kept = if lab.kept { "kept" } else { "owned" };
        println!("{} ({kept}): {} of {} components run", lab.name, lab.running.len(), COMPONENTS.len());
        println!("  export KUBECONFIG={}", lab.kubeconfig.display());
    }
}

//! `cargo measure`: how fast Petri is and what it costs, on a real cluster on this machine.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use petri_e2e::measure::{self, What};

/// Boots a cluster, installs Petri and prints figures, `name: value`; without a word it takes all of them.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: Option<Command>,
    /// Leaves the cluster up for the next call.
    #[arg(long, global = true)]
    keep: bool,
    /// Ends the cluster that `--keep` left, and does nothing else.
    #[arg(long)]
    down: bool,
}

#[derive(Subcommand, Clone)]
enum Command {
    /// From the kubelet's report that a deployer ended to the operator's next write, beside a bare client.
    Reaction {
        /// Jobs in each of two runs: one at a time, and ten at once.
        #[arg(long, default_value_t = 60)]
        jobs: usize,
    },
    /// Created → Ready → gone: one component, a chain of five, a diamond of four, beside their critical paths.
    Life {
        /// Lives of each.
        #[arg(long, default_value_t = 5)]
        times: usize,
    },
    /// Many environments at once.
    Burst {
        /// How many; 30 and then 100 when absent.
        #[arg(long)]
        environments: Option<usize>,
    },
    /// Requests of a life by verb and resource, CPU, memory.
    Cost,
    /// petri-apiserver under load on loopback, beside the cluster's own API server for the same objects.
    Apiserver {
        /// Clients at once.
        #[arg(long, default_value_t = 200)]
        clients: usize,
        /// For how long each kind of request is asked.
        #[arg(long, default_value_t = 15)]
        secs: u64,
    },
    /// What the deployer adds to helm: time before its first request and after its last, and all requests.
    Deployer {
        /// Lives of one release.
        #[arg(long, default_value_t = 20)]
        times: usize,
    },
    /// From the kubelet's report that a Job failed to its reason in the status.
    Failure {
        /// How many Jobs.
        #[arg(long, default_value_t = 60)]
        jobs: usize,
    },
    /// Many Ready environments: memory, a quiet minute, and how soon a fresh operator acts on a new one.
    Fleet {
        /// How many.
        #[arg(long, default_value_t = 500)]
        environments: usize,
    },
    /// Healthy environments beside some whose probes hang.
    Hang {
        /// How many hang.
        #[arg(long, default_value_t = 100)]
        environments: usize,
        /// Healthy lives, alone and beside them; the tail of less than a hundred is the largest.
        #[arg(long, default_value_t = 100)]
        times: usize,
    },
    /// The operator's memory over many lives; fails when it grows. Not part of what no word asks for.
    Soak {
        /// How many.
        #[arg(long, default_value_t = 2000)]
        lives: usize,
        /// Draws the curve into this file.
        #[arg(long)]
        plot: Option<std::path::PathBuf>,
    },
    /// Quiet minutes with 20 Ready environments; fails when anything but the Lease is written.
    Idle {
        /// For how long.
        #[arg(long, default_value_t = 5)]
        minutes: u64,
    },
}

impl Command {
    fn parts(&self) -> Vec<What> {
        match self.clone() {
            Self::Reaction { jobs } => vec![What::Reaction { jobs }],
            Self::Life { times } => vec![What::Life { times }],
            Self::Burst { environments: Some(environments) } => vec![What::Burst { environments }],
            Self::Burst { environments: None } => {
                [30, 100].map(|environments| What::Burst { environments }).into()
            }
            Self::Cost => vec![What::Cost],
            Self::Apiserver { clients, secs } => vec![What::Apiserver { clients, secs }],
            Self::Deployer { times } => vec![What::Deployer { times }],
            Self::Failure { jobs } => vec![What::Failure { jobs }],
            Self::Fleet { environments } => vec![What::Fleet { environments }],
            Self::Hang { environments, times } => vec![What::Hang { environments, times }],
            Self::Soak { lives, plot } => vec![What::Soak { lives, plot }],
            Self::Idle { minutes } => vec![What::Idle { secs: minutes * 60 }],
        }
    }

    fn all() -> Vec<Self> {
        let (reaction, life) = (Self::Reaction { jobs: 60 }, Self::Life { times: 5 });
        let apiserver = Self::Apiserver { clients: 200, secs: 15 };
        let (burst, idle) = (Self::Burst { environments: None }, Self::Idle { minutes: 5 });
        let (fleet, hang) = (Self::Fleet { environments: 500 }, Self::Hang { environments: 100, times: 100 });
        let failure = Self::Failure { jobs: 60 };
        vec![
            reaction,
            failure,
            life,
            burst,
            Self::Cost,
            Self::Deployer { times: 20 },
            apiserver,
            fleet,
            hang,
            idle,
        ]
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let parts = match &arguments.what {
        Some(one) => one.parts(),
        None => Command::all().iter().flat_map(Command::parts).collect(),
    };
    let done =
        if arguments.down { measure::down().await } else { measure::run(&parts, arguments.keep).await };
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("measure: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

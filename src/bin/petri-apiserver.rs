//! petri-apiserver: reads its configuration from the environment, and serves until it is told to stop.
use clap::Parser;
use petri::{
    apiserver::{config::Config, serve},
    telemetry::{logs, signals::stopped},
};
use std::process::ExitCode;
use tracing::{error, info};

/// Environments over HTTP, for pipelines with an OIDC token. Configured by PETRI_APISERVER_* variables.
#[derive(Parser)]
#[command(name = "petri-apiserver", version)]
struct Arguments {
    /// Only check the configuration
    #[arg(long)]
    check: bool,
    /// Print the description of the API (OpenAPI) and end
    #[arg(long)]
    openapi: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.openapi {
        return match petri::apiserver::routes::description().to_pretty_json() {
            Ok(text) => {
                println!("{text}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if arguments.check {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = logs::start(&config.log_level) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    run(config)
}

#[tokio::main(worker_threads = 2)]
async fn run(config: Config) -> ExitCode {
    info!(version = env!("CARGO_PKG_VERSION"), namespace = config.namespace, "starting");
    let stop = match stopped() {
        Ok(stop) => stop,
        Err(error) => {
            error!(%error, "cannot receive signals");
            return ExitCode::FAILURE;
        }
    };
    match serve(config, stop).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "ending");
            ExitCode::FAILURE
        }
    }
}

//! petri-operator: reads its configuration, and runs until it is told to stop or loses leadership.
use clap::Parser;
use petri::{
    config::{Config, Settings},
    controller::{operate, run::Ended},
    reconcile::Operator,
    telemetry::logs,
};
use std::{path::PathBuf, process::ExitCode};
use tracing::{error, info, warn};

/// The Petri operator: makes ephemeral environments from templates, and takes them away again.
#[derive(Parser)]
#[command(name = "petri-operator", version)]
struct Arguments {
    /// YAML file with the same settings in camelCase; unknown fields are refused
    #[arg(long, env = "PETRI_CONFIG")]
    config: Option<PathBuf>,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
    /// Only check the configuration and print the whole of it
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    settings: Settings,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let own_namespace = std::env::var("POD_NAMESPACE").ok();
    let flags = arguments.settings;
    let config = match Config::load(arguments.config.as_deref(), flags.clone(), own_namespace.as_deref()) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if arguments.print_config {
        print!("{config}");
    }
    if arguments.print_config || arguments.check {
        return ExitCode::SUCCESS;
    }
    let levels = logs::start(&config.log_level).unwrap_or_else(|error| {
        eprintln!("no logs: {error}");
        None
    });
    let follow = levels.zip(arguments.config).map(|(levels, path)| {
        let read = move || {
            let config = Config::load(Some(&path), flags.clone(), own_namespace.as_deref());
            config.map(|config| config.log_level)
        };
        logs::follow(levels, config.log_level.clone(), read)
    });
    run(config, follow)
}

/// One thread is enough for an operator that waits nearly always, and keeps its memory small.
#[tokio::main(flavor = "current_thread")]
async fn run(config: Config, follow: Option<impl Future<Output = ()> + Send + 'static>) -> ExitCode {
    info!(version = env!("CARGO_PKG_VERSION"), namespace = config.management_namespace, "starting");
    follow.map(tokio::spawn);
    match operate(config, Operator::new).await {
        Ok(Ended::Stopped) => ExitCode::SUCCESS,
        Ok(Ended::LeadershipLost(why)) => {
            warn!(why, "leadership is lost: ending, so that nothing of it goes on");
            // At once: an orderly end of the runtime could wait for something.
            std::process::exit(1)
        }
        Err(error) => {
            error!(%error, "cannot start");
            ExitCode::FAILURE
        }
    }
}

//! The operator as a program: what it was asked for, and how it ended.

use super::{
    Parts, Reconciler, operate,
    run::Ended,
    uninstall::{self, Needed, Uninstall},
};
use crate::{
    config::{Config, Settings, reference::reference},
    telemetry::logs,
};
use clap::Parser;
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
    /// Only print the reference page of the configuration
    #[arg(long)]
    print_reference: bool,
    /// Only say whether the operator may go: not while environments live; `drain` deletes them and waits
    #[arg(long)]
    uninstall: Option<Uninstall>,
    #[command(flatten)]
    settings: Settings,
}

/// Does what the command line asks for; runs the operator if it asks for nothing else.
pub fn run<R: Reconciler>(build: impl FnOnce(&Parts) -> R) -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.print_reference {
        print!("{}", reference());
        return ExitCode::SUCCESS;
    }
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
    if let Some(what) = arguments.uninstall {
        return may_go(&config, what);
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
    serve(config, follow, build)
}

#[tokio::main(flavor = "current_thread")]
async fn may_go(config: &Config, what: Uninstall) -> ExitCode {
    let checked = async {
        let client = kube::Client::try_default().await.map_err(Needed::from)?;
        uninstall::check(client, &config.management_namespace, what).await
    };
    let Err(error) = checked.await else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    ExitCode::FAILURE
}

/// One thread is enough for an operator that waits nearly always, and keeps its memory small.
#[tokio::main(flavor = "current_thread")]
async fn serve<R: Reconciler>(
    config: Config,
    follow: Option<impl Future<Output = ()> + Send + 'static>,
    build: impl FnOnce(&Parts) -> R,
) -> ExitCode {
    info!(version = env!("CARGO_PKG_VERSION"), namespace = config.management_namespace, "starting");
    follow.map(tokio::spawn);
    match operate(config, build).await {
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

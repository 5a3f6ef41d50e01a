//! petri-workload: api, worker or web of the exemplar charts, or an issuer of tokens.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use axum::http::Uri;
use clap::{Parser, Subcommand};
use petri_e2e::{
    issuer::{Issuer, Tls},
    workload::{self, Database, DatabaseArgs, WorkloadError},
};

#[derive(Parser)]
#[command(about = "The workload of Petri's exemplar charts")]
struct Args {
    #[arg(long, env = "LISTEN", default_value = "0.0.0.0:8080", global = true)]
    listen: SocketAddr,
    #[command(subcommand)]
    mode: Mode,
}

#[derive(Subcommand)]
enum Mode {
    /// Answers out of the database.
    Api(DatabaseArgs),
    /// Writes a row every period.
    Worker {
        #[command(flatten)]
        database: DatabaseArgs,
        #[arg(long, env = "PERIOD_MILLIS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
        period_millis: u64,
    },
    /// Shows what the api answers.
    Web {
        #[arg(long, env = "GREETING", default_value = "Hello")]
        greeting: String,
        #[arg(long, env = "API_URL")]
        api_url: Uri,
    },
    /// Takes every request and never answers.
    Silent,
    /// Issues tokens over TLS, as GitHub does.
    Issuer {
        /// Its name
        #[arg(long)]
        url: String,
        /// Folder of tls.crt and tls.key
        #[arg(long)]
        tls: PathBuf,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Args { listen, mode }: Args) -> Result<(), WorkloadError> {
    let router = match mode {
        Mode::Api(database) => workload::api::router(Database::new(&database)),
        Mode::Worker { database, period_millis } => {
            let period = Duration::from_millis(period_millis);
            let (last, seen) = tokio::sync::watch::channel(None);
            tokio::spawn(workload::worker::work(Arc::new(Database::new(&database)), period, last));
            workload::worker::router(period, seen)
        }
        Mode::Silent => axum::Router::new().fallback(std::future::pending::<()>),
        Mode::Web { greeting, api_url } => workload::web::router(greeting, api_url),
        Mode::Issuer { url, tls } => return issue(listen, &url, &tls).await,
    };
    workload::serve(listen, router, workload::stopped()?).await
}

async fn issue(listen: SocketAddr, url: &str, tls: &std::path::Path) -> Result<(), WorkloadError> {
    let read = |name: &str| std::fs::read_to_string(tls.join(name));
    let tls = Tls { certificate: read("tls.crt")?, key: read("tls.key")? };
    let listener = tokio::net::TcpListener::bind(listen).await?;
    tokio::select! {
        () = Issuer::new(url).serve(listener, &tls) => {}
        () = workload::stopped()? => {}
    }
    Ok(())
}

//! `cargo load`: asks one address again and again, as `PETRI_LOAD_*` says, and prints a report as JSON.

use std::process::ExitCode;

use http::Request;
use petri_e2e::load::{self, config::Config};

#[tokio::main]
async fn main() -> ExitCode {
    let config = match Config::from_env() {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let Ok(client) = load::client(&config.server, &config.token) else {
        eprintln!("the address cannot be asked");
        return ExitCode::from(2);
    };
    let stop = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    let report = load::run(config.plan, stop, move |_| {
        let (client, path) = (client.clone(), config.path.clone());
        async move { load::send(&client, Request::get(path).body(Vec::new()).ok()?).await }
    });
    let report = report.await;
    println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default());
    if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

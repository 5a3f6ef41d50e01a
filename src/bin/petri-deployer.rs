//! The deployer's process: settings from the environment, one operation, a report in the termination log.

use petri::{
    deployer::program,
    telemetry::{logs, trace},
};
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let began = trace::now();
    if let Err(error) = logs::start("info") {
        // It does not keep a release from being deployed.
        eprintln!("no logs: {error}");
    }
    program::run(began).await
}

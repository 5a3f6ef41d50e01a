//! `cargo api-check`: schemathesis against petri-apiserver; arguments go to schemathesis, such as `--max-examples 700`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match petri_e2e::api_check::run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("api-check: {error}");
            ExitCode::FAILURE
        }
    }
}

//! petri-bare: the bare client that `cargo measure` compares the operator with.

use std::path::Path;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let Err(error) = petri_e2e::measure::bare::run(Path::new(&kubeconfig)).await else {
        return ExitCode::SUCCESS;
    };
    eprintln!("petri-bare: {error}");
    ExitCode::FAILURE
}

//! The deployer's process: settings from the environment, one operation, a report in the termination log.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;

use petri::deployer::limits::Limits;
use petri::deployer::operation;
use petri::deployer::report::Report;
use petri::deployer::settings::{Settings, termination_log};
use petri_machines::reason::FailureReason;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info};
use tracing_subscriber::EnvFilter;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().flatten_event(true).with_env_filter(filter).init();
    let variable = |name: &str| std::env::var(name).ok();
    let report = match Settings::read(variable) {
        Ok(settings) => {
            let job = variable("PETRI_JOB_NAME").unwrap_or_default();
            let traceparent = variable("TRACEPARENT").unwrap_or_default();
            info!(message = "start", operation = ?settings.operation, job, traceparent);
            let limits = Limits::new(settings.deadline, stop_signal());
            operation::run(&settings, &limits).await
        }
        Err(error) => Report::Failed { reason: FailureReason::ValuesInvalid, message: error.to_string() },
    };
    let text = report.termination_log();
    let (path, create) = termination_log(variable);
    let log = OpenOptions::new().write(true).truncate(true).create(create).open(&path);
    if let Err(error) = log.and_then(|mut log| log.write_all(text.as_bytes())) {
        error!(message = "the report cannot be written", path = %path.display(), %error);
    }
    match report {
        Report::Succeeded { .. } => {
            info!(message = "end", report = text);
            ExitCode::SUCCESS
        }
        Report::Failed { .. } => {
            error!(message = "end", report = text);
            ExitCode::FAILURE
        }
    }
}

/// SIGTERM is how the kubelet asks a pod to end; SIGINT how a person does.
fn stop_signal() -> watch::Receiver<bool> {
    let (ask, stop) = watch::channel(false);
    tokio::spawn(async move {
        let (Ok(mut term), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            error!(message = "signals cannot be received");
            return;
        };
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        // Nobody listens any more when the work has ended.
        let _done = ask.send(true);
    });
    stop
}

//! Runs another program: no shell, nothing on its standard input, ended with the deployer's own limits.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::time::timeout;

use super::limits::{Ended, Limits};

/// How long a program may take to end after SIGTERM: helm writes the release's state in that time.
pub const GRACE: Duration = Duration::from_secs(10);

/// Holds what a program that ended by itself left behind.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub stdout: Vec<u8>,
    /// Everything it wrote to standard error; what is not UTF-8 is replaced.
    pub stderr: String,
}

/// Says why a program gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started or waited for.
    #[error("{program} cannot be run: {source}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It had to end early.
    #[error("{program} had to end early")]
    Ended {
        /// The program.
        program: String,
        /// Why.
        ended: Ended,
        /// What it had written to standard error, if it ended when it was asked to.
        stderr: String,
    },
}

/// Runs a program to its end, or ends it with the limits: SIGTERM first, SIGKILL after [`GRACE`].
///
/// # Errors
/// The program cannot be started, or the limits struck.
pub async fn run(command: &mut Command, limits: &Limits) -> Result<Output, ProcessError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    if let Some(ended) = limits.ended() {
        return Err(ProcessError::Ended { program, ended, stderr: String::new() });
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| ProcessError::Start { program: program.clone(), source })?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut output = std::pin::pin!(child.wait_with_output());
    let ended = tokio::select! {
        done = &mut output => {
            let done = done.map_err(|source| ProcessError::Start { program, source })?;
            return Ok(Output {
                status: done.status,
                stdout: done.stdout,
                stderr: text(&done.stderr),
            });
        }
        ended = limits.over() => ended,
    };
    if let Some(pid) = pid {
        // A failure means that it is gone already.
        let _gone = kill_process(pid, Signal::TERM);
    }
    // What is still there afterwards is killed by the drop.
    let late = timeout(GRACE, output).await.ok().and_then(Result::ok);
    let stderr = late.map(|late| text(&late.stderr)).unwrap_or_default();
    Err(ProcessError::Ended { program, ended, stderr })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests;

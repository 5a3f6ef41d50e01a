//! Runs a program to its end and turns a failure into an error that shows what it said last.

use std::ffi::OsStr;
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::LabError;

/// How much of a program's output or of a log an error shows.
pub const TAIL_LINES_MAX: usize = 20;

/// A command that does not outlive its future and reads nothing from the terminal.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs `command` to its end; its output when it succeeded.
pub async fn run(command: &mut Command) -> Result<Output, LabError> {
    let shown = shown(command.as_std());
    let output =
        command.output().await.map_err(|source| LabError::Start { program: shown.clone(), source })?;
    if output.status.success() {
        return Ok(output);
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(LabError::Failed { program: shown, status: output.status, tail: tail(&text) })
}

/// The last lines of `text`, indented.
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let first = lines.len().saturating_sub(TAIL_LINES_MAX);
    lines[first..].iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn shown(command: &std::process::Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_failed_program_is_reported_with_what_it_said_last() {
        let error =
            run(command("sh").args(["-c", "echo first; echo the cause >&2; exit 3"])).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the cause") && text.contains("exit status: 3"), "{text}");
    }

    #[test]
    fn a_tail_is_short_and_skips_blank_lines() {
        let text = (0..100).map(|n| format!("line {n}\n\n")).collect::<String>();
        let tail = tail(&text);
        assert_eq!(tail.lines().count(), TAIL_LINES_MAX);
        assert!(tail.ends_with("line 99"));
    }
}

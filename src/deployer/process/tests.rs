use std::time::Instant;

use tokio::sync::watch;

use super::*;

fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn a_program_that_ends_gives_its_output_and_its_verdict() {
    let (_keep, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_secs(30), stop);
    let output = run(&mut sh("echo out; echo err >&2; exit 3"), &limits).await.expect("it ran");
    assert_eq!(output.status.code(), Some(3));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_str()), (&b"out\n"[..], "err\n"));
}

#[tokio::test]
async fn at_the_deadline_a_program_is_asked_to_end_and_may_say_a_last_word() {
    let file = std::env::temp_dir().join(format!("petri-process-{}", std::process::id()));
    let script = format!(
        "trap 'echo last >{}; echo said >&2; exit 0' TERM; while :; do sleep 0.05; done",
        file.display()
    );
    let (_keep, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_millis(300), stop);
    let started = Instant::now();
    let error = run(&mut sh(&script), &limits).await.expect_err("ended early");
    let ProcessError::Ended { ended: Ended::Deadline, stderr, .. } = &error else { panic!("{error}") };
    assert_eq!(stderr, "said\n");
    assert!(started.elapsed() < GRACE, "it did not wait for the kill");
    assert_eq!(std::fs::read_to_string(&file).expect("the last word"), "last\n");
    std::fs::remove_file(&file).expect("removed");
}

#[tokio::test]
async fn a_request_to_stop_ends_a_program_long_before_its_deadline() {
    let (ask, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_secs(600), stop);
    let mut command = sh("exec sleep 600");
    let work = run(&mut command, &limits);
    let asking = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        ask.send(true).expect("somebody listens");
    };
    let (result, ()) = tokio::join!(work, asking);
    assert!(matches!(result, Err(ProcessError::Ended { ended: Ended::Stopped, .. })));
    assert!(
        matches!(run(&mut sh("true"), &limits).await, Err(ProcessError::Ended { .. })),
        "nothing is started"
    );
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let (_keep, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_secs(5), stop);
    let error = run(&mut Command::new("/nonesuch/helm"), &limits).await.expect_err("not there");
    assert!(error.to_string().starts_with("/nonesuch/helm cannot be run"), "{error}");
}

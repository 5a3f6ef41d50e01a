use std::fs;

use petri_machines::reason::FailureReason;
use serde_json::json;
use tokio::sync::watch;

use super::*;
use crate::deployer::files::WorkDirectory;

/// A program in helm's place: it notes its arguments and its environment, then does what `script` says.
struct Stand {
    work: WorkDirectory,
    helm: Helm,
}

fn stand(script: &str) -> Stand {
    let work = WorkDirectory::new(&std::env::temp_dir()).expect("a directory");
    let binary = work.path().join("helm");
    let noted = work.path().join("noted");
    let text = OsString::from(format!(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > {0}\nenv >> {0}\n{script}\n",
        noted.display()
    ));
    // Written by another process: a file that is open for writing in this one, or in a child of a test that
    // runs beside this one, cannot be executed.
    let write = "printf '%s' \"$1\" > \"$2\" && chmod 755 \"$2\"";
    let write = std::process::Command::new("/bin/sh")
        .args(["-c", write, "-"])
        .args([text, binary.clone().into_os_string()])
        .status();
    assert!(write.expect("sh runs").success());
    let (_, stop) = watch::channel(false);
    let values = json!({"password": "correct horse battery"});
    let masker = Masker::new(values.as_object().expect("an object"), &[], &[]);
    let limits = Limits::new(Duration::from_secs(100), stop);
    let helm = Helm::new(&binary, work.path(), "pr-1-api", "petri-env-0123abcd", limits, Arc::new(masker));
    Stand { work, helm }
}

impl Stand {
    fn noted(&self) -> Vec<String> {
        let text = fs::read_to_string(self.work.path().join("noted")).expect("helm was called");
        text.lines().map(str::to_owned).collect()
    }

    /// Checks the whole argument list; `TIME` stands for what is left of 95 seconds.
    #[track_caller]
    fn check(&self, expected: &str) {
        let noted = self.noted();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let arguments = &noted[..expected.len()];
        for (argument, expected) in arguments.iter().zip(&expected) {
            let time = *expected == "TIME" && ["95s", "94s", "93s", "92s"].contains(&argument.as_str());
            assert!(time || argument == expected, "{argument} in place of {expected} in {arguments:?}");
        }
        assert!(noted[expected.len()].contains('='), "one argument more: {}", noted[expected.len()]);
    }
}

#[tokio::test]
async fn an_upgrade_forgets_old_values_and_puts_names_behind_the_options() {
    let stand = stand(r#"echo '{"version":3,"manifest":"--- x","config":{"password":"x"}}'"#);
    let files = vec!["/tmp/a.yaml".into(), "/tmp/b.yaml".into()];
    let values = Values { files, integers: vec!["memory=1073741824".to_owned()] };
    let released = stand.helm.upgrade(Path::new("/charts/api"), &values).await.expect("upgraded");
    assert_eq!(released, Released { revision: 3, manifest: "--- x".to_owned() });
    stand.check(
        "upgrade --debug --server-side=true --reset-values --namespace petri-env-0123abcd --timeout TIME --force-conflicts \
         --skip-crds --wait=hookOnly --output=json --values /tmp/a.yaml --values /tmp/b.yaml \
         --set=memory=1073741824 -- pr-1-api /charts/api",
    );
}

#[tokio::test]
async fn an_uninstall_waits_until_everything_is_gone() {
    let stand = stand("true");
    stand.helm.uninstall(true, Duration::from_secs(1000)).await.expect("uninstalled");
    stand.check(
        "uninstall --debug --wait=watcher --cascade=foreground --ignore-not-found --namespace petri-env-0123abcd \
         --timeout TIME -- pr-1-api",
    );
    stand.helm.uninstall(false, Duration::from_secs(7)).await.expect("uninstalled");
    stand.check(
        "uninstall --debug --wait=watcher --cascade=foreground --ignore-not-found --no-hooks \
         --namespace petri-env-0123abcd --timeout 7s -- pr-1-api",
    );
}

#[tokio::test]
async fn a_rollback_names_its_revision_and_runs_no_hooks() {
    let stand = stand("true");
    stand.helm.rollback(4).await.expect("rolled back");
    stand.check(
        "rollback --no-hooks --server-side=true --force-conflicts --namespace petri-env-0123abcd --timeout TIME \
         --wait=hookOnly -- pr-1-api 4",
    );
}

#[tokio::test]
async fn helm_sees_only_the_environment_it_needs_and_writes_into_the_private_directory() {
    let stand = stand("true");
    stand.helm.rollback(1).await.expect("rolled back");
    let noted = stand.noted();
    assert!(noted.contains(&"HELM_MAX_HISTORY=5".to_owned()));
    assert!(noted.contains(&format!("HOME={}", stand.work.path().display())));
    assert!(
        !noted.iter().any(|line| line.starts_with("CARGO_")),
        "the test's own environment is not passed on"
    );
}

#[tokio::test]
async fn a_failure_has_its_reason_and_no_value() {
    let stand = stand(
        "echo 'level=INFO msg=x' >&2
         echo 'Error: UPGRADE FAILED: x is invalid: spec: Invalid value: \"correct horse battery\": field is immutable' >&2
         exit 1",
    );
    let failure = stand.helm.install(Path::new("/charts/api"), &Values::default()).await.expect_err("failed");
    assert_eq!(failure.reason, FailureReason::ImmutableField);
    assert_eq!(
        failure.message,
        "UPGRADE FAILED: x is invalid: spec: Invalid value: \"•••\": field is immutable"
    );
}

#[tokio::test]
async fn a_helm_that_is_killed_or_writes_no_json_is_said_to_be() {
    let killed = stand("kill -9 $$").helm.rollback(1).await.expect_err("failed");
    assert_eq!(killed.reason, FailureReason::HelmFailed);
    assert!(killed.message.contains("signal: 9"), "{killed}");
    let odd = stand("echo '{\"version\":\"correct horse battery\"}'");
    let odd = odd.helm.install(Path::new("/c"), &Values::default()).await.expect_err("failed");
    assert_eq!(odd.message, "helm install wrote no release as JSON: line 1 column 34");
}

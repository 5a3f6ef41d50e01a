use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::deployer::files::WorkDirectory;
use crate::deployer::limits::Limits;
use crate::deployer::mask::Masker;

fn work() -> WorkDirectory {
    WorkDirectory::new(&std::env::temp_dir()).expect("a directory")
}

async fn located(helm: Value, work: &Path) -> Result<Chart, Failure> {
    let source: HelmSource = serde_json::from_value(helm).expect("the fields are known");
    let (_, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_secs(60), stop);
    let program = Helm::new(Path::new("/nonesuch"), work, "r", "n", limits, Arc::new(Masker::default()));
    locate(&source, &Credentials::default(), &program, work).await
}

/// A chart with a values file, a link that stays inside and one that leads out.
fn chart(work: &Path) -> PathBuf {
    let chart = work.join("charts").join("api");
    fs::create_dir_all(chart.join("env")).expect("made");
    fs::write(chart.join("Chart.yaml"), "name: api\n").expect("written");
    fs::write(chart.join("env/a,b.yaml"), "a: 1\n").expect("written");
    fs::write(work.join("outside.yaml"), "secret: 1\n").expect("written");
    symlink("env/a,b.yaml", chart.join("inside.yaml")).expect("linked");
    symlink("../../outside.yaml", chart.join("leads-out.yaml")).expect("linked");
    chart
}

#[tokio::test]
async fn a_chart_on_this_file_system_is_taken_as_it_is() {
    let work = work();
    let path = chart(work.path());
    let found = located(json!({"path": path}), work.path()).await.expect("found");
    assert_eq!(found, Chart { path: fs::canonicalize(path).expect("there"), values_file: None });
}

#[tokio::test]
async fn a_chart_that_is_not_there_is_named() {
    let work = work();
    let failure = located(json!({"path": "/charts/nonesuch"}), work.path()).await.expect_err("not there");
    assert_eq!(failure.reason, FailureReason::ChartNotFound);
    assert!(failure.message.starts_with("no chart at /charts/nonesuch"), "{failure}");
}

#[rstest]
#[case::with_a_comma("env/a,b.yaml")]
#[case::through_a_link("inside.yaml")]
#[tokio::test]
async fn a_values_file_of_the_source_is_copied_under_a_plain_name(#[case] name: &str) {
    let work = work();
    let path = chart(work.path());
    let found = located(json!({"path": path, "valuesFile": name}), work.path()).await.expect("found");
    let copy = found.values_file.expect("a copy");
    assert_eq!(copy, work.path().join("values-of-source.yaml"));
    assert_eq!(fs::read_to_string(copy).expect("readable"), "a: 1\n");
}

#[rstest]
#[case::absolute("/etc/hostname", "is an absolute path")]
#[case::above("../../outside.yaml", "is no file inside the chart source")]
#[case::a_link_that_leads_out("leads-out.yaml", "is no file inside the chart source")]
#[case::a_folder("env", "is no file inside the chart source")]
#[case::nothing("nonesuch.yaml", "is not in the chart source")]
#[tokio::test]
async fn a_values_file_outside_the_source_is_refused(#[case] name: &str, #[case] why: &str) {
    let work = work();
    let path = chart(work.path());
    let failure = located(json!({"path": path, "valuesFile": name}), work.path()).await.expect_err("refused");
    assert_eq!(failure.reason, FailureReason::ValuesInvalid);
    assert_eq!(failure.message, format!("valuesFile {name:?} {why}"));
}

#[tokio::test]
async fn a_source_that_is_not_clear_is_refused_before_anything_runs() {
    let work = work();
    let failure =
        located(json!({"path": "/c", "repo": "https://r"}), work.path()).await.expect_err("refused");
    assert_eq!(failure.reason, FailureReason::ChartInvalid);
}

#[test]
fn a_login_reaches_helm_through_files_that_only_this_user_reads() {
    use std::os::unix::fs::PermissionsExt;
    let work = work();
    let mounted = work.path().join("mounted");
    fs::create_dir(&mounted).expect("made");
    for (key, value) in [("username", "me\n"), ("password", "correct horse"), ("ca.crt", "pem")] {
        fs::write(mounted.join(key), value).expect("written");
    }
    let credentials = Credentials::read(&mounted).expect("readable");
    assert_eq!(credentials.secrets(), ["correct horse", "bWU6Y29ycmVjdCBob3JzZQ=="]);
    let config = credentials.repository_config("https://charts.example", work.path()).expect("written");
    let config = config.expect("there is a login");
    assert_eq!(fs::metadata(&config).expect("there").permissions().mode() & 0o777, 0o600);
    let config: Value = serde_json::from_slice(&fs::read(config).expect("readable")).expect("JSON");
    assert_eq!(config["repositories"][0]["username"], "me");
    let registry = credentials.registry_config(Some("oci://registry.example:5000/a/b"), work.path());
    let registry =
        fs::read_to_string(registry.expect("written").expect("there is a login")).expect("readable");
    assert_eq!(registry, r#"{"auths":{"registry.example:5000":{"auth":"bWU6Y29ycmVjdCBob3JzZQ=="}}}"#);
    assert_eq!(credentials.tls_arguments().len(), 2);
}

#[test]
fn a_mounted_docker_login_is_used_as_it_is_and_its_secrets_are_known() {
    let work = work();
    let text = r#"{"auths":{"r.example":{"username":"me","password":"pw-1","auth":"bWU6cHctMQ=="}}}"#;
    fs::write(work.path().join(".dockerconfigjson"), text).expect("written");
    let credentials = Credentials::read(work.path()).expect("readable");
    assert_eq!(credentials.secrets(), ["pw-1", "bWU6cHctMQ=="]);
    let path =
        credentials.registry_config(Some("oci://r.example/a"), work.path()).expect("no file is needed");
    assert_eq!(path, Some(work.path().join(".dockerconfigjson")));
    assert!(Credentials::read(&work.path().join("nonesuch")).is_err());
}

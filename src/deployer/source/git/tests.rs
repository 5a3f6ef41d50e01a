use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Duration;

use rstest::rstest;
use tokio::sync::watch;

use super::*;
use crate::deployer::files::WorkDirectory;
use crate::deployer::limits::Limits;
use crate::deployer::mask::Masker;

fn work() -> WorkDirectory {
    WorkDirectory::new(&std::env::temp_dir()).expect("a directory")
}

async fn fetched(repo: &str, path: &str, reference: &str) -> Result<Checkout, Failure> {
    let work = work();
    let source = GitSource {
        repo: repo.to_owned(),
        path: path.to_owned(),
        reference: reference.to_owned(),
        fallback_ref: "main".to_owned(),
    };
    let (_, stop) = watch::channel(false);
    let limits = Limits::new(Duration::from_secs(60), stop);
    let helm = Helm::new(Path::new("/nonesuch"), work.path(), "r", "n", limits, Arc::new(Masker::default()));
    fetch(&source, &Credentials::default(), &helm, work.path()).await
}

#[rstest]
#[case::a_file("file:///etc", "an http or https URL")]
#[case::a_helper_program("ext::sh -c touch% /tmp/x", "an http or https URL")]
#[case::a_login("https://me:secret@git.example/r", "an http or https URL")]
#[case::a_local_path("/srv/git", "an http or https URL")]
#[tokio::test]
async fn a_url_that_is_not_plain_http_is_refused(#[case] url: &str, #[case] why: &str) {
    let failure = fetched(url, ".", "main").await.expect_err("refused");
    assert_eq!(failure.reason, FailureReason::ChartInvalid);
    assert!(failure.message.contains(why) && !failure.message.contains("secret"), "{failure}");
}

#[rstest]
#[case("--upload-pack=touch")]
#[case("main:refs/heads/x")]
#[case("+main")]
#[case("a..b")]
#[case("main^{tree}")]
#[case("")]
#[tokio::test]
async fn a_ref_that_git_would_read_as_more_than_a_name_is_refused(#[case] reference: &str) {
    let failure = fetched("http://127.0.0.1:1/r", ".", reference).await.expect_err("refused");
    assert_eq!(failure.reason, FailureReason::ChartInvalid);
    assert!(failure.message.contains("is no name of a ref"), "{failure}");
}

#[tokio::test]
async fn a_repository_that_does_not_answer_is_out_of_reach() {
    let failure = fetched("http://127.0.0.1:1/r", ".", "main").await.expect_err("nobody listens");
    assert_eq!(failure.reason, FailureReason::SourceUnreachable, "{failure}");
    assert!(failure.message.starts_with("git fetch: "), "{failure}");
}

#[test]
fn a_chart_is_a_directory_inside_the_repository_and_so_are_its_links() {
    let work = work();
    let root = work.path().join("repository");
    fs::create_dir_all(root.join("charts/api/templates")).expect("made");
    fs::write(root.join("shared.yaml"), "").expect("written");
    symlink("../../../shared.yaml", root.join("charts/api/templates/shared.yaml")).expect("linked");
    let found = chart_in(&root, "charts/api").expect("a chart");
    assert!(found.chart.ends_with("repository/charts/api"));
    for path in ["nonesuch", "..", "../..", "shared.yaml"] {
        let failure = chart_in(&root, path).expect_err("no chart");
        assert_eq!(failure.reason, FailureReason::ChartNotFound, "{path}");
    }
    symlink("/etc/hostname", root.join("charts/api/templates/token")).expect("linked");
    let failure = chart_in(&root, "charts/api").expect_err("refused");
    assert_eq!(failure.message, "the link \"token\" leads out of the repository");
}

#[test]
fn git_gets_a_login_through_its_environment_and_follows_no_redirect_with_it() {
    let work = work();
    fs::write(work.path().join("token"), "tok-123").expect("written");
    let credentials = Credentials::read(work.path()).expect("readable");
    let environment = environment(&credentials, work.path());
    let value = |wanted: &str| {
        let (key, _) = environment.iter().find(|(_, value)| value == wanted)?;
        let number = key.to_str()?.strip_prefix("GIT_CONFIG_KEY_")?.to_owned();
        environment
            .iter()
            .find(|(key, _)| *key == *format!("GIT_CONFIG_VALUE_{number}"))
            .map(|(_, value)| value.clone())
    };
    assert_eq!(value("http.followRedirects"), Some("false".into()));
    assert_eq!(
        value("http.extraHeader"),
        Some("Authorization: Basic eC1hY2Nlc3MtdG9rZW46dG9rLTEyMw==".into())
    );
    assert_eq!(value("protocol.allow"), Some("never".into()));
    let count = environment.iter().find(|(key, _)| key == "GIT_CONFIG_COUNT").map(|(_, value)| value.clone());
    let keys =
        environment.iter().filter(|(key, _)| key.to_string_lossy().starts_with("GIT_CONFIG_KEY_")).count();
    assert_eq!(count, Some(keys.to_string().into()));
}

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
#[case::a_file("file:///etc", "an http, https or ssh URL")]
#[case::a_helper_program("ext::sh -c touch% /tmp/x", "an http, https or ssh URL")]
#[case::a_login("https://me:secret@git.example/r", "an http, https or ssh URL")]
#[case::a_local_path("/srv/git", "an http, https or ssh URL")]
#[tokio::test]
async fn a_url_that_is_not_plainly_of_a_git_server_is_refused(#[case] url: &str, #[case] why: &str) {
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
    let environment = environment(Transport::Http, &credentials, work.path()).expect("no ssh");
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

#[test]
fn ssh_gets_the_key_in_a_file_of_its_own_and_only_hosts_that_are_known() {
    use std::os::unix::fs::PermissionsExt;
    let work = work();
    let mounted = work.path().join("it's mounted");
    fs::create_dir(&mounted).expect("made");
    fs::write(mounted.join("ssh-privatekey"), "-----BEGIN\r\nabcdefgh\r\n-----END").expect("written");
    let failure = environment(Transport::Ssh, &Credentials::read(&mounted).expect("readable"), work.path());
    let failure = failure.expect_err("no known hosts");
    assert_eq!(failure.reason, FailureReason::SourceUnauthorized);
    assert!(failure.message.contains("known_hosts"), "{failure}");
    fs::write(mounted.join("known_hosts"), "h ssh-ed25519 x").expect("written");
    let credentials = Credentials::read(&mounted).expect("readable");
    let environment = environment(Transport::Ssh, &credentials, work.path()).expect("both are there");
    let key = work.path().join("ssh-key");
    assert_eq!(fs::read_to_string(&key).expect("written"), "-----BEGIN\nabcdefgh\n-----END\n");
    assert_eq!(fs::metadata(key).expect("written").permissions().mode() & 0o777, 0o600);
    let config = fs::read_to_string(work.path().join("ssh-config")).expect("written");
    assert!(config.contains("StrictHostKeyChecking yes") && config.contains("BatchMode yes"), "{config}");
    let names = environment.iter().map(|(_, name)| name.to_string_lossy());
    let allowed: Vec<_> = names.filter(|name| name.ends_with(".allow")).collect();
    assert_eq!(allowed, ["protocol.allow", "protocol.ssh.allow"]);
    assert!(credentials.secrets().iter().any(|secret| secret.contains("abcdefgh")));
}

#[test]
fn a_shortened_commit_is_told_from_a_name() {
    for (word, commit, short) in [
        ("0123abc", true, true),
        ("0123456789012345678901234567890123456789", true, false),
        ("beef", false, true),
        ("release", false, true),
    ] {
        assert_eq!((is_commit(word), is_short(word)), (commit, short), "{word}");
    }
}

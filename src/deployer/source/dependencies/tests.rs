use std::fs::{create_dir_all, write};

use rstest::rstest;

use super::*;
use crate::deployer::files::WorkDirectory;

fn work() -> WorkDirectory {
    WorkDirectory::new(&std::env::temp_dir()).expect("a directory")
}

fn chart_with(work: &Path, manifest: &str) -> PathBuf {
    let chart = work.join("charts/app");
    create_dir_all(chart.join("charts/unpacked")).expect("made");
    write(chart.join("Chart.yaml"), manifest).expect("written");
    write(chart.join("charts/unpacked/Chart.yaml"), "name: redis\n").expect("written");
    write(chart.join("charts/common-2.0.1.tgz"), "").expect("written");
    write(chart.join("charts/queue-worker-1.0.0.tgz"), "").expect("written");
    chart
}

#[test]
fn a_dependency_is_there_as_a_folder_or_as_an_archive_of_its_name() {
    let work = work();
    let chart = chart_with(work.path(), "name: app\ndependencies: [{name: redis}, {name: common}]\n");
    let names: Vec<String> = dependencies(&chart).into_iter().map(|dependency| dependency.name).collect();
    assert_eq!(names, ["redis", "common"]);
    let there = vendored(&chart.join("charts"));
    for (name, expected) in
        [("redis", true), ("common", true), ("queue-worker", true), ("queue", false), ("unpacked", false)]
    {
        assert_eq!(is_vendored(name, &there), expected, "{name}");
    }
}

#[test]
fn a_chart_that_cannot_be_read_is_left_to_helm() {
    let work = work();
    let chart = chart_with(work.path(), "name: [app\n");
    assert!(dependencies(&chart).is_empty());
    write(chart.join("requirements.yaml"), "dependencies: [{name: old}]\n").expect("written");
    assert_eq!(dependencies(&chart)[0].name, "old");
}

#[rstest]
#[case::web("https://charts.example/x", None)]
#[case::registry("oci://registry.example/x", None)]
#[case::beside("file://../common", None)]
#[case::nothing("", Some("has no repository"))]
#[case::a_name_of_a_list("@bitnami", Some("an http or https URL"))]
#[case::a_plugin("s3://bucket/charts", Some("an http or https URL"))]
#[case::a_login("https://me:secret@charts.example", Some("without a login"))]
#[case::a_login_at_a_registry("oci://me:secret@registry.example/x", Some("no usable repository"))]
#[case::absolute("file:///etc", Some("lies outside"))]
#[case::outside("file://../../outside", Some("lies outside"))]
#[case::not_there("file://../nonesuch", Some("not there"))]
#[case::through_a_link("file://../linked", Some("leads out"))]
fn dependencies_come_from_the_web_a_registry_or_beside(#[case] repository: &str, #[case] why: Option<&str>) {
    let work = work();
    let chart = chart_with(work.path(), "");
    create_dir_all(work.path().join("outside")).expect("made");
    create_dir_all(work.path().join("charts/common")).expect("made");
    create_dir_all(work.path().join("charts/linked")).expect("made");
    symlink("/etc/hostname", work.path().join("charts/linked/values.yaml")).expect("linked");
    let within = fs::canonicalize(work.path().join("charts")).expect("there");
    let dependency = Dependency { name: "x".to_owned(), repository: repository.to_owned() };
    let found = check(&dependency, &fs::canonicalize(chart).expect("there"), &within);
    match (why, found) {
        (None, found) => found.expect("allowed"),
        (Some(why), Err(failure)) => {
            assert_eq!(failure.reason, FailureReason::ChartInvalid);
            assert!(failure.message.contains(why) && !failure.message.contains("secret"), "{failure}");
        }
        (Some(why), Ok(())) => panic!("{repository} is taken, expected: {why}"),
    }
}

#[test]
fn only_the_host_that_the_chart_came_from_gets_the_login() {
    let work = work();
    write(work.path().join("username"), "me").expect("written");
    write(work.path().join("password"), "correct horse").expect("written");
    let credentials = Credentials::read(work.path()).expect("readable");
    let of = |repository: &str| Dependency { name: "x".to_owned(), repository: repository.to_owned() };
    let own = ["https://git.example/charts"];
    let others = [
        "https://git.example.evil/charts",
        "https://git.example:8443/charts",
        "http://git.example/charts",
        "https://elsewhere.example/git.example/",
    ];
    let all: Vec<Dependency> = own.iter().chain(&others).map(|url| of(url)).collect();
    let source = json!({"git": {"repo": "https://git.example/org/repo.git", "path": "chart"}});
    let source: HelmSource = serde_json::from_value(source).expect("a source");
    let list = repositories(&all, &source, &credentials);
    for entry in list["repositories"].as_array().expect("a list") {
        let url = entry["url"].as_str().expect("a URL");
        assert_eq!(entry["password"] == "correct horse", own.contains(&url), "{url}");
        assert_eq!(entry.get("username").is_some(), own.contains(&url), "{url}");
    }
    let ssh = json!({"git": {"repo": "ssh://git.example/org/repo.git", "path": "chart"}});
    let ssh: HelmSource = serde_json::from_value(ssh).expect("a source");
    assert!(!repositories(&all, &ssh, &credentials).to_string().contains("horse"));
}

#[test]
fn a_chart_that_is_copied_keeps_its_neighbours() {
    let work = work();
    let chart = chart_with(work.path(), "name: app\n");
    create_dir_all(work.path().join("charts/common")).expect("made");
    write(work.path().join("charts/common/Chart.yaml"), "name: common\n").expect("written");
    let copy = copy_of(&chart, work.path()).expect("copied");
    assert_eq!(copy, work.path().join("copied/app"));
    assert!(copy.join("charts/common-2.0.1.tgz").is_file());
    assert!(copy.join("../common/Chart.yaml").is_file());
}

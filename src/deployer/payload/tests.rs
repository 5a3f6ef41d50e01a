use super::*;
use rstest::rstest;
use serde_json::{Value, json};

fn whole() -> Value {
    json!({
        "OwnerUID": "3f0c7f3e-93d4-4d5b-8a52-4fd5ab0d9c01",
        "Namespace": "petri-env-0123abcd",
        "ReleaseName": "pr-1-api",
        "Serial": 7,
        "Component": {"name": "api", "helm": {"path": "/charts/api"}, "values": {"replicas": 2, "id": "00215e6"}},
    })
}

fn source(helm: Value) -> HelmSource {
    serde_json::from_value(helm).expect("the fields are known")
}

#[test]
fn the_operators_json_is_read_and_written_the_same() {
    let payload = Payload::decode(&whole().to_string()).expect("a good payload");
    assert_eq!(payload.serial, 7);
    assert_eq!(payload.component.helm.chart_source(), Ok(ChartSource::Path("/charts/api")));
    assert_eq!(serde_json::to_value(&payload).expect("serialises"), whole());
}

#[test]
fn an_undeploy_needs_neither_chart_nor_values() {
    let mut text = whole();
    text["Component"] = json!({"name": "api"});
    assert!(Payload::decode(&text.to_string()).is_ok());
}

#[rstest]
#[case::unknown("/Extra", json!(1), "unknown field `Extra`")]
#[case::unknown_in_helm("/Component/helm/chrat", json!("x"), "unknown field `chrat`")]
#[case::option_as_release("/ReleaseName", json!("--kubeconfig=x"), "ReleaseName \"--kubeconfig=x\" is not valid")]
#[case::long_release("/ReleaseName", json!("r".repeat(54)), "ReleaseName")]
#[case::path_as_namespace("/Namespace", json!("../kube-system"), "Namespace \"../kube-system\"")]
#[case::empty_component("/Component/name", json!(""), "Component.name")]
#[case::negative_serial("/Serial", json!(-1), "a value of the wrong type at line 1")]
fn a_field_that_is_wrong_is_named(#[case] pointer: &str, #[case] value: Value, #[case] expected: &str) {
    let mut text = whole();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    text.pointer_mut(parent).expect("the parent is there")[key] = value;
    let error = Payload::decode(&text.to_string()).expect_err("refused").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn a_missing_and_a_doubled_field_are_named() {
    let mut text = whole();
    text.as_object_mut().expect("an object").remove("Serial");
    let error = Payload::decode(&text.to_string()).expect_err("refused").to_string();
    assert!(error.contains("missing field `Serial`"), "{error}");
    let doubled = whole().to_string().replacen('{', r#"{"Serial":1,"#, 1);
    let error = Payload::decode(&doubled).expect_err("refused").to_string();
    assert!(error.contains("duplicate field `Serial`"), "{error}");
}

#[test]
fn an_error_never_quotes_a_value_of_the_chart() {
    for text in [r#"{"Component":{"values":"hunter2"}}"#, r#"{"Component":{"values":{"a":hunter2}}}"#] {
        let error = Payload::decode(text).expect_err("refused").to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn each_kind_of_chart_source_is_told_apart() {
    let git = source(json!({"git": {"repo": "https://git.example/r", "path": "chart"}}));
    let Ok(ChartSource::Git(git)) = git.chart_source() else { panic!("a git source") };
    assert_eq!((git.reference.as_str(), git.fallback_ref.as_str()), ("main", "main"));
    assert_eq!(
        source(json!({"repo": "https://charts.example", "chart": "api", "version": "1.2.3"})).chart_source(),
        Ok(ChartSource::Repository { repo: "https://charts.example", chart: "api", version: "1.2.3" })
    );
    assert_eq!(
        source(json!({"chart": "oci://registry.example/api", "version": "1.2.3"})).chart_source(),
        Ok(ChartSource::Oci { chart: "oci://registry.example/api", version: Some("1.2.3") })
    );
}

#[rstest]
#[case::none(json!({}), "found none")]
#[case::two(json!({"path": "/c", "chart": "oci://r/c"}), "found path, chart")]
#[case::no_version(json!({"repo": "https://r", "chart": "c"}), "repo and chart without version")]
#[case::no_chart(json!({"repo": "https://r"}), "repo without chart")]
#[case::local_name(json!({"chart": "api"}), "chart without repo")]
#[case::option(json!({"path": "--post-renderer=/bin/sh"}), "no leading hyphen")]
#[case::option_as_version(json!({"repo": "https://r", "chart": "c", "version": "--untar"}), "helm.version")]
#[case::option_as_ref(json!({"git": {"repo": "https://r", "path": "c", "ref": "--upload-pack=x"}}), "helm.git.ref")]
#[case::file_url(json!({"repo": "file:///etc", "chart": "c", "version": "1"}), "an http or https URL")]
#[case::login(json!({"repo": "https://me:hunter2@r", "chart": "c", "version": "1"}), "(masked)")]
fn a_source_that_is_none_or_two_or_an_option_is_refused(#[case] helm: Value, #[case] expected: &str) {
    let error = source(helm).chart_source().expect_err("refused").to_string();
    assert!(error.contains(expected), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

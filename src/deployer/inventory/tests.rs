use super::*;
use rstest::rstest;

/// As helm 4.3.1 stores it.
const MANIFEST: &str = "\
---
# Source: good/templates/all.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: \"pr-1-api-cm\"}
data:
  a: |
    --- not a document
    kind: Secret
---
# Source: good/templates/all.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: pr-1-api
  namespace: petri-env-0123abcd
  name: pr-1-api
spec:
  replicas: 0o1
";

fn reference(api_version: &str, kind: &str, name: &str, namespace: Option<&str>) -> Reference {
    let namespace = namespace.map(str::to_owned);
    Reference { api_version: api_version.to_owned(), kind: kind.to_owned(), name: name.to_owned(), namespace }
}

#[test]
fn every_object_of_a_manifest_is_found_and_nothing_inside_a_text() {
    let found = read_manifest(MANIFEST).expect("readable");
    let expected = [
        reference("apps/v1", "Deployment", "pr-1-api", Some("petri-env-0123abcd")),
        reference("v1", "ConfigMap", "pr-1-api-cm", None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_objects_of_a_list_are_its_items() {
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n\
                - {apiVersion: v1, kind: Secret, metadata: {name: b}}\n";
    let names: Vec<String> =
        read_manifest(list).expect("readable").into_iter().map(|found| found.name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[rstest]
#[case::empty("")]
#[case::comments("---\n# Source: a\n\n---\n# b\n")]
#[case::null("---\nnull\n")]
fn a_manifest_without_objects_is_an_empty_inventory(#[case] manifest: &str) {
    assert_eq!(read_manifest(manifest).expect("readable"), []);
}

#[rstest]
#[case::no_yaml("---\na: b\n---\nx: [\n", 0)]
#[case::no_kind("---\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\napiVersion: v1\n", 1)]
#[case::no_name("apiVersion: v1\nkind: Secret\nmetadata: {}\n", 0)]
fn a_manifest_that_is_not_readable_names_the_place_and_shows_nothing(
    #[case] manifest: &str,
    #[case] index: usize,
) {
    assert_eq!(read_manifest(manifest).expect_err("refused").index, index);
}

#[test]
fn an_inventory_is_read_as_it_was_written() {
    let payload = Payload::decode(
        r#"{"OwnerUID":"u-1","Namespace":"ns","ReleaseName":"pr-1-api","Serial":7,"Component":{"name":"api"}}"#,
    )
    .expect("a payload");
    let (api_version, kind) = ("apps/v1".to_owned(), "Deployment".to_owned());
    let items = [Item { api_version, kind, name: "pr-1-api".to_owned(), uid: "u-2".to_owned() }];
    let written = config_map(&payload, &items);
    assert_eq!(read_config_map(&written), items);
    insta::assert_json_snapshot!(written, @r#"
    {
      "apiVersion": "v1",
      "kind": "ConfigMap",
      "data": {
        "objects": "[{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"pr-1-api\",\"uid\":\"u-2\"}]",
        "release": "pr-1-api",
        "serial": "7"
      },
      "metadata": {
        "labels": {
          "app.kubernetes.io/managed-by": "petri",
          "app.kubernetes.io/part-of": "petri",
          "petri.run/component": "api",
          "petri.run/environment-uid": "u-1",
          "petri.run/managed": "true"
        },
        "name": "petri-inventory-api",
        "namespace": "ns"
      }
    }
    "#);
}

//! What the CRDs refuse and accept, decided offline: the rules by kube-cel, the rest by a small schema check.
//! The same fixtures are applied to a real API server by the cluster tests.

use kube_cel::Validator;
use petri_crds::fixtures::{Fixture, accepted, refusals};
use petri_crds::openapi;
use petri_crds::{
    EnvironmentTemplate, EphemeralEnvironment, SharedComponent, SharedComponentProvider, crds, yaml,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What the tests need of each kind, made once: it takes longer than all checks together.
static KINDS: LazyLock<BTreeMap<String, Kind>> = LazyLock::new(|| {
    let good: Vec<Value> = accepted().expect("the fixtures").iter().map(parse).collect();
    let kinds = crds().into_iter().map(|crd| {
        let schema =
            crd.spec.versions.into_iter().next().and_then(|version| version.schema).expect("a schema");
        let schema =
            serde_json::to_value(schema.open_api_v3_schema.expect("a schema")).expect("a JSON schema");
        let name = crd.spec.names.kind;
        let good =
            good.iter().find(|object| object["kind"] == name.as_str()).expect("an accepted fixture").clone();
        (name, Kind { schema, good })
    });
    kinds.collect()
});

struct Kind {
    /// The schema as the CRD carries it.
    schema: Value,
    /// An accepted object, to be updated.
    good: Value,
}

/// Everything the server would say to this object; `old` makes it an update.
fn complaints(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = openapi::violations(schema, object);
    if let Err(errors) = Validator::new().validate(schema, object, old) {
        found.extend(errors.iter().map(ToString::to_string));
    }
    found
}

/// Checks a spec at creation, and as an update of a good object: a message that must be among the refusals, or none.
fn check(kind: &str, spec: &Value, refused: Option<&str>) {
    let object = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let Kind { schema, good } = &KINDS[kind];
    for old in [None, Some(good)] {
        let found = complaints(schema, &object, old);
        match refused {
            Some(message) => {
                assert!(found.iter().any(|said| said.contains(message)), "{spec}\nsaid: {found:?}")
            }
            None => assert!(found.is_empty(), "{spec}\nsaid: {found:?}"),
        }
    }
}

fn parse(fixture: &Fixture) -> Value {
    serde_saphyr::from_str(&fixture.manifest).unwrap_or_else(|error| panic!("{}: {error}", fixture.name))
}

/// A template of these components, with further fields of the spec.
fn template(components: Value, more: &Value) -> Value {
    let mut spec = json!({ "components": components });
    for (key, value) in more.as_object().expect("an object of fields") {
        spec[key] = value.clone();
    }
    spec
}

fn chart(name: &str) -> Value {
    json!({"name": name, "helm": {"path": "/charts/x"}})
}

#[test]
fn every_refused_fixture_is_refused_at_create_and_at_update_with_its_message() {
    let fixtures = refusals().expect("the fixtures");
    assert!(fixtures.len() > 50, "only {} fixtures", fixtures.len());
    for fixture in fixtures {
        let object = parse(&fixture);
        let expect = fixture.expect.as_deref().unwrap_or_else(|| panic!("{} has no # expect", fixture.name));
        check(object["kind"].as_str().expect("a kind"), &object["spec"], Some(expect));
    }
}

#[test]
fn every_accepted_fixture_is_accepted_and_survives_its_rust_type() {
    for fixture in accepted().expect("the fixtures") {
        let object = parse(&fixture);
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        check(&kind, &object["spec"], None);
        let decoded = match kind.as_str() {
            "EphemeralEnvironment" => round_trip::<EphemeralEnvironment>(object),
            "EnvironmentTemplate" => round_trip::<EnvironmentTemplate>(object),
            "SharedComponent" => round_trip::<SharedComponent>(object),
            _ => round_trip::<SharedComponentProvider>(object),
        };
        check(&kind, &decoded["spec"], None);
        assert_eq!(fixture.expect, None, "{}", fixture.name);
    }
}

fn round_trip<T: serde::de::DeserializeOwned + serde::Serialize>(object: Value) -> Value {
    let decoded: T = serde_json::from_value(object).expect("an object that the schema accepts");
    serde_json::to_value(decoded).expect("an encodable object")
}

#[test]
fn every_rule_of_the_crds_has_a_refused_fixture() {
    let expected: BTreeSet<String> =
        refusals().expect("the fixtures").into_iter().filter_map(|fixture| fixture.expect).collect();
    let mut messages = BTreeSet::new();
    for kind in KINDS.values() {
        walk(&kind.schema, "", &mut |schema, path| {
            for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(
                    path.starts_with(".spec"),
                    "a rule at {path:?} also runs on writes that are not the user's"
                );
                messages.insert(rule["message"].as_str().expect("a rule with a message").to_owned());
            }
        });
    }
    assert!(messages.len() >= 20, "only {} rules", messages.len());
    let without: Vec<_> = messages.difference(&expected).collect();
    assert!(without.is_empty(), "no refused fixture for {without:?}");
}

/// Visits a schema and everything below it, with its path (`[]` for items, `{}` for values of a map).
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&Value, &str)) {
    visit(schema, path);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        walk(inner, &format!("{path}.{name}"), visit);
    }
    if schema["items"].is_object() {
        walk(&schema["items"], &format!("{path}[]"), visit);
    }
    if schema["additionalProperties"].is_object() {
        walk(&schema["additionalProperties"], &format!("{path}{{}}"), visit);
    }
}

#[test]
fn everything_in_a_spec_has_a_maximum_and_every_field_is_explained() {
    for (name, kind) in KINDS.iter() {
        walk(&kind.schema, "", &mut |schema, path| {
            // pieces of core types: the server of the Job that uses them checks them
            let foreign = ["env[]", "envFrom[]", "volumes[]", "volumeMounts[]", "conditions[]"]
                .iter()
                .any(|piece| path.contains(piece));
            if foreign {
                return;
            }
            let at = format!("{name}{path}");
            assert!(
                schema["description"].is_string() || !path.ends_with(char::is_alphabetic),
                "{at} has no docs"
            );
            assert!(
                !schema["format"].as_str().is_some_and(|format| format.starts_with("uint")),
                "{at} is unsigned"
            );
            if path.starts_with(".spec") {
                let bound = match schema["type"].as_str() {
                    Some("array") => "maxItems",
                    Some("object") if schema["additionalProperties"].is_object() => "maxProperties",
                    Some("string") if schema["enum"].is_null() => "maxLength",
                    Some("integer") => "maximum",
                    _ => return,
                };
                assert!(schema[bound].is_number(), "{at} has no {bound}");
            }
        });
    }
}

#[test]
fn the_committed_yaml_is_what_crdgen_writes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("yaml");
    let mut names = BTreeSet::new();
    for crd in crds() {
        let name = format!("{}.yaml", crd.metadata.name.clone().expect("a name"));
        let committed = std::fs::read_to_string(folder.join(&name)).expect("a committed file");
        assert!(committed == yaml(&crd).expect("YAML"), "{name} is old: run crdgen");
        assert!(committed.len() < 256 * 1024, "{name} does not fit into kubectl's annotation");
        names.insert(name);
    }
    let present: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(present, names);
}

#[test]
fn every_kind_has_the_names_columns_and_subresource_that_people_use() {
    let listed: Vec<String> = crds()
        .into_iter()
        .map(|crd| {
            let version = &crd.spec.versions[0];
            assert_eq!(crd.spec.names.categories.as_deref(), Some(&["petri".to_owned()][..]));
            assert!(version.subresources.as_ref().is_some_and(|sub| sub.status.is_some()));
            let columns = version.additional_printer_columns.iter().flatten();
            let columns: Vec<_> = columns
                .map(|column| {
                    if column.priority == Some(1) {
                        format!("({})", column.name)
                    } else {
                        column.name.clone()
                    }
                })
                .collect();
            format!("{}: {}", crd.spec.names.short_names.unwrap_or_default().join(","), columns.join(" "))
        })
        .collect();
    assert_eq!(
        listed,
        [
            "eenv: Phase Ready URL Expires Age (Template) (Namespace) (Reason)",
            "etmpl: Accepted TTL Domain Age (Reason)",
            "shc: Phase Ready Consumers Max Age (Provider) (Reason)",
            "shcp: Accepted Instance-Secret Provision Age",
        ]
    );
}

#[test]
fn a_ttl_is_a_go_duration_that_is_not_negative() {
    let message = Some("must be a Go duration that is not negative");
    for (ttl, refused) in [
        ("", None),
        ("0", None),
        ("0s", None),
        ("-0", None),
        ("90s", None),
        ("1h30m", None),
        ("1.5h", None),
        (".5h", None),
        ("+1h", None),
        ("5us", None),
        ("5", message),
        ("1d", message),
        ("1h ", message),
        ("h", message),
        ("forever", message),
        ("-1s", message),
        ("5s-3s", message),
    ] {
        check("EphemeralEnvironment", &json!({"template": "t", "ttl": ttl}), refused);
        check("SharedComponent", &json!({"provider": "p", "idleCleanup": ttl}), refused);
        check("EnvironmentTemplate", &template(json!([chart("a")]), &json!({"ttl": ttl})), refused);
        assert_eq!(petri_crds::Ttl::parse(ttl).is_ok(), refused.is_none(), "the operator's parser: {ttl:?}");
    }
}

#[test]
fn a_deploy_timeout_is_a_go_duration_above_zero() {
    let message = Some("must be a Go duration above zero");
    for (timeout, refused) in
        [("", None), ("1ns", None), ("20m", None), ("0", message), ("0s", message), ("-1m", message)]
    {
        check(
            "EnvironmentTemplate",
            &template(json!([chart("a")]), &json!({"deployTimeout": timeout})),
            refused,
        );
        assert_eq!(
            petri_crds::duration::timeout_secs(timeout, 900).is_ok(),
            refused.is_none(),
            "{timeout:?}"
        );
    }
}

#[test]
fn a_component_is_either_a_chart_or_shared() {
    let message = Some("exactly one of helm and sharedComponentRef is needed");
    for (component, refused) in [
        (json!({"name": "a", "helm": {"path": "x"}}), None),
        (json!({"name": "a", "helm": {"path": "x"}, "sharedComponentRef": ""}), None),
        (json!({"name": "a", "sharedComponentRef": "db"}), None),
        (json!({"name": "a", "sharedComponentRef": ""}), message),
        (json!({"name": "a"}), message),
        (json!({"name": "a", "helm": {"path": "x"}, "sharedComponentRef": "db"}), message),
    ] {
        check("EnvironmentTemplate", &template(json!([component]), &json!({})), refused);
    }
}

#[test]
fn a_chart_has_exactly_one_source() {
    let one = Some("exactly one chart source is needed");
    let name = Some("chart is either a name in repo, or an oci:// reference without repo");
    let repo = "https://charts.example";
    let git = json!({"repo": "https://git.example/x", "path": "chart"});
    for (helm, refused) in [
        (json!({"path": "/charts/x"}), None),
        (json!({"git": git}), None),
        (json!({"repo": repo, "chart": "x", "version": "1.0.0"}), None),
        (json!({"repo": repo, "chart": "x"}), None),
        (json!({"chart": "oci://registry.example/x", "version": "1.0.0"}), None),
        (json!({"path": "/charts/x", "repo": "", "chart": "", "version": ""}), None),
        (json!({}), one),
        (json!({"path": ""}), one),
        (json!({"path": "/charts/x", "git": git}), one),
        (json!({"git": git, "chart": "oci://registry.example/x"}), one),
        (json!({"path": "/charts/x", "repo": repo, "chart": "x"}), one),
        (json!({"repo": repo}), Some("repo needs chart")),
        (json!({"chart": "x"}), name),
        (json!({"repo": repo, "chart": "oci://registry.example/x"}), name),
    ] {
        let component = json!([{"name": "a", "helm": helm}]);
        check("EnvironmentTemplate", &template(component, &json!({})), refused);
        check("SharedComponentProvider", &json!({"helm": helm}), refused);
        let typed: petri_crds::Helm = serde_json::from_value(helm.clone()).expect("a helm block");
        assert_eq!(typed.source().is_some(), refused.is_none(), "the operator's reading: {helm}");
    }
}

#[test]
fn paths_inside_a_source_stay_inside() {
    for (path, good) in [
        ("values.yaml", true),
        ("a/b..c.yaml", true),
        ("", true),
        ("/etc/x", false),
        ("a/../x", false),
        ("..", false),
    ] {
        let refused = |message| if good { None } else { Some(message) };
        let helm = json!([{"name": "a", "helm": {"path": "x", "valuesFile": path}}]);
        check(
            "EnvironmentTemplate",
            &template(helm, &json!({})),
            refused("must be a file inside the chart source"),
        );
        let git = json!([{"name": "a", "helm": {"git": {"repo": "r", "path": path}}}]);
        check(
            "EnvironmentTemplate",
            &template(git, &json!({})),
            refused("must be a directory inside the repository"),
        );
    }
}

#[test]
fn dependencies_name_other_components_of_the_template() {
    let shared = |name: &str, on: Value| json!({"name": name, "sharedComponentRef": "s", "dependsOn": on});
    let helm = |name: &str, on: Value| json!({"name": name, "helm": {"path": "x"}, "dependsOn": on});
    for (components, refused) in [
        (json!([helm("a", json!([])), helm("b", json!(["a"])), helm("c", json!(["a", "b"]))]), None),
        (json!([helm("b", json!(["a"])), helm("a", json!([]))]), None),
        (json!([shared("a", json!([])), shared("b", json!(["a"])), helm("c", json!(["a", "b"]))]), None),
        (json!([helm("a", json!(["a"]))]), Some("a component must not depend on itself")),
        (
            json!([helm("a", json!(["x"]))]),
            Some("dependsOn names a component that the template does not have"),
        ),
        (
            json!([helm("a", json!([])), shared("b", json!(["a"]))]),
            Some("a shared component must not depend on a Helm"),
        ),
        (json!([helm("b", json!(["a", "a"])), helm("a", json!([]))]), Some("dependsOn[1]: Duplicate value")),
    ] {
        check("EnvironmentTemplate", &template(components, &json!({})), refused);
    }
}

#[test]
fn what_the_template_refers_to_is_in_it() {
    let components = json!([
        {"name": "web", "helm": {"path": "x", "credentialsSecretRef": {"name": "pull"}}},
        {"name": "db", "sharedComponentRef": "postgres"},
    ]);
    let secrets = json!([{"name": "pull"}, {"name": "tls"}]);
    let component = Some("must name a Helm component of the template");
    let secret = Some("must name one of the template's secrets");
    for (ingress, refused) in [
        (json!({}), None),
        (json!({"domain": "example.com", "component": "web", "tlsSecretName": "tls"}), None),
        (json!({"component": "", "tlsSecretName": ""}), None),
        (json!({"component": "db"}), component),
        (json!({"component": "api"}), component),
        (json!({"tlsSecretName": "other"}), secret),
        (json!({"className": "nginx"}), None),
        (json!({"className": "", "gateway": {"name": "g"}}), None),
        (json!({"className": "nginx", "gateway": {"name": "g"}}), Some("only one of them")),
    ] {
        let more = json!({"secrets": secrets, "ingress": ingress});
        check("EnvironmentTemplate", &template(components.clone(), &more), refused);
    }
    let credentials = Some("credentialsSecretRef must name one of the template's secrets");
    check("EnvironmentTemplate", &template(components.clone(), &json!({})), credentials);
    check("EnvironmentTemplate", &template(components, &json!({"secrets": [{"name": "tls"}]})), credentials);
}

#[test]
fn labels_and_annotations_of_a_namespace_are_not_petris() {
    let label = Some("labels under petri.run/");
    let pattern = Some("in body should match");
    for (labels, refused) in [
        (json!({"team": "shop", "pod-security.kubernetes.io/enforce": "restricted", "empty": ""}), None),
        (json!({"petri.run/environment-uid": "x"}), label),
        (json!({"app.kubernetes.io/managed-by": "x"}), label),
        (json!({"kubernetes.io/metadata.name": "x"}), label),
        (json!({"team": "a b"}), pattern),
    ] {
        let more = json!({"namespace": {"labels": labels}});
        check("EnvironmentTemplate", &template(json!([chart("a")]), &more), refused);
    }
    for (annotations, refused) in [
        (json!({"any": "text\nat all"}), None),
        (json!({"petri.run/retry": "x"}), Some("annotations under petri.run/")),
    ] {
        let namespace = json!({"namespace": {"annotations": annotations}});
        check("EnvironmentTemplate", &template(json!([chart("a")]), &namespace), refused);
        let ingress = json!({"ingress": {"annotations": annotations}});
        check("EnvironmentTemplate", &template(json!([chart("a")]), &ingress), refused);
    }
}

#[test]
fn a_values_key_is_a_path() {
    let message = Some("a key is a path in helm's --set syntax");
    for (key, refused) in [
        ("image.tag", None),
        ("hosts[0].name", None),
        (r"annotations.example\.com/x", None),
        ("", message),
        (".image", message),
        ("a=b", message),
    ] {
        check("EphemeralEnvironment", &json!({"template": "t", "values": {key: "x"}}), refused);
        check(
            "EphemeralEnvironment",
            &json!({"template": "t", "components": [{"name": "a", "values": {key: "x"}}]}),
            refused,
        );
        let component = json!([{"name": "a", "helm": {"path": "x", "values": {key: "x"}}}]);
        check("EnvironmentTemplate", &template(component, &json!({})), refused);
    }
}

#[test]
fn a_job_script_runs_one_thing_and_mounts_its_own_volumes() {
    let one = Some("exactly one of script and command is needed");
    let mount = Some("volumeMounts names a volume that is not in volumes");
    let volume = json!([{"name": "v", "emptyDir": {}}]);
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    for (job, refused) in [
        (json!({"image": "i", "script": "true"}), None),
        (json!({"image": "i", "command": ["true"], "script": ""}), None),
        (json!({"image": "i", "script": "true", "command": []}), None),
        (json!({"image": "i", "script": "true", "volumes": volume, "volumeMounts": mounts}), None),
        (json!({"image": "i", "script": "true", "volumes": volume}), None),
        (json!({"image": "i"}), one),
        (json!({"image": "i", "script": "", "command": []}), one),
        (json!({"image": "i", "script": "true", "command": ["true"]}), one),
        (json!({"image": "i", "script": "true", "volumeMounts": mounts}), mount),
        (json!({"image": "", "script": "true"}), Some("spec.provision.image in body should be at least 1")),
    ] {
        check("SharedComponentProvider", &json!({"provision": job}), refused);
        if refused != Some("spec.provision.image in body should be at least 1") {
            check("SharedComponentProvider", &json!({"deprovision": job}), refused);
        }
    }
}

#[test]
fn keys_of_secrets_are_keys_and_not_petris() {
    let key = Some("a key of a Secret consists of");
    for (name, refused) in [("URL", None), ("a.b-c_D9", None), ("", key), ("A B", key), ("a/b", key)] {
        check("SharedComponentProvider", &json!({"binding": {"secretKeys": {name: "x"}}}), refused);
        let instance = json!({"instanceSecret": {"name": "s", "keys": {name: {"value": ""}}}});
        check("SharedComponentProvider", &instance, refused);
    }
    let reserved = json!({"binding": {"secretKeys": {"petri.generated-secret": "x"}}});
    check("SharedComponentProvider", &reserved, Some("the key petri.generated-secret is Petri's own"));
    for (value, refused) in [
        (json!({"value": "x"}), None),
        (json!({"generate": {}}), None),
        (json!({}), Some("exactly one of value and generate")),
        (json!({"value": "", "generate": {}}), Some("exactly one of value and generate")),
    ] {
        check(
            "SharedComponentProvider",
            &json!({"instanceSecret": {"name": "s", "keys": {"K": value}}}),
            refused,
        );
    }
}

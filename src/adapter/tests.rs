//! What the API server refuses or accepts by its rules, the adapter refuses or accepts too.

use super::{Defaults, Inputs, intent, template_status::changed};
use k8s_openapi::jiff::Timestamp;
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, fixtures};
use petri_machines::{environment::Invalid, names::NamespaceName};
use serde_json::json;

/// Refused by the schema alone: the server prunes or coerces them, or nothing is made of the field yet.
const SCHEMA_ONLY: [&str; 3] =
    ["environment-template-is-no-name", "environment-value-is-a-number", "template-field-is-unknown"];

/// `None` for a manifest that is no template, or does not decode.
fn judge_template(manifest: &str) -> Option<Result<(), String>> {
    let template = serde_saphyr::from_str::<EnvironmentTemplate>(manifest).ok()?;
    let verdict = changed(&template, Timestamp::UNIX_EPOCH)?.conditions.pop()?;
    Some(if verdict.status == "True" { Ok(()) } else { Err(verdict.message) })
}

fn judge_environment(manifest: &str) -> Option<Result<(), String>> {
    let environment = serde_saphyr::from_str::<EphemeralEnvironment>(manifest).ok()?;
    let components = ["api", "web"].map(|name| json!({"name": name, "helm": {"path": "/charts/x"}}));
    let template = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate", "metadata": {},
        "spec": {"components": components}});
    let template = serde_json::from_value(template).unwrap();
    let namespace = NamespaceName::new("petri-env-00000000").unwrap();
    let defaults = Defaults { deploy_timeout_secs: 1, pod_failure_secs: 300 };
    let inputs = Inputs {
        environment: &environment,
        template: Some(&template),
        namespace: &namespace,
        secrets: None,
        slices: &super::sharing::SliceInputs::new(),
        defaults,
    };
    Some(intent(&inputs).plan.map(drop).map_err(|invalid: Invalid| invalid.message))
}

fn judge(fixture: &fixtures::Fixture) -> Option<Result<(), String>> {
    match fixture.name.split('-').next() {
        Some("template") => judge_template(&fixture.manifest),
        Some("environment") => judge_environment(&fixture.manifest),
        _ => None,
    }
}

#[test]
fn what_the_server_refuses_by_a_rule_is_refused_again_here() {
    let mut refused = 0;
    for fixture in fixtures::refusals().unwrap() {
        let Some(found) = judge(&fixture) else { continue };
        let schema_only = SCHEMA_ONLY.contains(&fixture.name.as_str());
        assert_eq!(found.is_ok(), schema_only, "{}: {found:?}", fixture.name);
        refused += usize::from(!schema_only);
    }
    assert!(refused > 30, "{refused}");
}

#[test]
fn what_the_server_accepts_is_accepted_but_for_shared_components() {
    for fixture in fixtures::accepted().unwrap() {
        if let Some(Err(message)) = judge(&fixture) {
            assert!(message.contains("shared") || message.contains("no component \"db\""), "{message}");
            assert!(fixture.name.ends_with("-whole"), "{}: {message}", fixture.name);
        }
    }
}

#[test]
fn the_templates_of_the_demo_are_accepted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/examples");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "yaml") {
            continue;
        }
        let manifest = std::fs::read_to_string(&path).unwrap();
        for manifest in manifest.split("\n---\n").filter(|one| one.contains("kind: EnvironmentTemplate")) {
            assert_eq!(judge_template(manifest), Some(Ok(())), "{}", path.display());
            found += 1;
        }
    }
    assert!(found > 0);
}

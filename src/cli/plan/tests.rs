use super::*;
use serde_json::json;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn config() -> Config {
    Config::load(None, Settings::default(), None).unwrap()
}

/// Plans files of the source tree, named as from its root.
fn files(names: &[&str]) -> (Report, String) {
    let source = |name: &&str| {
        let text =
            std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Source { file: (*name).to_owned(), text }
    };
    planned(&names.iter().map(source).collect::<Vec<_>>(), &config(), "petri-system")
}

fn text(text: &str) -> (Report, String) {
    planned(&[Source { file: "x.yaml".to_owned(), text: text.to_owned() }], &config(), "petri-system")
}

/// Each error as `line path reason message`.
fn check(manifests: &str, expected: &[&str]) {
    let report = text(manifests).0;
    let said: Vec<String> = report
        .errors
        .iter()
        .map(|error| format!("{} {} {} {}", error.line, error.path, error.reason, error.message))
        .collect();
    assert_eq!(said, expected, "{manifests}");
}

fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| format!("{folder}/{}", name.to_string_lossy())).collect();
    names.retain(|name| name.ends_with(".yaml"));
    names.sort();
    names
}

const TEMPLATE: &str = "\
apiVersion: core.petri.run/v1alpha1
kind: EnvironmentTemplate
metadata: {name: web}
spec:
  components:
    - name: db
      helm: {path: /charts/db}
    - name: api
      dependsOn: [db]
      env: {A: template, C: '{{ .Env.Slug }}'}
      helm:
        path: /charts/api
        values:
          image.tag: template
          replicas: '1'
          hosts[1]: '{{ .Env.Name }}'
        valuesObject:
          image: {tag: object, name: 'x-{{ .Env.Slug }}'}
          list: []
---
";
const ENVIRONMENT: &str = "\
apiVersion: core.petri.run/v1alpha1
kind: EphemeralEnvironment
metadata: {name: pr-1}
spec:
  template: web
";

#[test]
fn an_environment_is_planned_with_values_variables_levels_and_jobs() {
    let more = "  values: {image.tag: environment, debug: 'true'}\n  env: {B: environment}\n  components:\n  - name: api\n    \
                values: {image.tag: override}\n    valuesObject: {list: [1, null]}\n    env: {A: override}\n";
    let (report, text) = text(&format!("{TEMPLATE}{ENVIRONMENT}{more}"));
    insta::assert_snapshot!("text", text);
    insta::assert_json_snapshot!("json", report);
}

#[test]
fn with_the_uid_of_the_api_server_the_names_are_the_ones_that_the_operator_gives() {
    let uid = "0f8fad5b-d9cb-469f-a165-70867728950e";
    let known = ENVIRONMENT.replace("{name: pr-1}", &format!("{{name: pr-1, uid: {uid}}}"));
    let (report, text) = text(&format!("{TEMPLATE}{known}"));
    let uid = petri_machines::names::Uid::new(uid).unwrap();
    let name = petri_machines::names::EnvironmentName::new("pr-1").unwrap();
    let component = petri_machines::names::ComponentName::new("db").unwrap();
    let job = petri_machines::names::JobName::of(&uid, &name, &component, petri_machines::job::Op::Deploy, 1);
    assert_eq!(report.environments[0].components[0].job.name, job.to_string());
    let namespace = petri_machines::names::NamespaceName::candidates(&uid)[0].to_string();
    assert!(text.contains(&namespace) && !text.contains("stands for it"), "{text}");
}

#[test]
fn the_examples_are_planned_as_committed() {
    let all =
        ["template.yaml", "alpha.yaml", "beta.yaml", "shared.yaml", "redis.yaml", "template-repository.yaml"]
            .map(|name| format!("e2e/examples/{name}"));
    let (report, text) = files(&all.each_ref().map(String::as_str));
    assert!(report.errors.is_empty(), "{:?}", report.errors);
    insta::assert_snapshot!("examples", text);
}

#[test]
fn what_the_api_server_refuses_is_refused_with_its_sentence_file_and_line() {
    let fixtures = petri_crds::fixtures::refusals().unwrap();
    assert!(fixtures.len() > 50, "{}", fixtures.len());
    for fixture in fixtures {
        let report = text(&fixture.manifest).0;
        let expect = fixture.expect.unwrap();
        let found = report.errors.iter().find(|error| error.message.contains(&expect));
        let found = found.unwrap_or_else(|| panic!("{}: {:?}", fixture.name, report.errors));
        // The first line is what is expected.
        assert!(found.line > 1 && found.file == "x.yaml" && found.reason == "Invalid", "{found:?}");
    }
}

#[test]
fn what_the_api_server_accepts_is_not_refused_at_apply() {
    for fixture in petri_crds::fixtures::accepted().unwrap() {
        let report = text(&fixture.manifest).0;
        let refused: Vec<_> = report.errors.iter().filter(|error| error.reason == "Invalid").collect();
        assert!(refused.is_empty(), "{}: {refused:?}", fixture.name);
    }
}

/// The golden files hold what a real operator said of the same manifests.
#[test]
fn every_situation_has_the_errors_that_the_operator_was_seen_to_say() {
    let mut said = 0;
    for name in names("e2e/situations") {
        let report = files(&[&name]).0;
        let golden = name.replace("situations", "golden/situations").replace(".yaml", ".txt");
        let golden = std::fs::read_to_string(root().join(golden)).unwrap();
        for error in &report.errors {
            let message = format!("Message:  {}\n", error.message);
            assert!(golden.contains(&message) && golden.contains(&error.reason), "{name}: {error:?}");
            said += 1;
        }
        let inputs = ["InvalidConfiguration", "RenderFailed", "TemplateNotFound", "InvalidTTL"];
        // Whether a Secret is there is seen in a cluster only.
        let wrong = inputs.iter().any(|reason| golden.contains(&format!("Reason:  {reason}\n")))
            && !golden.contains("secrets[");
        assert_eq!(wrong, !report.errors.is_empty(), "{name}: {:?}", report.errors);
    }
    assert!(said >= 4, "{said}");
}

/// The first line of each says how a real operator ended.
#[test]
fn the_manifests_of_the_older_project_end_as_they_end_in_a_cluster() {
    for name in names("e2e/fixtures/compat") {
        let report = files(&[&name]).0;
        let manifest = std::fs::read_to_string(root().join(&name)).unwrap();
        let ends = manifest.lines().next().unwrap();
        let failed = ends.split("Failed/").nth(1).filter(|reason| *reason != "DeployFailed");
        match failed {
            Some(reason) => {
                assert!(
                    report.errors.iter().any(|error| error.reason == reason.trim()),
                    "{name}: {:?}",
                    report.errors
                );
            }
            None => assert!(
                report.errors.is_empty() && !report.environments.is_empty(),
                "{name}: {:?}",
                report.errors
            ),
        }
    }
}

#[test]
fn an_error_names_the_line_of_its_field() {
    check(
        &format!("{TEMPLATE}{}", ENVIRONMENT.replace("template: web", "template: wbe")),
        &[
            "25 spec.template TemplateNotFound EnvironmentTemplate \"wbe\" does not exist in namespace petri-system",
        ],
    );
    let broken = TEMPLATE.replace("replicas: '1'", "replicas: '{{ .Env.Nope }}'");
    let message = "components[api].helm.values[\"replicas\"]: 1:4: .Env.Nope does not exist";
    check(&broken, &[&format!("15 spec.components[api].helm.values[\"replicas\"] RenderFailed {message}")]);
    // Said once, although the environment says it too.
    check(
        &format!("{broken}{ENVIRONMENT}"),
        &[&format!("15 spec.components[api].helm.values[\"replicas\"] RenderFailed {message}")],
    );
    check(
        &format!(
            "{TEMPLATE}{ENVIRONMENT}  components:\n  - name: api\n    env:\n      X: '{{{{ nope }}}}'\n"
        ),
        &[
            "29 spec.components[api].env[\"X\"] RenderFailed environment.components[api].env[\"X\"]: 1:4: function \
           \"nope\" does not exist",
        ],
    );
    let cycle = TEMPLATE.replace("- name: db\n", "- name: db\n      dependsOn: [api]\n");
    let error = text(&cycle).0.errors.remove(0);
    assert!(
        error.message.starts_with("dependency cycle: ") && error.path.ends_with("].dependsOn"),
        "{error:?}"
    );
    let error = text(&format!("{ENVIRONMENT}  ttl: soon\n")).0.errors.remove(0);
    assert_eq!((error.line, error.path.as_str(), error.reason.as_str()), (6, "spec.ttl", "Invalid"));
    let error = text("a: 1\nb: [c\n").0.errors.remove(0);
    assert!(error.reason == "InvalidYAML" && !error.message.is_empty(), "{error:?}");
}

#[test]
fn a_document_of_another_kind_is_left_out_and_a_version_of_our_own_that_is_none_is_refused() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n";
    let (report, text) = text(secret);
    assert!(report.errors.is_empty() && text == "Secret s: not Petri's, left out\n", "{text}");
    let report = super::tests::text(&ENVIRONMENT.replace("v1alpha1", "v1")).0;
    assert!(report.errors[0].message.contains("no matches for kind \"EphemeralEnvironment\""), "{report:?}");
    check(
        "kind: EphemeralEnv\napiVersion: core.petri.run/v1alpha1\nmetadata: {name: x}\n",
        &["1 kind Invalid no matches for kind \"EphemeralEnv\" in version \"core.petri.run/v1alpha1\""],
    );
}

#[test]
fn the_report_for_programs_has_exactly_these_fields() {
    let (report, _) = text(&format!("{TEMPLATE}{ENVIRONMENT}  env: {{'1': x}}\n"));
    let error = json!({"file": "x.yaml", "line": 26, "path": "spec.env[\"1\"]", "reason": "InvalidConfiguration",
        "message": "environment.env[\"1\"]: a name has letters, digits, '_', '-' and '.', and no digit in front"});
    assert_eq!(serde_json::to_value(&report).unwrap(), json!({"environments": [], "errors": [error]}));
}

#[test]
fn a_folder_is_read_in_order_and_an_argument_that_is_no_file_is_told() {
    let folder = std::env::temp_dir().join(format!("petri-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("b.yaml", ENVIRONMENT), ("a.yml", TEMPLATE), ("c.txt", "no manifest")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let sources = read(&folder.display().to_string()).unwrap();
    let files: Vec<String> =
        sources.iter().map(|source| source.file.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(files, ["a.yml", "b.yaml"]);
    assert!(planned(&sources, &config(), "n").0.errors.is_empty());
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(read("/does/not/exist.yaml").unwrap_err().starts_with("/does/not/exist.yaml: "));
}

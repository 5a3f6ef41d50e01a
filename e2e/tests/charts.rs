//! The charts, examples and image recipe that people read first: they fit each other. What helm says of them is
//! asked by `petri_e2e::charts::lint`.

use std::path::{Path, PathBuf};

use petri_crds::{Component, EnvironmentTemplate, EphemeralEnvironment};
use petri_e2e::lab::pins;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn template(file: &str) -> EnvironmentTemplate {
    serde_saphyr::from_str(&read(&format!("e2e/examples/{file}"))).unwrap()
}

/// The default values of the chart that a component uses, by its path or by its name in a repository.
fn defaults(component: &Component) -> Value {
    let helm = component.helm.as_ref().unwrap();
    let chart = helm.path.strip_prefix("/charts/").unwrap_or(&helm.chart);
    serde_saphyr::from_str(&read(&format!("e2e/charts/{chart}/values.yaml"))).unwrap()
}

fn has(values: &Value, key: &str) -> bool {
    values.pointer(&format!("/{}", key.replace('.', "/"))).is_some()
}

#[test]
fn every_value_of_the_example_templates_is_one_that_its_chart_has() {
    for file in ["template.yaml", "template-repository.yaml"] {
        let template = template(file);
        assert_eq!(template.spec.components.len(), 4, "{file}");
        for component in &template.spec.components {
            let known = defaults(component);
            for key in component.helm.iter().flat_map(|helm| helm.values.keys()) {
                assert!(has(&known, key), "{file}: {} has no value {key}", component.name);
            }
        }
    }
}

#[test]
fn every_value_of_the_example_environments_is_one_that_a_chart_has() {
    let components = template("template.yaml").spec.components;
    for file in ["alpha.yaml", "beta.yaml"] {
        let spec = serde_saphyr::from_str::<EphemeralEnvironment>(&read(&format!("e2e/examples/{file}")))
            .unwrap()
            .spec;
        assert_eq!(spec.template, "demo", "{file}");
        for key in spec.values.keys() {
            assert!(components.iter().any(|component| has(&defaults(component), key)), "{file}: {key}");
        }
        for over in &spec.components {
            let component = components.iter().find(|component| component.name == over.name);
            let known = defaults(component.unwrap_or_else(|| panic!("{file}: no component {}", over.name)));
            assert!(over.values.keys().all(|key| has(&known, key)), "{file}: {over:?}");
        }
    }
}

#[test]
fn the_template_from_a_repository_differs_in_where_web_comes_from_and_in_nothing_else() {
    let (mut from_path, mut from_repository) =
        (template("template.yaml"), template("template-repository.yaml"));
    for template in [&mut from_path, &mut from_repository] {
        template.metadata.name = None;
        let web = template.spec.components.iter_mut().find(|component| component.name == "web");
        let helm = web.and_then(|web| web.helm.as_mut()).unwrap();
        assert_ne!(helm.path.is_empty(), helm.repo.is_empty());
        for source in [&mut helm.path, &mut helm.repo, &mut helm.chart, &mut helm.version] {
            source.clear();
        }
    }
    assert_eq!(from_path, from_repository);
}

#[test]
fn the_version_that_a_repository_is_asked_for_is_the_charts_own() {
    let template = template("template-repository.yaml");
    let helm = template.spec.components.iter().filter_map(|component| component.helm.as_ref());
    let wanted: Vec<_> = helm.filter(|helm| !helm.repo.is_empty()).collect();
    assert_eq!(wanted.len(), 1);
    for helm in wanted {
        let chart: Value =
            serde_saphyr::from_str(&read(&format!("e2e/charts/{}/Chart.yaml", helm.chart))).unwrap();
        assert_eq!(chart["version"], json!(helm.version));
    }
}

#[test]
fn the_petri_chart_installs_its_own_programs_and_is_newer_than_the_one_it_is_upgraded_from() {
    let chart: Value = serde_saphyr::from_str(&read("charts/petri/Chart.yaml")).unwrap();
    assert_eq!(chart["appVersion"], json!(env!("CARGO_PKG_VERSION")));
    let numbers = |version: &str| version.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>();
    let own = numbers(chart["version"].as_str().unwrap());
    assert!(own > numbers(petri_e2e::charts::PREVIOUS), "{own:?}");
}

#[test]
fn the_image_recipe_uses_the_pinned_versions() {
    let recipe = read("charts/images/Containerfile");
    let toolchain = read("rust-toolchain.toml");
    let rust = toolchain.split('"').nth(1).unwrap();
    let go = pins::GO_LANGUAGE.rsplit_once('.').map_or(pins::GO_LANGUAGE, |(minor, _)| minor);
    for (name, version) in [("RUST", rust), ("GO", go), ("HELM", pins::HELM)] {
        let line = format!("ARG {name}={version}");
        assert!(recipe.lines().any(|have| have == line), "no line {line:?}");
    }
}

#[test]
fn every_alert_names_its_page_and_the_page_has_no_other() {
    let rules: Value = serde_saphyr::from_str(&read("charts/petri/files/rules.yaml")).unwrap();
    let operations = read("charts/petri/operations.md");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    let names: Vec<&str> = rules.iter().filter_map(|rule| rule["alert"].as_str()).collect();
    assert_eq!(names.len(), rules.len());
    for rule in rules {
        let page = format!("operations.md#{}", rule["alert"].as_str().unwrap().to_lowercase());
        assert_eq!(rule["annotations"]["page"], json!(page));
    }
    let pages: Vec<&str> = operations.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    assert_eq!(pages, names);
    let tested = read("charts/petri/files/rules_test.yaml");
    for name in names {
        let told = tested.matches(&format!("alertname: {name}\n        exp_alerts")).count();
        assert_eq!(told, 1, "{name} has no test in which it fires");
    }
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_the_programs_have() {
    let source = read("src/telemetry/metrics.rs") + &read("src/apiserver/metrics.rs");
    let asked = read("charts/petri/files/rules.yaml") + &read("charts/petri/files/dashboard.json");
    let mut seen = 0;
    for (at, _) in asked.match_indices("petri_") {
        let name: String =
            asked[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let name = ["_total", "_bucket", "_info"]
            .iter()
            .fold(name.as_str(), |name, end| name.strip_suffix(end).unwrap_or(name));
        let registered = format!("\"{}\"", name.trim_start_matches("petri_"));
        assert!(source.contains(&registered), "{name}");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
}

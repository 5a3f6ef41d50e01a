//! The rules of the house, as tests over the tree and over what cargo resolves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every crate that a package reaches by ordinary dependencies.
fn reached(package: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package", package];
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn check(package: &str, never: &[&str]) {
    let reached = reached(package);
    let found: Vec<_> = never.iter().filter(|name| reached.contains(**name)).collect();
    assert!(found.is_empty(), "{package} reaches {found:?}");
}

/// Every file that git tracks, as path and text; what is no text is left out.
fn sources(ending: &str) -> Vec<(String, String)> {
    let output = Command::new("git").args(["ls-files"]).current_dir(root()).output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?));
    names.lines().filter(|name| name.ends_with(ending)).filter_map(read).collect()
}

#[test]
fn the_machines_reach_no_kubernetes_no_runtime_no_log_and_no_chance() {
    let never = [
        "kube",
        "kube-core",
        "k8s-openapi",
        "tokio",
        "tracing",
        "log",
        "rand",
        "getrandom",
        "jiff",
        "chrono",
    ];
    check("petri-machines", &never);
}

#[test]
fn the_machines_depend_on_these_and_nothing_else() {
    let manifest = std::fs::read_to_string(root().join("machines/Cargo.toml")).unwrap();
    let section = manifest.split("[dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let found: BTreeSet<&str> =
        section.lines().filter_map(|line| line.split(['.', ' ', '=']).next()).collect();
    let allowed = BTreeSet::from(["", "petgraph", "serde", "sha2", "statig", "thiserror"]);
    assert!(found.is_subset(&allowed), "{found:?}");
}

#[test]
fn the_resources_reach_no_client_and_the_proofs_reach_the_machines_only() {
    check("petri-crds", &["kube-client", "kube-runtime", "tokio"]);
    check("petri-proptests", &["petri", "petri-crds", "kube", "k8s-openapi", "tokio"]);
    check("petri-e2e", &["petri"]);
}

#[test]
fn the_machines_name_no_clock_no_file_and_no_unordered_map() {
    let words =
        ["std::time", "std::env", "std::fs", "std::net", "std::thread", "HashMap", "HashSet", "Instant::"];
    for (name, text) in sources(".rs").into_iter().filter(|(name, _)| name.starts_with("machines/src/")) {
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for (number, line) in code.enumerate() {
            assert!(!words.iter().any(|word| line.contains(word)), "{name}:{}: {line}", number + 1);
        }
    }
}

#[test]
fn files_stay_short_and_modules_have_names() {
    for (name, text) in sources(".rs") {
        let limit = if name.contains("tests") { 900 } else { 600 };
        assert!(text.lines().count() <= limit, "{name} has more than {limit} lines");
        assert!(!name.ends_with("/mod.rs"), "{name}: modules are name.rs beside name/");
    }
}

#[test]
fn nothing_is_left_for_later() {
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    let skipped = ["#[", "ignore"].concat();
    for (name, text) in sources(".rs").into_iter().filter(|(name, _)| !name.ends_with("house.rs")) {
        for word in &words {
            assert!(!text.contains(word.as_str()), "{name}: {word}");
        }
        assert!(!text.contains(&skipped), "{name}: a test that does not run proves nothing");
    }
}

#[test]
fn a_main_is_short() {
    for (name, text) in sources(".rs").into_iter().filter(|(name, _)| name.starts_with("src/bin/")) {
        assert!(text.lines().count() < 80, "{name}: the work belongs into the library");
    }
}

#[test]
fn the_top_level_holds_what_it_should_and_nothing_else() {
    let allowed = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "README.md",
        "ARCHITECTURE.md",
        "rust-toolchain.toml",
        "src",
        "machines",
        "crds",
        "charts",
        "proptests",
        "e2e",
    ];
    let output =
        Command::new("git").args(["ls-tree", "--name-only", "HEAD"]).current_dir(root()).output().unwrap();
    for name in String::from_utf8(output.stdout).unwrap().lines() {
        assert!(name.starts_with('.') || allowed.contains(&name), "{name} does not belong at the top level");
    }
}

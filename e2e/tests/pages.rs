//! The pages of the chart that are made from something else are current, and nothing that has a name lacks its row.
//! `PAGES=write cargo test -p petri-e2e --test pages` writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use petri_e2e::charts::pages;
use petri_machines::{environment::Reason, reason::FailureReason};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_default()
}

fn current(path: &str, made: &str) {
    if std::env::var("PAGES").is_ok_and(|value| value == "write") {
        std::fs::write(root().join(path), made).unwrap();
    }
    assert_eq!(read(path), made, "{path} is not current: PAGES=write cargo test -p petri-e2e --test pages");
}

#[test]
fn the_table_of_values_is_that_of_the_values() {
    let made = pages::with_values(&read("charts/petri/README.md"), &read("charts/petri/values.yaml"));
    current("charts/petri/README.md", &made.expect("the README has the marks"));
}

#[test]
fn the_page_on_a_life_is_that_of_the_atlas() {
    let (phases, signals) = ("machines/src/environment/phase.rs", "machines/src/environment/signal.rs");
    let made = pages::life(&read("machines/atlas/environment.md"), &read(phases), &read(signals));
    current("charts/petri/life.md", &made.expect("each phase and signal of the atlas has its words"));
}

/// The names in the first cells of the table below a heading.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = page.split_once(&format!("## {heading}\n")).expect(heading);
    let section = section.split("\n## ").next().unwrap_or_default();
    let cell = |line: &str| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned());
    section.lines().filter_map(cell).collect()
}

#[test]
fn every_reason_of_a_condition_and_of_an_attempt_has_its_row_and_there_is_no_other() {
    let page = read("charts/petri/operations.md");
    // What the shell says of what no machine sees.
    let conditions = Reason::ALL.map(Reason::as_str).into_iter().chain(["InternalError", "Refused"]);
    let conditions: BTreeSet<String> = conditions.map(str::to_owned).collect();
    assert_eq!(rows(&page, "Reasons of a condition"), conditions);
    let attempts: BTreeSet<String> = FailureReason::ALL.map(|reason| reason.as_str().to_owned()).into();
    assert_eq!(rows(&page, "Reasons of a failed attempt"), attempts);
    for reason in FailureReason::ALL {
        let row = format!("| `{}` {}|", reason.as_str(), if reason.permanent() { "* " } else { "" });
        assert!(page.contains(&row), "{row}");
    }
}

//! Which test shows which line of the lists that Petri is measured by.
//!
//! `coverage.txt` has every number with a short title; tests bear numbers in their names (`scenario_41_…`,
//! `scenarios_1_to_6_…`, `job_11_…`), and so do the files of stored scenarios. From both comes `COVERAGE.md`.

use crate::mutations::{Kills, kills};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The ids of the list of failures begin with one of these.
const KINDS: [&str; 11] = ["ns", "helm", "job", "shr", "fin", "api", "watch", "lead", "val", "ttl", "peer"];
/// Lines that may say that they do not apply.
const DEPARTURES_MAX: usize = 15;

/// What stands in the table, and what is wrong with it.
#[derive(Debug)]
pub struct Coverage {
    /// The table.
    pub markdown: String,
    /// Numbers that nobody shows, names of tests that are not there, and the like.
    pub faults: Vec<String>,
}

/// Returns the ids that a name bears.
pub fn ids(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut words = name.split('_').peekable();
    while let Some(word) = words.next() {
        if KINDS.contains(&word)
            && let Some(number) = words.next_if(|next| next.parse::<u32>().is_ok())
        {
            found.push(format!("{}-{number}", word.to_uppercase()));
        }
        if word != "scenario" && word != "scenarios" {
            continue;
        }
        let mut last: Option<u32> = None;
        while let Some(next) =
            words.next_if(|next| next.parse::<u32>().is_ok() || matches!(*next, "to" | "and"))
        {
            let Ok(number) = next.parse::<u32>() else {
                if next == "to" {
                    let end = words.peek().and_then(|end| end.parse::<u32>().ok());
                    let inner = last.zip(end).map(|(first, end)| first + 1..end);
                    found.extend(inner.into_iter().flatten().map(|number| number.to_string()));
                }
                continue;
            };
            found.push(number.to_string());
            last = Some(number);
        }
    }
    found
}

/// Reads the list and the tree and makes the table.
///
/// # Errors
/// What cannot be read.
pub fn coverage() -> io::Result<Coverage> {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = package.join("..");
    let mut tests = BTreeMap::new();
    for folder in ["machines", "src", "crds", "proptests", "e2e"] {
        walk(&root.join(folder), &mut tests)?;
    }
    let mut shown: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in tests.keys() {
        for id in ids(name) {
            shown.entry(id).or_default().insert(name);
        }
    }
    let list = fs::read_to_string(package.join("coverage.txt"))?;
    Ok(table(&list, &shown, &tests, &caught_by(&kills()?)))
}

/// For each test the planted bugs that it catches, the one first that the fewest tests catch.
fn caught_by(kills: &Kills) -> BTreeMap<&str, Vec<&str>> {
    let mut caught: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut all: Vec<_> = kills.iter().collect();
    all.sort_by_key(|(name, kill)| (kill.tests.len(), *name));
    for (name, kill) in all {
        kill.tests.keys().for_each(|test| caught.entry(test).or_default().push(name));
    }
    caught
}

fn table(
    list: &str,
    shown: &BTreeMap<String, BTreeSet<&str>>,
    tests: &BTreeMap<String, String>,
    caught: &BTreeMap<&str, Vec<&str>>,
) -> Coverage {
    let mut measured = 0;
    let mut faults = Vec::new();
    let mut rows = String::new();
    let (mut by_test, mut by_area, mut departures) = (0, 0, 0);
    let mut listed = BTreeSet::new();
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
        let mut parts = line.splitn(3, '|').map(str::trim);
        let (id, title) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let place = parts.next().unwrap_or_default();
        if !listed.insert(id) {
            faults.push(format!("{id} is listed twice"));
        }
        // An area that is being built gains tests every day: its lines name the area, not the tests.
        let own = shown.get(id).filter(|_| !place.starts_with("issue "));
        let mut names: Vec<&str> = own.into_iter().flatten().copied().collect();
        names.extend(place.strip_prefix("by: "));
        for name in names.iter().filter(|name| !tests.contains_key(**name)) {
            faults.push(format!("{id}: no test is called {name}"));
        }
        let name = |name: &&str| format!("`{name}` ({})", tests.get(*name).map_or("?", String::as_str));
        let who = if !names.is_empty() {
            by_test += 1;
            names.iter().map(name).collect::<Vec<_>>().join(", ")
        } else if let Some(why) = place.strip_prefix("departs: ") {
            departures += 1;
            format!("does not apply: {why}")
        } else if place.starts_with("issue ") {
            by_area += 1;
            place.to_owned()
        } else {
            faults.push(format!("{id} ({title}): nobody shows it"));
            continue;
        };
        let bug = names.iter().find_map(|name| caught.get(name)).and_then(|bugs| bugs.first());
        measured += usize::from(bug.is_some());
        let _ = writeln!(rows, "| {id} | {title} | {who} | {} |", bug.unwrap_or(&""));
    }
    let core = |name: &&str| tests.get(*name).is_some_and(|file| !file.starts_with("src/"));
    let strange = shown.iter().filter(|(id, names)| !listed.contains(id.as_str()) && names.iter().any(core));
    faults.extend(strange.map(|(id, _)| format!("{id} is not listed")));
    if departures > DEPARTURES_MAX {
        faults.push(format!("{departures} lines do not apply, at most {DEPARTURES_MAX} may"));
    }
    let head = format!(
        "# What shows what\n\nGenerated from `coverage.txt` and the names of all tests; \
         `COVERAGE=write cargo test -p petri-proptests --test coverage` writes it anew.\n\n\
         {by_test} lines have a test, {by_area} belong to an area that brings or shows them elsewhere, \
         {departures} do not apply. {measured} name a planted bug that one of their tests catches.\n\n\
         | id | what | shown by | a planted bug that this catches |\n|---|---|---|---|\n"
    );
    Coverage { markdown: head + &rows, faults }
}

/// Finds the tests and stored scenarios below a folder, each with its file.
fn walk(folder: &Path, tests: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            if name != "target" {
                walk(&path, tests)?;
            }
        } else if let Some(scenario) = name.strip_suffix(".json").filter(|_| folder.ends_with("scenarios")) {
            tests.insert(scenario.to_owned(), format!("scenarios/{name}"));
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(&path)?;
            tests.extend(tests_of(&text).into_iter().map(|test| (test, shown_path(&path))));
        }
    }
    Ok(())
}

fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
    text.strip_prefix(root).unwrap_or(&text).to_owned()
}

/// The functions below a test attribute, the sentences of the cases on a real cluster, and those of their functions that
/// bear a number: `e2e/src/cases.rs` lists them, and nothing marks them.
fn tests_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut marked = false;
    for case in text.split("case!(").skip(1) {
        let sentence = case.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
        found.extend(sentence.filter(|sentence| sentence.contains(' ')).map(str::to_owned));
    }
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            marked |= line.contains("test]") || line.contains("test(") || line.contains("rstest");
            continue;
        }
        let name = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        let case = line.strip_prefix("pub async fn ").filter(|name| name.starts_with("scenario"));
        if let Some(name) = case.or(name.filter(|_| marked)) {
            found.push(name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        }
        marked &= line.is_empty() || line.starts_with("//");
    }
    found
}

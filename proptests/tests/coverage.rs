//! The table of what shows what is current, and no line is left without an answer; the planted bugs fit.

use petri_proptests::{
    coverage::{coverage, ids},
    mutations::{kills, mutations},
};
use std::{collections::BTreeSet, fs, path::Path};

#[test]
fn a_name_bears_its_numbers() {
    assert_eq!(ids("scenarios_1_to_3_and_7_levels"), ["1", "2", "3", "7"]);
    assert_eq!(ids("job_11_scenario_120_an_old_success"), ["JOB-11", "120"]);
    assert_eq!(ids("a_job_12_times"), ["JOB-12"]);
    assert!(ids("nothing_to_2_see").is_empty());
}

#[test]
fn every_line_of_the_lists_is_shown_by_a_test_or_says_where() {
    let found = coverage().unwrap();
    assert!(found.faults.is_empty(), "{:#?}", found.faults);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("COVERAGE.md");
    if std::env::var_os("COVERAGE").is_some_and(|wish| wish == "write") {
        fs::write(&path, &found.markdown).unwrap();
    }
    let current = fs::read_to_string(path).is_ok_and(|text| text == found.markdown);
    assert!(
        current,
        "COVERAGE.md is not current: COVERAGE=write cargo test -p petri-proptests --test coverage"
    );
}

#[test]
fn every_planted_bug_fits_its_file_exactly_once_and_has_a_name_of_its_own() {
    let all = mutations().unwrap();
    let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
    assert!(names.len() == all.len() && all.len() >= 60, "{} bugs, {} names", all.len(), names.len());
    for one in &all {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&one.file);
        assert!(one.plant(&fs::read_to_string(file).unwrap()).is_some(), "{}", one.name);
    }
}

#[test]
fn nearly_every_planted_bug_was_caught_and_the_others_say_why_nothing_can() {
    let (all, kills) = (mutations().unwrap(), kills().unwrap());
    let caught = all.iter().filter(|one| kills.contains_key(&one.name)).count();
    let silent = all.iter().filter(|one| !kills.contains_key(&one.name) && one.survives.is_none());
    let silent: Vec<&str> = silent.map(|one| one.name.as_str()).collect();
    assert!(silent.is_empty(), "not known to be caught, `cargo mutate NAME --write` says: {silent:#?}");
    assert!(caught * 100 >= all.len() * 95, "{caught} of {}", all.len());
}

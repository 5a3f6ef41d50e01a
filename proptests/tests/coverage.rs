//! The table of what shows what is current, and no line is left without an answer; the planted bugs fit.

use petri_proptests::{
    coverage::{coverage, ids},
    mutations::{Mutation, mutations},
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
    for Mutation { name, file, from, to, .. } in &all {
        let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).unwrap();
        assert_eq!(source.matches(from).count(), 1, "{name}");
        assert_ne!(from, to, "{name}");
    }
}

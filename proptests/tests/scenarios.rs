//! Every stored life is lived again.

use petri_proptests::scenario::Scenario;
use std::{fs, path::PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_stored_scenario_comes_to_the_rest_it_names() {
    let files = files();
    assert!(!files.is_empty());
    let mut faults = Vec::new();
    for path in files {
        let scenario = Scenario::load(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        if let Err((fault, log)) = scenario.tell() {
            faults.push(format!("{}: {fault}\n{}", path.display(), log.join("\n")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let fault = Scenario::parse(text).expect_err(text).to_string();
    assert!(fault.contains(expected), "{fault}");
}

#[test]
fn a_malformed_scenario_says_where_and_why() {
    refused("{", "EOF while parsing an object at line 1 column 1");
    refused(r#"{"version": 2, "unknown": true}"#, "is of version 2, only 1 is known");
    refused(r#"{"name": "x"}"#, "missing field `version`");
    let ops =
        |op: &str| format!(r#"{{"version":1,"name":"x","specs":["a:1"],"rests":"Ready","ops":[{op}]}}"#);
    refused(&ops(r#"{"op": "explode"}"#), "unknown variant `explode`");
    refused(&ops(r#"{"op": "clock"}"#), "missing field `secs`");
    refused(&ops(r#"{"op": "podStarts", "component": "A"}"#), "is not a DNS label");
}

#[test]
fn a_scenario_that_rests_elsewhere_says_so() {
    let text = r#"{"version":1,"name":"x","specs":["a:1"],"ops":[{"op":"cycle"}],"rests":"Failed"}"#;
    let Err((fault, _)) = Scenario::parse(text).unwrap().tell() else { panic!("nothing fails here") };
    assert_eq!(fault.to_string(), "comes to rest in Ready, not in Failed");
}

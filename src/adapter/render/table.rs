//! The table of templates: what Petri renders, held against what the real helm answered (`cargo helm-tables`).

use super::{Variables, render};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    reasons: BTreeMap<String, String>,
    data: Value,
    groups: BTreeMap<String, Vec<Case>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Text(String),
    Differs(Difference),
}

/// Where Petri means to answer otherwise than Helm.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    text: String,
    is: Option<String>,
    refused: Option<String>,
    why: String,
}

#[derive(Deserialize)]
struct Answer {
    ask: String,
    is: Option<String>,
    refused: Option<String>,
    line: Option<usize>,
}

/// Says how Petri's answer is not what the table wants.
fn fault(case: &Case, answer: &Answer, variables: &Variables) -> Option<String> {
    let text = match case {
        Case::Text(text) => text,
        Case::Differs(difference) => &difference.text,
    };
    if answer.ask != *text {
        return Some("helm was not asked this: run cargo helm-tables".to_owned());
    }
    let found = render(text, variables);
    let wanted = match case {
        Case::Text(_) => {
            return match (&found, &answer.is) {
                (Ok(found), Some(text)) if found == text => None,
                (Err(error), None) if answer.line.is_none_or(|line| line == error.line) => None,
                _ => Some(format!("helm: {:?} {:?} {:?}", answer.is, answer.refused, answer.line)),
            };
        }
        Case::Differs(difference) => (&difference.is, &difference.refused),
    };
    let refused = found.as_ref().err().map(ToString::to_string);
    let same = answer.is.as_ref() == found.as_ref().ok() && (found.is_ok() || answer.line == Some(1));
    if same && answer.refused.is_none() {
        return Some("this is no difference".to_owned());
    }
    let held = wanted == (&found.as_ref().ok().cloned(), &refused);
    (!held).then(|| format!("the table: {wanted:?}"))
}

#[test]
fn every_template_renders_as_the_real_helm_renders_it_or_differs_for_a_named_reason() {
    let table: Table = serde_saphyr::from_str(include_str!("table/cases.yaml")).unwrap();
    let answers: Vec<Answer> = serde_json::from_str(include_str!("table/helm.json")).unwrap();
    let cases: Vec<&Case> = table.groups.values().flatten().collect();
    assert!(
        cases.len() >= 300 && cases.len() == answers.len(),
        "{} cases, {} answers",
        cases.len(),
        answers.len()
    );
    let variables = Variables::new(&table.data);
    let mut faults = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        if let Some(fault) = fault(case, answer, &variables) {
            faults.push(format!(
                "{:?}\n  petri: {:?}\n  {fault}",
                answer.ask,
                render(&answer.ask, &variables).map_err(|e| e.to_string())
            ));
        }
    }
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    let used: BTreeSet<&String> = cases
        .iter()
        .filter_map(|case| match case {
            Case::Differs(difference) => Some(&difference.why),
            Case::Text(_) => None,
        })
        .collect();
    assert_eq!(used, table.reasons.keys().collect(), "reasons that are used, and those that are given");
}

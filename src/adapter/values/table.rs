//! The table of `--set` paths: what Petri makes of them, held against what the real helm answered.

use super::{Layer, merge};
use crate::adapter::render::Variables;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    reasons: BTreeMap<String, String>,
    groups: BTreeMap<String, Vec<Case>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(default)]
    object: Map<String, Value>,
    set: BTreeMap<String, String>,
    is: Option<Value>,
    refused: Option<String>,
    /// Why Petri means to answer otherwise than Helm.
    why: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    ask: Value,
    is: Option<Value>,
    refused: Option<String>,
}

fn values(case: &Case) -> Result<Value, String> {
    let variables = Variables::new(&json!({}));
    let layer = Layer::render("x", &case.object, &case.set, &variables).map_err(|error| error.to_string())?;
    let values = merge([&layer]).map_err(|error| error.to_string())?;
    Ok(Value::Object(values))
}

fn fault(case: &Case, answer: &Answer) -> Option<String> {
    if answer.ask["set"] != json!(case.set) {
        return Some("helm was not asked this: run cargo helm-tables".to_owned());
    }
    let found = values(case);
    let same = found.as_ref().ok() == answer.is.as_ref();
    match &case.why {
        None if same => None,
        None => Some(format!("helm: {:?} {:?}", answer.is.as_ref().map(Value::to_string), answer.refused)),
        Some(_) if same => Some("this is no difference".to_owned()),
        Some(_) => {
            let wanted = (case.is.as_ref(), case.refused.as_ref());
            let held = wanted == (found.as_ref().ok(), found.as_ref().err());
            (!held).then(|| format!("the table: {wanted:?}"))
        }
    }
}

#[test]
fn every_path_is_read_as_the_real_helm_reads_it_or_differs_for_a_named_reason() {
    let table: Table = serde_saphyr::from_str(include_str!("table/cases.yaml")).unwrap();
    let answers: Vec<Answer> = serde_json::from_str(include_str!("table/helm.json")).unwrap();
    let cases: Vec<&Case> = table.groups.values().flatten().collect();
    assert!(
        cases.len() >= 120 && cases.len() == answers.len(),
        "{} cases, {} answers",
        cases.len(),
        answers.len()
    );
    let told = |(case, answer): (&&Case, &Answer)| {
        let fault = fault(case, answer)?;
        Some(format!("{}\n  petri: {:?}\n  {fault}", answer.ask, values(case).map(|value| value.to_string())))
    };
    let faults: Vec<String> = cases.iter().zip(&answers).filter_map(told).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.join("\n"));
    let used: BTreeSet<&String> = cases.iter().filter_map(|case| case.why.as_ref()).collect();
    assert_eq!(used, table.reasons.keys().collect(), "reasons that are used, and those that are given");
}

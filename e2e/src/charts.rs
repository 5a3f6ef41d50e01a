//! What helm says of the charts of this repository: the installing one and the four exemplars.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use thiserror::Error;

mod cases;
pub mod pages;
mod rules;

/// Is why a chart is not as it must be.
#[derive(Debug, Error)]
pub enum ChartsError {
    /// Helm could not be started.
    #[error("{helm}: {source}")]
    Helm {
        /// The binary that was tried.
        helm: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Charts were looked at and found wanting; one line each.
    #[error("{}", .0.join("\n"))]
    Wrong(Vec<String>),
}

/// The version of the chart that an upgrade comes from: `helm package charts/petri` of the last commit that had it, kept
/// as `e2e/fixtures/petri-VERSION.tgz`.
pub const PREVIOUS: &str = "0.1.0";

/// One definition for each kind; helm reads them through a link to where they are generated.
const CRDS: usize = 4;

/// Lints every chart and renders it with every set of values in the table; returns how many checks held.
///
/// Needs no cluster. Errors: helm cannot be started, or a check does not hold.
pub fn lint(helm: &Path) -> Result<usize, ChartsError> {
    let mut held = 0;
    let mut wrong = Vec::new();
    for chart in cases::CHARTS {
        let said = run(helm, &["lint", "--strict", &path(chart)])?;
        match said {
            Ok(_) => held += 1,
            Err(text) => wrong.push(format!("{chart}: lint: {text}")),
        }
    }
    for case in cases::CASES {
        let mut args = vec!["template", "some-name", "--namespace", "petri-system"];
        let chart = path(case.chart);
        args.push(&chart);
        args.extend(case.values.iter().flat_map(|value| ["--set-json", value]));
        match case.judge(run(helm, &args)?) {
            Ok(()) => held += 1,
            Err(text) => wrong.push(format!("{}: {}: {text}", case.chart, case.name)),
        }
    }
    match run(helm, &["show", "crds", &path(cases::CHARTS[0])])?.and_then(|shown| documents(&shown)) {
        Ok(shown) if shown.len() == CRDS => held += 1,
        other => wrong.push(format!("{CRDS} custom resource definitions were expected: {other:?}")),
    }
    if wrong.is_empty() { Ok(held) } else { Err(ChartsError::Wrong(wrong)) }
}

/// Renders the installing chart with every set of values that it must bear, as the release `petri` in this namespace.
///
/// Errors: helm cannot be started, or does not render.
pub fn renderings(helm: &Path, namespace: &str) -> Result<Vec<(&'static str, String)>, ChartsError> {
    let chart = path(cases::CHARTS[0]);
    let wanted = cases::CASES.iter().filter(|case| case.chart == cases::CHARTS[0] && case.is_rendered());
    let render = |case: &cases::Case| -> Result<(&'static str, String), ChartsError> {
        let mut args = vec!["template", "petri", "--namespace", namespace, chart.as_str()];
        args.extend(case.values.iter().flat_map(|value| ["--set-json", value]));
        let rendered = run(helm, &args)?.map_err(|said| ChartsError::Wrong(vec![said]))?;
        Ok((case.name, rendered))
    };
    wanted.map(render).collect()
}

/// Checks the alert rules and runs their tests; returns how many checks held.
///
/// Errors: promtool cannot be started, or says that a rule or a test is wrong.
pub fn alerts(promtool: &Path) -> Result<usize, ChartsError> {
    let files = path("charts/petri/files");
    let (rules, tests) = (format!("{files}/rules.yaml"), format!("{files}/rules_test.yaml"));
    let asked = [["check", "rules", &rules], ["test", "rules", &tests]];
    for words in &asked {
        run(promtool, words)?.map_err(|said| ChartsError::Wrong(vec![format!("promtool: {said}")]))?;
    }
    Ok(asked.len())
}

/// Returns the folder of a chart by its path in the repository.
fn path(chart: &str) -> String {
    format!("{}/../{chart}", env!("CARGO_MANIFEST_DIR"))
}

fn run(helm: &Path, args: &[&str]) -> Result<Result<String, String>, ChartsError> {
    let failed = |source| ChartsError::Helm { helm: helm.to_owned(), source };
    let output = Command::new(helm).args(args).output().map_err(failed)?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

/// Parses rendered manifests, empty documents left out.
fn documents(rendered: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Value> = serde_saphyr::from_multiple(rendered).map_err(|error| error.to_string())?;
    Ok(all.into_iter().filter(|document| !document.is_null()).collect())
}

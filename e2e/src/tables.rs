//! What the real helm answers to the tables that Petri's templates and `--set` paths are held against.
//!
//! The questions are written by hand, the answers by helm; the tests `table` of the operator compare both.
//! A text is asked through `tpl`, so that it is a template of its own, over the data of the table.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

/// Is why a table could not be answered.
#[derive(Debug, Error)]
pub enum TablesError {
    /// Helm could not be started, or a file neither read nor written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A table is not written as it must be.
    #[error("{path}: {why}")]
    Table {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Helm answers something else than what is committed.
    #[error("helm answers otherwise, run `cargo helm-tables`: {0}")]
    Outdated(String),
}

/// Where a table has its questions.
const CASES: &str = "cases.yaml";
/// Where a table has helm's answers.
const ANSWERS: &str = "helm.json";
const TEMPLATES: &str = "src/adapter/render/table";
const PATHS: &str = "src/adapter/values/table";

/// What helm makes of a question: a text or values, or a refusal and the line that it names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    ask: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    is: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
}

/// Asks helm every question of both tables and writes its answers; returns how many there are.
///
/// Errors: helm cannot be started, or a table can neither be read nor written.
pub fn write(helm: &Path) -> Result<usize, TablesError> {
    each(helm, 1, |path, answers| {
        let failed = |source| TablesError::File { path: path.to_owned(), source };
        fs::write(path, lines(&answers)).map_err(failed)
    })
}

/// Asks helm every so manieth question of both tables: the committed answers must be helm's.
///
/// Errors: helm cannot be started, a table cannot be read, or an answer differs.
pub fn check(helm: &Path, every: usize) -> Result<usize, TablesError> {
    each(helm, every, |path, answers| {
        let wrong =
            |error: serde_json::Error| TablesError::Table { path: path.to_owned(), why: error.to_string() };
        let committed: Vec<Answer> = serde_json::from_str(&read(path)?).map_err(wrong)?;
        let committed: Vec<Answer> = committed.into_iter().step_by(every.max(1)).collect();
        match committed.iter().zip(&answers).find(|(before, now)| before != now) {
            Some((before, now)) => Err(TablesError::Outdated(format!("{before:?} became {now:?}"))),
            None if committed.len() == answers.len() => Ok(()),
            None => Err(TablesError::Outdated("there are more questions than answers, or fewer".to_owned())),
        }
    })
}

type Asker = fn(&Path, &Value, usize) -> std::io::Result<Vec<Answer>>;

fn each(
    helm: &Path,
    every: usize,
    used: impl Fn(&Path, Vec<Answer>) -> Result<(), TablesError>,
) -> Result<usize, TablesError> {
    let mut count = 0;
    for (folder, ask) in [(TEMPLATES, templates as Asker), (PATHS, paths as Asker)] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder);
        let path = folder.join(CASES);
        let cases = serde_saphyr::from_str(&read(&path)?)
            .map_err(|error| TablesError::Table { path: path.clone(), why: error.to_string() })?;
        let answers = ask(helm, &cases, every.max(1)).map_err(|source| TablesError::File { path, source })?;
        count += answers.len();
        used(&folder.join(ANSWERS), answers)?;
    }
    Ok(count)
}

fn read(path: &Path) -> Result<String, TablesError> {
    fs::read_to_string(path).map_err(|source| TablesError::File { path: path.to_owned(), source })
}

/// One answer a line, so that a difference can be read.
fn lines(answers: &[Answer]) -> String {
    let mut out = String::from("[\n");
    for (place, answer) in answers.iter().enumerate() {
        let comma = if place + 1 < answers.len() { "," } else { "" };
        let line = serde_json::to_string(answer).unwrap_or_else(|error| error.to_string());
        let _ = writeln!(out, "{line}{comma}");
    }
    out + "]\n"
}

/// The cases of all groups, in order of the groups' names.
fn cases(table: &Value, every: usize) -> impl Iterator<Item = &Value> {
    let groups: BTreeMap<&String, &Value> = table["groups"].as_object().into_iter().flatten().collect();
    groups.into_values().filter_map(Value::as_array).flatten().step_by(every)
}

/// Asks what each text renders to.
fn templates(helm: &Path, table: &Value, every: usize) -> std::io::Result<Vec<Answer>> {
    let data = json!({ "data": table["data"] });
    let integers = integers("data", &table["data"]);
    let asks = cases(table, every).map(|case| case.get("text").unwrap_or(case).clone()).collect();
    parallel(asks, |chart, ask| {
        fs::write(chart.join("case.txt"), ask.as_str().unwrap_or_default())?;
        fs::write(chart.join("data.yaml"), data.to_string())?;
        fs::write(
            chart.join("templates/case.yaml"),
            r#"answer: {{ tpl (.Files.Get "case.txt") .Values.data | toJson }}"#,
        )?;
        let mut arguments = vec!["--values".to_owned(), chart.join("data.yaml").display().to_string()];
        for integer in &integers {
            arguments.extend(["--set".to_owned(), integer.clone()]);
        }
        run(helm, chart, &arguments, ask)
    })
}

/// Asks what values each set of `--set` paths makes, over the values of a file.
fn paths(helm: &Path, table: &Value, every: usize) -> std::io::Result<Vec<Answer>> {
    let asks = cases(table, every).map(|case| json!({"object": case.get("object"), "set": case.get("set")}));
    parallel(asks.collect(), |chart, ask| {
        fs::write(chart.join("values.yaml"), "{}")?;
        fs::write(
            chart.join("over.yaml"),
            ask.get("object").filter(|object| object.is_object()).unwrap_or(&json!({})).to_string(),
        )?;
        fs::write(chart.join("templates/case.yaml"), "answer: {{ .Values | toJson }}")?;
        let mut arguments = vec!["--values".to_owned(), chart.join("over.yaml").display().to_string()];
        let sets: BTreeMap<&String, &Value> = ask["set"].as_object().into_iter().flatten().collect();
        for (path, value) in sets {
            // Petri takes a value as data, so what helm would take for syntax is escaped.
            let value = value.as_str().unwrap_or_default();
            let escaped = value.replace('\\', r"\\").replace(',', r"\,");
            let escaped = if escaped.starts_with('{') { format!("\\{escaped}") } else { escaped };
            arguments.extend(["--set".to_owned(), format!("{path}={escaped}")]);
        }
        run(helm, chart, &arguments, ask)
    })
}

/// Gives each question to one of a few workers, each with a chart of its own; answers stay in order.
fn parallel(
    asks: Vec<Value>,
    work: impl Fn(&Path, &Value) -> std::io::Result<Answer> + Sync,
) -> std::io::Result<Vec<Answer>> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let size = asks.len().div_ceil(workers).max(1);
    std::thread::scope(|scope| {
        let started: Vec<_> = asks
            .chunks(size)
            .enumerate()
            .map(|(number, part)| {
                let work = &work;
                scope.spawn(move || {
                    let chart =
                        std::env::temp_dir().join(format!("petri-tables-{}-{number}", std::process::id()));
                    fs::create_dir_all(chart.join("templates"))?;
                    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: table\nversion: 0.1.0\n")?;
                    let answers: std::io::Result<Vec<Answer>> =
                        part.iter().map(|ask| work(&chart, ask)).collect();
                    fs::remove_dir_all(&chart)?;
                    answers
                })
            })
            .collect();
        let mut all = Vec::new();
        for one in started {
            all.extend(one.join().unwrap_or_else(|_| Err(std::io::Error::other("a worker panicked")))?);
        }
        Ok(all)
    })
}

fn run(helm: &Path, chart: &Path, arguments: &[String], ask: &Value) -> std::io::Result<Answer> {
    let output = Command::new(helm).arg("template").arg("x").arg(chart).args(arguments).output()?;
    let mut answer = Answer { ask: ask.clone(), is: None, refused: None, line: None };
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("answer: ")).unwrap_or_default();
        answer.is = Some(serde_json::from_str(line).map_err(std::io::Error::other)?);
        return Ok(answer);
    }
    let text = String::from_utf8_lossy(&output.stderr).replace(&chart.display().to_string(), "CHART");
    let said = text
        .rsplit("Error: ")
        .next()
        .unwrap_or(&text)
        .replace("Use --debug flag to render out invalid YAML", "");
    answer.line = line(&said);
    answer.refused = Some(said.trim().to_owned());
    Ok(answer)
}

/// The line of the text that helm names; the innermost template is the one that was asked.
fn line(said: &str) -> Option<usize> {
    said.rsplit_once("gotpl:")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Helm makes every number of a file a float; only `--set` gives it integers, as Petri's templates see them.
fn integers(path: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            let escaped = |key: &str| key.replace('.', r"\.");
            map.iter().flat_map(|(key, value)| integers(&format!("{path}.{}", escaped(key)), value)).collect()
        }
        Value::Array(list) => {
            let place = |(place, value)| integers(&format!("{path}[{place}]"), value);
            list.iter().enumerate().flat_map(place).collect()
        }
        Value::Number(number) if number.is_i64() => vec![format!("{path}={number}")],
        Value::Number(_) | Value::String(_) | Value::Bool(_) | Value::Null => Vec::new(),
    }
}

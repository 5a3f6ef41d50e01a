//! What a pipeline shows: lines on standard output, GitHub's step outputs and job summary, a comment's body.

use super::CiError;
use crate::apiserver::view::Environment;
use std::{fs::OpenOptions, io::Write as _, path::Path};

/// A comment is found again by this, to be replaced and not repeated.
const MARKER: &str = "<!-- petri-environment -->";

pub(super) fn tell(
    environment: &Environment,
    env: &dyn Fn(&str) -> Option<String>,
    comment: Option<&Path>,
) -> Result<(), CiError> {
    for (name, value) in facts(environment) {
        println!("{name}: {value}");
    }
    if let Some(path) = env("GITHUB_OUTPUT") {
        let lines: String =
            facts(environment).into_iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        append(Path::new(&path), &lines)?;
    }
    if let Some(path) = env("GITHUB_STEP_SUMMARY") {
        append(Path::new(&path), &markdown(environment))?;
    }
    if let Some(path) = comment {
        let body = format!("{MARKER}\n{}", markdown(environment));
        std::fs::write(path, body).map_err(|error| unwritable(path, &error))?;
    }
    Ok(())
}

fn append(path: &Path, text: &str) -> Result<(), CiError> {
    let written = OpenOptions::new().append(true).create(true).open(path);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> CiError {
    CiError::Usage(format!("{}: {error}", path.display()))
}

/// One line each: what is not said is empty, and a line break in a message is none here.
pub(super) fn facts(environment: &Environment) -> Vec<(&'static str, String)> {
    let (reason, message) = environment.story();
    let all = [
        ("name", environment.name.as_str()),
        ("phase", &environment.phase),
        ("reason", reason),
        ("message", message),
        ("url", environment.url.as_deref().unwrap_or_default()),
        ("expires", environment.expires_at.as_deref().unwrap_or_default()),
    ];
    all.into_iter().map(|(name, value)| (name, one_line(value))).collect()
}

fn one_line(text: &str) -> String {
    text.split(char::is_control).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Text in a cell of a table: nothing in it ends the cell or begins markup.
fn cell(text: &str) -> String {
    let mut cell = String::new();
    for c in one_line(text).chars() {
        if matches!(c, '|' | '<' | '>' | '`' | '[' | ']' | '*' | '_' | '\\' | '!' | '@' | '#') {
            cell.push('\\');
        }
        cell.push(c);
    }
    cell
}

pub(super) fn markdown(environment: &Environment) -> String {
    let (reason, message) = environment.story();
    let link = environment.url.as_deref().filter(|url| {
        (url.starts_with("https://") || url.starts_with("http://"))
            && url.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '<' | '>' | '"'))
    });
    let mut text = format!("### Environment {}: {}\n\n", cell(&environment.name), cell(&environment.phase));
    if let Some(link) = link {
        text.push_str(&format!("<{link}>\n\n"));
    }
    text.push_str("| | |\n|---|---|\n");
    text.push_str(&format!("| Template | {} |\n", cell(&environment.template)));
    text.push_str(&format!("| Reason | {} {} |\n", cell(reason), cell(message)));
    text.push_str(&format!("| Expires | {} |\n", cell(environment.expires_at.as_deref().unwrap_or("never"))));
    for component in &environment.components {
        let why = component.message.as_deref().or(component.reason.as_deref()).unwrap_or_default();
        text.push_str(&format!("| {} | {} {} |\n", cell(&component.name), cell(&component.phase), cell(why)));
    }
    text
}

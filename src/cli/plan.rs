//! `kubectl petri plan`: what Petri would do with manifests, or what it and the API server would say against them,
//! without a cluster.
//!
//! Nothing is decided here: the schemas and rules are the ones of the CRDs, everything else is asked of the functions
//! that the operator calls. Exit codes: 0 planned · 1 with errors · 2 wrong arguments.

mod judge;
mod manifest;
mod report;
mod text;

#[cfg(test)]
mod tests;

use crate::config::{Config, Settings};
use clap::{Args, ValueEnum};
use judge::Judge;
use manifest::Source;
use report::Report;
use std::{io::Read as _, path::PathBuf, process::ExitCode};

/// Arguments of `plan`.
#[derive(Args)]
pub struct Arguments {
    /// Manifests: files, folders, or - for standard input; each may hold several documents
    #[arg(short, long = "filename", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<String>,
    /// Print it for programs
    #[arg(short, long, value_enum)]
    output: Option<Format>,
    /// Namespace of manifests that name none [default: the one that Petri watches]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Configuration of the operator, for its namespaces, defaults and rights
    #[arg(long)]
    config: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Json,
    Yaml,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> ExitCode {
    let planned = match plan(arguments) {
        Ok(planned) => planned,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let (report, text) = planned;
    let shown = match arguments.output {
        None => Ok(text),
        Some(Format::Json) => serde_json::to_string_pretty(&report).map_err(|error| error.to_string()),
        Some(Format::Yaml) => serde_saphyr::to_string(&report).map_err(|error| error.to_string()),
    };
    match shown {
        Ok(shown) => println!("{}", shown.trim_end()),
        Err(error) => eprintln!("{error}"),
    }
    if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan(arguments: &Arguments) -> Result<(Report, String), String> {
    let config = Config::load(arguments.config.as_deref(), Settings::default(), None)
        .map_err(|error| error.to_string())?;
    let mut sources = Vec::new();
    for file in &arguments.files {
        sources.extend(read(file)?);
    }
    let namespace = arguments.namespace.clone().unwrap_or_else(|| config.management_namespace.clone());
    Ok(planned(&sources, &config, &namespace))
}

fn planned(sources: &[Source], config: &Config, namespace: &str) -> (Report, String) {
    let mut judge = Judge::new(config, namespace);
    for source in sources {
        judge.take(source);
    }
    let judged = judge.judge();
    let text = text::text(&judged);
    (judged.report, text)
}

/// Reads what one argument names; of a folder the files that kubectl would take, in order of name.
fn read(file: &str) -> Result<Vec<Source>, String> {
    let fault = |error: std::io::Error| format!("{file}: {error}");
    if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(fault)?;
        return Ok(vec![Source { file: file.to_owned(), text }]);
    }
    let path = PathBuf::from(file);
    let one = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Source { file: path.display().to_string(), text })
    };
    if !path.is_dir() {
        return Ok(vec![one(path)?]);
    }
    let entries = std::fs::read_dir(&path).map_err(fault)?.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    let manifests = entries.into_iter().map(|entry| entry.path()).filter(|path| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        path.is_file() && matches!(ending, Some("yaml" | "yml" | "json"))
    });
    let mut manifests: Vec<PathBuf> = manifests.collect();
    manifests.sort();
    if manifests.is_empty() {
        return Err(format!("{file}: no .yaml, .yml or .json file is in it"));
    }
    manifests.into_iter().map(one).collect()
}

//! Measures the oracle: plants one bug at a time in a scratch copy of the core and runs the quick tests on it.
//!
//! `cargo run -p petri-proptests --bin mutate -- [part of a name]`; the list is `proptests/mutations.json`. Ends with
//! `caught: X of Y`; a survivor or a patch that no longer fits is a failure.

use serde::Deserialize;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// One planted bug.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Mutation {
    /// What goes wrong, as a sentence.
    name: String,
    /// The file, below the workspace.
    file: PathBuf,
    /// The text that stands there exactly once.
    from: String,
    /// What stands there instead.
    to: String,
}

fn main() -> ExitCode {
    match run(std::env::args().nth(1).unwrap_or_default().as_str()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutate: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(part: &str) -> io::Result<bool> {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().map(Path::to_path_buf).unwrap_or_default();
    let text = fs::read_to_string(package.join("mutations.json"))?;
    let all: Vec<Mutation> = serde_json::from_str(&text)?;
    let chosen: Vec<&Mutation> = all.iter().filter(|mutation| mutation.name.contains(part)).collect();
    let scratch = std::env::temp_dir().join(format!("petri-mutate-{}", std::process::id()));
    let result = apply_all(&chosen, &root, &scratch);
    fs::remove_dir_all(&scratch)?;
    let caught = result?;
    println!("caught: {caught} of {}", chosen.len());
    Ok(caught == chosen.len())
}

fn apply_all(mutations: &[&Mutation], root: &Path, scratch: &Path) -> io::Result<usize> {
    fs::create_dir_all(scratch)?;
    for folder in ["machines", "proptests"] {
        copy(&root.join(folder), &scratch.join(folder))?;
    }
    for file in ["Cargo.lock", "rust-toolchain.toml"] {
        fs::copy(root.join(file), scratch.join(file))?;
    }
    fs::write(scratch.join("Cargo.toml"), workspace(&fs::read_to_string(root.join("Cargo.toml"))?))?;
    if let Some(why) = test(scratch)? {
        return Err(io::Error::other(format!("the tests fail without any mutation: {why}")));
    }
    let mut caught = 0;
    for mutation in mutations {
        let file = scratch.join(&mutation.file);
        let text = fs::read_to_string(&file)?;
        if text.matches(&mutation.from).count() != 1 {
            println!("does not fit   {}", mutation.name);
            continue;
        }
        fs::write(&file, text.replace(&mutation.from, &mutation.to))?;
        let found = test(scratch).unwrap_or_else(|error| {
            println!("does not work  {}: {error}", mutation.name);
            None
        });
        match found {
            Some(why) => {
                caught += 1;
                println!("caught         {}: {why}", mutation.name);
            }
            None => println!("SURVIVED       {}", mutation.name),
        }
        fs::write(&file, text)?;
    }
    Ok(caught)
}

/// Cuts the workspace's manifest down to the two packages.
fn workspace(manifest: &str) -> String {
    let shared = manifest.split("\n[package]").next().unwrap_or_default();
    let members = |line: &str| line.starts_with("members");
    let lines = shared
        .lines()
        .map(|line| if members(line) { r#"members = ["machines", "proptests"]"# } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// The quick tests, those first that take the least to find most.
const TESTS: [&str; 6] = ["scenarios", "fixtures", "laws", "explorer", "dish", "sharing"];

/// Runs the quick tests until one fails; returns the first law that broke, or the first test that failed.
fn test(scratch: &Path) -> io::Result<Option<String>> {
    for one in TESTS {
        if let Some(why) = run_test(scratch, one)? {
            return Ok(Some(format!("{one}: {why}")));
        }
    }
    Ok(None)
}

fn run_test(scratch: &Path, one: &str) -> io::Result<Option<String>> {
    let target = scratch.join("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--offline", "-p", "petri-proptests", "--test", one]).current_dir(scratch);
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
    let output = cargo.env("CARGO_TARGET_DIR", target).env("RUST_BACKTRACE", "0").output()?;
    if output.status.success() {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    if text.contains("error: could not compile") {
        let error = text.lines().find(|line| line.starts_with("error")).unwrap_or_default();
        return Err(io::Error::other(format!("a mutation that does not compile catches nothing: {error}")));
    }
    let mut laws: Vec<&str> =
        text.split("law \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    laws.sort_unstable();
    laws.dedup();
    let failed = text.lines().find(|line| line.contains("panicked") || line.ends_with("FAILED"));
    let scenario = text.split("scenarios/").nth(1).and_then(|rest| rest.split(".json").next());
    let law = if laws.is_empty() { failed.unwrap_or("cargo failed").to_owned() } else { laws.join(", ") };
    Ok(Some(scenario.map_or(law.clone(), |scenario| format!("{scenario}: {law}"))))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

//! Measures the oracle: plants one bug at a time in a scratch copy of the core and runs the tests on it.
//!
//! `cargo mutate` runs for each bug the test that caught it last time, and all the quick ones when that does not, then
//! the slow ones. It ends with `caught: X of Y`; a survivor without a reason, or a patch that no longer fits, is a failure.

use petri_proptests::mutations::{Kill, Mutation, kills, mutations, write_kills};
use serde_json::Value;
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What is asked for on the command line.
#[derive(Debug)]
struct Wish {
    part: String,
    from: usize,
    count: usize,
    all: bool,
    write: bool,
}

const USAGE: &str = "cargo mutate [PART OF A NAME] [--from N] [--count N] [--all] [--write]
  --from, --count  a range of the list, from 0: a long run in pieces
  --all            every test, the slow ones also of what a quick one catches
  --write          record in proptests/kills.json what catches each";

fn wish() -> Option<Wish> {
    let mut wish = Wish { part: String::new(), from: 0, count: usize::MAX, all: false, write: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--from" => wish.from = words.next()?.parse().ok()?,
            "--count" => wish.count = words.next()?.parse().ok()?,
            "--all" => wish.all = true,
            "--write" => wish.write = true,
            option if option.starts_with('-') => return None,
            part => wish.part = part.to_owned(),
        }
    }
    Some(wish)
}

fn main() -> ExitCode {
    let Some(wish) = wish() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&wish) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutate: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(wish: &Wish) -> io::Result<bool> {
    let all = mutations()?;
    let named = all.iter().filter(|mutation| mutation.name.contains(&wish.part));
    let chosen: Vec<&Mutation> = named.skip(wish.from).take(wish.count).collect();
    let mut known = kills()?;
    let scratch = Scratch::new()?;
    // Without a bug it must build, or each would seem to be broken.
    scratch.build(&QUICK)?;
    let (mut caught, mut excused, mut silent) = (0, 0, 0);
    for mutation in &chosen {
        let started = Instant::now();
        let last = known.get(&mutation.name).filter(|_| !wish.all && !wish.write);
        let found = scratch.plant(mutation, last, wish.all);
        let (word, what) = match (&found, &mutation.survives) {
            (Ok(Some(kill)), _) => ("caught", told(kill)),
            (Ok(None), Some(why)) => ("excused", why.clone()),
            (Ok(None), None) => ("SURVIVED", String::new()),
            (Err(error), _) => ("BROKEN", error.to_string()),
        };
        match word {
            "caught" => caught += 1,
            "excused" => excused += 1,
            _ => silent += 1,
        }
        println!("{word:<9} {:4} s  {}: {what}", started.elapsed().as_secs(), mutation.name);
        if let (true, Ok(Some(kill))) = (wish.write, found) {
            known.insert(mutation.name.clone(), kill);
            known.retain(|name, _| all.iter().any(|mutation| mutation.name == *name));
            write_kills(&known)?;
        }
    }
    println!("excused: {excused}");
    println!("caught: {caught} of {}", chosen.len());
    Ok(silent == 0)
}

fn told(kill: &Kill) -> String {
    let words = |set: Vec<&String>| set.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let told = format!("{} ({})", words(kill.tests.keys().collect()), words(kill.laws.iter().collect()));
    let shortest = kill.tests.keys().filter_map(|name| Some((operations(name)?, name))).min();
    match shortest {
        Some((operations, name)) => {
            format!("{told}; the shortest scenario, of {operations} operations: {name}")
        }
        None => told,
    }
}

/// Counts the operations of a stored scenario.
fn operations(name: &str) -> Option<usize> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(name).with_extension("json");
    let scenario: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    Some(scenario["ops"].as_array()?.len())
}

/// A copy of the core that stays from run to run, so that only what a bug touches is built.
struct Scratch(PathBuf);

/// The test programs that take seconds; all of them are asked, to know what each catches. Not among them: what compares
/// the tree with itself.
const QUICK: [&str; 6] = [
    "machines/environment",
    "machines/cycle",
    "machines/lib",
    "machines/sharing",
    "proptests/scenarios",
    "proptests/fixtures",
];
/// Those that take longer are asked until one of them catches what the quick ones did not.
const SLOW: [&str; 4] = ["proptests/laws", "proptests/explorer", "proptests/sharing", "proptests/dish"];
/// A test program that takes longer goes round in a circle.
const PROGRAM_MAX: Duration = Duration::from_secs(100);

impl Scratch {
    fn new() -> io::Result<Self> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let scratch = target.join("mutate");
        for folder in ["machines", "proptests"] {
            copy(&root.join(folder), &scratch.join(folder))?;
        }
        for file in ["Cargo.lock", "rust-toolchain.toml"] {
            refresh(&scratch.join(file), &fs::read(root.join(file))?)?;
        }
        let manifest = workspace(&fs::read_to_string(root.join("Cargo.toml"))?);
        refresh(&scratch.join("Cargo.toml"), manifest.as_bytes())?;
        Ok(Self(scratch))
    }

    /// Plants a bug, looks who catches it, and takes it out again.
    fn plant(&self, mutation: &Mutation, last: Option<&Kill>, all: bool) -> io::Result<Option<Kill>> {
        let file = self.0.join(&mutation.file);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, mutation.plant(&text).ok_or_else(|| io::Error::other("does not fit"))?)?;
        let found = self.test(last, all);
        fs::write(&file, text)?;
        found
    }

    fn test(&self, last: Option<&Kill>, all: bool) -> io::Result<Option<Kill>> {
        let mut kill = Kill::default();
        for (test, program) in last.into_iter().flat_map(|kill| &kill.tests) {
            // A stored scenario is lived by the one test of its program that lives them all.
            let filter = if program == "proptests/scenarios" { "every_stored_scenario" } else { test };
            for (name, path) in self.build(&[program])? {
                if self.asks(&name, &path, Some(filter), &mut kill)? {
                    return Ok(Some(kill));
                }
            }
        }
        for (name, path) in self.build(&QUICK)? {
            self.asks(&name, &path, None, &mut kill)?;
        }
        for program in SLOW {
            if all || kill.tests.is_empty() {
                for (name, path) in self.build(&[program])? {
                    self.asks(&name, &path, None, &mut kill)?;
                }
            }
        }
        Ok((!kill.tests.is_empty()).then_some(kill))
    }

    /// Builds test programs, those of one package in one call; returns where each is.
    fn build(&self, names: &[&str]) -> io::Result<Vec<(String, PathBuf)>> {
        let mut programs = Vec::new();
        for package in ["machines", "proptests"] {
            let of_package = names.iter().filter_map(|name| name.strip_prefix(package)?.strip_prefix('/'));
            let targets: Vec<&str> = of_package.collect();
            if targets.is_empty() {
                continue;
            }
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            cargo.args(["test", "--no-run", "--offline", "--package", &format!("petri-{package}")]);
            for target in targets {
                match target {
                    "lib" => cargo.arg("--lib"),
                    _ => cargo.args(["--test", target]),
                };
            }
            cargo.args(["--message-format", "json"]).current_dir(&self.0);
            cargo.env("CARGO_TARGET_DIR", self.0.join("target")).env("CARGO_INCREMENTAL", "1");
            cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1").env("CARGO_PROFILE_DEV_DEBUG", "0");
            let output = cargo.output()?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stderr);
                let error = text.lines().find(|line| line.starts_with("error")).unwrap_or_default();
                return Err(io::Error::other(format!("does not compile: {error}")));
            }
            let text = String::from_utf8_lossy(&output.stdout);
            let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            // The package's own programs are built beside its tests.
            let tests = messages.filter(|message| message["profile"]["test"] == true);
            programs.extend(tests.filter_map(|message| {
                let path = PathBuf::from(message["executable"].as_str()?);
                let target = &message["target"];
                let is_test = target["kind"][0].as_str()? == "test";
                let name = if is_test { target["name"].as_str()? } else { "lib" };
                Some((format!("{package}/{name}"), path))
            }));
        }
        Ok(programs)
    }

    /// Runs a test program, or one test of it. Returns whether anything failed.
    fn asks(&self, name: &str, path: &Path, test: Option<&str>, kill: &mut Kill) -> io::Result<bool> {
        let folder = self.0.join(name.split('/').next().unwrap_or_default());
        let mut command = Command::new(path);
        command.args(test).current_dir(folder).env("RUST_BACKTRACE", "0").stderr(Stdio::null());
        let log = self.0.join("test.log");
        let mut child = command.stdout(File::create(&log)?).spawn()?;
        let started = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait()? {
                break Some(status);
            }
            if started.elapsed() > PROGRAM_MAX {
                child.kill()?;
                child.wait()?;
                break None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        if ended.is_some_and(|status| status.success()) {
            return Ok(false);
        }
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        kill.laws
            .extend(text.split("law \"").skip(1).filter_map(|rest| Some(rest.split('"').next()?.into())));
        let failed = text.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let mut tests: Vec<&str> = failed.map(|path| path.rsplit("::").next().unwrap_or(path)).collect();
        let lives = text.split("scenarios/").skip(1).filter_map(|rest| Some(rest.split_once(".json:")?.0));
        let lives: Vec<&str> = lives.filter(|name| !name.contains(char::is_whitespace)).collect();
        if !lives.is_empty() {
            tests.retain(|test| !test.starts_with("every_stored_scenario"));
        }
        if tests.is_empty() && lives.is_empty() {
            tests.push(if ended.is_none() { "hangs" } else { "dies" });
        }
        kill.tests.extend(tests.into_iter().chain(lives).map(|test| (test.to_owned(), name.to_owned())));
        Ok(true)
    }
}

/// Cuts the workspace's manifest down to the two packages.
fn workspace(manifest: &str) -> String {
    let shared = manifest.split("\n[package]").next().unwrap_or_default();
    let lines = shared.lines().map(|line| match line.split_once('=') {
        Some((key, _)) if key.trim_end().ends_with("members") => {
            format!(r#"{key}= ["machines", "proptests"]"#)
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            refresh(&target, &fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// Writes a file unless it is that way already: what is not written is not built anew.
fn refresh(path: &Path, content: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == content) { Ok(()) } else { fs::write(path, content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copys_manifest_names_no_package_but_the_two_of_the_core() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let copy = workspace(&fs::read_to_string(manifest).unwrap());
        let lists: Vec<&str> = copy.lines().filter(|line| line.contains("members")).collect();
        assert!(lists.len() >= 2, "{copy}");
        assert!(lists.iter().all(|list| list.ends_with(r#"= ["machines", "proptests"]"#)), "{lists:?}");
    }
}

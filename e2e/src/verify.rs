//! Every test of the project, part by part: a line with its time for each, and one closing count.

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::api_fuzz;
use crate::cases;
use crate::lab::{Lab, Options, Progress};
use crate::petri::{self, Error, Petri, checkout};
use crate::witness::Witness;

/// The name of the cluster that the cases run on.
const LAB: &str = "petri-verify";
/// A case that takes longer hangs; the longest, the kill of the operator, takes a few minutes.
const CASE_MAX: Duration = Duration::from_secs(900);

/// The parts, by the name that `--only` takes.
pub const PARTS: [&str; 9] =
    ["format", "lint", "tests", "proof", "fuzz", "lab", "cluster", "faults", "operations"];
/// How long each fuzz target runs.
const FUZZ: Duration = Duration::from_secs(8);
/// The parts that run only when they are named: a quarter of an hour of outages, which wants a quiet machine, and what is
/// built and fetched besides the cluster (the collector, the definitions of monitoring).
const BY_NAME: [&str; 2] = ["faults", "operations"];

/// What was counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Tests that held.
    pub passed: usize,
    /// Tests that did not.
    pub failed: usize,
}

impl Count {
    fn one(held: bool) -> Self {
        Self { passed: usize::from(held), failed: usize::from(!held) }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs the parts named in `only`, or all; `case` keeps the cases whose name contains it, and `lab` names a
/// cluster that was kept to run them on.
///
/// Boxed, so that it is compiled once, with this library, and not with each program that calls it.
pub fn run<'a>(only: &'a [String], case: Option<&'a str>, lab: Option<&'a str>) -> BoxFuture<'a, Count> {
    Box::pin(async move {
        let mut count = Count::default();
        let named = |part: &str| only.iter().any(|one| one == part);
        let wanted = |part: &str| if only.is_empty() { !BY_NAME.contains(&part) } else { named(part) };
        for part in PARTS.into_iter().filter(|part| wanted(part)) {
            let started = Instant::now();
            println!("=== {part}");
            let found = match part {
                "format" => cargo(&["fmt", "--all", "--check"], &[]).await,
                "lint" => {
                    cargo(&["clippy", "--workspace", "--all-targets", "--quiet"], &["-D", "warnings"]).await
                }
                "tests" => cargo(&["test", "--workspace", "--quiet", "--no-fail-fast"], &[]).await,
                "proof" => cargo(&["proof", "standard"], &[]).await,
                "fuzz" => match api_fuzz::run(None, FUZZ, false).await {
                    Ok(()) => Count::one(true),
                    Err(error) => broken("fuzzing", &error),
                },
                "lab" => cargo(&["test", "--package", "petri-e2e", "--test", "lab", "--quiet"], &[]).await,
                "faults" => cluster(cases::faults(), case, lab).await,
                "operations" => cluster(cases::operations(), case, lab).await,
                _ => cluster(cases::all(), case, lab).await,
            };
            println!(
                "=== {part}: {} passed, {} failed in {:.0} s\n",
                found.passed,
                found.failed,
                started.elapsed().as_secs_f64()
            );
            count.add(found);
        }
        count
    })
}

/// Runs cargo and counts what its test runner says; a command that counts nothing is one test.
async fn cargo(arguments: &[&str], after: &[&str]) -> Count {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(checkout()).stdin(Stdio::null()).stdout(Stdio::piped());
    if !after.is_empty() {
        command.arg("--").args(after);
    }
    let Ok(mut child) = command.spawn() else { return Count::one(false) };
    let mut count = Count::default();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            println!("{line}");
            count.add(counted(&line).unwrap_or_default());
        }
    }
    let held = child.wait().await.is_ok_and(|status| status.success());
    if count == Count::default() {
        return Count::one(held);
    }
    // A test program that died has counted nothing of its own.
    if !held && count.failed == 0 {
        count.failed = 1;
    }
    count
}

/// Reads `test result: ok. 3 passed; 0 failed; …`.
fn counted(line: &str) -> Option<Count> {
    let rest = line.trim().strip_prefix("test result: ")?;
    let number = |what: &str| {
        let (before, _) = rest.split_once(what)?;
        before.split([' ', ';', '.']).rfind(|word| !word.is_empty())?.parse().ok()
    };
    Some(Count { passed: number(" passed")?, failed: number(" failed")? })
}

/// Boots a cluster, or joins one that was kept, installs Petri and runs every case.
async fn cluster(cases: Vec<cases::Case>, case: Option<&str>, kept: Option<&str>) -> Count {
    let progress = Progress::new();
    let found = match kept {
        Some(name) => Lab::attach(name).await,
        None => {
            let _ = Lab::down_named(LAB).await;
            Lab::up(Options::new(LAB)).await
        }
    };
    let lab = match found {
        Ok(lab) => lab,
        Err(error) => return broken("the cluster", &error),
    };
    let values = petri::VALUES;
    let installed = match kept {
        Some(_) => Petri { lab: &lab }.helm_upgrade(&values).await.map(|()| Petri { lab: &lab }),
        None => Petri::install(&lab, &progress, &values).await,
    };
    let petri = match installed {
        Ok(petri) => petri,
        Err(error) => return broken("the installation", &error),
    };
    progress.clear();
    let witness = Witness::start(&lab.client(), &[cases::SECRET]);
    let mut count = Count::default();
    for case in cases.into_iter().filter(|one| case.is_none_or(|part| one.name.contains(part))) {
        let started = Instant::now();
        let run = tokio::time::timeout(CASE_MAX, lab.watched((case.run)(&petri)));
        let told = run.await.unwrap_or_else(|_| Err(Error::Wrong(format!("took longer than {CASE_MAX:?}"))));
        let took = started.elapsed().as_secs_f64();
        match &told {
            Ok(remark) if remark.is_empty() => println!("ok      {took:6.1} s  {}", case.name),
            Ok(remark) => println!("ok      {took:6.1} s  {}\n                  {remark}", case.name),
            Err(error) => {
                println!("FAILED  {took:6.1} s  {}\n{error}", case.name);
                explain(&petri).await;
            }
        }
        count.add(Count::one(told.is_ok()));
    }
    match witness.judge() {
        Ok(remark) => {
            println!("ok               no secret is in what Petri's programs logged");
            println!("                  {remark}");
            count.add(Count::one(true));
        }
        Err(error) => count.add(broken("what was logged", &error)),
    }
    if kept.is_none()
        && let Err(error) = lab.down().await
    {
        count.add(broken("the end of the cluster", &error));
    }
    count
}

fn broken(what: &str, error: &dyn std::error::Error) -> Count {
    println!("FAILED  {what}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        println!("  because: {error}");
        cause = error.source();
    }
    Count::one(false)
}

/// Shows what the operator and the cluster say, and takes away what the failed case left.
async fn explain(petri: &Petri<'_>) {
    if let Ok(log) = petri.operator_log().await {
        println!("the operator said last:{log}");
    }
    for view in [&["get", "eenv,jobs,pods", "-A"][..], &["get", "events", "-A", "--sort-by=.lastTimestamp"]] {
        if let Ok(output) = petri.lab.kubectl(view).await {
            println!("{}", String::from_utf8_lossy(&output.stdout));
        }
    }
    let delete = ["delete", "eenv", "--all", "-n", crate::petri::MANAGEMENT, "--timeout=120s"];
    let _ = petri.lab.kubectl(&delete).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(counted(line), Some(Count { passed: 12, failed: 3 }));
        assert_eq!(counted("running 12 tests"), None);
    }
}

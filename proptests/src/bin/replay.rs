//! Replays a stored life: `cargo run -p petri-proptests --bin replay -- scenario.json`.

use petri_proptests::scenario::{self, Scenario};
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let mut paths = std::env::args().skip(1).peekable();
    if paths.peek().is_none() {
        eprintln!("usage: replay SCENARIO.json …");
        return ExitCode::from(2);
    }
    let failed = paths.filter(|path| !replay(Path::new(path))).count();
    ExitCode::from(u8::from(failed > 0))
}

fn replay(path: &Path) -> bool {
    let scenario = match Scenario::load(path) {
        Ok(scenario) => scenario,
        Err(fault) => {
            eprintln!("{}: {fault}", path.display());
            return false;
        }
    };
    println!("{}\nspecs: {:?}, time to live: {:?}", scenario.name, scenario.specs, scenario.ttl_secs);
    match scenario.tell() {
        Ok(dish) => {
            println!("{}", dish.log.join("\n"));
            println!(
                "rests: {} after {} s and {} writes",
                scenario::rest(&dish.cluster),
                dish.cluster.now,
                dish.writes
            );
            true
        }
        Err((fault, log)) => {
            println!("{}", log.join("\n"));
            eprintln!("{}: {fault}", path.display());
            false
        }
    }
}

//! Every stored form that was ever released still loads and settles. `machines/fixtures/<machine>/v<version>` is only
//! ever added to: `FIXTURES=write` adds what a life stores and no file has yet.

use petri_machines::{
    environment::{Environment, Record, World},
    kernel::{
        Machine as _,
        cycle::{Answer, Ask, Cycle, Done, Stored},
        dialogue::Turn,
    },
};
use petri_machines::{shared, slice};
use petri_proptests::{
    dish::{Dish, Op, cluster::Cluster, cluster::Own, observe::observe},
    laws::{self, Breach},
    sharing::alone,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

fn folder() -> PathBuf {
    folder_of("environment")
}

fn folder_of(machine: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../machines/fixtures").join(machine).join("v1")
}

/// The worlds a record is shown: a new cluster, and one in which nothing can be read.
fn worlds(record: &Record) -> Vec<World> {
    let dish = Dish::new(&["a:1; b:1<-a"], None).unwrap();
    let own = Own::new(None);
    let seen = observe(&Cluster::new(None), &dish.specs, &own, record, None);
    let blind = laws::blindness::Blindness::Anything.of(&seen);
    vec![seen, blind]
}

#[test]
fn every_stored_record_of_version_1_loads_as_it_was_written_and_settles() {
    let mut count = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let record: Record = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let written: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), written, "{path:?} is stored differently now");
        for world in worlds(&record) {
            laws::environment::all(&record, &world).unwrap_or_else(|breach| panic!("{path:?}: {breach}"));
        }
        count += 1;
    }
    assert!(count >= 10, "{count} fixtures");
}

#[test]
fn what_lives_store_now_has_a_fixture() {
    let mut found: BTreeMap<String, Record> = BTreeMap::new();
    let lives: [&[Op]; 3] = [
        &[Op::Settle, Op::Spec { spec: 1 }, Op::Settle, Op::Delete],
        &[Op::Settle, Op::Spec { spec: 2 }, Op::Settle, Op::Spec { spec: 0 }, Op::Settle, Op::Delete],
        &[Op::NamespaceDeletedByHand],
    ];
    for ops in lives {
        let specs = ["a:1; b:1<-a; +Secret/pull:1", "a:2", "! no such template"];
        let mut dish = Dish::new(&specs, None).unwrap();
        for op in ops.iter().chain([&Op::Settle]) {
            if *op != Op::Settle {
                dish.run(op).unwrap();
                continue;
            }
            while !dish.is_at_rest() || dish.operator.is_told(&dish.cluster) || dish.operator.is_running() {
                let told = dish.operator.is_told(&dish.cluster) || dish.operator.is_running();
                if told {
                    dish.run(&Op::Step { fault: None }).unwrap();
                } else if !dish.progress().unwrap() {
                    dish.pass_time();
                }
                let Some(record) = Cluster::record(&dish.cluster) else { continue };
                let child =
                    record.memory.components.values().next_back().map_or("none", |one| one.phase.name());
                let key = format!("{}_{child}", record.phase.name()).to_lowercase();
                found.entry(key).or_insert_with(|| record.clone());
            }
        }
    }
    for (key, record) in found {
        let path = folder().join(format!("{key}.json"));
        if std::env::var_os("FIXTURES").is_some_and(|wish| wish == "write") && !path.exists() {
            fs::write(&path, serde_json::to_string_pretty(&record).unwrap() + "\n").unwrap();
        }
        assert!(
            path.exists(),
            "no fixture {key}: FIXTURES=write cargo test -p petri-proptests --test fixtures"
        );
    }
}

/// Loads every stored form of a machine, and writes those that no file has yet where that is wished.
fn check<R: Serialize + DeserializeOwned>(
    machine: &str,
    now: BTreeMap<String, Value>,
    holds: impl Fn(&R) -> Result<(), Breach>,
) {
    for (key, record) in now {
        let path = folder_of(machine).join(format!("{key}.json"));
        if std::env::var_os("FIXTURES").is_some_and(|wish| wish == "write") && !path.exists() {
            fs::create_dir_all(folder_of(machine)).unwrap();
            fs::write(&path, serde_json::to_string_pretty(&record).unwrap() + "\n").unwrap();
        }
        assert!(
            path.exists(),
            "no fixture {path:?}: FIXTURES=write cargo test -p petri-proptests --test fixtures"
        );
    }
    for entry in fs::read_dir(folder_of(machine)).unwrap() {
        let path = entry.unwrap().path();
        let written: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let record = R::deserialize(&written).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert_eq!(serde_json::to_value(&record).unwrap(), written, "{path:?} is stored differently now");
        holds(&record).unwrap_or_else(|breach| panic!("{path:?}: {breach}"));
    }
}

#[test]
fn every_stored_form_of_a_slice_and_of_a_shared_component_loads_as_it_was_written_and_settles() {
    let slices = alone::explore_slice().unwrap().stored;
    check::<slice::Record>("slice", slices, alone::slice_holds);
    let shared = alone::explore_shared().unwrap().stored;
    check::<shared::Record>("shared", shared, alone::shared_holds);
}

#[test]
fn a_record_of_a_newer_version_is_held_and_nothing_is_asked_for() {
    let mut cycle: Cycle<Environment> = Cycle::default();
    assert_eq!(cycle.advance(None), Turn::Ask(Ask::Read));
    let own = Stored { phase: Record::default(), status: None, version: Environment::VERSION + 1 };
    let found = Environment::VERSION + 1;
    assert_eq!(cycle.advance(Some(Answer::Own(Some(own)))), Turn::Done(Done::Held { found }));
}

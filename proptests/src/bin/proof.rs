//! The whole proof: `cargo proof`. Ends with lines `name: value` and fails when any of them is below its floor.

use petri_machines::environment::EDGES;
use petri_proptests::{
    crash,
    explorer::{Bounds, edges::Found, explore, node::Budget},
    invariants::History,
    laws::Breach,
    plans,
};
use std::{
    collections::BTreeMap,
    fs,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

/// Below these the proof fails: fewer states or plans prove less, whatever they find.
const FLOORS: [(&str, u64); 4] =
    [("states", 50_000), ("edges", 400_000), ("lives", 10_000), ("plans", 20_000)];

fn main() -> ExitCode {
    let plans = std::env::args().nth(1).and_then(|plans| plans.parse().ok()).unwrap_or(200_000);
    let started = Instant::now();
    println!("options: plans {plans}, seeds 0..{plans}");
    match prove(plans) {
        Ok((mut values, laws)) => {
            for (law, count) in &laws {
                println!("law {law:?}: {count}");
            }
            values.insert("laws", laws.len() as u64);
            values.insert("seconds", started.elapsed().as_secs());
            values.insert("peak_mib", peak_mib());
            for (name, value) in &values {
                println!("{name}: {value}");
            }
            let low =
                FLOORS.iter().filter(|(name, floor)| values.get(name).is_none_or(|value| value < floor));
            let low: Vec<_> = low.filter(|(name, _)| *name != "plans" || plans >= 20_000).collect();
            low.iter().for_each(|(name, floor)| eprintln!("{name} is below {floor}"));
            ExitCode::from(u8::from(!low.is_empty()))
        }
        Err(breach) => {
            eprintln!("{breach}");
            ExitCode::FAILURE
        }
    }
}

type Values = BTreeMap<&'static str, u64>;

fn prove(plans: u64) -> Result<(Values, Values), Breach> {
    let (mut values, found) = explored()?;
    let declared = EDGES.iter().copied().collect();
    if found.moves != declared {
        let what = format!("taken {:?}, declared {declared:?}", found.moves);
        return Err(Breach { law: "edges", what });
    }
    for specs in
        [&["a:1; b:1<-a; c:1<-a; d:1<-b c", "a:2; b:1<-a; c:2<-a; d:1<-b c"], &["a:1; b:1", "a:2; b:1<-a"]]
    {
        *values.entry("lives").or_default() += crash::everywhere(specs)? as u64;
    }
    *values.entry("lives").or_default() += crash::pairs(&["a:1; b:1<-a", "a:2; b:1<-a"])? as u64;
    println!("crashed {} lives", values["lives"]);
    let mut laws: Values = found.counts;
    for (law, count) in lives(plans)? {
        *laws.entry(law).or_default() += count;
    }
    values.insert("plans", plans);
    Ok((values, laws))
}

/// Explores the worlds, as many at once as there are cores.
fn explored() -> Result<(Values, Found), Breach> {
    let all = Mutex::new((Values::new(), Found::default()));
    let left = Mutex::new(worlds());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let work = || -> Result<(), Breach> {
        while let Some(bounds) = next() {
            let started = Instant::now();
            let report = explore(&bounds)?;
            let seconds = started.elapsed().as_secs_f64();
            println!(
                "explored {} states, {} edges in {seconds:.1} s: {bounds:?}",
                report.states, report.edges
            );
            let (values, found) = &mut *all.lock().unwrap_or_else(PoisonError::into_inner);
            *values.entry("states").or_default() += report.states as u64;
            *values.entry("edges").or_default() += report.edges as u64;
            found.merge(report.found);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| panic!("exploring panicked")))
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn worlds() -> Vec<Bounds> {
    let world = |specs: &[&str], ttl_secs, (specs_left, faults, retries)| Bounds {
        specs: specs.iter().map(|line| (*line).to_owned()).collect(),
        ttl_secs,
        budget: Budget { specs: specs_left, faults, retries },
        states_max: 3_000_000,
    };
    vec![
        world(&["a:1", "a:2"], None, (2, 1, 0)),
        world(&["a:1", "! nothing", "! still nothing"], Some(100), (2, 1, 0)),
        world(&["a:1"], None, (0, 2, 0)),
        world(&["a:1"], None, (0, 1, 1)),
        world(&["a:1!", "a:2!"], None, (2, 0, 1)),
        world(&["a:1; b:1"], None, (0, 1, 0)),
        world(&["a:1; b:1<-a"], None, (0, 1, 0)),
        world(&["a:1; b:1<-a", "a:1"], None, (1, 0, 0)),
        world(&["a:1!; b:1!<-a", "b:1!; a:1!<-b"], None, (1, 0, 0)),
        world(&["a:1!; b:1!<-a; c:1!<-b"], None, (0, 0, 0)),
        world(&["a:1!; b:1!<-a; c:1!<-a"], None, (0, 0, 0)),
    ]
}

/// Lives the plans on all cores; the first failure is cut down and printed as the scenario to keep.
fn lives(plans: u64) -> Result<Values, Breach> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let share = |core: u64| {
        let mut counts = Values::new();
        for seed in (core..plans).step_by(usize::try_from(cores).unwrap_or(1)) {
            let plan = plans::draw(seed);
            match plans::check(&plan) {
                Ok(dish) => add(&mut counts, &dish.history),
                Err(breach) => return Err(report(seed, &plan, &breach)),
            }
        }
        Ok(counts)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..cores).map(|core| scope.spawn(move || share(core))).collect();
        let mut all = Values::new();
        for one in running {
            let counts = one.join().unwrap_or_else(|_| panic!("a plan panicked; its seed is above"))?;
            counts.into_iter().for_each(|(law, count)| *all.entry(law).or_default() += count);
        }
        Ok(all)
    })
}

fn add(counts: &mut Values, history: &History) {
    for (law, count) in &history.counts {
        *counts.entry(law).or_default() += count;
    }
}

fn report(seed: u64, plan: &plans::Plan, breach: &Breach) -> Breach {
    let least = plans::shrink(plan, breach.law);
    let ops = serde_json::to_string(&least.ops).unwrap_or_default();
    let life = plans::check(&least).err().map_or(String::new(), |breach| breach.what);
    let what = format!(
        "seed {seed}, specs {:?}, ttl {:?}\nas a scenario (replay it with `cargo run -p petri-proptests --bin replay`):\n{{\"version\":1,\"name\":\"…\",\"specs\":{},\"ttlSecs\":{},\"ops\":{ops},\"rests\":\"gone\"}}\n{life}",
        least.specs,
        least.ttl_secs,
        serde_json::to_string(&least.specs).unwrap_or_default(),
        serde_json::to_string(&least.ttl_secs).unwrap_or_default(),
    );
    Breach { law: breach.law, what }
}

/// The high-water mark of the resident set, as the kernel has it.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0)
        / 1024
}

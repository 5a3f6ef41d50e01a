//! The whole proof: `cargo proof`, or a part of it: `cargo proof standard`. Ends with lines `name: value` and fails when any of them is below its floor.

use petri_machines::{component, environment};
use petri_proptests::{
    crash,
    explorer::{Bounds, Found, Report, alone, explore, state::Budget, worlds},
    invariants::History,
    laws::{Breach, require},
    plans,
    sharing::{self, explore},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

/// Half of an exploration is making and dropping small values.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How much is proven.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Profile {
    /// What `cargo verify` has time for.
    Standard,
    /// Everything.
    Whole,
}

impl Profile {
    fn plans(self) -> u64 {
        match self {
            Self::Standard => 2_000,
            Self::Whole => 200_000,
        }
    }

    fn worlds(self) -> Vec<Bounds> {
        match self {
            Self::Standard => worlds::standard(),
            Self::Whole => worlds::all(),
        }
    }

    fn shared_plans(self) -> u64 {
        match self {
            Self::Standard => 1_000,
            Self::Whole => 50_000,
        }
    }

    fn shared_worlds(self) -> Vec<explore::Bounds> {
        match self {
            Self::Standard => explore::standard(),
            Self::Whole => explore::all(),
        }
    }

    /// Below these the proof fails: fewer states or plans prove less, whatever they find.
    fn floors(self) -> [(&'static str, u64); 10] {
        match self {
            Self::Standard => [
                ("states", 40_000),
                ("edges", 300_000),
                ("lives", 300),
                ("plans", 2_000),
                ("laws", 60_000),
                ("shared_states", 70_000),
                ("shared_plans", 1_000),
                ("s5", 500),
                ("s6", 20_000),
                ("s7", 20_000),
            ],
            Self::Whole => [
                ("states", 10_000_000),
                ("edges", 60_000_000),
                ("lives", 10_000),
                ("plans", 200_000),
                ("laws", 300_000),
                ("shared_states", 2_000_000),
                ("shared_plans", 50_000),
                ("s5", 100_000),
                ("s6", 100_000),
                ("s7", 100_000),
            ],
        }
    }
}

/// Each of these must have had something to say.
const EXERCISED: [&str; 16] = [
    "S1: foreign namespaces are never touched",
    "S2: a bound namespace never changes",
    "S3: one live Job per release",
    "S4: deploys follow the levels",
    "S4: undeploys go in reverse",
    "S8: an outcome counts only for its Job",
    "S8: what is waited for is the newest attempt's",
    "S10: nothing goes unasked",
    "S11: a write changes something",
    "S12: a Job is charged once",
    "Terminating leaves only to gone",
    "nothing is left when it is gone",
    "a running Helm is ended only for a deletion",
    "no cycle ends in a bug",
    "all laws of an environment, at a sight",
    "all laws of a component, at a step",
];

const USAGE: &str = "cargo proof                                         the whole
cargo proof standard                                what `cargo verify` has time for
cargo proof plans FROM TO                           the plans of these seeds
cargo proof world SPECS SPECS,FAULTS,RETRIES [TTL]  one world; `|` parts its specifications, as in `a:1; b:1<-a|a:2`
cargo proof shared SHARED,CAPACITY,ENVIRONMENTS,FAULTS,MISHAPS,DELETIONS [warm] [idles] [freezes]
                                                    one world of shared components; 255 is any number";

/// Lives the plans of a range of seeds.
fn some_plans(words: &[String]) -> Option<Result<(), Breach>> {
    let [from, to] = words else { return None };
    let (plans, started) = (from.parse().ok()?..to.parse().ok()?, Instant::now());
    Some(lives(plans.clone()).map(|laws| {
        laws.iter().for_each(|(law, count)| println!("law {law:?}: {count}"));
        println!("plans: {} in {} s", plans.end.saturating_sub(plans.start), started.elapsed().as_secs());
    }))
}

/// Explores one world, as it is asked for on the command line.
fn one_world(words: &[String]) -> Option<Result<(), Breach>> {
    let [specs, budget, ttl @ ..] = words else { return None };
    let mut counts = budget.split(',').map(|count| count.parse::<u8>().ok());
    let mut next = || counts.next().flatten();
    let budget = Budget { specs: next()?, faults: next()?, retries: next()? };
    let specs = specs.split('|').map(|spec| spec.trim().to_owned()).collect();
    let ttl_secs = ttl.first().and_then(|ttl| ttl.parse().ok());
    let bounds = Bounds { specs, ttl_secs, budget, draws: false, states_max: worlds::STATES_MAX };
    Some(explore(&bounds).map(|report| told(&bounds, &report)))
}

/// Explores one world of shared components.
fn one_shared_world(words: &[String]) -> Option<Result<(), Breach>> {
    let [sizes, more @ ..] = words else { return None };
    let mut sizes = sizes.split(',').map(|count| count.parse::<u8>().ok());
    let mut next = || sizes.next().flatten();
    let bounds = explore::Bounds {
        shared: next()?.into(),
        capacity: next()?.into(),
        environments: next()?.into(),
        budget: explore::Budget { faults: next()?, mishaps: next()?, deletions: next()? },
        warm: more.iter().any(|word| word == "warm"),
        idles: more.iter().any(|word| word == "idles"),
        freezes: more.iter().any(|word| word == "freezes"),
        ..explore::LEAST
    };
    Some(shared_world(&bounds).map(drop))
}

/// Explores a world of shared components, and tells of it.
fn shared_world(bounds: &explore::Bounds) -> Result<explore::Report, Breach> {
    let began = Instant::now();
    let report = explore::explore(bounds)?;
    let secs = began.elapsed().as_secs_f64();
    let explore::Report { states, edges, decisions, .. } = report;
    println!(
        "explored shared {states} states, {edges} edges, {decisions} decisions in {secs:.1} s: {bounds:?}"
    );
    Ok(report)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let profile = match words.first().map(String::as_str) {
        None => Profile::Whole,
        Some("standard") => Profile::Standard,
        Some(part) => {
            let done = match part {
                "world" => one_world(&words[1..]),
                "plans" => some_plans(&words[1..]),
                "shared" => one_shared_world(&words[1..]),
                _ => None,
            };
            return match done {
                Some(Ok(())) => ExitCode::SUCCESS,
                Some(Err(breach)) => {
                    eprintln!("{breach}");
                    ExitCode::FAILURE
                }
                None => {
                    eprintln!("{USAGE}");
                    ExitCode::from(2)
                }
            };
        }
    };
    let started = Instant::now();
    println!("options: plans {0}, seeds 0..{0}", profile.plans());
    match prove(profile) {
        Ok((values, laws)) => report_values(profile, values, &laws, started),
        Err(breach) => {
            eprintln!("{breach}");
            ExitCode::FAILURE
        }
    }
}

fn report_values(profile: Profile, mut values: Values, laws: &Values, started: Instant) -> ExitCode {
    for (law, count) in laws {
        println!("law {law:?}: {count}");
    }
    values.insert("seconds", started.elapsed().as_secs());
    values.insert("peak_mib", peak_mib());
    for (name, value) in &values {
        println!("{name}: {value}");
    }
    let mut low: Vec<String> = Vec::new();
    for (name, floor) in profile.floors() {
        if values.get(name).is_none_or(|value| *value < floor) {
            low.push(format!("{name} is below {floor}"));
        }
    }
    for law in EXERCISED {
        if laws.get(law).is_none_or(|count| *count == 0) {
            low.push(format!("{law:?} never had anything to say"));
        }
    }
    low.iter().for_each(|line| eprintln!("{line}"));
    ExitCode::from(u8::from(!low.is_empty()))
}

type Values = BTreeMap<&'static str, u64>;

fn same(law: &'static str, taken: &BTreeSet<(&str, &str)>, declared: &[(&str, &str)]) -> Result<(), Breach> {
    let declared = declared.iter().copied().collect();
    if *taken == declared {
        return Ok(());
    }
    Err(Breach { law, what: format!("taken {taken:?}, declared {declared:?}") })
}

fn prove(profile: Profile) -> Result<(Values, Values), Breach> {
    let (mut values, found) = explored(profile)?;
    same("edges of the environment", &found.moves, environment::EDGES)?;
    let odd = found.child_moves.iter().find(|edge| !component::EDGES.contains(edge));
    require("edges of the component", odd.is_none(), || format!("{odd:?} is not declared"))?;
    let alone = alone::explore()?;
    same("edges of the component alone", &alone.moves, component::EDGES)?;
    println!("explored the component alone: {} records, {} steps", alone.records, alone.steps);
    let chain = ["a:1; b:1<-a", "a:2; b:1<-a"];
    let diamonds = ["a:1; b:1<-a; c:1<-a; d:1<-b c", "a:2; b:1<-a; c:2<-a; d:1<-b c"];
    let mut lives = crash::everywhere(&diamonds)? + crash::everywhere(&["a:1; b:1", "a:2; b:1<-a"])?;
    if profile == Profile::Whole {
        lives += crash::pairs(&chain)?;
    }
    values.insert("lives", lives as u64);
    let mut laws: Values = found.counts;
    laws.insert("all laws of an environment, at a sight", found.laws);
    laws.insert("all laws of a component, at a step", alone.steps as u64);
    values.insert("laws", found.laws + alone.steps as u64);
    for (law, count) in self::lives(0..profile.plans())? {
        *laws.entry(law).or_default() += count;
    }
    values.insert("plans", profile.plans());
    values.extend(shared(profile)?);
    Ok((values, laws))
}

fn told(bounds: &Bounds, report: &Report) {
    let rate = report.states as f64 / report.core_secs.max(0.001);
    println!(
        "explored {} states, {} edges, {} decisions in {:.1} s of a core, {rate:.0} states/s: {:?}, {:?}, {:?}",
        report.states,
        report.edges,
        report.decisions,
        report.core_secs,
        bounds.specs,
        bounds.ttl_secs,
        bounds.budget
    );
}

/// Explores the worlds of shared components, and lives plans of them.
fn shared(profile: Profile) -> Result<Values, Breach> {
    let all = Mutex::new((Values::new(), sharing::Counts::default()));
    on_all_cores(profile.shared_worlds(), |bounds| {
        let report = shared_world(&bounds)?;
        let (values, counts) = &mut *all.lock().unwrap_or_else(PoisonError::into_inner);
        *values.entry("shared_states").or_default() += report.states as u64;
        *values.entry("shared_edges").or_default() += report.edges as u64;
        counts.add(&report.counts);
        Ok(())
    })?;
    let (mut values, mut counts) = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    counts.add(&sharing::live_all(0..profile.shared_plans())?);
    values.insert("shared_plans", profile.shared_plans());
    values.extend([("s5", counts.s5), ("s6", counts.s6), ("s7", counts.s7)]);
    Ok(values)
}

/// Explores the worlds, as many at once as there are cores.
fn explored(profile: Profile) -> Result<(Values, Found), Breach> {
    let all = Mutex::new((Values::new(), Found::default()));
    on_all_cores(profile.worlds(), |bounds| {
        let report = explore(&bounds)?;
        told(&bounds, &report);
        let (values, found) = &mut *all.lock().unwrap_or_else(PoisonError::into_inner);
        *values.entry("states").or_default() += report.states as u64;
        *values.entry("edges").or_default() += report.edges as u64;
        found.merge(report.found);
        Ok(())
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Does the last of the list first: the largest are there, and none is to be begun when all others have ended.
fn on_all_cores<B: Send>(list: Vec<B>, work: impl Fn(B) -> Result<(), Breach> + Sync) -> Result<(), Breach> {
    let left = Mutex::new(list);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    let works = || -> Result<(), Breach> {
        while let Some(one) = next() {
            work(one)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(works)).collect();
        running.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| panic!("exploring panicked")))
    })
}

/// Lives the plans on all cores; the first failure is cut down and printed as the scenario to keep.
fn lives(plans: Range<u64>) -> Result<Values, Breach> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let share = |core: u64| {
        let mut counts = Values::new();
        for seed in (plans.start + core..plans.end).step_by(usize::try_from(cores).unwrap_or(1)) {
            let plan = plans::draw(seed);
            match plans::check(&plan) {
                Ok(dish) => add(&mut counts, &dish.history),
                Err(breach) => return Err(report(seed, &plan, &breach)),
            }
        }
        Ok(counts)
    };
    thread::scope(|scope| {
        let share = &share;
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

//! The dish of shared components: environments that race for places, in a simulated cluster in which the shipped loop
//! runs one ask at a time, is crashed between any two, and frozen anywhere.
//!
//! A plan is drawn from a seed; a failure names it, with all that happened.

pub mod alone;
mod apply;
pub mod cluster;
pub mod explore;
mod observe;
mod oracle;
mod pass;
mod state;

pub use oracle::Counts;

use crate::laws::{Breach, Verdict, require};
use cluster::{Cluster, Environment, Shared};

use pass::{EnvironmentPass, Next, SharedPass, lost};
use petri_machines::{
    environment::{Plan, SharedBlueprint},
    kernel::cycle::Ask,
    names::{ComponentName, Digest, EnvironmentName, JobName, SharedName},
};
use std::{collections::BTreeMap, ops::Range, thread};

/// Of so many answers one is examined by all laws.
const LAWS_EVERY: u64 = 7;

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Environment(EnvironmentName),
    Shared(SharedName),
}

/// What a plan draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Shared components.
    pub shared: usize,
    /// Places at each.
    pub capacity: u32,
    /// Environments.
    pub environments: usize,
    /// Things that happen before the faults end.
    pub steps: usize,
    /// Per mille of asks that end in a crash.
    pub crashes: u64,
    /// Per cent of Jobs that fail.
    pub failures: u64,
}

/// A life in the dish.
pub struct Dish {
    cluster: Cluster,
    running: BTreeMap<Key, Running>,
    frozen: Vec<(Key, Running)>,
    random: Random,
    options: Options,
    faulty: bool,
    looks: u64,
    /// How often each invariant was asked.
    pub counts: Counts,
    /// What happened, for people.
    pub log: Vec<String>,
}

enum Running {
    Environment(Box<EnvironmentPass>),
    Shared(Box<SharedPass>),
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        self.next() % 1000 < per_mille
    }
}

/// Draws the options of a seed and lives the plan to its end.
///
/// # Errors
/// The law or invariant that was broken, with the seed, every option and the whole life.
pub fn live(seed: u64) -> Result<Counts, Breach> {
    let mut random = Random(seed);
    let options = Options {
        shared: 1 + random.below(2),
        capacity: u32::try_from(random.below(3)).unwrap_or(0),
        environments: 2 + random.below(3),
        steps: 100 + random.below(400),
        crashes: [0, 5, 30][random.below(3)],
        failures: [0, 20, 60][random.below(3)],
    };
    let mut dish = Dish::new(options, random);
    match dish.through() {
        Ok(()) => Ok(dish.counts),
        Err(breach) => {
            let what = format!("seed {seed}, {options:?}\n{}\n{}", dish.log.join("\n"), breach.what);
            Err(Breach { what, ..breach })
        }
    }
}

/// Lives the plans of many seeds on all cores.
///
/// # Errors
/// As for [`live`]; of several the first by core.
///
/// # Panics
/// A plan panicked.
pub fn live_all(seeds: Range<u64>) -> Result<Counts, Breach> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = |core: usize| {
        let mut counts = Counts::default();
        for seed in seeds.clone().skip(core).step_by(cores) {
            counts.add(&live(seed)?);
        }
        Ok(counts)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..cores).map(|core| scope.spawn(move || share(core))).collect();
        let mut all = Counts::default();
        for one in running {
            all.add(&one.join().unwrap_or_else(|_| panic!("a plan panicked"))?);
        }
        Ok(all)
    })
}

impl Dish {
    fn new(options: Options, random: Random) -> Self {
        let mut cluster = Cluster::default();
        for n in 0..options.shared {
            let name = SharedName::new(format!("pg{n}")).unwrap_or_else(|_| unreachable!("not empty"));
            let uid = cluster.fresh("shared", name.as_str());
            cluster.shared.insert(name, Shared::new(uid, options.capacity, [None, Some(60)][n % 2]));
        }
        let mut dish = Self {
            cluster,
            running: BTreeMap::new(),
            frozen: Vec::new(),
            random,
            options,
            faulty: true,
            looks: 0,
            counts: Counts::default(),
            log: Vec::new(),
        };
        (0..options.environments).for_each(|n| dish.create(n));
        dish
    }

    fn create(&mut self, n: usize) {
        let name = EnvironmentName::new(format!("env{n}")).unwrap_or_else(|_| unreachable!("not empty"));
        let uid = self.cluster.fresh("environment", name.as_str());
        let plan = self.plan();
        let own = Environment::new(uid, plan);
        self.log.push(format!("{:>6}s create {name} with {:?}", self.cluster.now, own.plan.slices));
        self.cluster.environments.insert(name, own);
    }

    /// One slice of each of some shared components, of one of two payloads.
    fn plan(&mut self) -> Plan {
        let mut all = Vec::new();
        for n in 0..self.options.shared {
            if n > 0 && self.random.chance(400) {
                continue;
            }
            let version = ["v1", "v2"][self.random.below(2)];
            all.push(SharedBlueprint {
                name: ComponentName::new(["db", "cache"][n % 2]).unwrap_or_else(|_| unreachable!("a label")),
                depends_on: Vec::new(),
                shared: SharedName::new(format!("pg{n}")).unwrap_or_else(|_| unreachable!("not empty")),
                payload: Some(Digest::of(&[version])),
                provisions: true,
            });
        }
        Plan::with_shared(&[], &all).unwrap_or_else(|_| unreachable!("no dependencies"))
    }

    fn through(&mut self) -> Verdict {
        for _ in 0..self.options.steps {
            match self.random.below(100) {
                0..=59 => self.ask()?,
                60..=79 => self.nature()?,
                80..=84 => self.user(),
                85..=92 => self.cluster.now += [1, 5, 30, 300][self.random.below(4)],
                _ => self.thaw()?,
            }
        }
        self.faulty = false;
        self.frozen.clear();
        self.settle()?;
        oracle::rests(&self.cluster)?;
        self.cluster.environments.retain(|_, own| own.finalizer);
        for own in self.cluster.environments.values_mut() {
            own.deletion = true;
            own.version += 1;
        }
        self.cluster.shared.retain(|_, own| own.finalizer);
        for own in self.cluster.shared.values_mut() {
            own.deletion = true;
            own.version += 1;
        }
        self.log.push("all is deleted in one command".to_owned());
        self.settle()?;
        self.forget();
        self.settle()?;
        oracle::gone(&self.cluster)
    }

    /// A person lets go all that was given up.
    fn forget(&mut self) {
        for _ in 0..8 {
            for own in self.cluster.shared.values_mut() {
                let next = own.roster.abandoned.first().map(|one| one.uid.clone());
                if own.forget != next {
                    self.cluster.forgotten.extend(next.clone());
                    own.forget = next;
                    own.version += 1;
                }
            }
            if self.settle().is_err() {
                return;
            }
        }
    }

    fn settle(&mut self) -> Verdict {
        const ROUNDS_MAX: usize = 3_000;
        for _ in 0..ROUNDS_MAX {
            let before = self.cluster.clone();
            self.round()?;
            if before != self.cluster {
                continue;
            }
            // Nothing happened: is there anything that time brings?
            self.cluster.now += 400;
            let before = self.cluster.clone();
            self.round()?;
            if before == self.cluster {
                return Ok(());
            }
        }
        require("converges", false, || format!("not within {ROUNDS_MAX} rounds"))
    }

    fn round(&mut self) -> Verdict {
        for key in self.keys() {
            self.cycle(&key)?;
        }
        while self.proceed()? {}
        Ok(())
    }

    fn keys(&self) -> Vec<Key> {
        let environments = self.cluster.environments.keys().cloned().map(Key::Environment);
        environments.chain(self.cluster.shared.keys().cloned().map(Key::Shared)).collect()
    }

    /// Runs a whole pass over one object.
    fn cycle(&mut self, key: &Key) -> Verdict {
        self.answer(key)?;
        while self.running.contains_key(key) {
            self.answer(key)?;
        }
        Ok(())
    }

    /// Answers one ask of some object; sometimes it is the last, and sometimes its answer comes much later.
    fn ask(&mut self) -> Verdict {
        let keys = self.keys();
        if keys.is_empty() {
            return Ok(());
        }
        let key = keys[self.random.below(keys.len())].clone();
        if self.random.chance(self.options.crashes) {
            self.log.push("the operator dies".to_owned());
            self.running.clear();
            self.frozen.clear();
        }
        if self.random.chance(20)
            && let Some(pass) = self.running.remove(&key)
        {
            self.frozen.push((key, pass));
            return Ok(());
        }
        self.answer(&key)
    }

    /// A frozen operator goes on. What its Lease does not stop is stopped by the version of what it read.
    fn thaw(&mut self) -> Verdict {
        let Some((key, pass)) = self.frozen.pop() else { return Ok(()) };
        let fenced = match &pass {
            Running::Environment(pass) => pass.is_fenced(),
            Running::Shared(pass) => pass.is_fenced(),
        };
        if fenced {
            let beside = self.running.insert(key.clone(), pass);
            self.answer(&key)?;
            self.running.remove(&key);
            if let Some(beside) = beside {
                self.running.insert(key, beside);
            }
        }
        Ok(())
    }

    fn answer(&mut self, key: &Key) -> Verdict {
        let writes = match self.running.get(key) {
            Some(Running::Environment(pass)) => matches!(pass.ask, Ask::Store { .. } | Ask::Apply(_)),
            Some(Running::Shared(pass)) => matches!(pass.ask, Ask::Store { .. } | Ask::Apply(_)),
            None => false,
        };
        let before = writes.then(|| self.cluster.clone());
        let what = match key {
            Key::Environment(name) => self.answer_environment(name)?,
            Key::Shared(name) => self.answer_shared(name)?,
        };
        if let Some(what) = what {
            self.log.push(format!("{:>6}s {key:?} {what}", self.cluster.now));
        }
        before.map_or(Ok(()), |before| oracle::witness(&before, &self.cluster, &mut self.counts))
    }

    /// Whether the laws are asked of this look: their own tests ask them of any record and any world.
    fn asks_laws(&mut self) -> bool {
        self.looks += 1;
        self.looks.is_multiple_of(LAWS_EVERY)
    }

    fn answer_environment(&mut self, name: &EnvironmentName) -> Result<Option<String>, Breach> {
        let key = Key::Environment(name.clone());
        let mut pass = match self.running.remove(&key) {
            Some(Running::Environment(pass)) => pass,
            Some(Running::Shared(_)) | None => Box::new(EnvironmentPass::begin()?),
        };
        let blind = self.faulty && self.random.chance(30);
        let is_lost = self.faulty && self.random.chance(self.options.crashes);
        if let Ask::Apply(command) = &pass.ask {
            self.counts.asked(command);
        }
        let (answer, what) = pass.answer(&mut self.cluster, name, blind)?;
        if self.asks_laws() {
            pass.laws(&answer)?;
        }
        let answer = if is_lost { lost(answer) } else { answer };
        if pass.go_on(answer)? == Next::Asks {
            self.running.insert(key, Running::Environment(pass));
        }
        Ok(what)
    }

    fn answer_shared(&mut self, name: &SharedName) -> Result<Option<String>, Breach> {
        let key = Key::Shared(name.clone());
        let mut pass = match self.running.remove(&key) {
            Some(Running::Shared(pass)) => pass,
            Some(Running::Environment(_)) | None => Box::new(SharedPass::begin()?),
        };
        let blind = self.faulty && self.random.chance(30);
        let (answer, what) = pass.answer(&mut self.cluster, name, blind)?;
        if self.asks_laws() {
            pass.laws(&answer)?;
        }
        if pass.go_on(answer)? == Next::Asks {
            self.running.insert(key, Running::Shared(pass));
        }
        Ok(what)
    }

    /// One Job proceeds.
    fn nature(&mut self) -> Verdict {
        let names: Vec<JobName> = self.cluster.jobs.keys().cloned().collect();
        if names.is_empty() {
            return Ok(());
        }
        let name = names[self.random.below(names.len())].clone();
        let fails = self.random.chance(self.options.failures * 10);
        self.job(&name, fails)
    }

    /// Everything proceeds once, in peace. Returns whether anything did.
    fn proceed(&mut self) -> Result<bool, Breach> {
        let names: Vec<JobName> = self
            .cluster
            .jobs
            .iter()
            .filter(|(_, job)| job.ended.is_none() || job.deleting)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &names {
            self.job(name, false)?;
        }
        Ok(!names.is_empty())
    }

    fn job(&mut self, name: &JobName, fails: bool) -> Verdict {
        let before = self.cluster.clone();
        let Some(job) = self.cluster.jobs.get_mut(name) else { return Ok(()) };
        if job.deleting {
            self.cluster.jobs.remove(name);
        } else if job.ended.is_none() {
            job.ended = Some(!fails);
            let job = job.clone();
            self.log.push(format!("{:>6}s {name} ended, fails: {fails}", self.cluster.now));
            self.cluster.effect(&job, fails);
        }
        oracle::witness(&before, &self.cluster, &mut self.counts)
    }

    fn user(&mut self) {
        let names: Vec<EnvironmentName> = self.cluster.environments.keys().cloned().collect();
        let shareds: Vec<SharedName> = self.cluster.shared.keys().cloned().collect();
        match self.random.below(8) {
            0..=2 if !names.is_empty() => {
                let name = &names[self.random.below(names.len())];
                self.log.push(format!("{:>6}s delete {name}", self.cluster.now));
                if let Some(own) = self.cluster.environments.get_mut(name) {
                    own.deletion = true;
                    own.version += 1;
                    if !own.finalizer {
                        self.cluster.environments.remove(name);
                    }
                }
            }
            3 | 4 => {
                let n = self.random.below(6);
                let name = EnvironmentName::new(format!("env{n}"));
                if name.is_ok_and(|name| !self.cluster.environments.contains_key(&name)) {
                    self.create(n);
                }
            }
            5 if !names.is_empty() => {
                let name = &names[self.random.below(names.len())];
                let plan = self.plan();
                self.log.push(format!("{:>6}s {name} asks for {:?}", self.cluster.now, plan.slices));
                if let Some(own) = self.cluster.environments.get_mut(name) {
                    own.plan = plan;
                    own.version += 1;
                }
            }
            6 if !names.is_empty() => {
                let name = &names[self.random.below(names.len())];
                self.log.push(format!("{:>6}s {name} loses its record", self.cluster.now));
                if let Some(own) = self.cluster.environments.get_mut(name) {
                    (own.record, own.status) = (None, None);
                    own.version += 1;
                }
            }
            _ if !shareds.is_empty() => {
                let name = &shareds[self.random.below(shareds.len())];
                let capacity = u32::try_from(self.random.below(3)).unwrap_or(0);
                self.log.push(format!("{:>6}s {name} has {capacity} places", self.cluster.now));
                if let Some(own) = self.cluster.shared.get_mut(name) {
                    own.capacity = capacity;
                    own.version += 1;
                }
            }
            _ => {}
        }
    }
}

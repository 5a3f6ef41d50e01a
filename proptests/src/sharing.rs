//! The dish of shared components: environments that race for places, in a simulated cluster in which the shipped loop
//! runs one ask at a time, is crashed between any two, and frozen anywhere.
//!
//! A plan is drawn from a seed; a failure names it, with all that happened.

mod apply;
pub mod cluster;
mod observe;
mod oracle;

pub use oracle::Counts;

use crate::laws::{self, Breach, Verdict, require};
use cluster::{Cluster, Environment, Shared};

use petri_machines::{
    environment::{self, Plan, SharedBlueprint},
    job::Op,
    kernel::{
        Machine,
        cycle::{Answer, Ask, Cycle, Done, Refusal, Stored},
        dialogue::Turn,
    },
    names::{ComponentName, Digest, EnvironmentName, JobName, SharedName},
    shared,
};
use std::collections::BTreeMap;

/// One pass over one object, held between two asks.
#[derive(Clone, Debug)]
struct Pass<M: Machine, O> {
    cycle: Cycle<M>,
    ask: Ask<M>,
    read: Option<O>,
}

type EnvironmentPass = Pass<environment::Environment, Environment>;
type SharedPass = Pass<shared::Shared, Shared>;

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

impl Dish {
    fn new(options: Options, random: Random) -> Self {
        let mut cluster = Cluster::default();
        for n in 0..options.shared {
            let name = SharedName::new(format!("pg{n}")).unwrap_or_else(|_| unreachable!("not empty"));
            let uid = cluster.fresh("shared");
            let idle_secs = [None, Some(60)][n % 2];
            cluster.shared.insert(
                name,
                Shared {
                    uid,
                    version: 1,
                    capacity: options.capacity,
                    idle_secs,
                    finalizer: false,
                    deletion: false,
                    forget: None,
                    record: None,
                    status: None,
                    roster: Default::default(),
                    release: None,
                },
            );
        }
        let mut dish = Self {
            cluster,
            running: BTreeMap::new(),
            frozen: Vec::new(),
            random,
            options,
            faulty: true,
            counts: Counts::default(),
            log: Vec::new(),
        };
        (0..options.environments).for_each(|n| dish.create(n));
        dish
    }

    fn create(&mut self, n: usize) {
        let name = EnvironmentName::new(format!("env{n}")).unwrap_or_else(|_| unreachable!("not empty"));
        let uid = self.cluster.fresh("environment");
        let plan = self.plan();
        let own = Environment {
            uid,
            version: 1,
            plan,
            finalizer: false,
            deletion: false,
            retry: None,
            record: None,
            status: None,
            space: None,
            bindings: Default::default(),
        };
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
            Running::Environment(pass) => match &pass.ask {
                Ask::Store { .. } => true,
                Ask::Apply(environment::Command::Share(share)) => {
                    matches!(share, environment::Sharing::Register { .. })
                }
                Ask::Apply(environment::Command::Cleanup(environment::Cleanup::Unshare(unshare))) => {
                    matches!(
                        unshare,
                        environment::Unsharing::Release { .. } | environment::Unsharing::Abandon { .. }
                    )
                }
                _ => false,
            },
            Running::Shared(pass) => matches!(pass.ask, Ask::Store { .. }),
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
        let before = self.cluster.clone();
        let what = match key {
            Key::Environment(name) => self.answer_environment(name)?,
            Key::Shared(name) => self.answer_shared(name)?,
        };
        if let Some(what) = what {
            self.log.push(format!("{:>6}s {key:?} {what}", self.cluster.now));
        }
        oracle::witness(&before, &self.cluster, &mut self.counts)
    }

    fn answer_environment(&mut self, name: &EnvironmentName) -> Result<Option<String>, Breach> {
        let key = Key::Environment(name.clone());
        let mut pass = match self.running.remove(&key) {
            Some(Running::Environment(pass)) => pass,
            Some(Running::Shared(_)) | None => Box::new(begin()?),
        };
        let blind = self.faulty && self.random.chance(30);
        let lost = self.faulty && self.random.chance(self.options.crashes);
        let mut what = None;
        let answer = match pass.ask.clone() {
            Ask::Read => {
                pass.read = self.cluster.environments.get(name).cloned();
                Answer::Own(pass.read.as_ref().map(|own| Stored {
                    phase: own.record.clone().unwrap_or_default(),
                    status: own.status.clone(),
                    version: u32::from(own.record.is_some()),
                }))
            }
            Ask::Observe(record) => {
                let Some(own) = &pass.read else { return out_of_turn() };
                let world = observe::environment(&self.cluster, name, own, &record, blind);
                laws::environment::all(&record, &world)?;
                Answer::World(world)
            }
            Ask::Store { phase, status } => {
                let Some(read) = &mut pass.read else { return out_of_turn() };
                let told = format!("stores {} {:?}", phase.phase.name(), phases(&phase));
                let stored = apply::store_environment(&mut self.cluster, name, read, phase, status);
                what = Some(format!("{told}: {stored:?}"));
                Answer::Stored(if lost { Err(Refusal::Retry) } else { stored })
            }
            Ask::Apply(command) => {
                let Some(read) = &mut pass.read else { return out_of_turn() };
                self.counts.asked(&command, &self.cluster);
                let done = apply::environment(&mut self.cluster, name, read, &command);
                what = Some(format!("{command:?}: {done:?}"));
                Answer::Applied(if lost { Err(Refusal::Backoff) } else { done.map(drop) })
            }
            Ask::Notify(_) => Answer::Notified,
        };
        if let Some(ask) = go_on(&mut pass.cycle, answer)? {
            pass.ask = ask;
            self.running.insert(key, Running::Environment(pass));
        }
        Ok(what)
    }

    fn answer_shared(&mut self, name: &SharedName) -> Result<Option<String>, Breach> {
        let key = Key::Shared(name.clone());
        let mut pass = match self.running.remove(&key) {
            Some(Running::Shared(pass)) => pass,
            Some(Running::Environment(_)) | None => Box::new(begin()?),
        };
        let blind = self.faulty && self.random.chance(30);
        let mut what = None;
        let answer = match pass.ask.clone() {
            Ask::Read => {
                pass.read = self.cluster.shared.get(name).cloned();
                Answer::Own(pass.read.as_ref().map(|own| {
                    Stored {
                        phase: own.record.clone().unwrap_or_default(),
                        status: own
                            .status
                            .clone()
                            .map(|status| shared::Status { roster: own.roster.clone(), ..status }),
                        version: u32::from(own.record.is_some()),
                    }
                }))
            }
            Ask::Observe(record) => {
                let Some(own) = &pass.read else { return out_of_turn() };
                let world = observe::shared(&self.cluster, name, own, &record, blind);
                laws::shared::all(&record, &world)?;
                Answer::World(world)
            }
            Ask::Store { phase, status } => {
                let Some(read) = &mut pass.read else { return out_of_turn() };
                let told = format!("stores {:?}", phase.phase);
                let stored = apply::store_shared(&mut self.cluster, name, read, phase, status);
                what = Some(format!("{told}: {stored:?}"));
                Answer::Stored(stored)
            }
            Ask::Apply(command) => {
                let Some(read) = &mut pass.read else { return out_of_turn() };
                let done = apply::shared(&mut self.cluster, name, read, &command);
                what = Some(format!("{command:?}: {done:?}"));
                Answer::Applied(done.map(drop))
            }
            Ask::Notify(_) => Answer::Notified,
        };
        if let Some(ask) = go_on(&mut pass.cycle, answer)? {
            pass.ask = ask;
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
            self.effect(&job, fails);
        }
        oracle::witness(&before, &self.cluster, &mut self.counts)
    }

    /// A Job that fails may have done its work, or half of it: what it made stands.
    fn effect(&mut self, job: &cluster::Job, fails: bool) {
        let id = (job.owner.clone(), job.component.clone());
        match job.op {
            Op::Provision => {
                if let Some(owed) = self.cluster.obligations.get(&id) {
                    self.cluster.slices.insert((owed.shared.clone(), id), owed.generated);
                }
            }
            Op::Deprovision => {
                if !fails {
                    self.cluster.slices.retain(|(_, one), _| *one != id);
                }
            }
            Op::Deploy | Op::Undeploy => {
                let release = (job.op == Op::Deploy && !fails).then_some(job.serial);
                for own in self.cluster.shared.values_mut().filter(|own| own.uid == job.owner) {
                    own.release = release;
                }
            }
        }
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

fn phases(record: &environment::Record) -> Vec<String> {
    let one = |(name, slice): (&ComponentName, &petri_machines::slice::Record)| {
        format!("{name}: {}", slice.phase.name())
    };
    record.memory.slices.iter().map(one).collect()
}

fn begin<M: Machine, O>() -> Result<Pass<M, O>, Breach> {
    let mut cycle = Cycle::default();
    match cycle.advance(None) {
        Turn::Ask(ask) => Ok(Pass { cycle, ask, read: None }),
        Turn::Sleep { .. } | Turn::Done(_) => out_of_turn(),
    }
}

fn out_of_turn<T>() -> Result<T, Breach> {
    Err(Breach { law: "answers in turn", what: "an ask out of turn".to_owned() })
}

fn go_on<M: Machine>(cycle: &mut Cycle<M>, answer: Answer<M>) -> Result<Option<Ask<M>>, Breach> {
    match cycle.advance(Some(answer)) {
        Turn::Ask(ask) => Ok(Some(ask)),
        Turn::Done(Done::Bug(what)) => Err(Breach { law: "has no bug", what }),
        Turn::Done(Done::OutOfTurn) => out_of_turn(),
        Turn::Sleep { .. } | Turn::Done(_) => Ok(None),
    }
}

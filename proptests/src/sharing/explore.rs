//! The explorer of shared components: every state of a bounded world, until there is no new one.
//!
//! Environments each use every shared component. From every state the operator may pass over each object, seeing
//! everything or nothing of what is shared, and die after any of its writes, or freeze before a write of a list of
//! consumers and make it much later; Jobs end well or, as often as the bounds allow, badly; everything may be deleted at
//! any time, and time goes by. At the end the frontier is empty, what rests is settled, and in peace nothing goes round
//! in a circle.
//!
//! What an environment does alone, in a namespace of its own, is no part of this: it is taken in one go here, and step
//! by step in [`crate::explorer`].

use super::{
    cluster::{Cluster, Environment, Shared},
    oracle::{self, Counts},
    pass::{EnvironmentPass, Next, SharedPass, is_listed},
    state::{BASE, Codec, Frozen, MEMBERS, State},
};
use crate::{
    explorer::graph::Rows,
    laws::{Breach, require},
};
use petri_machines::{
    environment::{self, Command, Plan, SharedBlueprint, Sharing, Unsharing},
    kernel::cycle::Ask,
    names::{ComponentName, Digest, EnvironmentName, JobName, SharedName},
};
use rustc_hash::FxHashMap;
use std::{
    collections::HashSet,
    fmt::{self, Debug, Write as _},
    hash::{DefaultHasher, Hasher as _},
};

/// A bounded world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Shared components.
    pub shared: usize,
    /// Places at each.
    pub capacity: u32,
    /// Environments.
    pub environments: usize,
    /// Whether unused workloads go.
    pub idles: bool,
    /// Jobs that may fail.
    pub faults: u8,
    /// Whether operators freeze.
    pub freezes: bool,
    /// States after which exploring gives up: that is a failure, not a result.
    pub states_max: usize,
}

/// The smallest world: one shared component with one place, and one environment.
pub const LEAST: Bounds = Bounds {
    shared: 1,
    capacity: 1,
    environments: 1,
    idles: false,
    faults: 0,
    freezes: false,
    states_max: 8_000_000,
};

/// The worlds that take some seconds.
pub fn standard() -> Vec<Bounds> {
    vec![LEAST, Bounds { idles: true, ..LEAST }, Bounds { faults: 1, ..LEAST }]
}

/// All worlds: two shared components, two environments, one place and two.
pub fn all() -> Vec<Bounds> {
    let mut all = standard();
    all.extend([
        Bounds { freezes: true, ..LEAST },
        Bounds { shared: 2, ..LEAST },
        Bounds { environments: 2, ..LEAST },
        Bounds { environments: 2, freezes: true, ..LEAST },
        Bounds { environments: 2, capacity: 2, ..LEAST },
        Bounds { shared: 2, environments: 2, ..LEAST },
        Bounds { shared: 2, environments: 2, capacity: 2, ..LEAST },
    ]);
    all
}

/// What exploring came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Edges.
    pub edges: usize,
    /// Sights of which all laws were asked.
    pub laws: usize,
    /// How often each invariant was asked.
    pub counts: Counts,
}

/// An edge that is taken in peace leads on; the others are what may happen besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Maker {
    Peace,
    User,
    Fault,
}

/// An edge: who made it, what happened, where it leads.
type Edge = (Maker, String, State);

/// A key of what is passed over.
#[derive(Clone, Debug)]
enum Key {
    Environment(EnvironmentName),
    Shared(SharedName),
}

struct Explorer {
    codec: Codec,
    numbers: FxHashMap<State, u32>,
    states: Vec<State>,
    from: Vec<(u32, Box<str>)>,
    asked: HashSet<u64>,
    freezes: bool,
    report: Report,
}

/// Explores a world to closure and checks the graph.
///
/// # Errors
/// The first breach, with the path to it.
pub fn explore(bounds: &Bounds) -> Result<Report, Breach> {
    let mut explorer = Explorer {
        codec: Codec::default(),
        numbers: FxHashMap::default(),
        states: Vec::new(),
        from: Vec::new(),
        asked: HashSet::new(),
        freezes: bounds.freezes,
        report: Report::default(),
    };
    let first = explorer.codec.state(beginning(bounds), None, bounds.faults);
    explorer.number(first, u32::MAX, "");
    let (mut rows, mut at) = (Rows::default(), 0);
    while let Some(state) = explorer.states.get(at).copied() {
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        let edges = explorer.out_of(&state).map_err(|breach| explorer.with_path(number, breach))?;
        explorer.report.edges += edges.len();
        let mut peace = Vec::new();
        for (maker, what, to) in edges {
            let to = explorer.number(to, number, &what);
            if to != number && maker == Maker::Peace {
                peace.push(to);
            }
        }
        if peace.is_empty() {
            let (cluster, _) = explorer.codec.cluster(&state);
            oracle::rests(&cluster).map_err(|breach| explorer.with_path(number, breach))?;
        }
        rows.push(true, peace);
        require("closure", explorer.states.len() <= bounds.states_max, || {
            format!("more than {} states, {} unexplored", bounds.states_max, explorer.states.len() - at)
        })?;
        at += 1;
    }
    rows.check().map_err(|(at, breach)| explorer.with_path(at, breach))?;
    explorer.report.states = explorer.states.len();
    explorer.report.laws = explorer.asked.len();
    Ok(explorer.report)
}

fn named<T, E>(made: Result<T, E>) -> T {
    made.unwrap_or_else(|_| unreachable!("a name of the explorer is a label"))
}

fn beginning(bounds: &Bounds) -> Cluster {
    let mut cluster = Cluster { now: BASE, named: true, ..Cluster::default() };
    let slice = |n: usize| SharedBlueprint {
        name: named(ComponentName::new(["db", "cache"][n])),
        depends_on: Vec::new(),
        shared: named(SharedName::new(format!("pg{n}"))),
        payload: Some(Digest::of(&["v1"])),
        provisions: true,
    };
    let slices: Vec<SharedBlueprint> = (0..bounds.shared.min(MEMBERS)).map(slice).collect();
    let plan = Plan::with_shared(&[], &slices).unwrap_or_else(|_| unreachable!("no dependencies"));
    for n in 0..bounds.shared.min(MEMBERS) {
        let name = named(SharedName::new(format!("pg{n}")));
        let uid = cluster.fresh("shared", name.as_str());
        let idle_secs = bounds.idles.then_some(60);
        cluster.shared.insert(name, Shared::new(uid, bounds.capacity, idle_secs));
    }
    for n in 0..bounds.environments.min(MEMBERS) {
        let name = named(EnvironmentName::new(format!("env{n}")));
        // The order of UIDs is that of creation.
        let uid = cluster.fresh("environment", &n.to_string());
        cluster.environments.insert(name, Environment::new(uid, plan.clone()));
    }
    cluster
}

impl Explorer {
    fn number(&mut self, state: State, from: u32, what: &str) -> u32 {
        let next = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(state).or_insert(next);
        if number == next {
            self.states.push(state);
            self.from.push((from, what.into()));
        }
        number
    }

    fn with_path(&self, mut at: u32, breach: Breach) -> Breach {
        let mut path = Vec::new();
        while let Some((from, what)) = self.from.get(at as usize) {
            path.push(what.to_string());
            at = *from;
        }
        path.reverse();
        Breach { what: format!("{}\n{}", path.join("\n"), breach.what), ..breach }
    }

    /// All that may happen next.
    fn out_of(&mut self, state: &State) -> Result<Vec<Edge>, Breach> {
        let (cluster, frozen) = self.codec.cluster(state);
        let mut edges = Vec::new();
        let environments = cluster.environments.keys().cloned().map(Key::Environment);
        let keys: Vec<Key> = environments.chain(cluster.shared.keys().cloned().map(Key::Shared)).collect();
        let mut next_at = None;
        for key in &keys {
            for blind in [false, true] {
                let wake = self.pass(state, &cluster, frozen.as_ref(), (key, blind), &mut edges)?;
                next_at = wake.into_iter().chain(next_at).min();
            }
        }
        if let Some(at) = next_at {
            let later = Cluster { now: at, ..cluster.clone() };
            self.edge(Maker::Peace, "time goes by", (&cluster, later), frozen.as_ref(), state, &mut edges)?;
        }
        if let Some(Frozen { name, read, command, .. }) = &frozen {
            let mut after = cluster.clone();
            let done = super::apply::environment(&mut after, name, &mut read.clone(), command);
            let what = format!("thawed {name} makes {command:?}: {done:?}");
            self.edge(Maker::Fault, &what, (&cluster, after), None, state, &mut edges)?;
        }
        self.jobs(state, &cluster, frozen.as_ref(), &mut edges)?;
        self.users(state, &cluster, frozen.as_ref(), &mut edges)?;
        Ok(edges)
    }

    fn edge(
        &mut self,
        maker: Maker,
        what: &str,
        (before, after): (&Cluster, Cluster),
        frozen: Option<&Frozen>,
        state: &State,
        edges: &mut Vec<Edge>,
    ) -> Result<(), Breach> {
        oracle::witness(before, &after, &mut self.report.counts)
            .map_err(|breach| Breach { what: format!("{what}\n{}", breach.what), ..breach })?;
        let to = self.codec.state(after, frozen.cloned(), state.faults);
        edges.push((maker, what.to_owned(), to));
        Ok(())
    }

    /// Passes over one object, and dies after each of the writes. Returns when it wants to look again.
    fn pass(
        &mut self,
        state: &State,
        from: &Cluster,
        frozen: Option<&Frozen>,
        (key, blind): (&Key, bool),
        edges: &mut Vec<Edge>,
    ) -> Result<Option<u64>, Breach> {
        let (mut cluster, mut said) = (from.clone(), String::new());
        let mut next = Next::Asks;
        match key {
            Key::Environment(name) => {
                let mut pass = EnvironmentPass::begin()?;
                while next == Next::Asks {
                    if let Some(asked) = pass.frozen(name).filter(|_| self.freezes && frozen.is_none()) {
                        let what = format!("{name} freezes before {:?}", asked.command);
                        let now = (from, cluster.clone());
                        self.edge(Maker::Fault, &what, now, Some(&asked), state, edges)?;
                    }
                    if let Ask::Apply(command) = &pass.ask {
                        self.report.counts.asked(command);
                    }
                    let (before, alone) = (cluster.clone(), is_alone(&pass.ask));
                    let (answer, what) = pass.answer(&mut cluster, name, blind)?;
                    if self.is_news(&pass.ask, &answer) {
                        pass.laws(&answer)?;
                    }
                    self.told(what, &mut said, (&before, &cluster), frozen, state, edges, alone)?;
                    next = pass.go_on(answer)?;
                }
                self.go_on_alone(&mut cluster, name, blind)?;
            }
            Key::Shared(name) => {
                let mut pass = SharedPass::begin()?;
                while next == Next::Asks {
                    let before = cluster.clone();
                    let (answer, what) = pass.answer(&mut cluster, name, blind)?;
                    if self.is_news(&pass.ask, &answer) {
                        pass.laws(&answer)?;
                    }
                    self.told(what, &mut said, (&before, &cluster), frozen, state, edges, false)?;
                    next = pass.go_on(answer)?;
                }
            }
        }
        if !said.is_empty() {
            let maker = if blind { Maker::Fault } else { Maker::Peace };
            self.edge(maker, &said, (from, cluster), frozen, state, edges)?;
        }
        let Next::Over(wake) = next else { return Ok(None) };
        Ok(wake.filter(|_| !blind).map(|wake| wake.at.0.max(BASE + 1)))
    }

    /// Takes note of a write; a crash may come right after it, but for what an environment does alone.
    #[expect(clippy::too_many_arguments, reason = "what a write changed, and whereto")]
    fn told(
        &mut self,
        what: Option<String>,
        said: &mut String,
        (before, after): (&Cluster, &Cluster),
        frozen: Option<&Frozen>,
        state: &State,
        edges: &mut Vec<Edge>,
        alone: bool,
    ) -> Result<(), Breach> {
        let Some(what) = what else { return Ok(()) };
        let _ = writeln!(said, "  {what}");
        if after == before || alone {
            return oracle::witness(before, after, &mut self.report.counts);
        }
        self.edge(Maker::Fault, said, (before, after.clone()), frozen, state, edges)
    }

    /// Takes the rest of what an environment does alone in one go.
    fn go_on_alone(
        &mut self,
        cluster: &mut Cluster,
        name: &EnvironmentName,
        blind: bool,
    ) -> Result<(), Breach> {
        const PASSES_MAX: usize = 12;
        for _ in 0..PASSES_MAX {
            let before = cluster.clone();
            let mut next = before.clone();
            let mut pass = EnvironmentPass::begin()?;
            let mut alone = true;
            loop {
                let (answer, _) = pass.answer(&mut next, name, blind)?;
                alone &= !matches!(pass.ask, Ask::Apply(_)) || is_alone(&pass.ask);
                if pass.go_on(answer)? != Next::Asks {
                    break;
                }
            }
            if !alone || next == before || !has_work_alone(&before, &next, name) {
                return Ok(());
            }
            *cluster = next;
        }
        Ok(())
    }

    fn jobs(
        &mut self,
        state: &State,
        cluster: &Cluster,
        frozen: Option<&Frozen>,
        edges: &mut Vec<Edge>,
    ) -> Result<(), Breach> {
        let names: Vec<JobName> = cluster.jobs.keys().cloned().collect();
        for name in names {
            let mut after = cluster.clone();
            let Some(job) = after.jobs.get_mut(&name) else { continue };
            if job.deleting {
                after.jobs.remove(&name);
                let what = format!("{name} is gone");
                self.edge(Maker::Peace, &what, (cluster, after), frozen, state, edges)?;
                continue;
            }
            if job.ended.is_some() {
                continue;
            }
            job.ended = Some(true);
            let job = job.clone();
            let mut failed = after.clone();
            after.effect(&job, false);
            self.edge(Maker::Peace, &format!("{name} succeeds"), (cluster, after), frozen, state, edges)?;
            let Some(faults) = state.faults.checked_sub(1) else { continue };
            if let Some(job) = failed.jobs.get_mut(&name) {
                job.ended = Some(false);
            }
            let state = State { faults, ..*state };
            for works in [false, true] {
                let mut after = failed.clone();
                if works {
                    after.effect(&job, true);
                }
                let what = format!("{name} fails, its work done: {works}");
                self.edge(Maker::Fault, &what, (cluster, after), frozen, &state, edges)?;
            }
        }
        Ok(())
    }

    fn users(
        &mut self,
        state: &State,
        cluster: &Cluster,
        frozen: Option<&Frozen>,
        edges: &mut Vec<Edge>,
    ) -> Result<(), Breach> {
        for (name, own) in cluster.environments.iter().filter(|(_, own)| !own.deletion) {
            let mut after = cluster.clone();
            let mut own = own.clone();
            (own.deletion, own.version) = (true, own.version + 1);
            match own.finalizer {
                true => drop(after.environments.insert(name.clone(), own)),
                false => drop(after.environments.remove(name)),
            }
            self.edge(Maker::User, &format!("delete {name}"), (cluster, after), frozen, state, edges)?;
        }
        for (name, own) in &cluster.shared {
            let mut gone = own.clone();
            (gone.deletion, gone.version) = (true, own.version + 1);
            if !own.deletion {
                let mut after = cluster.clone();
                match own.finalizer {
                    true => drop(after.shared.insert(name.clone(), gone)),
                    false => drop(after.shared.remove(name)),
                }
                self.edge(Maker::User, &format!("delete {name}"), (cluster, after), frozen, state, edges)?;
            }
            let let_go = own.roster.abandoned.first().map(|one| one.uid.clone());
            if let_go.is_some() && own.forget != let_go {
                let mut after = cluster.clone();
                after.forgotten.extend(let_go.clone());
                let (forget, version) = (let_go, own.version + 1);
                after.shared.insert(name.clone(), Shared { forget, version, ..own.clone() });
                self.edge(Maker::User, &format!("forget at {name}"), (cluster, after), frozen, state, edges)?;
            }
        }
        Ok(())
    }

    /// Whether the laws were not asked of this sight yet.
    fn is_news(&mut self, ask: &impl Debug, answer: &impl Debug) -> bool {
        struct Fed<'a>(&'a mut DefaultHasher);
        impl fmt::Write for Fed<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut hasher = DefaultHasher::new();
        let _ = write!(Fed(&mut hasher), "{ask:?}{answer:?}");
        self.asked.insert(hasher.finish())
    }
}

/// Whether an ask is a write within an environment's own namespace, or to the environment itself.
fn is_alone(ask: &Ask<environment::Environment>) -> bool {
    match ask {
        Ask::Apply(command) => match command {
            Command::Share(share) => matches!(share, Sharing::Bind { .. }),
            Command::Cleanup(environment::Cleanup::Unshare(unshare)) => {
                matches!(unshare, Unsharing::Unbind { .. })
            }
            _ => true,
        },
        Ask::Read | Ask::Observe(_) | Ask::Store { .. } | Ask::Notify(_) => false,
    }
}

/// Whether a pass did anything alone: a pass that only stored is a step of its own.
fn has_work_alone(before: &Cluster, after: &Cluster, name: &EnvironmentName) -> bool {
    let own = |cluster: &Cluster| {
        let own = cluster.environments.get(name)?;
        Some((own.finalizer, own.space, own.bindings.clone()))
    };
    own(before) != own(after)
}

impl EnvironmentPass {
    /// The write that an operator may freeze before, if it is about to make one.
    fn frozen(&self, name: &EnvironmentName) -> Option<Frozen> {
        let Ask::Apply(command) = &self.ask else { return None };
        let at = match command {
            Command::Share(Sharing::Register { at, .. })
            | Command::Cleanup(environment::Cleanup::Unshare(
                Unsharing::Release { at, .. } | Unsharing::Abandon { at, .. },
            )) => at.shared.clone(),
            _ => return None,
        };
        let read = self.read().cloned()?;
        is_listed(command).then(|| Frozen { name: name.clone(), read, command: command.clone(), at })
    }
}

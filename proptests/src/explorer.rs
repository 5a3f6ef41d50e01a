//! The explorer: every state of a bounded world, until there is no new one.
//!
//! States are (record, cluster) in canonical form; edges are all that the operator, the cluster, users, time and faults
//! may do. At the end the frontier is empty (closure), every bottom component of the graph is settled (no dead end),
//! and in peace nothing goes round in a circle (no flapping).

pub mod alone;
pub mod edges;
pub mod graph;
pub mod happenings;
pub mod intern;
mod sights;
pub mod state;
pub mod worlds;

use crate::{
    atlas::Atlas,
    dish::{cluster::Cluster, cluster::Specs, spec, tell},
    invariants::History,
    laws::Breach,
};
use edges::{Edge, Ways};
use graph::Rows;
use petri_machines::{
    component,
    environment::{Notice, Phase},
    names::ComponentName,
};
use rustc_hash::FxHashMap;
use state::{BASE, Budget, KIDS, State, is_still};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

/// Who made an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Maker {
    /// The operator, in peace.
    Operator,
    /// The cluster, in peace.
    Cluster,
    /// Time.
    Clock,
    /// A user.
    User,
    /// A fault: a crash, a stale read, a broken Job, a foreign hand.
    Fault,
}

/// A bounded world.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// What may be asked for; the first is asked for at the beginning.
    pub specs: Vec<String>,
    /// Seconds until it expires.
    pub ttl_secs: Option<u64>,
    /// What may happen how often.
    pub budget: Budget,
    /// Whether the map is drawn, too.
    pub draws: bool,
    /// States after which exploring gives up: that is a failure, not a result.
    pub states_max: usize,
}

/// What exploring found besides states.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How often each invariant had something to say, in distinct situations.
    pub counts: BTreeMap<&'static str, u64>,
    /// Sights of which all laws were asked.
    pub laws: u64,
    /// The map of the environment, where the bounds ask for it.
    pub atlas: Atlas,
    /// Transitions of environments.
    pub moves: BTreeSet<(&'static str, &'static str)>,
    /// Transitions of components.
    pub child_moves: BTreeSet<(&'static str, &'static str)>,
}

/// What exploring came to.
#[derive(Debug)]
pub struct Report {
    /// Distinct states.
    pub states: usize,
    /// Edges.
    pub edges: usize,
    /// Distinct sights that the operator decided at.
    pub decisions: usize,
    /// Seconds of one core that it took.
    pub core_secs: f64,
    /// What was found on the way.
    pub found: Found,
}

/// The states that are known, in the order in which they were found, each with the way to it.
#[derive(Default)]
struct Known {
    numbers: FxHashMap<State, u32>,
    states: Vec<State>,
    from: Vec<(u32, u16)>,
}

impl Known {
    fn number(&mut self, state: State, from: u32, what: u16) -> u32 {
        let next = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(state).or_insert(next);
        if number == next {
            self.states.push(state);
            self.from.push((from, what));
        }
        number
    }
}

/// Explores a world to closure and checks the graph.
///
/// # Errors
/// The first breach, with the path to it.
pub fn explore(bounds: &Bounds) -> Result<Report, Breach> {
    let began = core_secs();
    let specs = bounds.specs.iter().map(|line| spec::parse(line)).collect::<Result<Specs, _>>();
    let specs = specs.map_err(|error| Breach { law: "bounds", what: error.to_string() })?;
    let mut found = Found::default();
    let mut ways = Ways::new(names(&specs)?, &specs, &mut found);
    ways.draws = bounds.draws;
    let mut known = Known::default();
    let mut rows = Rows::default();
    let first = beginning(bounds, &mut ways);
    known.number(first, u32::MAX, 0);
    let (mut all, mut peace, mut edges, mut at) = (Vec::new(), Vec::new(), 0, 0);
    while at < known.states.len() {
        let (state, number) = (known.states[at], u32::try_from(at).unwrap_or(u32::MAX));
        ways.out_of(&state, &mut all).map_err(|breach| with_path(&known, &ways, number, breach))?;
        edges += all.len();
        peace.clear();
        for Edge { maker, what, to } in all.drain(..) {
            let to = known.number(to, number, what);
            if to != number && matches!(maker, Maker::Operator | Maker::Cluster | Maker::Clock) {
                peace.push(to);
            }
        }
        rows.push(is_settled(&state, &ways, &specs), peace.drain(..));
        if known.states.len() > bounds.states_max {
            let left = known.states.len() - at;
            let what = format!("more than {} states, {left} unexplored", bounds.states_max);
            return Err(Breach { law: "closure", what });
        }
        at += 1;
    }
    rows.check().map_err(|(at, breach)| with_path(&known, &ways, at, breach))?;
    let (states, decisions) = (known.states.len(), ways.decisions());
    Ok(Report { states, edges, decisions, core_secs: core_secs() - began, found })
}

fn names(specs: &Specs) -> Result<Vec<ComponentName>, Breach> {
    let plans = specs.iter().filter_map(|spec| spec.as_ref().ok());
    let names: BTreeSet<_> =
        plans.flat_map(|plan| plan.components.iter().map(|one| one.name.clone())).collect();
    if names.len() > KIDS {
        return Err(Breach { law: "bounds", what: format!("more than {KIDS} components: {names:?}") });
    }
    Ok(names.into_iter().collect())
}

fn beginning(bounds: &Bounds, ways: &mut Ways<'_>) -> State {
    let mut cluster = Cluster::new(bounds.ttl_secs.map(|secs| BASE + secs));
    (cluster.names_uids, cluster.now) = (true, BASE);
    let (head, kids) = ways.codec.encode(cluster);
    ways.codec.canonical(&State { head, kids, budget: bounds.budget })
}

/// Gone without a trace; or ready for what is asked for, or failed, with nothing under way.
fn is_settled(state: &State, ways: &Ways<'_>, specs: &Specs) -> bool {
    let cluster = ways.codec.heads.value(state.head);
    let Some(own) = &cluster.own else { return cluster.traces().is_empty() };
    let still = || {
        let moves = cluster.spaces.values().any(|space| space.terminating) || cluster.gateway_down;
        !moves && state.kids.iter().all(|kid| is_still(ways.codec.cell(kid.cell)))
    };
    match own.record.as_ref().map(|record| &record.phase) {
        Some(Phase::Ready { plan }) => {
            let wanted = matches!(specs.get(own.spec), Some(Ok(wanted)) if wanted.digest == *plan);
            wanted && !own.deletion && still()
        }
        Some(Phase::Failed { .. }) => !own.deletion && still(),
        Some(Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. }) | None => false,
    }
}

/// Adds the way from the beginning.
fn with_path(known: &Known, ways: &Ways<'_>, at: u32, breach: Breach) -> Breach {
    let shows = |at: u32| {
        let state = known.states[at as usize];
        let cluster = ways.codec.decode(state.head, &state.kids);
        let record = Cluster::record(&cluster).map(tell::record_line);
        record.unwrap_or_else(|| if cluster.own.is_some() { "nothing stored" } else { "gone" }.to_owned())
    };
    let mut steps = vec![format!("  here: {}", shows(at))];
    let mut at = at;
    while let (from, what) = known.from[at as usize]
        && from != u32::MAX
    {
        steps.push(format!("  {}\n    from {}", ways.labels.text(what), shows(from)));
        at = from;
    }
    steps.reverse();
    Breach { what: format!("{}\n{}", breach.what, steps.join("\n")), ..breach }
}

impl Found {
    pub(crate) fn notice(&mut self, notice: &Notice) {
        match notice {
            Notice::Moved { from, to, .. } => drop(self.moves.insert((from, to))),
            Notice::Component { notice: component::Notice::Moved { from, to }, .. } => {
                self.child_moves.insert((from, to));
            }
            Notice::Component { .. } | Notice::Slice { .. } | Notice::Expired => {}
        }
    }

    pub(crate) fn add(&mut self, history: &History) {
        for (law, count) in &history.counts {
            *self.counts.entry(law).or_default() += count;
        }
    }

    /// Takes over what another exploration found.
    pub fn merge(&mut self, other: Self) {
        for (law, count) in other.counts {
            *self.counts.entry(law).or_default() += count;
        }
        self.laws += other.laws;
        self.atlas.merge(other.atlas);
        self.moves.extend(other.moves);
        self.child_moves.extend(other.child_moves);
    }
}

/// Returns the seconds that this thread has had a core for: others may be busy, too.
fn core_secs() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse::<u64>().ok());
    nanos.unwrap_or(0) as f64 / 1e9
}

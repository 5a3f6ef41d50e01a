//! The explorer of shared components: every state of a bounded world, until there is no new one.
//!
//! Environments each use every shared component. From every state the operator may pass over each object, seeing
//! everything or nothing of what is shared, and die after any of its writes, or freeze before a write of a list of
//! consumers and make it much later; Jobs end well or badly; everything may be deleted at any time, and time goes by.
//! What does not happen in peace happens as often as the bounds allow. At the end the frontier is empty, what rests is
//! settled, and in peace nothing goes round in a circle.
//!
//! What an environment does alone, in a namespace of its own, is no part of this: it is taken in one go here, and step
//! by step in [`crate::explorer`].
//!
//! What a member does depends on itself and on what it looks at of the others ([`sights`]), so it is found out once for
//! all states in which these are the same. That this comes to what it does in the whole cluster is compared for the first
//! states of a world and for a part of the others.

mod moves;
mod sights;

pub use super::state::{ANY, Budget};

use super::{
    cluster::{Cluster, Environment, Shared},
    oracle::{self, Counts},
    state::{BASE, Codec, MEMBERS, State},
};
use crate::{
    explorer::{graph::Rows, intern::Interner},
    laws::{Breach, require},
};
use moves::{Asked, Maker, Move, Moves};
use petri_machines::{
    environment::{Plan, SharedBlueprint},
    names::{ComponentName, Digest, EnvironmentName, SharedName},
    shared::Roster,
};
use rustc_hash::FxHashMap;
use std::rc::Rc;

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
    /// Whether the shared components are ready at the beginning.
    pub warm: bool,
    /// What may happen how often.
    pub budget: Budget,
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
    warm: false,
    budget: Budget { faults: 0, mishaps: ANY, deletions: ANY },
    freezes: false,
    states_max: 20_000_000,
};

/// Two environments at one place.
const PAIR: Bounds =
    Bounds { environments: 2, budget: Budget { faults: 0, mishaps: 2, deletions: ANY }, ..LEAST };

/// The worlds that take some seconds.
pub fn standard() -> Vec<Bounds> {
    let faulty = Budget { faults: 1, ..LEAST.budget };
    vec![LEAST, Bounds { idles: true, ..LEAST }, Bounds { budget: faulty, ..LEAST }, PAIR]
}

/// All worlds: two shared components, two environments, one place and two. Two by two begin with what is shared ready,
/// and take few mishaps at a time: each further one multiplies all.
pub fn all() -> Vec<Bounds> {
    let few = |faults, mishaps, deletions| Budget { faults, mishaps, deletions };
    let square = Bounds { shared: 2, environments: 2, warm: true, ..LEAST };
    let mut all = standard();
    all.extend([
        Bounds { freezes: true, ..LEAST },
        Bounds { capacity: 2, ..PAIR },
        Bounds { freezes: true, warm: true, budget: few(0, 2, 2), ..PAIR },
        Bounds { shared: 2, warm: true, budget: few(0, ANY, 1), ..LEAST },
        Bounds { budget: few(0, 1, 2), ..square },
        Bounds { capacity: 2, budget: few(0, 1, 1), ..square },
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
    /// Distinct sights that a member's moves were found out at.
    pub decisions: usize,
    /// Sights of which all laws were asked.
    pub laws: usize,
    /// How often each invariant was asked.
    pub counts: Counts,
}

/// One thing that may happen to a member, as numbers.
#[derive(Clone, Copy, Debug)]
struct Effect {
    maker: Maker,
    what: u32,
    cost: Budget,
    /// The member afterwards.
    own: u32,
    /// Lists of consumers that an environment wrote, or what tenants owe after a shared component wrote, by place.
    others: [Option<u32>; MEMBERS],
    touched: [bool; MEMBERS],
    provider: bool,
    frozen: u32,
}

/// All that may happen to a member, and when the operator wants to look at it again.
type Ways = Rc<(Vec<Effect>, Option<u64>)>;

/// One member of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Member {
    Environment(usize),
    Shared(usize),
}

/// What a member's moves depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sight {
    member: Member,
    tenants: [u32; MEMBERS],
    hosts: [u32; MEMBERS],
    provider: bool,
}

/// How a part is seen by another member, or what becomes of it; each is found out once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Rival(u32),
    Debtor(u32),
    Counter(u32),
    Neighbour(u32),
    /// A host with another list of consumers.
    Listed(u32, u32),
    /// A tenant that owes something else.
    Owing(u32, u32),
    /// A tenant or a host at its place, at a later moment.
    Tenant(usize, u32, u64),
    Host(usize, u32, u64),
}

struct Explorer {
    codec: Codec,
    bounds: Bounds,
    labels: Interner<String>,
    rosters: Interner<Roster>,
    parts: FxHashMap<Part, u32>,
    ways: FxHashMap<Sight, Ways>,
    numbers: FxHashMap<State, u32>,
    states: Vec<State>,
    from: Vec<(u32, u32)>,
    asked: Asked,
}

/// The first states whose moves are found in the whole cluster, too; after those, one in so many.
const COMPARED_FIRST: usize = 256;
const COMPARED: usize = 1_024;
/// A long exploration says where it is after so many states.
const TOLD: usize = 500_000;

/// Explores a world to closure and checks the graph.
///
/// # Errors
/// The first breach, with the path to it.
pub fn explore(bounds: &Bounds) -> Result<Report, Breach> {
    let beginning = beginning(bounds);
    let mut explorer = Explorer::new(*bounds, Codec::new(&beginning));
    let first = explorer.codec.state(&beginning, 0, bounds.budget);
    let first = if bounds.warm { explorer.warmed(first)? } else { first };
    let start = explorer.label("the beginning".to_owned());
    explorer.number(first, u32::MAX, start);
    let (mut rows, mut at, mut edges) = (Rows::default(), 0, Vec::new());
    let mut report = Report::default();
    while let Some(state) = explorer.states.get(at).copied() {
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        edges.clear();
        explorer.out_of(&state, at, &mut edges).map_err(|breach| explorer.with_path(number, breach))?;
        report.edges += edges.len();
        let mut peace = Vec::new();
        for (maker, what, to) in edges.drain(..) {
            let to = explorer.number(to, number, what);
            if to != number && maker == Maker::Peace {
                peace.push(to);
            }
        }
        if peace.is_empty() {
            let cluster = explorer.codec.cluster(&state);
            oracle::rests(&cluster).map_err(|breach| explorer.with_path(number, breach))?;
        }
        rows.push(true, peace);
        require("closure", explorer.states.len() <= bounds.states_max, || {
            format!("more than {} states, {} unexplored", bounds.states_max, explorer.states.len() - at)
        })?;
        at += 1;
        if at.is_multiple_of(TOLD) {
            let (known, ways) = (explorer.states.len(), explorer.ways.len());
            eprintln!("explored {at} of {known} states so far, {ways} decisions");
        }
    }
    rows.check().map_err(|(at, breach)| explorer.with_path(at, breach))?;
    let (states, decisions) = (explorer.states.len(), explorer.ways.len());
    Ok(Report {
        states,
        decisions,
        laws: explorer.asked.sights.len(),
        counts: explorer.asked.counts,
        ..report
    })
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

type Edge = (Maker, u32, State);

impl Explorer {
    fn new(bounds: Bounds, codec: Codec) -> Self {
        Self {
            codec,
            bounds,
            labels: Interner::default(),
            rosters: Interner::default(),
            parts: FxHashMap::default(),
            ways: FxHashMap::default(),
            numbers: FxHashMap::default(),
            states: Vec::new(),
            from: Vec::new(),
            asked: Asked::default(),
        }
    }

    fn label(&mut self, what: String) -> u32 {
        self.labels.number(what)
    }

    fn number(&mut self, state: State, from: u32, what: u32) -> u32 {
        let next = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(state).or_insert(next);
        if number == next {
            self.states.push(state);
            self.from.push((from, what));
        }
        number
    }

    fn with_path(&self, mut at: u32, breach: Breach) -> Breach {
        let mut path = Vec::new();
        while let Some((from, what)) = self.from.get(at as usize) {
            path.push(self.labels.value(*what).to_string());
            at = *from;
        }
        path.reverse();
        Breach { what: format!("{}\n{}", path.join("\n"), breach.what), ..breach }
    }

    fn members(&self) -> impl Iterator<Item = Member> + use<> {
        let (environments, shared) = (self.codec.environments.len(), self.codec.shared.len());
        (0..environments).map(Member::Environment).chain((0..shared).map(Member::Shared))
    }

    /// Lets the shared components do in peace all that they do alone.
    fn warmed(&mut self, mut state: State) -> Result<State, Breach> {
        for place in 0..self.codec.shared.len() {
            let member = Member::Shared(place);
            loop {
                let ways = self.ways(&state, member)?;
                let peace = ways.0.iter().filter(|effect| effect.maker == Maker::Peace);
                let next: Vec<State> =
                    peace.filter_map(|effect| Some(self.taken(&state, member, effect)?.2)).collect();
                let Some(next) = next.into_iter().find(|next| *next != state) else { break };
                state = next;
            }
        }
        Ok(state)
    }

    /// All that may happen next.
    fn out_of(&mut self, state: &State, at: usize, edges: &mut Vec<Edge>) -> Result<(), Breach> {
        let compared = at < COMPARED_FIRST || at.is_multiple_of(COMPARED);
        let mut wake: Option<u64> = None;
        for member in self.members() {
            let ways = self.ways(state, member)?;
            let begin = edges.len();
            for effect in &ways.0 {
                edges.extend(self.taken(state, member, effect));
            }
            if compared {
                self.compare(state, member, &edges[begin..])?;
            }
            wake = ways.1.into_iter().chain(wake).min();
        }
        if let Some(at) = wake {
            let what = self.label("time goes by".to_owned());
            edges.push((Maker::Peace, what, self.later(state, at)));
        }
        if state.frozen > 0 {
            edges.push(self.thawed(state)?);
        }
        Ok(())
    }

    /// Finds out what may happen to a member, from what is looked at.
    fn ways(&mut self, state: &State, member: Member) -> Result<Ways, Breach> {
        let sight = self.sight(state, member);
        if let Some(known) = self.ways.get(&sight) {
            return Ok(Rc::clone(known));
        }
        let from = self.codec.join(&sight.tenants, &sight.hosts, sight.provider);
        let mut asked = std::mem::take(&mut self.asked);
        let mut moves = Moves::new(&from, &mut asked);
        self.find(member, &mut moves)?;
        let (all, wake) = (std::mem::take(&mut moves.all), moves.wake);
        self.asked = asked;
        let all = all.into_iter().map(|one| self.effect(&sight, &from, one)).collect();
        let ways = Rc::new((all, wake));
        self.ways.insert(sight, Rc::clone(&ways));
        Ok(ways)
    }

    fn find(&self, member: Member, moves: &mut Moves<'_>) -> Result<(), Breach> {
        match member {
            Member::Environment(place) => {
                let (name, uid) = &self.codec.environments[place];
                moves.of_environment(name, uid)
            }
            Member::Shared(place) => {
                let (name, uid) = &self.codec.shared[place];
                moves.of_shared(name, uid)
            }
        }
    }

    fn sight(&mut self, state: &State, member: Member) -> Sight {
        let State { mut tenants, mut hosts, mut provider, .. } = *state;
        match member {
            Member::Environment(place) => {
                for n in (0..self.codec.environments.len()).filter(|n| *n != place) {
                    tenants[n] = self.part(Part::Rival(tenants[n]));
                }
                for host in hosts.iter_mut().take(self.codec.shared.len()) {
                    *host = self.part(Part::Counter(*host));
                }
                provider = false;
            }
            Member::Shared(place) => {
                for tenant in tenants.iter_mut().take(self.codec.environments.len()) {
                    *tenant = self.part(Part::Debtor(*tenant));
                }
                for n in (0..self.codec.shared.len()).filter(|n| *n != place) {
                    hosts[n] = self.part(Part::Neighbour(hosts[n]));
                }
            }
        }
        Sight { member, tenants, hosts, provider }
    }

    fn part(&mut self, part: Part) -> u32 {
        if let Some(known) = self.parts.get(&part) {
            return *known;
        }
        let Codec { tenants, hosts, .. } = &mut self.codec;
        let number = match part {
            Part::Rival(tenant) => tenants.number(sights::rival(&tenants.value(tenant).clone())),
            Part::Debtor(tenant) => tenants.number(sights::debtor(&tenants.value(tenant).clone())),
            Part::Counter(host) => hosts.number(sights::counter(&hosts.value(host).clone())),
            Part::Neighbour(host) => hosts.number(sights::neighbour(&hosts.value(host).clone())),
            Part::Listed(host, roster) => {
                let mut host = (**hosts.value(host)).clone();
                host.own.iter_mut().for_each(|own| own.roster = (**self.rosters.value(roster)).clone());
                hosts.number(host)
            }
            Part::Owing(tenant, debtor) => {
                let mut tenant = (**tenants.value(tenant)).clone();
                let debtor = (**tenants.value(debtor)).clone();
                (tenant.obligations, tenant.forgotten) = (debtor.obligations, debtor.forgotten);
                tenants.number(tenant)
            }
            Part::Tenant(place, tenant, at) => {
                // Of the cluster only this place is looked at.
                let cluster = self.codec.join(&[tenant; MEMBERS], &[0; MEMBERS], false);
                self.codec.tenant(place, &Cluster { now: at, ..cluster })
            }
            Part::Host(place, host, at) => {
                let cluster = self.codec.join(&[0; MEMBERS], &[host; MEMBERS], false);
                self.codec.host(place, &Cluster { now: at, ..cluster })
            }
        };
        self.parts.insert(part, number);
        number
    }

    fn effect(&mut self, sight: &Sight, from: &Cluster, one: Move) -> Effect {
        let Move { maker, what, cost, after, frozen } = one;
        let mut others = [None; MEMBERS];
        let own = match sight.member {
            Member::Environment(place) => {
                for (other, (name, _)) in others.iter_mut().zip(&self.codec.shared) {
                    let list = |cluster: &Cluster| cluster.shared.get(name).map(|own| own.roster.clone());
                    let now = list(&after).filter(|now| list(from).as_ref() != Some(now));
                    *other = now.map(|roster| self.rosters.number(roster));
                }
                self.codec.tenant(place, &after)
            }
            Member::Shared(place) => {
                for (n, other) in others.iter_mut().enumerate().take(self.codec.environments.len()) {
                    *other = Some(self.codec.tenant(n, &after)).filter(|now| *now != sight.tenants[n]);
                }
                self.codec.host(place, &after)
            }
        };
        let (touched, provider) = (self.codec.touched(&after), after.provider);
        let frozen = frozen.map_or(0, |frozen| self.codec.freeze(frozen, BASE));
        Effect { maker, what: self.label(what), cost, own, others, touched, provider, frozen }
    }

    /// Returns where an effect leads, if the bounds allow it.
    fn taken(&mut self, state: &State, member: Member, effect: &Effect) -> Option<Edge> {
        let mut next = *state;
        next.budget = state.budget.less(effect.cost)?;
        if effect.frozen > 0 {
            (self.bounds.freezes && state.frozen == 0).then_some(())?;
            next.frozen = effect.frozen;
        }
        match member {
            Member::Environment(place) => {
                next.tenants[place] = effect.own;
                for (host, list) in next.hosts.iter_mut().zip(effect.others) {
                    if let Some(list) = list {
                        *host = self.part(Part::Listed(*host, list));
                    }
                }
            }
            Member::Shared(place) => {
                (next.hosts[place], next.provider) = (effect.own, effect.provider);
                for (tenant, owing) in next.tenants.iter_mut().zip(effect.others) {
                    if let Some(owing) = owing {
                        *tenant = self.part(Part::Owing(*tenant, owing));
                    }
                }
            }
        }
        let overtaken = self.codec.aim(next.frozen).is_some_and(|aim| effect.touched[aim]);
        next.frozen = if overtaken { 0 } else { next.frozen };
        Some((effect.maker, effect.what, next))
    }

    fn later(&mut self, state: &State, at: u64) -> State {
        let mut next = *state;
        for (place, tenant) in next.tenants.iter_mut().enumerate().take(self.codec.environments.len()) {
            *tenant = self.part(Part::Tenant(place, *tenant, at));
        }
        for (place, host) in next.hosts.iter_mut().enumerate().take(self.codec.shared.len()) {
            *host = self.part(Part::Host(place, *host, at));
        }
        if state.frozen > 0 {
            let frozen = (**self.codec.frozen.value(state.frozen - 1)).clone();
            next.frozen = self.codec.freeze(frozen, at);
        }
        next
    }

    /// What was frozen comes, guarded by the version that it was read at.
    fn thawed(&mut self, state: &State) -> Result<Edge, Breach> {
        let whole = self.codec.cluster(state);
        let frozen = (**self.codec.frozen.value(state.frozen - 1)).clone();
        let (after, what) = moves::thaw(&whole, &frozen, &mut self.asked)?;
        let what = self.label(what);
        Ok((Maker::Fault, what, self.codec.state(&after, 0, state.budget)))
    }

    /// Finds a member's moves in the whole cluster: they must come to the same.
    fn compare(&mut self, state: &State, member: Member, edges: &[Edge]) -> Result<(), Breach> {
        let (whole, mut asked) = (self.codec.cluster(state), Asked::default());
        let mut moves = Moves::new(&whole, &mut asked);
        self.find(member, &mut moves)?;
        let all = std::mem::take(&mut moves.all);
        let mut found = Vec::new();
        for Move { cost, after, frozen, .. } in all {
            let Some(budget) = state.budget.less(cost) else { continue };
            let frozen = match frozen {
                Some(_) if !self.bounds.freezes || state.frozen > 0 => continue,
                Some(frozen) => self.codec.freeze(frozen, BASE),
                None => state.frozen,
            };
            found.push(self.codec.state(&after, frozen, budget));
        }
        let same = found.iter().eq(edges.iter().map(|(_, _, to)| to));
        require("what a member does depends on what it looks at", same, || {
            format!("{member:?}: {found:?} is not {edges:?}")
        })
    }
}

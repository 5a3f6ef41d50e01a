//! Everything that may happen next in a state.
//!
//! What the operator decides depends on what it sees: its record and its world. So each distinct sight is decided once,
//! with all laws asked; a state with the same sight gets the same decision, command by command, against its own cluster,
//! each write watched by every invariant. That this comes to what the shipped loop does in the dish is compared for the
//! first decisions of a world, for a part of the others, and for one look in [`COMPARED`] besides.

use super::{
    Found, Maker,
    happenings::{Local, Whole, history},
    intern::Interner,
    sights::{Sight, View, blind_sight, job_views, kid_of, sight},
    state::{Codec, KIDS, Kid, Pace, State},
};
use crate::{
    dish::{
        apply,
        cluster::{Cluster, Release, Specs},
        replica::{Event, Replica},
        tell,
    },
    invariants::{History, Witness},
    laws::{self, Breach, blindness::Blindness, require},
};
use petri_machines::{
    environment::{Cleanup, Command, Environment, Phase, Record, World},
    job::{JobState, JobView},
    kernel::{Machine as _, cycle::Ask, machine::StepOf},
    names::ComponentName,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// One look in so many is made by the loop itself though its decision is known.
pub const COMPARED: u32 = 512;
/// So many decisions of a world, the first, are made by the loop, too: all of a small world's.
const COMPARED_FIRST: usize = 4_096;
/// After those, one decision in so many is.
const COMPARED_DECISIONS: usize = 16;

/// One thing that may happen.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// Who made it.
    pub maker: Maker,
    /// What it is: a number among the labels.
    pub what: u16,
    /// Where it leads.
    pub to: State,
}

/// Texts for people, each kept once.
#[derive(Debug, Default)]
pub struct Labels(Interner<String>);

impl Labels {
    /// Returns the number of a text; there are few.
    pub fn number(&mut self, text: String) -> u16 {
        u16::try_from(self.0.number(text)).unwrap_or(u16::MAX)
    }

    /// Returns the text of a number.
    pub fn text(&self, number: u16) -> &str {
        self.0.value(u32::from(number))
    }
}

/// What the operator decided at one sight.
#[derive(Clone, Debug)]
struct Decision {
    head: u32,
    records: [u32; KIDS],
    commands: Vec<(u32, Option<usize>)>,
    asked: bool,
}

/// A Job list as it was a moment ago.
type Stale = (u16, u32, Vec<JobView>);
type Effects = Vec<(u16, State)>;

/// All that was found out about a world so far.
pub struct Ways<'w> {
    /// The numbers.
    pub codec: Codec,
    /// The texts.
    pub labels: Labels,
    pub(super) specs: &'w Specs,
    /// Whether the map is drawn, too.
    pub draws: bool,
    pub(super) has_route: bool,
    pub(super) found: &'w mut Found,
    pub(super) locals: FxHashMap<(u32, u32, u32), Rc<[Local]>>,
    pub(super) wholes: FxHashMap<(u32, u32), Rc<[Whole]>>,
    pub(super) goings: FxHashMap<(u32, [u32; KIDS]), (u32, [u32; KIDS])>,
    pub(super) soils: FxHashMap<u32, u32>,
    pub(super) deadlines: FxHashMap<u32, Option<(u64, Pace)>>,
    commands: Interner<Command>,
    views: Interner<View>,
    viewed: FxHashMap<(u32, u32), u32>,
    stales: FxHashMap<(u32, u32, u32), Rc<[Stale]>>,
    decided: FxHashMap<Sight, u32>,
    blinds: FxHashMap<Sight, Rc<Vec<Command>>>,
    decisions: Vec<Decision>,
    applied: FxHashMap<[u32; 4], Option<(u32, u32)>>,
    told: FxHashMap<u32, u16>,
    witnessed: FxHashSet<[u32; 13]>,
    looks: u32,
}

impl<'w> Ways<'w> {
    /// Begins with nothing but the names.
    pub fn new(names: Vec<ComponentName>, specs: &'w Specs, found: &'w mut Found) -> Self {
        let plans = specs.iter().filter_map(|spec| spec.as_ref().ok());
        let has_route = plans.into_iter().any(|plan| plan.route.is_some());
        Self {
            codec: Codec::new(names),
            labels: Labels::default(),
            specs,
            draws: false,
            has_route,
            found,
            locals: FxHashMap::default(),
            wholes: FxHashMap::default(),
            goings: FxHashMap::default(),
            soils: FxHashMap::default(),
            deadlines: FxHashMap::default(),
            commands: Interner::default(),
            views: Interner::default(),
            viewed: FxHashMap::default(),
            stales: FxHashMap::default(),
            decided: FxHashMap::default(),
            blinds: FxHashMap::default(),
            decisions: Vec::new(),
            applied: FxHashMap::default(),
            told: FxHashMap::default(),
            witnessed: FxHashSet::default(),
            looks: 0,
        }
    }

    /// Returns how many distinct sights were decided.
    pub fn decisions(&self) -> usize {
        self.decisions.len()
    }

    /// Adds all edges out of a state.
    ///
    /// # Errors
    /// The law or invariant that one of them breaks, with what happened.
    pub fn out_of(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        all.clear();
        if self.codec.heads.value(state.head).own.is_some() {
            self.looks(state, all)?;
        }
        self.happenings(state, all)
    }

    /// The operator's cycle: whole, cut off after each of its effects, and with a Job list that is some events old.
    fn looks(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        let views = self.views(state);
        let effects = self.look(state, &views, None)?;
        let whole = effects.len().saturating_sub(1);
        for (n, (what, to)) in effects.into_iter().enumerate() {
            // Cut off after an effect is a fault; what is done last ends the cycle.
            let maker = if n == whole { Maker::Operator } else { Maker::Fault };
            all.push(Edge { maker, what, to });
        }
        for at in 0..self.codec.names.len() {
            let key = (at as u32, state.kids[at].record, state.kids[at].cell);
            let known = match self.stales.get(&key) {
                Some(known) => Rc::clone(known),
                None => {
                    let found: Rc<[Stale]> = self.stale(state, at).into();
                    self.stales.insert(key, Rc::clone(&found));
                    found
                }
            };
            for (n, (_, view, _)) in known.iter().enumerate() {
                let mut views = views;
                views[at] = *view;
                for (what, to) in self.look(state, &views, Some((at, n)))? {
                    all.push(Edge { maker: Maker::Fault, what, to });
                }
            }
        }
        Ok(())
    }

    fn views(&mut self, state: &State) -> [u32; KIDS] {
        let mut views = [0; KIDS];
        for (view, kid) in views.iter_mut().zip(&state.kids) {
            let key = (kid.record, kid.cell);
            *view = match self.viewed.get(&key) {
                Some(known) => *known,
                None => {
                    let accepted = self.codec.record(kid.record).and_then(|record| record.accepted.as_ref());
                    let cell = self.codec.cell(kid.cell);
                    let readiness = Release::readiness(cell.release.as_ref(), accepted.map(|a| a.serial));
                    let number = self.views.number((job_views(cell), readiness));
                    self.viewed.insert(key, number);
                    number
                }
            };
        }
        views
    }

    /// Job lists as they were a moment ago: one Job is not there yet, or has not ended yet. A list never goes back
    /// behind what was recorded of it.
    fn stale(&mut self, state: &State, at: usize) -> Vec<Stale> {
        let kid = state.kids[at];
        let record = self.codec.record(kid.record);
        let recorded = record.and_then(|record| record.attempt()).and_then(|attempt| attempt.job.clone());
        let jobs = job_views(self.codec.cell(kid.cell));
        let view = self.views(state)[at];
        let readiness = self.views.value(view).1.clone();
        let mut found = Vec::new();
        for (n, job) in jobs.iter().enumerate() {
            let mut list = jobs.clone();
            let what = if matches!(job.state, JobState::Active { .. }) {
                if recorded.as_ref() == Some(&job.uid) {
                    continue;
                }
                list.remove(n);
                "does not see a new Job"
            } else {
                list[n].state = JobState::Active { waiting: None };
                "does not see the end of a Job"
            };
            let what = format!("the operator {what} of {} yet, but looks", self.codec.names[at]);
            let view = self.views.number((list.clone(), readiness.clone()));
            found.push((self.labels.number(what), view, list));
        }
        found
    }

    /// Asks all laws of a sight, and returns the step. What is decided without some fact of one component is the same
    /// in all sights that differ in that fact only, and is found out once.
    fn ask(
        &mut self,
        state: &State,
        views: &[u32; KIDS],
        record: &Record,
        world: &World,
    ) -> Result<StepOf<Environment>, Breach> {
        let Self { codec, views: known, blinds, .. } = self;
        let mut blind = |blindness: &Blindness| {
            let decided = || Rc::new(blindness.commands(record, world));
            match blind_sight(codec, known, state, views, world, blindness) {
                Some(key) => Rc::clone(blinds.entry(key).or_insert_with(decided)),
                None => decided(),
            }
        };
        let step = laws::environment::all_knowing(record, world, &mut blind)?;
        self.found.laws += 1;
        if self.draws {
            self.found.atlas.environment(record, world);
        }
        Ok(step)
    }

    /// Returns the state after each effect of one cycle.
    fn look(
        &mut self,
        state: &State,
        views: &[u32; KIDS],
        stale: Option<(usize, usize)>,
    ) -> Result<Effects, Breach> {
        let mut sight = (state.head, [(0, 0); KIDS]);
        for (seen, (kid, view)) in sight.1.iter_mut().zip(state.kids.iter().zip(views)) {
            *seen = (kid.record, *view);
        }
        self.looks = self.looks.wrapping_add(1);
        let known = self.decided.get(&sight).copied();
        let real = match known {
            Some(_) if !self.looks.is_multiple_of(COMPARED) => None,
            Some(_) => Some(self.cycle(state, stale)?),
            None => {
                let decision = self.decide(state, views, stale)?;
                let number = self.decisions.len();
                self.decided.insert(sight, u32::try_from(number).unwrap_or(u32::MAX));
                self.decisions.push(decision);
                let compared = number < COMPARED_FIRST || number.is_multiple_of(COMPARED_DECISIONS);
                compared.then(|| self.cycle(state, stale)).transpose()?
            }
        };
        let decision = self.decided.get(&sight).map_or(0, |number| *number as usize);
        // A stale look is a world like any other; the property tests ask the laws of those.
        if stale.is_none() && !std::mem::replace(&mut self.decisions[decision].asked, true) {
            let (record, world) = self::sight(&self.cluster(state, None), self.specs);
            self.ask(state, views, &record, &world)?;
        }
        let effects = self.replay(state, decision, views, stale)?;
        if let Some(real) = real {
            let same = real.iter().copied().eq(effects.iter().map(|(_, state)| *state));
            require("what was decided once is what the loop does", same, || {
                format!("{real:?} is not {effects:?}")
            })?;
        }
        Ok(effects)
    }

    fn cluster(&self, state: &State, stale: Option<(usize, usize)>) -> Cluster {
        let mut cluster = self.codec.decode(state.head, &state.kids);
        if let Some((at, n)) = stale {
            let key = (at as u32, state.kids[at].record, state.kids[at].cell);
            let name = &self.codec.names[at];
            let mut jobs = cluster.jobs();
            jobs.retain(|(component, _)| component != name);
            let list = self.stales.get(&key).map(|lists| lists[n].2.clone()).unwrap_or_default();
            jobs.extend(list.into_iter().map(|job| (name.clone(), job)));
            cluster.lagging = Some(jobs);
        }
        cluster
    }

    fn decide(
        &mut self,
        state: &State,
        views: &[u32; KIDS],
        stale: Option<(usize, usize)>,
    ) -> Result<Decision, Breach> {
        let (record, world) = self::sight(&self.cluster(state, stale), self.specs);
        let step = match stale {
            None => self.ask(state, views, &record, &world)?,
            Some(_) => Environment::step(record, &world)
                .map_err(|error| Breach { law: "settles", what: error.to_string() })?,
        };
        step.notices.iter().for_each(|notice| self.found.notice(notice));
        let (head, records) = self.codec.store(state.head, step.phase);
        let commands = step.commands.into_iter().map(|command| {
            let kid = kid_of(&self.codec, &command);
            (self.commands.number(command), kid)
        });
        Ok(Decision { head, records, commands: commands.collect(), asked: stale.is_none() })
    }

    /// Runs the shipped loop in the dish, watched by every invariant.
    fn cycle(&mut self, state: &State, stale: Option<(usize, usize)>) -> Result<Vec<State>, Breach> {
        let mut cluster = self.cluster(state, stale);
        let mut replica = Replica::default();
        let mut effects = Vec::new();
        let mut history = history(&cluster);
        let mut last = *state;
        loop {
            let writes = matches!(replica.pending(), Some(Ask::Store { .. } | Ask::Apply(_)));
            let before = writes.then(|| cluster.clone());
            let event = replica.step(&mut cluster, self.specs, None);
            if let Event::Notified(notices) = &event {
                notices.iter().for_each(|notice| self.found.notice(notice));
            }
            let Some(before) = before else {
                if replica.is_running() {
                    continue;
                }
                break;
            };
            history.witness(&Witness {
                before: &before,
                after: &cluster,
                event: Some(&event),
                specs: self.specs,
            })?;
            let (head, kids) = self.codec.encode(cluster.clone());
            let next = self.codec.canonical(&State { head, kids, ..*state });
            if next != last {
                effects.push(next);
                last = next;
            }
            if !replica.is_running() {
                break;
            }
        }
        if let Some(done) = &replica.last {
            history.ended(done)?;
        }
        self.found.add(&history);
        Ok(effects)
    }

    fn replay(
        &mut self,
        state: &State,
        decision: usize,
        views: &[u32; KIDS],
        stale: Option<(usize, usize)>,
    ) -> Result<Effects, Breach> {
        let label = stale.map(|(at, n)| {
            let key = (at as u32, state.kids[at].record, state.kids[at].cell);
            self.stales[&key][n].0
        });
        let (mut effects, mut last) = (Vec::new(), *state);
        let Decision { head, records, .. } = self.decisions[decision];
        let mut now = State { head, ..*state };
        now.kids.iter_mut().zip(records).for_each(|(kid, record)| kid.record = record);
        let stored = self.codec.canonical(&now);
        if stored != last {
            self.stored(state, &now)?;
            let what =
                label.unwrap_or_else(|| self.labels.number("the operator stores its record".to_owned()));
            effects.push((what, stored));
            last = stored;
        }
        for n in 0..self.decisions[decision].commands.len() {
            let (command, kid) = self.decisions[decision].commands[n];
            let before = now;
            let Some((head, cell)) = self.apply(&before, command, kid) else { break };
            now.head = head;
            if let Some(kid) = kid {
                now.kids[kid].cell = cell;
            }
            if self.codec.heads.value(head).own.is_none() {
                now.kids.iter_mut().for_each(|kid| kid.record = 0);
            }
            if now == before {
                continue;
            }
            self.acted(state, &before, &now, (command, kid), views, stale)?;
            let next = self.codec.canonical(&now);
            if next != last {
                let what = label.unwrap_or_else(|| self.tell(command));
                effects.push((what, next));
                last = next;
            }
        }
        Ok(effects)
    }

    fn tell(&mut self, command: u32) -> u16 {
        if let Some(known) = self.told.get(&command) {
            return *known;
        }
        let text = format!("the operator does: {}", tell::command(self.commands.value(command)));
        let what = self.labels.number(text);
        self.told.insert(command, what);
        what
    }

    /// Applies one command to the part that it is about. `None` when it is refused.
    fn apply(&mut self, state: &State, command: u32, kid: Option<usize>) -> Option<(u32, u32)> {
        let cell = kid.map_or(0, |at| state.kids[at].cell);
        let key = [command, state.head, kid.map_or(u32::MAX, |at| at as u32), cell];
        if let Some(known) = self.applied.get(&key) {
            return *known;
        }
        let mut kids = [Kid::default(); KIDS];
        if let Some(at) = kid {
            kids[at].cell = cell;
        }
        let mut cluster = self.codec.decode(state.head, &kids);
        let (_, world) = sight(&cluster, self.specs);
        let result = cluster.own.clone().and_then(|mut read| {
            apply::apply(&mut cluster, &mut read, &world, self.commands.value(command)).ok()
        });
        let found = result.map(|_| {
            let (head, kids) = self.codec.encode(cluster);
            (head, kid.map_or(0, |at| kids[at].cell))
        });
        self.applied.insert(key, found);
        found
    }

    /// Watches a write of the record, once for each distinct change of a component in its cell.
    fn stored(&mut self, before: &State, after: &State) -> Result<(), Breach> {
        if before.head != after.head && self.becomes_ready(before, after) {
            // What Ready means is a matter of all components at once; there are few such writes.
            let was = self.codec.decode(before.head, &before.kids);
            let is = self.codec.decode(after.head, &after.kids);
            let record = is.own.as_ref().and_then(|own| own.record.clone()).unwrap_or_default();
            return self.witness(&was, &is, &Event::Stored(Box::new(Ok(record))));
        }
        for at in 0..self.codec.names.len() {
            let (was, is) = (before.kids[at], after.kids[at]);
            let key = [
                u32::MAX,
                before.head,
                after.head,
                at as u32,
                was.record,
                is.record,
                was.cell,
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            if !self.witnessed.insert(key) {
                continue;
            }
            let alone = |state: &State| {
                let mut kids = [Kid::default(); KIDS];
                kids[at] = state.kids[at];
                self.codec.decode(state.head, &kids)
            };
            let (was, is) = (alone(before), alone(after));
            let record = is.own.as_ref().and_then(|own| own.record.clone()).unwrap_or_default();
            // Alone, a component may show no difference: that a write makes one is asked of the whole.
            if was != is {
                self.witness(&was, &is, &Event::Stored(Box::new(Ok(record))))?;
            }
        }
        Ok(())
    }

    /// Whether the write says Ready of another plan than before, if it said so before: a plan that changes nothing but
    /// its order is Ready in the write that takes it up.
    fn becomes_ready(&self, before: &State, after: &State) -> bool {
        let phase = |head: u32| Cluster::record(self.codec.heads.value(head)).map(|record| &record.phase);
        matches!(phase(after.head), Some(Phase::Ready { .. })) && phase(before.head) != phase(after.head)
    }

    /// Watches a command, once for each distinct situation that an invariant could tell apart.
    fn acted(
        &mut self,
        start: &State,
        before: &State,
        after: &State,
        (command, kid): (u32, Option<usize>),
        views: &[u32; KIDS],
        stale: Option<(usize, usize)>,
    ) -> Result<(), Breach> {
        let mut key = [command, before.head, after.head, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        if let Some(at) = kid {
            key[3..8].copy_from_slice(&[
                at as u32 + 1,
                before.kids[at].record,
                before.kids[at].cell,
                after.kids[at].cell,
                views[at],
            ]);
            let ordered = matches!(
                &**self.commands.value(command),
                Command::CreateJob { .. } | Command::Cleanup(Cleanup::CreateUndeployJob { .. })
            );
            if ordered {
                for (n, other) in before.kids.iter().enumerate() {
                    let released = self.codec.cell(other.cell).release.is_some();
                    key[8] |= u32::from(released) << n;
                    key[9 + n] = other.record;
                }
            }
        }
        if !self.witnessed.insert(key) {
            return Ok(());
        }
        let (_, world) = sight(&self.cluster(start, stale), self.specs);
        let was = self.codec.decode(before.head, &before.kids);
        let is = self.codec.decode(after.head, &after.kids);
        let command = Command::clone(self.commands.value(command));
        self.witness(&was, &is, &Event::Applied(Box::new(world), command, Ok(true)))
    }

    fn witness(&mut self, before: &Cluster, after: &Cluster, event: &Event) -> Result<(), Breach> {
        let mut history: History = history(before);
        history.witness(&Witness { before, after, event: Some(event), specs: self.specs })?;
        self.found.add(&history);
        Ok(())
    }
}

//! What users, the cluster, time and faults may do in a state, each found once for each distinct part that it changes.

use super::{
    Found, Maker,
    edges::{Edge, Ways},
    state::{self, BASE, Budget, KIDS, Kid, Pace, State},
};
use crate::{
    dish::{
        Op,
        cluster::{Cluster, Pod},
        nature::{self, Outcome},
        user,
    },
    invariants::{History, Witness},
    laws::Breach,
};
use petri_machines::{job::JobFailure, names::ComponentName, reason::FailureReason};
use std::rc::Rc;

/// What may happen to one component's cell.
#[derive(Clone, Debug)]
pub struct Local {
    maker: Maker,
    cost: u8,
    what: u16,
    cell: u32,
}

/// What may happen to everything but the components.
#[derive(Clone, Debug)]
pub struct Whole {
    maker: Maker,
    budget: Budget,
    what: u16,
    head: u32,
}

/// One that may pass, one that cannot, one that is nobody's fault.
const FAILURES: [(FailureReason, bool); 3] = [
    (FailureReason::HelmFailed, false),
    (FailureReason::ChartNotFound, false),
    (FailureReason::HelmFailed, true),
];

type Change<'a> = &'a dyn Fn(&mut Cluster, &ComponentName) -> bool;

/// What the cluster itself knows of outcomes: the Jobs that are still there.
pub fn history(cluster: &Cluster) -> History {
    let outcome = |space: &crate::dish::cluster::Space| {
        let ended = space.jobs.values().filter(|job| !job.is_live());
        let told = |job: &crate::dish::cluster::Job| Outcome {
            job: job.clone(),
            payload: job.mounted.clone(),
            succeeded: job.pod == Pod::Succeeded,
        };
        ended.map(told).collect::<Vec<_>>()
    };
    History::knowing(cluster.spaces.values().flat_map(outcome).collect())
}

/// Whether a release was installed as a whole: what a failed Helm left never serves.
fn is_whole(cluster: &Cluster, name: &ComponentName) -> bool {
    let mut releases = cluster.spaces.values().filter_map(|space| space.releases.get(name));
    releases.any(|release| release.serial > 0)
}

impl Ways<'_> {
    /// Adds all that may happen without the operator.
    pub(super) fn happenings(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        self.in_components(state, all)?;
        self.in_the_whole(state, all)?;
        self.namespaces_go(state, all)?;
        self.time_passes(state, all);
        Ok(())
    }

    fn in_components(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        let soil = self.soil(state.head);
        for at in 0..self.codec.names.len() {
            let key = (soil, at as u32, state.kids[at].cell);
            let known = match self.locals.get(&key) {
                Some(known) => Rc::clone(known),
                None => {
                    let found: Rc<[Local]> = self.local(state, at)?.into();
                    self.locals.insert(key, Rc::clone(&found));
                    found
                }
            };
            for &Local { maker, cost, what, cell } in &*known {
                let Some(faults) = state.budget.faults.checked_sub(cost) else { continue };
                let mut next = State { budget: Budget { faults, ..state.budget }, ..*state };
                next.kids[at].cell = cell;
                all.push(Edge { maker, what, to: self.codec.canonical(&next) });
            }
        }
        Ok(())
    }

    /// Heads in which the same may happen to a cell.
    fn soil(&mut self, head: u32) -> u32 {
        if let Some(known) = self.soils.get(&head) {
            return *known;
        }
        let space = self.codec.heads.value(head).spaces.values().find(|space| space.ours);
        let soil = space.map_or(0, |space| {
            1 + u32::from(space.terminating) + 2 * u32::from(space.access.account && space.access.deployer)
        });
        self.soils.insert(head, soil);
        soil
    }

    fn local(&mut self, state: &State, at: usize) -> Result<Vec<Local>, Breach> {
        let name = self.codec.names[at].clone();
        let mut kids = [Kid::default(); KIDS];
        kids[at].cell = state.kids[at].cell;
        let before = self.codec.decode(state.head, &kids);
        let mut found = Vec::new();
        let mut add = |maker, cost, what: String, change: Change<'_>| -> Result<(), Breach> {
            let mut after = before.clone();
            if !change(&mut after, &name) {
                return Ok(());
            }
            let what = format!("{what} ({name})");
            let seen = Witness { before: &before, after: &after, event: None, specs: self.specs };
            witness(&before, &seen, &what, self.found)?;
            let what = self.labels.number(what);
            let cell = self.codec.encode(after).1[at].cell;
            found.push(Local { maker, cost, what, cell });
            Ok(())
        };
        let (cluster, fault) = (Maker::Cluster, Maker::Fault);
        add(cluster, 0, "its pod starts".into(), &nature::pod_starts)?;
        add(cluster, 0, "its pod ends well".into(), &|c, name| nature::pod_ends(c, name, None).is_some())?;
        add(cluster, 0, "its workload serves".into(), &|c, name| {
            is_whole(c, name) && nature::workload(c, name, true)
        })?;
        add(cluster, 0, "its deleted Jobs go".into(), &|c, _| nature::deleted_jobs_go(c))?;
        for (reason, disrupted) in FAILURES {
            let failure = JobFailure { reason, message: String::new(), disrupted };
            let what = format!("its pod fails: {}, disrupted {disrupted}", reason.as_str());
            add(fault, 1, what, &|c, name| nature::pod_ends(c, name, Some(failure.clone())).is_some())?;
        }
        add(fault, 1, "its workload ceases to serve".into(), &|c, name| nature::workload(c, name, false))?;
        add(fault, 1, "somebody deletes its Job".into(), &nature::job_deleted_by_hand)?;
        add(fault, 1, "its pod cannot start".into(), &|c, name| {
            nature::pod_complains(c, name, FailureReason::ImagePull)
        })?;
        add(fault, 1, "a pod of its workload crashes".into(), &|c, name| {
            nature::workload_complains(c, name, FailureReason::CrashLoop)
        })?;
        Ok(found)
    }

    fn in_the_whole(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        let key = (state.head, u32::from(state.budget.retries));
        let known = match self.wholes.get(&key) {
            Some(known) => Rc::clone(known),
            None => {
                let found: Rc<[Whole]> = self.whole(state)?.into();
                self.wholes.insert(key, Rc::clone(&found));
                found
            }
        };
        for &Whole { maker, budget: cost, what, head } in &*known {
            let (Some(specs), Some(faults), Some(retries)) = (
                state.budget.specs.checked_sub(cost.specs),
                state.budget.faults.checked_sub(cost.faults),
                state.budget.retries.checked_sub(cost.retries),
            ) else {
                continue;
            };
            let mut next = State { head, budget: Budget { specs, faults, retries }, ..*state };
            if self.codec.heads.value(head).own.is_none() {
                next.kids.iter_mut().for_each(|kid| kid.record = 0);
            }
            all.push(Edge { maker, what, to: self.codec.canonical(&next) });
        }
        Ok(())
    }

    fn whole(&mut self, state: &State) -> Result<Vec<Whole>, Breach> {
        let before = self.codec.decode(state.head, &[]);
        let mut found = Vec::new();
        let none = Budget::default();
        let mut add =
            |maker, budget, what: String, change: &dyn Fn(&mut Cluster) -> bool| -> Result<(), Breach> {
                let mut after = before.clone();
                if !change(&mut after) {
                    return Ok(());
                }
                let seen = Witness { before: &before, after: &after, event: None, specs: self.specs };
                witness(&before, &seen, &what, self.found)?;
                let what = self.labels.number(what);
                found.push(Whole { maker, budget, what, head: self.codec.number_head(after) });
                Ok(())
            };
        let mut ops: Vec<(Op, Budget)> =
            (0..self.specs.len()).map(|spec| (Op::Spec { spec }, Budget { specs: 1, ..none })).collect();
        let token = format!("t{}", state.budget.retries);
        ops.push((Op::Retry { token }, Budget { retries: 1, ..none }));
        ops.push((Op::Delete, none));
        for (op, cost) in ops {
            add(Maker::User, cost, crate::dish::tell::op(&op), &|c| user(c, self.specs, &op))?;
        }
        let fault = Budget { faults: 1, ..none };
        add(Maker::Fault, fault, "somebody deletes the namespace".into(), &|cluster| {
            let mut spaces = cluster.spaces.values_mut();
            let space = spaces.find(|space| space.ours && !space.terminating);
            space.map(|space| space.terminating = true).is_some()
        })?;
        if self.has_route {
            add(Maker::Fault, fault, "Gateways accept no route".into(), &|cluster| {
                !std::mem::replace(&mut cluster.gateway_down, true)
            })?;
            add(Maker::Cluster, none, "Gateways accept routes".into(), &|cluster| {
                std::mem::replace(&mut cluster.gateway_down, false)
            })?;
        }
        Ok(found)
    }

    fn namespaces_go(&mut self, state: &State, all: &mut Vec<Edge>) -> Result<(), Breach> {
        let head = self.codec.heads.value(state.head);
        if !head.spaces.values().any(|space| space.terminating) {
            return Ok(());
        }
        let cells = state.kids.map(|kid| kid.cell);
        let key = (state.head, cells);
        let gone = match self.goings.get(&key) {
            Some(known) => *known,
            None => {
                let kids = cells.map(|cell| Kid { record: 0, cell });
                let before = self.codec.decode(state.head, &kids);
                let mut after = before.clone();
                nature::namespaces_go(&mut after);
                let seen = Witness { before: &before, after: &after, event: None, specs: self.specs };
                witness(&before, &seen, "the namespace goes", self.found)?;
                let (head, kids) = self.codec.encode(after);
                let gone = (head, kids.map(|kid| kid.cell));
                self.goings.insert(key, gone);
                gone
            }
        };
        let mut next = State { head: gone.0, ..*state };
        next.kids.iter_mut().zip(gone.1).for_each(|(kid, cell)| kid.cell = cell);
        let what = self.labels.number("the namespace controller makes a step".to_owned());
        all.push(Edge { maker: Maker::Cluster, what, to: self.codec.canonical(&next) });
        Ok(())
    }

    /// Time passes until the next moment at which something is decided anew.
    fn time_passes(&mut self, state: &State, all: &mut Vec<Edge>) {
        let mut next: Option<(u64, Pace)> = None;
        for kid in state.kids.iter().filter(|kid| kid.record > 0) {
            let found = self.deadlines.entry(kid.record).or_insert_with(|| {
                let record = self.codec.record(kid.record);
                let all = record.map(state::deadlines).unwrap_or_default();
                all.into_iter().filter(|(at, _)| *at > BASE).min()
            });
            next = [next, *found].into_iter().flatten().min();
        }
        let own = self.codec.heads.value(state.head).own.as_ref();
        let expiry = own.and_then(|own| own.expires_at).filter(|at| *at > BASE).map(|at| (at, Pace::Peace));
        let Some((at, pace)) = [next, expiry].into_iter().flatten().min() else { return };
        let (maker, cost) = match pace {
            Pace::Peace => (Maker::Clock, 0),
            Pace::Ailing => (Maker::Fault, 0),
            Pace::Slow => (Maker::Fault, 1),
        };
        let Some(faults) = state.budget.faults.checked_sub(cost) else { return };
        let later = self.codec.later(state, at);
        let next = State { budget: Budget { faults, ..state.budget }, ..later };
        let what = self.labels.number(format!("{} s pass", at - BASE));
        all.push(Edge { maker, what, to: self.codec.canonical(&next) });
    }
}

fn witness(before: &Cluster, seen: &Witness<'_>, what: &str, found: &mut Found) -> Result<(), Breach> {
    let mut history = history(before);
    let told = |breach: Breach| Breach { what: format!("{what}: {}", breach.what), ..breach };
    history.witness(seen).map_err(told)?;
    found.add(&history);
    Ok(())
}

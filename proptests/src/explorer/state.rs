//! A state of the bounded world as numbers, and the way to the simulated cluster and back.
//!
//! A state is in its canonical form: what no decision can tell apart is the same state. Times count from [`BASE`];
//! serials are counted anew within each component, since only their order there and the highest of all matter;
//! what is only shown (the status, the history, generations, versions) is left out.

use super::intern::Interner;
use crate::dish::{
    apply::job_name,
    cluster::{Cluster, Job, Pod, Release, Secret},
};
use petri_machines::{
    component::{self, Phase},
    environment::Record,
    job::Op,
    kernel::Timestamp,
    names::{ComponentName, JobName, Uid},
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The moment that every state is in; later than any complaint may stand.
pub const BASE: u64 = 1_000;
/// Components of a world.
pub const KIDS: usize = 3;
/// Seconds that a complaint may stand in the dish.
const POD_FAILURE_SECS: u64 = 300;
/// Serials that one component may need at once: its attempt, what was accepted, and Jobs that still go.
const SERIALS: u64 = 24;

/// How often each thing may still happen that makes a world unbounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Changes of the specification.
    pub specs: u8,
    /// Faults of Jobs, workloads, Gateways and namespaces.
    pub faults: u8,
    /// Retries that a user asks for.
    pub retries: u8,
}

/// One component: its record (0 for none) and what the cluster holds of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Kid {
    /// The number of its record, from 1.
    pub record: u32,
    /// The number of its cell.
    pub cell: u32,
}

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Everything but the components.
    pub head: u32,
    /// The components, in the order of their names.
    pub kids: [Kid; KIDS],
    /// What may still happen.
    pub budget: Budget,
}

/// What a cluster holds of one component.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Cell {
    /// Its Jobs.
    pub jobs: BTreeMap<JobName, Job>,
    /// Their Secrets.
    pub secrets: BTreeMap<JobName, Secret>,
    /// What Helm installed.
    pub release: Option<Release>,
}

/// Numbers for the parts of clusters.
#[derive(Debug)]
pub struct Codec {
    /// The names of the components.
    pub names: Vec<ComponentName>,
    /// Clusters without components.
    pub heads: Interner<Cluster>,
    records: Interner<component::Record>,
    cells: Interner<Cell>,
    jobs: FxHashMap<JobName, (usize, Op, u64)>,
    secrets: FxHashMap<Uid, (usize, Op, u64)>,
    uids: FxHashMap<Uid, (usize, Op, u64)>,
    canonical_kids: FxHashMap<(u32, u32), (Kid, u64)>,
    canonical_heads: FxHashMap<(u32, u64), u32>,
    later_records: FxHashMap<(u32, u64), u32>,
    later_heads: FxHashMap<(u32, u64), u32>,
}

fn uid(kind: &str, name: &JobName) -> Uid {
    Uid::new(format!("{kind}-{name}")).unwrap_or_else(|_| unreachable!("never empty"))
}

impl Codec {
    /// Returns a codec for components of these names.
    pub fn new(names: Vec<ComponentName>) -> Self {
        let (mut jobs, mut secrets, mut uids) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        for (at, name) in names.iter().enumerate() {
            for op in [Op::Deploy, Op::Undeploy] {
                for serial in 0..SERIALS {
                    let job = job_name(name, op, serial);
                    uids.insert(uid("job", &job), (at, op, serial));
                    secrets.insert(uid("secret", &job), (at, op, serial));
                    jobs.insert(job, (at, op, serial));
                }
            }
        }
        let mut cells = Interner::default();
        cells.number(Cell::default());
        Self {
            names,
            heads: Interner::default(),
            records: Interner::default(),
            cells,
            jobs,
            secrets,
            uids,
            canonical_kids: FxHashMap::default(),
            canonical_heads: FxHashMap::default(),
            later_records: FxHashMap::default(),
            later_heads: FxHashMap::default(),
        }
    }

    /// Returns the component that a Job works on.
    pub fn kid_of_job(&self, name: &JobName) -> Option<usize> {
        self.jobs.get(name).map(|(at, ..)| *at)
    }

    /// Returns the place of a component.
    pub fn kid_of(&self, name: &ComponentName) -> Option<usize> {
        self.names.iter().position(|one| one == name)
    }

    /// Returns a component's record.
    pub fn record(&self, number: u32) -> Option<&component::Record> {
        number.checked_sub(1).map(|number| &**self.records.value(number))
    }

    /// Returns the number of a record.
    pub fn number_record(&mut self, record: component::Record) -> u32 {
        self.records.number(record) + 1
    }

    /// Returns a component's cell.
    pub fn cell(&self, number: u32) -> &Cell {
        self.cells.value(number)
    }

    /// Takes a cluster apart. The result is not canonical yet.
    pub fn encode(&mut self, mut cluster: Cluster) -> (u32, [Kid; KIDS]) {
        let mut kids = [Kid::default(); KIDS];
        let mut cells: [Cell; KIDS] = Default::default();
        if let Some(record) = cluster.own.as_mut().and_then(|own| own.record.as_mut()) {
            for (name, child) in std::mem::take(&mut record.memory.components) {
                if let Some(at) = self.kid_of(&name) {
                    kids[at].record = self.number_record(child);
                }
            }
        }
        for space in cluster.spaces.values_mut().filter(|space| space.ours) {
            for (name, job) in std::mem::take(&mut space.jobs) {
                if let Some(at) = self.kid_of(&job.component) {
                    cells[at].jobs.insert(name, job);
                }
            }
            for (name, secret) in std::mem::take(&mut space.secrets) {
                if let Some(at) = self.kid_of_job(&name) {
                    cells[at].secrets.insert(name, secret);
                }
            }
            for (name, release) in std::mem::take(&mut space.releases) {
                if let Some(at) = self.kid_of(&name) {
                    cells[at].release = Some(release);
                }
            }
        }
        for (kid, cell) in kids.iter_mut().zip(cells) {
            kid.cell = self.cells.number(cell);
        }
        (self.number_head(cluster), kids)
    }

    /// Puts a record into a cluster; returns the numbers of both.
    pub fn store(&mut self, head: u32, mut record: Record) -> (u32, [u32; KIDS]) {
        let mut numbers = [0; KIDS];
        for (name, child) in std::mem::take(&mut record.memory.components) {
            if let Some(at) = self.kid_of(&name) {
                numbers[at] = self.number_record(child);
            }
        }
        let mut cluster = Cluster::clone(self.heads.value(head));
        if let Some(own) = &mut cluster.own {
            own.record = Some(record);
        }
        (self.number_head(cluster), numbers)
    }

    /// Returns the number of a cluster without components, without what is only shown.
    pub fn number_head(&mut self, mut cluster: Cluster) -> u32 {
        (cluster.events, cluster.lagging) = (0, None);
        if let Some(own) = &mut cluster.own {
            (own.resource_version, own.generation, own.status) = (0, 1, None);
            if let Some(record) = &mut own.record {
                record.memory.history.clear();
                record.memory.observed = 0;
            }
        }
        self.heads.number(cluster)
    }

    /// Puts a cluster together.
    pub fn decode(&self, head: u32, kids: &[Kid]) -> Cluster {
        let mut cluster = Cluster::clone(self.heads.value(head));
        for (name, kid) in self.names.iter().zip(kids) {
            let record = cluster.own.as_mut().and_then(|own| own.record.as_mut());
            if let (Some(record), Some(child)) = (record, self.record(kid.record)) {
                record.memory.components.insert(name.clone(), child.clone());
            }
            let Some(space) = cluster.spaces.values_mut().find(|space| space.ours) else { continue };
            let cell = self.cell(kid.cell);
            space.jobs.extend(cell.jobs.iter().map(|(name, job)| (name.clone(), job.clone())));
            space.secrets.extend(cell.secrets.iter().map(|(name, secret)| (name.clone(), secret.clone())));
            space.releases.extend(cell.release.iter().map(|release| (name.clone(), release.clone())));
        }
        cluster
    }

    /// Makes the canonical form.
    pub fn canonical(&mut self, state: &State) -> State {
        let mut next = *state;
        let mut highest = 0;
        for kid in &mut next.kids {
            let key = (kid.record, kid.cell);
            let known = self.canonical_kids.get(&key).copied();
            let (canonical, top) = known.unwrap_or_else(|| {
                let found = self.canonical_kid(*kid);
                self.canonical_kids.insert(key, found);
                found
            });
            *kid = canonical;
            highest = highest.max(top);
        }
        next.head = self.canonical_head(next.head, highest);
        next
    }

    fn canonical_head(&mut self, head: u32, highest: u64) -> u32 {
        if let Some(known) = self.canonical_heads.get(&(head, highest)) {
            return *known;
        }
        let mut cluster = Cluster::clone(self.heads.value(head));
        if let Some(own) = &mut cluster.own {
            own.expires_at = own.expires_at.map(|at| at.max(BASE));
            if let Some(record) = &mut own.record {
                record.memory.serial = highest;
            }
        }
        let canonical = self.number_head(cluster);
        self.canonical_heads.insert((head, highest), canonical);
        canonical
    }

    fn canonical_kid(&mut self, kid: Kid) -> (Kid, u64) {
        let mut record = self.record(kid.record).cloned();
        let mut cell = self.cell(kid.cell).clone();
        let attempt = record.as_ref().and_then(|record| record.attempt()).map(|attempt| attempt.serial);
        // A Secret without a Job, of an attempt that is over, is never looked at again.
        let current = |name: &JobName| self.jobs.get(name).map(|(_, _, serial)| *serial) == attempt;
        let Cell { jobs, secrets, .. } = &mut cell;
        secrets.retain(|name, _| jobs.contains_key(name) || current(name));
        let mut serials: Vec<u64> = cell.jobs.values().map(|job| job.serial).collect();
        serials.extend(attempt);
        serials.extend(record.as_ref().and_then(|r| r.accepted.as_ref()).map(|accepted| accepted.serial));
        serials.extend(cell.release.as_ref().map(|release| release.serial).filter(|serial| *serial > 0));
        serials.sort_unstable();
        serials.dedup();
        let rank = |serial: u64| serials.binary_search(&serial).map_or(serial, |at| at as u64 + 1);
        let cell = self.rank_cell(cell, &rank);
        if let Some(record) = &mut record {
            self.rank_record(record, &rank);
            from_base(record);
        }
        let record = record.map_or(0, |record| self.number_record(record));
        (Kid { record, cell: self.cells.number(cell) }, serials.len() as u64)
    }

    fn renamed(&self, name: &JobName, rank: &dyn Fn(u64) -> u64) -> JobName {
        let known = self.jobs.get(name);
        known.map_or_else(|| name.clone(), |(at, op, serial)| job_name(&self.names[*at], *op, rank(*serial)))
    }

    fn renamed_uid(&self, id: &Uid, rank: &dyn Fn(u64) -> u64) -> Uid {
        let name = |(at, op, serial): &(usize, Op, u64)| job_name(&self.names[*at], *op, rank(*serial));
        let job = self.uids.get(id).map(|known| uid("job", &name(known)));
        let secret = || self.secrets.get(id).map(|known| uid("secret", &name(known)));
        job.or_else(secret).unwrap_or_else(|| id.clone())
    }

    fn rank_cell(&self, cell: Cell, rank: &dyn Fn(u64) -> u64) -> Cell {
        let job = |(name, mut job): (JobName, Job)| {
            job.uid = self.renamed_uid(&job.uid, rank);
            job.serial = rank(job.serial);
            (self.renamed(&name, rank), job)
        };
        let secret = |(name, mut secret): (JobName, Secret)| {
            secret.uid = self.renamed_uid(&secret.uid, rank);
            (self.renamed(&name, rank), secret)
        };
        let release = cell.release.map(|mut release| {
            release.serial = if release.serial == 0 { 0 } else { rank(release.serial) };
            release
        });
        Cell {
            jobs: cell.jobs.into_iter().map(job).collect(),
            secrets: cell.secrets.into_iter().map(secret).collect(),
            release,
        }
    }

    fn rank_record(&self, record: &mut component::Record, rank: &dyn Fn(u64) -> u64) {
        if let Some(accepted) = &mut record.accepted {
            accepted.job = self.renamed_uid(&accepted.job, rank);
            accepted.serial = rank(accepted.serial);
        }
        if let Phase::Submitting { attempt } | Phase::Deploying { attempt } | Phase::Undeploying { attempt } =
            &mut record.phase
        {
            attempt.job = attempt.job.as_ref().map(|id| self.renamed_uid(id, rank));
            attempt.serial = rank(attempt.serial);
        }
    }

    /// Lets time pass until `at`.
    pub fn later(&mut self, state: &State, at: u64) -> State {
        let by = at - BASE;
        let mut next = *state;
        for kid in &mut next.kids {
            let key = (kid.record, by);
            let Some(record) = self.record(kid.record) else { continue };
            kid.record = match self.later_records.get(&key) {
                Some(known) => *known,
                None => {
                    let record = earlier(record.clone(), by);
                    let number = self.number_record(record);
                    self.later_records.insert(key, number);
                    number
                }
            };
        }
        let key = (state.head, by);
        next.head = match self.later_heads.get(&key) {
            Some(known) => *known,
            None => {
                let mut cluster = Cluster::clone(self.heads.value(state.head));
                if let Some(own) = &mut cluster.own {
                    own.expires_at = own.expires_at.map(|at| at.saturating_sub(by).max(BASE));
                }
                let number = self.number_head(cluster);
                self.later_heads.insert(key, number);
                number
            }
        };
        next
    }
}

/// Whether no pod works and nothing is being deleted.
pub fn is_still(cell: &Cell) -> bool {
    cell.jobs.values().all(|job| !job.deleting && job.pod != Pod::Running)
}

/// How a deadline comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// By waiting, in peace.
    Peace,
    /// By a complaint that stands, which was a fault already.
    Ailing,
    /// By a workload that is too slow: a fault of its own.
    Slow,
}

/// Returns the moments at which something about a component is decided anew.
pub fn deadlines(record: &component::Record) -> Vec<(u64, Pace)> {
    let of_phase = match &record.phase {
        Phase::Pending { not_before } => not_before.map(|at| (at.0, Pace::Peace)),
        Phase::Settling { give_up_at, .. } => Some((give_up_at.0, Pace::Slow)),
        Phase::Draining { kill_at } => Some((kill_at.0, Pace::Peace)),
        Phase::Retreating { not_before } => Some((not_before.0, Pace::Peace)),
        Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Ready
        | Phase::Failed
        | Phase::Undeploying { .. }
        | Phase::Gone { .. } => None,
    };
    let ailment = record.ailment.as_ref().and_then(|ailment| ailment.ends_at(POD_FAILURE_SECS));
    of_phase.into_iter().chain(ailment.map(|at| (at.0, Pace::Ailing))).collect()
}

/// Returns a record as it is when so many seconds have passed.
pub(super) fn earlier(mut record: component::Record, by: u64) -> component::Record {
    let back = |at: &mut Timestamp| at.0 = at.0.saturating_sub(by);
    match &mut record.phase {
        Phase::Pending { not_before } => not_before.iter_mut().for_each(back),
        Phase::Settling { give_up_at, .. } => back(give_up_at),
        Phase::Draining { kill_at } => back(kill_at),
        Phase::Retreating { not_before } => back(not_before),
        Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Ready
        | Phase::Failed
        | Phase::Undeploying { .. }
        | Phase::Gone { .. } => {}
    }
    record.ailment.iter_mut().for_each(|ailment| back(&mut ailment.since));
    record
}

/// What is past is past: how long ago makes no difference.
pub(super) fn from_base(record: &mut component::Record) {
    let past = |at: &mut Timestamp| at.0 = at.0.max(BASE);
    match &mut record.phase {
        Phase::Pending { not_before } => *not_before = not_before.filter(|at| at.0 > BASE),
        Phase::Settling { since, give_up_at } => {
            *since = Timestamp(BASE);
            past(give_up_at);
        }
        Phase::Draining { kill_at } => past(kill_at),
        Phase::Retreating { not_before } => past(not_before),
        Phase::Submitting { .. }
        | Phase::Deploying { .. }
        | Phase::Ready
        | Phase::Failed
        | Phase::Undeploying { .. }
        | Phase::Gone { .. } => {}
    }
    if let Some(ailment) = &mut record.ailment {
        ailment.since.0 = ailment.since.0.max(BASE - POD_FAILURE_SECS);
    }
}

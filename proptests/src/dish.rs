//! The dish: a simulated cluster in which the shipped loop runs, one ask at a time, under faults.
//!
//! A life is a list of [`Op`]s. The list, not a seed, is what a failure is kept as.

pub mod apply;
pub mod cluster;
pub mod feed;
pub mod nature;
pub mod observe;
pub mod pair;
pub mod replica;
pub mod server;
pub mod spec;
pub mod tell;

use crate::{
    invariants::{History, Witness},
    laws::{self, Breach, Verdict},
};
use cluster::{Cluster, Space, Specs};
use feed::Feed;
use nature::Progress;
use observe::Blind;
use petri_machines::{
    environment::Phase,
    job::JobFailure,
    kernel::cycle::Ask,
    names::{ComponentName, NamespaceName},
    reason::FailureReason,
};
use replica::{Event, Fault, Replica};
use serde::{Deserialize, Serialize};

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Op {
    /// The operator answers one ask.
    Step {
        /// What goes wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
    /// The operator finishes its cycle, or makes a whole one.
    Cycle,
    /// Everything proceeds in peace until nothing more happens.
    Settle,
    /// A pod of a component starts.
    PodStarts {
        /// Which.
        component: ComponentName,
    },
    /// A pod ends well.
    PodSucceeds {
        /// Whose.
        component: ComponentName,
    },
    /// A pod ends badly.
    PodFails {
        /// Whose.
        component: ComponentName,
        /// Why.
        reason: FailureReason,
        /// Whether the cluster took it away.
        #[serde(default)]
        disrupted: bool,
    },
    /// A workload begins or ceases to serve.
    Workload {
        /// Whose.
        component: ComponentName,
        /// Whether it serves.
        ready: bool,
    },
    /// A waiting pod of a component cannot start.
    PodComplains {
        /// Whose.
        component: ComponentName,
        /// Why.
        reason: FailureReason,
    },
    /// A pod of a workload cannot start or stay.
    WorkloadComplains {
        /// Whose.
        component: ComponentName,
        /// Why.
        reason: FailureReason,
    },
    /// Gateways cease to accept routes, or accept them.
    Gateway {
        /// Whether they do from now on.
        accepts: bool,
    },
    /// Jobs that are being deleted go, with their pods.
    DeletedJobsGo,
    /// Somebody deletes the newest Job of a component.
    JobDeletedByHand {
        /// Whose.
        component: ComponentName,
    },
    /// The namespace controller makes one step.
    NamespacesGo,
    /// Somebody deletes the workload namespace.
    NamespaceDeletedByHand,
    /// Somebody else makes a namespace with the environment's n-th name.
    ForeignNamespace {
        /// From 0.
        candidate: usize,
    },
    /// A user or a template asks for another specification.
    Spec {
        /// Its index.
        spec: usize,
    },
    /// A user asks for the same again.
    Retry {
        /// The new token.
        token: String,
    },
    /// A user holds the environment, or lets it go on.
    Hold {
        /// Whether it is held.
        held: bool,
    },
    /// A user deletes the environment.
    Delete,
    /// Time passes.
    Clock {
        /// Seconds.
        secs: u64,
    },
    /// The Job cache stops, or goes on.
    JobCache {
        /// Whether it lags from now on.
        lags: bool,
    },
    /// The watches' news so far is lost.
    MissEvents,
    /// The next observation fails in one part.
    Blind {
        /// Which.
        read: Blind,
    },
    /// The stored record is erased.
    Amnesia,
}

/// A life in a simulated cluster.
#[derive(Clone, Debug)]
pub struct Dish {
    /// The cluster.
    pub cluster: Cluster,
    /// The operator.
    pub operator: Replica,
    /// What may be asked for.
    pub specs: Specs,
    /// The oracle.
    pub history: History,
    /// Whether all laws are asked of every observation.
    pub asks_laws: bool,
    /// What the watches are told of Jobs.
    pub feed: Feed,
    stood_at: u64,
    /// What happened, for people.
    pub log: Vec<String>,
    /// Writes that changed something.
    pub writes: u64,
    /// Writes that were tried and changed nothing.
    pub idle_writes: u64,
}

impl Dish {
    /// Returns a dish with one new environment that asks for the first of `specs`.
    ///
    /// # Errors
    /// A line that is no specification.
    pub fn new(specs: &[&str], ttl_secs: Option<u64>) -> Result<Self, spec::Malformed> {
        Ok(Self {
            cluster: Cluster::new(ttl_secs),
            operator: Replica::default(),
            specs: specs.iter().map(|line| spec::parse(line)).collect::<Result<_, _>>()?,
            history: History::default(),
            asks_laws: true,
            feed: Feed::default(),
            stood_at: 0,
            log: Vec::new(),
            writes: 0,
            idle_writes: 0,
        })
    }

    /// Lets one thing happen. Returns whether it could; what cannot happen changes nothing.
    ///
    /// # Errors
    /// The law or invariant that was broken.
    pub fn run(&mut self, op: &Op) -> Result<bool, Breach> {
        match op {
            Op::Step { fault } => self.step(*fault).map(|()| true),
            Op::Cycle => self.cycle().map(|()| true),
            Op::Settle => self.settle().map(|()| true),
            _ => {
                if *op == (Op::JobCache { lags: false }) {
                    self.catches_up()?;
                }
                let before = self.cluster.clone();
                let happened = self.happen(op);
                if happened {
                    self.log.push(format!("{:>6}s  {}", self.cluster.now, tell::op(op)));
                }
                self.witness(&before, None)?;
                Ok(happened)
            }
        }
    }

    fn step(&mut self, fault: Option<Fault>) -> Verdict {
        let before = self.cluster.clone();
        let event = self.operator.step(&mut self.cluster, &self.specs, fault);
        self.count(&event);
        if let Some(line) = tell::event(&event, fault) {
            self.log.push(format!("{:>6}s    operator {line}", self.cluster.now));
        }
        if let (Event::Observed(seen), true) = (&event, self.asks_laws) {
            laws::environment::all(&seen.0, &seen.1)?;
        }
        if let (false, Some(done)) = (self.operator.is_running(), self.operator.last.take()) {
            self.history.ended(&done)?;
            self.operator.last = Some(done);
        }
        self.witness(&before, Some(&event))
    }

    fn cycle(&mut self) -> Verdict {
        self.step(None)?;
        while self.operator.is_running() {
            self.step(None)?;
        }
        Ok(())
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Stored(_) => self.writes += 1,
            Event::Applied(_, _, Ok(true)) => self.writes += 1,
            Event::Applied(..) => self.idle_writes += 1,
            Event::Read | Event::Observed(_) | Event::Notified(_) | Event::Crashed => {}
        }
    }

    fn witness(&mut self, before: &Cluster, event: Option<&Event>) -> Verdict {
        if self.cluster.lagging.is_some() {
            self.feed.note(&before.jobs(), &self.cluster.jobs());
        }
        self.history.witness(&Witness { before, after: &self.cluster, event, specs: &self.specs })
    }

    /// The watch that stood still goes on where it stood, or lists anew when the server has forgotten that.
    fn catches_up(&mut self) -> Verdict {
        let Some(mut list) = self.cluster.lagging.clone() else { return Ok(()) };
        let Ok(news) = self.feed.since(self.stood_at) else { return Ok(()) };
        feed::apply(&mut list, news);
        self.history.a_watch_comes_to_what_a_list_shows(&list, self.cluster.jobs())
    }

    fn happen(&mut self, op: &Op) -> bool {
        let cluster = &mut self.cluster;
        match op {
            Op::Step { .. } | Op::Cycle | Op::Settle => false,
            Op::PodStarts { component } => nature::pod_starts(cluster, component),
            Op::PodSucceeds { component } => self.pod_ends(component, None),
            Op::PodFails { component, reason, disrupted } => {
                let failure =
                    JobFailure { reason: *reason, message: "it broke".to_owned(), disrupted: *disrupted };
                self.pod_ends(component, Some(failure))
            }
            Op::Workload { component, ready } => nature::workload(cluster, component, *ready),
            Op::PodComplains { component, reason } => nature::pod_complains(cluster, component, *reason),
            Op::WorkloadComplains { component, reason } => {
                nature::workload_complains(cluster, component, *reason)
            }
            Op::Gateway { accepts } => std::mem::replace(&mut cluster.gateway_down, !accepts) == *accepts,
            Op::DeletedJobsGo => nature::deleted_jobs_go(cluster),
            Op::JobDeletedByHand { component } => nature::job_deleted_by_hand(cluster, component),
            Op::NamespacesGo => nature::namespaces_go(cluster),
            Op::NamespaceDeletedByHand => {
                let space = cluster.spaces.values_mut().find(|space| space.ours && !space.terminating);
                space.map(|space| space.terminating = true).map(|()| cluster.changed()).is_some()
            }
            Op::ForeignNamespace { candidate } => foreign(cluster, *candidate),
            Op::Clock { secs } => {
                cluster.now += secs;
                true
            }
            Op::JobCache { lags } => {
                let was = cluster.lagging.take();
                cluster.lagging = lags.then(|| cluster.jobs());
                self.stood_at = self.feed.version();
                cluster.changed();
                was.is_some() != *lags
            }
            Op::MissEvents => {
                self.operator.misses_events(cluster);
                true
            }
            Op::Blind { read } => {
                self.operator.blind = Some(*read);
                true
            }
            Op::Spec { .. } | Op::Retry { .. } | Op::Hold { .. } | Op::Delete | Op::Amnesia => {
                user(cluster, &self.specs, op)
            }
        }
    }

    fn pod_ends(&mut self, component: &ComponentName, failure: Option<JobFailure>) -> bool {
        let outcome = nature::pod_ends(&mut self.cluster, component, failure);
        let happened = outcome.is_some();
        self.history.outcomes.extend(outcome);
        happened
    }

    /// Ends all faults, lets everything proceed, and waits until nothing more happens.
    ///
    /// # Errors
    /// A broken law, or that it did not come to rest within the bound.
    pub fn settle(&mut self) -> Verdict {
        const ROUNDS_MAX: usize = 4_000;
        self.catches_up()?;
        (self.cluster.lagging, self.cluster.gateway_down) = (None, false);
        self.cluster.changed();
        for _ in 0..ROUNDS_MAX {
            if self.operator.is_told(&self.cluster) {
                self.cycle()?;
                continue;
            }
            if self.progress()? {
                continue;
            }
            if self.is_at_rest() {
                return Ok(());
            }
            self.pass_time();
        }
        Err(Breach {
            law: "converges",
            what: format!("no rest within {ROUNDS_MAX} rounds: {:?}", self.cluster.own),
        })
    }

    /// Lets one thing happen that happens by itself. Returns whether anything did.
    ///
    /// # Errors
    /// The invariant that was broken.
    pub fn progress(&mut self) -> Result<bool, Breach> {
        let before = self.cluster.clone();
        let Some(progress) = nature::quiet_progress(&mut self.cluster) else {
            return Ok(false);
        };
        self.log.push(format!("{:>6}s  cluster: {}", self.cluster.now, tell::progress(&progress)));
        if let Progress::Ended(outcome) = progress {
            self.history.outcomes.push(outcome);
        }
        self.witness(&before, None)?;
        Ok(true)
    }

    /// Nothing happens by itself: time passes until the operator wants to look.
    pub fn pass_time(&mut self) {
        self.cluster.now = self.operator.due.unwrap_or(0).max(self.cluster.now + 1);
    }

    /// Whether the environment is as asked for, has failed with nothing under way, is held, or is gone.
    pub fn is_at_rest(&self) -> bool {
        let Some(own) = &self.cluster.own else {
            return self.cluster.spaces.values().all(|space| !space.ours);
        };
        let Some(record) = &own.record else {
            return false;
        };
        if own.deletion {
            return own.held;
        }
        match &record.phase {
            Phase::Ready { plan } => {
                matches!(self.specs.get(own.spec), Some(Ok(wanted)) if wanted.digest == *plan)
            }
            // What one component's failure leaves behind of the others still drains and leaves.
            Phase::Failed { .. } => !self.operator.waits(),
            Phase::Pending | Phase::Deploying { .. } | Phase::Terminating { .. } => false,
        }
    }

    /// Looks on for an hour in which nothing happens, and refuses any write. An expiry ends the hour.
    ///
    /// # Errors
    /// The write.
    pub fn stay_silent(&mut self) -> Verdict {
        let until = self.cluster.now + 3600;
        while self.cluster.now < until && self.cluster.own.as_ref().is_none_or(|own| own.expires_at.is_none())
        {
            self.cluster.now += replica::RESYNC_SECS;
            loop {
                let writes = matches!(self.operator.pending(), Some(Ask::Store { .. } | Ask::Apply(_)));
                laws::require("idle means silent", !writes, || format!("{:?}", self.operator.pending()))?;
                self.step(None)?;
                if !self.operator.is_running() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn foreign(cluster: &mut Cluster, candidate: usize) -> bool {
    let Some(name) = NamespaceName::candidates(&Cluster::owner()).into_iter().nth(candidate) else {
        return false;
    };
    if cluster.spaces.contains_key(&name) {
        return false;
    }
    let uid = cluster.fresh_uid("foreign");
    cluster.spaces.insert(name, Space::new(uid, false));
    cluster.changed();
    true
}

/// Changes the own object from outside. Returns whether that changed anything.
pub fn user(cluster: &mut Cluster, specs: &Specs, op: &Op) -> bool {
    let Some(own) = cluster.own.as_mut() else {
        return false;
    };
    let before = own.clone();
    match op {
        Op::Spec { spec } if *spec < specs.len() && *spec != own.spec => {
            own.spec = *spec;
            own.generation += 1;
        }
        Op::Retry { token } => own.retry = Some(token.clone()),
        Op::Hold { held } => own.held = *held,
        Op::Delete => own.generation += i64::from(!std::mem::replace(&mut own.deletion, true)),
        Op::Amnesia => (own.record, own.status) = (None, None),
        _ => return false,
    }
    if *own == before {
        return false;
    }
    own.resource_version += 1;
    if own.deletion && !own.finalizer {
        cluster.own = None;
    }
    cluster.changed();
    true
}

//! The traces of environments and shared components: one for each generation. What the machine decided is told by its
//! record and its notices; it knows nothing of spans.
//!
//! ```text
//! deploy environment                       the generation, until it is ready or failed
//! ├─ reconcile                             a pass that did something
//! │  ├─ observe, store
//! │  └─ create jobs                        one API write
//! │     ├─ provision job                   a script's, in the shared namespace
//! │     └─ deploy job                      until its outcome was accepted; linked to the attempt before
//! │        └─ deployer                     the deployer's own: locate chart, read history, helm, write inventory
//! └─ readiness                             from the accepted outcome until the component was ready
//! ```
//!
//! The ids of the trace, of its root and of Jobs are derived, so a restarted operator goes on with the same ones; what
//! it forgets is fractions of seconds, and the write that a Job came from.

mod pass;
mod subject;

pub(super) use pass::{JobOf, Spans};
pub(super) use subject::{Subject, Told};

use crate::{
    controller::Key,
    telemetry::trace::{self, Span, Tracer},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use opentelemetry::trace::{SpanContext, SpanId};
use opentelemetry_semantic_conventions::attribute::{K8S_JOB_NAME, K8S_NAMESPACE_NAME};
use petri_crds::meta::ANNOTATION_TRACEPARENT;
use petri_machines::{
    job::Op,
    names::{ComponentName, JobName},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

/// Times of objects are whole seconds: an object that is younger than this is taken to be as old as its first pass.
const CREATED_JUST_NOW: Duration = Duration::from_secs(2);

/// What is under way at each object.
pub(super) struct Trails {
    tracer: Tracer,
    open: Mutex<HashMap<Key, Trail>>,
}

/// What one object's generation has begun.
#[derive(Clone, Debug)]
struct Trail {
    generation: i64,
    root: SpanContext,
    /// The caller's span, if the object was made by one.
    parent: Option<SpanContext>,
    /// The root of an earlier rollout of the same generation.
    earlier: Option<SpanContext>,
    began: SystemTime,
    is_over: bool,
    jobs: BTreeMap<ComponentName, JobSpan>,
    /// The last failed attempt of each component.
    failed: BTreeMap<ComponentName, SpanContext>,
    settling: BTreeMap<ComponentName, (SystemTime, SpanContext)>,
}

/// A Job that runs.
#[derive(Clone, Debug)]
struct JobSpan {
    name: JobName,
    op: Op,
    /// Where it is: a slice's Jobs are not where its environment is.
    namespace: Option<String>,
    place: SpanContext,
    parent: SpanId,
    began: SystemTime,
}

impl Trails {
    pub(super) fn new(tracer: Tracer) -> Self {
        Self { tracer, open: Mutex::default() }
    }

    /// Begins or goes on with the trail of an object as it was read from `now` on; returns the place of its root.
    fn found(&self, key: &Key, own: &ObjectMeta, subject: &Subject, now: SystemTime) -> SpanContext {
        let mut open = self.lock();
        if let Some(trail) = open.get(key)
            && trail.generation == subject.generation
        {
            return trail.root.clone();
        }
        let annotations = own.annotations.as_ref();
        let parent = annotations.and_then(|all| trace::parse(all.get(ANNOTATION_TRACEPARENT)?));
        let id = parent.as_ref().map(SpanContext::trace_id);
        let id = id.unwrap_or_else(|| trace::trace_id(&subject.uid, subject.generation));
        let sampled = match &parent {
            Some(parent) => self.tracer.is_on() && parent.is_sampled(),
            None => self.tracer.samples(id),
        };
        let mut trail = Trail {
            generation: subject.generation,
            root: root(id, subject, sampled),
            parent,
            earlier: None,
            began: began(own, subject, now),
            is_over: subject.rest.is_some() && subject.observed >= subject.generation,
            jobs: BTreeMap::new(),
            failed: BTreeMap::new(),
            settling: BTreeMap::new(),
        };
        if let Some(before) = open.remove(key) {
            self.close(&before, subject, "superseded", None);
            trail.earlier = Some(before.root);
            trail.began = now;
            (trail.jobs, trail.failed, trail.settling) = (before.jobs, before.failed, before.settling);
        }
        let place = trail.root.clone();
        open.insert(key.clone(), trail);
        place
    }

    /// A record was stored: what rested may have begun anew, for a retry or because an input changed.
    fn stored(&self, key: &Key, subject: &Subject) -> Option<SpanContext> {
        let mut open = self.lock();
        let trail = open.get_mut(key)?;
        if trail.is_over && subject.rest.is_none() {
            let (id, sampled) = (trail.root.trace_id(), trail.root.is_sampled());
            let anew = match subject.rollout {
                Some(_) => root(id, subject, sampled),
                // No beginning is stored that could tell two rollouts of one generation apart.
                None => trace::place(id, trace::fresh(id), sampled),
            };
            trail.earlier = Some(std::mem::replace(&mut trail.root, anew));
            trail.began = trace::now();
            trail.is_over = false;
        }
        Some(trail.root.clone())
    }

    /// Ends the trail when the record rests.
    fn ended(&self, key: &Key, subject: &Subject) {
        if let Some((outcome, why)) = subject.rest {
            self.over(key, subject, outcome, why);
        }
    }

    fn over(&self, key: &Key, subject: &Subject, outcome: &'static str, why: Option<&'static str>) {
        if let Some(trail) = self.lock().get_mut(key) {
            self.close(trail, subject, outcome, why);
            trail.is_over = true;
        }
    }

    fn close(&self, trail: &Trail, subject: &Subject, outcome: &'static str, why: Option<&'static str>) {
        if trail.is_over {
            return;
        }
        let now = trace::now();
        let name = subject.root_name(subject.leaves && outcome != "superseded");
        let parent = trail.parent.as_ref().map_or(SpanId::INVALID, SpanContext::span_id);
        let [name_key, uid_key, generation_key] = subject.keys();
        let mut span = Span::new(name, &trail.root, parent, trail.began, now)
            .with(name_key, &subject.name)
            .with(uid_key, &subject.uid)
            .with(generation_key, trail.generation)
            .with("petri.outcome", outcome)
            .event(outcome, now)
            .linked(trail.earlier.clone())
            .failed(why);
        if let Some(namespace) = &subject.namespace {
            span = span.with(K8S_NAMESPACE_NAME, namespace);
        }
        self.tracer.emit(span);
    }

    /// A Job was created by the write at `parent`.
    fn created(&self, key: &Key, component: &ComponentName, job: JobSpan) {
        if let Some(trail) = self.lock().get_mut(key) {
            trail.jobs.entry(component.clone()).or_insert(job);
        }
    }

    /// The outcome of a Job was accepted at `at`.
    fn job_ended(
        &self,
        key: &Key,
        component: &ComponentName,
        unseen: impl FnOnce(&SpanContext) -> Option<JobSpan>,
        failure: Option<&'static str>,
        at: SystemTime,
    ) {
        let mut open = self.lock();
        let Some(trail) = open.get_mut(key) else { return };
        let Some(job) = taken(&mut trail.jobs, component).or_else(|| unseen(&trail.root)) else { return };
        let name = match job.op {
            Op::Deploy => "deploy job",
            Op::Undeploy => "undeploy job",
            Op::Provision => "provision job",
            Op::Deprovision => "deprovision job",
        };
        let mut span = Span::new(name, &job.place, job.parent, job.began, at)
            .with(K8S_JOB_NAME, &job.name)
            .with("petri.component", component)
            .linked(taken(&mut trail.failed, component))
            .failed(failure);
        if let Some(namespace) = &job.namespace {
            span = span.with(K8S_NAMESPACE_NAME, namespace);
        }
        self.tracer.emit(span);
        if failure.is_some() {
            trail.failed.insert(component.clone(), job.place);
        } else if job.op == Op::Deploy {
            trail.settling.insert(component.clone(), (at, job.place));
        }
    }

    /// A component is ready, or was given up on while it became so.
    fn settled(&self, key: &Key, component: &ComponentName, failure: Option<&'static str>, at: SystemTime) {
        let mut open = self.lock();
        let Some(trail) = open.get_mut(key) else { return };
        let Some((began, job)) = taken(&mut trail.settling, component) else { return };
        let id = job.trace_id();
        let place = trace::place(id, trace::fresh(id), job.is_sampled());
        let parent = if id == trail.root.trace_id() { trail.root.span_id() } else { job.span_id() };
        let span = Span::new("readiness", &place, parent, began, at).with("petri.component", component);
        self.tracer.emit(span.linked(Some(job)).failed(failure));
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&self, key: &Key) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Trail>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes an entry out. A map that becomes empty keeps its node, which is larger than all else of a trail that rests: it
/// goes, too.
fn taken<T>(map: &mut BTreeMap<ComponentName, T>, component: &ComponentName) -> Option<T> {
    let taken = map.remove(component);
    if map.is_empty() {
        *map = BTreeMap::new();
    }
    taken
}

/// The first rollout of a life has no beginning to be told by: until there are two, the root is the generation's.
fn root(id: opentelemetry::trace::TraceId, subject: &Subject, sampled: bool) -> SpanContext {
    let rollout = subject.rollout.unwrap_or_default();
    let what = format!("{} {} {rollout}", subject.uid, subject.generation);
    trace::place(id, trace::derived(id, &what), sampled)
}

/// When a generation began that this process sees for the first time.
fn began(own: &ObjectMeta, subject: &Subject, now: SystemTime) -> SystemTime {
    let rollout = subject.begun.map(|at| SystemTime::UNIX_EPOCH + Duration::from_secs(at));
    let is_first = own.generation == Some(1);
    let created = own.creation_timestamp.as_ref().filter(|_| is_first).map(|at| at.0.into());
    let began = created.or(rollout).unwrap_or(now);
    if now.duration_since(began).is_ok_and(|age| age > CREATED_JUST_NOW) { began } else { now }
}

#[cfg(test)]
mod tests;

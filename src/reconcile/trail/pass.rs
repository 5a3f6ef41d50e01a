//! The spans of one pass. A pass that did nothing leaves none: an idle environment is not told of.

use super::{JobSpan, Trails};
use crate::{
    controller::{Key, Requeue},
    render::{Effect, Write},
    telemetry::trace::{self, Span},
};
use opentelemetry::trace::{SpanContext, SpanId, TraceId};
use opentelemetry_semantic_conventions::attribute::{K8S_JOB_NAME, K8S_NAMESPACE_NAME};
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    component,
    environment::{Cleanup, Command, Identity, Notice, Record},
    job::Op,
    names::{ComponentName, JobName},
};
use std::time::SystemTime;

/// Gathers what one pass has to tell.
pub(in crate::reconcile) struct Spans<'a> {
    trails: &'a Trails,
    key: &'a Key,
    began: SystemTime,
    root: SpanContext,
    step: SpanContext,
    /// The record that was found, for Jobs that an earlier process made.
    before: Record,
    made: Vec<Span>,
}

/// What a command creates a Job for.
pub(in crate::reconcile) struct JobOf<'a> {
    component: &'a ComponentName,
    op: Op,
    name: JobName,
}

/// Tells whether a command creates a Job.
pub(in crate::reconcile) fn job_of<'a>(command: &'a Command, identity: &Identity) -> Option<JobOf<'a>> {
    let (component, op, serial) = match command {
        Command::CreateJob { component, serial, .. } => (component, Op::Deploy, *serial),
        Command::Cleanup(Cleanup::CreateUndeployJob { component, serial, .. }) => {
            (component, Op::Undeploy, *serial)
        }
        _ => return None,
    };
    let name = JobName::of(&identity.uid, &identity.name, component, op, serial);
    Some(JobOf { component, op, name })
}

impl<'a> Spans<'a> {
    /// Begins with the object as it was read at `began`.
    pub(in crate::reconcile) fn new(
        trails: &'a Trails,
        key: &'a Key,
        own: &EphemeralEnvironment,
        identity: &Identity,
        record: &Record,
        began: SystemTime,
    ) -> Self {
        let root = trails.found(key, own, identity, record, began);
        let step = trace::place(root.trace_id(), trace::fresh(root.trace_id()), root.is_sampled());
        let mut spans = Self { trails, key, began, root, step, before: record.clone(), made: Vec::new() };
        spans.done("read", began, None);
        spans
    }

    /// Gives the place of the pass.
    pub(in crate::reconcile) fn step(&self) -> &SpanContext {
        &self.step
    }

    /// Gives the trace, if it can be looked up.
    pub(in crate::reconcile) fn sampled(&self) -> Option<TraceId> {
        self.step.is_sampled().then(|| self.step.trace_id())
    }

    /// Tells of something that began at `began` and has ended now.
    pub(in crate::reconcile) fn done(
        &mut self,
        name: &'static str,
        began: SystemTime,
        why: Option<&'static str>,
    ) {
        if self.step.is_sampled() {
            let span = self.child(name.into(), began).failed(why);
            self.made.push(span);
        }
    }

    /// A record was stored.
    pub(in crate::reconcile) fn stored(&mut self, identity: &Identity, record: &Record) {
        if let Some(root) = self.trails.stored(self.key, identity, record) {
            self.root = root;
        }
    }

    /// Gives what a Job gets to know: the place of its own span.
    pub(in crate::reconcile) fn traceparent(&self, job: &JobOf<'_>) -> String {
        trace::traceparent(&self.job_place(&job.name))
    }

    /// Tells of one API write.
    pub(in crate::reconcile) fn wrote(
        &mut self,
        effect: &Effect,
        job: Option<&JobOf<'_>>,
        began: SystemTime,
        why: Option<&'static str>,
    ) {
        if !self.step.is_sampled() {
            return;
        }
        let (verb, target) = match &effect.write {
            Write::Create { target, .. } => ("create", target),
            Write::Upsert { target, .. } | Write::Replace { target, .. } | Write::Status { target, .. } => {
                ("update", target)
            }
            Write::Patch { target, .. } | Write::Finalizers { target, .. } => ("patch", target),
            Write::Delete { target, .. } => ("delete", target),
        };
        let name = format!("{verb} {}", target.resource.api().plural);
        let mut span = self.child(name.into(), began).client().failed(why);
        if let Some(namespace) = &target.namespace {
            span = span.with(K8S_NAMESPACE_NAME, namespace);
        }
        span = match job {
            Some(job) => span.with(K8S_JOB_NAME, &job.name).with("petri.component", job.component),
            None => span.with("petri.object.name", &target.name),
        };
        if let (Some(job), None) = (job, why) {
            let place = self.job_place(&job.name);
            let parent = span.id();
            let job_span = JobSpan { name: job.name.clone(), op: job.op, place, parent, began: trace::now() };
            self.trails.created(self.key, job.component, job_span);
        }
        self.made.push(span);
    }

    /// Tells what the machine's notices say of Jobs and components.
    pub(in crate::reconcile) fn noticed(
        &self,
        notices: &[Notice],
        identity: &Identity,
        record: &Record,
        created: impl Fn(&JobName) -> Option<SystemTime>,
    ) {
        for notice in notices {
            let Notice::Component { component, notice } = notice else { continue };
            match notice {
                component::Notice::JobEnded { op, failure } => {
                    let why = failure.map(|reason| reason.as_str());
                    let unseen = |root: &SpanContext| self.unseen(component, *op, identity, root, &created);
                    self.trails.job_ended(self.key, component, unseen, why, record, self.began);
                }
                component::Notice::Moved { from: "Settling", to } => {
                    let why = (*to != "Ready").then_some("not ready");
                    self.trails.settled(self.key, component, why, self.began);
                }
                _ => {}
            }
        }
    }

    /// The Job of an earlier process: its name by the attempt that was recorded, its age by the object.
    fn unseen(
        &self,
        component: &ComponentName,
        op: Op,
        identity: &Identity,
        root: &SpanContext,
        created: &impl Fn(&JobName) -> Option<SystemTime>,
    ) -> Option<JobSpan> {
        let serial = self.before.memory.components.get(component)?.attempt()?.serial;
        let name = JobName::of(&identity.uid, &identity.name, component, op, serial);
        let began = created(&name)?;
        Some(JobSpan { place: self.job_place(&name), name, op, parent: root.span_id(), began })
    }

    /// Ends the pass; hands over all it has to tell, if it did anything or failed.
    pub(in crate::reconcile) fn end(
        self,
        identity: &Identity,
        record: &Record,
        gone: bool,
        requeue: Requeue,
    ) -> Requeue {
        if !requeue.worked && requeue.error.is_none() {
            return requeue;
        }
        let trace = self.sampled();
        let span = Span::new("reconcile", &self.step, self.root.span_id(), self.began, trace::now())
            .with("petri.environment.name", &identity.name)
            .with("petri.phase.before", self.before.phase.name())
            .with("petri.phase.after", record.phase.name())
            .failed(requeue.error);
        self.trails.tracer.emit(span);
        self.made.into_iter().for_each(|span| self.trails.tracer.emit(span));
        if gone {
            self.trails.over(self.key, identity, record, "gone", None);
        } else {
            self.trails.ended(self.key, identity, record);
        }
        Requeue { trace, ..requeue }
    }

    fn child(&self, name: std::borrow::Cow<'static, str>, began: SystemTime) -> Span {
        let id = self.step.trace_id();
        let place = trace::place(id, trace::fresh(id), self.step.is_sampled());
        Span::new(name, &place, self.step.span_id(), began, trace::now())
    }

    fn job_place(&self, name: &JobName) -> SpanContext {
        let id = self.root.trace_id();
        let span: SpanId = trace::derived(id, name.as_str());
        trace::place(id, span, self.root.is_sampled())
    }
}

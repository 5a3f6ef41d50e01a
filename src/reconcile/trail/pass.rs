//! The spans of one pass. A pass that did nothing leaves none: an idle environment is not told of.

use super::{JobSpan, Subject, Told, Trails};
use crate::{
    controller::{Key, Requeue},
    render::{Effect, Write},
    telemetry::trace::{self, Span},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use opentelemetry::trace::{SpanContext, SpanId, TraceId};
use opentelemetry_semantic_conventions::attribute::{K8S_JOB_NAME, K8S_NAMESPACE_NAME};
use petri_machines::{
    environment::{Cleanup, Command, Identity, Sharing, Unsharing},
    job::Op,
    names::{ComponentName, JobName},
    shared,
};
use std::time::SystemTime;

/// Gathers what one pass has to tell.
pub(in crate::reconcile) struct Spans<'a> {
    trails: &'a Trails,
    key: &'a Key,
    began: SystemTime,
    root: SpanContext,
    step: SpanContext,
    /// The object as it was found, for Jobs that an earlier process made.
    before: Subject,
    made: Vec<Span>,
}

/// What a command creates a Job for.
pub(in crate::reconcile) struct JobOf<'a> {
    component: &'a ComponentName,
    op: Op,
    name: JobName,
}

impl<'a> JobOf<'a> {
    /// Tells whether a command of an environment creates a Job.
    pub(in crate::reconcile) fn environment(command: &'a Command, identity: &Identity) -> Option<Self> {
        let (component, op, serial) = match command {
            Command::CreateJob { component, serial, .. } => (component, Op::Deploy, *serial),
            Command::Share(Sharing::CreateProvisionJob { component, serial }) => {
                (component, Op::Provision, *serial)
            }
            Command::Cleanup(Cleanup::CreateUndeployJob { component, serial, .. }) => {
                (component, Op::Undeploy, *serial)
            }
            Command::Cleanup(Cleanup::Unshare(Unsharing::CreateDeprovisionJob { component, serial })) => {
                (component, Op::Deprovision, *serial)
            }
            _ => return None,
        };
        Some(Self::new(component, op, serial, identity))
    }

    /// Tells whether a command of a shared component creates a Job.
    pub(in crate::reconcile) fn shared(
        command: &shared::Command,
        component: &'a ComponentName,
        identity: &Identity,
    ) -> Option<Self> {
        let (op, serial) = match command {
            shared::Command::CreateJob { serial } => (Op::Deploy, *serial),
            shared::Command::Cleanup(shared::Cleanup::CreateUndeployJob { serial }) => {
                (Op::Undeploy, *serial)
            }
            _ => return None,
        };
        Some(Self::new(component, op, serial, identity))
    }

    fn new(component: &'a ComponentName, op: Op, serial: u64, identity: &Identity) -> Self {
        let name = JobName::of(&identity.uid, &identity.name, component, op, serial);
        Self { component, op, name }
    }
}

impl<'a> Spans<'a> {
    /// Begins with the object as it was read at `began`.
    pub(in crate::reconcile) fn new(
        trails: &'a Trails,
        key: &'a Key,
        own: &ObjectMeta,
        subject: Subject,
        began: SystemTime,
    ) -> Self {
        let root = trails.found(key, own, &subject, began);
        let step = trace::place(root.trace_id(), trace::fresh(root.trace_id()), root.is_sampled());
        let here = tracing::Span::current();
        here.record("trace_id", tracing::field::display(step.trace_id()));
        here.record("span_id", tracing::field::display(step.span_id()));
        let mut spans = Self { trails, key, began, root, step, before: subject, made: Vec::new() };
        spans.done("read", began, None);
        spans
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
    pub(in crate::reconcile) fn stored(&mut self, subject: &Subject) {
        if let Some(root) = self.trails.stored(self.key, subject) {
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
            let (name, namespace) = (job.name.clone(), target.namespace.clone());
            let job_span =
                JobSpan { name, op: job.op, namespace, place, parent: span.id(), began: trace::now() };
            self.trails.created(self.key, job.component, job_span);
        }
        self.made.push(span);
    }

    /// Tells what the machine's notices say of Jobs and components; `found` knows since when a Job stands, and where.
    pub(in crate::reconcile) fn noticed<'t>(
        &self,
        notices: impl Iterator<Item = Told<'t>>,
        found: impl Fn(&JobName) -> Option<(SystemTime, String)>,
    ) {
        for told in notices {
            match told {
                Told::JobEnded { component, op, failure } => {
                    let why = failure.map(|reason| reason.as_str());
                    let unseen = |root: &SpanContext| self.unseen(component, op, root, &found);
                    self.trails.job_ended(self.key, component, unseen, why, self.began);
                }
                Told::Settled { component, ready } => {
                    let why = (!ready).then_some("not ready");
                    self.trails.settled(self.key, component, why, self.began);
                }
            }
        }
    }

    /// The Job of an earlier process: its name by the attempt that was recorded, its age by the object.
    fn unseen(
        &self,
        component: &ComponentName,
        op: Op,
        root: &SpanContext,
        found: &impl Fn(&JobName) -> Option<(SystemTime, String)>,
    ) -> Option<JobSpan> {
        let serial = *self.before.serials.get(component)?;
        let name = JobName::of(&self.before.uid, &self.before.name, component, op, serial);
        let (began, namespace) = found(&name)?;
        let (place, parent) = (self.job_place(&name), root.span_id());
        Some(JobSpan { place, name, op, namespace: Some(namespace), parent, began })
    }

    /// Ends the pass; hands over all it has to tell, if it did anything or failed.
    pub(in crate::reconcile) fn end(self, subject: &Subject, gone: bool, requeue: Requeue) -> Requeue {
        if !requeue.worked && requeue.error.is_none() {
            return requeue;
        }
        let trace = self.sampled();
        let [name_key, ..] = subject.keys();
        let span = Span::new("reconcile", &self.step, self.root.span_id(), self.began, trace::now())
            .with(name_key, &subject.name)
            .with("petri.phase.before", self.before.phase)
            .with("petri.phase.after", subject.phase)
            .failed(requeue.error);
        self.trails.tracer.emit(span);
        self.made.into_iter().for_each(|span| self.trails.tracer.emit(span));
        if gone {
            self.trails.over(self.key, subject, "gone", None);
        } else {
            self.trails.ended(self.key, subject);
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

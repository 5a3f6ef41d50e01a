use super::*;
use crate::{
    controller::Requeue,
    render::{Effect, Resource, Target, Write},
    telemetry::{
        metrics::Metrics,
        trace::{Source, receiver::Receiver},
    },
};
use opentelemetry_proto::tonic::trace::v1::Span as Received;
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    component,
    environment::{Cleanup, Command, Identity, NamespaceRef, Notice, Record, Sharing, Unsharing},
    names::{EnvironmentName, NamespaceName, Uid},
    reason::FailureReason,
    shared, slice,
};
use serde_json::json;

/// One environment and what is told of it.
struct Stage {
    receiver: Receiver,
    tracer: Tracer,
    trails: Trails,
    own: EphemeralEnvironment,
    identity: Identity,
}

impl Stage {
    async fn new() -> Self {
        let receiver = Receiver::default();
        let endpoint = receiver.start().await;
        let tracer = Tracer::start(&endpoint, 100, Source::default(), Metrics::default()).unwrap();
        let own =
            json!({"metadata": {"name": "pr-7", "uid": "env", "generation": 1}, "spec": {"template": "t"}});
        Self {
            receiver,
            trails: Trails::new(tracer.clone()),
            tracer,
            own: serde_json::from_value(own).unwrap(),
            identity: Identity {
                uid: Uid::new("env").unwrap(),
                name: EnvironmentName::new("pr-7").unwrap(),
                generation: 1,
            },
        }
    }

    /// One pass that stores a record, creates a Job, and has something to say.
    fn pass(&self, before: &Record, record: &Record, command: Option<&Command>, notices: &[Notice]) {
        let key = Key::environment("pr-7");
        let Self { trails, own, identity, .. } = self;
        let before = Subject::environment(identity, before);
        let after = Subject::environment(identity, record);
        let mut spans = Spans::new(trails, &key, &own.metadata, before, trace::now());
        spans.stored(&after);
        if let Some(command) = command {
            let job = JobOf::environment(command, identity).unwrap();
            spans.wrote(&effect(), Some(&job), trace::now(), None);
        }
        spans.noticed(notices.iter().filter_map(Told::environment), |_| None);
        let _ = spans.end(&after, false, Requeue::settled().worked());
    }

    async fn received(&self) -> Vec<Received> {
        self.tracer.flush(Duration::from_secs(5)).await;
        self.receiver.spans()
    }
}

fn component() -> ComponentName {
    ComponentName::new("api").unwrap()
}

fn create_job(serial: u64) -> Command {
    let name = NamespaceName::new("petri-env-0123abcd").unwrap();
    let namespace = NamespaceRef { name, uid: Uid::new("ns").unwrap() };
    Command::CreateJob { namespace, component: component(), serial }
}

fn effect() -> Effect {
    let target = Target {
        resource: Resource::Job,
        namespace: Some("petri-env-0123abcd".to_owned()),
        name: "j".to_owned(),
    };
    let write =
        Write::Delete { target, uid: Uid::new("x").unwrap(), resource_version: None, foreground: false };
    Effect { guard: None, alone: None, write, grants: None }
}

fn record(phase: serde_json::Value, rollouts: &[u64]) -> Record {
    let history: Vec<_> = rollouts.iter().map(|at| json!({"plan": "p", "startedAt": at})).collect();
    serde_json::from_value(json!({"phase": phase, "observed": 1, "history": history})).unwrap()
}

fn deploying() -> Record {
    record(json!({"name": "Deploying", "plan": "p"}), &[5])
}

fn ready() -> Record {
    record(json!({"name": "Ready", "plan": "p"}), &[5])
}

fn ended(failure: Option<FailureReason>) -> Notice {
    let notice = component::Notice::JobEnded { op: Op::Deploy, failure };
    Notice::Component { component: component(), notice }
}

fn became_ready() -> Notice {
    let notice = component::Notice::Moved { from: "Settling", to: "Ready" };
    Notice::Component { component: component(), notice }
}

fn named<'a>(spans: &'a [Received], name: &str) -> Vec<&'a Received> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn a_deploy_is_one_tree_from_the_generation_to_readiness_and_a_retry_links_to_what_failed() {
    let stage = Stage::new().await;
    stage.pass(&deploying(), &deploying(), Some(&create_job(1)), &[]);
    stage.pass(&deploying(), &deploying(), None, &[ended(Some(FailureReason::HelmFailed))]);
    stage.pass(&deploying(), &deploying(), Some(&create_job(2)), &[]);
    stage.pass(&deploying(), &deploying(), None, &[ended(None)]);
    stage.pass(&deploying(), &ready(), None, &[became_ready()]);
    let spans = stage.received().await;
    let trace = trace::trace_id(&stage.identity.uid, 1);
    assert!(spans.iter().all(|span| span.trace_id == trace.to_bytes()));
    let root = named(&spans, "deploy environment");
    let [root] = root.as_slice() else { panic!("{root:?}") };
    assert!(root.parent_span_id.is_empty(), "{root:?}");
    let passes = named(&spans, "reconcile");
    assert_eq!(passes.len(), 5);
    assert!(passes.iter().all(|pass| pass.parent_span_id == root.span_id));
    let writes = named(&spans, "delete jobs");
    let jobs = named(&spans, "deploy job");
    let [first, second] = jobs.as_slice() else { panic!("{jobs:?}") };
    assert_eq!((&first.parent_span_id, &second.parent_span_id), (&writes[0].span_id, &writes[1].span_id));
    assert_eq!(first.status.as_ref().unwrap().message, "HelmFailed");
    assert_eq!(second.links.iter().map(|link| &link.span_id).collect::<Vec<_>>(), [&first.span_id]);
    let readiness = named(&spans, "readiness");
    let [readiness] = readiness.as_slice() else { panic!("{readiness:?}") };
    assert_eq!((&readiness.parent_span_id, &readiness.links[0].span_id), (&root.span_id, &second.span_id));
}

#[tokio::test]
async fn a_job_is_told_the_place_that_its_own_span_will_have() {
    let stage = Stage::new().await;
    let (key, record) = (Key::environment("pr-7"), deploying());
    let subject = Subject::environment(&stage.identity, &record);
    let spans = Spans::new(&stage.trails, &key, &stage.own.metadata, subject, trace::now());
    let command = create_job(1);
    let job = JobOf::environment(&command, &stage.identity).unwrap();
    let told = trace::parse(&spans.traceparent(&job)).unwrap();
    stage.pass(&deploying(), &deploying(), Some(&create_job(1)), &[]);
    stage.pass(&deploying(), &deploying(), None, &[ended(None)]);
    let spans = stage.received().await;
    assert_eq!(named(&spans, "deploy job")[0].span_id, told.span_id().to_bytes());
}

#[tokio::test]
async fn a_further_rollout_of_a_generation_is_a_further_root_of_its_trace_and_links_to_the_first() {
    let stage = Stage::new().await;
    stage.pass(&deploying(), &ready(), None, &[]);
    let again = record(json!({"name": "Deploying", "plan": "q"}), &[5, 9]);
    stage.pass(&ready(), &again, None, &[]);
    stage.pass(&again, &record(json!({"name": "Ready", "plan": "q"}), &[5, 9]), None, &[]);
    let spans = stage.received().await;
    let roots = named(&spans, "deploy environment");
    let [first, second] = roots.as_slice() else { panic!("{roots:?}") };
    assert_eq!(first.trace_id, second.trace_id);
    assert_eq!(second.links[0].span_id, first.span_id);
}

#[tokio::test]
async fn a_new_generation_is_a_new_trace_and_the_one_before_is_closed() {
    let mut stage = Stage::new().await;
    stage.pass(&deploying(), &deploying(), None, &[]);
    stage.identity.generation = 2;
    stage.pass(&deploying(), &ready(), None, &[]);
    let spans = stage.received().await;
    let roots = named(&spans, "deploy environment");
    let [first, second] = roots.as_slice() else { panic!("{roots:?}") };
    assert_ne!(first.trace_id, second.trace_id);
    let outcome = first.attributes.iter().find(|one| one.key == "petri.outcome");
    assert!(format!("{outcome:?}").contains("superseded"), "{outcome:?}");
    assert_eq!(second.links[0].span_id, first.span_id);
}

#[tokio::test]
async fn a_callers_trace_is_gone_on_with_and_its_decision_not_to_be_seen_holds() {
    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";
    let mut stage = Stage::new().await;
    let mut annotate = |flag: &str| {
        let all = [(ANNOTATION_TRACEPARENT.to_owned(), format!("{CALLER}{flag}"))];
        stage.own.metadata.annotations = Some(all.into());
    };
    annotate("0");
    stage.pass(&deploying(), &ready(), None, &[]);
    assert_eq!(stage.received().await.len(), 0);
    stage.trails.forget(&Key::environment("pr-7"));
    let all = [(ANNOTATION_TRACEPARENT.to_owned(), format!("{CALLER}1"))];
    stage.own.metadata.annotations = Some(all.into());
    stage.pass(&deploying(), &ready(), None, &[]);
    let spans = stage.received().await;
    let caller = trace::parse(&format!("{CALLER}1")).unwrap();
    let root = named(&spans, "deploy environment")[0];
    assert_eq!(root.trace_id, caller.trace_id().to_bytes());
    assert_eq!(root.parent_span_id, caller.span_id().to_bytes());
}

#[tokio::test]
async fn the_jobs_of_a_slice_are_told_of_where_they_are_and_below_the_write_that_made_them() {
    let stage = Stage::new().await;
    let ended =
        |op| Notice::Slice { component: component(), notice: slice::Notice::JobEnded { op, failure: None } };
    let provision = Command::Share(Sharing::CreateProvisionJob { component: component(), serial: 1 });
    stage.pass(&deploying(), &deploying(), Some(&provision), &[]);
    stage.pass(&deploying(), &deploying(), None, &[ended(Op::Provision)]);
    let deprovision = Unsharing::CreateDeprovisionJob { component: component(), serial: 2 };
    let deprovision = Command::Cleanup(Cleanup::Unshare(deprovision));
    stage.pass(&deploying(), &deploying(), Some(&deprovision), &[]);
    stage.pass(&deploying(), &deploying(), None, &[ended(Op::Deprovision)]);
    let spans = stage.received().await;
    let writes = named(&spans, "delete jobs");
    for (number, name) in ["provision job", "deprovision job"].into_iter().enumerate() {
        let jobs = named(&spans, name);
        let [job] = jobs.as_slice() else { panic!("{name}: {jobs:?}") };
        assert_eq!(job.parent_span_id, writes[number].span_id);
        assert!(format!("{job:?}").contains("petri-env-0123abcd"), "{job:?}");
    }
}

#[tokio::test]
async fn a_shared_component_has_a_trace_for_each_generation_and_its_rollouts_have_roots_of_their_own() {
    let stage = Stage::new().await;
    let (key, shared) = (Key::shared_component("pr-7"), component());
    let record = |phase: serde_json::Value| -> shared::Record {
        serde_json::from_value(json!({"phase": phase, "observed": 1})).unwrap()
    };
    let deploying = || record(json!({"name": "Deploying", "plan": "p"}));
    let ready = || record(json!({"name": "Ready", "plan": "p"}));
    let pass = |before: shared::Record, after: shared::Record, command: Option<shared::Command>, ended| {
        let subject = |record| Subject::shared(&stage.identity, &shared, "petri-shared", record);
        let own = &stage.own.metadata;
        let mut spans = Spans::new(&stage.trails, &key, own, subject(&before), trace::now());
        spans.stored(&subject(&after));
        if let Some(command) = command {
            let job = JobOf::shared(&command, &shared, &stage.identity).unwrap();
            spans.wrote(&effect(), Some(&job), trace::now(), None);
        }
        if ended {
            let notice = component::Notice::JobEnded { op: Op::Deploy, failure: None };
            let moved = component::Notice::Moved { from: "Settling", to: "Ready" };
            let told = [Told::component(&shared, &notice), Told::component(&shared, &moved)];
            spans.noticed(told.into_iter().flatten(), |_| None);
        }
        let _ = spans.end(&subject(&after), false, Requeue::settled().worked());
    };
    pass(deploying(), deploying(), Some(shared::Command::CreateJob { serial: 1 }), false);
    pass(deploying(), ready(), None, true);
    pass(ready(), deploying(), None, false);
    pass(deploying(), ready(), None, false);
    let spans = stage.received().await;
    assert!(spans.iter().all(|span| span.trace_id == trace::trace_id(&stage.identity.uid, 1).to_bytes()));
    let roots = named(&spans, "deploy shared component");
    let [first, second] = roots.as_slice() else { panic!("{roots:?}") };
    assert_ne!(first.span_id, second.span_id);
    assert_eq!(second.links[0].span_id, first.span_id);
    assert_eq!(named(&spans, "deploy job")[0].parent_span_id, named(&spans, "delete jobs")[0].span_id);
    assert_eq!(named(&spans, "readiness")[0].parent_span_id, first.span_id);
    assert!(format!("{first:?}").contains("petri.shared_component.name"), "{first:?}");
}

#[tokio::test]
async fn a_restarted_operator_does_not_tell_again_of_what_was_over() {
    let stage = Stage::new().await;
    stage.pass(&ready(), &ready(), None, &[]);
    let spans = stage.received().await;
    assert_eq!((named(&spans, "reconcile").len(), named(&spans, "deploy environment").len()), (1, 0));
}

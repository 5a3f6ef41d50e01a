use super::*;
use crate::{
    clock::{Clock, ServerClock},
    config::Settings as ConfigSettings,
    controller::{Caches, kept::parsed, queue::queue},
    leader::Leadership,
    telemetry::trace::{self, Source, Tracer, receiver::Receiver},
};
use axum::{
    body::{Body, to_bytes},
    http::{Request, Response},
};
use kube::{core::DeserializeGuard, runtime::watcher::Event};
use petri_crds::EnvironmentTemplate;
use petri_machines::names::{NamespaceName, Uid};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Mutex};
use tower::{BoxError, service_fn};

const ENVIRONMENT: &str = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments/pr-7";
const STATUS: &str =
    "PUT /apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments/pr-7/status";
const OBLIGATIONS: &str = "/api/v1/namespaces/petri-shared/secrets";
const FINALIZER: &str =
    "PATCH /apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments/pr-7";

/// A small API server: objects by path, scripted refusals by method and path, and a list of what was written.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    /// `None`: the connection breaks after the write was done.
    refusals: BTreeMap<&'static str, Option<(u16, &'static str)>>,
    /// A field of the status that the definition does not know.
    drops: Option<&'static str>,
    reads: Vec<String>,
    writes: Vec<String>,
    bodies: Vec<Value>,
}

type Shared = Arc<Mutex<Server>>;

async fn serve(server: Shared, request: Request<kube::client::Body>) -> Result<Response<Body>, BoxError> {
    let (head, body) = request.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = head.uri.path().to_owned();
    let mut server = server.lock().unwrap();
    if head.method == "GET" {
        server.reads.push(path.clone());
        if let Some(Some((code, reason))) = server.refusals.get(format!("GET {path}").as_str()) {
            return Ok(answer(*code, &refusal(*code, reason)));
        }
        return Ok(match server.objects.get(&path) {
            Some(object) => answer(200, object),
            None => answer(404, &refusal(404, "NotFound")),
        });
    }
    if path.ends_with("/events") {
        return Ok(answer(201, &body));
    }
    let call = format!("{} {path}", head.method);
    server.writes.push(call.clone());
    server.bodies.push(body.clone());
    match server.refusals.get(call.as_str()) {
        Some(Some((code, reason))) => return Ok(answer(*code, &refusal(*code, reason))),
        Some(None) => return Err("connection reset".into()),
        None => {}
    }
    if let Some(path) = path.strip_suffix("/status") {
        let mut object = body;
        if let (Some(field), Some(status)) = (server.drops, object["status"].as_object_mut()) {
            status.remove(field);
        }
        if server.objects.get(path).is_some_and(|held| held["status"] == object["status"]) {
            return Ok(answer(200, &object));
        }
        object["metadata"]["resourceVersion"] = json!(format!("{}1", object["metadata"]["resourceVersion"]));
        server.objects.insert(path.to_owned(), object.clone());
        return Ok(answer(200, &object));
    }
    Ok(answer(200, &body))
}

fn answer(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string())).unwrap()
}

fn refusal(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("refused: {reason}")})
}

fn template() -> EnvironmentTemplate {
    serde_json::from_value(json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "web", "namespace": "petri-system", "uid": "t", "resourceVersion": "1"},
        "spec": {"components": [{"name": "api", "helm": {"path": "/charts/api"}}]}}))
    .unwrap()
}

fn environment(finalizers: Value, status: Value) -> Value {
    json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
        "metadata": {"name": "pr-7", "namespace": "petri-system", "uid": "env", "resourceVersion": "4",
            "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers},
        "spec": {"template": "web", "ttl": "0"}, "status": status})
}

/// An operator with filled caches before a server that holds these objects.
struct Stage {
    server: Shared,
    operator: Operator,
}

impl Stage {
    fn new(template: Option<EnvironmentTemplate>, environment: Option<Value>) -> Self {
        Self::with_jobs(template, environment, None)
    }

    fn with_jobs(
        template: Option<EnvironmentTemplate>,
        environment: Option<Value>,
        job: Option<Value>,
    ) -> Self {
        let server = Shared::default();
        let nothing_owed = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {}, "items": []});
        server.lock().unwrap().objects.insert(OBLIGATIONS.to_owned(), nothing_owed);
        if let Some(environment) = environment {
            server.lock().unwrap().objects.insert(ENVIRONMENT.to_owned(), environment);
        }
        let shared = Arc::clone(&server);
        let service = service_fn(move |request| serve(Arc::clone(&shared), request));
        let caches = Caches::new("petri-system");
        caches.templates.apply(Event::Init);
        if let Some(template) = template {
            caches.templates.apply(Event::InitApply(DeserializeGuard(Ok(template))));
        }
        caches.templates.apply(Event::InitDone);
        caches.namespaces.apply(Event::Init);
        caches.namespaces.apply(Event::InitDone);
        caches.jobs.apply(Event::Init);
        if let Some(job) = job {
            let job: parsed::Job = serde_json::from_value(job).unwrap();
            caches.jobs.apply(Event::InitApply(job.into()));
        }
        caches.jobs.apply(Event::InitDone);
        caches.pods.apply(Event::Init);
        caches.pods.apply(Event::InitDone);
        caches.shared_components.apply(Event::InitDone);
        let config = Config::load(None, ConfigSettings::default(), Some("petri-system")).unwrap();
        let metrics = Metrics::default();
        let (wakes, _) = queue(1, Clock);
        let operator = Operator::new(&Parts {
            config: Arc::new(config),
            client: Client::new(service, "petri-system"),
            caches: Arc::new(caches),
            wakes,
            leadership: Leadership::always(Clock),
            tracer: Tracer::off(metrics.clone()),
            metrics,
            clock: ServerClock::default(),
        });
        Self { server, operator }
    }

    fn refuses(self, call: &'static str, with: Option<(u16, &'static str)>) -> Self {
        self.server.lock().unwrap().refusals.insert(call, with);
        self
    }

    /// One pass: what it asks for, and what it wrote.
    async fn pass(&self) -> (Requeue, Vec<String>) {
        self.server.lock().unwrap().writes.clear();
        let requeue = self.operator.reconcile(&Key::environment("pr-7")).await;
        (requeue, self.server.lock().unwrap().writes.clone())
    }

    fn last_body(&self) -> Value {
        self.server.lock().unwrap().bodies.last().cloned().unwrap_or_default()
    }
}

fn new_environment() -> Stage {
    Stage::new(Some(template()), Some(environment(json!([]), json!({}))))
}

mod refused;
mod shared;

#[tokio::test]
async fn the_decision_is_stored_before_anything_is_done() {
    let (requeue, writes) = new_environment().pass().await;
    assert_eq!(writes, [STATUS, FINALIZER, "POST /api/v1/namespaces"]);
    assert!(requeue.worked && requeue.error.is_none(), "{requeue:?}");
}

#[tokio::test]
async fn a_conflict_on_the_store_applies_nothing_and_looks_again_at_once() {
    let (requeue, writes) = new_environment().refuses(STATUS, Some((409, "Conflict"))).pass().await;
    assert_eq!(writes, [STATUS]);
    assert_eq!((requeue.error, requeue.worked), (Some("retry"), false));
    assert!(requeue.after.unwrap() <= Duration::from_millis(20), "{requeue:?}");
}

#[tokio::test]
async fn a_store_whose_answer_was_lost_applies_nothing() {
    let (requeue, writes) = new_environment().refuses(STATUS, None).pass().await;
    assert_eq!(writes, [STATUS]);
    assert_eq!(requeue.error, Some("backoff"));
}

#[tokio::test]
async fn pauses_grow_while_a_command_is_refused_and_the_stored_decision_is_not_stored_again() {
    let stage = new_environment().refuses(FINALIZER, Some((503, "ServiceUnavailable")));
    let (first, writes) = stage.pass().await;
    assert_eq!((first.error, writes), (Some("backoff"), vec![STATUS.to_owned(), FINALIZER.to_owned()]));
    let (second, writes) = stage.pass().await;
    assert_eq!(writes, [FINALIZER]);
    assert!(second.after > first.after, "{first:?} {second:?}");
}

#[tokio::test]
async fn an_object_that_is_gone_ends_its_key() {
    let stage = Stage::new(Some(template()), None);
    assert_eq!(stage.pass().await, (Requeue::gone(), Vec::new()));
}

#[tokio::test]
async fn an_environment_that_went_before_its_finalizer_counted_leaves_no_namespace_behind() {
    const LIST: &str = "/api/v1/namespaces";
    let left = |uid: &str, deleted: Value| json!({"metadata": {"name": format!("petri-env-{uid}"), "uid": uid, "deletionTimestamp": deleted}});
    let list =
        |items: Value| json!({"apiVersion": "v1", "kind": "NamespaceList", "metadata": {}, "items": items});
    let stage = new_environment();
    assert_eq!(stage.pass().await.1.last().unwrap(), "POST /api/v1/namespaces");
    {
        let mut server = stage.server.lock().unwrap();
        server.objects.remove(ENVIRONMENT);
        let goes = left("b", json!("2026-01-01T00:00:00Z"));
        server.objects.insert(LIST.to_owned(), list(json!([left("a", Value::Null), goes])));
    }
    let stage = stage.refuses("DELETE /api/v1/namespaces/petri-env-a", Some((503, "ServiceUnavailable")));
    let (requeue, writes) = stage.pass().await;
    assert_eq!(
        (requeue.error, writes.as_slice()),
        (Some("backoff"), &["DELETE /api/v1/namespaces/petri-env-a".to_owned()][..])
    );
    stage.server.lock().unwrap().refusals.clear();
    let (requeue, writes) = stage.pass().await;
    assert_eq!(
        (requeue, writes.as_slice()),
        (Requeue::gone(), &["DELETE /api/v1/namespaces/petri-env-a".to_owned()][..])
    );
    assert_eq!(stage.last_body()["preconditions"]["uid"], "a");
    assert_eq!(stage.pass().await, (Requeue::gone(), Vec::new()), "it is looked for once");
}

#[tokio::test]
async fn a_record_of_a_newer_release_is_left_alone() {
    let status = json!({"controllerStateVersion": 99, "machine": {"phase": "unheard of"}, "novel": 1});
    let stage = Stage::new(Some(template()), Some(environment(json!([]), status)));
    let (requeue, writes) = stage.pass().await;
    assert_eq!((requeue.error, writes), (None, Vec::new()));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_told_once_and_nothing_is_done() {
    let status = json!({"controllerStateVersion": 1, "machine": {"phase": {"name": "Dreaming"}}});
    let stage = Stage::new(Some(template()), Some(environment(json!([]), status)));
    let (requeue, writes) = stage.pass().await;
    assert_eq!((requeue.error, writes), (Some("bug"), vec![STATUS.to_owned()]));
    let condition = &stage.last_body()["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["reason"]), (&json!("Ready"), &json!("InternalError")));
    assert_eq!(stage.last_body()["status"]["machine"]["phase"]["name"], "Dreaming", "nothing is erased");
    assert_eq!(stage.pass().await.1, Vec::<String>::new());
}

#[tokio::test]
async fn an_object_that_does_not_decode_is_told_and_can_be_deleted() {
    let mut object = environment(json!(["petri.run/cleanup"]), json!({}));
    object["spec"]["values"] = json!("no map");
    let stage = Stage::new(Some(template()), Some(object.clone()));
    let (requeue, _) = stage.pass().await;
    assert_eq!(requeue.error, Some("undecodable"));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    let stage = Stage::new(Some(template()), Some(object));
    stage.pass().await;
    stage.pass().await;
    let writes = stage.server.lock().unwrap().writes.clone();
    assert_eq!(writes, [FINALIZER]);
}

#[tokio::test]
async fn a_pass_over_what_was_said_already_writes_nothing() {
    let stage = Stage::new(None, Some(environment(json!(["petri.run/cleanup"]), json!({}))));
    assert_eq!(stage.pass().await.1, [STATUS]);
    assert_eq!(stage.last_body()["status"]["conditions"][0]["reason"], "TemplateNotFound");
    let (requeue, writes) = stage.pass().await;
    assert_eq!((requeue.worked, writes), (false, Vec::new()));
}

#[tokio::test]
async fn a_template_that_the_cache_has_not_seen_yet_is_looked_for_before_it_is_missed() {
    let stage = Stage::new(None, Some(environment(json!(["petri.run/cleanup"]), json!({}))));
    let path = "/apis/core.petri.run/v1alpha1/namespaces/petri-system/environmenttemplates/web";
    let template = serde_json::to_value(template()).unwrap();
    stage.server.lock().unwrap().objects.insert(path.to_owned(), template);
    stage.pass().await;
    let stored = stage.server.lock().unwrap().objects[ENVIRONMENT].clone();
    assert_eq!(stored["status"]["phase"], "Pending");
}

#[tokio::test]
async fn a_namespace_of_somebody_else_is_passed_over() {
    let candidates = NamespaceName::candidates(&Uid::new("env").unwrap());
    let (first, second) = (&candidates[0], &candidates[1]);
    let stage = Stage::new(Some(template()), Some(environment(json!(["petri.run/cleanup"]), json!({}))));
    let taken = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": first.as_str(), "uid": "x",
        "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "somebody"}}});
    stage.server.lock().unwrap().objects.insert(format!("/api/v1/namespaces/{first}"), taken);
    let (_, writes) = stage.pass().await;
    assert_eq!(writes, [STATUS, "POST /api/v1/namespaces"]);
    assert_eq!(stage.last_body()["metadata"]["name"], second.as_str());
}

/// A stored status in which the Job `job` of attempt 1 was seen and not ended yet.
fn deploying(namespace: &NamespaceName, job: &str) -> Value {
    let environment = serde_json::from_value(environment(json!([]), json!({}))).unwrap();
    let defaults = crate::adapter::Defaults { deploy_timeout_secs: 900, pod_failure_secs: 300 };
    let template = template();
    let inputs = crate::adapter::Inputs {
        environment: &environment,
        template: Some(&template),
        namespace,
        secrets: None,
        slices: &crate::adapter::sharing::SliceInputs::new(),
        defaults,
    };
    let plan = crate::adapter::intent(&inputs).plan.unwrap();
    let payload = &plan.components[0].planned.payload;
    json!({"controllerStateVersion": 1, "machine": {
        "phase": {"name": "Deploying", "plan": plan.digest}, "serial": 1, "observed": 1,
        "binding": {"stage": "bound", "namespace": {"name": namespace, "uid": "ns"}},
        "components": {"api": {"phase": {"name": "Deploying", "attempt": {"serial": 1, "job": job}},
            "level": 0, "payload": payload, "touched": true}}}})
}

fn job(uid: &str, name: &str, namespace: &NamespaceName, status: Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": namespace, "uid": uid,
        "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"petri.run/serial": "1"},
        "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "env",
            "petri.run/component": "api", "petri.run/op": "deploy"}}, "status": status})
}

/// One pass while the recorded Job `j` of attempt 1 is in the cache as `cached` and at the server as `live`; returns
/// the phase of the component that is stored then.
async fn component_after(cached: Option<Value>, live: Option<(&str, Value)>) -> String {
    let (component, writes) = pass_over(None, cached, live).await;
    assert!(writes.iter().all(|write| write == STATUS), "{writes:?}");
    component
}

/// The same with a complaint that stands in the record, if any, and with what was written.
async fn pass_over(
    ailment: Option<Value>,
    cached: Option<Value>,
    live: Option<(&str, Value)>,
) -> (String, Vec<String>) {
    let uid = Uid::new("env").unwrap();
    let namespace = NamespaceName::candidates(&uid)[0].clone();
    let name = petri_machines::names::JobName::of(
        &uid,
        &petri_machines::names::EnvironmentName::new("pr-7").unwrap(),
        &petri_machines::names::ComponentName::new("api").unwrap(),
        petri_machines::job::Op::Deploy,
        1,
    );
    let mut status = deploying(&namespace, "j");
    if let Some(ailment) = ailment {
        status["machine"]["components"]["api"]["ailment"] = ailment;
    }
    let own = environment(json!(["petri.run/cleanup"]), status);
    let stage = Stage::with_jobs(
        Some(template()),
        Some(own),
        cached.map(|status| job("j", name.as_str(), &namespace, status)),
    );
    {
        let mut server = stage.server.lock().unwrap();
        let ours = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "uid": "ns",
            "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "env"}}});
        server.objects.insert(format!("/api/v1/namespaces/{namespace}"), ours);
        let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []});
        server.objects.insert(format!("/api/v1/namespaces/{namespace}/pods"), pods);
        if let Some((uid, status)) = live {
            let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs/{name}");
            server.objects.insert(path, job(uid, name.as_str(), &namespace, status));
        }
    }
    let (_, writes) = stage.pass().await;
    let stored = stage.server.lock().unwrap().objects[ENVIRONMENT].clone();
    let component = &stored["status"]["machine"]["components"]["api"];
    let after = format!(
        "{} {}",
        component["phase"]["name"].as_str().unwrap(),
        component["deployAttempts"].as_u64().unwrap_or(0)
    );
    (after, writes)
}

#[tokio::test]
async fn in_a_namespace_that_goes_the_secret_of_an_ended_job_is_not_looked_for() {
    let uid = Uid::new("env").unwrap();
    let namespace = NamespaceName::candidates(&uid)[0].clone();
    let looks = async |deleted: Value| {
        let mut own = environment(json!(["petri.run/cleanup"]), deploying(&namespace, "j"));
        own["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let ended = job("another", "petri-deploy-before", &namespace, complete());
        let stage = Stage::with_jobs(Some(template()), Some(own), Some(ended));
        let place = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "uid": "ns",
            "deletionTimestamp": deleted,
            "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "env"}}});
        stage.server.lock().unwrap().objects.insert(format!("/api/v1/namespaces/{namespace}"), place);
        stage.pass().await;
        let secret = format!("/api/v1/namespaces/{namespace}/secrets/petri-deploy-before");
        stage.server.lock().unwrap().reads.contains(&secret)
    };
    assert!(looks(Value::Null).await);
    assert!(!looks(json!("2026-01-01T00:00:00Z")).await);
}

fn complete() -> Value {
    json!({"conditions": [{"type": "Complete", "status": "True"}]})
}

#[tokio::test]
async fn a_job_that_only_a_lagging_cache_misses_is_not_lost() {
    assert_eq!(component_after(None, Some(("j", json!({})))).await, "Deploying 0");
    assert_eq!(component_after(None, Some(("j", complete()))).await, "Settling 0");
    assert_eq!(component_after(None, None).await, "Pending 1");
}

#[tokio::test]
async fn s8_an_end_counts_only_when_the_live_job_is_the_recorded_one() {
    assert_eq!(component_after(Some(complete()), Some(("j", complete()))).await, "Settling 0");
    assert_eq!(component_after(Some(complete()), Some(("another", complete()))).await, "Pending 1");
    assert_eq!(component_after(Some(complete()), None).await, "Pending 1");
    assert_eq!(component_after(Some(json!({})), Some(("j", complete()))).await, "Deploying 0");
}

#[tokio::test]
async fn job_03_a_job_is_ended_for_its_pod_only_when_a_live_look_finds_it_still_unable_to_start() {
    let complaint = json!({"reason": "QuotaExceeded", "message": "no pod"});
    let ailment = || Some(json!({"since": 1, "complaint": complaint}));
    let (after, writes) = pass_over(ailment(), Some(json!({})), Some(("j", json!({})))).await;
    let deleted = writes.iter().filter(|write| write.starts_with("DELETE /apis/batch/v1/")).count();
    assert_eq!((after.as_str(), deleted), ("Deploying 0", 1), "{writes:?}");
    let (after, writes) = pass_over(ailment(), Some(json!({})), Some(("j", complete()))).await;
    assert_eq!(after, "Settling 0");
    assert!(writes.iter().all(|write| write == STATUS), "{writes:?}");
}

#[tokio::test]
async fn a_missing_inventory_is_said_and_ends_the_attempt_in_time() {
    let uid = Uid::new("env").unwrap();
    let namespace = NamespaceName::candidates(&uid)[0].clone();
    let mut status = deploying(&namespace, "j");
    let component = &mut status["machine"]["components"]["api"];
    component["phase"] = json!({"name": "Settling", "since": 1, "giveUpAt": 32_503_680_000_u64});
    component["accepted"] = json!({"serial": 1, "job": "j", "payload": component["payload"]});
    let after = |status: Value| {
        let stage = Stage::new(Some(template()), Some(environment(json!(["petri.run/cleanup"]), status)));
        let ours = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "uid": "ns",
            "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "env"}}});
        stage.server.lock().unwrap().objects.insert(format!("/api/v1/namespaces/{namespace}"), ours);
        async move {
            stage.pass().await;
            stage.server.lock().unwrap().objects[ENVIRONMENT]["status"]["components"][0].clone()
        }
    };
    let told = after(status.clone()).await;
    assert_eq!(told["phase"], "Deploying", "{told}");
    assert!(told["message"].as_str().is_some_and(|told| told.contains("petri-inventory-api")), "{told}");
    status["machine"]["components"]["api"]["phase"]["giveUpAt"] = json!(2);
    let told = after(status).await;
    assert_eq!((&told["deployRetries"], &told["lastFailureReason"]), (&json!(1), &json!("ReadinessTimeout")));
}

#[tokio::test]
async fn a_pass_that_writes_is_told_as_one_trace_and_an_idle_one_is_not() {
    let receiver = Receiver::default();
    let endpoint = receiver.start().await;
    let tracer = Tracer::start(&endpoint, 100, Source::default(), Metrics::default()).unwrap();
    let mut stage = new_environment();
    stage.operator.trails = Trails::new(tracer.clone());
    let (requeue, _) = stage.pass().await;
    tracer.flush(Duration::from_secs(5)).await;
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        ["reconcile", "read", "observe", "store", "patch ephemeralenvironments", "create namespaces"]
    );
    let trace = trace::trace_id(&Uid::new("env").unwrap(), 1);
    assert_eq!(requeue.trace, Some(trace));
    assert!(spans.iter().all(|span| span.trace_id == trace.to_bytes()));
    assert!(spans[1..].iter().all(|span| span.parent_span_id == spans[0].span_id));

    let gone = Stage::new(Some(template()), None);
    assert_eq!(gone.pass().await.0.trace, None);
    assert_eq!(receiver.spans().len(), spans.len());
}

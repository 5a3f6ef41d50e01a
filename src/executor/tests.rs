use super::*;
use crate::{clock::Clock, render::Alone};
use axum::{
    body::{Body, to_bytes},
    http::{Request, Response},
};
use petri_machines::{
    environment::NamespaceRef,
    kernel::cycle::Refusal,
    names::{NamespaceName, Uid},
};
use serde_json::Value;
use std::{pin::pin, sync::Mutex};
use tower_test::mock;

/// One call that is expected, and its answer: status and body. No answer: the connection breaks.
struct Call {
    expected: &'static str,
    answer: Option<(u16, Value)>,
}

fn call(expected: &'static str, code: u16, body: Value) -> Call {
    Call { expected, answer: Some((code, body)) }
}

fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": message})
}

fn namespace(uid: &str, owner: &str, dying: bool) -> Value {
    let deleted = dying.then_some("2026-01-01T00:00:00Z");
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "petri-env-1",
        "uid": uid, "deletionTimestamp": deleted,
        "labels": {"petri.run/managed": "true", "petri.run/environment-uid": owner}}})
}

fn ours() -> Call {
    call("GET /api/v1/namespaces/petri-env-1", 200, namespace("ns", "env", false))
}

fn guard(alive: bool) -> NamespaceGuard {
    let namespace =
        NamespaceRef { name: NamespaceName::new("petri-env-1").unwrap(), uid: Uid::new("ns").unwrap() };
    NamespaceGuard { namespace, environment: Uid::new("env").unwrap(), alive }
}

fn target(resource: Resource, name: &str) -> Target {
    Target { resource, namespace: Some("petri-env-1".to_owned()), name: name.to_owned() }
}

fn job_object(serial: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "petri-env-1",
        "uid": "j", "annotations": {"petri.run/serial": serial},
        "labels": {"petri.run/managed": "true", "petri.run/environment-uid": "env",
            "petri.run/component": "api", "petri.run/op": "deploy"}}})
}

fn create_job() -> Effect {
    let object = serde_json::from_value(job_object("5")).unwrap();
    let write = Write::Create { target: target(Resource::Job, "job"), object: Box::new(object) };
    Effect { guard: Some(guard(true)), write, grants: None, alone: None }
}

fn create_binding() -> Effect {
    let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "petri-operator", "namespace": "petri-env-1"}});
    let object = serde_json::from_value(object).unwrap();
    let write =
        Write::Create { target: target(Resource::RoleBinding, "petri-operator"), object: Box::new(object) };
    Effect { guard: Some(guard(true)), write, grants: Some(crate::render::Right::Operator), alone: None }
}

fn delete_job() -> Effect {
    let write = Write::Delete {
        target: target(Resource::Job, "job"),
        uid: Uid::new("j").unwrap(),
        resource_version: None,
        foreground: true,
    };
    Effect { guard: Some(guard(false)), write, grants: None, alone: None }
}

const CREATE_JOB: &str = "POST /apis/batch/v1/namespaces/petri-env-1/jobs";
const LIST_JOBS: &str = "GET /apis/batch/v1/namespaces/petri-env-1/jobs";
const LIST_PODS: &str = "GET /api/v1/namespaces/petri-env-1/pods";
const GET_JOB: &str = "GET /apis/batch/v1/namespaces/petri-env-1/jobs/job";
const DELETE_JOB: &str = "DELETE /apis/batch/v1/namespaces/petri-env-1/jobs/job";
const BIND: &str = "POST /apis/rbac.authorization.k8s.io/v1/namespaces/petri-env-1/rolebindings";

/// Applies an effect against the calls that are expected, all of them and no others, with this ledger.
async fn applied_with(
    ledger: &Arc<Ledger>,
    effect: &Effect,
    calls: Vec<Call>,
) -> (Result<(), Error>, Vec<Value>) {
    let (service, mut handle) = mock::pair::<Request<kube::client::Body>, Response<Body>>();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let server = tokio::spawn(async move {
        for Call { expected, answer } in calls {
            let (request, send) = handle.next_request().await.expect("another call");
            let (head, body) = request.into_parts();
            assert_eq!(format!("{} {}", head.method, head.uri.path()), expected);
            let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
            seen.lock().unwrap().push(serde_json::from_slice(&body).unwrap_or(Value::Null));
            match answer {
                None => send.send_error("connection reset"),
                Some((code, body)) => {
                    let body = Body::from(serde_json::to_vec(&body).unwrap());
                    send.send_response(Response::builder().status(code).body(body).unwrap());
                }
            }
        }
        assert!(pin!(handle.next_request()).await.is_none(), "a call too many");
    });
    let outcome = {
        let client = Client::new(service, "petri-system");
        Executor::new(client, Leadership::always(Clock), Arc::clone(ledger)).apply(effect).await
    };
    server.await.expect("the calls that were expected");
    let bodies = bodies.lock().unwrap().clone();
    (outcome, bodies)
}

async fn check(effect: &Effect, calls: Vec<Call>, expected: Result<(), Refusal>) {
    let (outcome, _) = applied_with(&Arc::default(), effect, calls).await;
    assert_eq!(outcome.as_ref().map_err(Error::class).copied(), expected, "{outcome:?}");
}

#[tokio::test]
async fn s1_nothing_is_written_into_a_namespace_that_is_not_the_environments_own() {
    let get = "GET /api/v1/namespaces/petri-env-1";
    for found in [
        call(get, 200, namespace("another", "env", false)),
        call(get, 200, namespace("ns", "stranger", false)),
        call(get, 200, namespace("ns", "env", true)),
        call(get, 404, refusal(404, "NotFound", "no such namespace")),
    ] {
        check(&create_job(), vec![found], Err(Refusal::Fenced)).await;
    }
    check(&delete_job(), vec![call(get, 200, namespace("another", "env", false))], Err(Refusal::Fenced))
        .await;
    check(&create_job(), vec![call(get, 500, refusal(500, "InternalError", ""))], Err(Refusal::Backoff))
        .await;
}

#[tokio::test]
async fn a_delete_in_a_namespace_that_goes_is_still_made_and_names_the_uid() {
    let calls = vec![
        call("GET /api/v1/namespaces/petri-env-1", 200, namespace("ns", "env", true)),
        call(DELETE_JOB, 200, job_object("5")),
    ];
    let (outcome, bodies) = applied_with(&Arc::default(), &delete_job(), calls).await;
    outcome.unwrap();
    assert_eq!(bodies[1]["preconditions"], json!({"uid": "j"}));
    assert_eq!(bodies[1]["propagationPolicy"], "Foreground");
}

#[tokio::test]
async fn what_is_gone_needs_no_delete_and_what_is_another_is_not_deleted() {
    let gone = call(DELETE_JOB, 404, refusal(404, "NotFound", "no such job"));
    check(&delete_job(), vec![ours(), gone], Ok(())).await;
    let another = call(DELETE_JOB, 409, refusal(409, "Conflict", "Precondition failed: UID"));
    check(&delete_job(), vec![ours(), another], Err(Refusal::Fenced)).await;
}

fn taken() -> Call {
    call(CREATE_JOB, 409, refusal(409, "AlreadyExists", "jobs \"job\" already exists"))
}

#[tokio::test]
async fn job_12_a_name_that_is_taken_is_read_back() {
    let found = |object| call(GET_JOB, 200, object);
    check(&create_job(), vec![ours(), taken(), found(job_object("5"))], Ok(())).await;
    check(&create_job(), vec![ours(), taken(), found(job_object("4"))], Err(Refusal::Rejected)).await;
    let mut stranger = job_object("5");
    stranger["metadata"]["labels"] = json!({});
    check(&create_job(), vec![ours(), taken(), found(stranger)], Err(Refusal::Rejected)).await;
    let mut dying = job_object("5");
    dying["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(&create_job(), vec![ours(), taken(), found(dying)], Err(Refusal::Backoff)).await;
    let gone = call(GET_JOB, 404, refusal(404, "NotFound", ""));
    check(&create_job(), vec![ours(), taken(), gone], Err(Refusal::Backoff)).await;
    let message = "object is being deleted: jobs \"job\" already exists";
    let dying = call(CREATE_JOB, 409, refusal(409, "AlreadyExists", message));
    check(&create_job(), vec![ours(), dying], Err(Refusal::Backoff)).await;
}

#[tokio::test]
async fn a_create_whose_answer_was_lost_is_found_done_the_next_time() {
    let lost = Call { expected: CREATE_JOB, answer: None };
    check(&create_job(), vec![ours(), lost], Err(Refusal::Backoff)).await;
    check(&create_job(), vec![ours(), taken(), call(GET_JOB, 200, job_object("5"))], Ok(())).await;
}

#[tokio::test]
async fn s3_no_job_is_made_beside_one_that_has_not_ended_whatever_the_cache_said() {
    let alone = Alone {
        namespace: "petri-env-1".to_owned(),
        owner: petri_machines::names::Uid::new("env").unwrap(),
        component: petri_machines::names::ComponentName::new("api").unwrap(),
        job: petri_machines::names::JobName::new("job").unwrap(),
    };
    let effect = Effect { alone: Some(alone), ..create_job() };
    let jobs = |state: Value| {
        let mut other = job_object("4");
        other["metadata"]["name"] = json!("other");
        other["status"] = state;
        call(
            LIST_JOBS,
            200,
            json!({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": [other]}),
        )
    };
    let pods = |state: Value| {
        let owner =
            json!({"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "j", "controller": true});
        let status = json!({"containerStatuses": [{"name": "deployer", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]});
        let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner]}, "status": status});
        call(LIST_PODS, 200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]}))
    };
    let none = || {
        call(
            LIST_JOBS,
            200,
            json!({"kind": "JobList", "apiVersion": "batch/v1", "metadata": {}, "items": []}),
        )
    };
    let running = || jobs(json!({}));
    check(&effect, vec![ours(), running(), pods(json!({"running": {}}))], Err(Refusal::Backoff)).await;
    let made = || call(CREATE_JOB, 201, job_object("5"));
    let ended = pods(json!({"terminated": {"exitCode": 1}}));
    check(&effect, vec![ours(), running(), ended, made()], Ok(())).await;
    // The Job was deleted, or ended by its controller, and the pod goes on for as long as it is given.
    let failed = || jobs(json!({"conditions": [{"type": "Failed", "status": "True"}]}));
    check(&effect, vec![ours(), none(), pods(json!({"running": {}}))], Err(Refusal::Backoff)).await;
    check(&effect, vec![ours(), failed(), pods(json!({"running": {}}))], Err(Refusal::Backoff)).await;
    check(&effect, vec![ours(), failed(), pods(json!({"terminated": {"exitCode": 1}})), made()], Ok(()))
        .await;
}

#[tokio::test]
async fn a_role_binding_that_exists_counts_as_given_without_being_read() {
    let ledger = Arc::default();
    let exists = call(BIND, 409, refusal(409, "AlreadyExists", "already exists"));
    let (outcome, _) = applied_with(&ledger, &create_binding(), vec![ours(), exists]).await;
    outcome.unwrap();
    assert!(ledger.access(&Uid::new("ns").unwrap()).operator);
}

#[tokio::test]
async fn a_refusal_right_after_the_own_role_binding_is_the_authorizers_lag() {
    let forbidden = || call(CREATE_JOB, 403, refusal(403, "Forbidden", "jobs is forbidden"));
    check(&create_job(), vec![ours(), forbidden()], Err(Refusal::Rejected)).await;
    let ledger: Arc<Ledger> = Arc::default();
    ledger.record(&Uid::new("ns").unwrap(), crate::render::Right::Operator);
    let (outcome, _) = applied_with(&ledger, &create_job(), vec![ours(), forbidden()]).await;
    assert_eq!(outcome.unwrap_err().class(), Refusal::Retry);
}

#[tokio::test]
async fn each_answer_of_the_server_has_its_class() {
    let mut terminating = refusal(403, "Forbidden", "unable to create new content");
    terminating["details"] = json!({"causes": [{"reason": "NamespaceTerminating", "message": "…"}]});
    for (code, body, class) in [
        (403, terminating, Refusal::Backoff),
        (404, refusal(404, "NotFound", "namespaces \"x\" not found"), Refusal::Fenced),
        (409, refusal(409, "Conflict", "the object has been modified"), Refusal::Retry),
        (422, refusal(422, "Invalid", "metadata.uid: field is immutable"), Refusal::Fenced),
        (422, refusal(422, "Invalid", "spec.template: Required value"), Refusal::Rejected),
        (400, refusal(400, "BadRequest", ""), Refusal::Rejected),
        (429, refusal(429, "TooManyRequests", ""), Refusal::Backoff),
        (500, refusal(500, "InternalError", ""), Refusal::Backoff),
        (503, refusal(503, "ServiceUnavailable", ""), Refusal::Backoff),
        (504, refusal(504, "Timeout", ""), Refusal::Backoff),
    ] {
        check(&create_job(), vec![ours(), call(CREATE_JOB, code, body)], Err(class)).await;
    }
}

#[tokio::test]
async fn a_finalizer_is_changed_only_on_the_version_that_was_read() {
    let write = Write::Finalizers {
        target: Target {
            resource: Resource::Environment,
            namespace: Some("petri-system".to_owned()),
            name: "pr-7".to_owned(),
        },
        uid: Uid::new("env").unwrap(),
        resource_version: "42".to_owned(),
        finalizers: vec!["example.com/other".to_owned()],
    };
    let effect = Effect { guard: None, write, grants: None, alone: None };
    let path = "PATCH /apis/core.petri.run/v1alpha1/namespaces/petri-system/ephemeralenvironments/pr-7";
    let answer = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {}});
    let (outcome, bodies) = applied_with(&Arc::default(), &effect, vec![call(path, 200, answer)]).await;
    outcome.unwrap();
    let expected = json!({"uid": "env", "resourceVersion": "42", "finalizers": ["example.com/other"]});
    assert_eq!(bodies[0]["metadata"], expected);
    let stale = call(path, 409, refusal(409, "Conflict", "the object has been modified"));
    check(&effect, vec![stale], Err(Refusal::Retry)).await;
    let another = call(path, 422, refusal(422, "Invalid", "metadata.uid: Invalid value: field is immutable"));
    check(&effect, vec![another], Err(Refusal::Fenced)).await;
    let gone = || call(path, 404, refusal(404, "NotFound", "not found"));
    check(&effect, vec![gone()], Ok(())).await;
    let Write::Finalizers { target, uid, resource_version, .. } = effect.write else { panic!("as made") };
    let finalizers = vec![FINALIZER_ENVIRONMENT.to_owned()];
    let write = Write::Finalizers { target, uid, resource_version, finalizers };
    let holding = Effect { guard: None, write, grants: None, alone: None };
    check(&holding, vec![gone()], Err(Refusal::Fenced)).await;
}

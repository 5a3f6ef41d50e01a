use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::http::{Request, Response};
use futures::FutureExt;
use kube::client::Body;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

/// Answers requests from a list of (method and path, code, body) and notes what was asked.
struct Server {
    cluster: Cluster,
    asked: Arc<Mutex<Vec<String>>>,
}

/// An answer is used up, the last one of a path stays.
fn server(answers: &[(&'static str, u16, Value)]) -> Server {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let answers = Arc::new(Mutex::new(answers.to_vec()));
    let service = service_fn(move |request: Request<Body>| {
        let what = format!("{} {}", request.method(), request.uri().path());
        let query = request.uri().query().unwrap_or_default().to_owned();
        noted.lock().expect("no panic").push(format!("{what}?{query}"));
        let mut answers = answers.lock().expect("no panic");
        let found = answers.iter().position(|(path, ..)| *path == what);
        let more = answers.iter().filter(|(path, ..)| *path == what).count() > 1;
        let (code, body) = match found {
            Some(at) if more => Some(answers.remove(at)),
            Some(at) => answers.get(at).cloned(),
            None => None,
        }
        .map_or((404, status(404)), |(_, code, body)| (code, body));
        let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
        async move { Ok::<_, Infallible>(response.expect("a response")) }.boxed()
    });
    Server { cluster: Cluster::new(Client::new(service, "ns"), "ns"), asked }
}

impl Server {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

fn status(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    let message = format!("code {code}");
    let kind = "Status";
    json!({"kind": kind, "status": "Failure", "code": code, "reason": reason, "message": message})
}

fn record(version: &str, status: &str) -> Value {
    let labels = json!({"owner": "helm", "name": "r", "version": version, "status": status});
    json!({"metadata": {"name": format!("sh.helm.release.v1.r.v{version}"), "labels": labels}})
}

fn records(items: &[Value]) -> Value {
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items})
}

fn metadata(name: &str, uid: &str, leaving: bool) -> Value {
    let mut metadata = json!({"name": name, "uid": uid});
    if leaving {
        metadata["deletionTimestamp"] = json!("2026-11-29T00:00:00Z");
    }
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn core() -> Value {
    let kind = |plural: &str, kind: &str, namespaced: bool| {
        let verbs = ["get", "delete"];
        json!({"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs})
    };
    let resources = [kind("configmaps", "ConfigMap", true), kind("namespaces", "Namespace", false)];
    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})
}

fn reference(kind: &str, name: &str, namespace: Option<&str>) -> Reference {
    let namespace = namespace.map(str::to_owned);
    Reference { api_version: "v1".to_owned(), kind: kind.to_owned(), name: name.to_owned(), namespace }
}

fn item(name: &str, uid: &str) -> Item {
    let (api_version, kind) = ("v1".to_owned(), "ConfigMap".to_owned());
    Item { api_version, kind, name: name.to_owned(), uid: uid.to_owned() }
}

const SECRETS: &str = "GET /api/v1/namespaces/ns/secrets";

#[tokio::test]
async fn the_history_is_read_in_one_request_from_the_labels_of_the_records() {
    let server = server(&[(SECRETS, 200, records(&[record("10", "deployed"), record("9", "superseded")]))]);
    let history = server.cluster.history("r").await.expect("readable");
    let read: Vec<(u32, &str)> =
        history.iter().map(|entry| (entry.revision, entry.status.as_str())).collect();
    assert_eq!(read, [(10, "deployed"), (9, "superseded")]);
    assert_eq!(server.asked().len(), 1);
    assert!(server.asked()[0].contains("labelSelector=owner%3Dhelm%2Cname%3Dr"), "{:?}", server.asked());
}

#[tokio::test]
async fn a_record_without_a_version_is_no_reason_to_install_over_it() {
    let server = server(&[(SECRETS, 200, records(&[record("x", "deployed")]))]);
    let failure = server.cluster.history("r").await.expect_err("not readable");
    assert!(failure.message.contains("sh.helm.release.v1.r.vx"), "{failure}");
}

#[tokio::test]
async fn a_right_that_comes_late_and_a_server_that_restarts_are_waited_for() {
    let answers = [(SECRETS, 403, status(403)), (SECRETS, 503, status(503)), (SECRETS, 200, records(&[]))];
    let server = server(&answers);
    assert_eq!(server.cluster.history("r").await.expect("readable"), []);
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn an_answer_that_cannot_change_is_not_asked_for_again() {
    let server = server(&[(SECRETS, 400, status(400))]);
    let failure = server.cluster.history("r").await.expect_err("refused");
    assert_eq!(failure.message, "reading the release's history: code 400");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn uids_are_looked_up_and_an_object_that_vanished_keeps_its_place() {
    let server = server(&[
        ("GET /api/v1", 200, core()),
        ("GET /api/v1/namespaces/ns/configmaps/a", 200, metadata("a", "u-a", false)),
        ("GET /api/v1/namespaces/n", 200, metadata("n", "u-n", false)),
    ]);
    let references = [
        reference("ConfigMap", "a", None),
        reference("ConfigMap", "gone", Some("ns")),
        reference("ConfigMap", "elsewhere", Some("other")),
        reference("Namespace", "n", None),
    ];
    let items = server.cluster.look_up(&references).await.expect("readable");
    let found: Vec<(&str, &str)> = items.iter().map(|item| (item.name.as_str(), item.uid.as_str())).collect();
    assert_eq!(found, [("a", "u-a"), ("gone", ""), ("n", "u-n")]);
    assert_eq!(server.asked().len(), 4, "one request for the kinds, one for each object that is ours");
}

#[tokio::test]
async fn only_what_is_the_same_object_and_on_its_way_out_is_waited_for() {
    let path = |name: &str| -> &'static str {
        match name {
            "leaving" => "GET /api/v1/namespaces/ns/configmaps/leaving",
            "kept" => "GET /api/v1/namespaces/ns/configmaps/kept",
            _ => "GET /api/v1/namespaces/ns/configmaps/another",
        }
    };
    let server = server(&[
        ("GET /api/v1", 200, core()),
        (path("leaving"), 200, metadata("leaving", "u-1", true)),
        (path("kept"), 200, metadata("kept", "u-2", false)),
        (path("another"), 200, metadata("another", "new", true)),
    ]);
    let unserved = Item { api_version: "example.com/v1".to_owned(), ..item("w", "u-5") };
    let items =
        [item("leaving", "u-1"), item("kept", "u-2"), item("another", "old"), item("gone", "u-4"), unserved];
    assert_eq!(server.cluster.leaving(&items).await.expect("readable"), [item("leaving", "u-1")]);
}

#[tokio::test]
async fn a_deletion_takes_not_there_and_another_one_there_for_done() {
    let server = server(&[
        ("GET /api/v1", 200, core()),
        ("DELETE /api/v1/namespaces/ns/configmaps/another", 409, status(409)),
        ("DELETE /api/v1/namespaces/ns/configmaps/refused", 422, status(422)),
    ]);
    let items = [item("gone", "u-1"), item("another", "u-2"), item("never-there", "")];
    server.cluster.delete(&items).await.expect("done");
    let deletes = server.asked().into_iter().filter(|asked| asked.starts_with("DELETE")).count();
    assert_eq!(deletes, 2, "what never had a UID is not deleted by its name");
    assert!(server.cluster.delete(&[item("refused", "u-3")]).await.is_err());
}

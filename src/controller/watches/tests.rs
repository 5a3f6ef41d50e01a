//! All watches against a server that streams lists as the real one does.
use super::*;
use crate::controller::queue::{Lane, Queue, queue};
use axum::{
    body::{Body, Bytes},
    http::{Request, Response},
};
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use std::{collections::BTreeMap, convert::Infallible, sync::Mutex, time::Duration};
use tokio::time::{sleep, timeout};
use tower::service_fn;

/// What each watch gets: first answers by plural, and every request that was made.
#[derive(Clone, Default)]
struct Server {
    objects: Arc<BTreeMap<&'static str, Vec<Value>>>,
    missing: Option<&'static str>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn answer(&self, request: &Request<kube::client::Body>) -> Response<Body> {
        self.asked.lock().unwrap().push(request.uri().to_string());
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        if self.missing == Some(plural.as_str()) {
            return Response::builder().status(404).body(Body::from("404 page not found\n")).unwrap();
        }
        let added = self.objects.get(plural.as_str()).cloned().unwrap_or_default();
        let line = |kind: &str, object: Value| format!("{}\n", json!({"type": kind, "object": object}));
        let end = json!({"apiVersion": "v1", "kind": "X", "metadata": {
            "resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}});
        let typed = |mut object: Value| {
            // Built-in kinds are checked against these two when they are read.
            let (version, kind) = match plural.as_str() {
                "namespaces" => ("v1", "Namespace"),
                "pods" => ("v1", "Pod"),
                "jobs" => ("batch/v1", "Job"),
                _ => ("x/v1", "X"),
            };
            object["apiVersion"] = json!(version);
            object["kind"] = json!(kind);
            object
        };
        let mut lines: Vec<String> = added.into_iter().map(|object| line("ADDED", typed(object))).collect();
        lines.push(line("BOOKMARK", end));
        let frames = lines.into_iter().map(|text| Ok::<_, Infallible>(Bytes::from(text)));
        Response::new(Body::from_stream(stream::iter(frames).chain(stream::pending())))
    }

    fn start(&self) -> (Watches, Arc<Caches>, Queue, Wakes) {
        let server = self.clone();
        let service =
            service_fn(move |request| std::future::ready(Ok::<_, Infallible>(server.answer(&request))));
        let caches = Arc::new(Caches::new("petri-system"));
        let (wakes, queue) = queue(8, Clock);
        let scope = Scope {
            management_namespace: "petri-system".to_owned(),
            shared_namespace: "petri-shared".to_owned(),
        };
        let client = Client::new(service, "default");
        (Watches::start(client, &scope, Arc::clone(&caches), wakes.clone(), Clock), caches, queue, wakes)
    }
}

fn object(namespace: &str, name: &str, labels: Value, spec: Value) -> Value {
    json!({"spec": spec, "metadata": {
        "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "5", "labels": labels,
        "annotations": {LAST_APPLIED: "{}", "kept": "yes"}, "managedFields": [{"manager": "kubectl"}]}})
}

fn server() -> Server {
    let owned = json!({"petri.run/managed": "true", "petri.run/environment-uid": "uid-one"});
    let container = json!({"containers": [{"name": "deployer", "image": "i"}]});
    let objects = BTreeMap::from([
        (
            "ephemeralenvironments",
            vec![
                object("petri-system", "one", json!({}), json!({"template": "t", "values": {"a": "b"}})),
                object("petri-system", "broken", json!({}), json!({"template": 7})),
            ],
        ),
        ("environmenttemplates", vec![object("petri-system", "t", json!({}), json!({"components": []}))]),
        ("namespaces", vec![object("", "petri-env-1", owned.clone(), json!({}))]),
        (
            "jobs",
            vec![object("petri-env-1", "j", owned.clone(), json!({"template": {"spec": container.clone()}}))],
        ),
        ("pods", vec![object("petri-env-1", "j-x", owned, container)]),
        (
            "deployments",
            vec![
                object("petri-env-1", "web", json!({}), json!({"replicas": 2})),
                object("kube-system", "dns", json!({}), json!({"replicas": 2})),
            ],
        ),
    ]);
    Server { objects: Arc::new(objects), ..Server::default() }
}

#[tokio::test(start_paused = true)]
async fn every_list_arrives_reduced_to_what_is_read_and_one_broken_object_hides_no_other() {
    let (_watches, caches, _queue, _wakes) = server().start();
    timeout(Duration::from_secs(5), caches.wait_synced()).await.unwrap();
    let environment = caches.environment("one").unwrap();
    assert_eq!(&*environment.of.as_ref().unwrap().template, "t");
    assert!(caches.environment("broken").unwrap().of.is_none());
    let template = caches.template("t").unwrap();
    assert!(template.meta().managed_fields.is_none());
    assert_eq!(template.annotations().keys().collect::<Vec<_>>(), ["kept"]);
    assert_eq!(caches.environments_of_template("t").len(), 1);
    assert_eq!(caches.jobs_of("uid-one")[0].name(), "j");
    assert_eq!(caches.pods_of("uid-one")[0].name(), "j-x");
    assert_eq!(caches.namespaces_of("uid-one").len(), 1);
    assert_eq!(caches.workload(WorkloadKind::Deployment, "petri-env-1", "web").unwrap().desired, 2);
    assert!(caches.workloads_in("kube-system").is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_what_is_needed_is_asked_for_and_never_a_secret() {
    let server = server();
    let (_watches, caches, _queue, _wakes) = server.start();
    caches.wait_synced().await;
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 11, "{asked:?}");
    for uri in &asked {
        assert!(uri.contains("timeoutSeconds=190") && uri.contains("sendInitialEvents=true"), "{uri}");
        assert!(!uri.contains("secrets"), "{uri}");
        let own = uri.starts_with("/apis/core.petri.run/v1alpha1/namespaces/petri-system/");
        let managed = uri.contains("labelSelector=petri.run%2Fmanaged%3Dtrue");
        let apps = uri.starts_with("/apis/apps/v1/");
        let pods = uri.contains("labelSelector=petri.run%2Fmanaged%21%3Dtrue");
        assert_eq!([own, managed, apps, pods].into_iter().filter(|it| *it).count(), 1, "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_arrives_wakes_whom_it_concerns() {
    let (_watches, caches, mut queue, wakes) = server().start();
    wakes.open(Vec::new);
    caches.wait_synced().await;
    sleep(Duration::from_secs(1)).await;
    let mut woken = Vec::new();
    while let Some((key, lane)) = queue.next().now_or_never() {
        assert_eq!(lane, Lane::Event);
        woken.push(key);
    }
    woken.sort();
    assert_eq!(woken, [Key::environment("broken"), Key::environment("one"), Key::template("t")]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_waited_for_by_name_and_is_no_reason_to_restart() {
    let server = Server { missing: Some("sharedcomponents"), ..server() };
    let (watches, caches, _queue, _wakes) = server.start();
    sleep(Duration::from_secs(60)).await;
    let ready = Watches::ready(&watches.watched(), &caches);
    assert!(!ready.ok);
    let line = "sharedcomponents: waiting for the first list: custom resource definition \
                sharedcomponents.core.petri.run is missing";
    assert!(ready.text.lines().any(|found| found == line), "{}", ready.text);
    assert!(ready.text.contains("pods: synced\n"), "{}", ready.text);
    assert_eq!(caches.unsynced(), ["sharedcomponents"]);
    assert!(Watches::live(&watches.watched()).ok);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_hears_nothing_for_long_is_named_as_dead() {
    let watched = [Watched::new("pods", None, Clock), Watched::new("jobs", None, Clock)];
    tokio::time::advance(SILENCE_MAX).await;
    assert!(Watches::live(&watched).ok);
    tokio::time::advance(Duration::from_secs(1)).await;
    let report = Watches::live(&watched);
    assert!(!report.ok && report.text.contains("watch of pods: nothing heard for 301 s"), "{}", report.text);
}

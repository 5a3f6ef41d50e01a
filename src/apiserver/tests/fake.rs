//! A management namespace in memory: names, labels, pages, compare-and-swap, deletion, watches, and faults on order.

use axum::http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// The namespace of all tests.
pub const NAMESPACE: &str = "petri-system";

#[derive(Default)]
pub struct State {
    pub objects: BTreeMap<String, Value>,
    pub templates: Vec<Value>,
    pub events: Vec<Value>,
    version: u64,
    /// The next answers to requests that begin with this.
    pub faults: VecDeque<(String, u16, &'static str)>,
    /// Verb and path of every request.
    pub calls: Vec<String>,
    /// Done to an object each time before a replacement of it is looked at.
    pub meddle: Option<fn(&mut Value)>,
    pub pause: Duration,
}

/// Clones are the same namespace.
#[derive(Clone, Default)]
pub struct Fake(Arc<Mutex<State>>);

fn answer(code: u16, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn failure(code: u16, reason: &str) -> Response<Body> {
    let message = "PRIVATE etcd.internal:2379 ServiceAccount petri-system:petri-apiserver";
    answer(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": message}),
    )
}

impl Fake {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn client(&self) -> kube::Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { Ok::<_, std::convert::Infallible>(fake.answer(request).await) }
        });
        kube::Client::new(service, NAMESPACE)
    }

    /// Puts an object there as somebody else would.
    pub fn put(&self, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        object["metadata"]["uid"] = format!("uid-{}", state.version).into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["apiVersion"] = "core.petri.run/v1alpha1".into();
        object["kind"] = "EphemeralEnvironment".into();
        state.objects.insert(name, object);
    }

    /// Changes an object as the operator would.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version.to_string();
        let object = state.objects.get_mut(name).unwrap();
        change(object);
        object["metadata"]["resourceVersion"] = version.into();
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        self.state().objects.get(name).cloned()
    }

    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let query: BTreeMap<String, String> = head.uri.query().map(pairs).unwrap_or_default();
        let call = format!("{} {}", head.method, head.uri.path());
        let pause = {
            let mut state = self.state();
            state.calls.push(call.clone());
            if state.faults.front().is_some_and(|(begin, ..)| call.starts_with(begin.as_str())) {
                let (_, code, reason) = state.faults.pop_front().unwrap();
                return failure(code, reason);
            }
            state.pause
        };
        tokio::time::sleep(pause).await;
        let bytes = body.collect_bytes().await.unwrap();
        let base = format!("/apis/core.petri.run/v1alpha1/namespaces/{NAMESPACE}/");
        let path = head.uri.path();
        if path == format!("/api/v1/namespaces/{NAMESPACE}/events") {
            let wanted = query.get("fieldSelector").cloned().unwrap_or_default();
            let uid = wanted.strip_prefix("involvedObject.uid=").unwrap();
            let state = self.state();
            let items: Vec<_> =
                state.events.iter().filter(|event| event["involvedObject"]["uid"] == uid).collect();
            return answer(200, &json!({"metadata": {}, "items": items}));
        }
        let Some(rest) = path.strip_prefix(&base) else { return failure(404, "NotFound") };
        match rest.split_once('/') {
            None if rest == "environmenttemplates" => {
                answer(200, &json!({"metadata": {}, "items": self.state().templates.clone()}))
            }
            None if query.get("watch").is_some_and(|watch| watch == "true") => self.watch(&query).await,
            None if head.method == Method::POST => self.create(serde_json::from_slice(&bytes).unwrap()),
            None => self.list(&query),
            Some((_, name)) => match head.method {
                Method::PUT => self.replace(name, serde_json::from_slice(&bytes).unwrap()),
                Method::DELETE => self.delete(name, &serde_json::from_slice(&bytes).unwrap_or_default()),
                _ => match self.get(name) {
                    Some(object) => answer(200, &object),
                    None => failure(404, "NotFound"),
                },
            },
        }
    }

    fn create(&self, mut object: Value) -> Response<Body> {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if self.state().objects.contains_key(&name) {
            return failure(409, "AlreadyExists");
        }
        object["status"] = json!({});
        self.put(object);
        answer(201, &self.get(&name).unwrap())
    }

    fn replace(&self, name: &str, mut wanted: Value) -> Response<Body> {
        let meddle = self.state().meddle;
        if let Some(meddle) = meddle
            && self.get(name).is_some()
        {
            self.edit(name, meddle);
        }
        let Some(held) = self.get(name) else { return failure(404, "NotFound") };
        if wanted["metadata"]["resourceVersion"] != held["metadata"]["resourceVersion"] {
            return failure(409, "Conflict");
        }
        wanted["status"] = held["status"].clone();
        let generation = held["metadata"]["generation"].as_u64().unwrap();
        let changed = u64::from(wanted["spec"] != held["spec"]);
        wanted["metadata"]["generation"] = (generation + changed).into();
        self.edit(name, |object| *object = wanted);
        answer(200, &self.get(name).unwrap())
    }

    fn delete(&self, name: &str, options: &Value) -> Response<Body> {
        let Some(held) = self.get(name) else { return failure(404, "NotFound") };
        let uid = options.pointer("/preconditions/uid");
        if uid.is_some_and(|uid| *uid != held["metadata"]["uid"]) {
            return failure(409, "Conflict");
        }
        if held["metadata"]["finalizers"].is_array() {
            self.edit(name, |object| object["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z".into());
            return answer(200, &self.get(name).unwrap());
        }
        self.state().objects.remove(name);
        answer(200, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}))
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Response<Body> {
        let state = self.state();
        let label = query.get("labelSelector").and_then(|text| text.split_once('='));
        let only = query.get("fieldSelector").and_then(|text| text.strip_prefix("metadata.name="));
        let limit: usize = query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let after = query.get("continue").cloned().unwrap_or_default();
        let mut found = state.objects.iter().filter(|(name, object)| {
            let labelled = label.is_none_or(|(key, value)| object["metadata"]["labels"][key] == value);
            labelled && only.is_none_or(|only| only == *name) && name.as_str() > after.as_str()
        });
        let items: Vec<_> = found.by_ref().take(limit).map(|(_, object)| object.clone()).collect();
        let rest = found.next().is_some();
        let last = items.last().map(|object| object["metadata"]["name"].clone());
        let next = if rest { last.unwrap_or_default() } else { Value::from("") };
        let version = state.version.to_string();
        let body = json!({"kind": "List", "apiVersion": "v1", "items": items,
            "metadata": {"resourceVersion": version, "continue": next}});
        answer(200, &body)
    }

    /// Answers with the next change and ends, as a server may.
    async fn watch(&self, query: &BTreeMap<String, String>) -> Response<Body> {
        let name = query["fieldSelector"].strip_prefix("metadata.name=").unwrap().to_owned();
        let since: u64 = query["resourceVersion"].parse().unwrap();
        let mut last = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
            "metadata": {"name": name, "resourceVersion": (since + 1).to_string()}, "spec": {"template": "x"}});
        for _ in 0..500 {
            let (kind, object) = match self.get(&name) {
                None => ("DELETED", last.clone()),
                Some(object) => ("MODIFIED", object),
            };
            let version: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            if kind == "DELETED" || version > since {
                return answer(200, &json!({"type": kind, "object": object}));
            }
            last = object;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Response::builder().status(StatusCode::OK).body(Body::empty()).unwrap()
    }
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let plain =
        |text: &str| text.replace("%3D", "=").replace("%2F", "/").replace("%2B", "+").replace("%2C", ",");
    query.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (plain(k), plain(v))).collect()
}

//! The suite of what the dish takes for granted, asked of a real API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::{
    batch::v1::Job,
    coordination::v1::Lease,
    core::v1::{Namespace, Pod, Secret},
};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, Status};
use kube::runtime::wait::{Condition, await_condition};
use petri_crds::EphemeralEnvironment;
use petri_proptests::conformance::{
    self, Answer, Call, Change, Facts, Nature, Refused, Server, Thing, Version, Which,
};
use serde_json::{Value, json};

use crate::lab::image;
use crate::petri::{Error, Petri};

/// Nothing takes longer, an image that is there already and a mount that is tried again after a pause included.
const PATIENCE: Duration = Duration::from_secs(150);
/// How often something is looked at that is awaited.
const LOOK: Duration = Duration::from_millis(200);
/// Seconds of a watch; the server sends a bookmark about every minute.
const WATCH_SECS: u32 = 100;
/// A finalizer that nobody acts on.
const FINALIZER: &str = "petri.run/conformance";
const OWN: &str = "own";

/// Runs every case, each in a namespace of its own.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let (client, started) = (petri.lab.client(), Instant::now());
    let cases = conformance::all();
    let mut spaces = Vec::new();
    let mut wrong = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let space = format!("conformance-{at}");
        let mut real = Real::new(client.clone(), space.clone());
        if let Err(breach) = conformance::check(&mut real, case).await {
            wrong.push(breach.to_string());
        }
        spaces.push(space);
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for space in &spaces {
        // What a failed case left goes with its namespace, once nothing holds it.
        let own = Real::new(client.clone(), space.clone()).api(Thing::Own);
        let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
        let _ = own.0.patch(&own.1, &PatchParams::default(), &free).await;
        let _ = namespaces.delete(space, &DeleteParams::default()).await;
    }
    for space in &spaces {
        let gone = await_condition(namespaces.clone(), space, is_deleted_by_name());
        let _ = tokio::time::timeout(PATIENCE, gone).await;
    }
    if !wrong.is_empty() {
        return Err(Error::Wrong(wrong.join("\n")));
    }
    let steps: usize = cases.iter().map(|case| case.steps.len()).sum();
    Ok(format!("{} assumptions in {steps} answers, {:.0} s", cases.len(), started.elapsed().as_secs_f64()))
}

/// What is known of one object.
#[derive(Default)]
struct Known {
    uids: Vec<String>,
    first: String,
    last: DynamicVersion,
}

#[derive(Default, Clone)]
struct DynamicVersion(Option<DynamicObject>);

impl DynamicVersion {
    fn version(&self) -> String {
        self.0.as_ref().and_then(|object| object.metadata.resource_version.clone()).unwrap_or_default()
    }
}

/// A real API server, one namespace of it.
struct Real {
    client: kube::Client,
    space: String,
    known: BTreeMap<Thing, Known>,
    listed: String,
    writes: u32,
}

type Told = Result<Answer, kube::Error>;

fn refused(status: &Status) -> Answer {
    let causes = || status.details.iter().flat_map(|details| &details.causes);
    Answer::Refused(match (status.code, status.reason.as_str()) {
        (404, _) => Refused::NotFound,
        (409, "AlreadyExists") if status.message.starts_with("object is being deleted") => Refused::Dying,
        (409, "AlreadyExists") => Refused::Exists,
        (409, _) => Refused::Conflict,
        (403, _) if causes().any(|cause| cause.reason == "NamespaceTerminating") => Refused::Terminating,
        (410, _) => Refused::Expired,
        (code, reason) => return Answer::Strange(format!("{code} {reason}: {}", status.message)),
    })
}

impl Server for Real {
    async fn call(&mut self, call: Call) -> Answer {
        match self.answer(call).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) => refused(&status),
            Err(error) => Answer::Strange(error.to_string()),
        }
    }
}

impl Real {
    fn new(client: kube::Client, space: String) -> Self {
        Self { client, space, known: BTreeMap::new(), listed: String::new(), writes: 0 }
    }

    fn api(&self, thing: Thing) -> (Api<DynamicObject>, String) {
        let (resource, name) = match thing {
            Thing::Space => {
                let all = Api::all_with(self.client.clone(), &ApiResource::erase::<Namespace>(&()));
                return (all, self.space.clone());
            }
            Thing::Secret(name) => (ApiResource::erase::<Secret>(&()), name),
            Thing::Job(name, _) => (ApiResource::erase::<Job>(&()), name),
            Thing::Own => (ApiResource::erase::<EphemeralEnvironment>(&()), OWN),
            Thing::Lease => (ApiResource::erase::<Lease>(&()), "lease"),
        };
        (Api::namespaced_with(self.client.clone(), &self.space, &resource), name.to_owned())
    }

    async fn answer(&mut self, call: Call) -> Told {
        match call {
            Call::Create(thing) => self.create(thing).await,
            Call::Delete(thing, which) => self.delete(thing, which).await,
            Call::DeleteOwn(version) => self.delete_own(version).await,
            Call::Read(thing) => self.read(thing).await,
            Call::Status(version, changes) => self.status(version, changes).await,
            Call::Spec => {
                self.writes += 1;
                let patch = json!({"spec": {"values": {"writes": self.writes.to_string()}}});
                let (api, name) = self.api(Thing::Own);
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
                Ok(Answer::Done)
            }
            Call::Finalizer(version, held) => self.finalizer(version, held).await,
            Call::Renew(who, version) => self.renew(who, version).await,
            Call::Runs(job) => self.until(|pods| phase(pods) == Some("Running"), job).await,
            Call::Ends(job) => self.ends(job).await,
            Call::Waits(job) => {
                tokio::time::sleep(Duration::from_secs(5)).await;
                let pods = self.pods(job).await?;
                Ok(match phase(&pods) {
                    None | Some("Pending") => Answer::Done,
                    Some(phase) => Answer::Strange(format!("its pod is {phase}")),
                })
            }
            Call::Gone(thing) => self.gone(thing).await,
            Call::List => {
                let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.space);
                let list = jobs.list(&ListParams::default()).await?;
                self.listed = list.metadata.resource_version.unwrap_or_default();
                Ok(Answer::Done)
            }
            Call::Watch => self.watch(&self.listed).await,
        }
    }

    async fn create(&mut self, thing: Thing) -> Told {
        let (api, name) = self.api(thing);
        let mut body = body(thing);
        body["metadata"] = json!({"name": name});
        let object: DynamicObject = serde_json::from_value(body).map_err(kube::Error::SerdeError)?;
        let object = api.create(&PostParams::default(), &object).await?;
        let known = self.known.entry(thing).or_default();
        known.uids.extend(object.metadata.uid.clone());
        known.last = DynamicVersion(Some(object));
        known.first = known.last.version();
        Ok(Answer::Done)
    }

    /// What is being deleted already is deleted once more without any change.
    async fn delete(&self, thing: Thing, which: Which) -> Told {
        let (api, name) = self.api(thing);
        let uids = self.known.get(&thing).map(|known| known.uids.as_slice()).unwrap_or_default();
        let uid = match which {
            Which::Its => uids.last(),
            Which::First => uids.first(),
            Which::Nobodys => None,
        };
        let uid = Some(uid.cloned().unwrap_or_else(|| "11111111-2222-3333-4444-555555555555".to_owned()));
        let dying = api.get_opt(&name).await?.is_some_and(|o| o.metadata.deletion_timestamp.is_some());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            propagation_policy: matches!(thing, Thing::Job(..)).then_some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        api.delete(&name, &params).await?;
        Ok(if dying { Answer::Same } else { Answer::Done })
    }

    async fn delete_own(&mut self, version: Version) -> Told {
        let (api, name) = self.api(Thing::Own);
        let (uid, resource_version) = self.named(Thing::Own, version);
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: Some(resource_version) }),
            ..DeleteParams::default()
        };
        let left = api.delete(&name, &params).await?.left();
        let waits = left.filter(|object| object.metadata.deletion_timestamp.is_some());
        Ok(waits.map_or(Answer::Done, |object| self.wrote(Thing::Own, object)))
    }

    async fn read(&mut self, thing: Thing) -> Told {
        let (api, name) = self.api(thing);
        let object = api.get(&name).await?;
        let ended = match thing {
            Thing::Job(job, _) => self.ended(job, &object.data).await?,
            _ => None,
        };
        let facts = Facts {
            deleting: object.metadata.deletion_timestamp.is_some(),
            finalizer: object.metadata.finalizers.iter().flatten().any(|one| one == FINALIZER),
            changes: if thing == Thing::Own { object.metadata.generation.unwrap_or(1) - 1 } else { 0 },
            ended,
        };
        self.known.entry(thing).or_default().last = DynamicVersion(Some(object));
        Ok(Answer::There(facts))
    }

    /// How a Job says that it ended. While its pod has not, it must not say so.
    async fn ended(&self, job: &str, data: &Value) -> Result<Option<bool>, kube::Error> {
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
        let is = |kind: &str| {
            conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
        };
        if !is("Complete") && !is("Failed") {
            return Ok(None);
        }
        let pods = self.pods(job).await?;
        let over = pods.len() == 1 && matches!(phase(&pods), Some("Succeeded" | "Failed"));
        Ok(over.then(|| is("Complete")))
    }

    async fn status(&mut self, version: Version, changes: bool) -> Told {
        let (api, name) = self.api(Thing::Own);
        let (_, resource_version) = self.named(Thing::Own, version);
        self.writes += u32::from(changes);
        let Some(mut object) = self.known.get(&Thing::Own).and_then(|known| known.last.0.clone()) else {
            return Ok(Answer::Strange("never read".to_owned()));
        };
        object.metadata.resource_version = Some(resource_version);
        object.metadata.managed_fields = None;
        object.data["status"] = json!({"observedGeneration": self.writes});
        // What a status write says of the spec is ignored.
        object.data["spec"]["values"] = json!({"ignored": "yes"});
        let object = api.replace_status(&name, &PostParams::default(), &object).await?;
        Ok(self.wrote(Thing::Own, object))
    }

    async fn finalizer(&mut self, version: Version, held: bool) -> Told {
        let (api, name) = self.api(Thing::Own);
        let (uid, resource_version) = self.named(Thing::Own, version);
        let finalizers: &[&str] = if held { &[FINALIZER] } else { &[] };
        let metadata = json!({"uid": uid, "resourceVersion": resource_version, "finalizers": finalizers});
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let object = api.patch(&name, &PatchParams::default(), &patch).await?;
        // One that goes with its last finalizer is not stored once more, and has no new version.
        let goes = object.metadata.deletion_timestamp.is_some() && !held;
        let answer = self.wrote(Thing::Own, object);
        Ok(if goes { Answer::Done } else { answer })
    }

    async fn renew(&mut self, who: &str, version: Version) -> Told {
        let (api, name) = self.api(Thing::Lease);
        let (_, resource_version) = self.named(Thing::Lease, version);
        self.writes += 1;
        let Some(mut object) = self.known.get(&Thing::Lease).and_then(|known| known.last.0.clone()) else {
            return Ok(Answer::Strange("never read".to_owned()));
        };
        object.metadata.resource_version = Some(resource_version);
        object.metadata.managed_fields = None;
        object.data["spec"] = json!({"holderIdentity": who, "leaseTransitions": self.writes});
        let object = api.replace(&name, &PostParams::default(), &object).await?;
        Ok(self.wrote(Thing::Lease, object))
    }

    async fn pods(&self, job: &str) -> Result<Vec<Pod>, kube::Error> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.space);
        let own = format!("batch.kubernetes.io/job-name={job}");
        Ok(pods.list(&ListParams::default().labels(&own)).await?.items)
    }

    async fn until(&self, enough: impl Fn(&[Pod]) -> bool, job: &str) -> Told {
        let started = Instant::now();
        loop {
            let pods = self.pods(job).await?;
            if enough(&pods) {
                return Ok(Answer::Done);
            }
            if started.elapsed() > PATIENCE {
                let last = pods.first().and_then(|pod| pod.status.clone());
                return Ok(Answer::Strange(format!("too late: {last:?}")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn ends(&self, job: &'static str) -> Told {
        let (api, name) = self.api(Thing::Job(job, Nature::EndsWell));
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let data = api.get(&name).await?.data;
            if self.ended(job, &data).await?.is_some() {
                return Ok(Answer::Done);
            }
            if data.pointer("/status/completionTime").is_some() {
                return Ok(Answer::Strange("the Job says that it ended, its pod does not".to_owned()));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Answer::Strange("too late".to_owned()))
    }

    async fn gone(&self, thing: Thing) -> Told {
        let (api, name) = self.api(thing);
        let started = Instant::now();
        while api.get_opt(&name).await?.is_some() {
            if started.elapsed() > PATIENCE {
                return Ok(Answer::Strange("still there".to_owned()));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Answer::Done)
    }

    async fn watch(&self, from: &str) -> Told {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.space);
        let news = jobs.watch(&WatchParams::default().timeout(WATCH_SECS), from).await?;
        pin_mut!(news);
        let mut said = Vec::new();
        while let Some(event) = news.next().await {
            said.push(match event? {
                WatchEvent::Added(_) => Change::Added,
                WatchEvent::Modified(_) => Change::Modified,
                WatchEvent::Deleted(_) => Change::Deleted,
                WatchEvent::Bookmark(_) => {
                    said.push(Change::Bookmark);
                    break;
                }
                WatchEvent::Error(status) => return Ok(refused(&status)),
            });
        }
        said.dedup();
        Ok(Answer::News(said))
    }

    /// UID and version that a write names.
    fn named(&self, thing: Thing, version: Version) -> (Option<String>, String) {
        let Some(known) = self.known.get(&thing) else { return (None, String::new()) };
        let version = if version == Version::First { known.first.clone() } else { known.last.version() };
        (known.uids.last().cloned(), version)
    }

    fn wrote(&mut self, thing: Thing, object: DynamicObject) -> Answer {
        let known = self.known.entry(thing).or_default();
        let same = object.metadata.resource_version.as_deref() == Some(known.last.version().as_str());
        known.last = DynamicVersion(Some(object));
        if same { Answer::Same } else { Answer::Done }
    }
}

fn is_deleted_by_name() -> impl Condition<Namespace> {
    |namespace: Option<&Namespace>| namespace.is_none()
}

fn phase(pods: &[Pod]) -> Option<&str> {
    pods.first()?.status.as_ref()?.phase.as_deref()
}

fn body(thing: Thing) -> Value {
    match thing {
        Thing::Space => json!({"apiVersion": "v1", "kind": "Namespace"}),
        Thing::Secret(_) => json!({"apiVersion": "v1", "kind": "Secret"}),
        Thing::Own => json!({
            "apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
            "spec": {"template": "nobody-looks-here"},
        }),
        Thing::Lease => json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}),
        Thing::Job(name, nature) => {
            let script = match nature {
                Nature::EndsWell => "true",
                Nature::EndsBadly => "exit 3",
                Nature::Stays => "trap '' TERM; while :; do sleep 1; done",
            };
            json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 4,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main", "image": image::POSTGRES, "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "payload", "mountPath": "/payload"}],
                }],
                "volumes": [{"name": "payload", "secret": {"secretName": name}}],
            }}}})
        }
    }
}

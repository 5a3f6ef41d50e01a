//! Five charts as people write them: each deploys, is upgraded in place and leaves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use petri_crds::{EphemeralEnvironment, Phase};
use serde_json::{Value, json};

use super::audit::Audit;
use super::bad_input::{cleaned, environment, simple_template};
use crate::petri::{Error, Petri, checkout, namespace_of, summary};

const PATIENCE: Duration = Duration::from_secs(150);
/// The component of [`simple_template`]; with the environment's name it is the release's.
const COMPONENT: &str = "db";

/// Each chart, what its template says of the values, and what the environment changes later.
fn charts() -> [(&'static str, Value, Value); 5] {
    let over = |values: Value| json!({"components": [{"name": COMPONENT, "valuesObject": values}]});
    [
        ("shop", json!({}), over(json!({"global": {"team": "green"}, "finder": {"enabled": true}}))),
        ("records", json!({}), over(json!({"entries": ["first", "third"]}))),
        ("migrate", json!({}), over(json!({"schema": 2}))),
        ("keeper", json!({"database": "orders"}), over(json!({"user": "next"}))),
        ("templated", json!({}), over(json!({"autoscaling": {"enabled": false}}))),
    ]
}

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let mut audit = Audit::from_now(petri.lab.audit_log())?;
    for (chart, values, _) in charts() {
        simple_template(petri, chart, json!({"path": format!("/charts/{chart}"), "valuesObject": values}))
            .await?;
        petri.apply_object(&petri.environments(), &environment(chart, chart, json!({}))).await?;
    }
    let not_served =
        petri.until("records", "KindNotServed", PATIENCE, says("KindNotServed", "Record")).await?;
    kind(petri, "apply").await?;
    let token = json!({"metadata": {"annotations": {"petri.run/retry": "served"}}});
    petri.patch("records", token).await?;
    let mut before = BTreeMap::new();
    for (chart, ..) in charts() {
        let ready = petri.until_ready(chart, PATIENCE).await?;
        let namespace = namespace_of(&ready)?;
        look(petri, chart, &namespace, false).await?;
        before.insert(chart, (namespace.clone(), password(petri, &namespace).await?));
    }
    for (chart, _, change) in charts() {
        petri.patch(chart, json!({ "spec": change })).await?;
    }
    for (chart, ..) in charts() {
        petri.until_ready(chart, PATIENCE).await?;
        let (namespace, password_before) = &before[chart];
        look(petri, chart, namespace, true).await?;
        if password(petri, namespace).await? != *password_before {
            return Err(Error::Wrong("the upgrade changed the password that lookup finds".to_owned()));
        }
    }
    // The kind of one release goes before the release does.
    kind(petri, "delete").await?;
    for (chart, ..) in charts() {
        petri.delete(chart).await?;
    }
    for (chart, ..) in charts() {
        petri.until_gone(chart, PATIENCE).await?;
    }
    cleaned(petri).await?;
    hooks_ran(&mut audit)?;
    Ok(summary(&not_served))
}

fn says(reason: &'static str, what: &'static str) -> impl Fn(&EphemeralEnvironment) -> bool {
    move |found| {
        let status = found.status.as_ref();
        let failed = status.and_then(|status| status.phase) == Some(Phase::Failed);
        let mut components = status.into_iter().flat_map(|status| &status.components);
        failed
            && components.any(|component| {
                component.last_failure_reason.as_deref() == Some(reason)
                    && component.message.as_deref().is_some_and(|message| message.contains(what))
            })
    }
}

/// Does what the cluster's administrator does for the chart with a kind of its own: the kind, and the right to it.
async fn kind(petri: &Petri<'_>, what: &str) -> Result<(), Error> {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "records", "labels": {"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
        "rules": [{"apiGroups": ["charts.example.com"], "resources": ["records"], "verbs": ["*"]}],
    });
    let file = petri.lab.logs().join("records-role.json");
    std::fs::write(&file, role.to_string()).map_err(|source| Error::File { path: file.clone(), source })?;
    let definition = checkout().join("e2e/charts/records/crds/records.yaml");
    for path in [&definition, &file] {
        petri.lab.kubectl(&[what.as_ref(), "-f".as_ref(), path.as_os_str()]).await?;
    }
    if what == "apply" {
        let wait = ["wait", "--for=condition=Established", "crd/records.charts.example.com", "--timeout=30s"];
        petri.lab.kubectl(&wait).await?;
    }
    Ok(())
}

/// The password of the chart that keeps one; empty for the others.
async fn password(petri: &Petri<'_>, namespace: &str) -> Result<Option<ByteString>, Error> {
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), namespace);
    let found = secrets.get_opt(&format!("keeper-{COMPONENT}")).await?;
    Ok(found.and_then(|secret| secret.data?.remove("password")))
}

/// A release to look at: before or after its change.
struct View {
    client: kube::Client,
    namespace: String,
    release: String,
    changed: bool,
}

/// Looks at what only this chart has.
async fn look(petri: &Petri<'_>, chart: &str, namespace: &str, changed: bool) -> Result<(), Error> {
    let release = format!("{chart}-{COMPONENT}");
    let view = View { client: petri.lab.client(), namespace: namespace.to_owned(), release, changed };
    match chart {
        "shop" => view.shop().await,
        "records" => view.records().await,
        "migrate" => view.migrate().await,
        "keeper" => view.keeper().await,
        "templated" => view.templated().await,
        _ => Err(Error::Wrong(format!("nobody looks at {chart}"))),
    }
}

impl View {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// One entry of a ConfigMap of the release.
    async fn told(&self, suffix: &str, key: &str) -> Result<Option<String>, Error> {
        let found = self.api::<ConfigMap>().get_opt(&format!("{}{suffix}", self.release)).await?;
        Ok(found.and_then(|found| found.data?.remove(key)))
    }

    async fn shop(&self) -> Result<(), Error> {
        let Self { release, changed, .. } = self;
        let team = if *changed { "green" } else { "blue" };
        expect("tpl", self.told("", "banner").await?, Some(format!("{team} serves {release}")))?;
        expect("imported value", self.told("", "cache").await?, Some("cache:6379".to_owned()))?;
        expect("part by default", self.told("-cache", "size").await?, Some("16".to_owned()))?;
        let finder = self.told("-finder", "team").await?;
        expect("part on demand", finder, changed.then(|| team.to_owned()))?;
        let test = self.api::<Pod>().get_opt(&format!("{release}-test")).await?;
        expect("test pod", test.is_some(), false)
    }

    async fn records(&self) -> Result<(), Error> {
        let kind = kube::core::GroupVersionKind::gvk("charts.example.com", "v1", "Record");
        let resource = ApiResource::from_gvk(&kind);
        let records: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        let found = records.list(&ListParams::default()).await?.items;
        let found: Vec<String> = found.into_iter().filter_map(|record| record.metadata.name).collect();
        let second = if self.changed { "third" } else { "second" };
        let release = &self.release;
        expect("records", found, vec![format!("{release}-first"), format!("{release}-{second}")])
    }

    async fn migrate(&self) -> Result<(), Error> {
        let (schema, when) = if self.changed { ("2", "upgrade") } else { ("1", "install") };
        expect("schema", self.told("", "schema").await?, Some(schema.to_owned()))?;
        for hook in [format!("pre-{when}"), format!("post-{when}")] {
            let job = self.api::<Job>().get(&format!("{}-{hook}", self.release)).await?;
            expect(&hook, job.status.and_then(|status| status.succeeded), Some(1))?;
        }
        expect("plan", self.told("-plan", "schema").await?, None)
    }

    async fn keeper(&self) -> Result<(), Error> {
        let data = self.api::<Secret>().get(&self.release).await?.data.unwrap_or_default();
        let user = data.get("user").map(|user| String::from_utf8_lossy(&user.0).into_owned());
        let length = data.get("password").map(|password| password.0.len());
        expect("user", user, Some(if self.changed { "next" } else { "app" }.to_owned()))?;
        expect("password's length", length, Some(24))
    }

    async fn templated(&self) -> Result<(), Error> {
        let release = &self.release;
        expect("greeting", self.told("", "greeting").await?, Some(format!("hello {release}")))?;
        let file = self.told("", "proxy.conf").await?;
        expect("file", file.is_some_and(|file| file.contains(&format!("upstream: {release}"))), true)?;
        expect("extra object", self.told("-extra", "release").await?, Some(release.clone()))?;
        let scaled = self.api::<HorizontalPodAutoscaler>().get_opt(release).await?;
        expect("autoscaler", scaled.is_some(), !self.changed)
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Wrong(format!("{what}: {found:?} instead of {expected:?}")))
    }
}

/// The hooks of the removal have left with their namespace: only the API server's own log tells of them.
fn hooks_ran(audit: &mut Audit) -> Result<(), Error> {
    let requests = audit.news()?;
    for hook in ["pre-delete", "post-delete"] {
        let name = format!("migrate-{COMPONENT}-{hook}");
        let created = requests.iter().any(|request| {
            // Helm 4 makes by an apply what helm 3 made by a create.
            matches!(request.verb.as_str(), "create" | "patch")
                && request.is_complete()
                && request.object().is_some_and(|object| object.resource == "jobs" && object.name == name)
        });
        if !created {
            return Err(Error::Wrong(format!("the hook {hook} did not run")));
        }
    }
    Ok(())
}

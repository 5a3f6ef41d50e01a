//! One PostgreSQL for many environments: places, databases made and dropped by `psql`, and deletion in one command.

pub(in crate::cases) mod redis;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod, core::v1::Secret, events::v1::Event};
use kube::api::{Api, ListParams};
use petri_crds::{EnvironmentTemplate, Phase, SharedComponent, SharedComponentProvider};
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment};
use crate::petri::{Error, MANAGEMENT, Petri, VALUES, entries, namespace_of, story};
use crate::traces::Receiver;

const PATIENCE: Duration = Duration::from_secs(150);
const SHARED: &str = "petri-shared";

/// Two environments and one place: the second waits and says for whom, and goes on when the first leaves; then all of
/// it is deleted in one command, and nothing is left. The operator exports its traces meanwhile.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let receiver = Receiver::start(&petri.lab.host_address()).await?;
    let endpoint = receiver.endpoint();
    let mut values = VALUES.to_vec();
    values.push(("config.otlpEndpoint", &endpoint));
    petri.helm_upgrade(&values).await?;
    let told = turns(petri, &receiver).await;
    petri.helm_upgrade(&VALUES).await?;
    told
}

async fn turns(petri: &Petri<'_>, receiver: &Receiver) -> Result<String, Error> {
    set_up(petri).await?;
    let started = Instant::now();
    for name in ["one", "two"] {
        if name == "two" {
            petri.until_ready("one", PATIENCE).await?;
        }
        petri.apply_object(&petri.environments(), &environment(name, "shared", json!({}))).await?;
    }
    let took = started.elapsed();
    let one = petri.environments().get("one").await?;
    let page = petri.fetch(&namespace_of(&one)?, "one-web", "/").await?;
    if entries(&page).get("database").map(String::as_str) != Some("one") {
        return Err(Error::Wrong(format!(
            "the page does not come out of the environment's database:\n{page}"
        )));
    }
    let waits = |environment: &petri_crds::EphemeralEnvironment| {
        let (reason, message) = story(environment);
        let phase = environment.status.as_ref().and_then(|status| status.phase);
        phase == Some(Phase::Pending) && reason == "SharedComponentAtCapacity" && message.contains("one/db")
    };
    petri.until("two", "to wait for the place of one", PATIENCE, waits).await?;
    let values = generated(petri).await?;
    unseen(petri, receiver, &values).await?;
    petri.delete("one").await?;
    petri.until_gone("one", PATIENCE).await?;
    petri.until_ready("two", PATIENCE).await?;
    let started = Instant::now();
    let all =
        ["delete", "-n", MANAGEMENT, "--wait=false", "eenv/two", "shc/pg", "shcp/postgres", "etmpl/shared"];
    petri.lab.kubectl(&all).await?;
    petri.until_gone("two", PATIENCE).await?;
    gone(petri).await?;
    let gone = started.elapsed();
    cleaned(petri).await?;
    Ok(format!(
        "the first Ready after {:.1} s, all gone {:.1} s after one command, {} values nowhere to be seen",
        took.as_secs_f64(),
        gone.as_secs_f64(),
        values.len()
    ))
}

async fn set_up(petri: &Petri<'_>) -> Result<(), Error> {
    let decode = |error: serde_json::Error| Error::Wrong(error.to_string());
    let meta = |name: &str| json!({"name": name, "namespace": MANAGEMENT});
    let kind = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "core.petri.run/v1alpha1", "kind": kind, "metadata": meta(name), "spec": spec});
    let provider: SharedComponentProvider =
        serde_json::from_value(kind("SharedComponentProvider", "postgres", provider())).map_err(decode)?;
    let spec = json!({"provider": "postgres", "maxConsumers": 1});
    let shared: SharedComponent =
        serde_json::from_value(kind("SharedComponent", "pg", spec)).map_err(decode)?;
    let template: EnvironmentTemplate =
        serde_json::from_value(kind("EnvironmentTemplate", "shared", template())).map_err(decode)?;
    petri.apply_object(&Api::namespaced(petri.lab.client(), MANAGEMENT), &provider).await?;
    petri.apply_object(&Api::namespaced(petri.lab.client(), MANAGEMENT), &shared).await?;
    petri.apply_object(&petri.templates(), &template).await?;
    Ok(())
}

fn provider() -> Value {
    let script = |sql: &str| {
        json!({
            "image": "docker.io/petri/postgres:15",
            "script": format!("set -eu\nsql() {{ /usr/lib/postgresql/15/bin/psql -v ON_ERROR_STOP=1 -qAt -c \"$1\" \"${{2:-postgres}}\"; }}\n{sql}"),
            "env": [
                {"name": "PGHOST", "value": "{{ .Instance.host }}"},
                {"name": "PGUSER", "value": "root"},
                {"name": "PGPASSWORD", "value": "{{ .Instance.password }}"},
                {"name": "ROLE", "value": "{{ .Env.Slug }}"},
            ],
        })
    };
    let provision = "[ -n \"$(sql \"SELECT 1 FROM pg_roles WHERE rolname = '$ROLE'\")\" ] || \
        sql \"CREATE ROLE \\\"$ROLE\\\" LOGIN PASSWORD '$PETRI_GENERATED_SECRET'\"\n\
        [ -n \"$(sql \"SELECT 1 FROM pg_database WHERE datname = '$ROLE'\")\" ] || \
        sql \"CREATE DATABASE \\\"$ROLE\\\" OWNER \\\"$ROLE\\\"\"\n\
        sql \"CREATE TABLE IF NOT EXISTS instance AS SELECT 'slice of $ROLE'::text AS marker\" \"$ROLE\"\n\
        sql \"ALTER TABLE instance OWNER TO \\\"$ROLE\\\"\" \"$ROLE\"\n";
    let deprovision = "sql \"DROP DATABASE IF EXISTS \\\"$ROLE\\\" WITH (FORCE)\"\nsql \"DROP ROLE IF EXISTS \\\"$ROLE\\\"\"\n";
    json!({
        "helm": {"path": "/charts/postgres", "values": {"user": "root", "password": "{{ .Instance.password }}"}},
        "instanceSecret": {"name": "pg", "keys": {
            "host": {"value": "shared-pg.petri-shared"}, "password": {"generate": {"length": 32}},
        }},
        "provision": script(provision),
        "deprovision": script(deprovision),
        "binding": {"secretKeys": {
            "host": "{{ .Instance.host }}", "database": "{{ .Env.Slug }}", "username": "{{ .Env.Slug }}",
            "password": "{{ .Env.GeneratedSecret }}",
        }},
    })
}

fn template() -> Value {
    json!({"deployTimeout": "5m", "components": [
        {"name": "db", "sharedComponentRef": "pg"},
        {"name": "api", "dependsOn": ["db"],
            "env": {"DB_NAME": {"secretKeyRef": {"component": "db", "key": "database"}}},
            "helm": {"path": "/charts/api", "values": {
                "database.host": "{{ .Components.db.host }}", "database.secretName": "{{ .Env.Name }}-db-binding",
            }},
            "readiness": {"httpGet": {"path": "/healthz", "port": 80}}},
        {"name": "web", "dependsOn": ["api"],
            "helm": {"path": "/charts/web", "values": {"apiUrl": "http://{{ .Env.Name }}-api/"}}},
    ]})
}

/// Every value that was generated and stands: of the instance secret, and of each obligation.
async fn generated(petri: &Petri<'_>) -> Result<BTreeSet<String>, Error> {
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), SHARED);
    let text = |secret: &Secret, key: &str| {
        let value = secret.data.as_ref().and_then(|data| data.get(key)).cloned();
        value.and_then(|value| String::from_utf8(value.0).ok())
    };
    let mut values: BTreeSet<String> = text(&secrets.get("pg").await?, "password").into_iter().collect();
    for owed in secrets.list(&ListParams::default().labels("petri.run/op=obligation")).await? {
        values.extend(text(&owed, "generated"));
    }
    if values.len() != 2 {
        return Err(Error::Wrong(format!("{} generated values stand, not two", values.len())));
    }
    Ok(values)
}

/// No generated value stands in a Job, a pod, an event, a status, a trace, or the log of the operator or of a script.
async fn unseen(petri: &Petri<'_>, receiver: &Receiver, values: &BTreeSet<String>) -> Result<(), Error> {
    let client = petri.lab.client();
    let json =
        |value: Result<String, serde_json::Error>| value.map_err(|error| Error::Wrong(error.to_string()));
    let all = ListParams::default();
    let spans = receiver.spans();
    if spans.is_empty() {
        return Err(Error::Wrong("no trace was exported".to_owned()));
    }
    let told = [
        json(serde_json::to_string(&Api::<Job>::all(client.clone()).list(&all).await?.items))?,
        json(serde_json::to_string(&Api::<Pod>::all(client.clone()).list(&all).await?.items))?,
        json(serde_json::to_string(&Api::<Event>::all(client.clone()).list(&all).await?.items))?,
        json(serde_json::to_string(&Api::<SharedComponent>::all(client.clone()).list(&all).await?.items))?,
        json(serde_json::to_string(&petri.environments().list(&all).await?.items))?,
        petri.operator_log().await?,
        logs(petri).await?,
        format!("{spans:?}"),
    ];
    match values.iter().find(|value| told.iter().any(|told| told.contains(value.as_str()))) {
        None => Ok(()),
        Some(_) => Err(Error::Wrong("a generated value stands where anybody may read it".to_owned())),
    }
}

/// What the deployer's and the scripts' pods in the shared namespace have said; one that goes meanwhile has no log.
async fn logs(petri: &Petri<'_>) -> Result<String, Error> {
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), SHARED);
    let mut told = String::new();
    for pod in pods.list(&ListParams::default().labels("petri.run/managed=true")).await? {
        let name = pod.metadata.name.unwrap_or_default();
        told.push_str(&pods.logs(&name, &Default::default()).await.unwrap_or_default());
    }
    Ok(told)
}

/// Waits until neither the shared component nor its provider, nor anything that was made for them, is left.
async fn gone(petri: &Petri<'_>) -> Result<(), Error> {
    let client = petri.lab.client();
    let (shared, providers): (Api<SharedComponent>, Api<SharedComponentProvider>) =
        (Api::namespaced(client.clone(), MANAGEMENT), Api::namespaced(client.clone(), MANAGEMENT));
    let started = Instant::now();
    let mut last = String::new();
    while started.elapsed() < PATIENCE {
        let held = (shared.get_opt("pg").await?, providers.get_opt("postgres").await?);
        if let (None, None) = held {
            let all = ListParams::default();
            let jobs = Api::<Job>::namespaced(client.clone(), SHARED).list(&all).await?.items.len();
            let secrets = Api::<Secret>::namespaced(client.clone(), SHARED).list(&all).await?.items.len();
            let pods = Api::<Pod>::namespaced(client.clone(), SHARED).list(&all).await?.items.len();
            if let (0, 0) = (jobs, secrets) {
                // The pods of a chart go some moments after their owner.
                if pods == 0 {
                    return Ok(());
                }
                last = format!("{pods} pods are left");
                tokio::time::sleep(Duration::from_millis(250)).await;
                continue;
            }
            return Err(Error::Wrong(format!("{jobs} Jobs and {secrets} Secrets are left")));
        }
        last = format!("{:?}", held.0.and_then(|one| one.status).map(|status| status.conditions));
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Err(Error::Late { what: "the shared component gone".to_owned(), seconds: PATIENCE.as_secs(), last })
}

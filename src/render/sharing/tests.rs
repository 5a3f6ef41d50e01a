use super::*;
use crate::render::{Extras, Own, Settings, effects};
use petri_machines::{
    environment::{Cleanup, Command, Identity, NamespaceRef},
    kernel::Timestamp,
    names::{EnvironmentName, NamespaceName, SharedName},
};
use serde_json::{Value, json};
use std::sync::Arc;

const OWN: &str = "own-generated-value";
const INSTANCE: &str = "instance-password";

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn db() -> ComponentName {
    ComponentName::new("db").unwrap()
}

fn namespace() -> NamespaceRef {
    NamespaceRef { name: NamespaceName::new("petri-env-0123abcd").unwrap(), uid: uid("ns-uid") }
}

fn provider() -> Value {
    json!({"metadata": {"name": "postgres"}, "spec": {
        "helm": {"path": "/charts/postgres"},
        "provision": {
            "image": "docker.io/library/postgres:17", "script": "createuser {{ .Env.Slug }}",
            "env": [{"name": "PGPASSWORD", "value": "{{ .Instance.PASSWORD }}"}],
        },
        "deprovision": {"image": "docker.io/library/postgres:17", "command": ["dropuser", "{{ .Env.Slug }}"]},
        "binding": {"secretKeys": {"PASSWORD": "{{ .Env.GeneratedSecret }}"}},
    }})
}

fn shared(roster: Value) -> Value {
    json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "SharedComponent",
        "metadata": {"name": "pg", "namespace": "petri-system", "uid": "shared-uid", "resourceVersion": "7"},
        "spec": {"provider": "postgres", "maxConsumers": 1},
        "status": {"ready": true, "consumerRefs": roster, "novel": "kept"}})
}

fn check(command: &Command, sharing: Sharing) -> Result<Vec<Effect>, RenderError> {
    let identity =
        Identity { uid: uid("env-uid"), name: EnvironmentName::new("pr-7").unwrap(), generation: 3 };
    let own =
        Own { namespace: "petri-system".to_owned(), resource_version: "4".to_owned(), finalizers: vec![] };
    let settings = Settings {
        management_namespace: "petri-system".to_owned(),
        shared_namespace: "petri-shared".to_owned(),
        service_account: "petri-operator".to_owned(),
        workload_role: "petri-operator-workload".to_owned(),
        deployer_image: "docker.io/petri/deployer:dev".to_owned(),
        deployer_pull_policy: "IfNotPresent".to_owned(),
        deployer_cluster_roles: vec![],
        job_deadline_secs: 900,
        otlp_endpoint: None,
    };
    let cx = RenderContext {
        identity: &identity,
        own: &own,
        settings: &settings,
        inputs: &BTreeMap::new(),
        namespace_extras: &Extras::default(),
        furniture: &BTreeMap::new(),
        backend: None,
        traceparent: None,
        sharing: &BTreeMap::from([(db(), sharing)]),
        place: Some(&namespace().name),
        now: Timestamp(1_893_456_000),
        shared: None,
    };
    effects(command, &cx)
}

fn seen(roster: Value, obligation: Option<Secret>) -> Sharing {
    Sharing {
        shared: Some(serde_json::from_value(shared(roster)).unwrap()),
        provider: Some(Arc::new(serde_json::from_value(provider()).unwrap())),
        obligation,
        instance: Some([("PASSWORD".to_owned(), INSTANCE.to_owned())].into()),
        secret: "pg-secret".to_owned(),
        generated: OWN.to_owned(),
    }
}

fn oblige(replaces: Option<Uid>) -> Command {
    Command::Share(environment::Sharing::Oblige { component: db(), payload: Digest::of(&["p"]), replaces })
}

/// The obligation as the server would hold it.
fn obligation() -> Secret {
    let made = check(&oblige(None), seen(json!([]), None)).unwrap();
    let Write::Create { object, .. } = &made[0].write else { panic!("{made:?}") };
    let mut secret: Secret = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
    secret.metadata.uid = Some("o".to_owned());
    secret.metadata.resource_version = Some("9".to_owned());
    secret
}

fn fence(version: &str) -> Fence {
    Fence { shared: SharedName::new("pg").unwrap(), uid: uid("shared-uid"), version: version.to_owned() }
}

#[test]
fn each_command_about_a_slice_is_rendered_as_committed() {
    let job = |op| match op {
        Op::Provision => {
            Command::Share(environment::Sharing::CreateProvisionJob { component: db(), serial: 3 })
        }
        _ => {
            Command::Cleanup(Cleanup::Unshare(Unsharing::CreateDeprovisionJob { component: db(), serial: 4 }))
        }
    };
    let register = Command::Share(environment::Sharing::Register { at: fence("7"), component: db() });
    let commands = [
        ("register", register),
        ("oblige", oblige(None)),
        ("bind", Command::Share(environment::Sharing::Bind { namespace: namespace(), component: db() })),
        ("create_provision_job", job(Op::Provision)),
        ("create_deprovision_job", job(Op::Deprovision)),
        ("acquit", Command::Cleanup(Cleanup::Unshare(Unsharing::Acquit { component: db(), uid: uid("o") }))),
    ];
    for (name, command) in commands {
        insta::assert_yaml_snapshot!(name, check(&command, seen(json!([]), Some(obligation()))).unwrap());
    }
}

#[test]
fn no_generated_value_stands_in_a_job() {
    for command in [
        Command::Share(environment::Sharing::CreateProvisionJob { component: db(), serial: 3 }),
        Command::Cleanup(Cleanup::Unshare(Unsharing::CreateDeprovisionJob { component: db(), serial: 4 })),
    ] {
        let text =
            serde_json::to_string(&check(&command, seen(json!([]), Some(obligation()))).unwrap()).unwrap();
        assert!(!text.contains(OWN) && !text.contains(INSTANCE), "{text}");
    }
}

#[test]
fn s5_a_list_that_changed_or_is_full_is_not_written() {
    let holder =
        json!([{"uid": "other", "environment": "pr-1", "component": "db", "since": "2026-01-01T00:00:00Z"}]);
    let register =
        |version| Command::Share(environment::Sharing::Register { at: fence(version), component: db() });
    let full = check(&register("7"), seen(holder, None)).unwrap_err();
    assert!(matches!(full, RenderError::Stale(_)), "{full}");
    let changed = check(&register("6"), seen(json!([]), None)).unwrap_err();
    assert!(matches!(changed, RenderError::Stale(_)), "{changed}");
}

#[test]
fn s7_an_obligation_that_is_written_again_keeps_what_was_generated_frozen_and_bound() {
    let held = obligation();
    let mut later = seen(json!([]), Some(held.clone()));
    later.generated = "another value".to_owned();
    later.instance = None;
    let made = check(&oblige(Some(uid("o"))), later).unwrap();
    let Write::Replace { object, .. } = &made[0].write else { panic!("{made:?}") };
    let again: Secret = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
    assert_eq!(again.data, held.data);
    assert_eq!(again.metadata.resource_version, held.metadata.resource_version, "the fence");
    let other = check(&oblige(Some(uid("another"))), seen(json!([]), Some(held))).unwrap_err();
    assert!(matches!(other, RenderError::Stale(_)), "{other}");
}

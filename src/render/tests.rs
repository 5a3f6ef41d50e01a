use super::*;
use crate::{
    adapter::{Defaults, Inputs, intent, sharing::SliceInputs},
    deployer::payload::{HelmSource, SecretRef},
};
use petri_machines::{
    environment::FurnitureKind,
    names::{EnvironmentName, ReleaseName},
};
use serde_json::json;

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn namespace() -> NamespaceRef {
    NamespaceRef { name: NamespaceName::new("petri-env-0123abcd").unwrap(), uid: uid("ns-uid") }
}

fn api() -> ComponentName {
    ComponentName::new("api").unwrap()
}

fn settings() -> Settings {
    Settings {
        management_namespace: "petri-system".to_owned(),
        shared_namespace: "petri-shared".to_owned(),
        service_account: "petri-operator".to_owned(),
        workload_role: "petri-operator-workload".to_owned(),
        deployer_image: "docker.io/petri/deployer:dev".to_owned(),
        deployer_pull_policy: "IfNotPresent".to_owned(),
        deployer_cluster_roles: vec!["postgres-admin".to_owned()],
        job_deadline_secs: 900,
        otlp_endpoint: Some("http://collector:4317".to_owned()),
    }
}

fn rendered_with(command: &Command, helm: HelmSource) -> Vec<Effect> {
    let identity =
        Identity { uid: uid("env-uid"), name: EnvironmentName::new("pr-7").unwrap(), generation: 3 };
    let own = Own {
        namespace: "petri-system".to_owned(),
        resource_version: "42".to_owned(),
        finalizers: vec!["example.com/other".to_owned(), "petri.run/cleanup".to_owned()],
    };
    let values = json!({"replicas": 2, "db": {"host": "pr-7-postgres"}});
    let input = RenderedComponent {
        name: api(),
        release: ReleaseName::of(&identity.name, &api()).unwrap(),
        helm,
        values: values.as_object().unwrap().clone(),
        http_get: None,
    };
    let inputs = BTreeMap::from([(api(), input)]);
    let extras = Extras {
        consumes: Vec::new(),
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        annotations: BTreeMap::from([("note".to_owned(), "hello".to_owned())]),
    };
    let cx = RenderContext {
        identity: &identity,
        own: &own,
        settings: &settings(),
        inputs: &inputs,
        namespace_extras: &extras,
        furniture: &BTreeMap::new(),
        backend: None,
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        sharing: &BTreeMap::new(),
        place: None,
        now: Timestamp(1_000),
        shared: None,
    };
    effects(command, &cx).unwrap()
}

fn rendered(command: &Command) -> Vec<Effect> {
    rendered_with(command, HelmSource { path: Some("/charts/api".to_owned()), ..HelmSource::default() })
}

#[test]
fn each_command_is_rendered_as_committed() {
    let job = || JobName::new("petri-deploy-pr-7-api-000000000000").unwrap();
    let (namespace, component, serial) = (namespace(), api(), 5);
    let commands = [
        ("add_finalizer", Command::AddFinalizer),
        ("create_namespace", Command::CreateNamespace { name: namespace.name.clone() }),
        ("bind_operator", Command::BindOperator(namespace.clone())),
        ("create_deployer_account", Command::CreateDeployerAccount(namespace.clone())),
        ("bind_deployer", Command::BindDeployer(namespace.clone())),
        (
            "create_payload",
            Command::CreatePayload { namespace: namespace.clone(), component: component.clone(), serial },
        ),
        (
            "create_job",
            Command::CreateJob { namespace: namespace.clone(), component: component.clone(), serial },
        ),
        ("delete_self", Command::Cleanup(Cleanup::DeleteSelf)),
        (
            "delete_payload",
            Command::Cleanup(Cleanup::DeletePayload {
                namespace: namespace.clone(),
                name: job(),
                uid: uid("secret-uid"),
            }),
        ),
        (
            "delete_job",
            Command::Cleanup(Cleanup::DeleteJob {
                namespace: namespace.clone(),
                name: job(),
                uid: uid("job-uid"),
            }),
        ),
        (
            "create_undeploy_job",
            Command::Cleanup(Cleanup::CreateUndeployJob { namespace: namespace.clone(), component, serial }),
        ),
        ("delete_namespace", Command::Cleanup(Cleanup::DeleteNamespace(namespace))),
        ("drop_finalizer", Command::Cleanup(Cleanup::DropFinalizer)),
    ];
    for (name, command) in commands {
        insta::assert_yaml_snapshot!(name, rendered(&command));
    }
}

#[test]
fn everything_that_touches_a_workload_namespace_is_guarded_and_every_delete_names_a_uid() {
    let namespace = namespace();
    let job = JobName::new("petri-deploy-x").unwrap();
    for command in [
        Command::BindOperator(namespace.clone()),
        Command::BindDeployer(namespace.clone()),
        Command::CreateDeployerAccount(namespace.clone()),
        Command::CreateJob { namespace: namespace.clone(), component: api(), serial: 1 },
        Command::Cleanup(Cleanup::DeleteJob { namespace: namespace.clone(), name: job, uid: uid("j") }),
        Command::Cleanup(Cleanup::DeleteNamespace(namespace.clone())),
    ] {
        for effect in rendered(&command) {
            let guard = effect.guard.expect("a guard");
            let creates = matches!(effect.write, Write::Create { .. });
            assert_eq!((guard.namespace, guard.alive), (namespace.clone(), creates), "{command:?}");
        }
    }
}

#[test]
fn credentials_lie_below_the_payload_and_no_value_stands_in_the_job() {
    let helm = HelmSource {
        path: Some("/charts/api".to_owned()),
        credentials_secret_ref: Some(SecretRef { name: "registry".to_owned() }),
        ..HelmSource::default()
    };
    let command = Command::CreateJob { namespace: namespace(), component: api(), serial: 1 };
    let effects = rendered_with(&command, helm);
    let text = serde_json::to_string(&effects).unwrap();
    assert!(text.contains("credentials/password") && text.contains(r#""name":"registry""#), "{text}");
    assert!(!text.contains("pr-7-postgres"), "{text}");
}

#[test]
fn labels_of_a_template_never_replace_our_own() {
    let command = Command::CreateNamespace { name: namespace().name };
    let [effect] = rendered(&command).try_into().unwrap();
    let Write::Create { object, .. } = effect.write else { panic!("no create") };
    let labels = object.metadata.labels.unwrap();
    assert_eq!(labels["team"], "blue");
    assert_eq!(labels["petri.run/environment-uid"], "env-uid");
}

#[test]
fn a_component_without_input_is_a_fault_and_not_an_empty_release() {
    let identity = Identity { uid: uid("e"), name: EnvironmentName::new("e").unwrap(), generation: 1 };
    let own = Own { namespace: "n".to_owned(), resource_version: "1".to_owned(), finalizers: Vec::new() };
    let cx = RenderContext {
        identity: &identity,
        own: &own,
        settings: &settings(),
        inputs: &BTreeMap::new(),
        namespace_extras: &Extras::default(),
        furniture: &BTreeMap::new(),
        backend: None,
        traceparent: None,
        sharing: &BTreeMap::new(),
        place: None,
        now: Timestamp(1_000),
        shared: None,
    };
    let command = Command::CreatePayload { namespace: namespace(), component: api(), serial: 1 };
    assert_eq!(effects(&command, &cx).unwrap_err().to_string(), "component api has no rendered input");
}

/// Renders what a template asks for besides components, through the adapter as in a pass, with a service that was found.
fn furnished(spec: serde_json::Value, kind: FurnitureKind) -> Vec<Effect> {
    furnished_over(&Extras::default(), spec, kind)
}

fn furnished_over(extras: &Extras, spec: serde_json::Value, kind: FurnitureKind) -> Vec<Effect> {
    let secret = json!({"metadata": {"name": "pull", "labels": {"petri.run/shareable": "true"}},
        "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}});
    let secrets = BTreeMap::from([("pull".to_owned(), serde_json::from_value(secret).unwrap())]);
    let mut whole = json!({"components": [{"name": "web", "helm": {"path": "/charts/web"}}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let template = json!({"metadata": {"name": "t"}, "spec": whole});
    let environment = json!({"metadata": {"name": "pr-7"}, "spec": {"template": "t"}});
    let intent = intent(&Inputs {
        environment: &serde_json::from_value(environment).unwrap(),
        template: Some(&serde_json::from_value(template).unwrap()),
        namespace: &namespace().name,
        secrets: Some(&secrets),
        slices: &SliceInputs::new(),
        defaults: Defaults { deploy_timeout_secs: 900, pod_failure_secs: 300 },
    });
    let plan = intent.plan.unwrap();
    let (item, digest) = plan.furniture.into_iter().find(|(id, _)| id.kind == kind).unwrap();
    let identity =
        Identity { uid: uid("env-uid"), name: EnvironmentName::new("pr-7").unwrap(), generation: 3 };
    let own = Own { namespace: "n".to_owned(), resource_version: "1".to_owned(), finalizers: Vec::new() };
    let backend = Backend { service: "pr-7-web-front".to_owned(), port: 8080 };
    let cx = RenderContext {
        identity: &identity,
        own: &own,
        settings: &settings(),
        inputs: &BTreeMap::new(),
        namespace_extras: extras,
        furniture: &intent.furniture,
        backend: Some(&backend),
        traceparent: None,
        sharing: &BTreeMap::new(),
        place: None,
        now: Timestamp(1_000),
        shared: None,
    };
    let uid = uid("held");
    let commands = [
        Command::Furnish { namespace: namespace(), item: item.clone(), digest },
        Command::Cleanup(Cleanup::Unfurnish { namespace: namespace(), item, uid }),
    ];
    commands.iter().flat_map(|command| effects(command, &cx).unwrap()).collect()
}

#[test]
fn each_piece_of_furniture_is_rendered_and_removed_as_committed() {
    let namespace = json!({"namespace": {
        "labels": {"team": "blue"}, "annotations": {"note": "hello"}, "networkPolicy": "isolate",
        "resourceQuota": {"hard": {"pods": "9"}},
        "limitRange": {"limits": [{"type": "Container", "default": {"memory": "64Mi"}}]},
    }});
    let secrets = json!({"secrets": [{"name": "pull", "imagePull": true}]});
    let ingress = json!({"secrets": [{"name": "pull"}], "ingress": {"domain": "preview.example.com",
        "className": "nginx", "tlsSecretName": "pull", "annotations": {"a": "b"}}});
    let gateway = json!({"ingress": {"domain": "preview.example.com",
        "gateway": {"name": "public", "namespace": "gateways", "sectionName": "http"}}});
    for (name, spec, kind) in [
        ("furnish_namespace", &namespace, FurnitureKind::Namespace),
        ("furnish_quota", &namespace, FurnitureKind::ResourceQuota),
        ("furnish_limits", &namespace, FurnitureKind::LimitRange),
        ("furnish_policy", &namespace, FurnitureKind::NetworkPolicy),
        ("furnish_secret", &secrets, FurnitureKind::Secret),
        ("furnish_pull_secret", &secrets, FurnitureKind::PullSecret),
        ("furnish_ingress", &ingress, FurnitureKind::Ingress),
        ("furnish_http_route", &gateway, FurnitureKind::HttpRoute),
    ] {
        insta::assert_yaml_snapshot!(name, furnished(spec.clone(), kind));
    }
}

#[test]
fn the_label_of_a_shared_component_that_is_not_used_any_more_goes_from_the_namespace() {
    let label = |shared: &str| format!("petri.run/shared-{shared}");
    let extras = Extras { consumes: vec![label("old"), label("pg")], ..Extras::default() };
    let spec = json!({"components": [{"name": "db", "sharedComponentRef": "pg"}]});
    let effects = furnished_over(&extras, spec, FurnitureKind::Namespace);
    let labels = |effect: &Effect| match &effect.write {
        Write::Patch { body, .. } => body["metadata"]["labels"].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(labels(&effects[0]), json!({label("old"): null, label("pg"): "true"}));
    assert_eq!(
        labels(&effects[1]),
        json!({label("old"): null, label("pg"): null}),
        "nothing is shared any more"
    );
}

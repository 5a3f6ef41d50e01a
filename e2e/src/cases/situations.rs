//! What kubectl prints of an environment in each situation that a user may find it in: the manifests of
//! `e2e/situations`, and beside each, in `e2e/golden/situations`, what was read by a person and committed.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use petri_crds::EphemeralEnvironment;
use serde_json::json;

use super::bad_input::cleaned;
use super::golden::{Events, compare, normalized};
use crate::petri::{Error, MANAGEMENT, Petri, checkout, is_ready, namespace_of, story, summary};

/// How long a situation may take to come about; they come about side by side.
const PATIENCE: Duration = Duration::from_secs(150);
const HOLD: &str = "petri.test/hold";

/// What happens to an environment that is Ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It need not become Ready.
    Nothing,
    /// Its Deployment gets an image that does not exist.
    BadImage,
    /// A value of it does.
    BadValue,
    /// Its namespace is deleted.
    NamespaceDeleted,
    /// Its namespace loses the label that says whose it is.
    LabelTaken,
    /// It is deleted, while a ConfigMap in its namespace has a finalizer.
    Blocked,
}

/// Name, what happens when it is Ready, and what is told when the situation is there: reason, and words.
const SITUATIONS: [(&str, Then, &str, &str); 18] = [
    ("ready", Then::Nothing, "Ready", ""),
    ("no-template", Then::Nothing, "TemplateNotFound", ""),
    ("no-chart", Then::Nothing, "DeployFailed", "ChartNotFound"),
    ("no-render", Then::Nothing, "RenderFailed", "Nmae"),
    ("unknown-override", Then::Nothing, "InvalidConfiguration", "database"),
    ("no-secret", Then::Nothing, "InvalidConfiguration", "registry-login"),
    ("cycle", Then::Nothing, "InvalidConfiguration", "web"),
    ("image-pull", Then::Nothing, "Progressing", "ImagePullBackOff"),
    ("unschedulable", Then::Nothing, "Progressing", "Insufficient cpu"),
    ("crash-loop", Then::Nothing, "Progressing", "CrashLoop"),
    ("no-probe", Then::Nothing, "Progressing", "8080"),
    ("quota", Then::Nothing, "Progressing", "no pod"),
    ("held", Then::Nothing, "Ready", ""),
    ("unavailable", Then::BadImage, "ComponentUnavailable", "ImagePullBackOff"),
    ("rollout", Then::BadValue, "Progressing", "ImagePullBackOff"),
    ("lost", Then::NamespaceDeleted, "NamespaceLost", "not found"),
    ("foreign", Then::LabelTaken, "NamespaceNotManaged", ""),
    ("blocked", Then::Blocked, "Progressing", "remaining: configmaps. has 1 resource instances; Namespace"),
];

/// Brings all situations about, and compares what kubectl prints.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    for (name, ..) in SITUATIONS {
        petri.apply(&checkout().join("e2e/situations").join(format!("{name}.yaml"))).await?;
    }
    for (name, then, ..) in SITUATIONS {
        if then != Then::Nothing {
            happens(petri, name, then).await?;
        }
    }
    let mut wrong = Vec::new();
    for (name, _, reason, words) in SITUATIONS {
        let there = |found: &EphemeralEnvironment| story(found).0 == reason && told(found).contains(words);
        let found = petri.until(name, &format!("{reason} {words}"), PATIENCE, there).await?;
        let namespace = found.status.and_then(|status| status.target_namespace).unwrap_or_default();
        wrong.extend(compare(&format!("situations/{name}"), &shown(petri, name, &namespace).await?)?);
    }
    end(petri).await?;
    if wrong.is_empty() {
        Ok(format!("{} situations", SITUATIONS.len()))
    } else {
        Err(Error::Wrong(wrong.join("\n")))
    }
}

/// All that is said of an environment and its components, with the reasons of its failures.
fn told(environment: &EphemeralEnvironment) -> String {
    let components = environment.status.iter().flat_map(|status| &status.components);
    let reasons = components.filter_map(|component| component.last_failure_reason.as_deref());
    reasons.chain([summary(environment).as_str()]).collect::<Vec<_>>().join(" ")
}

/// What a user sees who asks in turn.
async fn shown(petri: &Petri<'_>, name: &str, namespace: &str) -> Result<String, Error> {
    let mut text = String::new();
    for arguments in
        [&["get", "eenv", name][..], &["get", "eenv", name, "-o", "wide"], &["describe", "eenv", name]]
    {
        let mut all = vec!["-n", MANAGEMENT];
        all.extend(arguments);
        let output = petri.lab.kubectl(&all).await?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&format!("$ kubectl {}\n{}\n", arguments.join(" "), output));
    }
    Ok(normalized(&text, namespace, Events::AsASet))
}

async fn happens(petri: &Petri<'_>, name: &str, then: Then) -> Result<(), Error> {
    let ready = petri.until(name, "Ready", PATIENCE, is_ready).await?;
    let namespace = namespace_of(&ready)?;
    let client = petri.lab.client();
    match then {
        Then::Nothing => {}
        Then::BadImage => {
            let deployments: Api<Deployment> = Api::namespaced(client, &namespace);
            let container = json!({"name": "tiny", "image": "docker.io/petri/workload:no-such-tag"});
            let change = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null},
                "template": {"spec": {"containers": [container]}}}});
            let deployment = format!("{name}-web");
            deployments.patch(&deployment, &PatchParams::default(), &Patch::Strategic(change)).await?;
        }
        Then::BadValue => {
            petri.patch(name, json!({"spec": {"values": {"image.tag": "no-such-tag"}}})).await?;
        }
        Then::NamespaceDeleted => {
            Api::<Namespace>::all(client).delete(&namespace, &DeleteParams::default()).await?;
        }
        Then::LabelTaken => label(petri, &namespace, json!(null)).await?,
        Then::Blocked => {
            let held = json!({"metadata": {"name": "held", "finalizers": [HOLD]}});
            let held: ConfigMap =
                serde_json::from_value(held).map_err(|error| Error::Wrong(error.to_string()))?;
            Api::namespaced(client, &namespace).create(&PostParams::default(), &held).await?;
            petri.delete(name).await?;
        }
    }
    Ok(())
}

async fn label(petri: &Petri<'_>, namespace: &str, managed: serde_json::Value) -> Result<(), Error> {
    let change = json!({"metadata": {"labels": {petri_crds::meta::LABEL_MANAGED: managed}}});
    let namespaces = Api::<Namespace>::all(petri.lab.client());
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Deletes everything; what Petri left alone because it is not its own any more is deleted by hand.
async fn end(petri: &Petri<'_>) -> Result<(), Error> {
    let foreign = namespace_of(&petri.environments().get("foreign").await?)?;
    let blocked = namespace_of(&petri.environments().get("blocked").await?)?;
    let free = json!({"metadata": {"finalizers": null}});
    let maps: Api<ConfigMap> = Api::namespaced(petri.lab.client(), &blocked);
    maps.patch("held", &PatchParams::default(), &Patch::Merge(free)).await?;
    // Who holds an environment holds its deletion too.
    let unhold = json!({"metadata": {"annotations": {petri_crds::meta::ANNOTATION_HOLD: null}}});
    petri.patch("held", unhold).await.map(drop).or_else(|error| match error {
        // It expired meanwhile.
        Error::Api(error) => absent(error).map_err(Error::from),
        error => Err(error),
    })?;
    for (name, then, ..) in SITUATIONS {
        if then != Then::Blocked {
            petri.environments().delete(name, &DeleteParams::default()).await.map(drop).or_else(absent)?;
        }
    }
    for (name, ..) in SITUATIONS {
        petri.until_gone(name, PATIENCE).await?;
        petri.templates().delete(name, &DeleteParams::default()).await.map(drop).or_else(absent)?;
    }
    let namespaces = Api::<Namespace>::all(petri.lab.client());
    namespaces.delete(&foreign, &DeleteParams::default()).await?;
    while namespaces.get_opt(&foreign).await?.is_some() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    cleaned(petri).await
}

fn absent(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error),
    }
}

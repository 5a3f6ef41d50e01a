//! The chart as its users meet it: every rendering at a real server, an upgrade under living environments, two
//! installations side by side, and the end of one of them.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use petri_crds::EphemeralEnvironment;
use petri_crds::meta::FINALIZER_ENVIRONMENT;
use serde_json::json;

use super::bad_input::{cleaned, environment, simple_template};
use crate::lab::monitoring_definitions;
use crate::petri::{Error, MANAGEMENT, Petri, VALUES, checkout, is_ready, namespace_of};

const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than it takes the new operator to look at everything.
const SETTLE: Duration = Duration::from_secs(5);
/// The second installation.
const TWO: &str = "petri-two";

fn wrong(what: impl Into<String>) -> Error {
    Error::Wrong(what.into())
}

/// Asks the API server whether it would take every rendering of the table.
pub async fn dry_run(petri: &Petri<'_>) -> Result<String, Error> {
    let helm = petri.lab.bin("helm");
    let rendered = tokio::task::spawn_blocking(move || crate::charts::renderings(&helm, MANAGEMENT)).await;
    let rendered =
        rendered.map_err(|error| wrong(error.to_string()))?.map_err(|error| wrong(error.to_string()))?;
    let definitions = monitoring_definitions().await?;
    for definition in &definitions {
        // Too large for the annotation of a client-side apply.
        let file = definition.display().to_string();
        petri.lab.kubectl(&["apply", "--server-side", "-f", &file]).await?;
        petri.lab.kubectl(&["wait", "--for=condition=Established", "-f", &file, "--timeout=30s"]).await?;
    }
    // What a dry run makes is not there for what comes after it.
    let namespaces = ["shared", "two-shared"];
    for namespace in namespaces {
        petri.lab.kubectl(&["create", "namespace", namespace]).await?;
    }
    let told = ask(petri, &rendered).await;
    for namespace in namespaces {
        petri.lab.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?;
    }
    for definition in &definitions {
        petri.lab.kubectl(&["delete", "-f", &definition.display().to_string()]).await?;
    }
    told?;
    Ok(format!("{} renderings", rendered.len()))
}

async fn ask(petri: &Petri<'_>, rendered: &[(&str, String)]) -> Result<(), Error> {
    let file = std::env::temp_dir().join(format!("petri-rendered-{}.yaml", std::process::id()));
    let path = file.display().to_string();
    let asked = async {
        for (name, text) in rendered {
            std::fs::write(&file, text).map_err(|source| Error::File { path: file.clone(), source })?;
            let apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", &path];
            petri.lab.kubectl(&apply).await.map_err(|error| wrong(format!("{name}: {error}")))?;
        }
        Ok(())
    };
    let asked = asked.await;
    let _ = std::fs::remove_file(&file);
    asked
}

/// Goes back to the previous chart, brings an environment up under it, upgrades, and compares.
pub async fn upgrade(petri: &Petri<'_>) -> Result<String, Error> {
    let previous = format!("e2e/fixtures/petri-{}.tgz", crate::charts::PREVIOUS);
    petri.helm_chart(&checkout().join(previous), &VALUES).await?;
    simple_template(petri, "upgraded", json!({})).await?;
    petri.apply_object(&petri.environments(), &environment("upgraded", "upgraded", json!({}))).await?;
    let ready = petri.until_ready("upgraded", PATIENCE).await?;
    let namespace = namespace_of(&ready)?;
    tokio::time::sleep(SETTLE).await;
    let (own, inside) = (petri.environments().get("upgraded").await?, contents(petri, &namespace).await?);
    // With the slash, as the documents say it: the folder is a link, which kubectl does not follow by itself.
    let crds = format!("{}/", checkout().join("charts/petri/crds").display());
    petri.lab.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &crds]).await?;
    petri.helm_upgrade(&VALUES).await?;
    tokio::time::sleep(SETTLE).await;
    let (now, then) = (petri.environments().get("upgraded").await?, own);
    if now.metadata.resource_version != then.metadata.resource_version || !is_ready(&now) {
        return Err(wrong("the upgrade wrote to a Ready environment"));
    }
    let after = contents(petri, &namespace).await?;
    if after != inside {
        return Err(wrong(format!("the upgrade changed\n{inside:#?}\ninto\n{after:#?}")));
    }
    // The new operator owns it: a changed value is rolled out in place.
    petri.patch("upgraded", json!({"spec": {"values": {"marker": "after the upgrade"}}})).await?;
    petri.until_ready("upgraded", PATIENCE).await?;
    petri.delete("upgraded").await?;
    petri.until_gone("upgraded", PATIENCE).await?;
    cleaned(petri).await?;
    Ok(format!("from {}: {} objects of the workload as they were", crate::charts::PREVIOUS, inside.len()))
}

/// What stands in a namespace: kind, name → UID and version.
async fn contents(petri: &Petri<'_>, namespace: &str) -> Result<BTreeMap<String, String>, Error> {
    let kinds = "deployments,statefulsets,pods,jobs,secrets,configmaps,services,serviceaccounts,rolebindings";
    let columns = "custom-columns=K:.kind,N:.metadata.name,U:.metadata.uid,V:.metadata.resourceVersion";
    let get = ["get", kinds, "-n", namespace, "--no-headers", "-o", columns];
    let said = petri.lab.kubectl(&get).await?;
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kind, name, uid, version] = words.as_slice() else { return None };
        Some((format!("{kind} {name}"), format!("{uid} {version}")))
    };
    Ok(String::from_utf8_lossy(&said.stdout).lines().filter_map(line).collect())
}

/// A second release in the same namespace is refused; one in a namespace of its own lives beside the first, is tested,
/// refuses to go under a living environment, drains, and leaves nothing that needs it.
pub async fn two(petri: &Petri<'_>) -> Result<String, Error> {
    let refused = helm(petri, &install("petri-again", MANAGEMENT, "refuse")).await?;
    expect(&refused, false, "invalid ownership metadata")?;
    expect(&helm(petri, &install(TWO, TWO, "refuse")).await?, true, "")?;
    let told = second(petri).await;
    let definitions = ["get", "crd", "ephemeralenvironments.core.petri.run", "-o", "name"];
    petri.lab.kubectl(&definitions).await?;
    for namespace in [TWO, "petri-two-shared"] {
        petri.lab.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?;
    }
    told
}

fn install(release: &str, namespace: &str, uninstall: &str) -> Vec<String> {
    let chart = checkout().join("charts/petri").display().to_string();
    let set = format!(
        "image.tag=dev,deployer.image.tag=dev,config.leaseDurationSecs=5,nameSuffix=two,\
         sharedNamespace.name=petri-two-shared,uninstall={uninstall}"
    );
    let words =
        ["upgrade", "--install", release, &chart, "--namespace", namespace, "--create-namespace", "--set"];
    let wait = ["--wait", "--timeout", "60s"].map(str::to_owned);
    words.map(str::to_owned).into_iter().chain([set]).chain(wait).collect()
}

async fn helm(petri: &Petri<'_>, words: &[impl AsRef<std::ffi::OsStr>]) -> Result<Output, Error> {
    let output = petri.lab.cluster().helm().args(words).output().await;
    output.map_err(|source| Error::File { path: "helm".into(), source })
}

/// Helm ended well or badly, as it must, and said this.
fn expect(output: &Output, well: bool, what: &str) -> Result<(), Error> {
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() == well && said.contains(what) {
        return Ok(());
    }
    let program = format!("helm (was to {} and to say {what:?})", if well { "succeed" } else { "fail" });
    Err(Error::Program { program, said })
}

async fn second(petri: &Petri<'_>) -> Result<String, Error> {
    let client = petri.lab.client();
    simple_template(petri, "beside", json!({})).await?;
    let mut template = petri.templates().get("beside").await?;
    template.metadata = kube::core::ObjectMeta { name: Some("beside".into()), ..Default::default() };
    Api::namespaced(client.clone(), TWO).create(&PostParams::default(), &template).await?;
    // One name in both: two environments, two namespaces, two operators.
    let mut other = environment("beside", "beside", json!({}));
    petri.apply_object(&petri.environments(), &other).await?;
    other.metadata.namespace = Some(TWO.to_owned());
    let theirs: Api<EphemeralEnvironment> = Api::namespaced(client.clone(), TWO);
    theirs.create(&PostParams::default(), &other).await?;
    let first = namespace_of(&petri.until_ready("beside", PATIENCE).await?)?;
    let wait = ["wait", "eenv/beside", "-n", TWO, "--for=condition=Ready", "--timeout=120s"];
    petri.lab.kubectl(&wait).await?;
    let second = namespace_of(&theirs.get("beside").await?)?;
    if first == second {
        return Err(wrong("two environments of one name share a namespace"));
    }
    expect(&helm(petri, &["test", TWO, "--namespace", TWO]).await?, true, "Succeeded")?;
    // It says no, and nothing is changed by it.
    let uninstall = ["uninstall", TWO, "--namespace", TWO, "--wait", "--timeout", "120s"];
    expect(&helm(petri, &uninstall).await?, false, "")?;
    let why = petri.lab.kubectl(&["logs", "job/petri-uninstall", "-n", TWO]).await?;
    let why = String::from_utf8_lossy(&why.stdout).trim().to_owned();
    if !why.contains("1 environments live") || !why.contains("beside") {
        return Err(wrong(format!("the refused uninstall says {why:?}")));
    }
    petri.lab.kubectl(&["get", "deployment", "petri-operator", "-n", TWO]).await?;
    // Helm calls it `uninstalling` from now on, and upgrades it only after it was rolled back to what it is.
    expect(&helm(petri, &["rollback", TWO, "1", "--namespace", TWO, "--wait"]).await?, true, "")?;
    expect(&helm(petri, &install(TWO, TWO, "drain")).await?, true, "")?;
    expect(&helm(petri, &uninstall).await?, true, "")?;
    let kept = namespace_exists(petri, "petri-two-shared").await?;
    if namespace_exists(petri, &second).await? || !kept {
        return Err(wrong("the drained namespace is still there, or the shared one is not"));
    }
    nothing_without_a_server(petri).await?;
    // The first one never noticed.
    if !is_ready(&petri.environments().get("beside").await?) {
        return Err(wrong("the end of the second installation touched the first"));
    }
    petri.delete("beside").await?;
    petri.until_gone("beside", PATIENCE).await?;
    cleaned(petri).await?;
    Ok(why)
}

async fn namespace_exists(petri: &Petri<'_>, name: &str) -> Result<bool, Error> {
    Ok(Api::<Namespace>::all(petri.lab.client()).get_opt(name).await?.is_some())
}

/// No webhook, policy, role or finalizer of the second installation is left.
async fn nothing_without_a_server(petri: &Petri<'_>) -> Result<(), Error> {
    let mut left = Vec::new();
    left.extend(labelled::<ValidatingWebhookConfiguration>(petri).await?);
    left.extend(labelled::<MutatingWebhookConfiguration>(petri).await?);
    left.extend(labelled::<ValidatingAdmissionPolicy>(petri).await?);
    left.extend(labelled::<ValidatingAdmissionPolicyBinding>(petri).await?);
    left.extend(labelled::<ClusterRole>(petri).await?);
    left.extend(labelled::<ClusterRoleBinding>(petri).await?);
    for (kind, plural) in [
        ("EphemeralEnvironment", "ephemeralenvironments"),
        ("SharedComponent", "sharedcomponents"),
        ("SharedComponentProvider", "sharedcomponentproviders"),
    ] {
        let version = kube::core::GroupVersionKind::gvk("core.petri.run", "v1alpha1", kind);
        let resource = kube::core::ApiResource::from_gvk_with_plural(&version, plural);
        let api: Api<DynamicObject> = Api::namespaced_with(petri.lab.client(), TWO, &resource);
        let held = api.list(&ListParams::default()).await?.items.into_iter().filter(|one| {
            one.metadata.finalizers.iter().flatten().any(|it| it.starts_with(prefix(FINALIZER_ENVIRONMENT)))
        });
        left.extend(held.map(|one| format!("{kind} {}", one.metadata.name.unwrap_or_default())));
    }
    if left.is_empty() { Ok(()) } else { Err(wrong(format!("left behind: {}", left.join(", ")))) }
}

fn prefix(finalizer: &str) -> &str {
    finalizer.split_once('/').map_or(finalizer, |(prefix, _)| prefix)
}

async fn labelled<K>(petri: &Petri<'_>) -> Result<Vec<String>, Error>
where
    K: kube::Resource<DynamicType = ()>,
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let own = ListParams::default().labels(&format!("app.kubernetes.io/instance={TWO}"));
    let found = Api::<K>::all(petri.lab.client()).list_metadata(&own).await?;
    let name = |one: kube::core::PartialObjectMeta<K>| {
        format!("{} {}", K::kind(&()), one.metadata.name.unwrap_or_default())
    };
    Ok(found.items.into_iter().map(name).collect())
}

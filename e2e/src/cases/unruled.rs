//! Objects of a time before the schema had its rules: the operator says itself what is wrong, does nothing, and lets go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps,
};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use petri_crds::fixtures::{self, Fixture};
use petri_crds::{EnvironmentTemplate, EphemeralEnvironment, crds};
use serde_json::{Value, json};

use super::bad_input::{cleaned, environment};
use crate::petri::{Error, MANAGEMENT, Petri};

const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(300);
/// The template that the fixtures' environments are of.
const GOOD: &str = "web-stack";
const REASONS: [&str; 3] = ["InvalidConfiguration", "InvalidTTL", "RenderFailed"];
/// What the schema refuses and the operator takes: it does not read a field that it does not know.
const HARMLESS: [&str; 1] = ["template-field-is-unknown"];

/// Creates all that the rules refuse while there are none, and deletes it under the rules.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let all = fixtures::refusals().map_err(|source| Error::File { path: "crds/fixtures".into(), source })?;
    let of = |kind: &str| {
        let prefix = format!("{kind}-");
        all.iter().filter(move |one| one.name.starts_with(&prefix)).cloned().collect::<Vec<_>>()
    };
    let (templates, environments) = (of("template"), of("environment"));
    petri.apply_object(&petri.templates(), &good()?).await?;
    rules(petri, false).await?;
    let said = say(petri, &templates, &environments).await;
    // Whatever was said, the rules come back, and what breaks them can be deleted under them.
    rules(petri, true).await?;
    let gone = remove(petri).await;
    let silent = said?;
    gone?;
    cleaned(petri).await?;
    if !silent.is_empty() {
        return Err(Error::Wrong(format!("not refused:\n{}", silent.join("\n"))));
    }
    Ok(format!("{} templates and {} environments", templates.len(), environments.len()))
}

/// Creates everything and returns what the operator did not refuse in time.
async fn say(
    petri: &Petri<'_>,
    templates: &[Fixture],
    environments: &[Fixture],
) -> Result<Vec<String>, Error> {
    let mut awaited = BTreeMap::new();
    for fixture in templates {
        let name = create::<EnvironmentTemplate>(petri, fixture).await?;
        let of_it = format!("of-{}", fixture.name);
        let made = environment(&of_it, &name, json!({}));
        api::<EphemeralEnvironment>(petri).create(&PostParams::default(), &dynamic(&made)?).await?;
        awaited.insert(of_it, fixture.name.clone());
    }
    for fixture in environments {
        awaited.insert(create::<EphemeralEnvironment>(petri, fixture).await?, fixture.name.clone());
    }
    awaited.retain(|_, fixture| !HARMLESS.contains(&fixture.as_str()));
    let started = Instant::now();
    loop {
        let all = api::<EphemeralEnvironment>(petri).list(&ListParams::default()).await?.items;
        let stories: BTreeMap<String, (String, String)> =
            all.iter().map(|one| (one.metadata.name.clone().unwrap_or_default(), story(&one.data))).collect();
        let refused = |name: &String| {
            stories
                .get(name)
                .is_some_and(|(reason, message)| !message.is_empty() && REASONS.contains(&reason.as_str()))
        };
        let open: Vec<String> = awaited
            .iter()
            .filter(|(name, _)| !refused(name))
            .map(|(name, fixture)| format!("{fixture}: {:?}", stories.get(name)))
            .collect();
        if open.is_empty() || started.elapsed() > PATIENCE {
            return Ok(open);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Returns reason and message of the Ready condition.
fn story(object: &Value) -> (String, String) {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    let text = |key: &str| ready.and_then(|ready| ready[key].as_str()).unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Deletes every environment but nothing else first, then the templates.
async fn remove(petri: &Petri<'_>) -> Result<(), Error> {
    let all = api::<EphemeralEnvironment>(petri);
    all.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    let started = Instant::now();
    loop {
        let left = all.list(&ListParams::default()).await?.items;
        if left.is_empty() {
            break;
        }
        if started.elapsed() > PATIENCE {
            let names: Vec<String> = left.into_iter().filter_map(|one| one.metadata.name).collect();
            return Err(Error::Wrong(format!("cannot be deleted: {}", names.join(", "))));
        }
        tokio::time::sleep(GLANCE).await;
    }
    api::<EnvironmentTemplate>(petri)
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

/// Takes the rules of both kinds away, or puts them back, and waits until the server goes by it.
async fn rules(petri: &Petri<'_>, there: bool) -> Result<(), Error> {
    let api: Api<CustomResourceDefinition> = Api::all(petri.lab.client());
    for mut crd in crds() {
        if !["EphemeralEnvironment", "EnvironmentTemplate"].contains(&crd.spec.names.kind.as_str()) {
            continue;
        }
        if !there {
            for schema in crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
                let anything = || JSONSchemaProps {
                    type_: Some("object".to_owned()),
                    x_kubernetes_preserve_unknown_fields: Some(true),
                    ..JSONSchemaProps::default()
                };
                schema.open_api_v3_schema = Some(anything());
            }
        }
        let name = crd.metadata.name.clone().unwrap_or_default();
        crd.metadata.resource_version = api.get(&name).await?.metadata.resource_version;
        api.replace(&name, &PostParams::default(), &crd).await?;
    }
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let (templates, environments) =
        (self::api::<EnvironmentTemplate>(petri), self::api::<EphemeralEnvironment>(petri));
    let bad = |kind: &str| -> Result<DynamicObject, Error> {
        object(json!({"apiVersion": "core.petri.run/v1alpha1", "kind": kind,
            "metadata": {"name": "is-it-refused"}, "spec": {}}))
    };
    let started = Instant::now();
    loop {
        let template = templates.create(&dry, &bad("EnvironmentTemplate")?).await;
        let environment = environments.create(&dry, &bad("EphemeralEnvironment")?).await;
        if template.is_err() == there && environment.is_err() == there {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            return Err(Error::Wrong(format!("the server does not go by the changed rules: {there}")));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

async fn create<K: kube::Resource<DynamicType = ()>>(
    petri: &Petri<'_>,
    fixture: &Fixture,
) -> Result<String, Error> {
    let parsed: Value = serde_saphyr::from_str(&fixture.manifest)
        .map_err(|error| Error::Wrong(format!("{}: {error}", fixture.name)))?;
    let object: DynamicObject = object(parsed)?;
    let made = api::<K>(petri).create(&PostParams::default(), &object).await?;
    Ok(made.metadata.name.unwrap_or_default())
}

/// Neither reads nor writes through the types, since these objects do not keep to them.
fn api<K: kube::Resource<DynamicType = ()>>(petri: &Petri<'_>) -> Api<DynamicObject> {
    Api::namespaced_with(petri.lab.client(), MANAGEMENT, &ApiResource::erase::<K>(&()))
}

fn dynamic(object: &impl serde::Serialize) -> Result<DynamicObject, Error> {
    self::object(serde_json::to_value(object).map_err(|error| Error::Wrong(error.to_string()))?)
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|error| Error::Wrong(error.to_string()))
}

fn good() -> Result<EnvironmentTemplate, Error> {
    object(json!({
        "apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": GOOD, "namespace": MANAGEMENT},
        "spec": {"components": [{"name": "api", "helm": {"path": "/charts/tiny"}}]},
    }))
}

//! Whether the custom resource definitions of the cluster are as new as this program. Helm never upgrades them, and an
//! older one drops what it does not know from every write, the record of what was decided included.

use crate::client::{CALL_MAX, timed};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use petri_crds::EphemeralEnvironment;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, error, info};

/// How often definitions that are too old, or could not be read, are looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Fields of one definition that are named.
const NAMED_MAX: usize = 5;

/// What the definitions lack, by their names; all clones tell of the same.
#[derive(Clone, Debug, Default)]
pub struct Definitions(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl Definitions {
    /// Looks until all of them are as new as this program. A missing one is the watches' business.
    pub async fn follow(self, client: Client) {
        let api: Api<CustomResourceDefinition> = Api::all(client);
        loop {
            let mut is_over = true;
            for own in petri_crds::crds() {
                let name = own.name_any();
                match timed(CALL_MAX, api.get_opt(&name)).await {
                    Ok(Some(served)) => is_over &= self.compare(&name, &own, &served),
                    Ok(None) => is_over = false,
                    Err(error) => {
                        debug!(definition = name, %error, "cannot be compared");
                        is_over = false;
                    }
                }
            }
            if is_over {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn compare(&self, name: &str, own: &CustomResourceDefinition, served: &CustomResourceDefinition) -> bool {
        let (own, served) = (schema(own), schema(served));
        let mut lacks = Vec::new();
        lacking(&own, &served, "", &mut lacks);
        let before = self.lock().insert(name.to_owned(), lacks.clone());
        if !lacks.is_empty() && before.as_ref() != Some(&lacks) {
            let fields = named(&lacks);
            error!(definition = name, fields, "the custom resource definition is older than this program");
        } else if lacks.is_empty() && before.is_some_and(|before| !before.is_empty()) {
            info!(definition = name, "the custom resource definition is up to date");
        }
        lacks.is_empty()
    }

    /// Whether none is known to be too old.
    pub fn are_new(&self) -> bool {
        self.lock().values().all(Vec::is_empty)
    }

    /// Names those that are too old, a line each.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, lacks) in self.lock().iter().filter(|(_, lacks)| !lacks.is_empty()) {
            let fields = named(lacks);
            // Never fails: the target is a String.
            let _ = writeln!(
                text,
                "custom resource definition {name} is older than this program: it lacks {fields}"
            );
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn named(fields: &[String]) -> String {
    let more = fields.len().saturating_sub(NAMED_MAX);
    let named = fields.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Gives the schema of the version that this program speaks.
fn schema(definition: &CustomResourceDefinition) -> Value {
    let version =
        definition.spec.versions.iter().find(|version| version.name == EphemeralEnvironment::version(&()));
    let schema = version.and_then(|version| version.schema.as_ref()?.open_api_v3_schema.as_ref());
    serde_json::to_value(schema).unwrap_or_default()
}

/// Gathers the paths of fields that one schema has and the other would drop.
fn lacking(own: &Value, served: &Value, path: &str, lacks: &mut Vec<String>) {
    for (name, below) in own["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match served["properties"].get(name) {
            Some(served) => lacking(below, served, &path, lacks),
            None if served["x-kubernetes-preserve-unknown-fields"] == true => {}
            None => lacks.push(path),
        }
    }
    for inner in ["items", "additionalProperties"] {
        if own[inner].is_object() {
            lacking(&own[inner], &served[inner], &format!("{path}[]"), lacks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(field: &[&str]) -> CustomResourceDefinition {
        let mut environment = serde_json::to_value(&petri_crds::crds()[0]).unwrap();
        let mut at = &mut environment["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let (last, path) = field.split_last().unwrap();
        for name in path {
            at = at.get_mut(*name).unwrap();
        }
        assert!(at.as_object_mut().unwrap().remove(*last).is_some());
        serde_json::from_value(environment).unwrap()
    }

    #[test]
    fn a_definition_without_the_record_is_told_by_the_field_and_a_newer_one_is_good() {
        let definitions = Definitions::default();
        let own = &petri_crds::crds()[0];
        let name = own.name_any();
        let older = without(&["properties", "status", "properties", "machine"]);
        assert!(!definitions.compare(&name, own, &older) && !definitions.are_new());
        let line = format!(
            "custom resource definition {name} is older than this program: it lacks status.machine\n"
        );
        assert_eq!(definitions.text(), line);
        assert!(definitions.compare(&name, &older, own), "what is newer than the program lacks nothing");
        assert!(definitions.are_new() && definitions.text().is_empty());
    }

    #[test]
    fn a_field_inside_a_list_is_found() {
        let components = ["properties", "status", "properties", "components", "items", "properties"];
        let older = without(&[&components[..], &["lastFailureReason"]].concat());
        let definitions = Definitions::default();
        assert!(!definitions.compare("x", &petri_crds::crds()[0], &older));
        assert!(definitions.text().contains("it lacks status.components[].lastFailureReason"));
    }
}

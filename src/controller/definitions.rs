//! Whether the custom resource definitions of the cluster are as new as this program. Helm never upgrades them, and an
//! older one drops what it does not know from every write, the record of what was decided included.

use crate::client::{CALL_MAX, timed};
use kube::{Client, core::Request};
use petri_crds::{GROUP, VERSION};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::sleep;
use tracing::{debug, error, info};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
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
        loop {
            let mut is_over = true;
            for (plural, own) in petri_crds::YAML {
                let name = format!("{plural}.{GROUP}");
                is_over &= match (serde_saphyr::from_str(own), read(&client, &name).await) {
                    (Ok(own), Ok(served)) => self.compare(&name, &own, &served),
                    (own, served) => {
                        let own = own.err().map(|error: serde_saphyr::Error| error.to_string());
                        let why = own.or(served.err()).unwrap_or_default();
                        debug!(definition = name, why, "cannot be compared");
                        false
                    }
                };
            }
            if is_over {
                return;
            }
            sleep(LOOK_AGAIN).await;
        }
    }

    fn compare(&self, name: &str, own: &Definition, served: &Definition) -> bool {
        let (own, served) = (own.schema(), served.schema());
        let mut lacks = Vec::new();
        lacking(own, served, "", &mut lacks);
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

/// Reads one, as far as it is compared.
async fn read(client: &Client, name: &str) -> Result<Definition, String> {
    let request = Request::new(PATH).get(name, &Default::default()).map_err(|error| error.to_string())?;
    timed(CALL_MAX, client.request(request)).await.map_err(|error| error.to_string())
}

/// What is compared of a definition. The whole of one is some hundred kilobytes in memory, and this program is to be
/// small: what is left out here is skipped while it is read.
#[derive(Debug, Deserialize)]
struct Definition {
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Version {
    name: String,
    schema: Option<VersionSchema>,
}

#[derive(Debug, Deserialize)]
struct VersionSchema {
    #[serde(rename = "openAPIV3Schema")]
    root: Schema,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Schema {
    properties: BTreeMap<String, Schema>,
    items: Option<Box<Schema>>,
    additional_properties: Option<Additional>,
    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    keeps_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Additional {
    Schema(Box<Schema>),
    Any(bool),
}

/// The schema of nothing.
static NONE: Schema =
    Schema { properties: BTreeMap::new(), items: None, additional_properties: None, keeps_all: false };

impl Definition {
    /// Gives the schema of the version that this program speaks.
    fn schema(&self) -> &Schema {
        let version = self.spec.versions.iter().find(|version| version.name == VERSION);
        version.and_then(|version| version.schema.as_ref()).map_or(&NONE, |schema| &schema.root)
    }
}

impl Schema {
    /// Gives what is said of the elements of a list, and of the values of a map.
    fn inner(&self) -> [Option<&Schema>; 2] {
        let additional = match &self.additional_properties {
            Some(Additional::Schema(schema)) => Some(schema.as_ref()),
            Some(Additional::Any(true | false)) | None => None,
        };
        [self.items.as_deref(), additional]
    }
}

/// Gathers the paths of fields that one schema has and the other would drop.
fn lacking(own: &Schema, served: &Schema, path: &str, lacks: &mut Vec<String>) {
    for (name, below) in &own.properties {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match served.properties.get(name) {
            Some(served) => lacking(below, served, &path, lacks),
            None if served.keeps_all => {}
            None => lacks.push(path),
        }
    }
    for (own, served) in own.inner().into_iter().zip(served.inner()) {
        if let Some(own) = own {
            lacking(own, served.unwrap_or(&NONE), &format!("{path}[]"), lacks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Definition {
        serde_saphyr::from_str(petri_crds::YAML[0].1).unwrap()
    }

    /// The definition as a server gives it, without one field.
    fn without(field: &[&str]) -> Definition {
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
        let (definitions, own) = (Definitions::default(), own());
        let older = without(&["properties", "status", "properties", "machine"]);
        assert!(!definitions.compare("x", &own, &older) && !definitions.are_new());
        let line = "custom resource definition x is older than this program: it lacks status.machine\n";
        assert_eq!(definitions.text(), line);
        assert!(definitions.compare("x", &older, &own), "what is newer than the program lacks nothing");
        assert!(definitions.are_new() && definitions.text().is_empty());
    }

    #[test]
    fn a_field_inside_a_list_is_found() {
        let components = ["properties", "status", "properties", "components", "items", "properties"];
        let older = without(&[&components[..], &["lastFailureReason"]].concat());
        let definitions = Definitions::default();
        assert!(!definitions.compare("x", &own(), &older));
        assert!(definitions.text().contains("it lacks status.components[].lastFailureReason"));
    }

    #[test]
    fn each_definition_as_generated_lacks_nothing_of_itself_and_everything_of_an_empty_one() {
        for ((plural, text), crd) in petri_crds::YAML.iter().zip(petri_crds::crds()) {
            assert_eq!(crd.spec.names.plural, *plural);
            let own: Definition = serde_saphyr::from_str(text).unwrap();
            let served: Definition = serde_json::from_value(serde_json::to_value(&crd).unwrap()).unwrap();
            let mut lacks = Vec::new();
            lacking(own.schema(), served.schema(), "", &mut lacks);
            assert_eq!(lacks, Vec::<String>::new());
            lacking(own.schema(), &NONE, "", &mut lacks);
            assert_eq!(lacks, ["spec", "status"], "{plural}");
        }
    }
}

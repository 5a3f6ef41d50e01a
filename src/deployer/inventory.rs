//! The inventory of a release: kind, name and UID of every object it holds.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::payload::Payload;

/// Names one object of a release, as it stands in the inventory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID; an object of the same name with another UID is another object.
    pub uid: String,
}

/// Names one object of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// Group and version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace, when the manifest names one.
    pub namespace: Option<String>,
}

/// Says why a manifest cannot be read. Holds no part of it.
#[derive(Debug, thiserror::Error)]
#[error("the manifest of the release cannot be read: object {index} is no Kubernetes object")]
pub struct ManifestError {
    /// Place of the object in the manifest, from 0.
    pub index: usize,
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "apiVersion")]
    api_version: Option<String>,
    kind: Option<String>,
    metadata: Option<Metadata>,
    #[serde(default)]
    items: Option<Vec<Document>>,
}

#[derive(Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
}

/// Lists the objects of a manifest as helm stores it: YAML documents, `List`s among them.
///
/// # Errors
/// A document is not YAML, or no object.
pub fn read_manifest(manifest: &str) -> Result<Vec<Reference>, ManifestError> {
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let mut found = Vec::new();
    for (index, text) in documents(manifest).enumerate() {
        let document: Option<Document> = serde_saphyr::from_str_with_options(text, options.clone())
            .map_err(|_| ManifestError { index })?;
        if let Some(document) = document {
            collect(document, &mut found).ok_or(ManifestError { index })?;
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn collect(document: Document, found: &mut Vec<Reference>) -> Option<()> {
    let (api_version, kind) = (document.api_version?, document.kind?);
    if let Some(items) = document.items.filter(|_| kind.ends_with("List")) {
        return items.into_iter().try_for_each(|item| collect(item, found));
    }
    let metadata = document.metadata?;
    found.push(Reference { api_version, kind, name: metadata.name?, namespace: metadata.namespace });
    Some(())
}

/// Splits at lines of three hyphens: inside a YAML document none can begin a line.
fn documents(manifest: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(manifest);
    std::iter::from_fn(move || {
        let text = rest?;
        let next = text.match_indices("---").find(|(at, _)| *at == 0 || text[..*at].ends_with('\n'));
        let (document, after) = match next {
            Some((at, _)) => (&text[..at], Some(text[at..].split_once('\n').map_or("", |(_, after)| after))),
            None => (text, None),
        };
        rest = after;
        Some(document)
    })
    .filter(|text| text.lines().any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')))
}

/// Gives the name of a component's inventory.
pub fn config_map_name(component: &str) -> String {
    format!("petri-inventory-{component}")
}

/// Gives the inventory as the object that is applied.
pub fn config_map(payload: &Payload, items: &[Item]) -> ConfigMap {
    let labels = BTreeMap::from(
        [
            ("app.kubernetes.io/managed-by", "petri"),
            ("app.kubernetes.io/part-of", "petri"),
            ("petri.run/managed", "true"),
            ("petri.run/environment-uid", payload.owner_uid.as_str()),
            ("petri.run/component", payload.component.name.as_str()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let data = BTreeMap::from([
        ("serial".to_owned(), payload.serial.to_string()),
        ("release".to_owned(), payload.release_name.clone()),
        ("objects".to_owned(), json!(items).to_string()),
    ]);
    let mut config_map = ConfigMap { data: Some(data), ..ConfigMap::default() };
    config_map.metadata.name = Some(config_map_name(&payload.component.name));
    config_map.metadata.namespace = Some(payload.namespace.clone());
    config_map.metadata.labels = Some(labels);
    config_map
}

/// Reads the objects of an inventory; one that is not readable has none.
pub fn read_config_map(config_map: &ConfigMap) -> Vec<Item> {
    let text = config_map.data.as_ref().and_then(|data| data.get("objects"));
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;

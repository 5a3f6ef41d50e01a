//! What a release holds, as the deployer of one serial wrote it down.

use super::{Observer, ignorance};
use crate::client::{CALL_MAX, timed};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use petri_crds::meta::INVENTORY_PREFIX;
use petri_machines::{
    environment::NamespaceRef,
    kernel::Seen,
    names::{ComponentName, Uid},
};
use serde::Deserialize;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// One object of a release.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Item {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

type Held = (u64, Arc<Vec<Item>>);

/// Inventories that were read: written once for each serial, so one read of each is enough.
#[derive(Debug, Default)]
pub struct Inventories(Mutex<HashMap<(Uid, ComponentName), Held>>);

impl Inventories {
    fn get(&self, namespace: &Uid, component: &ComponentName, serial: u64) -> Option<Arc<Vec<Item>>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, items) = held.get(&(namespace.clone(), component.clone()))?;
        (*of == serial).then(|| Arc::clone(items))
    }

    fn put(&self, namespace: &Uid, component: &ComponentName, held: Held) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((namespace.clone(), component.clone()), held);
    }

    /// Forgets a namespace that goes.
    pub fn forget(&self, namespace: &Uid) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(of, _), _| of != namespace);
    }
}

impl Observer {
    /// Reads the inventory of one serial; `None`, and never an empty one, when none of that serial is there.
    pub(super) async fn inventory(
        &self,
        namespace: &NamespaceRef,
        component: &ComponentName,
        serial: u64,
    ) -> Seen<Option<Arc<Vec<Item>>>> {
        if let Some(items) = self.inventories.get(&namespace.uid, component, serial) {
            return Seen::Known(Some(items));
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace.name.as_str());
        let found = match timed(CALL_MAX, api.get_opt(&format!("{INVENTORY_PREFIX}{component}"))).await {
            Ok(found) => found,
            Err(error) => return Seen::Unknown(ignorance(&error)),
        };
        let items = found.and_then(|found| parse(&found, serial)).map(Arc::new);
        if let Some(items) = &items {
            self.inventories.put(&namespace.uid, component, (serial, Arc::clone(items)));
        }
        Seen::Known(items)
    }
}

fn parse(found: &ConfigMap, serial: u64) -> Option<Vec<Item>> {
    let data = found.data.as_ref()?;
    if data.get("serial")?.parse() != Ok(serial) {
        return None;
    }
    serde_json::from_str(data.get("objects")?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(data: serde_json::Value, expected: Option<usize>) {
        let found: ConfigMap = serde_json::from_value(json!({"data": data})).unwrap();
        assert_eq!(parse(&found, 4).map(|items| items.len()), expected, "{data}");
    }

    #[test]
    fn only_a_whole_inventory_of_the_accepted_serial_is_one() {
        let one = r#"[{"apiVersion":"v1","kind":"Service","name":"api","uid":"u"}]"#;
        check(json!({"serial": "4", "objects": one}), Some(1));
        check(json!({"serial": "4", "objects": "[]"}), Some(0));
        check(json!({"serial": "3", "objects": one}), None);
        check(json!({"serial": "4", "objects": "[{"}), None);
        check(json!({"serial": "4"}), None);
        check(json!({"objects": "[]"}), None);
    }
}

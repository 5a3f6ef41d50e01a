//! What stands of the furniture of a namespace, by live reads; and the Secrets it is copied from.

use super::{Observer, ignorance};
use crate::{
    adapter::furniture::{Furnishing, RouteSpec, Secrets},
    client::{CALL_MAX, timed},
    render::{Backend, DEFAULT_ACCOUNT, resource},
};
use k8s_openapi::api::core::v1::{Secret, Service};
use kube::{Api, core::DynamicObject};
use petri_crds::{EnvironmentTemplate, meta::ANNOTATION_DIGEST};
use petri_machines::{
    environment::{Binding, FurnitureId, FurnitureKind, Plan, Record, Standing},
    kernel::Seen,
    names::{Digest, Uid},
};
use serde_json::Value;
use std::collections::BTreeMap;

const GATEWAY_API: &str = "gateway.networking.k8s.io/v1";

impl Observer {
    /// Reads the Secrets that a template names; what is not there is missing from the map.
    pub(super) async fn secrets(&self, namespace: &str, template: &EnvironmentTemplate) -> Seen<Secrets> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let mut found = Secrets::new();
        for copied in &template.spec.secrets {
            match timed(CALL_MAX, api.get_opt(&copied.name)).await {
                Ok(secret) => found.extend(secret.map(|secret| (copied.name.clone(), secret))),
                Err(error) => return Seen::Unknown(ignorance(&error)),
            }
        }
        Seen::Known(found)
    }

    /// Reads the furniture that the record looks at; what could not be read is missing from the map.
    pub(super) async fn furniture(
        &self,
        record: &Record,
        plan: Option<&Plan>,
        leaving: bool,
    ) -> BTreeMap<FurnitureId, Standing> {
        let mut all = BTreeMap::new();
        let Binding::Bound { namespace } = &record.memory.binding else { return all };
        for id in record.memory.looks_at(plan, leaving) {
            if let Some(standing) = self.standing(namespace.name.as_str(), &id).await {
                all.insert(id, standing);
            }
        }
        all
    }

    async fn standing(&self, namespace: &str, id: &FurnitureId) -> Option<Standing> {
        let kind = resource(id.kind).api();
        let (api, name): (Api<DynamicObject>, &str) = match id.kind {
            FurnitureKind::Namespace => (Api::all_with(self.client.clone(), &kind), namespace),
            FurnitureKind::PullSecret => {
                (Api::namespaced_with(self.client.clone(), namespace, &kind), DEFAULT_ACCOUNT)
            }
            FurnitureKind::Secret
            | FurnitureKind::ResourceQuota
            | FurnitureKind::LimitRange
            | FurnitureKind::NetworkPolicy
            | FurnitureKind::Ingress
            | FurnitureKind::HttpRoute => {
                (Api::namespaced_with(self.client.clone(), namespace, &kind), &id.name)
            }
        };
        match timed(CALL_MAX, api.get_opt(name)).await {
            Ok(Some(found)) => stands(id, &found),
            // Its controller makes it a moment after the namespace.
            Ok(None) if id.kind == FurnitureKind::PullSecret => Some(Standing::Leaving),
            Ok(None) if id.kind == FurnitureKind::HttpRoute => self.absent_route().await,
            Ok(None) => Some(Standing::Absent),
            Err(error) if error.is_not_found() => self.absent_route().await,
            Err(_) => None,
        }
    }

    /// A kind that the cluster does not have is not found either.
    async fn absent_route(&self) -> Option<Standing> {
        match timed(CALL_MAX, self.client.list_api_group_resources(GATEWAY_API)).await {
            Ok(served) if served.resources.iter().any(|kind| kind.name == "httproutes") => {
                Some(Standing::Absent)
            }
            Ok(_) => Some(Standing::Unserved),
            Err(error) if error.is_not_found() => Some(Standing::Unserved),
            Err(_) => None,
        }
    }

    /// Finds the service of a route's component: of those that its release holds, the first with the port.
    pub(super) async fn backend(
        &self,
        record: &Record,
        furniture: &BTreeMap<FurnitureId, Furnishing>,
        seen: &BTreeMap<FurnitureId, Standing>,
    ) -> Option<Backend> {
        let Binding::Bound { namespace } = &record.memory.binding else { return None };
        let route = seen.keys().find_map(|id| match furniture.get(id)? {
            Furnishing::Route(route) => Some(route),
            _ => None,
        })?;
        let accepted = record.memory.components.get(&route.component)?.accepted.as_ref()?;
        let inventory = self.inventory(namespace, &route.component, accepted.serial).await;
        let api: Api<Service> = Api::namespaced(self.client.clone(), namespace.name.as_str());
        let items = inventory.known()?.as_ref()?;
        for item in items.iter().filter(|item| item.api_version == "v1" && item.kind == "Service") {
            let found = timed(CALL_MAX, api.get_opt(&item.name)).await.ok().flatten();
            if let Some(port) = found.as_ref().and_then(|service| port(service, route)) {
                return Some(Backend { service: item.name.clone(), port });
            }
        }
        None
    }
}

fn port(service: &Service, route: &RouteSpec) -> Option<i32> {
    let mut ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).map(|port| port.port);
    match route.port {
        Some(wanted) => ports.find(|port| *port == wanted),
        None => ports.next(),
    }
}

/// Says what an object that was read means for the furniture that it holds.
fn stands(id: &FurnitureId, found: &DynamicObject) -> Option<Standing> {
    let uid = Uid::new(found.metadata.uid.clone()?).ok()?;
    if found.metadata.deletion_timestamp.is_some() {
        return Some(Standing::Leaving);
    }
    if id.kind == FurnitureKind::PullSecret {
        let held = found.data.get("imagePullSecrets").and_then(Value::as_array);
        let is_named = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(&id.name);
        if !held.is_some_and(|held| held.iter().any(is_named)) {
            return Some(Standing::Absent);
        }
        let digest = Some(Furnishing::PullSecret(id.name.clone()).digest());
        return Some(Standing::There { uid, digest, published: true });
    }
    let annotation = found.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION_DIGEST));
    let digest =
        annotation.and_then(|text| serde_json::from_value::<Digest>(Value::String(text.clone())).ok());
    let published = id.kind != FurnitureKind::HttpRoute || is_accepted(&found.data);
    Some(Standing::There { uid, digest, published })
}

/// Whether a Gateway took the route in and found its service.
fn is_accepted(route: &Value) -> bool {
    let parents = route.pointer("/status/parents").and_then(Value::as_array);
    let holds = |parent: &Value, kind: &str| {
        let conditions = parent.get("conditions").and_then(Value::as_array);
        conditions.into_iter().flatten().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some(kind)
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    };
    parents.into_iter().flatten().any(|parent| holds(parent, "Accepted") && holds(parent, "ResolvedRefs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: FurnitureKind, object: Value, expected: Standing) {
        let mut whole = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "petri", "uid": "u"}});
        whole.as_object_mut().unwrap().extend(object.as_object().unwrap().clone());
        let id = FurnitureId { kind, name: "petri".to_owned() };
        let found = serde_json::from_value(whole).unwrap();
        assert_eq!(stands(&id, &found), Some(expected), "{object}");
    }

    fn there(digest: Option<Digest>, published: bool) -> Standing {
        Standing::There { uid: Uid::new("u").unwrap(), digest, published }
    }

    #[test]
    fn an_object_says_by_its_annotation_what_it_was_made_from() {
        let digest = Digest::of(&["x"]);
        let metadata = json!({"metadata": {"name": "petri", "uid": "u",
            "annotations": {ANNOTATION_DIGEST: digest.as_str()}}});
        check(FurnitureKind::ResourceQuota, metadata, there(Some(digest), true));
        check(FurnitureKind::Ingress, json!({}), there(None, true));
        let going =
            json!({"metadata": {"name": "petri", "uid": "u", "deletionTimestamp": "2030-01-01T00:00:00Z"}});
        check(FurnitureKind::Ingress, going, Standing::Leaving);
    }

    #[test]
    fn an_account_says_by_its_list_whether_it_pulls_with_a_secret() {
        let named = Furnishing::PullSecret("petri".to_owned()).digest();
        let held = |name: &str| json!({"imagePullSecrets": [{"name": "other"}, {"name": name}]});
        check(FurnitureKind::PullSecret, held("petri"), there(Some(named), true));
        check(FurnitureKind::PullSecret, held("else"), Standing::Absent);
        check(FurnitureKind::PullSecret, json!({}), Standing::Absent);
    }

    #[test]
    fn an_http_route_is_in_force_when_one_parent_accepts_it_and_resolves_its_references() {
        let status = |accepted: &str, resolved: &str| {
            json!({"status": {"parents": [{"conditions": [
                {"type": "Accepted", "status": accepted}, {"type": "ResolvedRefs", "status": resolved},
            ]}]}})
        };
        check(FurnitureKind::HttpRoute, status("True", "True"), there(None, true));
        check(FurnitureKind::HttpRoute, status("True", "False"), there(None, false));
        check(FurnitureKind::HttpRoute, status("False", "True"), there(None, false));
        check(FurnitureKind::HttpRoute, json!({}), there(None, false));
    }
}

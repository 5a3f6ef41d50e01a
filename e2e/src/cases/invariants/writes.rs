//! Laws over what the operator wrote. Each returns the breaches, one sentence each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cases::audit::{ObjectRef, Request};

/// Hexadecimal digits that a workload namespace's name may carry.
const DIGITS: std::ops::RangeInclusive<usize> = 8..=52;

fn written(requests: &[Request]) -> impl Iterator<Item = (String, &Request, &ObjectRef)> {
    requests.iter().filter_map(|request| Some((request.write()?, request, request.object()?)))
}

/// S1: outside of `own`, the operator writes only into namespaces that are derived from an environment's UID.
pub fn s1_only_own_namespaces(requests: &[Request], own: &[&str]) -> Vec<String> {
    let uids = requests.iter().filter_map(Request::object).filter(|o| o.resource == "ephemeralenvironments");
    let hashes: BTreeSet<String> = uids.filter(|o| !o.uid.is_empty()).map(|o| hash(&o.uid)).collect();
    let derived = |name: &str| {
        let digits = name.strip_prefix("petri-env-").unwrap_or_default();
        DIGITS.contains(&digits.len()) && hashes.iter().any(|hash| hash.starts_with(digits))
    };
    let place = |object: &ObjectRef| match object.resource.as_str() {
        "namespaces" => object.name.clone(),
        _ => object.namespace.clone(),
    };
    written(requests)
        .map(|(kind, _, object)| (kind, place(object)))
        .filter(|(_, place)| !own.contains(&place.as_str()) && !derived(place))
        .map(|(kind, place)| format!("S1: {kind} in {place:?}, which belongs to no environment"))
        .collect()
}

fn hash(uid: &str) -> String {
    Sha256::digest(uid.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// S9: nobody writes anything after another one has taken the Lease.
pub fn s9_only_the_leader_writes(requests: &[Request]) -> Vec<String> {
    let mut leader = None;
    let mut broken = Vec::new();
    for (kind, request, object) in written(requests) {
        if object.resource == "leases" {
            leader = Some(request.pod());
        } else if leader.is_some_and(|leader| leader != request.pod()) {
            let (pod, leader) = (request.pod(), leader.unwrap_or_default());
            broken.push(format!("S9: {kind} {} by {pod:?} while {leader:?} leads", object.name));
        }
    }
    broken
}

/// S10: every delete carries the UID of what was read.
pub fn s10_every_delete_names_a_uid(requests: &[Request]) -> Vec<String> {
    let asked = requests.iter().filter(|request| request.verb == "delete" && request.is_complete());
    let bare = asked
        .filter(|request| request.request_object["preconditions"]["uid"].as_str().is_none_or(str::is_empty));
    let named = bare.filter_map(Request::object);
    named.map(|object| format!("S10: delete {} {} without a UID", object.kind(), object.name)).collect()
}

/// S11: no status is written that is the one already there, or differs from it only in times.
pub fn s11_no_status_write_changes_nothing(requests: &[Request]) -> Vec<String> {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let mut last: BTreeMap<String, Value> = BTreeMap::new();
    let mut broken = Vec::new();
    for (kind, request, object) in written(requests).filter(|(_, _, object)| object.subresource == "status") {
        let (before, after) = (version(&request.request_object), version(&request.response_object));
        if before.is_some() && before == after {
            broken.push(format!("S11: {kind} {} changed nothing", object.name));
        }
        let status = timeless(&request.response_object["status"]);
        let uid = request.response_object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        if status != Value::Null && last.insert(uid, status.clone()).is_some_and(|former| former == status) {
            broken.push(format!("S11: {kind} {} changed times only", object.name));
        }
    }
    broken
}

/// Takes every moment out of a value.
fn timeless(value: &Value) -> Value {
    let is_time = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.len() >= 20 && text.ends_with('Z') && text.as_bytes().get(10) == Some(&b'T')
    };
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !is_time(value))
            .map(|(name, value)| (name.clone(), timeless(value)))
            .collect(),
        Value::Array(items) => items.iter().map(timeless).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(verb: &str, object: Value, more: Value) -> Request {
        let mut request = json!({
            "stage": "ResponseComplete", "verb": verb, "objectRef": object, "responseStatus": {"code": 200},
        });
        if let (Some(request), Some(more)) = (request.as_object_mut(), more.as_object()) {
            request.extend(more.clone());
        }
        serde_json::from_value(request).unwrap()
    }

    fn by(pod: &str) -> Value {
        json!({"user": {"extra": {"authentication.kubernetes.io/pod-name": [pod]}}})
    }

    fn status(version: [&str; 2], status: Value) -> Request {
        let object = json!({"resource": "ephemeralenvironments", "subresource": "status", "name": "a"});
        let side = |version| json!({"metadata": {"uid": "u", "resourceVersion": version}, "status": status});
        request(
            "update",
            object,
            json!({"requestObject": side(version[0]), "responseObject": side(version[1])}),
        )
    }

    #[test]
    fn a_write_into_a_namespace_of_no_environment_breaks_s1() {
        let own = request("update", json!({"resource": "ephemeralenvironments", "uid": "u"}), json!({}));
        let name = format!("petri-env-{}", &hash("u")[..8]);
        let good = request("create", json!({"resource": "jobs", "namespace": name}), json!({}));
        let bad =
            request("delete", json!({"resource": "namespaces", "name": "petri-env-00000000"}), json!({}));
        let broken = s1_only_own_namespaces(&[own, good, bad], &[""]);
        assert_eq!(broken.len(), 1, "{broken:?}");
    }

    #[test]
    fn a_write_of_the_former_leader_breaks_s9() {
        let lease = |pod| request("update", json!({"resource": "leases"}), by(pod));
        let job = |pod| request("create", json!({"resource": "jobs"}), by(pod));
        assert!(s9_only_the_leader_writes(&[lease("a"), job("a"), lease("b"), job("b")]).is_empty());
        assert_eq!(s9_only_the_leader_writes(&[lease("a"), lease("b"), job("a")]).len(), 1);
    }

    #[test]
    fn a_delete_without_a_uid_breaks_s10() {
        let fenced = json!({"requestObject": {"preconditions": {"uid": "u"}}});
        assert!(s10_every_delete_names_a_uid(&[request("delete", json!({}), fenced)]).is_empty());
        assert_eq!(s10_every_delete_names_a_uid(&[request("delete", json!({}), json!({}))]).len(), 1);
    }

    #[test]
    fn a_status_write_of_nothing_or_of_times_only_breaks_s11() {
        let at = |second: u8| json!({"phase": "Ready", "at": format!("2026-01-01T00:00:0{second}Z")});
        let first = status(["1", "2"], json!({"phase": "Pending"}));
        assert!(s11_no_status_write_changes_nothing(&[first.clone(), status(["2", "3"], at(1))]).is_empty());
        let times = [status(["2", "3"], at(1)), status(["3", "4"], at(2))];
        assert_eq!(s11_no_status_write_changes_nothing(&times).len(), 1);
        assert_eq!(s11_no_status_write_changes_nothing(&[status(["2", "2"], at(1))]).len(), 1);
    }
}

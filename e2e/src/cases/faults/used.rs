//! Which rights the operator has used, over everything that ran on this cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use kube::api::Api;
use petri_crds::meta::SHARED_NAMESPACE;

use crate::cases::audit::{Audit, ObjectRef, Request};
use crate::cases::invariants::OPERATOR;
use crate::petri::{Error, MANAGEMENT, Petri};

/// One right: where, verb, group and resource.
pub(in crate::cases) type Right = (&'static str, String, String, String);

pub(in crate::cases) const EVERYWHERE: &str = "everywhere";
pub(in crate::cases) const WORKLOAD: &str = "workload";
pub(in crate::cases) const OWN: &str = "management";
pub(in crate::cases) const SHARED: &str = "shared";

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let granted = granted(petri).await?;
    let requests = Audit::from_the_start(petri.lab.audit_log()).news()?;
    let requests: Vec<Request> = requests.into_iter().filter(|request| request.is_by(OPERATOR)).collect();
    let refused = refusals(&requests);
    if !refused.is_empty() {
        return Err(Error::Wrong(refused.join("\n")));
    }
    let used: BTreeSet<Right> = requests.iter().filter_map(|request| used(request, &granted)).collect();
    let beyond: Vec<String> = used.difference(&granted).map(show).collect();
    if !beyond.is_empty() {
        return Err(Error::Wrong(format!("used without a grant of the chart: {}", beyond.join(", "))));
    }
    let unused = gathered(granted.difference(&used));
    let (used, granted) = (used.len(), granted.len());
    Ok(format!("{used} of {granted} rights used; unused:{unused}"))
}

/// Writes one line for each place: its kinds with their verbs.
fn gathered<'a>(rights: impl Iterator<Item = &'a Right>) -> String {
    let mut places: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for (place, verb, group, resource) in rights {
        let dot = if group.is_empty() { "" } else { "." };
        let kinds = places.entry(place).or_default();
        kinds.entry(format!("{resource}{dot}{group}")).or_default().push(verb);
    }
    let mut text = String::new();
    for (place, kinds) in places {
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, verbs)| format!("{kind} {}", verbs.join("+"))).collect();
        text.push_str(&format!("\n                  {place}: {}", kinds.join(", ")));
    }
    text
}

pub(in crate::cases) fn show((place, verb, group, resource): &Right) -> String {
    let dot = if group.is_empty() { "" } else { "." };
    format!("{place} {verb} {resource}{dot}{group}")
}

/// Returns every right that the chart gives the operator.
pub(in crate::cases) async fn granted(petri: &Petri<'_>) -> Result<BTreeSet<Right>, Error> {
    let cluster: Api<ClusterRole> = Api::all(petri.lab.client());
    let role = |namespace: &str| Api::<Role>::namespaced(petri.lab.client(), namespace);
    let places = [
        (EVERYWHERE, cluster.get("petri-operator").await?.rules),
        (WORKLOAD, cluster.get("petri-operator-workload").await?.rules),
        (OWN, role(MANAGEMENT).get("petri-operator").await?.rules),
        (SHARED, role(SHARED_NAMESPACE).get("petri-operator").await?.rules),
    ];
    let mut all = BTreeSet::new();
    for (place, rules) in places {
        rules.unwrap_or_default().iter().for_each(|rule| all.extend(rights(place, rule)));
    }
    Ok(all)
}

/// Spreads a rule out. Binding a role is no request of its own.
fn rights(place: &'static str, rule: &PolicyRule) -> Vec<Right> {
    let mut all = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let verbs = rule.verbs.iter().filter(|verb| *verb != "bind");
            all.extend(verbs.map(|verb| (place, verb.clone(), group.clone(), resource.clone())));
        }
    }
    all
}

/// Returns the right that a request used that has ended.
pub(in crate::cases) fn used(request: &Request, granted: &BTreeSet<Right>) -> Option<Right> {
    needed(request, granted).filter(|_| request.is_complete())
}

/// Returns the right that a request needs: the widest one granted.
pub(in crate::cases) fn needed(request: &Request, granted: &BTreeSet<Right>) -> Option<Right> {
    let object = request.object()?;
    let place = match object.namespace.as_str() {
        "" => EVERYWHERE,
        MANAGEMENT => OWN,
        SHARED_NAMESPACE => SHARED,
        _ => WORKLOAD,
    };
    let right = |place| (place, request.verb.clone(), object.api_group.clone(), object.kind());
    let wide = right(EVERYWHERE);
    // Whoever is known may ask what there is, and what they themselves may do.
    let for_all = object.api_group == "authorization.k8s.io" || object.resource.is_empty();
    (!for_all).then(|| if granted.contains(&wide) { wide } else { right(place) })
}

/// Returns the refusals that are neither the authorizer's lag, nor its start, nor a namespace that goes.
fn refusals(requests: &[Request]) -> Vec<String> {
    let mut broken = Vec::new();
    for (at, request) in requests.iter().enumerate() {
        let Some(object) = request.object().filter(|_| request.code() == Some(403)) else { continue };
        let goes = request.message().contains("because it is being terminated");
        if !goes && !lags(object, requests, at) && !forgets(request, requests, at) {
            let (verb, kind, place) = (&request.verb, object.kind(), &object.namespace);
            broken.push(format!("refused: {verb} {kind} in {place:?}: {}", request.message()));
        }
    }
    broken
}

/// Whether the operator's first request of this kind that was let through in the namespace came later: the right was
/// just given, and the authorizer did not know it yet.
fn lags(object: &ObjectRef, requests: &[Request], at: usize) -> bool {
    let alike = |request: &&Request| {
        request.object().is_some_and(|other| {
            other.namespace == object.namespace && other.kind() == object.kind() && request.write().is_some()
        })
    };
    let bound = requests.iter().take(at).any(|request| {
        request.write().as_deref() == Some("create rolebindings")
            && request.object().is_some_and(|binding| binding.namespace == object.namespace)
    });
    bound
        && !requests.iter().take(at).any(|request| alike(&request))
        && requests.iter().skip(at).any(|r| alike(&r))
}

/// Whether the very same was let through before and after: an API server that has just started refuses what its
/// authorizer has not read yet. A right that is missing lets nothing through. What is not found was let through, and so
/// was a watch that an API server's end cut off.
fn forgets(refused: &Request, requests: &[Request], at: usize) -> bool {
    let same = |request: &&Request| {
        let through = request.code().is_some_and(|code| code != 403);
        let target = |it: &Request| it.object().map(|object| (object.namespace.clone(), object.kind()));
        through && request.verb == refused.verb && target(request) == target(refused)
    };
    requests.iter().take(at).any(|request| same(&request)) && requests.iter().skip(at).any(|r| same(&r))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(verb: &str, resource: &str, code: u16) -> Request {
        at("ResponseComplete", verb, resource, code)
    }

    fn at(stage: &str, verb: &str, resource: &str, code: u16) -> Request {
        let request = json!({
            "stage": stage, "verb": verb,
            "objectRef": {"resource": resource, "namespace": "petri-env-0", "apiGroup": ""},
            "responseStatus": {"code": code, "message": "no"},
        });
        serde_json::from_value(request).unwrap()
    }

    #[test]
    fn a_refusal_is_the_authorizers_lag_only_between_the_binding_and_the_first_success() {
        let bound = request("create", "rolebindings", 201);
        let refused = request("create", "jobs", 403);
        let done = request("create", "jobs", 201);
        assert!(refusals(&[bound.clone(), refused.clone(), done.clone()]).is_empty());
        assert_eq!(refusals(&[refused.clone(), done.clone()]).len(), 1);
        assert_eq!(refusals(&[bound.clone(), done.clone(), refused.clone()]).len(), 1);
        assert_eq!(refusals(&[bound, refused]).len(), 1);
    }

    #[test]
    fn a_refusal_between_two_that_were_let_through_is_a_server_that_has_just_started() {
        let watch = |code| request("watch", "pods", code);
        assert!(refusals(&[watch(200), watch(403), watch(200)]).is_empty());
        assert_eq!(refusals(&[watch(403), watch(200)]).len(), 1);
        assert_eq!(refusals(&[watch(200), watch(403)]).len(), 1);
        assert!(refusals(&[watch(404), watch(403), watch(200)]).is_empty());
        let cut = at("ResponseStarted", "watch", "pods", 200);
        assert!(refusals(&[cut, watch(403), watch(200)]).is_empty());
        let other = request("watch", "jobs", 403);
        assert_eq!(refusals(&[watch(200), other, watch(200)]).len(), 1);
    }
}

//! What holds for every rendered object: pods are restricted, and no role says more than it must.

use serde_json::Value;

/// Resources that no role of Petri may change: workloads belong to the charts.
const WORKLOADS: &[&str] = &["pods", "services", "deployments", "statefulsets", "daemonsets", "replicasets"];
const READ: &[&str] = &["get", "list", "watch"];

/// Checks all documents; the error names each object and rule that fails.
pub(super) fn check(documents: &[Value]) -> Result<(), String> {
    if documents.is_empty() {
        return Err("nothing was rendered".to_owned());
    }
    let mut wrong = Vec::new();
    for document in documents {
        let mut say = |what: String| {
            let (kind, name) = (&document["kind"], &document["metadata"]["name"]);
            wrong.push(format!("{kind} {name}: {what}"));
        };
        if !(document["apiVersion"].is_string() && document["kind"].is_string()) {
            say("no apiVersion or kind".to_owned());
        }
        let alone = document["kind"] == "Pod";
        let pod = if alone { &document["spec"] } else { &document["spec"]["template"]["spec"] };
        if pod.is_object() {
            restricted(pod, &mut say);
        }
        for rule in list(&document["rules"]) {
            modest(rule, &document["metadata"]["namespace"], &mut say);
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// The Pod Security Standard `restricted`, and what Petri asks of its own pods besides.
fn restricted(pod: &Value, say: &mut impl FnMut(String)) {
    let mut expect = |what: &str, have: &Value, want: Value| {
        if *have != want {
            say(format!("{what} is {have}"));
        }
    };
    let security = &pod["securityContext"];
    expect("runAsNonRoot", &security["runAsNonRoot"], true.into());
    expect("seccompProfile", &security["seccompProfile"]["type"], "RuntimeDefault".into());
    expect("enableServiceLinks", &pod["enableServiceLinks"], false.into());
    for container in list(&pod["containers"]).iter().chain(list(&pod["initContainers"])) {
        let security = &container["securityContext"];
        expect("allowPrivilegeEscalation", &security["allowPrivilegeEscalation"], false.into());
        expect("readOnlyRootFilesystem", &security["readOnlyRootFilesystem"], true.into());
        expect("capabilities.drop", &security["capabilities"]["drop"], serde_json::json!(["ALL"]));
        let resources = &container["resources"];
        let present = |value: &Value| Value::Bool(value.is_string());
        expect("requests.cpu given", &present(&resources["requests"]["cpu"]), true.into());
        expect("requests.memory given", &present(&resources["requests"]["memory"]), true.into());
        expect("limits.memory given", &present(&resources["limits"]["memory"]), true.into());
    }
}

/// No wildcard, no way to more rights, no foreign Secrets, no write to a workload.
fn modest(rule: &Value, namespace: &Value, say: &mut impl FnMut(String)) {
    let (verbs, resources) = (list(&rule["verbs"]), list(&rule["resources"]));
    let has = |items: &[Value], names: &[&str]| {
        items.iter().any(|item| names.contains(&item.as_str().unwrap_or("*")))
    };
    if has(verbs, &["*", "escalate", "impersonate"])
        || has(resources, &["*"])
        || has(list(&rule["apiGroups"]), &["*"])
    {
        say(format!("too wide a rule: {rule}"));
    }
    if has(verbs, &["bind"]) && list(&rule["resourceNames"]).is_empty() {
        say("may bind any role".to_owned());
    }
    if has(resources, &["secrets"])
        && (has(verbs, &["watch"]) || (has(verbs, &["list"]) && namespace.is_null()))
    {
        say(format!("may look through Secrets: {rule}"));
    }
    let writes = verbs.iter().any(|verb| !READ.contains(&verb.as_str().unwrap_or_default()));
    if has(resources, WORKLOADS) && writes {
        say(format!("may write workloads: {rule}"));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn a_role(rule: Value, namespace: Value) -> Value {
        let metadata = json!({"name": "x", "namespace": namespace});
        json!({"apiVersion": "v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
    }

    #[test]
    fn a_rule_that_says_too_much_is_named() {
        let read = json!({"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]});
        assert_eq!(check(&[a_role(read, Value::Null)]), Ok(()));
        let listed = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
        assert_eq!(check(&[a_role(listed.clone(), "petri-shared".into())]), Ok(()));
        for bad in [
            listed,
            json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["watch"]}),
            json!({"apiGroups": ["*"], "resources": ["pods"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}),
            json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "patch"]}),
            json!({"apiGroups": [""], "resources": ["clusterroles"], "verbs": ["bind"]}),
        ] {
            assert!(check(&[a_role(bad.clone(), Value::Null)]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pod_that_is_not_restricted_is_named() {
        let pod = json!({"containers": [{"securityContext": {"allowPrivilegeEscalation": false}}]});
        let document = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
            "spec": {"template": {"spec": pod}}});
        let error = check(&[document]).unwrap_err();
        for what in
            ["runAsNonRoot", "seccompProfile", "readOnlyRootFilesystem", "capabilities.drop", "requests.cpu"]
        {
            assert!(error.contains(what), "{what}: {error}");
        }
        assert!(!error.contains("allowPrivilegeEscalation"), "{error}");
    }

    #[test]
    fn no_document_is_not_a_pass() {
        assert!(check(&[]).is_err());
    }
}

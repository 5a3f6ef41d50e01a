//! The rights table: every verb of every resource in every place, granted or not.

use k8s_openapi::api::authorization::v1::ResourceAttributes;

/// Where the operator has more rights than everywhere.
pub(super) struct Places<'a> {
    pub(super) workload: &'a str,
    pub(super) management: &'a str,
    pub(super) shared: &'a str,
}

/// One question to the authorizer, and the answer that is right.
pub(super) struct Question {
    pub(super) attributes: ResourceAttributes,
    pub(super) expected: bool,
}

const VERBS: &[(char, &str)] = &[
    ('g', "get"),
    ('l', "list"),
    ('w', "watch"),
    ('c', "create"),
    ('u', "update"),
    ('p', "patch"),
    ('d', "delete"),
    ('x', "deletecollection"),
];

/// (group, resource, everywhere, besides in a workload namespace, in the management, in the shared namespace);
/// rights by the first letter of the verb, `x` is deletecollection.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str);

const RBAC: &str = "rbac.authorization.k8s.io";
const NETWORK: &str = "networking.k8s.io";
const PETRI: &str = "core.petri.run";

const TABLE: &[Row] = &[
    ("", "namespaces", "glwc", "pd", "", ""),
    ("", "pods", "glw", "", "", ""),
    ("", "pods/log", "", "", "", ""),
    ("", "pods/exec", "", "", "", ""),
    ("", "pods/eviction", "", "", "", ""),
    ("", "services", "glw", "", "", ""),
    ("", "nodes", "", "", "", ""),
    ("", "persistentvolumeclaims", "", "", "", ""),
    ("apps", "deployments", "glw", "", "", ""),
    ("apps", "deployments/scale", "", "", "", ""),
    ("apps", "statefulsets", "glw", "", "", ""),
    ("apps", "daemonsets", "glw", "", "", ""),
    ("apps", "replicasets", "glw", "", "", ""),
    ("batch", "jobs", "glw", "cupd", "", "cupd"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "glw", "", "", ""),
    (RBAC, "rolebindings", "c", "", "", ""),
    (RBAC, "roles", "", "", "", ""),
    (RBAC, "clusterroles", "", "", "", ""),
    (RBAC, "clusterrolebindings", "", "", "", ""),
    ("", "configmaps", "", "glwcupd", "", "glwcupd"),
    ("", "serviceaccounts", "", "glwcupd", "", ""),
    ("", "serviceaccounts/token", "", "", "", ""),
    ("", "resourcequotas", "", "glwcupd", "", ""),
    ("", "limitranges", "", "glwcupd", "", ""),
    (NETWORK, "networkpolicies", "", "glwcupd", "", ""),
    (NETWORK, "ingresses", "", "glwcupd", "", ""),
    ("gateway.networking.k8s.io", "httproutes", "", "glwcupd", "", ""),
    ("", "secrets", "", "gcud", "g", "glcupd"),
    ("coordination.k8s.io", "leases", "", "", "gcu", "gcupd"),
    ("", "events", "", "", "", ""),
    ("events.k8s.io", "events", "", "", "c", ""),
    (PETRI, "ephemeralenvironments", "", "", "glwpd", ""),
    (PETRI, "environmenttemplates", "", "", "glwp", ""),
    (PETRI, "sharedcomponents", "", "", "glwup", ""),
    (PETRI, "sharedcomponentproviders", "", "", "glwup", ""),
    (PETRI, "ephemeralenvironments/status", "", "", "gup", ""),
    (PETRI, "environmenttemplates/status", "", "", "gup", ""),
    (PETRI, "sharedcomponents/status", "", "", "gup", ""),
    (PETRI, "sharedcomponentproviders/status", "", "", "gup", ""),
    (PETRI, "ephemeralenvironments/finalizers", "", "", "", ""),
    (PETRI, "environmenttemplates/finalizers", "", "", "", ""),
    (PETRI, "sharedcomponents/finalizers", "", "", "", ""),
    (PETRI, "sharedcomponentproviders/finalizers", "", "", "", ""),
];

/// What petri-apiserver may do, in the management namespace and nowhere else.
const APISERVER: &[(&str, &str, &str)] =
    &[(PETRI, "ephemeralenvironments", "glwcud"), (PETRI, "environmenttemplates", "l"), ("", "events", "l")];

/// ClusterRoles that somebody might like to bind, and whether the operator may.
const BINDABLE: &[(&str, bool)] = &[
    ("admin", true),
    ("petri-operator-workload", true),
    ("cluster-admin", false),
    ("edit", false),
    ("petri-operator", false),
];

/// Lists every question of the table.
pub(super) fn questions(places: &Places<'_>) -> Vec<Question> {
    let mut all = Vec::new();
    for &(group, resource, everywhere, workload, management, shared) in TABLE {
        let spots = [
            ("", ""),
            ("kube-system", ""),
            (places.workload, workload),
            (places.management, management),
            (places.shared, shared),
        ];
        for (place, besides) in spots {
            for &(letter, verb) in VERBS {
                let expected = everywhere.contains(letter) || besides.contains(letter);
                all.push(Question { attributes: attributes(group, resource, verb, place, None), expected });
            }
        }
    }
    for &(role, expected) in BINDABLE {
        for verb in ["bind", "escalate"] {
            let attributes = attributes(RBAC, "clusterroles", verb, "", Some(role));
            all.push(Question { attributes, expected: expected && verb == "bind" });
        }
    }
    all
}

/// Lists the same questions about petri-apiserver.
pub(super) fn apiserver(places: &Places<'_>) -> Vec<Question> {
    let mut all = Vec::new();
    for &(group, resource, ..) in TABLE {
        let granted =
            APISERVER.iter().find(|row| (row.0, row.1) == (group, resource)).map_or("", |row| row.2);
        for place in ["", "kube-system", places.management, places.shared] {
            for &(letter, verb) in VERBS {
                let expected = place == places.management && granted.contains(letter);
                all.push(Question { attributes: attributes(group, resource, verb, place, None), expected });
            }
        }
    }
    all
}

fn attributes(
    group: &str,
    resource: &str,
    verb: &str,
    place: &str,
    name: Option<&str>,
) -> ResourceAttributes {
    let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(r, s)| (r, Some(s)));
    let namespaces = resource == "namespaces" && !place.is_empty();
    ResourceAttributes {
        group: Some(group.to_owned()),
        version: Some("*".to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        verb: Some(verb.to_owned()),
        namespace: Some(place.to_owned()),
        // A request for /api/v1/namespaces/X is authorised in X, under the name X.
        name: name.or(namespaces.then_some(place)).map(str::to_owned),
        ..Default::default()
    }
}

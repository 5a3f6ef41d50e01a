//! RoleBindings that the operator may create, and those that it may not.

use serde_json::{Value, json};

/// One RoleBinding to create.
pub(super) struct Attempt {
    pub(super) name: &'static str,
    pub(super) place: String,
    pub(super) object: Value,
    /// What a refusal must say.
    pub(super) why: &'static str,
}

/// Said by the policy, not by RBAC.
const PLACE: &str = "only in namespaces labelled petri.run/managed=true";
const CONTENT: &str = "only its own RoleBindings";
/// Said by RBAC: without `bind` on a role nobody gives away rights he has not.
const ESCALATION: &str = "is attempting to grant RBAC permissions not currently held";

/// What the operator binds to itself.
pub(super) const OPERATOR_ROLE: &str = "petri-operator-workload";

/// Builds a RoleBinding of a ClusterRole to ServiceAccounts, each given as (name, namespace).
pub(super) fn binding(name: &str, role: &str, subjects: &[(&str, &str)]) -> Value {
    let subjects: Vec<_> = subjects
        .iter()
        .map(|(name, namespace)| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}))
        .collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}

pub(super) fn permitted(management: &str, workload: &str) -> Vec<Attempt> {
    let place = workload.to_owned();
    let operator = binding("petri-operator", OPERATOR_ROLE, &[("petri-operator", management)]);
    let deployer = binding("petri-deployer", "admin", &[("petri-deployer", workload)]);
    vec![
        Attempt { name: "the operator binds itself", place: place.clone(), object: operator, why: "" },
        Attempt { name: "the operator binds its deployer", place, object: deployer, why: "" },
    ]
}

pub(super) fn refused(management: &str, workload: &str, foreign: &str) -> Vec<Attempt> {
    let attempt = |name, place: &str, object, why| Attempt { name, place: place.to_owned(), object, why };
    let operator = |name| binding(name, OPERATOR_ROLE, &[("petri-operator", management)]);
    let deployer = |place| binding("petri-deployer", "admin", &[("petri-deployer", place)]);
    let to = |kind: &str| {
        let mut object = deployer(workload);
        object["subjects"][0]["kind"] = kind.into();
        object["subjects"][0]["apiGroup"] = "rbac.authorization.k8s.io".into();
        object
    };
    let mut no_subject = deployer(workload);
    no_subject["subjects"] = json!([]);
    let mut role = operator("petri-operator");
    role["roleRef"]["kind"] = "Role".into();
    let other = ("default", workload);
    let mine = ("petri-deployer", workload);
    vec![
        attempt("itself in a foreign namespace", foreign, operator("petri-operator"), PLACE),
        attempt("the deployer in a foreign namespace", foreign, deployer(foreign), PLACE),
        attempt("itself in kube-system", "kube-system", operator("petri-operator"), PLACE),
        attempt("itself in its own namespace", management, operator("petri-operator-2"), PLACE),
        attempt("itself under another name", workload, operator("other"), CONTENT),
        attempt(
            "its role for another account",
            workload,
            binding("petri-operator", OPERATOR_ROLE, &[other]),
            CONTENT,
        ),
        attempt(
            "its role for the deployer",
            workload,
            binding("petri-deployer", OPERATOR_ROLE, &[mine]),
            CONTENT,
        ),
        attempt("the deployer under another name", workload, binding("other", "admin", &[mine]), CONTENT),
        attempt("the deployer's name for the operator's role", workload, operator("petri-deployer"), CONTENT),
        attempt(
            "admin for itself",
            workload,
            binding("petri-operator", "admin", &[("petri-operator", management)]),
            CONTENT,
        ),
        attempt("admin for another account", workload, binding("petri-deployer", "admin", &[other]), CONTENT),
        attempt(
            "admin for a second account",
            workload,
            binding("petri-deployer", "admin", &[mine, other]),
            CONTENT,
        ),
        attempt(
            "the deployer of another namespace",
            workload,
            binding("petri-deployer", "admin", &[("petri-deployer", foreign)]),
            CONTENT,
        ),
        attempt("a user", workload, to("User"), CONTENT),
        attempt("a group", workload, to("Group"), CONTENT),
        attempt("nobody", workload, no_subject, CONTENT),
        attempt("cluster-admin", workload, binding("petri-deployer", "cluster-admin", &[mine]), ESCALATION),
        attempt(
            "a role outside the allow-list",
            workload,
            binding("petri-deployer-edit", "edit", &[mine]),
            ESCALATION,
        ),
        attempt("a Role of the namespace", workload, role, CONTENT),
    ]
}

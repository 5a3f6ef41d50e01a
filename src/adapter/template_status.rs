//! The `Accepted` condition of a template: the verdict of the same functions that serve its environments.

use super::{
    accepted,
    intent::{Defaults, Inputs, intent},
    sharing::SliceInputs,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff};
use petri_crds::{
    EnvironmentTemplate, EnvironmentTemplateStatus, EphemeralEnvironment, EphemeralEnvironmentSpec,
};
use petri_machines::{
    environment::{Invalid, Plan},
    names::NamespaceName,
};

/// The shortest name an environment can have: a release name that does not fit with it fits with none.
const SAMPLE: &str = "e";
const SAMPLE_NAMESPACE: &str = "petri-env-00000000";

/// Gives the status to store, or `None` when what is stored says the same: a time alone is no reason to write.
pub fn changed(template: &EnvironmentTemplate, now: jiff::Timestamp) -> Option<EnvironmentTemplateStatus> {
    let verdict = judge(template).map(|plan| summary(template, &plan));
    let mut status = template.status.clone().unwrap_or_default();
    status.observed_generation = template.metadata.generation;
    accepted::put(&mut status.conditions, verdict, template.metadata.generation, now);
    (template.status.as_ref() != Some(&status)).then_some(status)
}

/// Judges a template as if an environment of it existed: graph, names, template syntax, references.
///
/// # Errors
/// What its condition says.
pub fn judge(template: &EnvironmentTemplate) -> Result<Plan, Invalid> {
    let sample = EphemeralEnvironment {
        metadata: ObjectMeta {
            name: Some(SAMPLE.to_owned()),
            namespace: template.metadata.namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: EphemeralEnvironmentSpec {
            template: template.metadata.name.clone().unwrap_or_default(),
            ..EphemeralEnvironmentSpec::default()
        },
        status: None,
    };
    let namespace = NamespaceName::new(SAMPLE_NAMESPACE).expect("the literal is a DNS label");
    let defaults = Defaults { deploy_timeout_secs: 1, pod_failure_secs: 300 };
    intent(&Inputs {
        environment: &sample,
        template: Some(template),
        namespace: &namespace,
        secrets: None,
        slices: &SliceInputs::new(),
        defaults,
    })
    .plan
}

/// Says what of a template is worth to know.
pub fn summary(template: &EnvironmentTemplate, plan: &Plan) -> String {
    let levels = plan.components.iter().map(|component| component.planned.level);
    let levels =
        levels.chain(plan.slices.values().map(|slice| slice.level)).max().map_or(0, |level| level + 1);
    let domain = template.spec.ingress.as_ref().is_some_and(|ingress| !ingress.domain.is_empty());
    let routeless = if domain && plan.route.is_none() {
        "; no URL: ingress.component is needed, since not exactly one component is one that nothing depends on"
    } else {
        ""
    };
    format!("{} components on {levels} levels{routeless}", plan.components.len() + plan.slices.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    fn template(spec: Value, status: Value) -> EnvironmentTemplate {
        let json = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
            "metadata": {"name": "web", "namespace": "petri-system", "generation": 4},
            "spec": spec, "status": status});
        serde_json::from_value(json).unwrap()
    }

    fn at(secs: i64) -> jiff::Timestamp {
        jiff::Timestamp::from_second(secs).unwrap()
    }

    fn check(spec: Value, status: &str, reason: &str, message: &str) {
        let found = changed(&template(spec.clone(), json!({})), at(5)).unwrap().conditions.remove(0);
        assert_eq!(
            (found.status.as_str(), found.reason.as_str(), found.message.as_str()),
            (status, reason, message),
            "{spec}"
        );
        assert_eq!((found.observed_generation, found.last_transition_time), (Some(4), Time(at(5))));
    }

    fn component(name: &str, needs: &[&str], values: Value) -> Value {
        json!({"name": name, "helm": {"path": "/c", "values": values}, "dependsOn": needs})
    }

    #[test]
    fn a_template_is_judged_before_anybody_uses_it() {
        let component = |needs: &[&str], values: Value| component("api", needs, values);
        check(
            json!({"components": [component(&[], json!({})), super::tests::component("web", &["api"], json!({}))]}),
            "True",
            "Accepted",
            "2 components on 2 levels",
        );
        check(
            json!({"components": [component(&["api"], json!({}))]}),
            "False",
            "InvalidConfiguration",
            "dependency cycle: api -> api",
        );
        check(
            json!({"components": [component(&[], json!({"a": "{{ .Env.Nmae }}"}))]}),
            "False",
            "RenderFailed",
            "components[api].helm.values[\"a\"]: 1:4: .Env.Nmae does not exist",
        );
        check(
            json!({"components": [component(&[], json!({}))], "ttl": "soon"}),
            "False",
            "InvalidTTL",
            "ttl: \"soon\" is not a Go duration such as 90s, 30m or 1h30m",
        );
        let long = "c".repeat(52);
        check(
            json!({"components": [super::tests::component(&long, &[], json!({}))]}),
            "False",
            "InvalidConfiguration",
            &format!("components[{long}]: \"e-{long}\" has 54 characters, at most 53 fit"),
        );
    }

    #[test]
    fn a_verdict_that_stands_is_not_written_again_and_keeps_its_time() {
        let spec = json!({"components": [component("api", &[], json!({}))]});
        let first = changed(&template(spec.clone(), json!({})), at(5)).expect("nothing was said yet");
        let stored = serde_json::to_value(&first).unwrap();
        assert_eq!(changed(&template(spec, stored.clone()), at(9)), None);
        let two = json!({"components": [component("a", &[], json!({})), component("b", &[], json!({}))]});
        let second = changed(&template(two, stored.clone()), at(9)).expect("another message");
        assert_eq!(second.conditions[0].last_transition_time, Time(at(5)));
        let bad = changed(&template(json!({"components": []}), stored), at(9)).expect("another verdict");
        assert_eq!(bad.conditions[0].last_transition_time, Time(at(9)));
        assert_eq!(bad.observed_generation, Some(4));
    }
}

//! The `Accepted` condition of a provider: the verdict of the same functions that serve its shared components.

use super::{accepted, sharing};
use k8s_openapi::jiff;
use petri_crds::{SharedComponentProvider, SharedComponentProviderStatus};
use petri_machines::environment::Invalid;

/// Gives the status to store, or `None` when what is stored says the same: a time alone is no reason to write.
pub fn changed(
    provider: &SharedComponentProvider,
    now: jiff::Timestamp,
) -> Option<SharedComponentProviderStatus> {
    let mut status = provider.status.clone().unwrap_or_default();
    status.observed_generation = provider.metadata.generation;
    accepted::put(&mut status.conditions, judge(provider), provider.metadata.generation, now);
    (provider.status.as_ref() != Some(&status)).then_some(status)
}

/// Judges a provider, and says what of it is worth to know.
///
/// # Errors
/// What its condition says.
pub fn judge(provider: &SharedComponentProvider) -> Result<String, Invalid> {
    let spec = &provider.spec;
    sharing::check(spec)?;
    let keys = spec.binding.as_ref().map_or(0, |binding| binding.secret_keys.len());
    let lacks = match (&spec.provision, &spec.deprovision) {
        (Some(_), Some(_)) => "",
        (Some(_), None) => "; what is provisioned is never deprovisioned",
        (None, Some(_)) | (None, None) => "; nothing is provisioned",
    };
    Ok(format!("{keys} binding keys{lacks}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    fn provider(spec: Value) -> SharedComponentProvider {
        let json = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "SharedComponentProvider",
            "metadata": {"name": "postgres", "namespace": "petri-system", "generation": 2}, "spec": spec});
        serde_json::from_value(json).unwrap()
    }

    fn check(spec: Value, status: &str, reason: &str, message: &str) {
        let now = jiff::Timestamp::from_second(5).unwrap();
        let found = changed(&provider(spec.clone()), now).unwrap();
        let condition = &found.conditions[0];
        let told = (condition.status.as_str(), condition.reason.as_str(), condition.message.as_str());
        assert_eq!(told, (status, reason, message), "{spec}");
        assert_eq!((found.observed_generation, &condition.last_transition_time), (Some(2), &Time(now)));
        let again = SharedComponentProvider { status: Some(found), ..provider(spec) };
        assert_eq!(changed(&again, jiff::Timestamp::from_second(9).unwrap()), None, "a verdict that stands");
    }

    #[test]
    fn a_provider_is_judged_before_anybody_uses_it() {
        let chart = json!({"path": "/charts/postgres"});
        check(
            json!({"helm": chart, "binding": {"secretKeys": {"HOST": "{{ .Shared.Name }}", "USER": "{{ .Env.Slug }}"}}}),
            "True",
            "Accepted",
            "2 binding keys; nothing is provisioned",
        );
        let script = json!({"image": "psql", "script": "createdb {{ .Env.Slug }}"});
        check(
            json!({"helm": chart, "provision": script}),
            "True",
            "Accepted",
            "0 binding keys; what is provisioned is never deprovisioned",
        );
        check(json!({}), "False", "InvalidConfiguration", "helm: the chart of the shared workload is needed");
        check(
            json!({"helm": chart, "binding": {"secretKeys": {"URL": "{{ .Instance.PASSWORD }}"}}}),
            "False",
            "RenderFailed",
            "binding.secretKeys[URL]: 1:4: .Instance.PASSWORD does not exist",
        );
        check(
            json!({"helm": chart, "deprovision": {"image": "psql", "script": "dropdb {{ .Components.db.NAME }}"}}),
            "False",
            "RenderFailed",
            "deprovision.script: 1:11: .Components does not exist",
        );
        check(
            json!({"helm": {"path": "/charts/postgres", "values": {"password": "{{ .Instance.PASWORD }}"}}}),
            "False",
            "RenderFailed",
            "helm.values[\"password\"]: 1:4: .Instance.PASWORD does not exist",
        );
    }
}

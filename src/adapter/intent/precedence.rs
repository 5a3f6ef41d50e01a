//! The order of precedence as a property: whatever the places say, the last one that names a value wins.
//! What lies below them, the chart's defaults and its `valuesFile`, is Helm's: the deployer hands it these values last.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// What one place says: of some keys of `image`, and a text each.
type Place = BTreeMap<String, String>;

fn places() -> impl Strategy<Value = [Place; 5]> {
    let place = || prop::collection::btree_map("[a-d]", "[k-z]{1,3}", 0..4);
    [place(), place(), place(), place(), place()]
}

fn object(place: &Place) -> Value {
    if place.is_empty() { json!({}) } else { json!({ "image": place }) }
}

fn sets(place: &Place) -> Value {
    place
        .iter()
        .map(|(key, text)| (format!("image.{key}"), json!(text)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

proptest! {
    #[test]
    fn the_last_place_that_names_a_value_wins_and_is_said_to_be_where_it_comes_from(places in places()) {
        let [template_object, template_values, environment_values, own_object, own_values] = &places;
        let template: EnvironmentTemplate = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"components": [
            {"name": "api", "helm": {"path": "/c", "valuesObject": object(template_object), "values": sets(template_values)}}]}}))?;
        let environment: EphemeralEnvironment = serde_json::from_value(json!({"metadata": {"name": "pr-1"}, "spec": {
            "template": "web", "values": sets(environment_values),
            "components": [{"name": "api", "valuesObject": object(own_object), "values": sets(own_values)}]}}))?;
        let namespace = NamespaceName::new("petri-env-01234567")?;
        let (slices, defaults) = (SliceInputs::new(), Defaults { deploy_timeout_secs: 900, pod_failure_secs: 300 });
        let inputs = Inputs {
            environment: &environment, template: Some(&template), namespace: &namespace, secrets: None,
            slices: &slices, defaults,
        };
        let explained = explain(&inputs).map_err(|invalid| TestCaseError::fail(invalid.message))?;
        let payloads = intent(&inputs).payloads;
        let names = ["components[api].helm.valuesObject.", "components[api].helm.values[", "environment.values[",
            "environment.components[api].valuesObject.", "environment.components[api].values["];
        let mut expected = BTreeMap::new();
        for (place, name) in places.iter().zip(names) {
            expected.extend(place.iter().map(|(key, text)| (key.clone(), (text.clone(), name))));
        }
        let values: Place = expected.iter().map(|(key, (text, _))| (key.clone(), text.clone())).collect();
        let found: Vec<&serde_json::Map<String, Value>> = payloads.values().map(|rendered| &rendered.values).collect();
        let wanted = object(&values);
        prop_assert_eq!(found, wanted.as_object().into_iter().collect::<Vec<_>>());
        let leaves = explained.get("api").map(|one| one.values.clone()).unwrap_or_default();
        prop_assert_eq!(leaves.len(), expected.len());
        for leaf in leaves {
            let (text, place) = &expected[leaf.path.trim_start_matches("image.")];
            prop_assert!(leaf.origin.starts_with(place) && leaf.value == *text, "{:?} {}", leaf, place);
        }
    }
}

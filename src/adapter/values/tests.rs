use super::*;
use proptest::prelude::*;
use serde_json::json;

fn variables() -> Variables {
    Variables::new(&json!({"Env": {"Name": "pr-1", "Slug": "pr_1"}}))
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn layer(object_: Value, values: &[(&str, &str)]) -> Result<Layer, String> {
    let values = values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Layer::render("x", &object(object_), &values, &variables()).map_err(|error| error.to_string())
}

/// Each layer is YAML and `--set` pairs.
fn check(layers: &[(Value, &[(&str, &str)])], expected: Result<Value, &str>) {
    let rendered: Result<Vec<Layer>, String> =
        layers.iter().map(|(object, values)| layer(object.clone(), values)).collect();
    let found =
        rendered.and_then(|layers| merge(&layers).map_err(|error| error.to_string())).map(Value::Object);
    assert_eq!(found.as_ref().map_err(String::as_str), expected.as_ref().map_err(|error| *error));
}

#[test]
fn scenarios_27_and_29_later_layers_win_and_what_they_do_not_name_stays() {
    check(
        &[(
            json!({"image": {"tag": "object", "name": "api"}}),
            &[("image.tag", "values"), ("replicas", "1")],
        )],
        Ok(json!({"image": {"tag": "values", "name": "api"}, "replicas": 1})),
    );
    check(
        &[
            (json!({"a": {"b": 1, "c": [1, 2]}}), &[("a.d", "template")]),
            (json!({}), &[("a.d", "environment"), ("a.b", "5")]),
            (json!({"a": {"c": [3]}}), &[("a.e", "override")]),
        ],
        Ok(json!({"a": {"b": 5, "c": [3], "d": "environment", "e": "override"}})),
    );
    check(
        &[(json!({"a": {"b": 1}}), &[]), (json!({"a": null}), &[]), (json!({}), &[("c", "null")])],
        Ok(json!({"a": null, "c": null})),
    );
    check(&[(json!({"a": "text"}), &[]), (json!({}), &[("a.b", "x")])], Ok(json!({"a": {"b": "x"}})));
}

#[test]
fn a_list_is_reached_by_place_and_gaps_are_null() {
    check(
        &[(
            json!({"hosts": [{"name": "a", "port": 1}, {"name": "b"}]}),
            &[("hosts[1].name", "c"), ("hosts[3]", "d")],
        )],
        Ok(json!({"hosts": [{"name": "a", "port": 1}, {"name": "c"}, null, "d"]})),
    );
    check(
        &[(json!({}), &[(r"os.kubernetes\.io/os", "linux")])],
        Ok(json!({"os": {"kubernetes.io/os": "linux"}})),
    );
}

#[test]
fn only_what_is_exactly_a_boolean_null_or_an_integer_is_typed() {
    for (text, value) in [
        ("true", json!(true)),
        ("false", json!(false)),
        ("null", json!(null)),
        ("0", json!(0)),
        ("-12", json!(-12)),
        ("9223372036854775807", json!(i64::MAX)),
        ("9223372036854775808", json!("9223372036854775808")),
        ("00215e6", json!("00215e6")),
        ("1e10", json!("1e10")),
        ("007", json!("007")),
        ("+1", json!("+1")),
        ("-0", json!("-0")),
        ("1.5", json!("1.5")),
        ("True", json!("True")),
        ("", json!("")),
        (" 1", json!(" 1")),
        ("{a},b\\c=d\n", json!("{a},b\\c=d\n")),
        ("{{ .Env.Name }}", json!("pr-1")),
        ("{{ len .Env.Name }}", json!(4)),
    ] {
        check(&[(json!({}), &[("key", text)])], Ok(json!({ "key": value })));
    }
}

#[test]
fn strings_in_yaml_are_rendered_and_stay_strings_and_the_rest_stays_as_it_is() {
    check(
        &[(
            json!({"a": ["{{ .Env.Slug }}", 1, 1.5, true, null, {"b": "{{ len .Env.Name }}"}], "c": "true"}),
            &[],
        )],
        Ok(json!({"a": ["pr_1", 1, 1.5, true, null, {"b": "4"}], "c": "true"})),
    );
}

#[test]
fn an_error_names_the_field() {
    check(
        &[(json!({}), &[("db.name", "{{ .Env.Nope }}")])],
        Err("x.values[\"db.name\"]: 1:4: .Env.Nope does not exist"),
    );
    check(
        &[(json!({"a": {"b": [0, "{{ nope }}"]}}), &[])],
        Err("x.valuesObject.a.b[1]: 1:4: function \"nope\" does not exist"),
    );
    check(&[(json!({}), &[("a..b", "")])], Err("x.values[\"a..b\"]: a name in the path is empty"));
}

#[test]
fn keys_of_one_map_that_cannot_both_hold_are_refused() {
    let lost = "x.values[\"a\"] contradicts another key of the same map";
    check(&[(json!({}), &[("a", "1"), ("a.b", "2")])], Err(lost));
    check(&[(json!({}), &[("a", "1"), ("a[0]", "2")])], Err(lost));
    let lost = "x.values[\"a.b\"] contradicts another key of the same map";
    check(&[(json!({}), &[("a.b", "1"), ("a[0]", "2")])], Err(lost));
    check(&[(json!({}), &[("a[0]", "1"), ("a[00]", "1")])], Ok(json!({"a": [1]})));
}

#[test]
fn environment_variables_become_a_list_at_their_path_and_win_over_entries_of_the_same_name() {
    let env = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Variable::Text((*value).to_owned()))).collect()
    };
    for (values, path, pairs, expected) in [
        (json!({"a": 1}), "extraEnvVars", vec![], json!({"a": 1})),
        (
            json!({}),
            "extraEnvVars",
            vec![("B", "true"), ("A", "007")],
            json!({"extraEnvVars": [{"name": "A", "value": "007"}, {"name": "B", "value": "true"}]}),
        ),
        (
            json!({"app": {"env": [{"name": "A", "value": "old"}, {"name": "C", "value": "c"}]}}),
            "app.env",
            vec![("A", "new")],
            json!({"app": {"env": [{"name": "C", "value": "c"}, {"name": "A", "value": "new"}]}}),
        ),
    ] {
        let mut map = object(values);
        put_env(&mut map, path, &env(&pairs));
        assert_eq!(Value::Object(map), expected);
    }
}

/// A path as a user writes it, and the steps it stands for.
fn paths() -> impl Strategy<Value = (String, Vec<Step>)> {
    let key = r"[a-z.\[\]\\,={} ]{1,5}".prop_map(|name| {
        let escaped = name.replace('\\', r"\\").replace('.', r"\.").replace('[', r"\[").replace('=', r"\=");
        (escaped, name)
    });
    prop::collection::vec((key, prop::collection::vec(0_usize..4, 0..2)), 1..4).prop_map(|parts| {
        let mut steps = Vec::new();
        let mut texts = Vec::new();
        for ((escaped, name), places) in parts {
            let places_text: String = places.iter().map(|place| format!("[{place}]")).collect();
            texts.push(escaped + &places_text);
            steps.push(Step::Key(name));
            steps.extend(places.into_iter().map(Step::Place));
        }
        (texts.join("."), steps)
    })
}

proptest! {
    #[test]
    fn any_text_at_any_path_is_seen_there_as_it_was_given(
        (path, steps) in paths(),
        text in any::<String>().prop_filter("no template", |text| !text.contains("{{")),
        below in prop::collection::btree_map("[a-c]", any::<i32>(), 0..3),
    ) {
        let base = Layer::render("x", &object(json!(below)), &BTreeMap::new(), &variables()).unwrap();
        let values = BTreeMap::from([(path, text.clone())]);
        let layer = Layer::render("x", &Map::new(), &values, &variables()).unwrap();
        let merged = Value::Object(merge([&base, &layer]).unwrap());
        let seen = path::get(&merged, &steps).unwrap();
        let back = match seen {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        prop_assert_eq!(back, text);
    }

    #[test]
    fn the_last_layer_that_names_a_path_wins(
        layers in prop::collection::vec(prop::collection::btree_map("[a-c]\\.[a-c]", "[x-z]{1,2}", 0..4), 1..5),
    ) {
        let rendered: Vec<Layer> = layers
            .iter()
            .map(|values| Layer::render("x", &Map::new(), values, &variables()).unwrap())
            .collect();
        let merged = Value::Object(merge(&rendered).unwrap());
        for path in layers.iter().flat_map(BTreeMap::keys) {
            let last = layers.iter().rev().find_map(|values| values.get(path)).unwrap();
            let steps = path::parse(path).unwrap();
            prop_assert_eq!(path::get(&merged, &steps), Some(&json!(last)));
        }
    }
}

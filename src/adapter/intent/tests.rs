use super::*;
use serde_json::json;

const NAMESPACE: &str = "petri-env-01234567";
const CREATED_AT: u64 = 1_893_456_000;

fn template(spec: Value) -> EnvironmentTemplate {
    let json = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EnvironmentTemplate",
        "metadata": {"name": "web", "namespace": "petri-system"}, "spec": spec});
    serde_json::from_value(json).unwrap()
}

fn environment(name: &str, spec: Value) -> EphemeralEnvironment {
    let mut json = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
        "metadata": {"name": name, "namespace": "petri-system", "uid": "u-1",
            "creationTimestamp": "2030-01-01T00:00:00Z"},
        "spec": {"template": "web"}});
    for (key, value) in spec.as_object().unwrap() {
        json["spec"][key] = value.clone();
    }
    serde_json::from_value(json).unwrap()
}

fn compute(environment: &EphemeralEnvironment, template: Option<&EnvironmentTemplate>) -> Intent {
    let namespace = NamespaceName::new(NAMESPACE).unwrap();
    let defaults = Defaults { deploy_timeout_secs: 900, pod_failure_secs: 300 };
    let slices = SliceInputs::new();
    intent(&Inputs { environment, template, namespace: &namespace, secrets: None, slices: &slices, defaults })
}

/// One Helm component named `api` with what is given beside its chart.
fn api(more: Value) -> Value {
    let mut component = json!({"name": "api", "helm": {"path": "/charts/api"}});
    merge_json(&mut component, &more);
    json!({ "components": [component] })
}

fn merge_json(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge_json(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

/// The values of `api`.
fn check_values(template_spec: Value, environment_spec: Value, expected: Value) {
    let intent = compute(&environment("pr-1", environment_spec), Some(&template(template_spec)));
    assert_eq!(intent.plan.as_ref().err(), None);
    let api = &intent.payloads[&ComponentName::new("api").unwrap()];
    assert_eq!(Value::Object(api.values.clone()), expected);
}

/// The reason and the message of an input that cannot be worked with.
fn check_invalid(name: &str, template_spec: Value, environment_spec: Value, reason: Reason, message: &str) {
    let template = template(template_spec.clone());
    let intent = compute(&environment(name, environment_spec.clone()), Some(&template));
    let expected = Invalid { reason, message: message.to_owned() };
    assert_eq!(intent.plan, Err(expected), "{template_spec} {environment_spec}");
    assert!(intent.payloads.is_empty());
}

#[test]
fn scenario_27_template_values_yield_to_the_environments_and_those_to_the_components_own() {
    check_values(
        api(json!({"helm": {"values": {"a": "template", "b": "template", "c": "template", "d": "template"},
            "valuesObject": {"a": "object", "e": "object", "f": {"g": 1}}}})),
        json!({"values": {"b": "environment", "c": "environment"},
            "components": [{"name": "api", "values": {"c": "own"}, "valuesObject": {"c": "x", "d": "own object"}}]}),
        json!({"a": "template", "b": "environment", "c": "own", "d": "own object", "e": "object", "f": {"g": 1}}),
    );
}

#[test]
fn scenario_28_environment_variables_of_the_environment_win_and_the_other_keys_stay() {
    check_values(
        api(
            json!({"env": {"A": "template", "B": "template", "C": {"value": "{{ .Env.Slug }}"}, "D": "template"}}),
        ),
        json!({"env": {"B": "environment", "D": "environment"}, "components": [{"name": "api", "env": {"D": "own"}}]}),
        json!({"extraEnvVars": [{"name": "A", "value": "template"}, {"name": "B", "value": "environment"},
            {"name": "C", "value": "pr_1"}, {"name": "D", "value": "own"}]}),
    );
    check_values(
        api(json!({"helm": {"extraEnvVarsPath": "app.env"}, "env": {"A": "1"}})),
        json!({}),
        json!({"app": {"env": [{"name": "A", "value": "1"}]}}),
    );
}

#[test]
fn scenario_29_without_overrides_the_templates_values_are_kept() {
    check_values(
        api(json!({"helm": {"values": {"image.tag": "{{ .Env.Name }}", "replicas": "2"}}})),
        json!({}),
        json!({"image": {"tag": "pr-1"}, "replicas": 2}),
    );
}

#[test]
fn a_template_sees_the_environment_and_its_address_only_with_a_domain() {
    let seen = json!({"helm": {"values": {"x": "{{ .Env.Name }} {{ .Env.Slug }} {{ .Env.Namespace }} {{ .Env.URL }}"}}});
    let mut spec = api(seen.clone());
    spec["ingress"] = json!({"domain": "preview.example"});
    check_values(
        spec.clone(),
        json!({}),
        json!({"x": "pr-1 pr_1 petri-env-01234567 http://pr-1.preview.example"}),
    );
    spec["secrets"] = json!([{"name": "tls"}]);
    spec["ingress"]["tlsSecretName"] = "tls".into();
    check_values(spec, json!({}), json!({"x": "pr-1 pr_1 petri-env-01234567 https://pr-1.preview.example"}));
    let message = "components[api].helm.values[\"x\"]: 1:57: .Env.URL does not exist";
    check_invalid("pr-1", api(seen), json!({}), Reason::RenderFailed, message);
}

#[test]
fn what_does_not_render_is_named_with_its_path() {
    let render = Reason::RenderFailed;
    for (template_spec, environment_spec, message) in [
        (
            api(json!({"helm": {"values": {"db.name": "{{ .Env.Nope }}"}}})),
            json!({}),
            "components[api].helm.values[\"db.name\"]: 1:4: .Env.Nope does not exist",
        ),
        (
            api(json!({"helm": {"valuesObject": {"a": ["{{ if true }}"]}}})),
            json!({}),
            "components[api].helm.valuesObject.a[0]: 1:1: if has no end",
        ),
        (
            api(json!({})),
            json!({"values": {"a": "{{ nope }}"}}),
            "environment.values[\"a\"]: 1:4: function \"nope\" does not exist",
        ),
        (
            api(json!({})),
            json!({"components": [{"name": "api", "valuesObject": {"a": "{{ .Env.Nope }}"}}]}),
            "environment.components[api].valuesObject.a: 1:4: .Env.Nope does not exist",
        ),
        (
            api(json!({"env": {"A": "{{ .Env.Nope }}"}})),
            json!({}),
            "components[api].env[\"A\"]: 1:4: .Env.Nope does not exist",
        ),
        (
            api(json!({})),
            json!({"components": [{"name": "api", "env": {"A": "{{ .Nope }}"}}]}),
            "environment.components[api].env[\"A\"]: 1:4: .Nope does not exist",
        ),
    ] {
        check_invalid("pr-1", template_spec, environment_spec, render, message);
    }
}

#[test]
fn a_configuration_that_does_not_fit_together_is_refused_with_the_field() {
    let two = |a: Value, b: Value| {
        let mut spec = api(a);
        let mut web = json!({"name": "web", "helm": {"path": "/charts/web"}});
        merge_json(&mut web, &b);
        spec["components"].as_array_mut().unwrap().push(web);
        spec
    };
    let secret =
        |component: &str| json!({"env": {"A": {"secretKeyRef": {"component": component, "key": "k"}}}});
    for (template_spec, environment_spec, message) in [
        (json!({"components": []}), json!({}), "components: 1 to 64 are needed, 0 are there"),
        (two(json!({}), json!({"name": "api"})), json!({}), "component api is declared twice"),
        (
            two(json!({"dependsOn": ["web"]}), json!({"dependsOn": ["api"]})),
            json!({}),
            "dependency cycle: api -> web -> api",
        ),
        (api(json!({"dependsOn": ["db"]})), json!({}), "component api depends on db, which does not exist"),
        (
            two(json!({}), json!({"dependsOn": ["api", "api"]})),
            json!({}),
            "components[web]: dependsOn names api twice",
        ),
        (
            api(json!({"name": "Api"})),
            json!({}),
            "components[Api]: \"Api\" is not a DNS label (lower-case letters, digits, inner hyphens)",
        ),
        (
            api(json!({"sharedComponentRef": "pg"})),
            json!({}),
            "components[api]: exactly one of helm and sharedComponentRef is needed",
        ),
        (
            json!({"components": [
                {"name": "db", "sharedComponentRef": "pg", "dependsOn": ["api"]},
                {"name": "api", "helm": {"path": "/c"}},
            ]}),
            json!({}),
            "components[db]: dependsOn: a shared component cannot depend on the Helm component \"api\"",
        ),
        (
            json!({"components": [{"name": "db", "helm": {}}]}),
            json!({}),
            "components[db]: helm: exactly one chart source is needed: path, git, repo with chart, or an oci:// chart",
        ),
        (
            api(json!({"helm": {"credentialsSecretRef": {"name": "c"}}})),
            json!({}),
            "components[api]: helm.credentialsSecretRef: \"c\" is none of the template's secrets",
        ),
        (
            api(json!({"readiness": {"httpGet": {"path": "healthz", "port": 80}}})),
            json!({}),
            "components[api]: readiness.httpGet.path: begins with a slash and holds no space",
        ),
        (
            api(json!({"readiness": {"httpGet": {"path": "/", "port": 70000}}})),
            json!({}),
            "components[api]: readiness.httpGet.port: 70000 is no port",
        ),
        (
            api(json!({"env": {"A B": "x"}})),
            json!({}),
            "components[api].env[\"A B\"]: a name has letters, digits, '_', '-' and '.', and no digit in front",
        ),
        (
            api(json!({})),
            json!({"env": {"1A": "x"}}),
            "environment.env[\"1A\"]: a name has letters, digits, '_', '-' and '.', and no digit in front",
        ),
        (
            api(secret("api")),
            json!({}),
            "components[api].env[\"A\"]: component \"api\" is not shared, so it has no binding",
        ),
        (api(json!({})), secret("db"), "environment.env[\"A\"]: the template has no component \"db\""),
        (
            api(json!({})),
            json!({"components": [{"name": "db"}]}),
            "environment.components[db]: the template has no such component; it has api",
        ),
        (
            api(json!({})),
            json!({"components": [{"name": "api"}, {"name": "api"}]}),
            "environment.components[api]: is there twice",
        ),
        (
            api(json!({"helm": {"values": {"a": "1", "a.b": "2"}}})),
            json!({}),
            "components[api].helm.values[\"a\"] contradicts another key of the same map",
        ),
        (api(json!({})), json!({"values": {"a[": "1"}}), "environment.values[\"a[\"]: [ without ]"),
        (
            api(json!({"helm": {"valuesObject": {"a": "x".repeat(1_000_000)}}})),
            json!({}),
            "components[api]: the values have 1000008 bytes, at most 1000000 fit into a Secret",
        ),
    ] {
        check_invalid("pr-1", template_spec, environment_spec, Reason::InvalidConfiguration, message);
    }
}

#[test]
fn ingress_and_secrets_of_a_template_are_checked_again() {
    for (more, message) in [
        (
            json!({"ingress": {"component": "web"}}),
            "ingress.component: \"web\" is no Helm component of the template",
        ),
        (
            json!({"ingress": {"tlsSecretName": "t"}}),
            "ingress.tlsSecretName: \"t\" is none of the template's secrets",
        ),
        (
            json!({"ingress": {"className": "c", "gateway": {"name": "g"}}}),
            "ingress: className is for an Ingress, gateway for an HTTPRoute",
        ),
        (json!({"secrets": [{"name": "a"}, {"name": "a"}]}), "secrets: \"a\" is named twice"),
    ] {
        let mut spec = api(json!({}));
        merge_json(&mut spec, &more);
        check_invalid("pr-1", spec, json!({}), Reason::InvalidConfiguration, message);
    }
}

#[test]
fn scenario_110_a_release_name_that_does_not_fit_is_refused_with_its_length() {
    let name = "e".repeat(50);
    let message = format!("components[api]: \"{name}-api\" has 54 characters, at most 53 fit");
    check_invalid(&name, api(json!({})), json!({}), Reason::InvalidConfiguration, &message);
}

#[test]
fn scenarios_22_to_26_the_deploy_timeout_is_read_or_refused() {
    for (text, expected) in
        [("", Ok(900)), ("20m", Ok(1_200)), ("soon", Err("")), ("0s", Err("")), ("-1m", Err(""))]
    {
        let mut spec = api(json!({}));
        spec["deployTimeout"] = text.into();
        let intent = compute(&environment("pr-1", json!({})), Some(&template(spec)));
        let found = intent.plan.map(|plan| plan.components[0].planned.ready_within_secs);
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(found), Err(_)) => {
                assert_eq!(found.reason, Reason::InvalidConfiguration);
                assert!(found.message.starts_with("deployTimeout: "), "{}", found.message);
            }
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn scenario_96_the_environments_ttl_wins_zero_never_ends_and_nonsense_is_refused() {
    let at = |secs: u64| Some(Timestamp(CREATED_AT + secs));
    for (own, inherited, expected) in [
        (None, None, Ok((None, None))),
        (None, Some("2h"), Ok((at(7_200), at(6_480)))),
        (Some("30m"), Some("2h"), Ok((at(1_800), at(1_620)))),
        (Some("0"), Some("1ns"), Ok((None, None))),
        (Some("5s"), None, Ok((at(5), at(5)))),
        (Some("soon"), Some("2h"), Err("ttl: \"soon\" is not a Go duration such as 90s, 30m or 1h30m")),
        (Some("-1s"), None, Err("ttl: \"-1s\" is negative")),
        (None, Some("-1s"), Err("ttl: \"-1s\" is negative")),
    ] {
        let mut spec = api(json!({}));
        spec["ttl"] = inherited.unwrap_or_default().into();
        let own = json!({ "ttl": own.unwrap_or_default() });
        let intent = compute(&environment("pr-1", own.clone()), Some(&template(spec)));
        let found = intent.plan.map(|_| (intent.expires_at, intent.expiring_at));
        let expected = expected.map_err(|message| invalid(Reason::InvalidTTL, message.to_owned()));
        assert_eq!(found, expected, "{own} over {inherited:?}");
        if found.is_err() {
            assert_eq!(
                (intent.expires_at, intent.expiring_at),
                (None, None),
                "an invalid time to live ends nothing"
            );
        }
    }
}

#[test]
fn scenario_98_without_its_template_an_environment_keeps_its_own_ttl_and_loses_an_inherited_one() {
    let missing = Invalid {
        reason: Reason::TemplateNotFound,
        message: "EnvironmentTemplate \"web\" does not exist in namespace petri-system".to_owned(),
    };
    let own = compute(&environment("pr-1", json!({"ttl": "1h"})), None);
    assert_eq!((own.plan, own.expires_at), (Err(missing.clone()), Some(Timestamp(CREATED_AT + 3_600))));
    let none = compute(&environment("pr-1", json!({})), None);
    assert_eq!((none.plan, none.expires_at), (Err(missing), None));
    let bad = compute(&environment("pr-1", json!({"ttl": "x"})), None);
    assert_eq!(bad.plan.map_err(|invalid| invalid.reason), Err(Reason::InvalidTTL));
    let broken =
        compute(&environment("pr-1", json!({"ttl": "1h"})), Some(&template(json!({"components": []}))));
    assert_eq!(
        broken.expires_at,
        Some(Timestamp(CREATED_AT + 3_600)),
        "an invalid template delays no expiry"
    );
}

#[test]
fn the_payload_holds_all_that_the_deployer_needs() {
    let spec =
        api(json!({"helm": {"values": {"a": "1"}}, "readiness": {"httpGet": {"path": "/", "port": 80}}}));
    let intent = compute(&environment("pr-1", json!({})), Some(&template(spec)));
    let api = &intent.payloads[&ComponentName::new("api").unwrap()];
    let namespace = NamespaceName::new(NAMESPACE).unwrap();
    let payload = api.payload(&Uid::new("u-1").unwrap(), &namespace, 7);
    assert_eq!(
        serde_json::to_value(&payload).unwrap(),
        json!({"OwnerUID": "u-1", "Namespace": NAMESPACE, "ReleaseName": "pr-1-api", "Serial": 7,
            "Component": {"name": "api", "helm": {"path": "/charts/api"}, "values": {"a": 1}}})
    );
    assert_eq!(Payload::decode(&serde_json::to_string(&payload).unwrap()), Ok(payload));
    assert_eq!(api.http_get.as_ref().map(|probe| probe.port), Some(80));
}

/// The plan's digest and the payload's.
fn digests(template_spec: &Value, environment_spec: &Value) -> (Digest, Digest) {
    let intent =
        compute(&environment("pr-1", environment_spec.clone()), Some(&template(template_spec.clone())));
    let plan = intent.plan.unwrap();
    (plan.digest, plan.components[0].planned.payload.clone())
}

#[test]
fn equal_inputs_give_equal_digests_and_each_thing_that_matters_changes_them() {
    let base = api(json!({"helm": {"valuesObject": {"a": {"b": 1, "c": 2}}}}));
    let (plan, payload) = digests(&base, &json!({}));
    let reordered = api(json!({"helm": {"valuesObject": {"a": {"c": 2, "b": 1}}}}));
    let same = [
        digests(&reordered, &json!({})),
        digests(&api(json!({"helm": {"values": {"a.b": "1", "a.c": "2"}}})), &json!({})),
        digests(&base, &json!({"ttl": "1h", "source": {"sha": "1"}, "values": {"a.b": "1"}})),
    ];
    for found in same {
        assert_eq!(found, (plan.clone(), payload.clone()));
    }
    let changed = |more: Value| {
        let mut spec = base.clone();
        merge_json(&mut spec["components"][0], &more);
        spec
    };
    for spec in [
        changed(json!({"helm": {"path": "/charts/other"}})),
        changed(json!({"helm": {"valuesFile": "v.yaml"}})),
        changed(json!({"helm": {"valuesObject": {"a": {"b": "1"}}}})),
        changed(json!({"env": {"A": "1"}})),
    ] {
        let found = digests(&spec, &json!({}));
        assert!(found.0 != plan && found.1 != payload, "{spec}");
    }
    let probed = changed(json!({"readiness": {"httpGet": {"path": "/", "port": 80}}}));
    let mut slower = base.clone();
    slower["deployTimeout"] = "1m".into();
    for spec in [probed, slower] {
        let found = digests(&spec, &json!({}));
        assert!(found.0 != plan && found.1 == payload, "what no Job sees changes the plan only: {spec}");
    }
}

/// What a template with these secrets is answered, when these Secrets are there.
fn copied(secrets: Value, held: &[Value]) -> Intent {
    let template =
        template(json!({"components": [{"name": "api", "helm": {"path": "/c"}}], "secrets": secrets}));
    let held: Vec<k8s_openapi::api::core::v1::Secret> =
        held.iter().map(|one| serde_json::from_value(one.clone()).unwrap()).collect();
    let named = held.into_iter().map(|one| (one.metadata.name.clone().unwrap(), one)).collect();
    let namespace = NamespaceName::new(NAMESPACE).unwrap();
    intent(&Inputs {
        environment: &environment("pr-7", json!({})),
        template: Some(&template),
        namespace: &namespace,
        secrets: Some(&named),
        slices: &SliceInputs::new(),
        defaults: Defaults { deploy_timeout_secs: 900, pod_failure_secs: 300 },
    })
}

#[test]
fn a_secret_that_is_missing_or_not_shareable_is_named_and_its_content_belongs_to_the_plan() {
    let secret = |shareable: &str, data: &str| {
        json!({"metadata": {"name": "pull", "labels": {"petri.run/shareable": shareable}},
            "data": {"token": data}})
    };
    let named = json!([{"name": "pull", "imagePull": true}]);
    let refused = |held: &[Value]| copied(named.clone(), held).plan.unwrap_err();
    let missing = refused(&[]);
    assert_eq!(missing.reason, Reason::InvalidConfiguration);
    assert!(missing.message.starts_with("secrets[pull]: there is no such Secret"), "{}", missing.message);
    let message = refused(&[secret("false", "YQ==")]).message;
    assert!(message.ends_with("lacks the label petri.run/shareable=true"), "{message}");
    let digest = |data: &str| copied(named.clone(), &[secret("true", data)]).plan.unwrap().digest;
    assert_eq!(digest("YQ=="), digest("YQ=="));
    assert_ne!(digest("YQ=="), digest("Yg=="), "another content is another plan");
    let kinds: Vec<_> = copied(named.clone(), &[secret("true", "YQ==")]).furniture.into_keys().collect();
    assert_eq!(kinds.iter().map(ToString::to_string).collect::<Vec<_>>(), ["Secret/pull", "PullSecret/pull"]);
}

#[test]
fn requests_go_to_the_one_component_that_nothing_depends_on_and_without_one_there_is_no_url() {
    let component =
        |name: &str, needs: &[&str]| json!({"name": name, "helm": {"path": "/c"}, "dependsOn": needs});
    let route = |components: Value, ingress: Value| {
        let template = template(json!({"components": components, "ingress": ingress}));
        let plan = compute(&environment("pr-7", json!({})), Some(&template)).plan.unwrap();
        plan.route.map(|route| format!("{} {}", route.item, route.url))
    };
    let chain = json!([component("db", &[]), component("web", &["db"])]);
    let two = json!([component("api", &[]), component("web", &[])]);
    let expected = |kind: &str| Some(format!("{kind}/petri http://pr-7.example.com"));
    assert_eq!(route(chain.clone(), json!({"domain": "example.com"})), expected("Ingress"));
    let gateway = json!({"domain": "example.com", "gateway": {"name": "public"}});
    assert_eq!(route(chain.clone(), gateway), expected("HTTPRoute"));
    assert_eq!(route(two.clone(), json!({"domain": "example.com"})), None);
    assert_eq!(route(two, json!({"domain": "example.com", "component": "api"})), expected("Ingress"));
    assert_eq!(route(chain, json!({})), None);
}

#[test]
fn scenario_32_a_shared_component_passes_rendering_as_it_is() {
    let template = template(json!({"components": [{"name": "db", "sharedComponentRef": "pg"}]}));
    let intent = compute(&environment("pr-7", json!({})), Some(&template));
    let plan = intent.plan.unwrap();
    assert!(plan.components.is_empty() && intent.payloads.is_empty(), "{plan:?}");
    let slices: Vec<(&str, &str)> =
        plan.slices.iter().map(|(name, slice)| (name.as_str(), slice.shared.as_str())).collect();
    assert_eq!(slices, [("db", "pg")]);
}

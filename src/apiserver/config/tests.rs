use super::*;
use crate::apiserver::policy::Lists;

/// What a working installation on GitHub sets.
const GITHUB: [(&str, &str); 4] = [
    ("OIDC_ISSUER", "https://token.actions.githubusercontent.com"),
    ("OIDC_AUDIENCE", "petri"),
    ("ORGANIZATION_CLAIM", "repository_owner"),
    ("ALLOWED_ORGANIZATIONS", "acme"),
];
const STATIC: [(&str, &str); 3] = [
    ("AUTH_MODE", "static-token"),
    ("STATIC_TOKEN", "0123456789abcdef-hidden"),
    ("STATIC_TOKEN_ALLOWED", "true"),
];

/// Reads `base` with `changes` over it; a change to `-` takes a variable away.
fn read(base: &[(&str, &str)], changes: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut all: BTreeMap<String, Result<String, ()>> = BTreeMap::new();
    for (name, value) in base.iter().chain(changes) {
        if *value == "-" {
            all.remove(*name);
        } else {
            all.insert((*name).to_owned(), Ok((*value).to_owned()));
        }
    }
    Config::read(all, None)
}

fn refused(base: &[(&str, &str)], changes: &[(&str, &str)], variable: &str) {
    let error = read(base, changes).expect_err(variable).to_string();
    let line = error.lines().find(|line| line.starts_with(&format!("{PREFIX}{variable}: ")));
    assert!(line.is_some(), "{changes:?}: {error}");
    for (_, value) in base.iter().chain(changes).filter(|(_, value)| value.trim().len() > 7) {
        assert!(!error.contains(value) || ["oidc", "static-token"].contains(value), "{error} tells {value}");
    }
}

#[test]
fn scenario_186_namespace_and_addresses_have_defaults_and_can_be_set() {
    let config = read(&GITHUB, &[]).unwrap();
    assert_eq!(config.namespace, "petri-system");
    assert_eq!(config.address.to_string(), "0.0.0.0:8080");
    assert_eq!(config.metrics_address.to_string(), "0.0.0.0:9090");
    let changes = [
        ("NAMESPACE", "environments"),
        ("ADDRESS", "[::1]:80"),
        ("METRICS_ADDRESS", "127.0.0.1:0"),
        ("EXTENSION_MAX", "48h"),
        ("SERVICE_HOST", "10.0.0.1"),
        ("PORT", "tcp://10.0.0.1:8080"),
        ("PORT_8080_TCP", "tcp://10.0.0.1:8080"),
    ];
    let config = read(&GITHUB, &changes).unwrap();
    assert_eq!(
        (config.namespace.as_str(), config.address.to_string().as_str()),
        ("environments", "[::1]:80")
    );
    assert_eq!(config.metrics_address.to_string(), "127.0.0.1:0");
    assert_eq!(config.extension_max, Duration::from_secs(48 * 3600));
    let own = GITHUB.map(|(name, value)| (name.to_owned(), Ok(value.to_owned())));
    assert_eq!(Config::read(own.into(), Some("mine")).unwrap().namespace, "mine");
    for (name, value) in [
        ("NAMESPACE", "Petri"),
        ("NAMESPACE", ""),
        ("ADDRESS", "localhost:80"),
        ("ADDRESS", "0.0.0.0"),
        ("METRICS_ADDRESS", "0.0.0.0:8080"),
        ("CONNECTIONS_MAX", "0"),
        ("CONNECTIONS_MAX", "-1"),
        ("EXTENSION_MAX", "1000000h"),
        ("EXTENSION_MAX", "-1h"),
        ("DRAIN", "soon"),
        ("LOG_LEVEL", "a=b=c"),
        ("OTLP_ENDPOINT", "collector:4317"),
        ("TRACE_SAMPLE_PERCENT", "101"),
        ("OIDC_ISUER", "https://typo.example"),
    ] {
        refused(&GITHUB, &[(name, value)], name);
    }
}

#[test]
fn scenario_188_a_static_token_needs_its_mode_its_opt_in_and_a_secret() {
    let config = read(&STATIC, &[]).unwrap();
    assert_eq!(config.policy, Policy::Development);
    assert!(!format!("{config:?}").contains("hidden"), "a secret is not shown");
    refused(&[], &[], "OIDC_ISSUER");
    refused(&STATIC, &[("AUTH_MODE", "none")], "AUTH_MODE");
    refused(&STATIC, &[("AUTH_MODE", "")], "AUTH_MODE");
    refused(&STATIC, &[("STATIC_TOKEN_ALLOWED", "-")], "STATIC_TOKEN_ALLOWED");
    for value in ["false", "yes", "", "TRUE", "1"] {
        refused(&STATIC, &[("STATIC_TOKEN_ALLOWED", value)], "STATIC_TOKEN_ALLOWED");
    }
    refused(&STATIC, &[("STATIC_TOKEN", "-")], "STATIC_TOKEN");
    for value in ["", "                  ", "short", "0123456789 abcdef"] {
        refused(&STATIC, &[("STATIC_TOKEN", value)], "STATIC_TOKEN");
    }
}

#[test]
fn scenario_189_the_two_modes_do_not_mix_and_do_not_fall_back() {
    for (name, value) in GITHUB {
        refused(&STATIC, &[(name, value)], name);
    }
    refused(&STATIC, &[("AUTH_MODE", "-")], "STATIC_TOKEN");
    refused(&GITHUB, &[("STATIC_TOKEN", "0123456789abcdef")], "STATIC_TOKEN");
    refused(&GITHUB, &[("STATIC_TOKEN_ALLOWED", "true")], "STATIC_TOKEN_ALLOWED");
    refused(&GITHUB, &[("STATIC_TOKEN_ALLOWED", "false")], "STATIC_TOKEN_ALLOWED");
}

#[test]
fn scenario_190_an_issuer_is_an_https_url_and_nothing_else() {
    for issuer in [
        "http://issuer.example",
        "https://user:password@issuer.example",
        "https://issuer.example?secret=1",
        "https://issuer.example#fragment",
        "https://",
        "issuer.example",
        "ftp://issuer.example",
        "https://issuer.example/a b",
        " https://issuer.example",
        "",
        "-",
    ] {
        refused(&GITHUB, &[("OIDC_ISSUER", issuer)], "OIDC_ISSUER");
    }
    for issuer in
        ["https://issuer.example:8443", "https://issuer.example/realms/one", "https://issuer.example/"]
    {
        assert!(read(&GITHUB, &[("OIDC_ISSUER", issuer)]).is_ok(), "{issuer}");
    }
    refused(&GITHUB, &[("OIDC_AUDIENCE", "-")], "OIDC_AUDIENCE");
    refused(&GITHUB, &[("OIDC_AUDIENCE", "two words")], "OIDC_AUDIENCE");
    refused(&GITHUB, &[("ORGANIZATION_CLAIM", "repository owner")], "ORGANIZATION_CLAIM");
    refused(&GITHUB, &[("OIDC_CLOCK_SKEW", "61s")], "OIDC_CLOCK_SKEW");
    refused(&GITHUB, &[("ADMIN_CLAIM", "groups")], "ADMIN_CLAIM");
    refused(&GITHUB, &[("ADMIN_CLAIM", "groups"), ("ADMIN_VALUES", "ops,,x")], "ADMIN_VALUES");
}

#[test]
fn scenario_192_a_policy_that_lets_nobody_in_or_cannot_be_read_refuses_the_start() {
    refused(&GITHUB, &[("ALLOWED_ORGANIZATIONS", "-")], "ALLOWED_ORGANIZATIONS");
    for value in ["", "  ", "acme,", "https://acme.example", "*"] {
        refused(&GITHUB, &[("ALLOWED_ORGANIZATIONS", value)], "ALLOWED_ORGANIZATIONS");
    }
    refused(&GITHUB, &[("ORGANIZATION_CLAIM", "-")], "ALLOWED_ORGANIZATIONS");
    for (list, entry) in [
        ("ALLOWED_REPOSITORIES", "acme/app"),
        ("ALLOWED_REPOSITORY_IDS", "7"),
        ("ALLOWED_ORGANIZATION_IDS", "8"),
    ] {
        refused(&GITHUB, &[(list, entry)], list);
        refused(&STATIC, &[(list, "")], list);
    }
    refused(
        &GITHUB,
        &[("REPOSITORY_CLAIM", "repository"), ("ALLOWED_REPOSITORIES", "acme")],
        "ALLOWED_REPOSITORIES",
    );
    let changes = [("REPOSITORY_ID_CLAIM", "repository_id"), ("ALLOWED_REPOSITORY_IDS", "74, 75")];
    let Policy::Lists(Lists { repository_ids, organizations, .. }) = read(&GITHUB, &changes).unwrap().policy
    else {
        panic!("lists")
    };
    assert_eq!((repository_ids.len(), organizations.len()), (2, 1));
}

#[test]
fn every_mistake_is_named_at_once() {
    let error = read(&[("ADDRESS", "x"), ("NOBODY", "y")], &[]).unwrap_err().to_string();
    for variable in ["ADDRESS", "NOBODY", "OIDC_ISSUER", "OIDC_AUDIENCE", "ALLOWED_ORGANIZATIONS"] {
        assert!(error.contains(&format!("{PREFIX}{variable}: ")), "{error}");
    }
    let not_utf8 = [("ADDRESS".to_owned(), Err(()))].into();
    assert!(Config::read(not_utf8, None).unwrap_err().to_string().contains("ADDRESS: must be UTF-8"));
}

/// One of the example configurations, and its policy's answer to the claims of a token.
fn example(name: &str, claims: serde_json::Value) -> (Config, Result<(), crate::apiserver::policy::Refusal>) {
    use crate::apiserver::identity::{Bearer, Principal};
    let path = format!("{}/e2e/examples/apiserver/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let values: serde_json::Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let env = values["apiserver"]["env"].as_object().unwrap();
    let variables = env.iter().map(|(name, value)| (name.clone(), Ok(value.as_str().unwrap().to_owned())));
    let config = Config::read(variables.collect(), None).unwrap();
    let Auth::Oidc(oidc) = &config.auth else { panic!("an issuer") };
    let claims = claims.as_object().unwrap();
    let bearer = Bearer::read(&oidc.issuer, "s", claims, &oidc.claims, oidc.admin.as_ref()).unwrap();
    let answer = config.policy.admit(Some(&Principal::Oidc(Box::new(bearer))));
    (config, answer)
}

#[test]
fn api_04_the_example_configurations_let_in_whom_they_should_and_nobody_else() {
    use serde_json::json;
    for (name, claims, admitted) in [
        // As GitHub writes them, with the subject's old and new form: it is not looked at.
        (
            "github",
            json!({"repository": "github/x", "repository_owner_id": "9919", "repository_id": "1"}),
            true,
        ),
        (
            "github",
            json!({"repository": "octocat/x", "repository_owner_id": "1", "repository_id": "1296269"}),
            true,
        ),
        (
            "github",
            json!({"repository": "github/x", "repository_owner_id": "666", "repository_id": "667"}),
            false,
        ),
        ("github", json!({"repository_owner": "github"}), false),
        ("gitlab", json!({"namespace_path": "acme", "project_path": "acme/app", "project_id": "1"}), true),
        (
            "gitlab",
            json!({"namespace_path": "acme/platform", "project_path": "acme/platform/x", "project_id": "2"}),
            true,
        ),
        (
            "gitlab",
            json!({"namespace_path": "acme/other", "project_path": "acme/other/x", "project_id": "4711"}),
            true,
        ),
        (
            "gitlab",
            json!({"namespace_path": "acme/other", "project_path": "acme/other/x", "project_id": "4712"}),
            false,
        ),
        ("generic", json!({"repo": "acme/platform/tools"}), true),
        ("generic", json!({"repo": "acme/platform", "groups": ["platform-admins"]}), false),
    ] {
        let (_, answer) = example(name, claims.clone());
        assert_eq!(answer.is_ok(), admitted, "{name}: {claims}");
    }
}

use super::*;
use clap::{CommandFactory, Parser};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    settings: Settings,
}

fn load(yaml: &str) -> Result<Config, ConfigError> {
    let file = parse(yaml).map_err(|message| ConfigError::Malformed { path: "f".into(), message })?;
    Config::check(Settings::default().over(file), None)
}

fn check_refused(yaml: &str, expected: &str) {
    let error = load(yaml).expect_err(yaml).to_string();
    assert!(error.contains(expected), "{yaml}: {error}");
}

#[test]
fn an_empty_file_gives_the_documented_defaults() {
    let config = load("# nothing\n\n").unwrap();
    assert_eq!(config.management_namespace, "petri-system");
    assert_eq!(config.shared_namespace, "petri-shared");
    assert_eq!(config.workers, 8);
    assert_eq!(config.job_deadline_secs, 900);
    assert_eq!(config.default_deploy_timeout_secs, 900);
    assert_eq!(config.pod_failure_timeout_secs, 300);
    assert_eq!(config.resync_secs, 600);
    assert!(config.leader_election);
    assert_eq!(config.lease_duration_secs, 15);
    assert_eq!(config.metrics_address.to_string(), "0.0.0.0:9090");
    assert_eq!(config.health_address.to_string(), "0.0.0.0:8081");
    assert_eq!(config.otlp_endpoint, None);
}

#[test]
fn the_own_namespace_is_the_default_and_the_file_and_then_a_flag_win() {
    let named = |name: &str| Settings { management_namespace: Some(name.to_owned()), ..Settings::default() };
    let load =
        |flags: Settings, file| Config::check(flags.over(file), Some("own")).unwrap().management_namespace;
    assert_eq!(load(Settings::default(), Settings::default()), "own");
    assert_eq!(load(Settings::default(), named("file")), "file");
    assert_eq!(load(named("flag"), named("file")), "flag");
}

#[test]
fn what_is_printed_loads_to_the_same() {
    let config = load(
        "managementNamespace: mine\nworkers: 7\nleaderElection: false\ndeployerClusterRoles: [a, 'b:c']\n\
         otlpEndpoint: http://collector:4317\nlogLevel: info,petri=debug\ndeployerImagePullPolicy: Never",
    )
    .unwrap();
    assert_eq!(load(&config.to_string()).unwrap(), config);
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    check_refused("worker: 4", "worker");
    check_refused("leader_election: false", "leader_election");
}

#[test]
fn a_value_of_another_type_is_refused() {
    for yaml in ["workers: many", "leaderElection: 3", "deployerClusterRoles: x", "- workers", "workers: 1.5"]
    {
        assert!(load(yaml).is_err(), "{yaml}");
    }
}

#[test]
fn a_number_out_of_range_is_refused_with_field_value_and_range() {
    check_refused("workers: 0", "workers: \"0\" is not allowed: must be from 1 to 256");
    check_refused("workers: -1", "workers: \"-1\" is not allowed: must be from 1 to 256");
    check_refused("jobDeadlineSecs: 60", "jobDeadlineSecs: \"60\" is not allowed: must be from 120 to 86400");
    check_refused("defaultDeployTimeoutSecs: 0", "defaultDeployTimeoutSecs");
    check_refused("podFailureTimeoutSecs: 86401", "podFailureTimeoutSecs");
    check_refused("resyncSecs: 5000000000", "resyncSecs");
    check_refused("leaseDurationSecs: 2", "leaseDurationSecs");
    check_refused(
        "traceSamplePercent: 101",
        "traceSamplePercent: \"101\" is not allowed: must be from 0 to 100",
    );
    check_refused("leaseRenewSecs: 0", "leaseRenewSecs");
    check_refused("leaseMarginSecs: 101", "leaseMarginSecs");
    assert_eq!(load("podFailureTimeoutSecs: 0").unwrap().pod_failure_timeout_secs, 0);
}

#[test]
fn names_images_addresses_and_levels_are_checked() {
    check_refused("managementNamespace: Upper", "managementNamespace");
    check_refused("managementNamespace: ''", "managementNamespace");
    check_refused("sharedNamespace: a.b", "sharedNamespace");
    check_refused("workloadClusterRole: Not_ok", "workloadClusterRole");
    check_refused("deployerImage: ''", "deployerImage");
    check_refused("deployerImage: 'a b'", "deployerImage");
    check_refused("deployerImagePullPolicy: always", "Always, IfNotPresent or Never");
    check_refused("deployerClusterRoles: [ok, Not_ok]", "Not_ok");
    check_refused("metricsAddress: ':9090'", "metricsAddress");
    check_refused("healthAddress: localhost", "healthAddress");
    check_refused("otlpEndpoint: collector", "otlpEndpoint");
    check_refused("logLevel: loud", "logLevel");
    check_refused("logLevel: petri=loud", "logLevel");
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    check_refused("managementNamespace: petri-shared", "sharedNamespace");
    check_refused("leaseDurationSecs: 7", "greater than leaseRenewSecs + leaseMarginSecs = 7");
    check_refused("metricsAddress: 0.0.0.0:8081", "healthAddress");
}

#[test]
fn all_mistakes_are_named_at_once() {
    let error = load("workers: 0\nresyncSecs: 0\nlogLevel: loud").unwrap_err().to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(Some(Path::new("/nonexistent/f.yaml")), Settings::default(), None).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/f.yaml"), "{error}");
}

#[test]
fn every_setting_has_a_flag_and_an_environment_variable_of_its_name() {
    let camel = |name: &str, separator: char| {
        name.split(separator).enumerate().fold(String::new(), |text, (n, word)| {
            let (first, rest) = word.split_at(usize::from(n > 0));
            text + &first.to_uppercase() + rest
        })
    };
    let command = Cli::command();
    let flags: Vec<String> =
        command.get_arguments().filter_map(|it| it.get_long()).map(|long| camel(long, '-')).collect();
    for argument in command.get_arguments() {
        let variable = argument.get_env().and_then(|it| it.to_str()).unwrap_or_default().to_lowercase();
        let flag = camel(argument.get_long().unwrap_or_default(), '-');
        assert_eq!(camel(variable.trim_start_matches("petri_"), '_'), flag);
    }
    let whole = load("otlpEndpoint: http://collector:4317").unwrap().to_string();
    let mut fields: Vec<&str> = whole.lines().filter_map(|line| Some(line.split_once(':')?.0)).collect();
    fields.sort_unstable();
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.sort_unstable();
    assert_eq!(flags, fields);
}

#[test]
fn a_negative_number_on_the_command_line_is_refused_with_its_range() {
    let cli = Cli::try_parse_from(["x", "--workers", "-3", "--resync-secs", "700"]).unwrap();
    let error = Config::load(None, cli.settings, None).unwrap_err().to_string();
    assert_eq!(error, "workers: \"-3\" is not allowed: must be from 1 to 256");
    let cli =
        Cli::try_parse_from(["x", "--deployer-cluster-roles", "a,b", "--leader-election", "false"]).unwrap();
    let config = Config::load(None, cli.settings, None).unwrap();
    assert_eq!(
        (config.deployer_cluster_roles, config.leader_election),
        (vec!["a".to_owned(), "b".to_owned()], false)
    );
}

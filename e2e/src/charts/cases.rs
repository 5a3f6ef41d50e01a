use super::{documents, rules};

/// Every chart of the repository.
pub(super) const CHARTS: &[&str] =
    &["charts/petri", POSTGRES, REDIS, API, WORKER, WEB, TINY, SHOP, RECORDS, MIGRATE, KEEPER, TEMPLATED];

/// One set of values, and what must come of it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) chart: &'static str,
    /// As for `--set-json`.
    pub(super) values: &'static [&'static str],
    expected: Expected,
}

enum Expected {
    /// Renders objects that keep the rules, with these lines among them.
    Lines(&'static [&'static str]),
    /// Is refused with a message that contains this.
    Refused(&'static str),
}

use Expected::{Lines, Refused};

impl Case {
    /// Whether objects come of it.
    pub(super) fn is_rendered(&self) -> bool {
        matches!(self.expected, Lines(_))
    }

    /// Compares what helm said with what was expected.
    pub(super) fn judge(&self, said: Result<String, String>) -> Result<(), String> {
        match (&self.expected, said) {
            (Lines(lines), Ok(rendered)) => {
                let absent = lines.iter().find(|line| !rendered.lines().any(|have| have.trim() == **line));
                if let Some(line) = absent {
                    return Err(format!("no line {line:?}"));
                }
                rules::check(&documents(&rendered)?)
            }
            (Refused(why), Err(message)) if message.contains(why) => Ok(()),
            (Lines(_), Err(message)) => Err(format!("refused: {message}")),
            (Refused(why), Err(message)) => Err(format!("refused, but not for {why:?}: {message}")),
            (Refused(why), Ok(_)) => Err(format!("rendered, though {why:?} was to be said")),
        }
    }
}

const fn case(
    name: &'static str,
    chart: &'static str,
    values: &'static [&'static str],
    expected: Expected,
) -> Case {
    Case { name, chart, values, expected }
}

const PETRI: &str = "charts/petri";
const POSTGRES: &str = "e2e/charts/postgres";
const REDIS: &str = "e2e/charts/redis";
const API: &str = "e2e/charts/api";
const WORKER: &str = "e2e/charts/worker";
const WEB: &str = "e2e/charts/web";
const TINY: &str = "e2e/charts/tiny";
const SHOP: &str = "e2e/charts/shop";
const RECORDS: &str = "e2e/charts/records";
const MIGRATE: &str = "e2e/charts/migrate";
const KEEPER: &str = "e2e/charts/keeper";
const TEMPLATED: &str = "e2e/charts/templated";

pub(super) const CASES: &[Case] = &[
    case(
        "the defaults render",
        PETRI,
        &[],
        Lines(&[
            "managementNamespace: petri-system",
            "sharedNamespace: petri-shared",
            r#"resourceNames: ["admin","petri-operator-workload"]"#,
            "imagePullPolicy: IfNotPresent",
        ]),
    ),
    case(
        "images and the shared namespace can be chosen",
        PETRI,
        &[
            r#"image.repository="example.com:5000/petri/operator""#,
            r#"image.tag="dev""#,
            r#"deployer.image.tag="dev""#,
            r#"sharedNamespace={"name":"shared","create":false}"#,
        ],
        Lines(&[
            r#"image: "example.com:5000/petri/operator:dev""#,
            r#"deployerImage: "docker.io/petri/deployer:dev""#,
            "sharedNamespace: shared",
        ]),
    ),
    case(
        "a second installation has cluster-wide names of its own",
        PETRI,
        &[r#"nameSuffix="two""#, r#"sharedNamespace.name="two-shared""#],
        Lines(&[
            "name: petri-operator-two",
            "name: petri-operator-rolebindings-two",
            "name: petri-view-two",
            "workloadClusterRole: petri-operator-workload-two",
            "object.roleRef.name == 'petri-operator-workload-two' &&",
            r#"resourceNames: ["admin","petri-operator-workload-two"]"#,
        ]),
    ),
    case("a suffix is part of a name", PETRI, &[r#"nameSuffix="-Two""#], Refused("nameSuffix")),
    case(
        "the deployer never gets a role of the operator's",
        PETRI,
        &[r#"deployer.clusterRoles=["petri-operator-workload-two"]"#],
        Refused("clusterRoles"),
    ),
    case(
        "extra roles of the deployer are bindable, configured and admitted",
        PETRI,
        &[r#"deployer.clusterRoles=["extra","x:extra"]"#],
        Lines(&[
            r#"resourceNames: ["admin","petri-operator-workload","extra","x:extra"]"#,
            r#"deployerClusterRoles: ["extra","x:extra"]"#,
            r#"object.roleRef.name in ["extra","x:extra"]) &&"#,
        ]),
    ),
    case(
        "pods can be placed and labelled",
        PETRI,
        &[
            r#"nodeSelector={"kubernetes.io/os":"linux"}"#,
            r#"tolerations=[{"operator":"Exists"}]"#,
            r#"affinity={"nodeAffinity":{}}"#,
            r#"podLabels={"team":"a"}"#,
            r#"podAnnotations={"b":"c"}"#,
            r#"imagePullSecrets=["pull"]"#,
            r#"priorityClassName="high""#,
            r#"config.otlpEndpoint="http://collector:4317""#,
        ],
        Lines(&[
            "kubernetes.io/os: linux",
            "- operator: Exists",
            "team: a",
            "b: c",
            "- name: pull",
            r#"otlpEndpoint: "http://collector:4317""#,
        ]),
    ),
    case(
        "a leader renews and stops within its lease",
        PETRI,
        &["config.leaseDurationSecs=5"],
        Lines(&["leaseDurationSecs: 5", "leaseRenewSecs: 1", "leaseMarginSecs: 1"]),
    ),
    case(
        "two replicas are spread and not drained at once",
        PETRI,
        &[
            "replicas=2",
            r#"topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"zone","whenUnsatisfiable":"ScheduleAnyway"}]"#,
        ],
        Lines(&["kind: PodDisruptionBudget", "maxUnavailable: 1", "topologyKey: zone"]),
    ),
    case(
        "nothing but scrapes and probes comes in",
        PETRI,
        &["networkPolicy=true"],
        Lines(&["kind: NetworkPolicy"]),
    ),
    case(
        "monitor, rules and dashboard are offered when asked for",
        PETRI,
        &[
            "monitoring.serviceMonitor=true",
            "monitoring.rules=true",
            "monitoring.dashboard=true",
            r#"monitoring.labels={"release":"prometheus"}"#,
        ],
        Lines(&[
            "kind: ServiceMonitor",
            "kind: PrometheusRule",
            "- alert: PetriOperatorDown",
            r#"grafana_dashboard: "1""#,
            "release: prometheus",
        ]),
    ),
    case(
        "an uninstall asks before it removes anything",
        PETRI,
        &[r#"uninstall="drain""#],
        Lines(&[
            "helm.sh/hook: pre-delete",
            r#"args: ["--config","/etc/petri/config.yaml","--uninstall","drain"]"#,
        ]),
    ),
    case("an uninstall is never half-hearted", PETRI, &[r#"uninstall="maybe""#], Refused("uninstall")),
    case(
        "traces are sampled by a share",
        PETRI,
        &["config.traceSamplePercent=101"],
        Refused("traceSamplePercent"),
    ),
    case(
        "the API server comes with its issuer and its rights",
        PETRI,
        &[
            r#"apiserver.enabled=true"#,
            r#"apiserver.image.tag="dev""#,
            r#"apiserver.caConfigMap="issuer""#,
            r#"apiserver.env={"OIDC_ISSUER":"https://issuer.example","ALLOWED_REPOSITORY_IDS":"74"}"#,
            "apiserver.replicas=2",
            r#"config.otlpEndpoint="http://collector:4317""#,
        ],
        Lines(&[
            "name: petri-apiserver-metrics",
            "- name: PETRI_APISERVER_OTLP_ENDPOINT",
            "- name: PETRI_APISERVER_TRACE_SAMPLE_PERCENT",
            r#"image: "docker.io/petri/apiserver:dev""#,
            "serviceAccountName: petri-apiserver",
            "- name: PETRI_APISERVER_OIDC_ISSUER",
            r#"value: "https://issuer.example""#,
            r#"value: "74""#,
            "verbs: [get, list, watch, create, update, delete]",
            "configMap: {name: issuer}",
        ]),
    ),
    case(
        "an API server that knows no issuer is refused",
        PETRI,
        &["apiserver.enabled=true"],
        Refused("apiserver.enabled needs apiserver.env"),
    ),
    case(
        "the API server's namespace is the release's",
        PETRI,
        &["apiserver.enabled=true", r#"apiserver.env={"NAMESPACE":"other"}"#],
        Refused("NAMESPACE"),
    ),
    case("an unknown value is refused", PETRI, &["workers=3"], Refused("workers")),
    case("a negative number is refused", PETRI, &["config.workers=-1"], Refused("workers")),
    case(
        "a wrong pull policy is refused",
        PETRI,
        &[r#"image.pullPolicy="Sometimes""#],
        Refused("pullPolicy"),
    ),
    case(
        "the deployer never gets cluster-admin",
        PETRI,
        &[r#"deployer.clusterRoles=["cluster-admin"]"#],
        Refused("clusterRoles"),
    ),
    case(
        "the shared namespace is not the management namespace",
        PETRI,
        &[r#"sharedNamespace.name="petri-system""#],
        Refused("must not be the management namespace"),
    ),
    case(
        "two replicas elect a leader",
        PETRI,
        &["replicas=2", "config.leaderElection=false"],
        Refused("replicas > 1 needs config.leaderElection"),
    ),
    case(
        "a database is named, marked and protected",
        POSTGRES,
        &[r#"database="demo_alpha""#, r#"marker="database of alpha""#, r#"password="it's, {a} \\ \"word\"""#],
        Lines(&[
            r#"- {name: DB_NAME, value: "demo_alpha"}"#,
            r#"- {name: DB_MARKER, value: "database of alpha"}"#,
            "password: aXQncywge2F9IFwgIndvcmQi",
        ]),
    ),
    case("a marker is no SQL", POSTGRES, &[r#"marker="x'); DROP TABLE instance --""#], Refused("marker")),
    case("a database name is an identifier", POSTGRES, &[r#"database="a\"b""#], Refused("database")),
    case(
        "a Redis is protected by its password",
        REDIS,
        &[r#"password="word""#],
        Lines(&["password: d29yZA==", "valueFrom: {secretKeyRef: {name: some-name, key: password}}"]),
    ),
    case("a Redis without a password is none", REDIS, &[], Refused("password is needed")),
    case(
        "the api finds its database",
        API,
        &[r#"database={"host":"a-postgres","secretName":"a-postgres"}"#, "replicas=2"],
        Lines(&[
            "replicas: 2",
            r#"- {name: PGHOST, value: "a-postgres"}"#,
            r#"- {name: PGPORT, value: "5432"}"#,
            "valueFrom: {secretKeyRef: {name: a-postgres, key: password}}",
        ]),
    ),
    case(
        "environment variables of a component reach the pod",
        API,
        &[
            r#"extraEnvVars=[{"name":"A","value":"b"},{"name":"C","valueFrom":{"secretKeyRef":{"name":"d","key":"e"}}}]"#,
            r#"extraEnvVarsSecret="d""#,
        ],
        Lines(&["- name: A", "value: b", "- secretRef: {name: d}"]),
    ),
    case(
        "the worker's period is a number",
        WORKER,
        &["periodMillis=1500000"],
        Lines(&[r#"- {name: PERIOD_MILLIS, value: "1500000"}"#]),
    ),
    case(
        "a greeting is data",
        WEB,
        &[r#"greeting="Hello, \"alpha\" {1,2}: \\ 'x'""#, r#"apiUrl="http://a-api/""#],
        Lines(&[
            r#"- {name: GREETING, value: "Hello, \"alpha\" {1,2}: \\ 'x'"}"#,
            r#"- {name: API_URL, value: "http://a-api/"}"#,
        ]),
    ),
    case("a release of measurements has one pod", TINY, &[], Lines(&["kind: Deployment", "kind: ConfigMap"])),
    case(
        "an umbrella has the parts that its conditions say",
        SHOP,
        &["finder={\"enabled\":true}", "cache={\"enabled\":false}"],
        Lines(&["name: some-name-finder", "banner: \"blue serves some-name\"", "cache: \"none\""]),
    ),
    case(
        "a chart may have a kind of its own",
        RECORDS,
        &[],
        Lines(&["kind: Record", "name: some-name-second"]),
    ),
    case(
        "every hook is a Job with a script of its own",
        MIGRATE,
        &[r#"script="exit 1""#, r#"nodeSelectors={"pre-delete":{"a":"b"}}"#],
        Lines(&["helm.sh/hook: post-delete", r#"command: [/bin/busybox, sh, -c, "exit 1"]"#, "a: b"]),
    ),
    case("a value that has to be set is asked for", KEEPER, &[], Refused("database has to be set")),
    case(
        "a value outside of the schema is refused",
        KEEPER,
        &["length=2"],
        Refused("minimum: got 2, want 16"),
    ),
    case(
        "a chart renders the templates in its values",
        TEMPLATED,
        &[r#"nameOverride="n""#],
        Lines(&[
            "name: n-extra",
            "greeting: \"hello some-name\"",
            "upstream: some-name",
            "kind: HorizontalPodAutoscaler",
        ]),
    ),
];

//! The deployer Job.

use super::{
    Attempt, Made, RenderContext, RenderError, Resource,
    payload::{self, SPEC_KEY},
};
use crate::adapter::RenderedComponent;
use k8s_openapi::{
    api::{
        batch::v1::{Job, JobSpec},
        core::v1::{
            Capabilities, Container, EmptyDirVolumeSource, EnvVar, KeyToPath, PodSecurityContext, PodSpec,
            PodTemplateSpec, ProjectedVolumeSource, ResourceRequirements, SeccompProfile, SecretProjection,
            SecurityContext, Volume, VolumeMount, VolumeProjection,
        },
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};
use petri_crds::meta::{ANNOTATION_TRACEPARENT, DEPLOYER_SERVICE_ACCOUNT};
use std::collections::BTreeMap;

/// The container whose end is the Job's outcome.
pub const CONTAINER: &str = "deployer";
const PROGRAM: &str = "/usr/local/bin/petri-deployer";
/// Where the payload is mounted, and below it the credentials.
const INPUT_DIR: &str = "/etc/petri";
const CREDENTIALS: &str = "credentials";
/// All keys that a credentials Secret may have; a projection must name them.
const CREDENTIAL_KEYS: [&str; 7] =
    ["username", "password", "token", "ssh-privatekey", "known_hosts", "ca.crt", ".dockerconfigjson"];
const SCRATCH_DIR: &str = "/tmp";
/// Nobody in particular; the image has no such user and needs none.
const NON_ROOT: i64 = 65532;
/// The deployer ends itself this much earlier than Kubernetes would, and says why: what Kubernetes ends, it removes.
const FAREWELL_SECS: u64 = 60;
/// So that a deadline below the farewell still leaves the deployer a moment.
const DEADLINE_MIN_SECS: u64 = 10;

/// The Job of one attempt.
pub(super) fn job(
    attempt: &Attempt<'_>,
    input: Option<&RenderedComponent>,
    cx: &RenderContext<'_>,
) -> Result<Made, RenderError> {
    let mut metadata = payload::metadata(attempt, cx);
    if let Some(parent) = cx.traceparent {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION_TRACEPARENT.to_owned(), parent.to_owned());
    }
    let template =
        PodTemplateSpec { metadata: Some(pod_metadata(&metadata)), spec: Some(pod(attempt, input, cx)?) };
    let spec = JobSpec {
        backoff_limit: Some(0),
        active_deadline_seconds: Some(i64::try_from(cx.settings.job_deadline_secs).unwrap_or(i64::MAX)),
        template,
        ..JobSpec::default()
    };
    Made::new(Resource::Job, &Job { metadata, spec: Some(spec), ..Job::default() })
}

/// A sidecar would outlive the deployer, and the Job would never end.
pub(super) fn pod_metadata(job: &ObjectMeta) -> ObjectMeta {
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut labels = job.labels.clone().unwrap_or_default();
    labels.extend([("sidecar.istio.io/inject", "false")].map(owned));
    let mut annotations = job.annotations.clone().unwrap_or_default();
    annotations.extend([("sidecar.istio.io/inject", "false"), ("linkerd.io/inject", "disabled")].map(owned));
    ObjectMeta { labels: Some(labels), annotations: Some(annotations), ..ObjectMeta::default() }
}

fn pod(
    attempt: &Attempt<'_>,
    input: Option<&RenderedComponent>,
    cx: &RenderContext<'_>,
) -> Result<PodSpec, RenderError> {
    let scratch = Volume {
        name: "tmp".to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    };
    let input = input.map(|input| input_volume(attempt, input, cx));
    Ok(PodSpec {
        restart_policy: Some("Never".to_owned()),
        service_account_name: Some(DEPLOYER_SERVICE_ACCOUNT.to_owned()),
        enable_service_links: Some(false),
        security_context: Some(pod_security()),
        containers: vec![container(attempt, input.is_some(), cx)?],
        volumes: Some(input.into_iter().chain([scratch]).collect()),
        ..PodSpec::default()
    })
}

/// Nobody in particular, and nothing that the strictest of the pod security standards refuses.
pub(super) fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(NON_ROOT),
        run_as_group: Some(NON_ROOT),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    }
}

/// Payload and credentials in one volume: a mount point inside a mounted Secret could not be made.
fn input_volume(attempt: &Attempt<'_>, input: &RenderedComponent, cx: &RenderContext<'_>) -> Volume {
    let item = |key: &str, path: String| KeyToPath { key: key.to_owned(), path, mode: None };
    let source = |secret: SecretProjection| VolumeProjection { secret: Some(secret), ..Default::default() };
    let mut sources = vec![source(SecretProjection {
        name: attempt.name(cx).to_string(),
        items: Some(vec![item(SPEC_KEY, SPEC_KEY.to_owned())]),
        optional: None,
    })];
    if let Some(credentials) = &input.helm.credentials_secret_ref {
        let items = CREDENTIAL_KEYS.map(|key| item(key, format!("{CREDENTIALS}/{key}")));
        sources.push(source(SecretProjection {
            name: credentials.name.clone(),
            items: Some(items.to_vec()),
            optional: Some(true),
        }));
    }
    let projected = ProjectedVolumeSource { sources: Some(sources), default_mode: None };
    Volume { name: "input".to_owned(), projected: Some(projected), ..Volume::default() }
}

fn container(
    attempt: &Attempt<'_>,
    has_input: bool,
    cx: &RenderContext<'_>,
) -> Result<Container, RenderError> {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    };
    let input = has_input.then(|| mount("input", INPUT_DIR, true));
    Ok(Container {
        name: CONTAINER.to_owned(),
        image: Some(cx.settings.deployer_image.clone()),
        image_pull_policy: Some(cx.settings.deployer_pull_policy.clone()),
        command: Some(vec![PROGRAM.to_owned()]),
        env: Some(environment(attempt, has_input, cx)?),
        resources: Some(resources()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(input.into_iter().chain([mount("tmp", SCRATCH_DIR, false)]).collect()),
        ..Container::default()
    })
}

fn environment(
    attempt: &Attempt<'_>,
    has_input: bool,
    cx: &RenderContext<'_>,
) -> Result<Vec<EnvVar>, RenderError> {
    let deadline = cx.settings.job_deadline_secs.saturating_sub(FAREWELL_SECS).max(DEADLINE_MIN_SECS);
    let spec = match has_input {
        true => ("PETRI_SPEC_FILE", format!("{INPUT_DIR}/{SPEC_KEY}")),
        false => ("PETRI_SPEC", payload::undeploy(attempt, cx)?),
    };
    let mut variables = vec![
        ("PETRI_OP", attempt.op.as_str().to_owned()),
        spec,
        ("PETRI_DEADLINE_SECS", deadline.to_string()),
        ("PETRI_JOB_NAME", attempt.name(cx).to_string()),
        ("HOME", SCRATCH_DIR.to_owned()),
    ];
    variables.extend(cx.traceparent.map(|parent| ("TRACEPARENT", parent.to_owned())));
    variables.extend(cx.settings.otlp_endpoint.clone().map(|to| ("OTEL_EXPORTER_OTLP_ENDPOINT", to)));
    let variable = |(name, value): (&str, String)| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    };
    Ok(variables.into_iter().map(variable).collect())
}

/// Helm takes some 75 MB and a quarter of a second of CPU; half a core makes each Job a quarter of a second slower.
/// Both are limited, because a quota on limits refuses pods that have none.
pub(super) fn resources() -> ResourceRequirements {
    let amounts = |cpu: &str, memory: &str| {
        BTreeMap::from(
            [("cpu", cpu), ("memory", memory)].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))),
        )
    };
    ResourceRequirements {
        requests: Some(amounts("50m", "96Mi")),
        limits: Some(amounts("1", "512Mi")),
        ..ResourceRequirements::default()
    }
}

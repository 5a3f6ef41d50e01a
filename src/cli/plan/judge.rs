//! What the API server and the operator make of manifests.

use super::{
    manifest::{Manifest, Place, Source},
    report::{Component, Environment, Fault, Job, Report},
};
use crate::{
    adapter::{
        Defaults, Explained, Inputs, Intent, check, explain, intent, provider_status,
        shared::{SharedInputs, plan},
        sharing::{self, Keys, SliceInput, SliceInputs},
        template_status,
    },
    config::Config,
    reconcile::settings,
    render::{Extras, Own, RenderContext, Write, effects},
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Resource, core::DynamicObject};
use petri_crds::{
    EnvironmentTemplate, EphemeralEnvironment, GROUP, SharedComponent, SharedComponentProvider, VERSION,
    crds, openapi,
};
use petri_machines::{
    environment::{Command, Identity, Invalid, NamespaceRef, Plan, Reason},
    kernel::Timestamp,
    names::{EnvironmentName, NameError, NamespaceName, Uid},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{collections::BTreeMap, sync::LazyLock};

/// Stands for the UID that the API server will give: names with a hash depend on it.
pub(super) const NO_UID: &str = "00000000-0000-0000-0000-000000000000";
/// What the API server calls an object that it does not take.
const REFUSED: &str = "Invalid";

/// The schema of each kind, made once: that takes longer than all checks together.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let schema = |crd: &CustomResourceDefinition| {
        let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
        Some((crd.spec.names.kind.clone(), serde_json::to_value(schema).ok()?))
    };
    crds().iter().filter_map(schema).collect()
});

/// An object with the document that it was read from.
struct Read<T> {
    manifest: Manifest,
    object: T,
}

/// Objects of one kind by namespace and name; one that comes again replaces the first, as when both are applied.
type All<T> = BTreeMap<(String, String), Read<T>>;

/// Collects manifests, then judges them together.
pub(super) struct Judge<'a> {
    config: &'a Config,
    namespace: &'a str,
    environments: All<EphemeralEnvironment>,
    templates: All<EnvironmentTemplate>,
    shared: All<SharedComponent>,
    providers: All<SharedComponentProvider>,
    /// What the API server would not take: nothing is said of what refers to it.
    refused: Vec<(String, String)>,
    others: Vec<String>,
    errors: Vec<Fault>,
}

/// All that is known in the end.
pub(super) struct Judged {
    pub(super) report: Report,
    pub(super) details: Vec<Detail>,
    /// One sentence for each template, shared component and provider.
    pub(super) accepted: Vec<String>,
    /// Documents of other kinds.
    pub(super) others: Vec<String>,
}

/// What people are shown of an environment besides the report.
pub(super) struct Detail {
    pub(super) template: String,
    pub(super) uid: Option<String>,
    pub(super) namespace: String,
    pub(super) plan: Plan,
    pub(super) explained: BTreeMap<String, Explained>,
    /// Account, role.
    pub(super) rights: Vec<(String, String)>,
    /// Each shared component with what is not known of it.
    pub(super) shared: Vec<(String, String)>,
    pub(super) secrets: Vec<String>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(config: &'a Config, namespace: &'a str) -> Self {
        Self {
            config,
            namespace,
            environments: All::new(),
            templates: All::new(),
            shared: All::new(),
            providers: All::new(),
            refused: Vec::new(),
            others: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Reads the documents of a file and says what the API server would refuse.
    pub(super) fn take(&mut self, source: &Source) {
        match source.manifests() {
            Err((line, message)) => {
                let place = Place { file: source.file.clone(), line, path: String::new() };
                self.errors.push(Fault::new(place, "InvalidYAML", message));
            }
            Ok(manifests) => manifests.into_iter().for_each(|manifest| self.document(manifest)),
        }
    }

    fn document(&mut self, mut manifest: Manifest) {
        let kind = manifest.text("/kind").to_owned();
        let name = manifest.text("/metadata/name").to_owned();
        let group = manifest.text("/apiVersion").to_owned();
        if group.split('/').next() != Some(GROUP) {
            self.others.push(format!("{kind} {name}"));
            return;
        }
        let unserved = || format!("no matches for kind {kind:?} in version {group:?}");
        let Some(schema) = SCHEMAS.get(&kind) else {
            self.errors.push(Fault::new(manifest.locate("", "kind"), REFUSED, unserved()));
            return;
        };
        let mut said = openapi::violations(schema, &manifest.object);
        let rules = kube_cel::Validator::new().validate(schema, &manifest.object, None);
        said.extend(rules.err().iter().flat_map(|errors| errors.iter()).map(ToString::to_string));
        if name.is_empty() {
            said.push("metadata.name: Required value: name or generateName is required".to_owned());
        }
        if group != format!("{GROUP}/{VERSION}") {
            said.push(format!("apiVersion: {}", unserved()));
        }
        if !said.is_empty() {
            self.refused.push((kind, name));
            let fault = |message: String| {
                let field = message.strip_prefix("unknown field ").unwrap_or(&message);
                Fault::new(manifest.locate("", field), REFUSED, message)
            };
            self.errors.extend(said.into_iter().map(fault));
            return;
        }
        if manifest.text("/metadata/namespace").is_empty()
            && let Some(metadata) = manifest.object.pointer_mut("/metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace".to_owned(), self.namespace.into());
        }
        let errors = &mut self.errors;
        match kind.as_str() {
            "EphemeralEnvironment" => keep(&mut self.environments, manifest, errors),
            "EnvironmentTemplate" => keep(&mut self.templates, manifest, errors),
            "SharedComponent" => keep(&mut self.shared, manifest, errors),
            _ => keep(&mut self.providers, manifest, errors),
        }
    }

    /// Says what the operator would do or say.
    pub(super) fn judge(mut self) -> Judged {
        let mut accepted = Vec::new();
        let mut errors = Vec::new();
        for Read { manifest, object } in self.providers.values() {
            match provider_status::judge(object) {
                Ok(told) => accepted.push(format!("SharedComponentProvider {}: {told}", name(object))),
                Err(invalid) => errors.push(Fault::of(manifest.locate("spec", &invalid.message), invalid)),
            }
        }
        for Read { manifest, object } in self.templates.values() {
            match template_status::judge(object) {
                Ok(plan) => accepted.push(format!(
                    "EnvironmentTemplate {}: {}",
                    name(object),
                    template_status::summary(object, &plan)
                )),
                Err(invalid) => errors.push(Fault::of(of_template(manifest, &invalid), invalid)),
            }
        }
        for (key, read) in &self.shared {
            match self.shared_component(key, read) {
                Ok(told) => accepted.push(told),
                Err(fault) => errors.extend(fault),
            }
        }
        let mut report = Report::default();
        let mut details = Vec::new();
        for (key, read) in &self.environments {
            match self.environment(key, read) {
                Ok((environment, detail)) => {
                    report.environments.push(environment);
                    details.push(detail);
                }
                Err(fault) => errors.extend(fault),
            }
        }
        self.errors.extend(errors);
        // What a template is refused for, its environments are refused for too.
        for fault in self.errors {
            if !report.errors.contains(&fault) {
                report.errors.push(fault);
            }
        }
        Judged { report, details, accepted, others: self.others }
    }

    fn was_refused(&self, kind: &str, name: &str) -> bool {
        self.refused.iter().any(|refused| refused.0 == kind && refused.1 == name)
    }

    fn defaults(&self) -> Defaults {
        Defaults {
            deploy_timeout_secs: self.config.default_deploy_timeout_secs,
            pod_failure_secs: self.config.pod_failure_timeout_secs,
        }
    }

    fn shared_component(
        &self,
        key: &(String, String),
        read: &Read<SharedComponent>,
    ) -> Result<String, Option<Fault>> {
        let Read { manifest, object } = read;
        let wanted = &object.spec.provider;
        if self.was_refused("SharedComponentProvider", wanted) {
            return Err(None);
        }
        let provider = self.providers.get(&(key.0.clone(), wanted.clone()));
        let fault = |invalid: Invalid| {
            let of_provider = format!("SharedComponentProvider {wanted}: ");
            let place = match (invalid.message.strip_prefix(&of_provider), provider) {
                (Some(message), Some(provider)) => provider.manifest.locate("spec", message),
                _ if invalid.message.starts_with("SharedComponentProvider ") => {
                    manifest.locate("spec", "provider")
                }
                _ => manifest.locate("spec", &invalid.message),
            };
            Some(Fault::of(place, invalid))
        };
        let namespace =
            NamespaceName::new(&self.config.shared_namespace).map_err(|error| fault(misnamed(&error)))?;
        let secret = provider.and_then(|provider| provider.object.spec.instance_secret.as_ref());
        let inputs = SharedInputs {
            shared: object,
            provider: provider.map(|provider| &provider.object),
            instance: None,
            secret: secret.map(|secret| secret.name.as_str()).unwrap_or_default(),
            namespace: &namespace,
            defaults: self.defaults(),
        };
        plan(&inputs).map_err(fault)?;
        let release = sharing::release(&key.1)
            .map_err(|message| fault(Invalid { reason: Reason::InvalidConfiguration, message }))?;
        Ok(format!("SharedComponent {}: release {release} in namespace {namespace}", key.1))
    }

    fn slices(
        &self,
        namespace: &str,
        template: &EnvironmentTemplate,
    ) -> (SliceInputs, Vec<(String, String)>) {
        let mut inputs = SliceInputs::new();
        let mut told = Vec::new();
        for component in &template.spec.components {
            let Some(shared) = component.shared() else { continue };
            let find = |name: &str| (namespace.to_owned(), name.to_owned());
            let object = self.shared.get(&find(shared));
            let provider = object.and_then(|read| self.providers.get(&find(&read.object.spec.provider)));
            let usable = provider.map(|read| &read.object.spec).filter(|spec| sharing::check(spec).is_ok());
            let input = SliceInput {
                payload: usable.map(sharing::digest),
                provisions: usable.is_some_and(|spec| spec.provision.is_some()),
                keys: usable.map(Keys::declared).unwrap_or_default(),
            };
            let what = match (object, usable) {
                (None, _) => format!("SharedComponent {shared} is not among the manifests"),
                (Some(read), None) => format!(
                    "provider {} is not among the manifests, or not usable",
                    read.object.spec.provider
                ),
                (Some(_), Some(spec)) => format!(
                    "a place at {shared}{}",
                    if spec.provision.is_some() { ", provisioned by a Job" } else { "" }
                ),
            };
            told.push((component.name.clone(), what));
            inputs.insert(component.name.clone(), input);
        }
        (inputs, told)
    }

    fn environment(
        &self,
        key: &(String, String),
        read: &Read<EphemeralEnvironment>,
    ) -> Result<(Environment, Detail), Option<Fault>> {
        let Read { manifest, object } = read;
        let wanted = &object.spec.template;
        if self.was_refused("EnvironmentTemplate", wanted) {
            return Err(None);
        }
        let template = self.templates.get(&(key.0.clone(), wanted.clone()));
        let fault = |invalid: Invalid| Some(Fault::of(of_environment(read, template, &invalid), invalid));
        check::template_name(wanted)
            .map_err(|message| fault(Invalid { reason: Reason::InvalidConfiguration, message }))?;
        let uid = Uid::new(object.metadata.uid.as_deref().unwrap_or(NO_UID))
            .map_err(|error| fault(misnamed(&error)))?;
        let namespace = NamespaceName::candidates(&uid).into_iter().next().ok_or(None)?;
        let none = EnvironmentTemplate::default();
        let (slices, shared) = self.slices(&key.0, template.map_or(&none, |read| &read.object));
        let inputs = Inputs {
            environment: object,
            template: template.map(|read| &read.object),
            namespace: &namespace,
            secrets: None,
            slices: &slices,
            defaults: self.defaults(),
        };
        let intent = intent(&inputs);
        let plan = intent.plan.clone().map_err(fault)?;
        let explained = explain(&inputs).map_err(fault)?;
        let name = EnvironmentName::new(&key.1).map_err(|error| fault(misnamed(&error)))?;
        let identity = Identity { uid, name, generation: object.metadata.generation.unwrap_or(1) };
        let made = Made { config: self.config, identity: &identity, namespace: &namespace, intent: &intent };
        let unrendered = |message: String| {
            Some(Fault::new(manifest.top(), Reason::InvalidConfiguration.as_str(), message))
        };
        let components = components(&plan, &explained, &made).map_err(unrendered)?;
        let template = template.map(|read| &read.object).unwrap_or(&none);
        let detail = Detail {
            template: wanted.clone(),
            uid: object.metadata.uid.clone(),
            namespace: namespace.to_string(),
            rights: made.rights().map_err(unrendered)?,
            explained,
            shared,
            secrets: template.spec.secrets.iter().map(|secret| secret.name.clone()).collect(),
            plan: plan.clone(),
        };
        Ok((Environment { name: key.1.clone(), levels: levels(&plan), components }, detail))
    }
}

/// What the commands of an environment's first rollout are rendered from.
struct Made<'a> {
    config: &'a Config,
    identity: &'a Identity,
    namespace: &'a NamespaceName,
    intent: &'a Intent,
}

impl Made<'_> {
    /// Renders what a command creates, as the operator does.
    fn objects(&self, command: impl FnOnce(NamespaceRef) -> Command) -> Result<Vec<DynamicObject>, String> {
        let uid = Uid::new(NO_UID).map_err(|error| error.to_string())?;
        let command = command(NamespaceRef { name: self.namespace.clone(), uid });
        let own = Own { namespace: String::new(), resource_version: String::new(), finalizers: Vec::new() };
        let cx = RenderContext {
            identity: self.identity,
            own: &own,
            settings: &settings(self.config),
            inputs: &self.intent.payloads,
            namespace_extras: &Extras::default(),
            furniture: &self.intent.furniture,
            backend: None,
            traceparent: None,
            sharing: &BTreeMap::new(),
            place: Some(self.namespace),
            now: Timestamp(0),
            shared: None,
        };
        let made = effects(&command, &cx).map_err(|error| error.to_string())?;
        let created = made.into_iter().filter_map(|effect| match effect.write {
            Write::Create { object, .. } => Some(*object),
            _ => None,
        });
        Ok(created.collect())
    }

    /// Who may do what in the namespace: ServiceAccount and ClusterRole of each RoleBinding.
    fn rights(&self) -> Result<Vec<(String, String)>, String> {
        let bindings =
            self.objects(Command::BindOperator)?.into_iter().chain(self.objects(Command::BindDeployer)?);
        let text = |object: &DynamicObject, pointer: &str| {
            object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let right = |object: DynamicObject| {
            let account = text(&object, "/subjects/0/namespace") + "/" + &text(&object, "/subjects/0/name");
            (account, text(&object, "/roleRef/name"))
        };
        Ok(bindings.map(right).collect())
    }
}

fn components(
    plan: &Plan,
    explained: &BTreeMap<String, Explained>,
    made: &Made<'_>,
) -> Result<Vec<Component>, String> {
    let one = |planned: &petri_machines::environment::PlannedComponent| {
        let component = planned.name.clone();
        let job = made.objects(|namespace| Command::CreateJob { namespace, component, serial: 1 })?;
        let job = job.into_iter().next().and_then(|job| job.metadata.name).unwrap_or_default();
        let rendered = made.intent.payloads.get(&planned.name);
        let env = explained.get(planned.name.as_str()).map(|one| one.env.clone()).unwrap_or_default();
        Ok(Component {
            name: planned.name.to_string(),
            release: rendered.map(|rendered| rendered.release.to_string()).unwrap_or_default(),
            values: rendered.map(|rendered| rendered.values.clone()).unwrap_or_default(),
            env: env.into_iter().map(|(entry, _)| entry).collect(),
            job: Job { name: job, digest: planned.planned.payload.as_str().to_owned() },
        })
    };
    plan.components.iter().map(one).collect()
}

fn levels(plan: &Plan) -> Vec<Vec<String>> {
    let slices = plan.slices.iter().map(|(name, slice)| (slice.level, name));
    let charts = plan.components.iter().map(|one| (one.planned.level, &one.name));
    let mut all: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (level, name) in slices.chain(charts) {
        all.entry(level).or_default().push(name.to_string());
    }
    all.into_values().collect()
}

fn name<T: Resource>(object: &T) -> String {
    object.meta().name.clone().unwrap_or_default()
}

fn misnamed(error: &NameError) -> Invalid {
    Invalid { reason: Reason::InvalidConfiguration, message: error.to_string() }
}

/// Decodes what the API server would store.
fn keep<T: DeserializeOwned>(all: &mut All<T>, manifest: Manifest, errors: &mut Vec<Fault>) {
    let key = (manifest.text("/metadata/namespace").to_owned(), manifest.text("/metadata/name").to_owned());
    match serde_json::from_value(manifest.object.clone()) {
        Ok(object) => drop(all.insert(key, Read { manifest, object })),
        Err(error) => errors.push(Fault::new(manifest.top(), REFUSED, error.to_string())),
    }
}

/// Where a template says what is wrong.
fn of_template(manifest: &Manifest, invalid: &Invalid) -> Place {
    // Of the graph the message says but the name.
    let component = ["component ", "dependency cycle: "].iter().find_map(|start| {
        let name = invalid.message.strip_prefix(start)?.split([' ', ',']).next()?;
        Some(format!("components[{name}].dependsOn"))
    });
    manifest.locate("spec", component.as_deref().unwrap_or(&invalid.message))
}

/// Where an environment or its template says what is wrong.
fn of_environment(
    environment: &Read<EphemeralEnvironment>,
    template: Option<&Read<EnvironmentTemplate>>,
    invalid: &Invalid,
) -> Place {
    let (own, message) = (&environment.manifest, invalid.message.as_str());
    if let Some(message) = message.strip_prefix("environment.") {
        return own.locate("spec", message);
    }
    if invalid.reason == Reason::TemplateNotFound {
        return own.locate("spec", "template");
    }
    match template {
        Some(template) if !own.has("spec", message) || template.manifest.has("spec", message) => {
            let place = of_template(&template.manifest, invalid);
            if place.path == "spec" { own.locate("spec", message) } else { place }
        }
        Some(_) | None => own.locate("spec", message),
    }
}

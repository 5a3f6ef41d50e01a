//! Slices of shared components: what a provider asks for, and what is rendered from it for one consumer.
//!
//! Texts that hold a template may come to hold a secret, so their results stand in the obligation only: a Job refers to
//! them by key.

use super::{
    intent::{canonical, misconfigured},
    render::{RenderError, Variables, render},
    source::source,
    values::Layer,
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{EnvVar, EnvVarSource, SecretKeySelector},
};
use petri_crds::{
    Charset, Generate, InstanceKey, JobScript, SharedComponentProviderSpec, meta::GENERATED_SECRET_KEY,
};
use petri_machines::{
    environment::{Invalid, Reason},
    names::{ComponentName, Digest, EnvironmentName, LABEL_MAX, NamespaceName, ReleaseName, Uid},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Characters of a generated value unless the provider says otherwise.
const GENERATED_LENGTH: i32 = 24;
/// More fits nowhere that a password goes.
const GENERATED_LENGTH_MAX: i32 = 1024;
/// The longest name of a Secret.
const SECRET_NAME_MAX: usize = 253;
/// Hexadecimal digits of the hash in a derived name.
const HASH_HEX: usize = 12;
/// Key of the generated value in an obligation.
pub const GENERATED: &str = "generated";
/// Key of the frozen instance values in an obligation, as JSON.
pub const INSTANCE: &str = "instance.json";
/// Key of the rendered binding in an obligation, as JSON.
pub const BINDING: &str = "binding.json";

/// What is known of one slice while its environment's plan is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceInput {
    /// What provisions it; `None` while its provider is not known.
    pub payload: Option<Digest>,
    /// Whether there is a provision Job.
    pub provisions: bool,
    /// What its binding holds.
    pub keys: Keys,
}

/// What a binding holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Nobody knows yet.
    #[default]
    Unknown,
    /// These keys, with values that are not known yet.
    Declared(Vec<String>),
    /// These values.
    Bound(BTreeMap<String, String>),
}

impl Keys {
    /// Returns the keys that a provider declares.
    pub fn declared(spec: &SharedComponentProviderSpec) -> Self {
        Self::Declared(spec.binding.iter().flat_map(|binding| binding.secret_keys.keys().cloned()).collect())
    }
}

/// What is known of the slices of an environment, by component.
pub type SliceInputs = BTreeMap<String, SliceInput>;

/// A script as its Job runs it: structure in the open, texts with secrets in the obligation.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedScript {
    /// The structure; texts that were rendered refer to `texts`.
    pub script: JobScript,
    /// The rendered texts, by the key that they stand under in the obligation.
    pub texts: BTreeMap<String, String>,
}

/// Stands for a value that is not known yet.
const SAMPLE: &str = "sample";

/// Says why a provider cannot be used; the message names the field. Everything is rendered once with samples, so that
/// what does not render is told before anybody waits for it.
///
/// # Errors
/// The first fault.
pub fn check(spec: &SharedComponentProviderSpec) -> Result<(), Invalid> {
    structure(spec).map_err(misconfigured)?;
    let keys = spec.instance_secret.iter().flat_map(|secret| &secret.keys);
    let value = |key: &InstanceKey| key.value.clone().unwrap_or_else(|| SAMPLE.to_owned());
    let instance: BTreeMap<String, String> = keys.map(|(name, key)| (name.clone(), value(key))).collect();
    let environment = EnvironmentName::new(SAMPLE).map_err(misconfigured)?;
    let namespace = NamespaceName::new(SAMPLE).map_err(misconfigured)?;
    let workload = Workload { name: SAMPLE, namespace: SAMPLE, secret: SAMPLE };
    let consumer = Consumer { environment: &environment, namespace: &namespace, workload };
    let unrendered =
        |error: ProviderError| Invalid { reason: Reason::RenderFailed, message: error.to_string() };
    obligation(spec, &consumer, SAMPLE, &instance, None).map_err(unrendered)?;
    let variables = Variables::new(&json!({ "Instance": instance, "Shared": workload.variables() }));
    let helm = spec.helm.clone().unwrap_or_default();
    Layer::render("helm", &helm.values_object, &helm.values, &variables)?;
    Ok(())
}

fn structure(spec: &SharedComponentProviderSpec) -> Result<(), String> {
    let helm = spec.helm.as_ref().ok_or("helm: the chart of the shared workload is needed")?;
    source(helm).map_err(|error| format!("helm: {error}"))?;
    for (key, wanted) in spec.instance_secret.iter().flat_map(|secret| &secret.keys) {
        match (&wanted.value, &wanted.generate) {
            (Some(_), None) => {}
            (None, Some(generate)) => {
                length(generate).map_err(|why| format!("instanceSecret.keys[{key}].generate: {why}"))?;
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(format!(
                    "instanceSecret.keys[{key}]: exactly one of value and generate is needed"
                ));
            }
        }
    }
    for (field, script) in [("provision", &spec.provision), ("deprovision", &spec.deprovision)] {
        let Some(script) = script else { continue };
        if script.script.is_empty() == script.command.is_empty() {
            return Err(format!("{field}: exactly one of script and command is needed"));
        }
        if script.image.is_empty() {
            return Err(format!("{field}: image is needed"));
        }
    }
    let keys = spec.binding.iter().flat_map(|binding| binding.secret_keys.keys());
    match keys.into_iter().find(|key| *key == GENERATED_SECRET_KEY) {
        Some(key) => Err(format!("binding.secretKeys: {key:?} is Petri's own")),
        None => Ok(()),
    }
}

fn length(generate: &Generate) -> Result<usize, String> {
    let length = if generate.length == 0 { GENERATED_LENGTH } else { generate.length };
    let length = Some(length).filter(|length| (1..=GENERATED_LENGTH_MAX).contains(length));
    let fits = length.and_then(|length| usize::try_from(length).ok());
    fits.ok_or_else(|| format!("length {} is not within 1 and {GENERATED_LENGTH_MAX}", generate.length))
}

/// Makes a value from random bytes; each character takes from four of them, so that none is likelier than another by
/// more than one in a hundred million.
pub fn generated(generate: &Generate, mut random: impl FnMut() -> u32) -> String {
    const ALPHANUMERIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    const HEX: &[u8] = b"0123456789abcdef";
    let characters = match generate.charset {
        Charset::Alphanumeric => ALPHANUMERIC,
        Charset::Hex => HEX,
    };
    let mut one = || {
        let place = usize::try_from(random()).unwrap_or_default() % characters.len();
        char::from(characters.get(place).copied().unwrap_or(b'0'))
    };
    let length = length(generate).unwrap_or_default();
    (0..length).map(|_| one()).collect()
}

/// Hashes what provisions and deprovisions a slice. The binding is no part of it: it is rendered once.
pub fn digest(spec: &SharedComponentProviderSpec) -> Digest {
    let scripts = json!({"provision": spec.provision, "deprovision": spec.deprovision});
    Digest::of(&[&canonical(&scripts)])
}

/// Names the obligation of a slice: readable in front, unique behind.
pub fn obligation_name(uid: &Uid, environment: &EnvironmentName, component: &ComponentName) -> String {
    let identity = Digest::of(&[uid.as_str(), component.as_str(), "obligation"]);
    let hash = identity.as_str().get(..HASH_HEX).unwrap_or_default();
    let front = format!("petri-obligation-{environment}-{component}").replace('.', "-");
    let kept = front.get(..front.len().min(LABEL_MAX - HASH_HEX - 1)).unwrap_or("petri");
    format!("{}-{hash}", kept.trim_end_matches('-'))
}

/// Names the binding Secret of a slice.
pub fn binding_name(environment: &EnvironmentName, component: &ComponentName) -> String {
    format!("{environment}-{component}-binding")
}

/// Names the instance secret of a shared component whose provider's name for it another one has: readable in front,
/// unique behind.
pub fn instance_name(wanted: &str, shared: &str) -> String {
    let name = format!("{wanted}-{shared}");
    if name.len() <= SECRET_NAME_MAX {
        return name;
    }
    let hash = Digest::of(&[wanted, shared, "instance"]);
    let hash = hash.as_str().get(..HASH_HEX).unwrap_or_default();
    let kept = name.get(..SECRET_NAME_MAX - HASH_HEX - 1).unwrap_or("petri");
    format!("{}-{hash}", kept.trim_end_matches(['-', '.']))
}

/// The shared workload that a slice is of.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The shared component.
    pub name: &'a str,
    /// Where it is.
    pub namespace: &'a str,
    /// Its instance secret.
    pub secret: &'a str,
}

impl Workload<'_> {
    /// Returns what templates read as `.Shared`.
    pub fn variables(&self) -> Value {
        json!({"Name": self.name, "Namespace": self.namespace, "Secret": self.secret})
    }
}

/// Whose slice is rendered.
#[derive(Clone, Copy, Debug)]
pub struct Consumer<'a> {
    /// The environment.
    pub environment: &'a EnvironmentName,
    /// Its namespace.
    pub namespace: &'a NamespaceName,
    /// What it is a slice of.
    pub workload: Workload<'a>,
}

fn variables(consumer: &Consumer<'_>, generated: &str, instance: &BTreeMap<String, String>) -> Variables {
    Variables::new(&json!({
        "Env": {
            "Name": consumer.environment.as_str(),
            "Slug": consumer.environment.as_str().replace('-', "_"),
            "Namespace": consumer.namespace.as_str(),
            "GeneratedSecret": generated,
        },
        "Instance": instance,
        "Shared": consumer.workload.variables(),
    }))
}

/// Says which field of a provider does not render. Never holds a value.
#[derive(Debug, thiserror::Error)]
#[error("{at}: {error}")]
pub struct ProviderError {
    at: String,
    error: RenderError,
}

/// Renders all that an obligation holds. `binding` is what stands already: it is never rendered again.
///
/// # Errors
/// The field that does not render.
pub fn obligation(
    spec: &SharedComponentProviderSpec,
    consumer: &Consumer<'_>,
    generated: &str,
    instance: &BTreeMap<String, String>,
    binding: Option<&BTreeMap<String, String>>,
) -> Result<BTreeMap<String, ByteString>, ProviderError> {
    let variables = variables(consumer, generated, instance);
    let mut data = BTreeMap::new();
    let mut put = |key: &str, text: String| drop(data.insert(key.to_owned(), ByteString(text.into_bytes())));
    put(GENERATED, generated.to_owned());
    put(INSTANCE, json!(instance).to_string());
    let binding = match binding {
        Some(binding) => binding.clone(),
        None => self::binding(spec, &variables)?,
    };
    put(BINDING, json!(binding).to_string());
    for (field, script) in [("provision", &spec.provision), ("deprovision", &spec.deprovision)] {
        let Some(script) = script else { continue };
        let RenderedScript { mut script, texts } = rendered(field, script, &variables)?;
        if let Some(secret) = &spec.instance_secret {
            refer(&mut script, &secret.name, consumer.workload.secret);
        }
        put(&script_key(field), json!(script).to_string());
        texts.into_iter().for_each(|(key, text)| put(&key, text));
    }
    Ok(data)
}

/// The key of a Job's script in an obligation.
pub fn script_key(field: &str) -> String {
    format!("{field}.json")
}

fn binding(
    spec: &SharedComponentProviderSpec,
    variables: &Variables,
) -> Result<BTreeMap<String, String>, ProviderError> {
    let keys = spec.binding.iter().flat_map(|binding| &binding.secret_keys);
    let one = |(key, text): (&String, &String)| {
        let text = render(text, variables)
            .map_err(|error| ProviderError { at: format!("binding.secretKeys[{key}]"), error })?;
        Ok((key.clone(), text))
    };
    keys.map(one).collect()
}

/// Renders a script. What holds a template, and a script in any case, goes through a key: so no value stands in a Job,
/// and nothing of a script is taken for a variable of Kubernetes.
fn rendered(field: &str, script: &JobScript, variables: &Variables) -> Result<RenderedScript, ProviderError> {
    let mut texts = BTreeMap::new();
    let mut env = Vec::new();
    let mut kept = script.clone();
    let mut text = |at: String, source: &str| {
        let text = render(source, variables)
            .map_err(|error| ProviderError { at: format!("{field}.{at}"), error })?;
        let key = format!("{field}.{}", at.replace(['[', ']', '"'], "."));
        texts.insert(key.clone(), text);
        Ok(key)
    };
    if !script.script.is_empty() {
        let key = text("script".to_owned(), &script.script)?;
        env.push(by_key("PETRI_SCRIPT", &key));
        kept.script = "$(PETRI_SCRIPT)".to_owned();
    }
    for (place, word) in script.command.iter().enumerate().filter(|(_, word)| word.contains("{{")) {
        let key = text(format!("command.{place}"), word)?;
        let name = format!("PETRI_COMMAND_{place}");
        env.push(by_key(&name, &key));
        if let Some(word) = kept.command.get_mut(place) {
            *word = format!("$({name})");
        }
    }
    for variable in &mut kept.env {
        let Some(source) = variable.value.as_ref().filter(|value| value.contains("{{")) else { continue };
        let key = text(format!("env.{}", variable.name), source)?;
        *variable = by_key(&variable.name, &key);
    }
    env.extend(std::mem::take(&mut kept.env));
    kept.env = env;
    Ok(RenderedScript { script: kept, texts })
}

/// Makes a script that names the provider's instance secret read the one of its own shared component.
fn refer(script: &mut JobScript, from: &str, to: &str) {
    let change = |name: &mut String| {
        if name == from {
            to.clone_into(name);
        }
    };
    let sources = script.env.iter_mut().filter_map(|variable| variable.value_from.as_mut());
    sources.filter_map(|source| source.secret_key_ref.as_mut()).for_each(|secret| change(&mut secret.name));
    let sources = script.env_from.iter_mut().filter_map(|source| source.secret_ref.as_mut());
    sources.for_each(|secret| change(&mut secret.name));
    for volume in &mut script.volumes {
        volume.secret.iter_mut().filter_map(|secret| secret.secret_name.as_mut()).for_each(change);
        let parts = volume.projected.iter_mut().flat_map(|all| all.sources.iter_mut().flatten());
        parts.filter_map(|part| part.secret.as_mut()).for_each(|secret| change(&mut secret.name));
    }
}

/// The name of the obligation is filled in when its Job is made.
fn by_key(name: &str, key: &str) -> EnvVar {
    let secret = SecretKeySelector { key: key.to_owned(), name: String::new(), optional: None };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource { secret_key_ref: Some(secret), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

/// Finds what texts read of a component's binding: `.Components.db.HOST` and `index .Components "db" "HOST"`.
pub fn read_keys(component: &str, text: &str) -> Vec<String> {
    const ROOT: &str = ".Components";
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')).collect()
    };
    let mut keys = Vec::new();
    for (at, _) in text.match_indices(ROOT) {
        let rest = text.get(at + ROOT.len()..).unwrap_or_default();
        let path = rest.strip_prefix('.').map(|rest| {
            let chain = word(rest);
            chain.split('.').map(str::to_owned).collect::<Vec<_>>()
        });
        let quoted = || rest.split('"').skip(1).step_by(2).take(2).map(str::to_owned).collect::<Vec<_>>();
        if let [named, key, ..] = path.unwrap_or_else(quoted).as_slice()
            && named == component
        {
            keys.push(key.clone());
        }
    }
    keys
}

/// Names the release of a shared component, as long as it fits everywhere its name goes.
///
/// # Errors
/// The name that does not fit.
pub fn release(name: &str) -> Result<ReleaseName, String> {
    let name = petri_machines::names::SharedName::new(name).map_err(|error| error.to_string())?;
    ReleaseName::shared(&name).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(change: impl FnOnce(&mut Value)) -> SharedComponentProviderSpec {
        let mut spec = json!({
            "helm": {"path": "/charts/postgres"},
            "instanceSecret": {"name": "pg", "keys": {
                "HOST": {"value": "shared-pg.petri-shared"}, "PASSWORD": {"generate": {"length": 0}},
            }},
            "provision": {
                "image": "psql", "script": "createuser {{ .Env.Slug }} $(date) '{{ .Env.GeneratedSecret }}'",
                "env": [{"name": "PGPASSWORD", "value": "{{ .Instance.PASSWORD }}"}, {"name": "PGUSER", "value": "root"}],
            },
            "deprovision": {"image": "psql", "command": ["dropuser", "{{ .Env.Slug }}"]},
            "binding": {"secretKeys": {"URL": "postgres://{{ .Env.Slug }}:{{ .Env.GeneratedSecret }}@{{ .Instance.HOST }}"}},
        });
        change(&mut spec);
        serde_json::from_value(spec).unwrap()
    }

    fn instance() -> BTreeMap<String, String> {
        [("HOST", "h"), ("PASSWORD", "instance-secret")].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    fn made(spec: &SharedComponentProviderSpec) -> BTreeMap<String, String> {
        let environment = EnvironmentName::new("pr-7").unwrap();
        let namespace = NamespaceName::new("petri-env-0123abcd").unwrap();
        let workload = Workload { name: "pg", namespace: "petri-shared", secret: "pg-secret" };
        let consumer = Consumer { environment: &environment, namespace: &namespace, workload };
        let data = obligation(spec, &consumer, "own-secret", &instance(), None).unwrap();
        data.into_iter().map(|(key, text)| (key, String::from_utf8(text.0).unwrap())).collect()
    }

    #[test]
    fn no_secret_stands_in_what_a_job_is_made_from() {
        let data = made(&provider(|_| {}));
        for key in ["provision.json", "deprovision.json"] {
            assert!(!data[key].contains("secret\""), "{}", data[key]);
            assert!(
                !data[key].contains("own-secret") && !data[key].contains("instance-secret"),
                "{}",
                data[key]
            );
        }
        assert_eq!(data["provision.script"], "createuser pr_7 $(date) 'own-secret'");
        assert_eq!(data["provision.env.PGPASSWORD"], "instance-secret");
        assert_eq!(data["deprovision.command.1"], "pr_7");
        let script: JobScript = serde_json::from_str(&data["provision.json"]).unwrap();
        let names: Vec<_> = script.env.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["PETRI_SCRIPT", "PGPASSWORD", "PGUSER"]);
        assert_eq!(script.env[2].value.as_deref(), Some("root"), "what is no template stays in the open");
        let binding: BTreeMap<String, String> = serde_json::from_str(&data[BINDING]).unwrap();
        assert_eq!(binding["URL"], "postgres://pr_7:own-secret@h");
    }

    #[test]
    fn scenarios_17_to_21_bad_providers_are_refused_with_the_field() {
        let check = |pointer: &str, value: Value, expected: &str| {
            let spec = provider(|spec| *spec.pointer_mut(pointer).unwrap() = value);
            let found = super::check(&spec).unwrap_err();
            assert!(found.message.contains(expected), "{}", found.message);
        };
        assert_eq!(super::check(&provider(|_| {})), Ok(()));
        check("/helm", Value::Null, "helm: the chart");
        let two = json!({"image": "psql", "script": "true", "command": ["true"]});
        check("/provision", two, "provision: exactly one of script and command");
        check("/provision/script", json!(""), "provision: exactly one of script and command");
        check("/deprovision/command", json!([]), "deprovision: exactly one of script and command");
        check("/provision/image", json!(""), "provision: image is needed");
        check("/binding/secretKeys/URL", json!("{{ .Instance.NAME }}"), ".Instance.NAME does not exist");
        check("/deprovision/command/1", json!("{{ .Components.db.NAME }}"), "deprovision.command.1: ");
        check("/instanceSecret/keys/PASSWORD/generate/length", json!(10_000), "length 10000 is not within");
        check("/instanceSecret/keys/PASSWORD", json!({}), "exactly one of value and generate");
        check("/binding/secretKeys", json!({"petri.generated-secret": "x"}), "is Petri's own");
    }

    #[test]
    fn scenarios_15_and_16_and_130_a_value_has_the_length_and_the_characters_that_were_asked_for() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        };
        let long = || Generate { length: 32, charset: Charset::Alphanumeric };
        let (one, another) = (generated(&long(), &mut random), generated(&long(), &mut random));
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{one}");
        assert_ne!(one, another);
        let hex = generated(&Generate { length: 40, charset: Charset::Hex }, &mut random);
        assert!(hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hex}");
        assert_eq!(generated(&Generate { length: 0, charset: Charset::Alphanumeric }, random).len(), 24);
    }

    #[test]
    fn scenario_161_two_components_on_one_shared_component_have_names_of_their_own() {
        let (uid, environment) = (Uid::new("u").unwrap(), EnvironmentName::new("pr-7").unwrap());
        let names = |component: &str| {
            let component = ComponentName::new(component).unwrap();
            (obligation_name(&uid, &environment, &component), binding_name(&environment, &component))
        };
        let (one, other) = (names("db"), names("db2"));
        assert!(one.0 != other.0 && one.1 != other.1, "{one:?} {other:?}");
    }

    #[test]
    fn a_script_that_names_the_provider_s_secret_reads_its_own_shared_component_s() {
        let secret = |name: &str| json!({"secretRef": {"name": name}});
        let spec = provider(|spec| {
            spec["provision"]["envFrom"] = json!([secret("pg"), secret("other")]);
            spec["provision"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "pg"}}]);
            let from = json!({"secretKeyRef": {"name": "pg", "key": "PASSWORD"}});
            spec["provision"]["env"] = json!([{"name": "A", "valueFrom": from}]);
        });
        let script: Value = serde_json::from_str(&made(&spec)["provision.json"]).unwrap();
        assert_eq!(script["envFrom"], json!([secret("pg-secret"), secret("other")]));
        assert_eq!(script["volumes"][0]["secret"]["secretName"], "pg-secret");
        assert_eq!(script["env"][1]["valueFrom"]["secretKeyRef"]["name"], "pg-secret");
        assert_eq!(instance_name("pg", "shop"), "pg-shop");
        assert!(instance_name(&"n".repeat(253), "shop").len() <= 253);
    }

    #[test]
    fn what_templates_read_of_a_binding_is_found() {
        let text =
            "{{ .Components.db.HOST }} {{ index .Components \"my-db\" \"PORT\" }} {{.Components.db.USER}}";
        assert_eq!(read_keys("db", text), ["HOST", "USER"]);
        assert_eq!(read_keys("my-db", text), ["PORT"]);
    }

    #[test]
    fn names_fit_however_long_their_parts() {
        let environment = EnvironmentName::new("e".repeat(60)).unwrap();
        let component = ComponentName::new("c".repeat(63)).unwrap();
        let name = obligation_name(&Uid::new("u").unwrap(), &environment, &component);
        assert!(name.len() <= LABEL_MAX, "{name}");
        assert_eq!(
            release(&"p".repeat(47)).unwrap_err(),
            format!("\"shared-{}\" has 54 characters, at most 53 fit", "p".repeat(47))
        );
    }
}

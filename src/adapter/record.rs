//! The stored record of an environment: `status.machine` with the version it was written by.

use super::status::shown;
use petri_crds::EphemeralEnvironment;
use petri_machines::{
    component,
    environment::{Binding, Environment, Phase, Record, Rollout},
    kernel::{Machine as _, cycle::Stored},
    names::ComponentName,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// Says why a stored record cannot be used: Petri's own fault, or somebody else's hand in the status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A field does not decode although the version says that it should.
    #[error("{field}: {why}")]
    Unreadable {
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        why: String,
    },
    /// The version is no version.
    #[error("status.controllerStateVersion: {0} is no version")]
    Version(i64),
}

/// Gives what is stored of an environment. A record of a newer version is not decoded: the loop holds then. None at
/// all is the record of a new object, or of one whose status was erased.
///
/// # Errors
/// A record of a known version that does not decode.
pub fn stored(environment: &EphemeralEnvironment) -> Result<Stored<Environment>, RecordError> {
    let empty = |version| Stored { phase: Record::default(), status: None, version };
    let Some(status) = &environment.status else { return Ok(empty(0)) };
    let version = match status.controller_state_version {
        None => 0,
        Some(version) if version < 0 => return Err(RecordError::Version(version)),
        Some(version) => u32::try_from(version).unwrap_or(u32::MAX),
    };
    if version > Environment::VERSION {
        return Ok(empty(version));
    }
    let Some(machine) = &status.machine else { return Ok(empty(version)) };
    let phase = decode(machine)?;
    let status = shown(status, &phase);
    Ok(Stored { phase, status, version })
}

/// Writes a record as it is stored.
///
/// # Panics
/// Never: all its maps have texts for keys.
pub fn encode(record: &Record) -> Value {
    serde_json::to_value(record).expect("a record has only texts for keys")
}

fn decode(machine: &Value) -> Result<Record, RecordError> {
    serde_json::from_value(machine.clone()).map_err(|error| locate(machine, &error))
}

/// Names the field that does not decode: serde names it only inside the message of some errors.
fn locate(machine: &Value, whole: &serde_json::Error) -> RecordError {
    let unreadable =
        |field: &str, why: String| RecordError::Unreadable { field: format!("status.machine{field}"), why };
    let field = |name| machine.get(name).unwrap_or(&Value::Null);
    let faults = [
        ("phase", fault::<Phase>(field("phase"))),
        ("binding", fault::<Binding>(field("binding"))),
        ("serial", fault::<u64>(field("serial"))),
        ("observed", fault::<i64>(field("observed"))),
        ("retry", fault::<String>(field("retry"))),
        ("history", fault::<Vec<Rollout>>(field("history"))),
    ];
    for (name, why) in faults {
        if let Some(why) = why.filter(|_| machine.get(name).is_some()) {
            return unreadable(&format!(".{name}"), why);
        }
    }
    let components = machine.get("components").and_then(Value::as_object);
    for (name, component) in components.into_iter().flatten() {
        let why = ComponentName::new(name).err().map(|error| error.to_string());
        if let Some(why) = why.or_else(|| fault::<component::Record>(component)) {
            return unreadable(&format!(".components[{name}]"), why);
        }
    }
    if let Some(why) = machine.get("components").and_then(fault::<BTreeMap<String, Value>>) {
        return unreadable(".components", why);
    }
    unreadable("", whole.to_string())
}

fn fault<T: DeserializeOwned>(value: &Value) -> Option<String> {
    serde_json::from_value::<T>(value.clone()).err().map(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn environment(status: Value) -> EphemeralEnvironment {
        let json = json!({"apiVersion": "core.petri.run/v1alpha1", "kind": "EphemeralEnvironment",
            "metadata": {"name": "pr-1"}, "spec": {"template": "web"}, "status": status});
        serde_json::from_value(json).unwrap()
    }

    fn check(status: Value, expected: Result<(u32, &str), &str>) {
        let found = stored(&environment(status.clone()));
        let found = found.as_ref().map(|stored| (stored.version, stored.phase.phase.name()));
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{status}"),
            (Err(error), Err(part)) => assert!(error.to_string().starts_with(part), "{error}"),
            (found, _) => panic!("{status}: {found:?}"),
        }
    }

    #[test]
    fn a_record_is_read_a_newer_one_is_only_counted_and_none_is_a_new_one() {
        let machine = json!({"phase": {"name": "Ready", "plan": "d"}, "serial": 3});
        check(json!({}), Ok((0, "Pending")));
        check(json!({"phase": "Ready"}), Ok((0, "Pending")));
        check(json!({"controllerStateVersion": 1, "machine": machine}), Ok((1, "Ready")));
        check(json!({ "machine": machine }), Ok((0, "Ready")));
        check(json!({"controllerStateVersion": 2, "machine": {"phase": "unheard of"}}), Ok((2, "Pending")));
        check(json!({"controllerStateVersion": i64::MAX, "machine": machine}), Ok((u32::MAX, "Pending")));
        check(json!({"controllerStateVersion": -1}), Err("status.controllerStateVersion: -1"));
    }

    #[test]
    fn a_record_that_does_not_decode_names_the_field() {
        let good = json!({"phase": {"name": "Pending"}, "components": {"api": {"phase": {"name": "Ready"}, "level": 0}}});
        let broken = |path: &str, value: Value| {
            let mut machine = good.clone();
            *machine.pointer_mut(path).unwrap() = value;
            json!({"controllerStateVersion": 1, "machine": machine})
        };
        check(json!({"controllerStateVersion": 1, "machine": good}), Ok((1, "Pending")));
        check(
            broken("/phase/name", json!("Dreaming")),
            Err("status.machine.phase: unknown variant `Dreaming`"),
        );
        check(
            broken("/components/api/level", json!("x")),
            Err("status.machine.components[api]: invalid type"),
        );
        check(
            broken("/components", json!({"A": {}})),
            Err("status.machine.components[A]: \"A\" is not a DNS label"),
        );
        check(broken("/components", json!([])), Err("status.machine.components: invalid type"));
        check(
            broken("", json!({"serial": -1, "phase": {"name": "Pending"}})),
            Err("status.machine.serial: "),
        );
        check(broken("", json!({})), Err("status.machine: missing field `phase`"));
    }
}

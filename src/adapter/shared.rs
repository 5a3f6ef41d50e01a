//! A SharedComponent: what it asks for, its stored record, what users are shown, and its list of consumers.

use super::{
    intent::{Defaults, RenderedComponent, misconfigured},
    render::Variables,
    sharing,
    source::{is_immutable, source},
    status::{PHASES, conditions, read_condition, time, timestamp},
    values::{Layer, merge},
};
use k8s_openapi::jiff;
use petri_crds::{
    self as crds, SharedComponent, SharedComponentProvider, SharedComponentStatus, duration::Ttl,
};
use petri_machines::{
    component::Planned,
    environment::{Invalid, Reason},
    kernel::{Machine as _, cycle::Stored},
    names::{ComponentName, EnvironmentName, NamespaceName, Uid},
    shared::{Abandoned, Consumer, InstancePlan, Plan, Record, Roster, Shared, Status},
};
use serde_json::json;
use std::collections::BTreeMap;

/// Holds what a shared component's plan is computed from.
#[derive(Clone, Copy, Debug)]
pub struct SharedInputs<'a> {
    /// The shared component.
    pub shared: &'a SharedComponent,
    /// Its provider; `None` when there is none of that name.
    pub provider: Option<&'a SharedComponentProvider>,
    /// The values of the instance secret; `None` while it does not stand.
    pub instance: Option<&'a BTreeMap<String, String>>,
    /// The name of that secret, where the provider has one.
    pub secret: &'a str,
    /// Where the shared workload goes.
    pub namespace: &'a NamespaceName,
    /// What holds where nothing is said.
    pub defaults: Defaults,
}

/// Computes what a shared component is asked for, and what its deploy Job gets.
///
/// # Errors
/// Why its inputs cannot be worked with.
pub fn plan(inputs: &SharedInputs<'_>) -> Result<(Plan, Option<RenderedComponent>), Invalid> {
    let SharedInputs { shared, provider, instance, secret, namespace, defaults } = inputs;
    let name = shared.metadata.name.clone().unwrap_or_default();
    let release = sharing::release(&name).map_err(misconfigured)?;
    let idle_secs = idle(&shared.spec.idle_cleanup)?;
    let Some(provider) = provider else {
        let missing = &shared.spec.provider;
        return Err(misconfigured(format!("SharedComponentProvider {missing:?} does not exist")));
    };
    let spec = &provider.spec;
    let at = format!("SharedComponentProvider {}", shared.spec.provider);
    sharing::check(spec)
        .map_err(|invalid| Invalid { message: format!("{at}: {}", invalid.message), ..invalid })?;
    let wanted = spec.instance_secret.as_ref().map(|wanted| InstancePlan {
        name: (*secret).to_owned(),
        generates: wanted.keys.values().any(|key| key.generate.is_some()),
    });
    let plan = |workload| Plan {
        provider: shared.spec.provider.clone(),
        workload,
        instance: wanted.clone(),
        capacity: shared.spec.capacity(),
        idle_secs,
    };
    let none = BTreeMap::new();
    let instance = match (instance, &wanted) {
        (Some(instance), _) => *instance,
        (None, None) => &none,
        (None, Some(_)) => return Ok((plan(None), None)),
    };
    let workload = sharing::Workload { name: &name, namespace: namespace.as_str(), secret };
    let variables = Variables::new(&json!({ "Instance": instance, "Shared": workload.variables() }));
    let helm = spec.helm.clone().unwrap_or_default();
    let layer = Layer::render(&format!("{at}: helm"), &helm.values_object, &helm.values, &variables)?;
    let rendered = RenderedComponent {
        name: ComponentName::new(&name).map_err(misconfigured)?,
        release,
        helm: source(&helm).map_err(misconfigured)?,
        values: merge([&layer])?,
        http_get: None,
    };
    let workload = Planned {
        level: 0,
        payload: rendered.digest(namespace)?,
        immutable: is_immutable(&rendered.helm),
        ready_within_secs: defaults.deploy_timeout_secs,
    };
    Ok((plan(Some(workload)), Some(rendered)))
}

fn idle(text: &str) -> Result<Option<u64>, Invalid> {
    match Ttl::parse(text) {
        Ok(Ttl::Never | Ttl::Inherit) => Ok(None),
        Ok(Ttl::After(secs)) => Ok(Some(secs)),
        Err(error) => {
            Err(Invalid { reason: Reason::InvalidConfiguration, message: format!("idleCleanup: {error}") })
        }
    }
}

/// Gives what is stored of a shared component; see [`super::record::stored`].
///
/// # Errors
/// A record of a known version that does not decode.
pub fn stored(object: &SharedComponent) -> Result<Stored<Shared>, String> {
    let empty = |version| Stored { phase: Record::default(), status: None, version };
    let Some(status) = &object.status else { return Ok(empty(0)) };
    let version = match status.controller_state_version {
        None => 0,
        Some(version) => u32::try_from(version).unwrap_or(u32::MAX),
    };
    if version > Shared::VERSION {
        return Ok(empty(version));
    }
    let Some(machine) = &status.machine else { return Ok(empty(version)) };
    let phase: Record =
        serde_json::from_value(machine.clone()).map_err(|error| format!("status.machine: {error}"))?;
    let status = shown(status, &phase);
    Ok(Stored { phase, status, version })
}

/// Gives the status to store. What is not Petri's stays as it was.
pub fn status(
    previous: Option<&SharedComponentStatus>,
    record: &Record,
    status: &Status,
    now: jiff::Timestamp,
) -> SharedComponentStatus {
    let previous = previous.cloned().unwrap_or_default();
    let conditions = conditions(&previous.conditions, &status.conditions, status.observed_generation, now);
    let told = SharedComponentStatus {
        phase: PHASES.into_iter().find(|phase| phase.as_str() == status.phase),
        conditions,
        ready: Some(status.ready),
        observed_generation: Some(status.observed_generation),
        controller_state_version: Some(Shared::VERSION.into()),
        machine: serde_json::to_value(record).ok(),
        ..previous
    };
    with_roster(told, &status.roster)
}

fn shown(stored: &SharedComponentStatus, record: &Record) -> Option<Status> {
    let conditions = stored.conditions.iter().filter_map(read_condition);
    let shown = Status {
        phase: stored.phase?.as_str(),
        conditions: conditions.collect::<Option<_>>()?,
        ready: stored.ready?,
        roster: roster(stored)?,
        observed_generation: stored.observed_generation?,
    };
    let again = status(Some(stored), record, &shown, jiff::Timestamp::UNIX_EPOCH);
    (again == *stored).then_some(shown)
}

/// Reads the list of consumers; `None` when somebody else's hand was in it.
pub fn roster(status: &SharedComponentStatus) -> Option<Roster> {
    let consumers = status.consumer_refs.iter().map(|one| {
        Some(Consumer {
            uid: Uid::new(&one.uid).ok()?,
            environment: EnvironmentName::new(&one.environment).ok()?,
            component: ComponentName::new(&one.component).ok()?,
            since: timestamp(Some(&one.since))??,
        })
    });
    let abandoned = status.abandoned.iter().map(|one| {
        Some(Abandoned {
            uid: Uid::new(&one.uid).ok()?,
            environment: EnvironmentName::new(&one.environment).ok()?,
            component: ComponentName::new(&one.component).ok()?,
            at: timestamp(Some(&one.at))??,
            reason: one.reason.clone(),
        })
    });
    Some(Roster {
        consumers: consumers.collect::<Option<_>>()?,
        abandoned: abandoned.collect::<Option<_>>()?,
    })
}

/// Gives a status with another list of consumers; all else stays as it was.
pub fn with_roster(status: SharedComponentStatus, roster: &Roster) -> SharedComponentStatus {
    let consumers = roster.consumers.iter().map(|one| crds::ConsumerRef {
        uid: one.uid.to_string(),
        environment: one.environment.to_string(),
        component: one.component.to_string(),
        since: time(one.since),
    });
    let abandoned = roster.abandoned.iter().map(|one| crds::AbandonedConsumer {
        uid: one.uid.to_string(),
        environment: one.environment.to_string(),
        component: one.component.to_string(),
        at: time(one.at),
        reason: one.reason.clone(),
    });
    SharedComponentStatus {
        consumers: i32::try_from(roster.consumers.len()).ok(),
        consumer_refs: consumers.collect(),
        abandoned: abandoned.collect(),
        ..status
    }
}

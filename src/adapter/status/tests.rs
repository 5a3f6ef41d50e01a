use super::*;
use petri_machines::{
    environment::{Binding, Memory, NamespaceRef, Phase},
    names::Digest,
};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

const REASONS: [Reason; 18] = [
    Reason::TemplateNotFound,
    Reason::InvalidTTL,
    Reason::InvalidConfiguration,
    Reason::RenderFailed,
    Reason::NamespaceNotManaged,
    Reason::NamespaceLost,
    Reason::DeployFailed,
    Reason::ReadinessTimeout,
    Reason::ProvisionFailed,
    Reason::SharedComponentAtCapacity,
    Reason::SharedComponentNotReady,
    Reason::Progressing,
    Reason::ComponentUnavailable,
    Reason::Held,
    Reason::Ready,
    Reason::CleanedUp,
    Reason::AttemptsExhausted,
    Reason::NearExpiry,
];

fn at(secs: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(secs).unwrap()
}

fn rollout(plan: &str, ready: Option<bool>, started: u64, ended: Option<u64>) -> machine::Rollout {
    machine::Rollout {
        plan: Digest::of(&[plan]),
        ready,
        reason: ready.filter(|ready| !ready).map(|_| Reason::DeployFailed),
        started_at: Timestamp(started),
        ended_at: ended.map(Timestamp),
    }
}

fn moments() -> impl Strategy<Value = Option<Timestamp>> {
    prop::option::of((0_u64..10_000_000_000).prop_map(Timestamp))
}

fn all_conditions() -> impl Strategy<Value = Vec<machine::Condition>> {
    let one = (0..3_usize, prop::sample::select(&REASONS[..]), ".{0,20}");
    prop::collection::vec(prop::option::of(one), OWNED.len()).prop_map(|found| {
        let truths = [Truth::True, Truth::False, Truth::Unknown];
        let condition = |(kind, one): (ConditionType, Option<(usize, Reason, String)>)| {
            one.map(|(truth, reason, message)| machine::Condition {
                kind,
                truth: truths[truth],
                reason,
                message,
            })
        };
        OWNED.into_iter().zip(found).filter_map(condition).collect()
    })
}

fn all_components() -> impl Strategy<Value = Vec<machine::ComponentStatus>> {
    let failures = prop::sample::select(&FailureReason::ALL[..]);
    let phases = prop::sample::select(&COMPONENT_PHASES[..]);
    let one =
        ("[a-z]{1,3}", phases, 0..70_u32, any::<u8>(), moments(), prop::option::of(failures), ".{0,20}");
    let one = one.prop_map(|(name, (phase, _), level, deploy_retries, deploying_since, failure, message)| {
        machine::ComponentStatus {
            name: ComponentName::new(name).unwrap(),
            shared: false,
            phase,
            level,
            deploy_retries,
            deploying_since,
            last_failure_reason: failure,
            message,
        }
    });
    prop::collection::vec(one, 0..5)
}

fn rollouts() -> impl Strategy<Value = Vec<machine::Rollout>> {
    let one = (prop::option::of(any::<bool>()), 0..3_u64, prop::option::of(0..5_u64));
    prop::collection::vec(one, 0..6).prop_map(|all| {
        let mut started = 1_000;
        let next = |(ready, later, lasted): (Option<bool>, u64, Option<u64>)| {
            started += later;
            rollout("p", ready, started, lasted.map(|secs| started + secs))
        };
        all.into_iter().map(next).collect()
    })
}

/// A status with the record whose history it shows.
fn statuses() -> impl Strategy<Value = (Record, Status)> {
    let named = prop::option::of("[a-z]{1,8}");
    let phases = prop::sample::select(&PHASES[..]);
    let url = prop::option::of("http://[a-z]{1,8}");
    let scalars = (phases, named, url, moments(), moments(), any::<i64>());
    (scalars, all_conditions(), all_components(), rollouts()).prop_map(
        |(scalars, conditions, components, history)| {
            let (phase, namespace, url, expires_at, deploy_started_at, observed_generation) = scalars;
            let memory = Memory { serial: 7, history: history.clone(), ..Memory::default() };
            let status = Status {
                phase: phase.as_str(),
                conditions,
                namespace: namespace.clone().map(|name| NamespaceName::new(name).unwrap()),
                namespace_uid: namespace.map(|name| Uid::new(name).unwrap()),
                url,
                expires_at,
                deploy_started_at,
                observed_generation,
                components,
                history,
            };
            (Record { phase: Phase::Pending, memory }, status)
        },
    )
}

/// What the API server gives back for what was written.
fn through_the_server(status: &EphemeralEnvironmentStatus) -> EphemeralEnvironmentStatus {
    serde_json::from_str(&serde_json::to_string(status).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn what_was_written_is_read_back_as_it_was_said(
        (record, said) in statuses(),
        (before_record, before) in statuses(),
        now in 0_i64..10_000_000_000,
    ) {
        let first = status(None, &before_record, &before, at(now));
        let stored = through_the_server(&status(Some(&first), &record, &said, at(now)));
        prop_assert_eq!(shown(&stored, &record), Some(said.clone()));
        let later = status(Some(&stored), &record, &said, at(now + 99));
        prop_assert_eq!(later, stored, "the same story at another time is the same status");
    }
}

#[test]
fn every_reason_has_one_word() {
    for one in REASONS {
        assert_eq!(reason(one.as_str()), Some(one));
    }
    assert_eq!(reason("InternalError"), None);
}

/// One condition named Ready.
fn ready(truth: Truth, reason: Reason, message: &str) -> (Record, Status) {
    let namespace = NamespaceName::new("petri-env-0").unwrap();
    let binding =
        Binding::Bound { namespace: NamespaceRef { name: namespace.clone(), uid: Uid::new("n").unwrap() } };
    let record = Record { phase: Phase::Pending, memory: Memory { binding, ..Memory::default() } };
    let condition =
        machine::Condition { kind: ConditionType::Ready, truth, reason, message: message.to_owned() };
    let status = Status {
        phase: "Pending",
        conditions: vec![condition],
        namespace: Some(namespace),
        namespace_uid: Some(Uid::new("n").unwrap()),
        url: None,
        expires_at: None,
        deploy_started_at: None,
        observed_generation: 3,
        components: Vec::new(),
        history: Vec::new(),
    };
    (record, status)
}

#[test]
fn a_condition_keeps_its_time_until_its_status_turns() {
    let (record, first) = ready(Truth::False, Reason::Progressing, "a");
    let one = status(None, &record, &first, at(5));
    assert_eq!(
        serde_json::to_value(&one).unwrap(),
        json!({
            "phase": "Pending", "targetNamespace": "petri-env-0", "namespaceUID": "n", "observedGeneration": 3,
            "controllerStateVersion": 1,
            "conditions": [{"type": "Ready", "status": "False", "reason": "Progressing", "message": "a",
                "observedGeneration": 3, "lastTransitionTime": "1970-01-01T00:00:05Z"}],
            "machine": {"phase": {"name": "Pending"}, "serial": 0, "observed": 0, "components": {},
                "binding": {"stage": "bound", "namespace": {"name": "petri-env-0", "uid": "n"}}},
        })
    );
    let (_, other_words) = ready(Truth::False, Reason::DeployFailed, "b");
    let two = status(Some(&one), &record, &other_words, at(9));
    assert_eq!(two.conditions[0].last_transition_time, Time(at(5)));
    assert_eq!(two.conditions[0].reason, "DeployFailed");
    let (_, turned) = ready(Truth::True, Reason::Ready, "b");
    let three = status(Some(&two), &record, &turned, at(11));
    assert_eq!(three.conditions[0].last_transition_time, Time(at(11)));
}

#[test]
fn what_the_machine_does_not_decide_is_kept() {
    let (record, said) = ready(Truth::True, Reason::Ready, "");
    let before = json!({
        "frozenUntil": "2030",
        "conditions": [
            {"type": "Approved", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z"},
            {"type": "Stalled", "status": "True", "reason": "DeployFailed", "message": "",
                "lastTransitionTime": "2030-01-01T00:00:00Z"},
        ],
    });
    let before: EphemeralEnvironmentStatus = serde_json::from_value(before).unwrap();
    let after = status(Some(&before), &record, &said, at(5));

    assert_eq!(after.unknown, before.unknown);
    let kinds: Vec<&str> = after.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["Ready", "Approved"], "a condition that is over goes, one of another type stays");
    assert_eq!(shown(&after, &record), Some(said));
}

#[test]
fn what_another_hand_wrote_is_not_what_was_shown() {
    let (record, said) = ready(Truth::True, Reason::Ready, "");
    let stored = status(None, &record, &said, at(5));
    type Edit = fn(&mut EphemeralEnvironmentStatus);
    let changes: [(&str, Edit); 8] = [
        ("nothing was written", |status| *status = EphemeralEnvironmentStatus::default()),
        ("a reason of the shell", |status| status.conditions[0].reason = "InternalError".to_owned()),
        ("a status that is none", |status| status.conditions[0].status = "Maybe".to_owned()),
        ("another generation", |status| status.conditions[0].observed_generation = Some(2)),
        ("a name that is none", |status| status.target_namespace = Some("A B".to_owned())),
        ("no version", |status| status.controller_state_version = None),
        ("another record", |status| {
            status.machine = Some(json!({"phase": {"name": "Pending"}, "serial": 9}))
        }),
        ("a time before all times", |status| status.expires_at = Some(Time(at(-5)))),
    ];
    for (what, change) in changes {
        let mut edited = stored.clone();
        change(&mut edited);
        assert_eq!(shown(&edited, &record), None, "{what}");
    }
    assert_eq!(shown(&stored, &record), Some(said));
}

#[test]
fn ended_and_overtaken_rollouts_are_shown_and_numbered_on() {
    let words = |rollouts: &[machine::Rollout], previous: &[crds::Rollout]| {
        let shown = history(rollouts, previous);
        let line = |one: &crds::Rollout| {
            let end = one.end.as_ref().map_or(-1, |end| end.0.as_second());
            format!("{} {:?} {}-{end}", one.revision, one.result, one.start.0.as_second())
        };
        (shown.iter().map(line).collect::<Vec<_>>(), shown)
    };
    let mut all = vec![rollout("a", None, 10, None)];
    let (lines, shown) = words(&all, &[]);
    assert_eq!(lines, [""; 0]);
    all.push(rollout("b", Some(true), 20, Some(25)));
    let (lines, shown) = words(&all, &shown);
    assert_eq!(lines, ["1 Superseded 10-20", "2 Succeeded 20-25"]);
    all.extend([rollout("c", Some(false), 30, Some(35)), rollout("d", None, 40, None)]);
    let (lines, shown) = words(&all[1..], &shown);
    assert_eq!(lines, ["2 Succeeded 20-25", "3 Failed 30-35"]);
    all.push(rollout("e", Some(true), 40, Some(45)));
    let (lines, shown) = words(&all[2..], &shown);
    assert_eq!(lines, ["3 Failed 30-35", "4 Superseded 40-40", "5 Succeeded 40-45"]);
    assert_eq!(words(&all[4..], &shown).1.len(), 1);
}

#[test]
fn a_component_keeps_the_fields_of_a_newer_version() {
    let (record, mut said) = ready(Truth::True, Reason::Ready, "");
    said.components.push(machine::ComponentStatus {
        name: ComponentName::new("api").unwrap(),
        shared: false,
        phase: ComponentPhase::Failed,
        level: 2,
        deploy_retries: 5,
        deploying_since: Some(Timestamp(100)),
        last_failure_reason: Some(FailureReason::ImagePull),
        message: "back-off pulling image".to_owned(),
    });
    let mut before = status(None, &record, &said, at(5));
    before.components[0].unknown = BTreeMap::from([("weight".to_owned(), json!(5))]);
    let after = status(Some(&before), &record, &said, at(6));
    assert_eq!(
        serde_json::to_value(&after.components).unwrap(),
        json!([{"name": "api", "phase": "Failed", "level": 2, "deployRetries": 5, "weight": 5,
            "deployingSince": "1970-01-01T00:01:40Z", "lastFailureReason": "ImagePull",
            "message": "back-off pulling image"}])
    );
    assert_eq!(shown(&after, &record), Some(said));
}

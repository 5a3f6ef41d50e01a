//! One slice of a shared component, told step by step, and the shared component's own answers.

use petri_machines::{
    component::{self, ATTEMPTS_MAX, Planned as Workload, Readiness},
    job::{Attempt, JobFailure, JobState, JobView, Op},
    kernel::{Machine, Outbox, Seen, Timestamp, seen::Ignorance},
    names::{ComponentName, Digest, EnvironmentName, JobName, SharedName, Uid},
    reason::FailureReason,
    shared::{self, Abandoned, Cleanup, Consumer, Owed, Plan, Refused, Roster, Shared},
    slice::{Command, Obligation, Permission, Phase, Planned, Record, Slice, Standing, View, World},
};
use std::collections::BTreeSet;

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn db() -> ComponentName {
    ComponentName::new("db").unwrap()
}

fn pg() -> SharedName {
    SharedName::new("pg").unwrap()
}

fn consumer(of: &str) -> Consumer {
    Consumer {
        uid: uid(of),
        environment: EnvironmentName::new(format!("env-{of}")).unwrap(),
        component: db(),
        since: Timestamp(1),
    }
}

fn roster(of: &[&str]) -> Roster {
    Roster { consumers: of.iter().map(|one| consumer(one)).collect(), abandoned: Vec::new() }
}

fn standing(roster: Roster, ready: bool) -> Standing {
    Standing::There {
        uid: uid("shared"),
        version: "7".to_owned(),
        deleting: false,
        ready,
        why: "0 of 1 replicas".to_owned(),
        capacity: Some(1),
        roster,
        queue: Vec::new(),
    }
}

fn world(standing: Standing) -> World {
    World {
        now: Timestamp(1000),
        pod_failure_secs: 300,
        consumer: uid("e1"),
        component: db(),
        permission: Permission::Admitted,
        after: None,
        has_namespace: true,
        plan: Some(Planned { shared: pg(), level: 0, payload: Some(Digest::of(&["v1"])), provisions: true }),
        next_serial: 4,
        view: Some(View {
            shared: pg(),
            standing: Seen::Known(standing),
            obligation: Seen::Known(None),
            binding: Seen::Known(None),
            jobs: Seen::Known(Vec::new()),
        }),
    }
}

fn obligation() -> Obligation {
    Obligation { uid: uid("o"), shared: pg(), payload: Some(Digest::of(&["v1"])), deprovisions: true }
}

fn view(world: &mut World) -> &mut View {
    world.view.as_mut().unwrap()
}

fn job(op: Op, serial: u64, uid_of: &str, state: JobState) -> JobView {
    let name = JobName::new(format!("petri-{}-{serial}", op.as_str())).unwrap();
    JobView { name, uid: uid(uid_of), serial, op, state, deleting: false, payload: None }
}

fn broken() -> JobState {
    let message = "role exists".to_owned();
    JobState::Failed(JobFailure { reason: FailureReason::HelmFailed, message, disrupted: false })
}

/// A slice stepped alone, as its environment steps it.
#[derive(Clone, Debug, PartialEq)]
struct Alone;

impl Machine for Alone {
    type Phase = Record;
    type World = World;
    type Command = Command;
    type Notice = petri_machines::slice::Notice;
    type Status = ();
    const VERSION: u32 = 1;

    fn dispatch(record: Record, world: &World, out: &mut Outbox<Command, Self::Notice>) -> Record {
        Slice::dispatch(record, world, out)
    }

    fn status(_: &petri_machines::kernel::machine::StepOf<Self>, _: &World) {}

    fn is_watched(_: &Command) -> bool {
        true
    }
}

/// Steps once: the phase, the commands by name, and what is awaited.
fn check(record: &Record, world: &World, phase: &str, commands: &[&str], waits: &str) -> Record {
    let step = Alone::step(record.clone(), world).unwrap();
    let named = |command: &Command| format!("{command:?}").split([' ', '(']).next().unwrap().to_owned();
    let found: Vec<String> = step.commands.iter().map(named).collect();
    let waiting = step.waiting_on.map(|waiting| format!("{}: {}", waiting.what, waiting.detail));
    assert_eq!(
        (step.phase.phase.name(), found),
        (phase, commands.iter().map(|one| (*one).to_owned()).collect())
    );
    assert!(waiting.clone().unwrap_or_default().contains(waits), "{waiting:?}");
    step.phase
}

fn fresh() -> Record {
    Record::new(pg(), 0)
}

fn with(phase: Phase) -> Record {
    Record { phase, ..fresh() }
}

#[test]
fn a_place_comes_first_then_the_obligation_then_the_binding_then_the_job() {
    let mut at = world(standing(roster(&[]), true));
    check(&fresh(), &at, "Pending", &["Register"], "");
    view(&mut at).standing = Seen::Known(standing(roster(&["e1"]), true));
    check(&fresh(), &at, "Pending", &["Oblige"], "");
    let older = Obligation { payload: Some(Digest::of(&["v0"])), ..obligation() };
    view(&mut at).obligation = Seen::Known(Some(older));
    check(&fresh(), &at, "Pending", &["Oblige"], "");
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    check(&fresh(), &at, "Pending", &["Bind"], "");
    view(&mut at).binding = Seen::Known(Some(uid("b")));
    check(&fresh(), &at, "Provisioning", &["CreateJob"], "");
}

#[test]
fn scenario_116_a_provider_without_a_provision_script_makes_no_job() {
    let mut at = world(standing(roster(&["e1"]), true));
    at.plan = at.plan.map(|plan| Planned { provisions: false, ..plan });
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    view(&mut at).binding = Seen::Known(Some(uid("b")));
    check(&fresh(), &at, "Provisioned", &[], "");
}

#[test]
fn scenario_117_a_shared_component_that_is_not_ready_is_waited_for_and_charges_nothing() {
    let at = world(standing(roster(&["e1"]), false));
    let after = check(&fresh(), &at, "Pending", &[], "SharedComponent pg is not ready: 0 of 1 replicas");
    assert_eq!(after, fresh());
    check(&fresh(), &world(Standing::Absent), "Pending", &[], "SharedComponent pg does not exist");
}

#[test]
fn at_capacity_the_holders_are_named_and_the_oldest_goes_first() {
    let mut at = world(standing(roster(&["e2"]), true));
    check(&fresh(), &at, "Pending", &[], "all 1 places are taken by env-e2/db");
    let mut free = standing(roster(&[]), true);
    if let Standing::There { queue, .. } = &mut free {
        queue.push(EnvironmentName::new("older").unwrap());
    }
    view(&mut at).standing = Seen::Known(free);
    check(&fresh(), &at, "Pending", &[], "older came earlier");
}

#[test]
fn places_are_taken_in_one_order_so_that_no_two_wait_for_each_other() {
    let mut at = world(standing(roster(&[]), true));
    at.after = SharedName::new("aa").ok();
    check(&fresh(), &at, "Pending", &[], "a place at another shared component first: aa");
    view(&mut at).standing = Seen::Known(standing(roster(&["e1"]), true));
    check(&fresh(), &at, "Pending", &["Oblige"], "");
}

#[test]
fn scenario_126_the_end_of_a_replaced_job_is_nobody_s_end() {
    let mut at = world(standing(roster(&["e1"]), true));
    let record = with(Phase::Provisioning { attempt: Attempt { serial: 4, job: Some(uid("mine")) } });
    view(&mut at).jobs = Seen::Known(vec![job(Op::Provision, 4, "mine", JobState::Active { waiting: None })]);
    check(&record, &at, "Provisioning", &[], "the provision Job to end");
    view(&mut at).jobs = Seen::Known(vec![job(Op::Provision, 4, "another", JobState::Succeeded)]);
    let after = check(&record, &at, "Pending", &[], "the pause");
    assert_eq!((after.provision_attempts, after.accepted), (1, None));
}

#[test]
fn scenario_160_a_failed_provision_is_charged_once_and_five_of_them_are_the_end() {
    let mut at = world(standing(roster(&["e1"]), true));
    let attempt = Attempt { serial: 4, job: Some(uid("j")) };
    view(&mut at).jobs = Seen::Known(vec![job(Op::Provision, 4, "j", broken())]);
    let once =
        check(&with(Phase::Provisioning { attempt: attempt.clone() }), &at, "Pending", &[], "the pause");
    assert_eq!(once.provision_attempts, 1);
    let last = Record { provision_attempts: ATTEMPTS_MAX - 1, ..with(Phase::Provisioning { attempt }) };
    check(&last, &at, "Failed", &[], "");
}

#[test]
fn scenario_165_the_fifth_failed_deprovision_is_written_down_and_keeps_obligation_job_and_place() {
    let mut at = world(standing(roster(&["e1"]), true));
    at.permission = Permission::Leaving;
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    view(&mut at).jobs = Seen::Known(vec![job(Op::Deprovision, 4, "j", broken())]);
    let attempt = Attempt { serial: 4, job: Some(uid("j")) };
    let last = Record { deprovision_attempts: ATTEMPTS_MAX - 1, ..with(Phase::Deprovisioning { attempt }) };
    let forced = check(&last, &at, "Releasing", &["Abandon"], "");
    let Consumer { uid, environment, component, since } = consumer("e1");
    let told = Abandoned { uid, environment, component, at: since, reason: "role exists".to_owned() };
    view(&mut at).standing = Seen::Known(standing(roster(&["e1"]).abandon(told), true));
    check(&forced, &at, "Gone", &[], "");
    check(&with(Phase::Provisioned), &at, "Gone", &[], "");
}

#[test]
fn shr_07_what_was_owed_goes_after_its_outcome_and_the_place_goes_last() {
    let mut at = world(standing(roster(&["e1"]), true));
    at.permission = Permission::Leaving;
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    let leaving = check(&with(Phase::Provisioned), &at, "Deprovisioning", &["CreateJob"], "");
    view(&mut at).jobs = Seen::Known(vec![job(Op::Deprovision, 4, "j", JobState::Succeeded)]);
    let met = check(&leaving, &at, "Releasing", &["Acquit"], "");
    view(&mut at).obligation = Seen::Known(None);
    check(&met, &at, "Releasing", &["DeleteJob"], "");
    view(&mut at).jobs = Seen::Known(Vec::new());
    check(&met, &at, "Releasing", &["Release"], "");
    view(&mut at).standing = Seen::Known(standing(roster(&[]), true));
    check(&met, &at, "Gone", &[], "");
}

#[test]
fn shr_10_deprovisioning_needs_neither_plan_nor_shared_component() {
    let mut at = world(Standing::Absent);
    (at.permission, at.plan) = (Permission::Leaving, None);
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    check(&with(Phase::Provisioned), &at, "Deprovisioning", &["CreateJob"], "");
}

#[test]
fn an_obligation_that_could_not_be_read_is_neither_met_nor_none() {
    let mut at = world(standing(roster(&["e1"]), true));
    at.permission = Permission::Leaving;
    view(&mut at).obligation = Seen::Unknown(Ignorance::Failed);
    let step = Alone::step(with(Phase::Provisioned), &at).unwrap();
    assert_eq!(step.commands, vec![]);
    assert_ne!(step.phase.phase.name(), "Releasing");
}

#[test]
fn fin_13_a_running_provision_job_has_its_grace_and_nothing_is_deprovisioned_beside_it() {
    let mut at = world(standing(roster(&["e1"]), true));
    at.permission = Permission::Leaving;
    view(&mut at).obligation = Seen::Known(Some(obligation()));
    view(&mut at).jobs = Seen::Known(vec![job(Op::Provision, 3, "j", JobState::Active { waiting: None })]);
    let attempt = Attempt { serial: 3, job: Some(uid("j")) };
    let draining =
        check(&with(Phase::Provisioning { attempt }), &at, "Draining", &[], "a running Job to end");
    at.now = Timestamp(1030);
    check(&draining, &at, "Draining", &["DeleteJob"], "");
}

#[test]
fn scenario_142_nobody_comes_once_the_deletion_was_seen() {
    for max in [None, Some(1)] {
        assert_eq!(roster(&[]).register(consumer("e1"), max, true), Err(Refused::Deleting));
        assert!(roster(&[]).register(consumer("e1"), max, false).is_ok());
    }
    assert_eq!(roster(&["e2"]).register(consumer("e1"), Some(1), false), Err(Refused::Full));
    assert_eq!(
        roster(&["e1"]).register(consumer("e1"), Some(1), true),
        Ok(roster(&["e1"])),
        "who is in stays in"
    );
}

fn leaving(roster: Roster) -> shared::World {
    let workload =
        Workload { level: 0, payload: Digest::of(&["chart"]), immutable: true, ready_within_secs: 900 };
    let plan = Plan {
        provider: "p".to_owned(),
        workload: Some(workload),
        instance: None,
        capacity: Some(1),
        idle_secs: None,
    };
    shared::World {
        now: Timestamp(1000),
        pod_failure_secs: 300,
        identity: shared::Identity { uid: uid("shared"), name: pg(), generation: 1 },
        deletion: true,
        finalizer: true,
        retry: None,
        forget: None,
        intent: Seen::Known(Ok(plan)),
        providers: [("p".to_owned(), None)].into(),
        instance: Seen::Known(shared::Instance::Absent),
        jobs: Seen::Known(Vec::new()),
        readiness: Seen::Known(Readiness::Ready),
        roster,
        obligations: Seen::Known(Vec::new()),
        living: Seen::Known(BTreeSet::new()),
    }
}

fn commands(world: &shared::World) -> Vec<shared::Command> {
    Shared::step(shared::Record::default(), world).unwrap().commands
}

#[test]
fn scenarios_136_and_137_a_consumer_that_lives_or_a_list_that_failed_holds_a_shared_component() {
    let drop = vec![shared::Command::Cleanup(Cleanup::DropFinalizer)];
    assert_eq!(commands(&leaving(roster(&[]))), drop);
    let mut lives = leaving(roster(&["e1"]));
    lives.living = Seen::Known([uid("e1")].into());
    assert_eq!(commands(&lives), []);
    let mut blind = leaving(roster(&[]));
    blind.obligations = Seen::Unknown(Ignorance::Failed);
    assert_eq!(commands(&blind), []);
    let provider = |others| {
        let version = "3".to_owned();
        shared::Provider { uid: uid("p"), version, deleting: false, finalizer: true, others }
    };
    let mut used = leaving(roster(&[]));
    let mut holds = shared::Record::default();
    holds.memory.providers.insert("p".to_owned());
    let commands_of = |world: &shared::World| Shared::step(holds.clone(), world).unwrap().commands;
    used.providers = [("p".to_owned(), Some(provider(true)))].into();
    assert_eq!(commands_of(&used), drop, "another one needs the provider");
    used.providers = [("p".to_owned(), Some(provider(false)))].into();
    let released = commands_of(&used);
    assert!(
        matches!(released[..], [shared::Command::Cleanup(Cleanup::ReleaseProvider(_))]),
        "nobody else needs it: {released:?}"
    );
    // The list is rebuilt from what is owed: a status that was erased frees no place.
    let mut owed = leaving(roster(&[]));
    let Consumer { uid, environment, component, since } = consumer("e1");
    owed.obligations = Seen::Known(vec![Owed { secret: self::uid("o"), uid, environment, component, since }]);
    assert_eq!(commands(&owed), []);
    assert_eq!(shared::roster(&owed).consumers, [consumer("e1")]);
}

#[test]
fn no_job_is_left_of_a_shared_component_that_is_gone() {
    let phase = shared::Phase::Terminating { cleaned: true };
    let record = shared::Record { phase, ..Default::default() };
    let commands_of = |world: &shared::World| Shared::step(record.clone(), world).unwrap().commands;
    let mut last = job(Op::Undeploy, 2, "j2", JobState::Succeeded);
    last.payload = Some(uid("s2"));
    let mut world = leaving(roster(&[]));
    world.jobs = Seen::Known(vec![last.clone()]);
    let payload = Cleanup::DeletePayload { name: last.name.clone(), uid: uid("s2") };
    let itself = Cleanup::DeleteJob { name: last.name.clone(), uid: uid("j2") };
    assert_eq!(commands_of(&world), [payload, itself].map(shared::Command::Cleanup));
    last.deleting = true;
    world.jobs = Seen::Known(vec![last]);
    assert_eq!(commands_of(&world), [], "its pod goes first");
    world.jobs = Seen::Unknown(Ignorance::Failed);
    assert_eq!(commands_of(&world), [], "nobody knows");
    world.jobs = Seen::Known(Vec::new());
    assert_eq!(commands_of(&world), [shared::Command::Cleanup(Cleanup::DropFinalizer)]);
}

/// The phase that a new shared component rests in, whose generated secret is not there.
fn without_its_secret(consumers: &[&str], owed: Seen<Vec<Owed>>) -> &'static str {
    let mut world = leaving(roster(consumers));
    (world.deletion, world.obligations) = (false, owed);
    world.living = Seen::Known(consumers.iter().map(|of| uid(of)).collect());
    let (version, others) = ("1".to_owned(), false);
    let provider = shared::Provider { uid: uid("p"), version, deleting: false, finalizer: true, others };
    world.providers.insert("p".to_owned(), Some(provider));
    if let Seen::Known(Ok(plan)) = &mut world.intent {
        plan.instance = Some(shared::InstancePlan { name: "admin".to_owned(), generates: true });
        plan.workload = None;
    }
    Shared::step(shared::Record::default(), &world).unwrap().phase.phase.name()
}

#[test]
fn who_came_before_the_secret_was_made_has_not_lost_it_and_who_is_owed_to_has() {
    assert_eq!(without_its_secret(&["e1"], Seen::Known(Vec::new())), "Pending");
    let Consumer { uid, environment, component, since } = consumer("e1");
    let owed = vec![Owed { secret: self::uid("o"), uid, environment, component, since }];
    assert_eq!(without_its_secret(&["e1"], Seen::Known(owed)), "Failed");
    assert_eq!(without_its_secret(&["e1"], Seen::Unknown(Ignorance::Failed)), "Pending");
}

#[test]
fn a_workload_is_not_unused_while_nobody_can_tell_to_whom_is_owed() {
    let mut world = leaving(roster(&[]));
    (world.deletion, world.obligations) = (false, Seen::Unknown(Ignorance::Failed));
    let Seen::Known(Ok(plan)) = &mut world.intent else { panic!("the plan is known") };
    plan.idle_secs = Some(0);
    let workload = Some(component::Record { phase: component::Phase::Ready, ..component::Record::new(0) });
    let phase = shared::Phase::Ready { plan: plan.digest().unwrap() };
    let ready = shared::Record { phase, memory: shared::Memory { workload, ..Default::default() } };
    let step = Shared::step(ready.clone(), &world).unwrap();
    assert_eq!((step.phase.phase, step.commands), (ready.phase, Vec::new()));
}

#[test]
fn an_idle_time_of_nothing_is_over_in_the_step_that_sees_nobody() {
    let mut world = leaving(roster(&[]));
    (world.deletion, world.obligations) = (false, Seen::Known(Vec::new()));
    let Seen::Known(Ok(plan)) = &mut world.intent else { panic!("the plan is known") };
    plan.idle_secs = Some(0);
    let ready = shared::Record {
        phase: shared::Phase::Ready { plan: plan.digest().unwrap() },
        memory: shared::Memory { workload: Some(component::Record::new(0)), ..Default::default() },
    };
    let step = Shared::step(ready, &world).unwrap();
    let again = Shared::step(step.phase.clone(), &world).unwrap();
    assert_eq!((&step.phase, again.notices), (&again.phase, Vec::new()));
    assert_eq!(step.phase.phase.name(), "Pending");
}

//! The life of one environment, told step by step: the world answers each command at once.

use petri_machines::{
    component::{ATTEMPTS_MAX, Readiness},
    environment::{
        Access, Blueprint, Cleanup, Command, ComponentPhase, ComponentView, ConditionType, Environment,
        FurnitureId, FurnitureKind, Identity, Invalid, NamespaceRef, Namespaces, Notice, Occupancy, Plan,
        Reason, Record, Route, SharedBlueprint, Standing, Truth, World,
    },
    job::{Complaint, JobFailure, JobState, JobView, Op},
    kernel::{Machine as _, Seen, Timestamp, WakeReason},
    names::{ComponentName, Digest, EnvironmentName, JobName, NamespaceName, SharedName, Uid},
    reason::FailureReason,
    shared::Roster,
    slice,
};

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn name(text: &str) -> ComponentName {
    ComponentName::new(text).unwrap()
}

fn unready(why: &str, cause: Option<FailureReason>) -> Readiness {
    Readiness::Unready { why: why.to_owned(), cause }
}

/// `a; b<-a` with the payload of every component made from `values`.
fn plan(graph: &str, values: &str) -> Plan {
    let blueprint = |part: &str| {
        let (one, needs) = part.split_once("<-").unwrap_or((part, ""));
        Blueprint {
            name: name(one.trim()),
            depends_on: needs.split_whitespace().map(name).collect(),
            payload: Digest::of(&[one.trim(), values]),
            immutable: true,
            ready_within_secs: 900,
        }
    };
    Plan::new(&graph.split(';').map(blueprint).collect::<Vec<_>>()).unwrap()
}

struct Life {
    record: Record,
    world: World,
    made: u64,
    log: Vec<String>,
}

impl Life {
    fn new(graph: &str) -> Self {
        let world = World {
            now: Timestamp(1000),
            pod_failure_secs: 300,
            identity: Identity {
                uid: uid("env-uid"),
                name: EnvironmentName::new("demo").unwrap(),
                generation: 1,
            },
            deletion: false,
            finalizer: false,
            held: false,
            retry: None,
            expires_at: None,
            expiring_at: None,
            intent: Seen::Known(Ok(plan(graph, "v1"))),
            namespaces: Namespaces {
                assigned: Seen::Known(vec![]),
                occupancy: candidates().into_iter().map(|name| (name, Occupancy::Absent)).collect(),
                access: Seen::Known(Access::default()),
            },
            components: Default::default(),
            slices: Seen::Known(Default::default()),
            furniture: Default::default(),
        };
        Self { record: Record::default(), world, made: 0, log: Vec::new() }
    }

    /// Steps once, stores, and lets the world obey. Returns whether anything happened.
    fn step(&mut self) -> bool {
        let planned = self.world.intent.known().and_then(|intent| intent.as_ref().ok());
        let names =
            planned.into_iter().flat_map(|plan| &plan.components).map(|component| component.name.clone());
        for name in names.collect::<Vec<_>>() {
            self.world.components.entry(name).or_insert_with(|| ComponentView {
                jobs: Seen::Known(vec![]),
                readiness: Seen::Known(unready("no replicas", None)),
            });
        }
        let step = Environment::step(self.record.clone(), &self.world).unwrap();
        let again = Environment::step(step.phase.clone(), &self.world).unwrap();
        assert_eq!((&again.phase, &again.commands), (&step.phase, &step.commands), "does not settle");
        assert_eq!(again.notices, vec![], "says things twice");
        let changed = step.phase != self.record || !step.commands.is_empty();
        self.record = step.phase;
        for command in step.commands {
            self.obey(command);
        }
        changed
    }

    fn run(&mut self) {
        for _ in 0..100 {
            if !self.step() {
                return;
            }
        }
        panic!("never rests: {:?}", self.record);
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::AddFinalizer => self.world.finalizer = true,
            Command::CreateNamespace { name } => {
                self.made += 1;
                let ours = Occupancy::Ours { uid: uid("ns-uid"), terminating: false, blocked: None };
                self.world.namespaces.occupancy.insert(name.clone(), ours);
                self.world.namespaces.assigned = Seen::Known(vec![name]);
            }
            Command::BindOperator(_) => self.access(|access| access.operator = true),
            Command::CreateDeployerAccount(_) => self.access(|access| access.account = true),
            Command::BindDeployer(_) => self.access(|access| access.deployer = true),
            Command::CreatePayload { .. } => {}
            Command::Furnish { item, digest, .. } => {
                self.log.push(format!("furnish {item}"));
                let there = Standing::There { uid: uid("f"), digest: Some(digest), published: true };
                self.world.furniture.insert(item, there);
            }
            Command::Cleanup(Cleanup::Unfurnish { item, .. }) => {
                self.log.push(format!("remove {item}"));
                self.world.furniture.insert(item, Standing::Absent);
            }
            Command::CreateJob { component, serial, .. } => self.create(&component, Op::Deploy, serial),
            Command::Cleanup(Cleanup::CreateUndeployJob { component, serial, .. }) => {
                self.create(&component, Op::Undeploy, serial);
            }
            Command::Cleanup(Cleanup::DeleteJob { uid, .. }) => {
                for view in self.world.components.values_mut() {
                    let Seen::Known(jobs) = &mut view.jobs else { continue };
                    jobs.retain(|job| job.uid != uid);
                }
            }
            Command::Cleanup(Cleanup::DeletePayload { .. }) => {}
            Command::Cleanup(Cleanup::DeleteNamespace(NamespaceRef { name, .. })) => {
                self.log.push("delete namespace".to_owned());
                self.world.namespaces.occupancy.insert(name, Occupancy::Absent);
                self.world.namespaces.assigned = Seen::Known(vec![]);
            }
            Command::Cleanup(Cleanup::DropFinalizer) => self.world.finalizer = false,
            Command::Share(_) | Command::Cleanup(Cleanup::Unshare(_)) => {
                unreachable!("no shared component is in these plans")
            }
            Command::Cleanup(Cleanup::DeleteSelf) => self.world.deletion = true,
        }
    }

    fn access(&mut self, grant: impl Fn(&mut Access)) {
        let Seen::Known(access) = &mut self.world.namespaces.access else { panic!("unknown") };
        grant(access);
    }

    fn create(&mut self, component: &ComponentName, op: Op, serial: u64) {
        self.made += 1;
        self.log.push(format!("{} {component}", op.as_str()));
        let job = JobView {
            name: JobName::of(&uid("env-uid"), &self.world.identity.name, component, op, serial),
            uid: uid(&format!("job-{}", self.made)),
            serial,
            op,
            state: JobState::Active { waiting: None },
            deleting: false,
            payload: None,
        };
        let view = self.world.components.get_mut(component).unwrap();
        let Seen::Known(jobs) = &mut view.jobs else { panic!("unknown") };
        assert!(
            jobs.iter().all(|job| !matches!(job.state, JobState::Active { .. })),
            "two live Jobs: {jobs:?}"
        );
        jobs.push(job);
    }

    /// Ends every running Job like this, and makes its workload ready.
    fn end_jobs(&mut self, state: &JobState) {
        for view in self.world.components.values_mut() {
            view.readiness = Seen::Known(Readiness::Ready);
            let Seen::Known(jobs) = &mut view.jobs else { continue };
            for job in jobs.iter_mut().filter(|job| matches!(job.state, JobState::Active { .. })) {
                job.state = state.clone();
            }
        }
    }

    /// Lets the pods of the live Jobs complain.
    fn complain(&mut self, reason: FailureReason, message: &str) {
        let complaint = Complaint { reason, message: message.to_owned() };
        for view in self.world.components.values_mut() {
            let Seen::Known(jobs) = &mut view.jobs else { continue };
            for job in jobs.iter_mut().filter(|job| matches!(job.state, JobState::Active { .. })) {
                job.state = JobState::Active { waiting: Some(complaint.clone()) };
            }
        }
    }

    fn shown(&self) -> (Option<FailureReason>, u8, String) {
        let step = Environment::step(self.record.clone(), &self.world).unwrap();
        let component = Environment::status(&step, &self.world).components.remove(0);
        (component.last_failure_reason, component.deploy_retries, component.message)
    }

    fn live(&self) -> usize {
        let jobs = self.world.components.values().filter_map(|view| view.jobs.known()).flatten();
        jobs.filter(|job| matches!(job.state, JobState::Active { .. })).count()
    }

    fn run_with(&mut self, end: &JobState) {
        for _ in 0..100 {
            self.run();
            if self.live() == 0 {
                return;
            }
            self.end_jobs(end);
        }
    }

    fn phase(&self) -> &'static str {
        self.record.phase.name()
    }

    fn reason(&self) -> Reason {
        self.condition(ConditionType::Ready).1
    }

    fn condition(&self, kind: ConditionType) -> (Truth, Reason) {
        let step = Environment::step(self.record.clone(), &self.world).unwrap();
        let status = Environment::status(&step, &self.world);
        let found = status.conditions.into_iter().find(|condition| condition.kind == kind).unwrap();
        (found.truth, found.reason)
    }
}

fn candidates() -> Vec<NamespaceName> {
    NamespaceName::candidates(&uid("env-uid"))
}

fn broken(reason: FailureReason) -> JobState {
    JobState::Failed(JobFailure { reason, message: "boom".to_owned(), disrupted: false })
}

#[test]
fn scenarios_84_101_a_chain_is_deployed_in_order_and_undeployed_in_reverse() {
    let mut life = Life::new("a; b<-a; c<-b");
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.phase(), "Ready");
    assert_eq!(life.condition(ConditionType::Ready), (Truth::True, Reason::Ready));
    life.world.deletion = true;
    life.run_with(&JobState::Succeeded);
    let expected =
        ["deploy a", "deploy b", "deploy c", "undeploy c", "undeploy b", "undeploy a", "delete namespace"];
    assert_eq!(life.log, expected);
    assert!(!life.world.finalizer);
}

#[test]
fn at_most_four_components_of_a_level_are_worked_on_at_once() {
    let mut life = Life::new("a; b; c; d; e; f");
    life.run();
    assert_eq!(life.live(), 4);
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.len()), ("Ready", 6));
}

#[test]
fn scenario_64_the_first_free_candidate_is_taken_and_kept() {
    let mut life = Life::new("a");
    for name in candidates().into_iter().take(2) {
        life.world.namespaces.occupancy.insert(name, Occupancy::Foreign);
    }
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.record.memory.binding.name(), candidates().get(2));
    life.world.namespaces.occupancy.insert(candidates().remove(0), Occupancy::Absent);
    life.run();
    assert_eq!(life.record.memory.binding.name(), candidates().get(2));
}

#[test]
fn scenario_105_a_component_is_given_up_after_five_attempts_with_a_growing_pause() {
    let mut life = Life::new("a");
    for attempt in 1..=ATTEMPTS_MAX {
        life.run();
        assert_eq!(life.live(), 1, "attempt {attempt}");
        life.end_jobs(&broken(FailureReason::HelmFailed));
        life.run();
        assert_eq!(life.live(), 0, "no Job before the pause is over");
        life.world.now = life.world.now.after(600);
    }
    life.run();
    assert_eq!((life.phase(), life.reason(), life.live()), ("Failed", Reason::DeployFailed, 0));
    life.world.deletion = true;
    life.run_with(&JobState::Succeeded);
    assert!(!life.world.finalizer);
}

#[test]
fn a_permanent_reason_fails_at_once_and_a_new_plan_heals_it() {
    let mut life = Life::new("a");
    life.run();
    life.end_jobs(&broken(FailureReason::ChartNotFound));
    life.run();
    assert_eq!((life.phase(), life.reason()), ("Failed", Reason::DeployFailed));
    life.world.intent = Seen::Known(Ok(plan("a", "v2")));
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.phase(), "Ready");
}

#[test]
fn job_05_a_disrupted_attempt_is_not_charged() {
    let mut life = Life::new("a");
    for _ in 0..10 {
        life.run();
        let disrupted =
            JobFailure { reason: FailureReason::HelmFailed, message: "evicted".to_owned(), disrupted: true };
        life.end_jobs(&JobState::Failed(disrupted));
        life.run();
        life.world.now = life.world.now.after(600);
    }
    assert_eq!(life.record.memory.components[&name("a")].deploy_attempts, 0);
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    let shown = &Environment::status(&step, &life.world).components[0].message;
    assert!(!shown.contains("attempt 0"), "{shown}");
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.phase(), "Ready");
}

#[test]
fn peer_02_a_new_plan_says_not_ready_at_once_and_runs_only_what_changed() {
    let mut life = Life::new("a; b<-a");
    life.run_with(&JobState::Succeeded);
    let jobs = life.log.len();
    life.world.identity.generation = 2;
    life.run();
    assert_eq!((life.phase(), life.log.len()), ("Ready", jobs), "an equal plan is no rollout");
    life.world.intent = Seen::Known(Ok(plan("a; b<-a", "v2")));
    life.step();
    assert_eq!(life.condition(ConditionType::Ready), (Truth::False, Reason::Progressing));
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.len()), ("Ready", jobs + 2));
}

#[test]
fn scenarios_172_and_173_a_rollout_begins_its_own_clock_and_says_each_transition_once() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    life.world.now = life.world.now.after(1000);
    life.world.intent = Seen::Known(Ok(plan("a", "v2")));
    let began = life.world.now;
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    let moves = |step: &[Notice]| step.iter().filter(|one| matches!(one, Notice::Moved { .. })).count();
    let rollout = step.phase.memory.history.last().unwrap();
    assert_eq!((rollout.started_at, rollout.ended_at, moves(&step.notices)), (began, None, 1));
    let again = Environment::step(step.phase.clone(), &life.world).unwrap();
    assert_eq!((&again.phase.memory.history, moves(&again.notices)), (&step.phase.memory.history, 0));
}

#[test]
fn a_retry_token_runs_the_whole_graph_again_once() {
    let mut life = Life::new("a; b<-a");
    life.run_with(&JobState::Succeeded);
    life.world.retry = Some("again".to_owned());
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.len()), ("Ready", 4));
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.log.len(), 4);
}

#[test]
fn scenario_96_an_invalid_input_makes_nothing_and_heals_by_itself() {
    let mut life = Life::new("a");
    let invalid = |reason| Seen::Known(Err(Invalid { reason, message: "no".to_owned() }));
    life.world.intent = invalid(Reason::InvalidTTL);
    life.run();
    assert_eq!((life.phase(), life.reason(), life.made), ("Failed", Reason::InvalidTTL, 0));
    life.world.intent = invalid(Reason::TemplateNotFound);
    life.run();
    assert_eq!(life.reason(), Reason::TemplateNotFound);
    life.world.intent = Seen::Known(Ok(plan("a", "v1")));
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.phase(), "Ready");
}

#[test]
fn ns_06_ns_09_a_namespace_deleted_by_hand_is_said_and_the_deletion_still_ends() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    let bound = life.record.memory.binding.name().unwrap().clone();
    life.world.namespaces.occupancy.insert(bound, Occupancy::Absent);
    life.world.namespaces.assigned = Seen::Known(vec![]);
    life.run();
    assert_eq!((life.phase(), life.reason()), ("Failed", Reason::NamespaceLost));
    life.world.deletion = true;
    life.run();
    assert!(!life.world.finalizer && !life.log.contains(&"delete namespace".to_owned()));
}

#[test]
fn ns_09_a_namespace_that_is_being_deleted_is_said_at_once_and_no_job_is_made_in_it() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    let bound = life.record.memory.binding.name().unwrap().clone();
    let going = Occupancy::Ours { uid: uid("ns-uid"), terminating: true, blocked: None };
    life.world.namespaces.occupancy.insert(bound, going);
    life.world.retry = Some("again".to_owned());
    let jobs = life.log.len();
    life.run();
    assert_eq!((life.phase(), life.reason()), ("Failed", Reason::NamespaceLost));
    assert_eq!(life.log.len(), jobs, "{:?}", life.log);
}

#[test]
fn in_a_namespace_that_goes_by_itself_no_undeploy_job_is_made() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    let bound = life.record.memory.binding.name().unwrap().clone();
    let going = Occupancy::Ours { uid: uid("ns-uid"), terminating: true, blocked: None };
    life.world.namespaces.occupancy.insert(bound, going);
    life.world.deletion = true;
    life.run();
    assert!(!life.log.contains(&"undeploy a".to_owned()), "{:?}", life.log);
}

#[test]
fn peer_04_a_foreign_namespace_is_never_touched() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    let bound = life.record.memory.binding.name().unwrap().clone();
    life.world.namespaces.occupancy.insert(bound, Occupancy::Foreign);
    life.run();
    assert_eq!(life.reason(), Reason::NamespaceNotManaged);
    life.world.deletion = true;
    life.run();
    assert!(!life.world.finalizer && !life.log.contains(&"delete namespace".to_owned()));
}

#[test]
fn a_lost_record_finds_its_namespace_and_its_serials_again() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    let (bound, serial) = (life.record.memory.binding.clone(), life.record.memory.serial);
    life.record = Record::default();
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), &life.record.memory.binding), ("Ready", &bound));
    assert!(life.record.memory.serial > serial);
    life.record = Record::default();
    life.world.deletion = true;
    life.run_with(&JobState::Succeeded);
    assert!(life.log.ends_with(&["undeploy a".to_owned(), "delete namespace".to_owned()]), "{:?}", life.log);
}

#[test]
fn ttl_03_an_expired_environment_deletes_itself_unless_it_is_held() {
    let mut life = Life::new("a");
    life.world.expires_at = Some(Timestamp(2000));
    life.run_with(&JobState::Succeeded);
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    assert_eq!(step.wake.unwrap().at, Timestamp(2000));
    life.world.now = Timestamp(2000);
    life.world.held = true;
    life.run();
    assert_eq!(life.phase(), "Ready");
    life.world.held = false;
    life.run_with(&JobState::Succeeded);
    assert!(life.world.deletion && !life.world.finalizer);
}

#[test]
fn a_running_job_gets_thirty_seconds_when_its_environment_goes() {
    let mut life = Life::new("a");
    life.run();
    life.world.deletion = true;
    life.run();
    assert_eq!(life.log, ["deploy a"]);
    life.world.now = life.world.now.after(30);
    life.run();
    assert_eq!(life.log, ["deploy a", "undeploy a"]);
}

#[test]
fn scenario_113_undeploying_is_given_up_after_five_attempts_visibly() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    life.world.deletion = true;
    for _ in 0..ATTEMPTS_MAX {
        assert!(life.world.finalizer);
        life.run();
        life.end_jobs(&broken(FailureReason::HookFailed));
        life.step();
        life.world.now = life.world.now.after(600);
    }
    assert_eq!(life.condition(ConditionType::CleanupForced), (Truth::True, Reason::AttemptsExhausted));
    life.run();
    assert!(!life.world.finalizer);
}

#[test]
fn a_component_that_left_the_template_is_undeployed() {
    let mut life = Life::new("a; b");
    life.run_with(&JobState::Succeeded);
    life.world.intent = Seen::Known(Ok(plan("a", "v1")));
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.last().unwrap().as_str()), ("Ready", "undeploy b"));
    assert_eq!(life.record.memory.components.len(), 1);
}

#[test]
fn scenario_122_a_slow_workload_is_charged_one_attempt_when_its_time_is_over() {
    let mut life = Life::new("a; b");
    life.run();
    life.end_jobs(&JobState::Succeeded);
    let slow = Seen::Known(unready("0 of 1 replicas", None));
    life.world.components.get_mut(&name("a")).unwrap().readiness = slow;
    life.run();
    life.world.now = life.world.now.after(900);
    life.run();
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    let status = Environment::status(&step, &life.world);
    let shown: Vec<_> =
        status.components.iter().map(|c| (c.phase, c.deploy_retries, c.deploying_since)).collect();
    assert_eq!(shown, [(ComponentPhase::Pending, 1, None), (ComponentPhase::Ready, 0, None)]);
}

fn item(kind: FurnitureKind, name: &str) -> FurnitureId {
    FurnitureId { kind, name: name.to_owned() }
}

/// One component with a quota and a route, and a world in which neither stands yet.
fn furnished(route: FurnitureKind) -> Life {
    let (quota, route) = (item(FurnitureKind::ResourceQuota, "petri"), item(route, "petri"));
    let mut life = Life::new("a");
    for id in [&quota, &route] {
        life.world.furniture.insert(id.clone(), Standing::Absent);
    }
    let furniture = [(quota, Digest::of(&["quota"])), (route.clone(), Digest::of(&["route"]))];
    let route = Route { item: route, url: "http://demo.example.com".to_owned() };
    life.world.intent = Seen::Known(Ok(plan("a", "v1").with_furniture(furniture.into(), Some(route))));
    life
}

fn url(life: &Life) -> Option<String> {
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    Environment::status(&step, &life.world).url
}

#[test]
fn quota_stands_from_the_first_job_until_deletion_and_the_route_comes_last_and_goes_before_the_namespace() {
    let mut life = furnished(FurnitureKind::Ingress);
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.phase(), "Ready");
    assert_eq!(url(&life).as_deref(), Some("http://demo.example.com"));
    life.world.deletion = true;
    assert_eq!(url(&life), None);
    life.run_with(&JobState::Succeeded);
    let expected = [
        "furnish ResourceQuota/petri",
        "deploy a",
        "furnish Ingress/petri",
        "remove ResourceQuota/petri",
        "undeploy a",
        "remove Ingress/petri",
        "delete namespace",
    ];
    assert_eq!(life.log, expected);
    assert!(!life.world.finalizer);
}

#[test]
fn nothing_is_deployed_and_nothing_removed_while_the_furniture_cannot_be_read() {
    let mut life = furnished(FurnitureKind::Ingress);
    life.world.furniture.clear();
    life.run();
    assert_eq!((life.phase(), life.log.len()), ("Deploying", 0));
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    assert!(step.wake.is_some(), "nobody would look again");
    life.world.furniture.insert(item(FurnitureKind::ResourceQuota, "petri"), Standing::Absent);
    life.world.furniture.insert(item(FurnitureKind::Ingress, "petri"), Standing::Absent);
    life.run_with(&JobState::Succeeded);
    life.world.deletion = true;
    life.world.furniture.clear();
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.log.last().map(String::as_str), Some("undeploy a"), "the route may still stand");
    life.world.furniture.insert(item(FurnitureKind::Ingress, "petri"), Standing::Leaving);
    life.run();
    assert_eq!(life.log.last().map(String::as_str), Some("delete namespace"));
}

#[test]
fn an_http_route_gives_a_url_once_its_gateway_accepts_it_and_without_the_gateway_api_nothing_breaks() {
    let route = item(FurnitureKind::HttpRoute, "petri");
    let mut life = furnished(FurnitureKind::HttpRoute);
    life.world.furniture.insert(route.clone(), Standing::Unserved);
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), url(&life)), ("Ready", None));
    let there =
        |published| Standing::There { uid: uid("f"), digest: Some(Digest::of(&["route"])), published };
    life.world.furniture.insert(route.clone(), there(false));
    life.run();
    assert_eq!((life.phase(), url(&life)), ("Ready", None));
    life.world.furniture.insert(route.clone(), there(true));
    life.run();
    assert_eq!((life.phase(), url(&life).as_deref()), ("Ready", Some("http://demo.example.com")));
    assert!(life.record.memory.looks_at(life.world.intent.known().unwrap().as_ref().ok(), false).is_empty());
}

#[test]
fn furniture_that_a_new_plan_does_not_name_goes_once_the_new_plan_serves() {
    let mut life = furnished(FurnitureKind::Ingress);
    life.run_with(&JobState::Succeeded);
    life.world.intent = Seen::Known(Ok(plan("a", "v2")));
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), url(&life)), ("Ready", None));
    let after = life.log.iter().position(|line| line == "furnish Ingress/petri").unwrap() + 1;
    assert_eq!(life.log[after..], ["deploy a", "remove ResourceQuota/petri", "remove Ingress/petri"]);
    assert!(life.record.memory.furniture.is_empty());
}

#[test]
fn a_changed_quota_is_another_plan_and_is_written_before_the_rollout() {
    let mut life = furnished(FurnitureKind::Ingress);
    life.run_with(&JobState::Succeeded);
    life.log.clear();
    let quota = item(FurnitureKind::ResourceQuota, "petri");
    let furniture = [(quota, Digest::of(&["larger"]))];
    life.world.intent = Seen::Known(Ok(plan("a", "v2").with_furniture(furniture.into(), None)));
    life.run_with(&JobState::Succeeded);
    assert_eq!(life.log, ["furnish ResourceQuota/petri", "deploy a", "remove Ingress/petri"]);
}

#[test]
fn a_component_that_did_not_change_is_not_ready_before_the_furniture_that_did() {
    let mut life = furnished(FurnitureKind::Ingress);
    life.run_with(&JobState::Succeeded);
    let quota = item(FurnitureKind::ResourceQuota, "petri");
    let furniture = [(quota.clone(), Digest::of(&["larger"]))];
    life.world.intent = Seen::Known(Ok(plan("a", "v1").with_furniture(furniture.into(), None)));
    let seen = std::mem::take(&mut life.world.furniture);
    life.run();
    assert_eq!(life.phase(), "Deploying", "what stands there could not be read");
    life.world.furniture = seen;
    life.log.clear();
    life.run();
    assert_eq!(life.phase(), "Ready");
    assert_eq!(life.log, ["furnish ResourceQuota/petri", "remove Ingress/petri"]);
}

#[test]
fn what_was_accepted_before_an_attempt_at_something_else_is_deployed_again() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    life.world.intent = Seen::Known(Ok(plan("a", "v2")));
    life.run();
    assert_eq!(life.log, ["deploy a", "deploy a"]);
    // The attempt may have changed the release, whatever becomes of it.
    life.world.intent = Seen::Known(Ok(plan("a", "v1")));
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.len()), ("Ready", 3), "{:?}", life.log);
}

#[test]
fn peer_06_an_image_that_cannot_be_pulled_is_told_at_once_and_ends_the_attempt_in_its_time() {
    let mut life = Life::new("a");
    life.run();
    life.end_jobs(&JobState::Succeeded);
    let a = name("a");
    let missing = Seen::Known(unready("web: ImagePullBackOff", Some(FailureReason::ImagePull)));
    life.world.components.get_mut(&a).unwrap().readiness = missing;
    life.run();
    assert_eq!(life.shown(), (Some(FailureReason::ImagePull), 0, "web: ImagePullBackOff".to_owned()));
    let told = life.record.clone();
    life.world.now = Timestamp(1299);
    life.run();
    assert_eq!(life.record, told, "nothing is written while the complaint stands");
    let wake = Environment::step(told, &life.world).unwrap().wake.unwrap();
    assert_eq!((wake.at, wake.reason), (Timestamp(1300), WakeReason::PodFailure));
    life.world.now = Timestamp(1300);
    life.run();
    let (reason, retries, message) = life.shown();
    assert_eq!((reason, retries), (Some(FailureReason::ImagePull), 1));
    assert!(message.ends_with("web: ImagePullBackOff"), "{message}");
}

#[test]
fn peer_06_a_complaint_that_goes_is_forgotten_and_one_of_another_class_has_its_own_time() {
    let mut life = Life::new("a");
    life.run();
    life.end_jobs(&JobState::Succeeded);
    let at = |life: &mut Life, secs: u64, cause: Option<FailureReason>| {
        life.world.now = Timestamp(1000 + secs);
        life.world.components.get_mut(&name("a")).unwrap().readiness = Seen::Known(unready("web", cause));
        life.run();
        (life.shown().0, life.record.memory.components[&name("a")].deploy_attempts)
    };
    assert_eq!(at(&mut life, 0, Some(FailureReason::Unschedulable)), (Some(FailureReason::Unschedulable), 0));
    assert_eq!(at(&mut life, 200, Some(FailureReason::ImagePull)), (Some(FailureReason::ImagePull), 0));
    assert_eq!(at(&mut life, 400, None), (None, 0));
    assert_eq!(at(&mut life, 500, Some(FailureReason::ImagePull)), (Some(FailureReason::ImagePull), 0));
    assert_eq!(at(&mut life, 799, Some(FailureReason::ImagePull)), (Some(FailureReason::ImagePull), 0));
    assert_eq!(at(&mut life, 800, Some(FailureReason::ImagePull)), (Some(FailureReason::ImagePull), 1));
}

#[test]
fn peer_06_without_a_time_for_pods_only_the_time_to_become_ready_counts() {
    let mut life = Life::new("a");
    life.world.pod_failure_secs = 0;
    life.run();
    life.end_jobs(&JobState::Succeeded);
    let missing = Seen::Known(unready("web", Some(FailureReason::ImagePull)));
    life.world.components.get_mut(&name("a")).unwrap().readiness = missing;
    life.run();
    life.world.now = Timestamp(1899);
    life.run();
    assert_eq!((life.shown().0, life.shown().1), (Some(FailureReason::ImagePull), 0));
    life.world.now = Timestamp(1900);
    life.run();
    assert_eq!((life.shown().0, life.shown().1), (Some(FailureReason::ReadinessTimeout), 1));
}

#[test]
fn job_03_a_job_whose_pod_cannot_start_is_ended_in_its_time_and_the_next_comes_once_it_is_gone() {
    let mut life = Life::new("a");
    life.run();
    life.complain(FailureReason::ImagePull, "ImagePullBackOff: not found");
    life.run();
    let told = (Some(FailureReason::ImagePull), 0, "ImagePullBackOff: not found".to_owned());
    assert_eq!((life.shown(), life.live()), (told, 1));
    life.world.now = Timestamp(1300);
    let step = Environment::step(life.record.clone(), &life.world).unwrap();
    assert!(
        matches!(step.commands[..], [Command::Cleanup(Cleanup::DeleteJob { .. })]),
        "{:?}",
        step.commands
    );
    // It is being deleted: its pod says other things, or nothing, and it is not deleted twice.
    let Seen::Known(jobs) = &mut life.world.components.get_mut(&name("a")).unwrap().jobs else { panic!() };
    jobs[0].deleting = true;
    jobs[0].state = JobState::Active { waiting: None };
    life.world.now = Timestamp(1310);
    assert!(!life.step(), "waits for it to go");
    life.end_jobs(&broken(FailureReason::HelmFailed));
    life.run();
    let (reason, retries, message) = life.shown();
    assert_eq!((reason, retries, life.live()), (Some(FailureReason::ImagePull), 1, 0));
    assert!(message.ends_with("ImagePullBackOff: not found"), "{message}");
    life.world.now = Timestamp(1400);
    life.run_with(&JobState::Succeeded);
    assert_eq!((life.phase(), life.log.len()), ("Ready", 2));
}

#[test]
fn job_03_an_undeploy_job_whose_pod_cannot_start_is_charged_with_the_cause_and_given_up_in_the_end() {
    let mut life = Life::new("a");
    life.run_with(&JobState::Succeeded);
    life.world.deletion = true;
    for attempt in 0..ATTEMPTS_MAX {
        life.run();
        life.complain(FailureReason::Unschedulable, "no node");
        life.run();
        assert_eq!(
            (life.live(), life.shown().0),
            (1, Some(FailureReason::Unschedulable)),
            "attempt {attempt}"
        );
        life.world.now = life.world.now.after(300);
        life.step();
        assert_eq!(life.live(), 0, "attempt {attempt}");
        life.step();
        life.world.now = life.world.now.after(600);
    }
    assert_eq!(life.condition(ConditionType::CleanupForced), (Truth::True, Reason::AttemptsExhausted));
    life.run();
    assert!(!life.world.finalizer);
}

#[test]
fn job_03_a_job_that_somebody_deletes_before_its_time_is_lost_as_ever() {
    let mut life = Life::new("a");
    life.run();
    life.complain(FailureReason::ImagePull, "ImagePullBackOff: not found");
    life.run();
    life.world.components.get_mut(&name("a")).unwrap().jobs = Seen::Known(vec![]);
    life.run();
    assert_eq!((life.shown().0, life.shown().1), (Some(FailureReason::HelmFailed), 1));
}

#[test]
fn of_two_shared_components_the_place_at_the_one_whose_name_comes_first_is_taken_first() {
    let shared = |text: &str| SharedName::new(text).unwrap();
    let blueprint = |of: &str, at: &str| SharedBlueprint {
        name: name(of),
        depends_on: vec![],
        shared: shared(at),
        payload: Some(Digest::of(&[at])),
        provisions: true,
    };
    let view = |at: &str| slice::View {
        shared: shared(at),
        standing: Seen::Known(slice::Standing::There {
            uid: uid(at),
            version: "7".to_owned(),
            deleting: false,
            ready: true,
            why: String::new(),
            capacity: Some(1),
            roster: Roster { consumers: vec![], abandoned: vec![] },
            queue: vec![],
        }),
        obligation: Seen::Known(None),
        binding: Seen::Known(None),
        jobs: Seen::Known(vec![]),
    };
    // The component that is named first wants the place that comes last.
    let blueprints = [blueprint("a", "second"), blueprint("b", "first")];
    let mut life = Life::new("a");
    life.world.intent = Seen::Known(Ok(Plan::with_shared(&[], &blueprints).unwrap()));
    life.world.slices = Seen::Known([(name("a"), view("second")), (name("b"), view("first"))].into());
    for _ in 0..10 {
        let step = Environment::step(life.record.clone(), &life.world).unwrap();
        let shares = step.commands.iter().filter(|command| matches!(command, Command::Share(_)));
        let shares: Vec<String> = shares.map(|command| format!("{command:?}")).collect();
        if !shares.is_empty() {
            assert!(shares.len() == 1 && shares[0].contains("\"first\""), "{shares:?}");
            return;
        }
        life.record = step.phase;
        step.commands.into_iter().for_each(|command| life.obey(command));
    }
    panic!("no place is taken: {:?}", life.record);
}

//! What users are shown, recomputed whole from the step by one pure function. Carries no moment of its computation.

mod sharing;

use super::{
    command::{Command, Notice},
    phase::{Binding, Memory, Phase, Record, Rollout},
    world::{ComponentView, World},
};
use crate::{
    component::{self, ATTEMPTS_MAX, Readiness},
    job::{JobState, JobView},
    kernel::{Seen, Step, Timestamp, limits::bounded},
    names::{ComponentName, NamespaceName, Uid},
    reason::FailureReason,
};
use serde::{Deserialize, Serialize};

/// The stable reasons of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// The named template does not exist.
    TemplateNotFound,
    /// The time to live is no duration.
    InvalidTTL,
    /// Template, environment or names do not fit together.
    InvalidConfiguration,
    /// A value or variable could not be rendered.
    RenderFailed,
    /// The namespace belongs to somebody else.
    NamespaceNotManaged,
    /// The namespace was there and is gone.
    NamespaceLost,
    /// A component could not be deployed.
    DeployFailed,
    /// A component did not become ready in time.
    ReadinessTimeout,
    /// A shared component could not be provisioned.
    ProvisionFailed,
    /// A shared component has no free place.
    SharedComponentAtCapacity,
    /// A shared component is not ready.
    SharedComponentNotReady,
    /// Work is under way.
    Progressing,
    /// A component that was ready is not available.
    ComponentUnavailable,
    /// Nobody uses it, so its workload is not there.
    Idle,
    /// A user holds it.
    Held,
    /// All is as asked for.
    Ready,
    /// Everything inside the namespace was cleaned up.
    CleanedUp,
    /// Cleaning up was given up.
    AttemptsExhausted,
    /// The time to live is nearly over.
    NearExpiry,
}

impl Reason {
    /// Lists every reason, in order.
    pub const ALL: [Self; 19] = [
        Self::TemplateNotFound,
        Self::InvalidTTL,
        Self::InvalidConfiguration,
        Self::RenderFailed,
        Self::NamespaceNotManaged,
        Self::NamespaceLost,
        Self::DeployFailed,
        Self::ReadinessTimeout,
        Self::ProvisionFailed,
        Self::SharedComponentAtCapacity,
        Self::SharedComponentNotReady,
        Self::Progressing,
        Self::ComponentUnavailable,
        Self::Idle,
        Self::Held,
        Self::Ready,
        Self::CleanedUp,
        Self::AttemptsExhausted,
        Self::NearExpiry,
    ];

    /// Tells whether a rollout can end by it.
    pub fn fails(self) -> bool {
        match self {
            Self::TemplateNotFound
            | Self::InvalidTTL
            | Self::InvalidConfiguration
            | Self::RenderFailed
            | Self::NamespaceNotManaged
            | Self::NamespaceLost
            | Self::DeployFailed
            | Self::ReadinessTimeout
            | Self::ProvisionFailed => true,
            Self::SharedComponentAtCapacity
            | Self::SharedComponentNotReady
            | Self::Progressing
            | Self::ComponentUnavailable
            | Self::Idle
            | Self::Held
            | Self::Ready
            | Self::CleanedUp
            | Self::AttemptsExhausted
            | Self::NearExpiry => false,
        }
    }

    /// Returns the word in conditions and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TemplateNotFound => "TemplateNotFound",
            Self::InvalidTTL => "InvalidTTL",
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::RenderFailed => "RenderFailed",
            Self::NamespaceNotManaged => "NamespaceNotManaged",
            Self::NamespaceLost => "NamespaceLost",
            Self::DeployFailed => "DeployFailed",
            Self::ReadinessTimeout => "ReadinessTimeout",
            Self::ProvisionFailed => "ProvisionFailed",
            Self::SharedComponentAtCapacity => "SharedComponentAtCapacity",
            Self::SharedComponentNotReady => "SharedComponentNotReady",
            Self::Progressing => "Progressing",
            Self::ComponentUnavailable => "ComponentUnavailable",
            Self::Idle => "Idle",
            Self::Held => "Held",
            Self::Ready => "Ready",
            Self::CleanedUp => "CleanedUp",
            Self::AttemptsExhausted => "AttemptsExhausted",
            Self::NearExpiry => "NearExpiry",
        }
    }
}

/// The types of conditions, in the order they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConditionType {
    /// kstatus: the object is as asked for.
    Ready,
    /// kstatus, abnormal-true: work is under way.
    Reconciling,
    /// kstatus, abnormal-true: nothing will happen without a change.
    Stalled,
    /// The workload namespace is locked to this environment.
    NamespaceBound,
    /// Every slice of a shared component is provisioned.
    SharedComponentsReady,
    /// Everything inside the namespace was cleaned up, or given up.
    CleanupComplete,
    /// Something was given up while cleaning up.
    CleanupForced,
    /// Less than ten per cent of the time to live are left.
    Expiring,
}

impl ConditionType {
    /// Returns the word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::NamespaceBound => "NamespaceBound",
            Self::SharedComponentsReady => "SharedComponentsReady",
            Self::CleanupComplete => "CleanupComplete",
            Self::CleanupForced => "CleanupForced",
            Self::Expiring => "Expiring",
        }
    }
}

/// A condition's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows.
    Unknown,
}

/// A condition without its times; the shell adds them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Its type.
    pub kind: ConditionType,
    /// Whether it holds.
    pub truth: Truth,
    /// Its stable reason.
    pub reason: Reason,
    /// What a person needs to know.
    pub message: String,
}

/// A component's phase as users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComponentPhase {
    /// Not started, or leaving.
    Pending,
    /// Its Job is being created.
    Submitting,
    /// Its Job runs, or its workload becomes ready.
    Deploying,
    /// It was ready.
    Ready,
    /// It is not tried again.
    Failed,
}

impl ComponentPhase {
    /// Returns the word in the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Submitting => "Submitting",
            Self::Deploying => "Deploying",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
        }
    }
}

/// One component as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ComponentStatus {
    /// Its name.
    pub name: ComponentName,
    /// Whether it is a slice of a shared component.
    pub shared: bool,
    /// Its phase.
    pub phase: ComponentPhase,
    /// Its level.
    pub level: u32,
    /// Failed attempts at this payload.
    pub deploy_retries: u8,
    /// Since when its workload is awaited.
    pub deploying_since: Option<Timestamp>,
    /// What keeps a pod from starting now, or why the last attempt failed.
    pub last_failure_reason: Option<FailureReason>,
    /// What is awaited or wrong.
    pub message: String,
}

/// An environment as users see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The phase's name.
    pub phase: &'static str,
    /// The conditions.
    pub conditions: Vec<Condition>,
    /// The workload namespace, from the moment its name is decided.
    pub namespace: Option<NamespaceName>,
    /// Its UID, from the moment it exists.
    pub namespace_uid: Option<Uid>,
    /// The address it is reached at, once it is ready and its route in force.
    pub url: Option<String>,
    /// When the time to live ends.
    pub expires_at: Option<Timestamp>,
    /// When the newest rollout began.
    pub deploy_started_at: Option<Timestamp>,
    /// The newest generation that was taken up.
    pub observed_generation: i64,
    /// The components, by level, then by name.
    pub components: Vec<ComponentStatus>,
    /// The last rollouts, the newest last.
    pub history: Vec<Rollout>,
}

/// Derives what users are shown.
pub(super) fn status(step: &Step<Record, Command, Notice>, world: &World) -> Status {
    let Record { phase, memory } = &step.phase;
    let mut components: Vec<ComponentStatus> =
        memory.components.iter().map(|(name, record)| component(name, record, world)).collect();
    components.extend(sharing::components(memory, world));
    components.sort_by_key(|component| component.level);
    Status {
        phase: phase.name(),
        conditions: conditions(step, world, &components),
        namespace: memory.binding.name().cloned(),
        namespace_uid: memory.binding.uid().cloned(),
        url: memory.url.clone().filter(|_| matches!(phase, Phase::Ready { .. })),
        expires_at: world.expires_at,
        deploy_started_at: memory.history.last().map(|rollout| rollout.started_at),
        observed_generation: memory.observed,
        components,
        history: memory.history.clone(),
    }
}

fn conditions(
    step: &Step<Record, Command, Notice>,
    world: &World,
    components: &[ComponentStatus],
) -> Vec<Condition> {
    let Record { phase, memory } = &step.phase;
    let condition =
        |kind, truth, reason, message: &str| Condition { kind, truth, reason, message: bounded(message) };
    let mut all = Vec::new();
    let mut story = |ready: Truth, reason: Reason, message: &str| {
        all.push(condition(ConditionType::Ready, ready, reason, message));
        match (phase, ready) {
            (Phase::Failed { .. }, _) => {
                all.push(condition(ConditionType::Stalled, Truth::True, reason, message))
            }
            (_, Truth::True) | (Phase::Ready { .. }, _) => {}
            (_, Truth::False | Truth::Unknown) => {
                all.push(condition(ConditionType::Reconciling, Truth::True, reason, message));
            }
        }
    };
    let waiting = waiting(step);
    match phase {
        Phase::Pending => match sharing::wait(memory, world) {
            Some((reason, why)) => story(Truth::False, reason, &why),
            None => story(Truth::False, Reason::Progressing, &waiting),
        },
        Phase::Deploying { .. } => story(Truth::False, Reason::Progressing, &progress(components)),
        Phase::Ready { .. } => match unavailable(memory, world) {
            None => story(Truth::True, Reason::Ready, "all components are ready"),
            Some(why) => story(Truth::False, Reason::ComponentUnavailable, &why),
        },
        Phase::Failed { failure } => story(Truth::False, failure.reason, &failure.message),
        Phase::Terminating { .. } if world.held => story(Truth::False, Reason::Held, &waiting),
        Phase::Terminating { .. } => story(Truth::False, Reason::Progressing, &waiting),
    }
    all.push(namespace_bound(memory));
    all.extend(sharing::condition(memory, world));
    if let Phase::Terminating { cleaned } = phase {
        let (truth, reason) =
            if *cleaned { (Truth::True, Reason::CleanedUp) } else { (Truth::False, Reason::Progressing) };
        all.push(condition(ConditionType::CleanupComplete, truth, reason, ""));
    }
    let forced = |record: &component::Record| matches!(record.phase, component::Phase::Gone { forced: true });
    let components = memory.components.iter().filter(|(_, record)| forced(record)).map(|(name, _)| name);
    let given_up: Vec<&str> =
        components.chain(sharing::given_up(memory)).map(ComponentName::as_str).collect();
    if !given_up.is_empty() {
        let message = format!("removing was given up after {ATTEMPTS_MAX} attempts: {}", given_up.join(", "));
        all.push(condition(ConditionType::CleanupForced, Truth::True, Reason::AttemptsExhausted, &message));
    }
    if world.expiring_at.is_some_and(|at| at <= world.now) && !matches!(phase, Phase::Terminating { .. }) {
        let (reason, message) = if world.held {
            (Reason::Held, "the time to live is nearly over, or over; the annotation petri.run/hold keeps it")
        } else {
            (Reason::NearExpiry, "the time to live is nearly over")
        };
        all.push(condition(ConditionType::Expiring, Truth::True, reason, message));
    }
    all
}

fn waiting(step: &Step<Record, Command, Notice>) -> String {
    match &step.waiting_on {
        Some(waiting) if waiting.detail.is_empty() => format!("waiting for {}", waiting.what),
        Some(waiting) => format!("waiting for {}: {}", waiting.what, waiting.detail),
        None => String::new(),
    }
}

fn progress(components: &[ComponentStatus]) -> String {
    let ready = components.iter().filter(|component| component.phase == ComponentPhase::Ready).count();
    let open: Vec<String> = components.iter().filter_map(under_way).collect();
    let under_way = if open.is_empty() { String::new() } else { format!("; under way: {}", open.join(", ")) };
    format!("{ready} of {} components are ready{under_way}", components.len())
}

/// Names a component on its way, and what is wrong with it, if something is.
fn under_way(component: &ComponentStatus) -> Option<String> {
    let ComponentStatus { name, phase, last_failure_reason, message, .. } = component;
    match (phase, last_failure_reason) {
        (ComponentPhase::Ready, _) | (ComponentPhase::Pending, None) => None,
        (_, Some(_)) if !message.is_empty() => Some(format!("{name} ({message})")),
        (_, _) => Some(name.to_string()),
    }
}

fn unavailable(memory: &Memory, world: &World) -> Option<String> {
    memory.components.keys().find_map(|name| match &world.components.get(name)?.readiness {
        Seen::Known(Readiness::Unready { why, .. }) => Some(format!("component {name}: {why}")),
        Seen::Known(Readiness::Ready) | Seen::Unknown(_) => None,
    })
}

fn namespace_bound(memory: &Memory) -> Condition {
    let (truth, reason, message) = match &memory.binding {
        Binding::Bound { namespace } => (Truth::True, Reason::Ready, format!("namespace {}", namespace.name)),
        Binding::Unassigned => (Truth::False, Reason::Progressing, "no namespace is chosen yet".to_owned()),
        Binding::Claimed { name } => {
            (Truth::False, Reason::Progressing, format!("namespace {name} is chosen"))
        }
    };
    Condition { kind: ConditionType::NamespaceBound, truth, reason, message }
}

fn component(name: &ComponentName, record: &component::Record, world: &World) -> ComponentStatus {
    let phase = match record.phase {
        component::Phase::Submitting { .. } => ComponentPhase::Submitting,
        component::Phase::Deploying { .. } | component::Phase::Settling { .. } => ComponentPhase::Deploying,
        component::Phase::Ready => ComponentPhase::Ready,
        component::Phase::Failed => ComponentPhase::Failed,
        component::Phase::Pending { .. }
        | component::Phase::Draining { .. }
        | component::Phase::Undeploying { .. }
        | component::Phase::Retreating { .. }
        | component::Phase::Gone { .. } => ComponentPhase::Pending,
    };
    let deploying_since = match record.phase {
        component::Phase::Settling { since, .. } => Some(since),
        component::Phase::Pending { .. }
        | component::Phase::Submitting { .. }
        | component::Phase::Deploying { .. }
        | component::Phase::Ready
        | component::Phase::Failed
        | component::Phase::Draining { .. }
        | component::Phase::Undeploying { .. }
        | component::Phase::Retreating { .. }
        | component::Phase::Gone { .. } => None,
    };
    let ailment = record.ailment.as_ref().map(|ailment| ailment.complaint.reason);
    ComponentStatus {
        name: name.clone(),
        shared: false,
        phase,
        level: record.level,
        deploy_retries: record.deploy_attempts,
        deploying_since,
        last_failure_reason: ailment.or(record.failure.as_ref().map(|failure| failure.reason)),
        message: bounded(&message(record, world.components.get(name))),
    }
}

fn message(record: &component::Record, view: Option<&ComponentView>) -> String {
    let failed = record.failure.as_ref().map_or(String::new(), |failure| failure.message.clone());
    match &record.phase {
        component::Phase::Pending { not_before: None } => "waiting for its turn".to_owned(),
        component::Phase::Pending { not_before: Some(_) } if was_disrupted(record) => {
            format!("the cluster took the deployer away (not charged), the next attempt follows: {failed}")
        }
        component::Phase::Pending { not_before: Some(_) } => {
            format!("attempt {} of {ATTEMPTS_MAX} failed, the next follows: {failed}", record.deploy_attempts)
        }
        component::Phase::Submitting { .. } => "its deployer Job is being created".to_owned(),
        component::Phase::Deploying { attempt } => job_message(attempt.serial, view),
        component::Phase::Settling { .. } | component::Phase::Ready => match view.map(|view| &view.readiness)
        {
            Some(Seen::Known(Readiness::Unready { why, .. })) => why.clone(),
            Some(Seen::Known(Readiness::Ready)) | Some(Seen::Unknown(_)) | None => String::new(),
        },
        component::Phase::Failed => failed,
        component::Phase::Draining { .. } => "leaving: waiting for its turn".to_owned(),
        component::Phase::Undeploying { attempt } => {
            let what = job_message(attempt.serial, view);
            if what.is_empty() {
                "leaving: its undeploy Job runs".to_owned()
            } else {
                format!("leaving: {what}")
            }
        }
        component::Phase::Retreating { .. } => {
            format!("leaving: attempt {} of {ATTEMPTS_MAX} failed: {failed}", record.undeploy_attempts)
        }
        component::Phase::Gone { forced: true } => format!("given up: {failed}"),
        component::Phase::Gone { forced: false } => "gone".to_owned(),
    }
}

fn was_disrupted(record: &component::Record) -> bool {
    record.failure.as_ref().is_some_and(|failure| failure.disrupted)
}

/// What the Job's pod waits for, if the cluster complains.
fn job_message(serial: u64, view: Option<&ComponentView>) -> String {
    complaint(serial, view.and_then(|view| view.jobs.known()))
}

fn complaint(serial: u64, jobs: Option<&Vec<JobView>>) -> String {
    let job: Option<&JobView> = jobs.and_then(|jobs| jobs.iter().find(|job| job.serial == serial));
    match job.map(|job| &job.state) {
        Some(JobState::Active { waiting: Some(complaint) }) => complaint.message.clone(),
        Some(JobState::Active { waiting: None } | JobState::Succeeded | JobState::Failed(_)) | None => {
            String::new()
        }
    }
}

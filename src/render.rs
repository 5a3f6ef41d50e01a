//! Command → effects, without a call: each effect is one write to the API server with its preconditions.

mod effect;
mod furniture;
mod job;
mod objects;
mod own;
mod payload;
mod shared;
mod sharing;

pub use effect::{Alone, Effect, Merge, NamespaceGuard, Resource, Right, Target, Write};
pub use furniture::{Backend, DEFAULT_ACCOUNT, resource};
pub use job::CONTAINER;
pub use shared::{SharedContext, shared_effect};
pub use sharing::SCRIPT_CONTAINER;

use crate::{
    adapter::{RenderedComponent, furniture::Furnishing, sharing::ProviderError},
    observe::Sharing,
};
use kube::core::DynamicObject;
use petri_machines::{
    environment::{Cleanup, Command, FurnitureId, Identity, NamespaceRef},
    job::Op,
    kernel::{Timestamp, cycle::Refusal},
    names::{ComponentName, JobName, NameError, NamespaceName, ReleaseName, Uid},
};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the operator's configuration says about the objects it makes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the custom resources and the operator are.
    pub management_namespace: String,
    /// Where shared workloads, obligations and provision Jobs are.
    pub shared_namespace: String,
    /// The operator's own ServiceAccount, there.
    pub service_account: String,
    /// The ClusterRole that it binds to itself in each workload namespace, made by the chart.
    pub workload_role: String,
    /// Image of the deployer.
    pub deployer_image: String,
    /// When the kubelet pulls it; `IfNotPresent`, `Always` or `Never`.
    pub deployer_pull_policy: String,
    /// ClusterRoles that the deployer gets besides `admin`.
    pub deployer_cluster_roles: Vec<String>,
    /// Seconds after which Kubernetes ends a Job, and with it the evidence.
    pub job_deadline_secs: u64,
    /// Where the deployer sends its spans; none = nowhere.
    pub otlp_endpoint: Option<String>,
}

/// The own object as it was last read or written.
#[derive(Clone, Debug)]
pub struct Own {
    /// Its namespace.
    pub namespace: String,
    /// Its resourceVersion.
    pub resource_version: String,
    /// All its finalizers.
    pub finalizers: Vec<String>,
}

/// All that a command may need besides itself.
pub struct RenderContext<'a> {
    /// Who the environment is.
    pub identity: &'a Identity,
    /// The own object.
    pub own: &'a Own,
    /// The operator's configuration.
    pub settings: &'a Settings,
    /// The rendered chart and values of each component; not needed for anything that leaves.
    pub inputs: &'a BTreeMap<ComponentName, RenderedComponent>,
    /// Labels and annotations that the template asks for on the namespace.
    pub namespace_extras: &'a Extras,
    /// What the namespace carries besides; not needed for anything that leaves.
    pub furniture: &'a BTreeMap<FurnitureId, Furnishing>,
    /// The service behind the route, if it was found.
    pub backend: Option<&'a Backend>,
    /// W3C trace context for the Job: the place of its own span.
    pub traceparent: Option<&'a str>,
    /// What is needed of the slices of shared components.
    pub sharing: &'a BTreeMap<ComponentName, Sharing>,
    /// The namespace that the work is about, once it is decided.
    pub place: Option<&'a NamespaceName>,
    /// The moment that entries of a list of consumers bear.
    pub now: Timestamp,
    /// The release, where a shared component takes the place of the environment.
    pub shared: Option<&'a ReleaseName>,
}

/// Labels and annotations of a namespace that are not Petri's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Labels; never one of Petri's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Labels of consumers that the namespace was seen to bear: those that are not asked for any more go.
    pub consumes: Vec<String>,
}

/// Why a command cannot be rendered; a fault of Petri, since the plan was checked before.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The command is about a component that the inputs do not hold.
    #[error("component {0} has no rendered input")]
    NoInput(ComponentName),
    /// The command is about furniture that the inputs do not hold.
    #[error("furniture {0} has no rendered input")]
    NoFurniture(FurnitureId),
    /// What the command was decided on is not what was read.
    #[error("what {0} was decided on was read otherwise")]
    Stale(ComponentName),
    /// The provider or its secret went between the look and the write.
    #[error("the provider of component {0}, or its secret, is not there")]
    Unready(ComponentName),
    /// A field of the provider does not render.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// A derived name does not fit.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An object does not serialise.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl RenderError {
    /// Says when to look again.
    pub fn class(&self) -> Refusal {
        match self {
            Self::Stale(_) => Refusal::Retry,
            Self::Unready(_) | Self::Provider(_) => Refusal::Backoff,
            Self::NoInput(_) | Self::NoFurniture(_) | Self::Name(_) | Self::Json(_) => Refusal::Rejected,
        }
    }
}

/// Renders a command. It is one effect, but for the deployer's RoleBindings, of which there is one for each role:
/// those are repeated whole until all are there.
///
/// # Errors
/// A fault of Petri: a component without input, a name that does not fit.
pub fn effects(command: &Command, cx: &RenderContext<'_>) -> Result<Vec<Effect>, RenderError> {
    let effect = match command {
        Command::AddFinalizer => own::add_finalizer(cx),
        Command::CreateNamespace { name } => cx.effect(None, objects::namespace(name, cx)?),
        Command::BindOperator(namespace) => {
            cx.granting(namespace, objects::operator_binding(namespace, cx)?, Right::Operator)
        }
        Command::CreateDeployerAccount(namespace) => {
            cx.granting(namespace, objects::deployer_account(namespace, cx)?, Right::Account)
        }
        Command::BindDeployer(namespace) => return bind_deployer(namespace, cx),
        Command::CreatePayload { namespace, component, serial } => {
            let input = cx.inputs.get(component).ok_or_else(|| RenderError::NoInput(component.clone()))?;
            let about = Attempt { namespace, component, op: Op::Deploy, serial: *serial };
            cx.effect(Some(namespace), payload::secret(&about, input, cx)?)
        }
        Command::CreateJob { namespace, component, serial } => {
            let input = cx.inputs.get(component).ok_or_else(|| RenderError::NoInput(component.clone()))?;
            let about = Attempt { namespace, component, op: Op::Deploy, serial: *serial };
            cx.job(&about, Some(input))?
        }
        Command::Share(share) => sharing::share(share, cx)?,
        Command::Furnish { namespace, item, digest } => furniture::furnish(item, digest, namespace, cx)?,
        Command::Cleanup(cleanup) => self::cleanup(cleanup, cx)?,
    };
    Ok(vec![effect])
}

fn cleanup(cleanup: &Cleanup, cx: &RenderContext<'_>) -> Result<Effect, RenderError> {
    Ok(match cleanup {
        Cleanup::DeleteSelf => own::delete(cx),
        Cleanup::DropFinalizer => own::drop_finalizer(cx),
        Cleanup::DeletePayload { namespace, name, uid } => {
            cx.delete(namespace, Resource::Secret, name, uid, false)
        }
        Cleanup::DeleteJob { namespace, name, uid } => cx.delete(namespace, Resource::Job, name, uid, true),
        Cleanup::CreateUndeployJob { namespace, component, serial } => {
            let about = Attempt { namespace, component, op: Op::Undeploy, serial: *serial };
            cx.job(&about, None)?
        }
        Cleanup::Unshare(unshare) => sharing::unshare(unshare, cx)?,
        Cleanup::Unfurnish { namespace, item, uid } => furniture::unfurnish(item, uid, namespace, cx),
        Cleanup::DeleteNamespace(namespace) => {
            let target =
                Target { resource: Resource::Namespace, namespace: None, name: namespace.name.to_string() };
            let write = Write::Delete {
                target,
                uid: namespace.uid.clone(),
                resource_version: None,
                foreground: false,
            };
            Effect { guard: Some(cx.guard(namespace, false)), write, grants: None, alone: None }
        }
    })
}

fn bind_deployer(namespace: &NamespaceRef, cx: &RenderContext<'_>) -> Result<Vec<Effect>, RenderError> {
    let mut effects = Vec::new();
    for role in &cx.settings.deployer_cluster_roles {
        effects.push(cx.effect(Some(namespace), objects::deployer_binding(namespace, Some(role), cx)?));
    }
    // The last one stands for all: only when it is there is the right recorded.
    effects.push(cx.granting(namespace, objects::deployer_binding(namespace, None, cx)?, Right::Deployer));
    Ok(effects)
}

/// One attempt at one component.
struct Attempt<'a> {
    namespace: &'a NamespaceRef,
    component: &'a ComponentName,
    op: Op,
    serial: u64,
}

impl Attempt<'_> {
    fn name(&self, cx: &RenderContext<'_>) -> JobName {
        JobName::of(&cx.identity.uid, &cx.identity.name, self.component, self.op, self.serial)
    }
}

/// An object that is ready to be created.
struct Made {
    resource: Resource,
    object: DynamicObject,
}

impl Made {
    fn new(resource: Resource, object: &impl Serialize) -> Result<Self, RenderError> {
        Ok(Self { resource, object: serde_json::from_value(serde_json::to_value(object)?)? })
    }
}

impl RenderContext<'_> {
    fn guard(&self, namespace: &NamespaceRef, alive: bool) -> NamespaceGuard {
        NamespaceGuard { namespace: namespace.clone(), environment: self.identity.uid.clone(), alive }
    }

    fn effect(&self, namespace: Option<&NamespaceRef>, made: Made) -> Effect {
        let Made { resource, object } = made;
        let name = object.metadata.name.clone().unwrap_or_default();
        let target = Target { resource, namespace: object.metadata.namespace.clone(), name };
        let guard = namespace.map(|namespace| self.guard(namespace, true));
        Effect { guard, write: Write::Create { target, object: Box::new(object) }, grants: None, alone: None }
    }

    fn job(&self, about: &Attempt<'_>, input: Option<&RenderedComponent>) -> Result<Effect, RenderError> {
        let effect = self.effect(Some(about.namespace), job::job(about, input, self)?);
        let alone = Alone {
            namespace: about.namespace.name.to_string(),
            owner: self.identity.uid.clone(),
            component: about.component.clone(),
            job: about.name(self),
        };
        Ok(Effect { alone: Some(alone), ..effect })
    }

    fn granting(&self, namespace: &NamespaceRef, made: Made, right: Right) -> Effect {
        Effect { grants: Some(right), ..self.effect(Some(namespace), made) }
    }

    fn delete(
        &self,
        namespace: &NamespaceRef,
        resource: Resource,
        name: &JobName,
        uid: &Uid,
        foreground: bool,
    ) -> Effect {
        let target = Target { resource, namespace: Some(namespace.name.to_string()), name: name.to_string() };
        let write = Write::Delete { target, uid: uid.clone(), resource_version: None, foreground };
        Effect { guard: Some(self.guard(namespace, false)), write, grants: None, alone: None }
    }
}

/// Returns the name of the namespace as text, for objects.
fn text(name: &NamespaceName) -> Option<String> {
    Some(name.to_string())
}

#[cfg(test)]
mod tests;

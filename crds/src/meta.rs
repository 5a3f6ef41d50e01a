//! Names that stand on Kubernetes objects: labels, annotations, finalizers, fixed object names.

/// Label: `true` on every namespace, Job and pod that Petri made; watches select by it.
pub const LABEL_MANAGED: &str = "petri.run/managed";
/// Label: UID of the environment, or of the SharedComponent, that an object belongs to; ownership is decided by it and the namespace's UID.
pub const LABEL_ENVIRONMENT_UID: &str = "petri.run/environment-uid";
/// Label: name of the environment, for people; nothing decides by it.
pub const LABEL_ENVIRONMENT: &str = "petri.run/environment";
/// Label: name of the component that a Job, pod, Secret or inventory belongs to.
pub const LABEL_COMPONENT: &str = "petri.run/component";
/// Label: what a Job does: `deploy`, `undeploy`, `provision`, `deprovision`.
pub const LABEL_OP: &str = "petri.run/op";
/// Label: name of the SharedComponent that a Job or Secret of the shared namespace belongs to.
pub const LABEL_SHARED: &str = "petri.run/shared-component";
/// Value of [`LABEL_OP`] on the Secret that says what is to be deprovisioned.
pub const OP_OBLIGATION: &str = "obligation";
/// Label: `true` on a Secret of the management namespace that templates may copy into environments.
pub const LABEL_SHAREABLE: &str = "petri.run/shareable";
/// Label on an environment: digest of the identity that made it through petri-apiserver, and may see it there.
pub const LABEL_OWNER: &str = "petri.run/owner";
/// Prefix of the label on a workload namespace that consumes a SharedComponent; derived, nothing decides by it.
pub const LABEL_SHARED_PREFIX: &str = "petri.run/shared-";
/// Recommended label: who manages the object; always [`MANAGED_BY`].
pub const LABEL_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Recommended label: the application an object is part of; always [`PART_OF`].
pub const LABEL_PART_OF: &str = "app.kubernetes.io/part-of";

/// Value of [`LABEL_MANAGED`] and of [`LABEL_SHAREABLE`].
pub const TRUE: &str = "true";
/// Value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "petri";
/// Value of [`LABEL_PART_OF`].
pub const PART_OF: &str = "petri";

/// Annotation on a Job and its pod: the serial of the attempt, decimal; it only grows within an environment.
pub const ANNOTATION_SERIAL: &str = "petri.run/serial";
/// Annotation on what a namespace carries besides its components: digest of what it was made from.
pub const ANNOTATION_DIGEST: &str = "petri.run/digest";
/// Annotation on an environment: a new value runs the whole graph again, on Failed and on Ready.
pub const ANNOTATION_RETRY: &str = "petri.run/retry";
/// Annotation on an environment: `true` means that it neither expires nor cleans up.
pub const ANNOTATION_HOLD: &str = "petri.run/hold";
/// Annotation on a SharedComponent: UID of an abandoned consumer whose slot may be given away.
pub const ANNOTATION_FORGET: &str = "petri.run/forget";
/// Annotation on an environment: the repository that made it through petri-apiserver, for people.
pub const ANNOTATION_REPOSITORY: &str = "petri.run/repository";
/// Annotation that carries the W3C trace context from an environment into its Jobs.
pub const ANNOTATION_TRACEPARENT: &str = "petri.run/traceparent";

/// Finalizer of an EphemeralEnvironment.
pub const FINALIZER_ENVIRONMENT: &str = "petri.run/cleanup";
/// Finalizer of a SharedComponent, and of a provider while a SharedComponent uses it.
pub const FINALIZER_SHARED: &str = "petri.run/shared-cleanup";

/// Default namespace of shared workloads, obligations and provision Jobs.
pub const SHARED_NAMESPACE: &str = "petri-shared";
/// ServiceAccount that deployer Jobs run as in each workload namespace.
pub const DEPLOYER_SERVICE_ACCOUNT: &str = "petri-deployer";
/// Prefix of the inventory ConfigMap that the deployer leaves behind for each component.
pub const INVENTORY_PREFIX: &str = "petri-inventory-";
/// Key under which a binding Secret keeps the generated value; a provider may not define it.
pub const GENERATED_SECRET_KEY: &str = "petri.generated-secret";

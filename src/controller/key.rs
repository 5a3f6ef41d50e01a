//! What is reconciled: one key per object, and what a reconcile says when it is done.
use opentelemetry::trace::TraceId;
use std::{fmt, time::Duration};

/// The kinds that are reconciled; their order is the order of the metric labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An EphemeralEnvironment.
    Environment,
    /// An EnvironmentTemplate.
    Template,
    /// A SharedComponent.
    SharedComponent,
    /// A SharedComponentProvider.
    Provider,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Environment, Self::Template, Self::SharedComponent, Self::Provider];

    /// Returns the stable name used in logs and as the metric label `controller`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Template => "template",
            Self::SharedComponent => "sharedcomponent",
            Self::Provider => "sharedcomponentprovider",
        }
    }
}

/// Names one object of the management namespace; whatever happens anywhere wakes keys and carries nothing else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its `metadata.name`.
    pub name: String,
}

impl Key {
    /// Names an EphemeralEnvironment.
    pub fn environment(name: impl Into<String>) -> Self {
        Self { kind: Kind::Environment, name: name.into() }
    }

    /// Names an EnvironmentTemplate.
    pub fn template(name: impl Into<String>) -> Self {
        Self { kind: Kind::Template, name: name.into() }
    }

    /// Names a SharedComponent.
    pub fn shared_component(name: impl Into<String>) -> Self {
        Self { kind: Kind::SharedComponent, name: name.into() }
    }

    /// Names a SharedComponentProvider.
    pub fn provider(name: impl Into<String>) -> Self {
        Self { kind: Kind::Provider, name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.name)
    }
}

/// What one reconcile says: when to look again, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requeue {
    /// Look again after this long at the latest; `None` waits for an event or the slow resync.
    pub after: Option<Duration>,
    /// The object is no more: no slow resync is kept for it.
    pub gone: bool,
    /// Something was written. On a slow resync this means that an event was missed, and is counted.
    pub worked: bool,
    /// The stable class of the error that ended it (metric label `class`), if one did.
    pub error: Option<&'static str>,
    /// The trace that tells more, if one is exported.
    pub trace: Option<TraceId>,
}

impl Requeue {
    /// Waits for an event.
    pub fn settled() -> Self {
        Self::default()
    }

    /// Looks again after `after`.
    pub fn after(after: Duration) -> Self {
        Self { after: Some(after), ..Self::default() }
    }

    /// Ends the life of this key: the object is no more.
    pub fn gone() -> Self {
        Self { gone: true, ..Self::default() }
    }

    /// Looks again after `after`, because of an error of this stable class.
    pub fn failed(class: &'static str, after: Duration) -> Self {
        Self { after: Some(after), error: Some(class), ..Self::default() }
    }

    /// Says that something was written.
    pub fn worked(mut self) -> Self {
        self.worked = true;
        self
    }
}

/// Answers one key. It is never called twice at once for one key, and only while this process leads.
///
/// A call may be cut off at any await (loss of the lease, end of the process): like a crash, that must be harmless.
pub trait Reconciler: Send + Sync + 'static {
    /// Looks at the object named by `key` and brings it one pass nearer to its goal.
    fn reconcile(&self, key: &Key) -> impl Future<Output = Requeue> + Send;
}

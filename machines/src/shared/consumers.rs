//! Who uses a shared component: the one list, and the only ways it may change.

use crate::{
    kernel::Timestamp,
    names::{ComponentName, EnvironmentName, Uid},
};

/// One component of one environment that holds a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// The environment's UID.
    pub uid: Uid,
    /// The environment's name.
    pub environment: EnvironmentName,
    /// The component's name.
    pub component: ComponentName,
    /// When it took its place.
    pub since: Timestamp,
}

/// A consumer whose deprovisioning was given up; its place stays taken until a person lets it go.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Abandoned {
    /// The environment's UID.
    pub uid: Uid,
    /// The environment's name.
    pub environment: EnvironmentName,
    /// The component's name.
    pub component: ComponentName,
    /// When it was given up.
    pub at: Timestamp,
    /// Why.
    pub reason: String,
}

/// Who holds a place, and who was given up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Roster {
    /// Who holds a place, in the order of coming.
    pub consumers: Vec<Consumer>,
    /// Who was given up, in that order.
    pub abandoned: Vec<Abandoned>,
}

/// Why nobody may take a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Refused {
    /// The shared component goes.
    #[error("the shared component is being deleted")]
    Deleting,
    /// All places are taken.
    #[error("all places are taken")]
    Full,
}

impl Roster {
    /// Whether a consumer holds a place.
    pub fn holds(&self, uid: &Uid, component: &ComponentName) -> bool {
        self.consumers.iter().any(|one| one.uid == *uid && one.component == *component)
    }

    /// Whether a consumer was given up.
    pub fn has_abandoned(&self, uid: &Uid, component: &ComponentName) -> bool {
        self.abandoned.iter().any(|one| one.uid == *uid && one.component == *component)
    }

    /// Whether all places are taken.
    pub fn is_full(&self, capacity: Option<u32>) -> bool {
        capacity.is_some_and(|max| self.consumers.len() >= usize::try_from(max).unwrap_or(usize::MAX))
    }

    /// Returns the list with one consumer more; who is on it stays as it is.
    ///
    /// # Errors
    /// The shared component goes, or all places are taken.
    pub fn register(
        &self,
        consumer: Consumer,
        capacity: Option<u32>,
        deleting: bool,
    ) -> Result<Self, Refused> {
        if self.holds(&consumer.uid, &consumer.component) {
            return Ok(self.clone());
        }
        if deleting {
            return Err(Refused::Deleting);
        }
        if self.is_full(capacity) {
            return Err(Refused::Full);
        }
        let mut next = self.clone();
        next.consumers.push(consumer);
        Ok(next)
    }

    /// Returns the list without one consumer.
    #[must_use]
    pub fn release(&self, uid: &Uid, component: &ComponentName) -> Self {
        let mut next = self.clone();
        next.consumers.retain(|one| !(one.uid == *uid && one.component == *component));
        next.abandoned.retain(|one| !(one.uid == *uid && one.component == *component));
        next
    }

    /// Returns the list with one consumer given up; it holds its place on.
    #[must_use]
    pub fn abandon(&self, abandoned: Abandoned) -> Self {
        let mut next = self.clone();
        let Abandoned { uid, environment, component, at, .. } = abandoned.clone();
        if !next.holds(&uid, &component) {
            next.consumers.push(Consumer {
                uid: uid.clone(),
                environment,
                component: component.clone(),
                since: at,
            });
        }
        if !next.has_abandoned(&uid, &component) {
            next.abandoned.push(abandoned);
        }
        next
    }

    /// Names who holds a place, for people.
    pub fn holders(&self) -> String {
        let name = |one: &Consumer| format!("{}/{}", one.environment, one.component);
        const SHOWN_MAX: usize = 10;
        let mut names: Vec<String> = self.consumers.iter().take(SHOWN_MAX).map(name).collect();
        if self.consumers.len() > SHOWN_MAX {
            names.push("…".to_owned());
        }
        names.join(", ")
    }
}

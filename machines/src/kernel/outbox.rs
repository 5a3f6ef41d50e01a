//! What a machine says while it handles one signal.

use super::time::{Timestamp, Wake, WakeReason};

/// Why nothing more happens right now, as data that a user can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingOn {
    /// What is awaited, as a short noun phrase.
    pub what: &'static str,
    /// Which one: an object, a component, a message of the cluster. May be empty.
    pub detail: String,
}

/// The outputs of one dispatch. Dropped when the dispatch ended in a transition, except for the notices.
#[derive(Debug)]
pub struct Outbox<C, N> {
    pub(super) commands: Vec<C>,
    pub(super) notices: Vec<N>,
    pub(super) wake: Option<Wake>,
    pub(super) waiting_on: Option<WaitingOn>,
    pub(super) moved: bool,
}

impl<C, N> Default for Outbox<C, N> {
    fn default() -> Self {
        Self { commands: Vec::new(), notices: Vec::new(), wake: None, waiting_on: None, moved: false }
    }
}

impl<C, N> Outbox<C, N> {
    /// Adds a desired fact; it is said again at every step until the world shows it.
    pub fn ensure(&mut self, command: C) {
        self.commands.push(command);
    }

    /// Asks to be looked at no later than `at`; the earliest request wins.
    pub fn wake_at(&mut self, at: Timestamp, reason: WakeReason) {
        let wake = Wake { at, reason };
        self.wake = Some(self.wake.map_or(wake, |earliest| earliest.min(wake)));
    }

    /// Says why nothing more happens. The first answer stands: it is the one nearest to the cause.
    pub fn waiting_on(&mut self, what: &'static str, detail: impl Into<String>) {
        self.waiting_on.get_or_insert_with(|| WaitingOn { what, detail: detail.into() });
    }

    /// Says something once about a change that this step makes.
    pub fn notice(&mut self, notice: N) {
        self.notices.push(notice);
    }

    /// Records that the phase changed, so that the machine is asked again in its new phase.
    pub fn moved(&mut self, notice: N) {
        self.moved = true;
        self.notices.push(notice);
    }

    /// Takes over what a child machine said, each part translated by the parent; `None` is what it cannot do now.
    pub fn adopt<C2, N2>(
        &mut self,
        child: Outbox<C2, N2>,
        command: impl Fn(C2) -> Option<C>,
        notice: impl Fn(N2) -> N,
    ) {
        self.commands.extend(child.commands.into_iter().filter_map(command));
        self.notices.extend(child.notices.into_iter().map(notice));
        if let Some(wake) = child.wake {
            self.wake_at(wake.at, wake.reason);
        }
        if let Some(waiting) = child.waiting_on {
            self.waiting_on.get_or_insert(waiting);
        }
    }

    /// Returns whether the phase changed, and forgets it.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Returns what was said once.
    pub(crate) fn notices_mut(&mut self) -> &mut Vec<N> {
        &mut self.notices
    }

    /// Keeps only what was said once.
    pub(crate) fn into_notices(self) -> Vec<N> {
        self.notices
    }

    /// Whether nothing was asked for and nothing is awaited.
    pub fn is_silent(&self) -> bool {
        self.commands.is_empty() && self.waiting_on.is_none()
    }
}

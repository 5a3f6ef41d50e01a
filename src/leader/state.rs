//! The handle that tells whether this process leads.
use crate::clock::Clock;
use std::sync::Arc;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    /// Leading until the moment named; for ever when elections are off.
    Leading(Option<Instant>),
    Lost(String),
}

/// Tells whether this process leads; cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Leadership {
    state: Arc<watch::Sender<State>>,
    clock: Clock,
}

impl Leadership {
    /// Leads from the start and for ever: elections are off, and somebody else keeps this process the only one.
    pub fn always(clock: Clock) -> Self {
        Self::with(State::Leading(None), clock)
    }

    pub(crate) fn waiting(clock: Clock) -> Self {
        Self::with(State::Waiting, clock)
    }

    fn with(state: State, clock: Clock) -> Self {
        Self { state: Arc::new(watch::Sender::new(state)), clock }
    }

    /// Tells whether this process leads at this moment: the deadline is compared at the call.
    pub fn is_leading(&self) -> bool {
        match &*self.state.borrow() {
            State::Leading(until) => until.is_none_or(|until| self.clock.instant() < until),
            State::Waiting | State::Lost(_) => false,
        }
    }

    /// Returns when leadership ends unless it is renewed; `None` when not leading, or leading for ever.
    pub fn deadline(&self) -> Option<Instant> {
        match &*self.state.borrow() {
            State::Leading(until) => *until,
            State::Waiting | State::Lost(_) => None,
        }
    }

    /// Waits until this process leads (or has already lost what it had).
    pub async fn acquired(&self) {
        // The sender lives in self: the wait cannot fail.
        let _ = self.state.subscribe().wait_for(|state| *state != State::Waiting).await;
    }

    /// Waits until this process does not lead any more, and returns why. Before leading it waits.
    pub async fn lost(&self) -> String {
        let mut state = self.state.subscribe();
        loop {
            let now = state.borrow_and_update().clone();
            match now {
                State::Lost(why) => return why,
                State::Leading(Some(until)) => {
                    tokio::select! {
                        _ = state.changed() => {}
                        () = sleep_until(until) => return "it was not renewed before the deadline".to_owned(),
                    }
                }
                State::Waiting | State::Leading(None) => {
                    let _ = state.changed().await;
                }
            }
        }
    }

    /// Leads until `until`. What has run out stays lost, even if the renewal came through after all.
    pub(crate) fn lead(&self, until: Instant) {
        self.state.send_modify(|state| match state {
            State::Waiting => *state = State::Leading(Some(until)),
            State::Leading(Some(before)) if self.clock.instant() < *before => *before = until,
            State::Leading(_) => *state = State::Lost("it was renewed too late".to_owned()),
            State::Lost(_) => {}
        });
    }

    pub(crate) fn lose(&self, why: &str) {
        self.state.send_modify(|state| {
            if !matches!(state, State::Lost(_)) {
                *state = State::Lost(why.to_owned());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_comes_through_after_the_deadline_changes_nothing() {
        let leadership = Leadership::waiting(Clock);
        leadership.lead(Instant::now() + Duration::from_secs(10));
        tokio::time::advance(Duration::from_secs(11)).await;
        leadership.lead(Instant::now() + Duration::from_secs(10));
        assert!(!leadership.is_leading());
        leadership.lost().await;
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_lost_is_not_taken_up_again() {
        let leadership = Leadership::waiting(Clock);
        leadership.lead(Instant::now() + Duration::from_secs(10));
        leadership.lose("stolen");
        leadership.lead(Instant::now() + Duration::from_secs(10));
        assert!(!leadership.is_leading());
        assert_eq!(leadership.lost().await, "stolen");
    }
}

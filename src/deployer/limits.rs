//! How long the deployer may work, and the request to stop earlier.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Says why the work has to end before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The deployer's own deadline passed.
    Deadline,
    /// Somebody asked for it (SIGTERM).
    Stopped,
}

/// Holds the deadline of the whole run and listens for a request to stop.
#[derive(Debug, Clone)]
pub struct Limits {
    ends_at: Instant,
    stop: watch::Receiver<bool>,
}

impl Limits {
    /// Starts the clock: the work may last `budget`, or until `stop` says true.
    pub fn new(budget: Duration, stop: watch::Receiver<bool>) -> Self {
        Self { ends_at: Instant::now() + budget, stop }
    }

    /// Gives the time that is left.
    pub fn remaining(&self) -> Duration {
        self.ends_at.saturating_duration_since(Instant::now())
    }

    /// Says whether the work has to end, without waiting.
    pub fn ended(&self) -> Option<Ended> {
        if *self.stop.borrow() {
            return Some(Ended::Stopped);
        }
        self.remaining().is_zero().then_some(Ended::Deadline)
    }

    /// Waits until the work has to end.
    pub async fn over(&self) -> Ended {
        let mut stop = self.stop.clone();
        let stopped = async {
            if stop.wait_for(|asked| *asked).await.is_err() {
                // Nobody is left who could ask.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = stopped => Ended::Stopped,
            () = tokio::time::sleep_until(self.ends_at) => Ended::Deadline,
        }
    }
}

//! The one place that reads the time.
//!
//! Everything else is given a [`Clock`] or a time. Deadlines inside one process are monotonic instants; what is
//! stored or compared with stored times is wall-clock seconds.
use jiff::Timestamp as Wall;
use petri_machines::kernel::time::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

/// Reads the machine's clocks. In tests, tokio's paused time drives the monotonic one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Returns wall-clock time in seconds since the Unix epoch; 0 before it.
    pub fn now(self) -> Timestamp {
        Timestamp(u64::try_from(self.wall().as_second()).unwrap_or_default())
    }

    /// Returns wall-clock time with its fraction, for what Kubernetes stores as MicroTime.
    pub fn wall(self) -> Wall {
        Wall::now()
    }

    /// Returns monotonic time.
    pub fn instant(self) -> Instant {
        Instant::now()
    }

    /// Returns how long it is until `at`; zero when it has passed.
    pub fn until(self, at: Timestamp) -> Duration {
        let now = self.wall();
        let passed = Duration::try_from(now.duration_since(Wall::UNIX_EPOCH)).unwrap_or_default();
        Duration::from_secs(at.0).saturating_sub(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_in_the_past_is_no_time_away() {
        assert_eq!(Clock.until(Timestamp(1)), Duration::ZERO);
    }

    #[test]
    fn the_wait_for_a_full_second_ends_within_that_second() {
        let at = Clock.now().after(10);
        let wait = Clock.until(at);
        assert!(wait > Duration::from_secs(8) && wait <= Duration::from_secs(10), "{wait:?}");
    }
}

//! The one place that reads the time.
//!
//! Everything else is given a clock or a time. Deadlines inside one process are monotonic instants; what is stored or
//! compared with stored times is wall-clock seconds of the API server, which stamps what they are compared with.
use jiff::{SignedDuration, Timestamp as Wall};
use petri_machines::kernel::time::Timestamp;
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// Reads the machine's clocks. In tests, tokio's paused time drives the monotonic one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Returns wall-clock time in seconds since the Unix epoch; 0 before it.
    pub fn now(self) -> Timestamp {
        seconds(self.wall())
    }

    /// Returns wall-clock time with its fraction, for what Kubernetes stores as MicroTime.
    pub fn wall(self) -> Wall {
        Wall::now()
    }

    /// Returns monotonic time.
    pub fn instant(self) -> Instant {
        Instant::now()
    }
}

/// How far a machine's clock may be from the API server's and count as right: `Date` has full seconds, and an answer
/// is under way for a while.
const DIFFERENCE_MAX: SignedDuration = SignedDuration::from_secs(2);

/// The API server's clock: this machine's, put right by what answers say where the two differ by seconds.
///
/// An environment's end is reckoned from the creation that the API server stamped. On a machine whose clock is an hour
/// fast it must not come an hour early.
#[derive(Clone, Debug, Default)]
pub struct ServerClock {
    ahead_ms: Arc<AtomicI64>,
}

impl ServerClock {
    /// Returns the server's time in seconds since the Unix epoch; 0 before it.
    pub fn now(&self) -> Timestamp {
        seconds(self.wall())
    }

    /// Returns the server's time.
    pub fn wall(&self) -> Wall {
        let here = Clock.wall();
        here.checked_add(self.ahead()).unwrap_or(here)
    }

    /// Returns how long it is until `at`; zero when it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        let passed = Duration::try_from(self.wall().duration_since(Wall::UNIX_EPOCH)).unwrap_or_default();
        Duration::from_secs(at.0).saturating_sub(passed)
    }

    /// Takes over that the server said `said`, in full seconds, in an answer that was there when it was `here` on this
    /// machine; what the time `under_way` explains is no difference. Returns by how much the server is ahead, if that
    /// is news. Its time is then told late by what `said` leaves out and the answer's way, and never early.
    pub fn heard(&self, said: Wall, here: Wall, under_way: Duration) -> Option<SignedDuration> {
        let seen = said.duration_since(here);
        let explained =
            SignedDuration::try_from(under_way).unwrap_or(DIFFERENCE_MAX).saturating_add(DIFFERENCE_MAX);
        if (seen - self.ahead()).abs() <= explained {
            return None;
        }
        let ahead = if seen.abs() <= DIFFERENCE_MAX { SignedDuration::ZERO } else { seen };
        self.ahead_ms.store(i64::try_from(ahead.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        Some(ahead)
    }

    fn ahead(&self) -> SignedDuration {
        SignedDuration::from_millis(self.ahead_ms.load(Ordering::Relaxed))
    }
}

fn seconds(at: Wall) -> Timestamp {
    Timestamp(u64::try_from(at.as_second()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said_secs: &[i64], ahead_secs: &[Option<i64>]) {
        let (clock, here) = (ServerClock::default(), Wall::now());
        let heard = said_secs
            .iter()
            .map(|secs| clock.heard(here + SignedDuration::from_secs(*secs), here, Duration::ZERO));
        let heard: Vec<Option<i64>> = heard.map(|ahead| ahead.map(|ahead| ahead.as_secs())).collect();
        assert_eq!(heard, ahead_secs, "{said_secs:?}");
    }

    #[test]
    fn a_difference_of_seconds_is_followed_once_and_a_smaller_one_is_none() {
        check(&[0, -1, 1], &[None, None, None]);
        check(&[3600, 3601, 3599], &[Some(3600), None, None]);
        check(&[-3600, -3601, -3590], &[Some(-3600), None, Some(-3590)]);
        check(&[3600, 0, 1], &[Some(3600), Some(0), None]);
    }

    #[test]
    fn a_moment_in_the_past_is_no_time_away() {
        assert_eq!(ServerClock::default().until(Timestamp(1)), Duration::ZERO);
    }

    #[test]
    fn the_wait_for_a_full_second_ends_within_that_second() {
        let clock = ServerClock::default();
        let wait = clock.until(clock.now().after(10));
        assert!(wait > Duration::from_secs(8) && wait <= Duration::from_secs(10), "{wait:?}");
    }

    #[test]
    fn ttl_04_what_is_an_hour_away_for_the_server_is_an_hour_away() {
        let (clock, here) = (ServerClock::default(), Wall::now());
        clock.heard(here - SignedDuration::from_hours(1), here, Duration::ZERO);
        let wait = clock.until(Clock.now());
        assert!((3_590..=3_602).contains(&wait.as_secs()), "{wait:?}");
    }
}

//! How soon to look again, for each key: growing while nothing gets better, small again once something does.

use crate::controller::Key;
use petri_machines::kernel::cycle::Refusal;
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// The first pause where looking at once is right: long enough for a watch to bring the news first.
const SOON_MIN: Duration = Duration::from_millis(20);
/// The longest of those.
const SOON_MAX: Duration = Duration::from_secs(5);
/// The first pause where the server must recover.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest of those.
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How often a key went on without getting better.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    soon: u32,
    /// Counted apart: what was tried again at once for a while has not waited for the server yet.
    backoff: u32,
}

/// Counts for each key.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<HashMap<Key, Times>>);

impl Pace {
    /// Looks again at once, a little later each time in a row.
    pub(super) fn soon(&self, key: &Key) -> Duration {
        grown(SOON_MIN, self.count(key, |times| &mut times.soon), SOON_MAX)
    }

    /// Looks again after a pause, longer each time in a row; spread by ten per cent.
    pub(super) fn backoff(&self, key: &Key) -> Duration {
        let pause = grown(BACKOFF_MIN, self.count(key, |times| &mut times.backoff), BACKOFF_MAX);
        pause + jitter(pause / 10)
    }

    /// Looks again as a refused write asks for.
    pub(super) fn refused(&self, key: &Key, refusal: Refusal) -> Duration {
        match refusal {
            Refusal::Retry | Refusal::Fenced => self.soon(key),
            Refusal::Backoff | Refusal::Rejected => self.backoff(key),
        }
    }

    /// Begins anew: something got better, or the object is gone.
    pub(super) fn reset(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Returns how often in a row before this time.
    fn count(&self, key: &Key, of: impl Fn(&mut Times) -> &mut u32) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = of(counts.entry(key.clone()).or_default());
        let before = *count;
        *count = count.saturating_add(1);
        before
    }
}

fn grown(first: Duration, times: u32, most: Duration) -> Duration {
    first.saturating_mul(1 << times.min(16)).min(most)
}

/// A random part of `most`, so that what failed together is not repeated together.
pub(super) fn jitter(most: Duration) -> Duration {
    // Every RandomState has keys of its own: a source of randomness that needs no crate.
    let share = u32::try_from(RandomState::new().hash_one(()) % 1024).unwrap_or_default();
    most * share / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_begin_anew_after_a_change() {
        let (pace, key) = (Pace::default(), Key::environment("a"));
        let soon: Vec<u128> = (0..10).map(|_| pace.soon(&key).as_millis()).collect();
        assert_eq!(soon, [20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]);
        pace.reset(&key);
        assert_eq!(pace.refused(&key, Refusal::Fenced), SOON_MIN);
        pace.reset(&key);
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            let pause = pace.refused(&key, Refusal::Backoff);
            let bound = Duration::from_secs(expected);
            assert!(pause >= bound && pause <= bound + bound / 10, "{pause:?} for {expected} s");
        }
    }

    #[test]
    fn what_was_tried_again_at_once_for_a_while_begins_with_the_shortest_backoff() {
        let (pace, key) = (Pace::default(), Key::environment("a"));
        (0..9).for_each(|_| assert!(pace.soon(&key) <= SOON_MAX));
        assert!(pace.backoff(&key) < Duration::from_secs(2));
        assert_eq!(pace.soon(&key), SOON_MAX, "and neither makes the other begin anew");
    }

    #[test]
    fn the_keys_do_not_slow_each_other_down() {
        let pace = Pace::default();
        pace.backoff(&Key::environment("a"));
        assert!(pace.backoff(&Key::environment("b")) < Duration::from_secs(2));
    }
}

//! What becomes of a request, drawn from a seed.

use std::time::Duration;

/// What a request is, as far as its fate goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A get or a list.
    Read,
    /// A stream of events.
    Watch,
    /// Anything that changes something.
    Write,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It arrives, late.
    Passed { delay: Duration },
    /// It never arrives, and is answered in the API server's name.
    Refused { delay: Duration, code: u16, reason: &'static str, name: &'static str },
    /// It arrives and is done, and the answer is lost.
    Lost { delay: Duration },
    /// It arrives, and the stream breaks off.
    Cut { delay: Duration, after: Duration },
}

impl Fate {
    /// Returns how long the request is held before anything else.
    pub fn delay(&self) -> Duration {
        match *self {
            Self::Passed { delay }
            | Self::Refused { delay, .. }
            | Self::Lost { delay }
            | Self::Cut { delay, .. } => delay,
        }
    }
}

/// A source of fates: the same seed gives the same sequence.
#[derive(Debug, Clone)]
pub struct Weather {
    state: u64,
    /// A request is held at most this long.
    pub delay_max: Duration,
    /// A watch lives at most this long.
    pub watch_max: Duration,
    /// How many of 1,000 requests fail in each way that is possible for them.
    pub per_mille: u64,
}

impl Weather {
    /// Bad but bearable: every way of failing hits one in 25.
    pub fn new(seed: u64) -> Self {
        let (delay_max, watch_max) = (Duration::from_millis(150), Duration::from_secs(6));
        Self { state: seed, delay_max, watch_max, per_mille: 40 }
    }

    /// Draws what becomes of the next request.
    pub fn fate(&mut self, kind: Kind) -> Fate {
        let delay = self.within(self.delay_max);
        let refused = |code, reason, name| Fate::Refused { delay, code, reason, name };
        // One draw: its thousandth tells which way, if any.
        match (self.draw(1000) / self.per_mille.max(1), kind) {
            (0, _) => refused(429, "TooManyRequests", "429"),
            (1, _) => refused(500, "InternalError", "500"),
            (2, Kind::Write) => refused(409, "Conflict", "409"),
            (2, Kind::Watch | Kind::Read) => refused(410, "Expired", "410"),
            (3 | 4, Kind::Write) => Fate::Lost { delay },
            (_, Kind::Watch) => {
                let after = Duration::from_millis(500) + self.within(self.watch_max);
                Fate::Cut { delay, after }
            }
            _ => Fate::Passed { delay },
        }
    }

    fn within(&mut self, longest: Duration) -> Duration {
        Duration::from_millis(self.draw(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX).max(1)))
    }

    /// Splitmix64: good enough to spread faults, and the same everywhere.
    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64, kind: Kind) -> Vec<Fate> {
        let mut weather = Weather::new(seed);
        (0..1000).map(|_| weather.fate(kind)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_weather_again() {
        assert_eq!(fates(1, Kind::Write), fates(1, Kind::Write));
        assert_ne!(fates(1, Kind::Write), fates(2, Kind::Write));
    }

    #[test]
    fn only_an_answer_to_a_write_is_lost_and_only_a_watch_is_cut() {
        let counted = |kind, what: fn(&Fate) -> bool| fates(7, kind).iter().filter(|fate| what(fate)).count();
        let lost: fn(&Fate) -> bool = |fate| matches!(fate, Fate::Lost { .. });
        let cut: fn(&Fate) -> bool = |fate| matches!(fate, Fate::Cut { .. });
        assert!((50..120).contains(&counted(Kind::Write, lost)));
        assert_eq!([counted(Kind::Read, lost), counted(Kind::Watch, lost)], [0, 0]);
        assert!(counted(Kind::Watch, cut) > 800);
        assert_eq!([counted(Kind::Read, cut), counted(Kind::Write, cut)], [0, 0]);
    }
}

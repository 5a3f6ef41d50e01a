//! Go durations as they stand in specs: `90s`, `1h30m`, `0`, empty.
//!
//! kube has a parser of its own, but it panics on what does not fit (`99999999999999h`, `5s-3s`) and these texts
//! come from users; so this is Go's `time.ParseDuration`, with integers.

use std::time::Duration;

/// Why a text is no usable duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not in Go's format.
    #[error("{0:?} is not a Go duration such as 90s, 30m or 1h30m")]
    Malformed(String),
    /// Below zero.
    #[error("{0:?} is negative")]
    Negative(String),
    /// Zero, where only a positive duration has a meaning.
    #[error("{0:?} is zero, a positive duration is needed")]
    Zero(String),
    /// More than the 292 years that a Go duration can hold.
    #[error("{0:?} is too long for a Go duration")]
    TooLong(String),
}

/// What a `ttl` field says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Empty: whatever the next level says.
    Inherit,
    /// Zero: no expiry, whatever the next level says.
    Never,
    /// Seconds from creation, rounded up, at least one.
    After(u64),
}

impl Ttl {
    /// Parses a `ttl` or `idleCleanup` field.
    ///
    /// # Errors
    /// [`DurationError`] for garbage, a negative or an overlong duration; such a text never means "expired".
    pub fn parse(text: &str) -> Result<Self, DurationError> {
        if text.is_empty() {
            return Ok(Self::Inherit);
        }
        let length = parse(text)?;
        Ok(if length.is_zero() { Self::Never } else { Self::After(secs_up(length)) })
    }

    /// Decides between an environment's field and its template's: seconds from creation, `None` for no expiry.
    ///
    /// # Errors
    /// [`DurationError`] of the environment's text, or of the template's when the environment inherits.
    pub fn resolve(environment: &str, template: &str) -> Result<Option<u64>, DurationError> {
        let ttl = match Self::parse(environment)? {
            Self::Inherit => Self::parse(template)?,
            own => own,
        };
        Ok(match ttl {
            Self::Inherit | Self::Never => None,
            Self::After(secs) => Some(secs),
        })
    }
}

/// Parses a `deployTimeout` field into seconds, rounded up; empty means `default_secs`.
///
/// # Errors
/// [`DurationError`], also for zero: a time-out of nothing would fail every component.
pub fn timeout_secs(text: &str, default_secs: u64) -> Result<u64, DurationError> {
    if text.is_empty() {
        return Ok(default_secs);
    }
    let length = parse(text)?;
    if length.is_zero() { Err(DurationError::Zero(text.to_owned())) } else { Ok(secs_up(length)) }
}

/// Parses a Go duration that is not negative.
///
/// # Errors
/// [`DurationError`]; the empty text is malformed, as in Go.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut nanos: u128 = 0;
    if rest != "0" {
        if rest.is_empty() {
            return Err(malformed());
        }
        while !rest.is_empty() {
            let (part, left) = segment(rest).ok_or_else(malformed)?;
            nanos = nanos.saturating_add(part);
            rest = left;
        }
    }
    if nanos > i64::MAX as u128 {
        return Err(DurationError::TooLong(text.to_owned()));
    }
    if negative && nanos > 0 {
        return Err(DurationError::Negative(text.to_owned()));
    }
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| DurationError::TooLong(text.to_owned()))
}

/// Reads one number with its unit: its nanoseconds (saturating) and what follows it.
fn segment(text: &str) -> Option<(u128, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits(after)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    let unit_nanos: u128 = match unit {
        "ns" => 1,
        // the micro sign and the Greek letter, as in Go
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole = decimal(whole).saturating_mul(unit_nanos);
    // beyond 18 digits a fraction of an hour is far below a nanosecond
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((whole.saturating_add(decimal(fraction) * unit_nanos / scale), rest))
}

/// The value of a run of ASCII digits, saturating; 0 for none.
fn decimal(digits: &str) -> u128 {
    digits.bytes().fold(0, |sum: u128, digit| sum.saturating_mul(10).saturating_add(u128::from(digit - b'0')))
}

/// Whole seconds, rounded up, so that a positive duration never becomes "at once" or "never".
fn secs_up(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Duration, DurationError>) {
        assert_eq!(parse(text), expected, "{text:?}");
    }

    #[test]
    fn what_go_parses_is_parsed_to_the_same_length() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("-0s", 0),
            ("5s", 5_000_000_000),
            ("+5s", 5_000_000_000),
            ("1478s", 1_478_000_000_000),
            ("5.s", 5_000_000_000),
            (".5s", 500_000_000),
            ("5.6s", 5_600_000_000),
            ("1.0020s", 1_002_000_000),
            ("11us", 11_000),
            ("12\u{b5}s", 12_000),
            ("12\u{3bc}s", 12_000),
            ("13ms", 13_000_000),
            ("3h30m", 12_600_000_000_000),
            ("10.5s4m", 250_500_000_000),
            ("1h2m3s4ms5us6ns", 3_723_004_005_006),
            ("0.3333333333333333333h", 1_200_000_000_000 - 1),
            ("9223372036854775807ns", i64::MAX.unsigned_abs()),
        ] {
            check(text, Ok(Duration::from_nanos(nanos)));
        }
    }

    #[test]
    fn what_go_refuses_is_refused() {
        for text in [
            "", "-", "+", "s", ".", "-.", ".s", "+.s", "3", "1 h", "1d", "forever", "5s-3s", "5s0", "--5s",
            "1h ",
        ] {
            check(text, Err(DurationError::Malformed(text.to_owned())));
        }
        check("-5s", Err(DurationError::Negative("-5s".to_owned())));
        for text in ["9223372036854775808ns", "9999999999999999999999999999999999999999999999h"] {
            check(text, Err(DurationError::TooLong(text.to_owned())));
        }
    }

    #[test]
    fn the_environments_ttl_wins_and_zero_disables_the_templates() {
        let never = Ok(None);
        for (environment, template, expected) in [
            ("", "", never.clone()),
            ("", "2h", Ok(Some(7_200))),
            ("30m", "2h", Ok(Some(1_800))),
            ("0", "1ns", never.clone()),
            ("0s", "1ns", never),
            ("", "1ns", Ok(Some(1))),
            ("1500ms", "", Ok(Some(2))),
            ("not-a-duration", "2h", Err(DurationError::Malformed("not-a-duration".to_owned()))),
            ("-1s", "", Err(DurationError::Negative("-1s".to_owned()))),
            ("", "-1s", Err(DurationError::Negative("-1s".to_owned()))),
        ] {
            assert_eq!(Ttl::resolve(environment, template), expected, "{environment:?} over {template:?}");
        }
    }

    #[test]
    fn a_timeout_falls_back_when_empty_and_is_never_zero() {
        assert_eq!(timeout_secs("", 900), Ok(900));
        assert_eq!(timeout_secs("20m", 900), Ok(1_200));
        assert_eq!(timeout_secs("0s", 900), Err(DurationError::Zero("0s".to_owned())));
        assert_eq!(timeout_secs("-1m", 900), Err(DurationError::Negative("-1m".to_owned())));
        assert_eq!(timeout_secs("soon", 900), Err(DurationError::Malformed("soon".to_owned())));
    }
}

//! What is printed: one figure a line, `name: value`, the unit at the end of the name.

use jiff::Timestamp;

/// Prints one figure.
pub fn say(name: impl std::fmt::Display, value: impl std::fmt::Display) {
    println!("{name}: {value}");
}

/// Says what the figures below are.
pub fn note(text: impl std::fmt::Display) {
    println!("# {text}");
}

/// Returns the time from one moment to another in milliseconds; nothing if it is the earlier one.
pub fn millis(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64().max(0.0) * 1000.0
}

/// Returns the time from one moment to another in seconds.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A sample of one quantity.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Takes one more.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the smallest value that at least this share of the sample does not exceed.
    pub fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
    }

    /// Prints median and tail; with fewer than a hundred the tail is the largest.
    pub fn say_tail(&self, name: &str, unit: &str) {
        say(format!("{name}_p50_{unit}"), format!("{:.1}", self.at(0.5)));
        say(format!("{name}_p90_{unit}"), format!("{:.1}", self.at(0.9)));
        say(format!("{name}_p99_{unit}"), format!("{:.1}", self.at(0.99)));
    }

    /// Prints the median.
    pub fn say_median(&self, name: &str, unit: &str) {
        say(format!("{name}_p50_{unit}"), format!("{:.2}", self.at(0.5)));
    }
}

impl FromIterator<f64> for Sample {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_of_the_sample() {
        let sample: Sample = (1..=60).map(f64::from).collect();
        assert_eq!(
            [sample.at(0.5), sample.at(0.9), sample.at(0.99), sample.at(1.0)],
            [30.0, 54.0, 60.0, 60.0]
        );
        assert_eq!(Sample::from_iter([4.0]).at(0.5), 4.0);
        assert!(Sample::default().at(0.5).is_nan());
    }
}

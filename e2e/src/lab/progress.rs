//! Says what the lab builds or waits for: a spinner on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Where the lab says what it does.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Says it on standard error.
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            bar.set_style(style("{spinner:.green} {elapsed:>4} {wide_msg}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { bar, started: Instant::now() }
    }

    /// What is being built or awaited from now on.
    pub fn step(&self, what: impl Into<String>) {
        self.show(what.into());
    }

    /// The same, for step `number` of `total`: shown as a bar that fills.
    pub fn step_of(&self, number: usize, total: usize, what: impl Into<String>) {
        let what = what.into();
        match &self.bar {
            Some(bar) => {
                bar.set_style(style(
                    "{spinner:.green} {elapsed:>4} [{bar:20.green/dim}] {pos}/{len} {wide_msg}",
                ));
                bar.set_length(total as u64);
                bar.set_position(number.saturating_sub(1) as u64);
                bar.set_message(what);
            }
            None => self.line(&format!("[{number}/{total}] {what}")),
        }
    }

    /// A line that stays.
    pub fn say(&self, what: impl AsRef<str>) {
        match &self.bar {
            Some(bar) => bar.println(what.as_ref()),
            None => self.line(what.as_ref()),
        }
    }

    /// Nothing is awaited any more: takes the spinner away.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn show(&self, what: String) {
        match &self.bar {
            Some(bar) => {
                bar.set_style(style("{spinner:.green} {elapsed:>4} {wide_msg}"));
                bar.set_message(what);
            }
            None => self.line(&what),
        }
    }

    fn line(&self, what: &str) {
        eprintln!("lab {:6.1}s  {what}", self.started.elapsed().as_secs_f64());
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file; a broken one costs the looks, not the run.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

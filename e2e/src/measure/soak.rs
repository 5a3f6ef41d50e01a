//! Thousands of lives, one operator: its memory must not grow with what is past.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::figures::{Sample, note, say};
use super::process::Process;
use super::shape::BARE;
use super::{names, restart};
use crate::petri::{Error, Petri, is_ready};

/// Lives under way at once: the Jobs of so many keep two cores busy.
const AT_ONCE: usize = 30;
/// How often the memory is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How often an environment's state is looked at.
const GLANCE: Duration = Duration::from_millis(500);
/// How long one phase of a life may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// By how much the last quarter's median may lie above the second quarter's.
const GROWTH_MAX: f64 = 1.1;

/// What was held after so many lives.
#[derive(Debug, Clone, Copy)]
struct Look {
    lives: usize,
    seconds: f64,
    anonymous_kib: u64,
}

/// Lets `lives` environments without pods come up and go, and draws the operator's memory into `plot`.
///
/// # Errors
/// A life did not end, or the memory of the last quarter lies more than a tenth above that of the second.
pub async fn run(petri: &Petri<'_>, lives: usize, plot: Option<&Path>) -> Result<(), Error> {
    note(format!("soak: {lives} lives of one component that has no pods, {AT_ONCE} at once, one operator"));
    BARE.apply(petri).await?;
    restart(petri).await?;
    let (process, ended, started) = (Process::operator(petri.lab)?, AtomicUsize::new(0), Instant::now());
    let cpu = process.cpu_secs()?;
    let mut looks = Vec::new();
    let all = async {
        let life = |name: String| async {
            let name = name;
            live(petri, &name).await?;
            ended.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(())
        };
        stream::iter(names("soak-", lives)).map(life).buffer_unordered(AT_ONCE).try_collect::<()>().await
    };
    let looking = async {
        loop {
            let lives = ended.load(Ordering::Relaxed);
            let seconds = started.elapsed().as_secs_f64();
            match process.memory() {
                Ok(memory) => looks.push(Look { lives, seconds, anonymous_kib: memory.anonymous }),
                Err(error) => return error,
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        done = all => done?,
        error = looking => return Err(Error::Wrong(format!("the operator ended under way: {error}"))),
    }
    let (cpu, took) = (process.cpu_secs()? - cpu, started.elapsed().as_secs_f64());
    for tenth in 0..=10 {
        let reached = looks.iter().find(|look| look.lives * 10 >= lives * tenth).or(looks.last());
        if let Some(look) = reached {
            say(format!("soak_after_{}_lives_rss_anon_kib", lives * tenth / 10), look.anonymous_kib);
        }
    }
    say("soak_lives_each_minute", format!("{:.0}", count(lives) * 60.0 / took));
    say("soak_operator_cpu_each_life_s", format!("{:.3}", cpu / count(lives)));
    let (second, last) = (quarter(&looks, lives, 1), quarter(&looks, lives, 3));
    let growth = last / second;
    say("soak_rss_anon_last_quarter_over_second_ratio", format!("{growth:.3}"));
    if let Some(plot) = plot {
        let text = picture(&looks, lives);
        std::fs::write(plot, text).map_err(|source| Error::File { path: plot.to_owned(), source })?;
        note(format!("drawn into {}", plot.display()));
    }
    // Too few looks say nothing.
    if looks.len() > 40 && growth > GROWTH_MAX {
        return Err(Error::Wrong(format!(
            "the memory grew by {growth:.2} from the second to the last quarter"
        )));
    }
    Ok(())
}

async fn live(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    let api = petri.environments();
    petri.apply_object(&api, &BARE.environment(name)).await?;
    let started = Instant::now();
    let mut deleted = false;
    loop {
        tokio::time::sleep(GLANCE).await;
        let found = api.get_opt(name).await?;
        match found {
            None if deleted => return Ok(()),
            Some(environment) if !deleted && is_ready(&environment) => {
                petri.delete(name).await?;
                deleted = true;
            }
            _ if started.elapsed() > PATIENCE => {
                let last = found.as_ref().map_or_else(|| "gone".to_owned(), crate::petri::summary);
                return Err(Error::Late {
                    what: format!("{name}'s life"),
                    seconds: PATIENCE.as_secs(),
                    last,
                });
            }
            _ => {}
        }
    }
}

#[expect(clippy::cast_precision_loss)]
fn count(lives: usize) -> f64 {
    lives as f64
}

/// Returns the median of what was held in one of the four quarters.
#[expect(clippy::cast_precision_loss)]
fn quarter(looks: &[Look], lives: usize, quarter: usize) -> f64 {
    let within = |look: &&Look| (look.lives * 4 / lives.max(1)).min(3) == quarter;
    let held: Sample = looks.iter().filter(within).map(|look| look.anonymous_kib as f64).collect();
    held.at(0.5)
}

/// Draws what was held over the lives.
#[expect(clippy::cast_precision_loss)]
fn picture(looks: &[Look], lives: usize) -> String {
    const WIDTH: f64 = 800.0;
    const HEIGHT: f64 = 240.0;
    const LEFT: f64 = 60.0;
    const TOP: f64 = 30.0;
    let most = looks.iter().map(|look| look.anonymous_kib).max().unwrap_or(1).div_ceil(1024) as f64;
    let across = |lives_then: f64| LEFT + WIDTH * lives_then / count(lives.max(1));
    let up = |mebibytes: f64| TOP + HEIGHT * (1.0 - mebibytes / most);
    let minutes = looks.last().map_or(0.0, |look| look.seconds / 60.0);
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 320" font-family="sans-serif" font-size="12">
<rect width="900" height="320" fill="white"/>
<text x="{LEFT}" y="18">petri-operator, RssAnon in MiB over {lives} lives in {minutes:.0} minutes (cargo soak --plot)</text>
"#
    );
    for line in 0..=4 {
        let (held, then) = (most * f64::from(line) / 4.0, count(lives) * f64::from(line) / 4.0);
        let (x, y) = (across(then), up(held));
        let _ = writeln!(svg, r#"<path d="M{LEFT} {y:.1}h{WIDTH}" stroke="silver"/>"#);
        let _ = writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{held:.1}</text>"#,
            LEFT - 6.0,
            y + 4.0
        );
        let _ = writeln!(
            svg,
            r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{then:.0}</text>"#,
            TOP + HEIGHT + 18.0
        );
    }
    let points = looks.iter().map(|look| (across(count(look.lives)), up(look.anonymous_kib as f64 / 1024.0)));
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, r#"<polyline fill="none" stroke="steelblue" points="{}"/>"#, points.join(" "));
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks() -> Vec<Look> {
        let held = [1000, 2000, 2000, 2100, 3000];
        let look = |(step, anonymous_kib): (usize, &u64)| Look {
            lives: step * 25,
            seconds: 60.0,
            anonymous_kib: *anonymous_kib,
        };
        held.iter().enumerate().map(look).collect()
    }

    #[test]
    fn growth_is_told_from_the_quarters_medians() {
        let looks = looks();
        let medians: Vec<f64> = (0..4).map(|number| quarter(&looks, 100, number)).collect();
        assert_eq!(medians, [1000.0, 2000.0, 2000.0, 2100.0]);
    }

    #[test]
    fn the_curve_is_drawn_whole() {
        let svg = picture(&looks(), 100);
        assert!(svg.contains("over 100 lives in 1 minutes"), "{svg}");
        assert!(svg.contains(r#"points="60.0,"#) && svg.contains(" 860.0,35.6"), "{svg}");
    }
}

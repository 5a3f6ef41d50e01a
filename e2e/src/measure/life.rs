//! Created → Ready → gone, beside what Jobs, pods and the namespace themselves take.

use std::time::Duration;

use jiff::Timestamp;

use super::figures::{Sample, note, say, seconds};
use super::shape::{CHAIN, DIAMOND, Life, ONE, Shape};
use super::{create, delete, ready, trail};
use crate::petri::{Error, Petri};

/// Lets each graph live several times, one after the other.
pub async fn run(petri: &Petri<'_>, times: usize) -> Result<(), Error> {
    note(
        "critical path up: for each level from the Job's creation to the kubelet's report of its container's end",
    );
    note("and to the available pod; down: the same without pods, and the deletion of the namespace");
    for shape in [ONE, CHAIN, DIAMOND] {
        shape.apply(petri).await?;
        let mut lives = Vec::new();
        for number in 0..times {
            let trail = trail(petri)?;
            let name = format!("life-{number}");
            create(petri, std::slice::from_ref(&name), shape).await?;
            ready(petri, std::slice::from_ref(&name)).await?;
            delete(petri, std::slice::from_ref(&name)).await?;
            tokio::time::sleep(Duration::from_millis(500)).await;
            lives.push(Life::read(&trail.entries()?, &name, shape)?);
        }
        tell(shape, &lives);
    }
    Ok(())
}

fn tell(shape: Shape, lives: &[Life]) {
    let name = format!("life_{}", shape.name);
    let sample = |of: &dyn Fn(&Life) -> f64| lives.iter().map(of).collect::<Sample>();
    say(format!("{name}_lives"), lives.len());
    let up = |life: &Life| seconds(life.created, life.ready);
    sample(&up).say_median(&format!("{name}_to_ready"), "s");
    sample(&Life::critical_up).say_median(&format!("{name}_to_ready_critical_path"), "s");
    sample(&|life| up(life) / life.critical_up())
        .say_median(&format!("{name}_to_ready_over_critical_path"), "ratio");
    let first = |levels: &[(Timestamp, Timestamp)]| levels.first().map_or(Timestamp::MIN, |level| level.0);
    let last = |levels: &[(Timestamp, Timestamp)]| levels.last().map_or(Timestamp::MIN, |level| level.1);
    sample(&|life| seconds(life.created, first(&life.up)))
        .say_median(&format!("{name}_created_to_first_job"), "s");
    gaps(lives, |life| &life.up, &format!("{name}_level_end_to_next_job"));
    sample(&|life| seconds(last(&life.up), life.ready))
        .say_median(&format!("{name}_last_level_to_ready"), "s");
    let down = |life: &Life| seconds(life.deleted, life.gone);
    sample(&down).say_median(&format!("{name}_to_gone"), "s");
    sample(&Life::critical_down).say_median(&format!("{name}_to_gone_critical_path"), "s");
    let ratio = |life: &Life| down(life) / life.critical_down();
    sample(&ratio).say_median(&format!("{name}_to_gone_over_critical_path"), "ratio");
    sample(&|life| seconds(life.deleted, first(&life.down)))
        .say_median(&format!("{name}_deleted_to_first_job"), "s");
    gaps(lives, |life| &life.down, &format!("{name}_level_gone_to_next_job"));
    let to_namespace = |life: &Life| seconds(last(&life.down), life.namespace.0);
    sample(&to_namespace).say_median(&format!("{name}_last_level_to_namespace_deletion"), "s");
    let namespace = |life: &Life| seconds(life.namespace.0, life.namespace.1);
    sample(&namespace).say_median(&format!("{name}_namespace_deletion"), "s");
    sample(&|life| seconds(life.namespace.1, life.gone))
        .say_median(&format!("{name}_namespace_to_gone"), "s");
}

/// From the end of a level to the creation of the next one's first Job: Petri's own part, and nobody else's.
fn gaps(lives: &[Life], levels: impl Fn(&Life) -> &Vec<(Timestamp, Timestamp)>, name: &str) {
    let between = |pair: &[(Timestamp, Timestamp)]| seconds(pair[0].1, pair[1].0);
    let gaps: Sample = lives.iter().flat_map(|life| levels(life).windows(2).map(between)).collect();
    if !gaps.is_empty() {
        gaps.say_median(name, "s");
    }
}

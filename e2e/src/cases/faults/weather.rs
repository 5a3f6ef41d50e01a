//! An operator outside of the cluster, behind a line that delays, cuts, refuses and loses.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::outside::{Outside, kubeconfig, program, scale, token};
use super::{create, one_of_each, template};
use crate::cases::bad_input::cleaned;
use crate::cases::invariants::Invariants;
use crate::petri::{Error, Petri};
use crate::proxy::{Proxy, Weather};

const SEED: u64 = 20_261_129;
const LIVES: usize = 10;
/// A few refused passes in a row are chance, and each doubles the pause, up to a minute.
const RAIN_MAX: Duration = Duration::from_secs(300);

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let program = program(petri).await?;
    scale(petri, 0).await?;
    let seen = outside(petri, &program).await;
    // The cases after this one find the operator in the cluster, whatever became of this one.
    scale(petri, 1).await?;
    seen
}

async fn outside(petri: &Petri<'_>, program: &Path) -> Result<String, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::Wrong(error.to_string());
    let read = kube::config::Kubeconfig::read_from(petri.lab.kubeconfig()).map_err(|error| wrong(&error))?;
    let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await;
    let proxy = Proxy::start(config.map_err(|error| wrong(&error))?, Weather::new(SEED)).await?;
    let user = json!({"token": token(petri, None).await?});
    let kubeconfig = kubeconfig(petri, "weather", &json!({"server": proxy.url()}), &user)?;
    let operator = Outside::start(program, &kubeconfig, &[])?;
    let seen = lives(petri)
        .await
        .map_err(|error| Error::Wrong(format!("seed {SEED}: {}", operator.explain(&error))))?;
    let tally: Vec<String> = proxy.tally().iter().map(|(what, times)| format!("{times} {what}")).collect();
    let starts = operator.starts();
    let _ = std::fs::remove_file(kubeconfig);
    Ok(format!("seed {SEED}: {}; {starts} start(s) of the operator; {seen}", tally.join(", ")))
}

async fn lives(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "one", &[("db", &[])]).await?;
    let names: Vec<String> = (1..=LIVES).map(|number| format!("rainy-{number}")).collect();
    let started = Instant::now();
    for name in &names {
        create(petri, name, "one").await?;
    }
    for name in &names {
        let ready = petri.until_ready(name, RAIN_MAX).await?;
        one_of_each(petri, &ready).await?;
    }
    let ready = started.elapsed().as_secs_f64();
    for name in &names {
        petri.delete(name).await?;
    }
    for name in &names {
        petri.until_gone(name, RAIN_MAX).await?;
    }
    let gone = started.elapsed().as_secs_f64();
    cleaned(petri).await?;
    let judged = laws.judge().await?;
    Ok(format!("{LIVES} Ready after {ready:.1} s, gone after {gone:.1} s; {judged}"))
}

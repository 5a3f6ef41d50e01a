//! One part of the cluster is stopped in mid-deploy and comes back.

use std::time::{Duration, Instant};

use super::{PATIENCE, create, deployer, ends, one_of_each, template};
use crate::cases::invariants::Invariants;
use crate::petri::{Error, Petri};

pub async fn api_server(petri: &Petri<'_>) -> Result<String, Error> {
    outage(petri, "kube-apiserver", Duration::from_secs(15), "no-api").await
}

pub async fn etcd(petri: &Petri<'_>) -> Result<String, Error> {
    outage(petri, "etcd", Duration::from_secs(30), "no-etcd").await
}

pub async fn kubelet(petri: &Petri<'_>) -> Result<String, Error> {
    outage(petri, "kubelet", Duration::from_secs(20), "no-kubelet").await
}

async fn outage(petri: &Petri<'_>, part: &str, away: Duration, name: &str) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "pair", &[("first", &[]), ("second", &["first"])]).await?;
    create(petri, name, "pair").await?;
    deployer(petri, name).await?;
    petri.lab.stop_component(part).await?;
    tokio::time::sleep(away).await;
    petri.lab.start_component(part).await?;
    let back = Instant::now();
    answers(petri).await?;
    let ready = petri.until_ready(name, PATIENCE).await?;
    let healed = back.elapsed().as_secs_f64();
    let releases = one_of_each(petri, &ready).await?;
    ends(petri, name).await?;
    let judged = laws.judge().await?;
    Ok(format!("Ready {healed:.1} s after it was back; {releases}; {judged}"))
}

/// Waits until the API server answers several requests in a row.
async fn answers(petri: &Petri<'_>) -> Result<(), Error> {
    let (started, mut row) = (Instant::now(), 0);
    while row < 3 {
        match petri.environments().list(&Default::default()).await {
            Ok(_) => row += 1,
            Err(error) if started.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => row = 0,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

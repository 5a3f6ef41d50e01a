//! Two operators: the leader is killed, then frozen past its Lease and woken.

use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use rustix::process::Signal;

use super::process::{self, Found};
use super::{GLANCE, PATIENCE, create, deployer, ends, one_of_each, template};
use crate::cases::invariants::Invariants;
use crate::petri::{Error, MANAGEMENT, Petri};

const LEASE: &str = "petri-operator";
/// The chart's values of the cluster's other cases.
const TERMS: (&str, &str) = ("config.leaseDurationSecs", "5");
/// How long the one that was woken is watched.
const AFTER: Duration = Duration::from_secs(5);

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    petri.helm_upgrade(&[TERMS, ("replicas", "2")]).await?;
    let seen = both(petri).await;
    // The cases after this one have one operator, whatever became of this one.
    petri.helm_upgrade(&[TERMS, ("replicas", "1")]).await?;
    seen
}

async fn both(petri: &Petri<'_>) -> Result<String, Error> {
    let killed = killed(petri).await?;
    let frozen = frozen(petri).await?;
    Ok(format!("killed: {killed}\n                  frozen: {frozen}"))
}

async fn killed(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "pair", &[("first", &[]), ("second", &["first"])]).await?;
    create(petri, "orphaned", "pair").await?;
    deployer(petri, "orphaned").await?;
    let (leader, process) = leader(petri).await?;
    process.signal(Signal::KILL)?;
    let started = Instant::now();
    let ready = petri.until_ready("orphaned", PATIENCE).await?;
    let took = started.elapsed().as_secs_f64();
    let releases = one_of_each(petri, &ready).await?;
    ends(petri, "orphaned").await?;
    let (now, _) = self::leader(petri).await?;
    let heir = if now == leader { "its own restart" } else { "the other replica" };
    Ok(format!("{heir} went on, Ready after {took:.1} s; {releases}; {}", laws.judge().await?))
}

async fn frozen(petri: &Petri<'_>) -> Result<String, Error> {
    let mut laws = Invariants::start(petri)?;
    create(petri, "thawed", "pair").await?;
    deployer(petri, "thawed").await?;
    let (sleeper, process) = leader(petri).await?;
    process.signal(Signal::STOP)?;
    let started = Instant::now();
    let mut took = None;
    while started.elapsed() < PATIENCE && took.is_none() {
        tokio::time::sleep(GLANCE).await;
        took = (holder(petri).await? != sleeper).then(|| started.elapsed().as_secs_f64());
    }
    let Some(took) = took else {
        process.signal(Signal::CONT)?;
        return Err(Error::Wrong(format!("nobody took the Lease of {sleeper}, which is frozen")));
    };
    // In the midst of the other one's work.
    let asleep = laws.requests()?.len();
    process.signal(Signal::CONT)?;
    let ready = petri.until_ready("thawed", PATIENCE).await?;
    tokio::time::sleep(AFTER).await;
    let late = laws.requests()?.iter().skip(asleep).filter(|request| request.pod() == sleeper);
    let (late, reads): (Vec<_>, Vec<_>) = late.partition(|request| request.write().is_some());
    if let Some(first) = late.first() {
        return Err(Error::Wrong(format!("{sleeper} wrote after it was woken: {first:?}")));
    }
    if reads.is_empty() {
        return Err(Error::Wrong(format!("nothing was seen of {sleeper}: was it woken at all?")));
    }
    let releases = one_of_each(petri, &ready).await?;
    ends(petri, "thawed").await?;
    Ok(format!("the Lease went on after {took:.1} s; {releases}; {}", laws.judge().await?))
}

/// Returns the Pod that holds the Lease.
async fn holder(petri: &Petri<'_>) -> Result<String, Error> {
    let leases: Api<Lease> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let identity = leases.get(LEASE).await?.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    Ok(identity.split('_').next().unwrap_or_default().to_owned())
}

/// Returns the leader's Pod and process.
pub async fn leader(petri: &Petri<'_>) -> Result<(String, Found), Error> {
    let name = holder(petri).await?;
    let pods: Api<Pod> = Api::namespaced(petri.lab.client(), MANAGEMENT);
    let uid = pods.get(&name).await?.metadata.uid.unwrap_or_default();
    let found = process::in_pod(&uid, "petri-operator")?.pop();
    let found = found.ok_or_else(|| Error::Wrong(format!("no process was found of {name}, which leads")))?;
    Ok((name, found))
}

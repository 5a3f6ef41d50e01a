//! One Redis that goes when nobody uses it, comes back with its secret, and whose users cannot always be removed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch};
use petri_crds::{EphemeralEnvironment, Phase, SharedComponent};
use serde_json::json;

use super::{PATIENCE, SHARED};
use crate::cases::audit::Audit;
use crate::cases::bad_input::{cleaned, environment};
use crate::petri::{Error, MANAGEMENT, Petri, checkout, story};

/// The provider, the shared component and a template of nothing but a slice.
const MANIFESTS: &str = "e2e/examples/redis.yaml";
const NAME: &str = "cache";
const SERVER: &str = "shared-cache-0";
const INSTANCE: &str = "shared-redis-admin";
/// Seconds of idleness after which the example's workload goes, here.
const IDLE: &str = "3s";
/// How long nothing may be written while nothing happens; five minutes are for the fault cases.
const SHORT: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(300);
/// Five attempts with their pauses: 20 + 40 + 80 + 160 s and what the Jobs take.
const FIVE_ATTEMPTS: Duration = Duration::from_secs(420);

/// A Redis comes with its first user, is idle without a write, goes when nobody uses it and comes back as it was.
pub async fn idle(petri: &Petri<'_>) -> Result<String, Error> {
    set_up(petri, IDLE).await?;
    make(petri, "one").await?;
    petri.until_ready("one", PATIENCE).await?;
    expect_users(petri, &["env_one"]).await?;
    signs_in(petri, "one").await?;
    let secret = instance(petri).await?;
    let writes = writes_within(petri, SHORT).await?;
    petri.delete("one").await?;
    petri.until_gone("one", PATIENCE).await?;
    let left = Instant::now();
    until(petri, "the unused workload gone", |told| {
        told.phase == Some(Phase::Pending) && reason(told) == "Idle"
    })
    .await?;
    let sets: Api<StatefulSet> = Api::namespaced(petri.lab.client(), SHARED);
    let went = left.elapsed();
    let gone = Instant::now();
    while sets.get_opt("shared-cache").await?.is_some() {
        if gone.elapsed() > PATIENCE {
            return Err(Error::Wrong("the unused workload is still there".to_owned()));
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    make(petri, "two").await?;
    let back = Instant::now();
    petri.until_ready("two", PATIENCE).await?;
    let back = back.elapsed();
    expect_users(petri, &["env_two"]).await?;
    if instance(petri).await? != secret {
        return Err(Error::Wrong("the instance secret is another one".to_owned()));
    }
    petri.delete("two").await?;
    petri.until_gone("two", PATIENCE).await?;
    tear_down(petri).await?;
    let (went, back) = (went.as_secs_f64(), back.as_secs_f64());
    Ok(format!("{writes}; idle and gone after {went:.1} s, back and Ready after {back:.1} s"))
}

/// Five minutes in which nothing happens to shared components: not a single write.
pub async fn quiet(petri: &Petri<'_>) -> Result<String, Error> {
    set_up(petri, "").await?;
    make(petri, "one").await?;
    petri.until_ready("one", PATIENCE).await?;
    let told = writes_within(petri, LONG).await?;
    petri.delete("one").await?;
    petri.until_gone("one", PATIENCE).await?;
    tear_down(petri).await?;
    Ok(told)
}

/// A user that cannot be removed is given up after five attempts: the environment goes, its place stays taken until a
/// person lets it go.
pub async fn abandoned(petri: &Petri<'_>) -> Result<String, Error> {
    set_up(petri, "").await?;
    make(petri, "one").await?;
    petri.until_ready("one", PATIENCE).await?;
    let uid = petri.environments().get("one").await?.metadata.uid.unwrap_or_default();
    // Somebody changes the administrator's password behind Petri's back: no Job gets in any more.
    redis(petri, &["ACL", "SETUSER", "default", "resetpass", ">another"]).await?;
    petri.delete("one").await?;
    let began = Instant::now();
    petri.until_gone("one", FIVE_ATTEMPTS).await?;
    let took = began.elapsed();
    let told = shared(petri).get(NAME).await?.status.unwrap_or_default();
    let given_up: Vec<&str> = told.abandoned.iter().map(|one| one.uid.as_str()).collect();
    if given_up != [uid.as_str()] || told.consumers != Some(1) {
        return Err(Error::Wrong(format!("abandoned {given_up:?}, consumers {:?}", told.consumers)));
    }
    make(petri, "two").await?;
    let waits = |environment: &EphemeralEnvironment| {
        let (reason, message) = story(environment);
        reason == "SharedComponentAtCapacity" && message.contains("one/cache")
    };
    petri.until("two", "to wait for the place that was given up", PATIENCE, waits).await?;
    let secret = instance(petri).await?;
    let password =
        String::from_utf8_lossy(&secret.get("password").cloned().unwrap_or_default().0).into_owned();
    let again = format!(">{password}");
    redis_as(petri, "another", &["ACL", "SETUSER", "default", "resetpass", &again]).await?;
    redis(petri, &["ACL", "DELUSER", "env_one"]).await?;
    let forget = Patch::Merge(json!({"metadata": {"annotations": {"petri.run/forget": uid}}}));
    shared(petri).patch(NAME, &Default::default(), &forget).await?;
    petri.until_ready("two", PATIENCE).await?;
    petri.delete("two").await?;
    petri.until_gone("two", PATIENCE).await?;
    tear_down(petri).await?;
    Ok(format!(
        "given up after {:.0} s, and its place was given away once a person said so",
        took.as_secs_f64()
    ))
}

fn shared(petri: &Petri<'_>) -> Api<SharedComponent> {
    Api::namespaced(petri.lab.client(), MANAGEMENT)
}

async fn set_up(petri: &Petri<'_>, idle: &str) -> Result<(), Error> {
    petri.apply(&checkout().join(MANIFESTS)).await?;
    let change = Patch::Merge(json!({"spec": {"idleCleanup": idle}}));
    shared(petri).patch(NAME, &Default::default(), &change).await?;
    Ok(())
}

async fn tear_down(petri: &Petri<'_>) -> Result<(), Error> {
    let file = checkout().join(MANIFESTS).display().to_string();
    petri.lab.kubectl(&["delete", "-f", &file, "--wait=true", "--timeout=120s"]).await?;
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), SHARED);
    if secrets.get_opt(INSTANCE).await?.is_some() {
        return Err(Error::Wrong("the instance secret is left".to_owned()));
    }
    cleaned(petri).await
}

async fn make(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    petri.apply_object(&petri.environments(), &environment(name, "cached", json!({}))).await?;
    Ok(())
}

fn reason(status: &petri_crds::SharedComponentStatus) -> &str {
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    ready.map_or("", |condition| condition.reason.as_str())
}

async fn until(
    petri: &Petri<'_>,
    what: &str,
    want: impl Fn(&petri_crds::SharedComponentStatus) -> bool,
) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let told = shared(petri).get(NAME).await?.status.unwrap_or_default();
        if want(&told) {
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            let last = format!("{:?} {:?}", told.phase, told.conditions);
            return Err(Error::Late { what: what.to_owned(), seconds: PATIENCE.as_secs(), last });
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

async fn instance(petri: &Petri<'_>) -> Result<BTreeMap<String, ByteString>, Error> {
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), SHARED);
    Ok(secrets.get(INSTANCE).await?.data.unwrap_or_default())
}

/// Asks Redis itself, as its administrator.
async fn redis(petri: &Petri<'_>, command: &[&str]) -> Result<String, Error> {
    let password = instance(petri).await?.remove("password").unwrap_or_default();
    redis_as(petri, &String::from_utf8_lossy(&password.0), command).await
}

async fn redis_as(petri: &Petri<'_>, password: &str, command: &[&str]) -> Result<String, Error> {
    let login = ["exec", "-n", SHARED, SERVER, "--", "redis-cli", "-e", "--no-auth-warning", "-a", password];
    let output = petri.lab.kubectl(&[login.as_slice(), command].concat()).await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

async fn expect_users(petri: &Petri<'_>, expected: &[&str]) -> Result<(), Error> {
    let told = redis(petri, &["ACL", "USERS"]).await?;
    let found: Vec<&str> = told.lines().map(str::trim).filter(|user| user.starts_with("env_")).collect();
    if found == expected {
        return Ok(());
    }
    Err(Error::Wrong(format!("users {found:?} instead of {expected:?}")))
}

/// The user that an environment was given gets in with what its binding says, and sees nothing of others.
async fn signs_in(petri: &Petri<'_>, name: &str) -> Result<(), Error> {
    let own = petri.environments().get(name).await?;
    let namespace = crate::petri::namespace_of(&own)?;
    let secrets: Api<Secret> = Api::namespaced(petri.lab.client(), &namespace);
    let data = secrets.get(&format!("{name}-cache-binding")).await?.data.unwrap_or_default();
    let text =
        |key: &str| String::from_utf8_lossy(&data.get(key).cloned().unwrap_or_default().0).into_owned();
    let (user, password) = (text("username"), text("password"));
    let login = ["exec", "-n", SHARED, SERVER, "--", "redis-cli", "--no-auth-warning"];
    let ask = |command: &'static [&'static str]| {
        let own = ["--user", user.as_str(), "--pass", password.as_str()];
        let all: Vec<String> =
            login.iter().chain(&own).chain(command).map(|word| (*word).to_owned()).collect();
        async move {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let output = petri.lab.kubectl(&all).await?;
            Ok::<_, Error>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
    };
    let (own, others) = (ask(&["SET", "env_one:x", "1"]).await?, ask(&["SET", "env_two:x", "1"]).await?);
    if own == "OK" && others.contains("NOPERM") {
        return Ok(());
    }
    Err(Error::Wrong(format!("{user} is told {own:?} of its own key and {others:?} of another's")))
}

/// Counts what the operator writes while nothing happens; the leader's own Lease is none.
async fn writes_within(petri: &Petri<'_>, time: Duration) -> Result<String, Error> {
    // What the last event caused is written by then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut audit = Audit::from_now(petri.lab.audit_log())?;
    tokio::time::sleep(time).await;
    let account = format!("system:serviceaccount:{MANAGEMENT}:petri-operator");
    let lease = |kind: &str| kind.ends_with(" leases");
    let news = audit.news()?;
    let own = news.iter().filter(|request| request.is_by(&account));
    let writes: Vec<String> = own.filter_map(|request| request.write()).filter(|kind| !lease(kind)).collect();
    if writes.is_empty() {
        return Ok(format!("no write in {} idle seconds", time.as_secs()));
    }
    Err(Error::Wrong(format!("written while nothing happened: {writes:?}")))
}

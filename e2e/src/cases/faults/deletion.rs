//! Deletion that is blocked, forced, or comes at a bad moment.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams, PostParams};
use petri_crds::{EphemeralEnvironment, Phase};
use serde_json::json;

use super::{GLANCE, PATIENCE, create, template};
use crate::cases::bad_input::{cleaned, simple_template};
use crate::cases::invariants::Invariants;
use crate::petri::{Error, MANAGEMENT, Petri, namespace_of, story, summary};

const HOLD: &str = "petri.test/hold";
/// How long the namespace is blocked after that was said, and how many writes the operator may make meanwhile.
const BLOCKED: (Duration, usize) = (Duration::from_secs(6), 4);

/// NS-04: the namespace's own condition is in the status while it hangs, without a hot loop.
pub async fn blocked(petri: &Petri<'_>) -> Result<String, Error> {
    let mut laws = Invariants::start(petri)?;
    template(petri, "one", &[("db", &[])]).await?;
    create(petri, "blocked", "one").await?;
    let namespace = namespace_of(&petri.until_ready("blocked", PATIENCE).await?)?;
    let maps: Api<ConfigMap> = Api::namespaced(petri.lab.client(), &namespace);
    let held = json!({"metadata": {"name": "held", "finalizers": [HOLD]}});
    let held: ConfigMap = serde_json::from_value(held).map_err(|error| Error::Wrong(error.to_string()))?;
    maps.create(&PostParams::default(), &held).await?;
    petri.delete("blocked").await?;
    let told = |environment: &EphemeralEnvironment| {
        let message = story(environment).1;
        phase(environment) == Some(Phase::Terminating)
            && message.contains("Namespace")
            && message.contains(HOLD)
    };
    let what = "Terminating, with the namespace's condition";
    let told = petri.until("blocked", what, Duration::from_secs(60), told).await?;
    let before = laws.requests()?.len();
    tokio::time::sleep(BLOCKED.0).await;
    let after = laws.requests()?;
    let writes = after.iter().skip(before).filter_map(|request| request.write());
    let writes: Vec<String> = writes.filter(|kind| !kind.contains("leases")).collect();
    if writes.len() > BLOCKED.1 {
        return Err(Error::Wrong(format!("the operator did not wait quietly: {writes:?}")));
    }
    if petri.environments().get_opt("blocked").await?.is_none() {
        return Err(Error::Wrong("the environment went before its namespace".to_owned()));
    }
    let free = json!({"metadata": {"finalizers": null}});
    maps.patch("held", &PatchParams::default(), &Patch::Merge(free)).await?;
    let released = Instant::now();
    petri.until_gone("blocked", PATIENCE).await?;
    let took = released.elapsed().as_secs_f64();
    cleaned(petri).await?;
    let judged = laws.judge().await?;
    Ok(format!("{:?}; gone {took:.1} s after the release; {judged}", story(&told).1))
}

fn phase(environment: &EphemeralEnvironment) -> Option<Phase> {
    environment.status.as_ref().and_then(|status| status.phase)
}

/// How a user deletes.
const PLAIN: &[&str] = &["--wait=false"];
const FOREGROUND: &[&str] = &["--wait=false", "--cascade=foreground"];
const FORCED: &[&str] = &["--wait=false", "--force", "--grace-period=0"];

/// FIN-06 and its kind: whatever the phase and however it is asked for, deletion leads to gone.
pub async fn phases(petri: &Petri<'_>) -> Result<String, Error> {
    let laws = Invariants::start(petri)?;
    template(petri, "pair", &[("first", &[]), ("second", &["first"])]).await?;
    simple_template(petri, "no-chart", json!({"path": "/charts/nothing-here"})).await?;
    let moments = [
        ("d-pending", "pair", Phase::Pending, FORCED),
        ("d-deploying", "pair", Phase::Deploying, FOREGROUND),
        ("d-ready", "pair", Phase::Ready, FOREGROUND),
        ("d-failed", "no-chart", Phase::Failed, PLAIN),
    ];
    for (name, template, wanted, how) in moments {
        create(petri, name, template).await?;
        catch(petri, name, wanted).await?;
        for _ in 0..2 {
            delete(petri, name, how).await?;
        }
        // In what it has become meanwhile, forced and in the foreground besides.
        delete(petri, name, FORCED).await?;
        delete(petri, name, FOREGROUND).await?;
    }
    for (name, ..) in moments {
        petri.until_gone(name, PATIENCE).await?;
    }
    cleaned(petri).await?;
    laws.judge().await
}

/// Looks often: some phases last only moments.
async fn catch(petri: &Petri<'_>, name: &str, wanted: Phase) -> Result<(), Error> {
    let started = Instant::now();
    let mut last = String::new();
    while started.elapsed() < PATIENCE {
        let found = petri.environments().get(name).await?;
        match phase(&found) {
            Some(phase) if phase == wanted => return Ok(()),
            // Before the first word of the operator it is as good as Pending.
            None if wanted == Phase::Pending => return Ok(()),
            _ => last = summary(&found),
        }
        tokio::time::sleep(GLANCE).await;
    }
    Err(Error::Late { what: format!("{name}: {}", wanted.as_str()), seconds: PATIENCE.as_secs(), last })
}

async fn delete(petri: &Petri<'_>, name: &str, how: &[&str]) -> Result<(), Error> {
    let mut words = vec!["delete", "eenv", name, "-n", MANAGEMENT, "--ignore-not-found"];
    words.extend(how);
    petri.lab.kubectl(&words).await?;
    Ok(())
}

//! Operators on a machine whose clock is an hour fast, and an hour slow: an environment ends when the API server's clock
//! says so.

use std::path::Path;
use std::time::Duration;

use petri_crds::EphemeralEnvironment;
use serde_json::json;

use super::outside::{Outside, api_server, kubeconfig, program, scale, token};
use super::{PATIENCE, ends, template};
use crate::cases::bad_input::{cleaned, environment};
use crate::lab::{self, Progress};
use crate::petri::{Error, Petri, is_ready};

/// Long enough that an hour's error would have ended it, however late it is looked at.
const STAYS: &str = "30m";
/// Ends while it is watched.
const GOES: &str = "40s";
/// How late an end may come.
const LATE_MAX: i64 = 5;
/// What the operator says when it sees the difference.
const SAID: &str = "the API server's clock is followed";
const LIBRARY: &str = "libfaketime.so.1";

pub async fn ttl_04_an_operator_whose_clock_is_an_hour_off_ends_nothing_early(
    petri: &Petri<'_>,
) -> Result<String, Error> {
    let folder = lab::extracted(&["libfaketime"], &Progress::new()).await?;
    let library = found(&folder, LIBRARY)
        .ok_or_else(|| Error::Wrong(format!("the package libfaketime has no {LIBRARY}")))?;
    let program = program(petri).await?;
    template(petri, "one", &[("db", &[])]).await?;
    scale(petri, 0).await?;
    let mut seen = Ok(Vec::new());
    for offset in ["+1h", "-1h"] {
        let lived = off(petri, &program, &library.display().to_string(), offset).await;
        seen = seen.and_then(|mut all: Vec<String>| lived.map(|line| all.push(line)).map(|()| all));
    }
    scale(petri, 1).await?;
    let seen = seen?;
    cleaned(petri).await?;
    Ok(seen.join("; "))
}

/// Lives two environments under an operator whose clock is this far off.
async fn off(petri: &Petri<'_>, program: &Path, library: &str, offset: &str) -> Result<String, Error> {
    let name = if offset.starts_with('+') { "fast" } else { "slow" };
    let user = json!({"token": token(petri, None).await?});
    let kubeconfig = kubeconfig(petri, name, &api_server(petri)?, &user)?;
    let operator = Outside::start(
        program,
        &kubeconfig,
        &[("LD_PRELOAD", library), ("FAKETIME", offset), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")],
    )?;
    let lived = lived(petri, name).await.map_err(|error| operator.explain(&error))?;
    if !operator.log().contains(SAID) {
        let silent = Error::Wrong(format!("the operator did not say {SAID:?}"));
        return Err(operator.explain(&silent));
    }
    let _ = std::fs::remove_file(kubeconfig);
    Ok(format!("{offset}: {lived}"))
}

async fn lived(petri: &Petri<'_>, name: &str) -> Result<String, Error> {
    let (stays, goes) = (format!("{name}-stays"), format!("{name}-goes"));
    for (name, ttl) in [(&stays, STAYS), (&goes, GOES)] {
        let spec = json!({"ttl": ttl});
        petri.apply_object(&petri.environments(), &environment(name, "one", spec)).await?;
    }
    let leaving = |found: &EphemeralEnvironment| found.metadata.deletion_timestamp.is_some();
    let left = petri.until(&goes, "its own deletion", PATIENCE, leaving).await?;
    let late = late_by(&left).ok_or_else(|| Error::Wrong("no expiry in the status".to_owned()))?;
    if !(0..=LATE_MAX).contains(&late) {
        return Err(Error::Wrong(format!("{goes} began to go {late} s after its time")));
    }
    petri.until_gone(&goes, PATIENCE).await?;
    let stayed = petri.until_ready(&stays, PATIENCE).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let still = petri.environments().get_opt(&stays).await?;
    if !still.is_some_and(|still| is_ready(&still) && !leaving(&still)) {
        return Err(Error::Wrong(format!("{stays} ended long before its time")));
    }
    let ahead = since_created(&stayed).unwrap_or_default();
    if !(1_799..=1_801).contains(&ahead) {
        return Err(Error::Wrong(format!("{stays} expires {ahead} s after it was created")));
    }
    ends(petri, &stays).await?;
    Ok(format!("one of {STAYS} stayed, one of {GOES} began to go {late} s after its time"))
}

/// Returns how many seconds after its time a deletion began.
fn late_by(left: &EphemeralEnvironment) -> Option<i64> {
    let began = left.metadata.deletion_timestamp.as_ref()?.0;
    let expires = left.status.as_ref()?.expires_at.as_ref()?.0;
    Some(began.as_second() - expires.as_second())
}

fn since_created(environment: &EphemeralEnvironment) -> Option<i64> {
    let created = environment.metadata.creation_timestamp.as_ref()?.0;
    let expires = environment.status.as_ref()?.expires_at.as_ref()?.0;
    Some(expires.as_second() - created.as_second())
}

/// Finds a file of this name anywhere below a folder.
fn found(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name().to_str() == Some(name) {
                return Some(path);
            }
        }
    }
    None
}

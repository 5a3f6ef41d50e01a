//! Manifests as users of the Go project of the same name write them: they apply unchanged and end where they ended.

use std::time::Duration;

use kube::api::DeleteParams;
use petri_crds::EphemeralEnvironment;

use super::bad_input::cleaned;
use crate::petri::{Error, Petri, checkout, is_ready, story};

const PATIENCE: Duration = Duration::from_secs(120);
const FOLDER: &str = "e2e/fixtures/compat";
/// Stands in the first line of each manifest, before the environment, where it ends, and whether it expires.
const ENDS: &str = "# ends: ";

/// Where the environment of a manifest ends.
struct Ending {
    environment: String,
    /// `Ready`, or `Failed/` and the reason.
    ends: String,
    /// Whether it expires, where that is said.
    expires: Option<bool>,
}

/// Applies all manifests at once, waits for each one's end, and deletes them.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let folder = checkout().join(FOLDER);
    let file = |source| Error::File { path: folder.clone(), source };
    let mut endings = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(file)? {
        let path = entry.map_err(file)?.path();
        endings.push(ending(&std::fs::read_to_string(&path).map_err(file)?)?);
        petri.apply(&path).await?;
    }
    for Ending { environment, ends, expires } in &endings {
        let there = |found: &EphemeralEnvironment| match ends.strip_prefix("Failed/") {
            Some(reason) => story(found).0 == reason,
            None => is_ready(found),
        };
        let found = petri.until(environment, ends, PATIENCE, there).await?;
        let at = found.status.and_then(|status| status.expires_at);
        if expires.is_some_and(|expires| expires != at.is_some()) {
            return Err(Error::Wrong(format!("{environment} expires at {at:?}")));
        }
    }
    for Ending { environment, .. } in &endings {
        petri.delete(environment).await?;
    }
    for Ending { environment, .. } in &endings {
        petri.until_gone(environment, PATIENCE).await?;
        // Its template, where it has one, has its name.
        if petri.templates().get_opt(environment).await?.is_some() {
            petri.templates().delete(environment, &DeleteParams::default()).await?;
        }
    }
    cleaned(petri).await?;
    Ok(format!("{} manifests", endings.len()))
}

fn ending(manifest: &str) -> Result<Ending, Error> {
    let first = manifest.lines().next().and_then(|line| line.strip_prefix(ENDS));
    let mut words = first.unwrap_or_default().split(' ').map(str::to_owned);
    let (Some(environment), Some(ends)) = (words.next(), words.next()) else {
        return Err(Error::Wrong(format!("a manifest of {FOLDER} does not begin with {ENDS:?}")));
    };
    let expires = words.next().map(|word| word == "expires");
    Ok(Ending { environment, ends, expires })
}

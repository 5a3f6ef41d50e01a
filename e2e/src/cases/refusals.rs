//! What the API server itself refuses, and what the operator may do.

use petri_crds::fixtures::{self, Fixture};

use crate::lab::{LabError, Progress};
use crate::petri::{Error, MANAGEMENT, Petri, checkout};

/// Applies every object of `crds/fixtures`: the refused ones must be refused with the sentence they expect.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let list = |error| Error::File { path: "crds/fixtures".into(), source: error };
    let (refused, accepted) = (fixtures::refusals().map_err(list)?, fixtures::accepted().map_err(list)?);
    for fixture in &refused {
        let expect = fixture.expect.as_deref().unwrap_or_default().trim();
        match create(petri, "refused", fixture).await {
            Ok(()) => return Err(Error::Wrong(format!("{} was accepted", fixture.name))),
            Err(error) if error.to_string().contains(expect) && !expect.is_empty() => {}
            Err(error) => {
                return Err(Error::Wrong(format!("{}: expected {expect:?}, got: {error}", fixture.name)));
            }
        }
    }
    for fixture in &accepted {
        create(petri, "accepted", fixture).await?;
    }
    if refused.is_empty() || accepted.is_empty() {
        return Err(Error::Wrong("no fixtures were found".to_owned()));
    }
    Ok(format!("{} refused, {} accepted", refused.len(), accepted.len()))
}

async fn create(petri: &Petri<'_>, kind: &str, fixture: &Fixture) -> Result<(), LabError> {
    let path = checkout().join("crds/fixtures").join(kind).join(format!("{}.yaml", fixture.name));
    let path = path.display().to_string();
    petri.lab.kubectl(&["apply", "--dry-run=server", "-n", MANAGEMENT, "-f", &path]).await?;
    Ok(())
}

/// The rights table, asked of the API server, and the policy that holds RoleBindings in.
pub async fn rights(petri: &Petri<'_>) -> Result<String, Error> {
    let read = kube::config::Kubeconfig::read_from(petri.lab.kubeconfig());
    let read = read.map_err(|error| Error::Wrong(error.to_string()))?;
    let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await;
    let config = config.map_err(|error| Error::Wrong(error.to_string()))?;
    let held =
        crate::rights::prove(&config, MANAGEMENT).await.map_err(|error| Error::Wrong(error.to_string()))?;
    Ok(format!("{held} rights and refusals hold"))
}

/// So many questions of the tables are left out between two that are asked here; `cargo helm-tables --check` asks all.
const ASKED_EVERY: usize = 16;

/// Lints and renders the charts with every value set that they must bear, and asks helm again what the tables of
/// templates say of it.
pub async fn chart(petri: &Petri<'_>) -> Result<String, Error> {
    let helm = petri.lab.bin("helm");
    let promtool = crate::lab::promtool(&Progress::new()).await?;
    let checked = move || {
        let wrong = |error: crate::charts::ChartsError| Error::Wrong(error.to_string());
        let held =
            crate::charts::lint(&helm).map_err(wrong)? + crate::charts::alerts(&promtool).map_err(wrong)?;
        let asked =
            crate::tables::check(&helm, ASKED_EVERY).map_err(|error| Error::Wrong(error.to_string()))?;
        Ok(format!("{held} renderings and refusals hold, {asked} answers of helm are the committed ones"))
    };
    tokio::task::spawn_blocking(checked).await.map_err(|error| Error::Wrong(error.to_string()))?
}

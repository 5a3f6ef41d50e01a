//! What the API server itself refuses, and what the operator may do.

use crate::petri::{Error, MANAGEMENT, Petri, checkout};

/// Applies every object of `crds/fixtures`: the refused ones must be refused with the sentence they expect.
pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    let (mut refused, mut accepted) = (0, 0);
    for fixture in files("refused")? {
        let text = read(&fixture)?;
        let expect = text.lines().find_map(|line| line.strip_prefix("# expect: ")).unwrap_or_default().trim();
        let path = fixture.display().to_string();
        match petri.lab.kubectl(&["create", "--dry-run=server", "-n", MANAGEMENT, "-f", &path]).await {
            Ok(_) => return Err(Error::Wrong(format!("{path} was accepted"))),
            Err(error) if error.to_string().contains(expect) && !expect.is_empty() => refused += 1,
            Err(error) => return Err(Error::Wrong(format!("{path}: expected {expect:?}, got: {error}"))),
        }
    }
    for fixture in files("accepted")? {
        let path = fixture.display().to_string();
        petri.lab.kubectl(&["create", "--dry-run=server", "-n", MANAGEMENT, "-f", &path]).await?;
        accepted += 1;
    }
    if refused == 0 || accepted == 0 {
        return Err(Error::Wrong("no fixtures were found".to_owned()));
    }
    Ok(format!("{refused} refused, {accepted} accepted"))
}

fn files(kind: &str) -> Result<Vec<std::path::PathBuf>, Error> {
    let folder = checkout().join("crds/fixtures").join(kind);
    let entries =
        std::fs::read_dir(&folder).map_err(|source| Error::File { path: folder.clone(), source })?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    Ok(files)
}

fn read(path: &std::path::Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })
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

//! The git repository of the chart sources: served over HTTP and over ssh from one folder.

use std::path::Path;

use super::{VERSION, exemplar, helm, make, write};
use crate::lab::{command, run};
use crate::petri::Error;

/// Names of commits.
#[derive(Debug, Clone, Default)]
pub struct Commits {
    /// Before the newest: at the tip of no branch.
    pub inner: String,
    /// The newest of `main`.
    pub newest: String,
}

/// Makes `git/charts.git` with the branch `main` and the tag `v1`: the exemplar `tiny`, and a `family` that depends on
/// a chart of `charts` and on its neighbour, both locked and not delivered.
pub(super) async fn fill(folder: &Path, charts: &str, repositories: &Path) -> Result<Commits, Error> {
    let (bare, tree) = (folder.join("git/charts.git"), folder.join("tree"));
    make(&bare)?;
    for chart in ["beside", "family", "empty"] {
        make(&tree.join("charts").join(chart))?;
    }
    write(&tree.join("charts/empty/README.md"), b"no chart")?;
    let beside = format!("apiVersion: v2\nname: beside\nversion: {VERSION}\n");
    write(&tree.join("charts/beside/Chart.yaml"), beside.as_bytes())?;
    let family = format!(
        "apiVersion: v2\nname: family\nversion: {VERSION}\ndependencies:\n\
         - {{name: tiny, version: 0.x, repository: '{charts}'}}\n\
         - {{name: beside, version: {VERSION}, repository: 'file://../beside'}}\n"
    );
    write(&tree.join("charts/family/Chart.yaml"), family.as_bytes())?;
    run(command("cp").arg("-r").arg(exemplar("tiny")).arg(tree.join("charts"))).await?;
    let mut update = helm(folder);
    update.args(["dependency", "update", "--repository-config"]).arg(repositories);
    run(update.arg(tree.join("charts/family"))).await?;
    let delivered = tree.join("charts/family/charts");
    std::fs::remove_dir_all(&delivered).map_err(|error| super::file(delivered, error))?;
    git(&bare, &["init", "--quiet", "--bare", "--initial-branch=main", "."]).await?;
    git(&tree, &["init", "--quiet", "--initial-branch=main", "."]).await?;
    git(&tree, &["add", "."]).await?;
    git(&tree, &["commit", "--quiet", "--message=charts"]).await?;
    let inner = git(&tree, &["rev-parse", "HEAD"]).await?;
    git(&tree, &["commit", "--quiet", "--allow-empty", "--message=newest"]).await?;
    let newest = git(&tree, &["rev-parse", "HEAD"]).await?;
    git(&tree, &["tag", "v1"]).await?;
    let to = bare.display().to_string();
    git(&tree, &["push", "--quiet", &to, "main", "v1"]).await?;
    if rustix::process::geteuid().is_root() {
        run(command("chown").args(["-R", super::sshd::GIT]).arg(&bare)).await?;
    }
    Ok(Commits { inner, newest })
}

/// Runs git without the settings of whoever runs this; returns what it says.
async fn git(folder: &Path, arguments: &[&str]) -> Result<String, Error> {
    let mut git = command("git");
    git.args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "e2e").env(format!("GIT_{role}_EMAIL"), "e2e@example.com");
    }
    Ok(String::from_utf8_lossy(&run(&mut git).await?.stdout).trim().to_owned())
}

//! What may come of a chart source: one cell for each source and each state of it, and what else a source may do.

use serde_json::{Value, json};

use super::{Sources, VERSION};

/// One source in one state.
pub struct Cell {
    /// A name that an environment may have.
    pub name: &'static str,
    /// The source, as a template says it.
    pub helm: Value,
    /// Which of [`Sources::secrets`] it has.
    pub secret: Option<&'static str>,
    /// The values.
    pub values: Value,
    /// The reason it fails with; none when it deploys.
    pub reason: Option<&'static str>,
    /// What the message has to name.
    pub says: &'static str,
}

impl Cell {
    fn deploys(name: &'static str, helm: Value, secret: &'static str) -> Self {
        let values = json!({"workload": false});
        Self {
            name,
            helm,
            secret: Some(secret).filter(|name| !name.is_empty()),
            values,
            reason: None,
            says: "",
        }
    }

    fn fails(
        name: &'static str,
        helm: Value,
        secret: &'static str,
        reason: &'static str,
        says: &'static str,
    ) -> Self {
        Self { reason: Some(reason), says, ..Self::deploys(name, helm, secret) }
    }
}

/// Whether a chart's place is forbidden to the deployer can only be asked as another user than root.
pub const NOT_FOR_ROOT: &str = "path-unauthorized";

/// Returns the matrix: {path, git, repo, oci} in each of its states. `charts` is the folder of the exemplar charts as
/// the deployer sees it.
pub fn matrix(sources: &Sources, charts: &str) -> Vec<Cell> {
    let mut cells = path(charts);
    cells.extend(git(sources));
    cells.extend(repo(sources));
    cells.extend(oci(sources));
    cells
}

/// A path has no server: a volume that is not mounted is not there, and a version is not looked at.
fn path(charts: &str) -> Vec<Cell> {
    let at = |path: &str| json!({"path": format!("{charts}/{path}")});
    let version = json!({"path": format!("{charts}/tiny"), "version": "9.9.9"});
    vec![
        Cell::deploys("path-ok", at("tiny"), ""),
        Cell::fails("path-missing", at("nothing-here"), "", "ChartNotFound", "nothing-here"),
        Cell::deploys("path-wrong-version", version, ""),
        Cell::fails(
            NOT_FOR_ROOT,
            json!({"path": "/etc/ssl/private/chart"}),
            "",
            "SourceUnauthorized",
            "/etc/ssl/private/chart",
        ),
        Cell::fails(
            "path-unreachable",
            json!({"path": "/mnt/none/chart"}),
            "",
            "ChartNotFound",
            "/mnt/none/chart",
        ),
        Cell::fails("path-malformed", at("tiny/templates"), "", "ChartInvalid", "Chart.yaml"),
    ]
}

fn git(sources: &Sources) -> Vec<Cell> {
    let of = |repo: &str, path: &str, name: &str| json!({"git": {"repo": repo, "path": path, "ref": name, "fallbackRef": name}});
    let url = sources.git();
    let none = sources.web("git/none.git");
    let nobody = format!("https://{}/charts.git", sources.nobody());
    vec![
        Cell::deploys("git-ok", of(&url, "charts/tiny", "main"), "login"),
        Cell::fails("git-missing", of(&none, "charts/tiny", "main"), "login", "ChartNotFound", "none.git"),
        Cell::fails(
            "git-wrong-version",
            of(&url, "charts/tiny", "v9"),
            "login",
            "ChartVersionNotFound",
            "v9",
        ),
        Cell::fails(
            "git-unauthorized",
            of(&url, "charts/tiny", "main"),
            "wrong-login",
            "SourceUnauthorized",
            "git",
        ),
        Cell::fails(
            "git-unreachable",
            of(&nobody, "charts/tiny", "main"),
            "login",
            "SourceUnreachable",
            "connect",
        ),
        Cell::fails("git-malformed", of(&url, "charts/empty", "main"), "login", "ChartInvalid", "Chart.yaml"),
    ]
}

fn repo(sources: &Sources) -> Vec<Cell> {
    let of =
        |chart: &str, version: &str| json!({"repo": sources.charts(), "chart": chart, "version": version});
    let nobody =
        json!({"repo": format!("https://{}", sources.nobody()), "chart": "tiny", "version": VERSION});
    vec![
        Cell::deploys("repo-ok", of("tiny", VERSION), "login"),
        Cell::fails("repo-missing", of("nothing", VERSION), "login", "ChartNotFound", "nothing"),
        Cell::fails("repo-wrong-version", of("tiny", "9.9.9"), "login", "ChartVersionNotFound", "9.9.9"),
        Cell::fails("repo-unauthorized", of("tiny", VERSION), "wrong-login", "SourceUnauthorized", "401"),
        Cell::fails("repo-unreachable", nobody, "login", "SourceUnreachable", "connect"),
        Cell::fails("repo-malformed", of("torn", VERSION), "login", "ChartInvalid", "torn"),
    ]
}

fn oci(sources: &Sources) -> Vec<Cell> {
    let of = |chart: &str, version: &str| json!({"chart": format!("{}/{chart}", sources.oci()), "version": version});
    let nobody = json!({"chart": format!("oci://{}/tiny", sources.nobody()), "version": VERSION});
    vec![
        Cell::deploys("oci-ok", of("tiny", VERSION), "login"),
        Cell::fails("oci-missing", of("nothing", VERSION), "login", "ChartNotFound", "nothing"),
        Cell::fails("oci-wrong-version", of("tiny", "9.9.9"), "login", "ChartVersionNotFound", "9.9.9"),
        Cell::fails("oci-unauthorized", of("tiny", VERSION), "wrong-login", "SourceUnauthorized", "401"),
        Cell::fails("oci-unreachable", nobody, "login", "SourceUnreachable", "connect"),
        Cell::fails("oci-malformed", of("no-chart", VERSION), "login", "ChartInvalid", "no-chart"),
    ]
}

/// Returns what belongs to a source besides its states: names and ranges of versions, ssh, and dependencies.
pub fn more(sources: &Sources) -> Vec<Cell> {
    let git = |repo: String, name: &str, other: &str| json!({"git": {"repo": repo, "path": "charts/tiny", "ref": name, "fallbackRef": other}});
    let (web, ssh) = (sources.git(), sources.ssh());
    let (inner, short) = (&sources.commits.inner, &sources.commits.inner[..9]);
    let none = "0".repeat(40);
    let repo = |version: &str| json!({"repo": sources.charts(), "chart": "tiny", "version": version});
    let oci = |what: &str, version: &str| json!({"chart": format!("{}/tiny{what}", sources.oci()), "version": version});
    let digest = json!({"chart": format!("{}/tiny@{}", sources.oci(), sources.digest())});
    let family = |repo: &str, values: Value| Cell {
        values,
        ..Cell::deploys("git-dependencies", json!({"git": {"repo": repo, "path": "charts/family"}}), "login")
    };
    let without = json!({"tiny": {"workload": false}});
    vec![
        Cell::deploys("git-tag", git(web.clone(), "v1", "main"), "login"),
        Cell::deploys("git-commit", git(web.clone(), inner, "none"), "login"),
        Cell::deploys("git-short-commit", git(web.clone(), short, "none"), "login"),
        Cell::deploys("git-fallback", git(web.clone(), "no-such-branch", "main"), "login"),
        Cell::fails("git-no-commit", git(web, &none, &none), "login", "ChartVersionNotFound", "000"),
        Cell::deploys("ssh-branch", git(ssh.clone(), "main", "main"), "ssh"),
        Cell::deploys("ssh-commit", git(ssh.clone(), inner, "none"), "ssh"),
        Cell::deploys("ssh-short-commit", git(ssh.clone(), short, "none"), "ssh"),
        Cell::fails("ssh-no-ref", git(ssh.clone(), "v9", "v9"), "ssh", "ChartVersionNotFound", "v9"),
        Cell::fails("ssh-missing", git(format!("{ssh}x"), "v1", "v1"), "ssh", "ChartNotFound", "charts.gitx"),
        Cell::fails(
            "ssh-stranger",
            git(ssh.clone(), "v1", "v1"),
            "ssh-stranger",
            "SourceUnauthorized",
            "publickey",
        ),
        Cell::fails(
            "ssh-other-host",
            git(ssh.clone(), "v1", "v1"),
            "ssh-other-host",
            "SourceUnauthorized",
            "ost key",
        ),
        Cell::fails(
            "ssh-no-hosts",
            git(ssh, "v1", "v1"),
            "ssh-no-hosts",
            "SourceUnauthorized",
            "known_hosts",
        ),
        Cell::deploys("repo-range", repo("^0.1"), "login"),
        Cell::fails("repo-no-range", repo("^7"), "login", "ChartVersionNotFound", "7"),
        Cell::fails("repo-no-login", repo(VERSION), "no-login", "SourceUnauthorized", "401"),
        Cell::fails("repo-no-authority", repo(VERSION), "", "SourceUnreachable", "certificate"),
        Cell::deploys("oci-docker-login", oci("", VERSION), "docker"),
        Cell::deploys("oci-range", oci("", "0.x"), "login"),
        Cell::fails("oci-no-range", oci("", "^7"), "login", "ChartVersionNotFound", "7"),
        Cell::deploys("oci-digest", digest, "login"),
        Cell::fails(
            "oci-no-digest",
            json!({"chart": format!("{}/tiny@sha256:{}", sources.oci(), "0".repeat(64))}),
            "login",
            "ChartVersionNotFound",
            "000",
        ),
        Cell::fails("oci-no-login", oci("", VERSION), "no-login", "SourceUnauthorized", "credential"),
        family(&sources.git(), without),
    ]
}

/// Returns what a server or an archive may do that none should.
pub fn bad(sources: &Sources) -> Vec<Cell> {
    let chart = |chart: &str| json!({"repo": sources.web("bad"), "chart": chart, "version": VERSION});
    let says = |code: &str| json!({"repo": sources.web(code), "chart": "tiny", "version": VERSION});
    let invalid = |name, helm, says| Cell::fails(name, helm, "no-login", "ChartInvalid", says);
    let unreachable = |name, helm, says| Cell::fails(name, helm, "no-login", "SourceUnreachable", says);
    vec![
        // Helm takes the leading slash away, and writes an empty file in place of a link: both stay inside.
        Cell::deploys("bad-absolute", chart("absolute"), "no-login"),
        Cell::deploys("bad-linked", chart("linked"), "no-login"),
        invalid("bad-above", chart("above"), "parent directory"),
        invalid("bad-bomb", chart("bomb"), "larger than the maximum size"),
        invalid("bad-no-manifest", chart("no-manifest"), "chart name"),
        invalid("bad-empty", chart("empty"), "no files"),
        Cell::fails("bad-values", chart("bad-values"), "no-login", "ValuesInvalid", "values.yaml"),
        invalid("bad-library", chart("library"), "library"),
        invalid("bad-no-version", chart("no-version"), "version"),
        invalid("bad-undelivered", chart("undelivered"), "gone"),
        invalid("bad-other-cluster", chart("other-cluster"), "kubeVersion"),
        Cell::fails("answer-401", says("401"), "no-login", "SourceUnauthorized", "401"),
        Cell::fails("answer-403", says("403"), "no-login", "SourceUnauthorized", "403"),
        Cell::fails("answer-404", says("404"), "no-login", "ChartNotFound", "404"),
        unreachable("answer-429", says("429"), "429"),
        unreachable("answer-500", says("500"), "500"),
        unreachable("answer-503", says("503"), "503"),
        unreachable("answer-torn", says("drop"), ""),
        Cell::fails("answer-none", says("slow"), "no-login", "JobDeadline", ""),
        Cell::deploys(
            "redirected",
            json!({"repo": sources.charts(), "chart": "moved", "version": VERSION}),
            "login",
        ),
        Cell::fails(
            "redirected-git",
            json!({"git": {"repo": sources.web("redirect/git/charts.git"), "path": "charts/tiny"}}),
            "login",
            "SourceUnreachable",
            "302",
        ),
    ]
}

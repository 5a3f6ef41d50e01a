//! Where a component's chart comes from, and whether that can ever mean something else.

use crate::deployer::payload::{GitSource, HelmSource, SecretRef};
use petri_crds::{Helm, helm::ChartSource};

/// The version of a repository's chart when none is named: what Helm itself puts in its place.
const NEWEST: &str = "*";

/// Gives the chart source as the deployer reads it.
///
/// # Errors
/// None or several sources, half of one, or a part that the deployer would refuse.
pub fn source(helm: &Helm) -> Result<HelmSource, String> {
    let none = "exactly one chart source is needed: path, git, repo with chart, or an oci:// chart";
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let mut source = HelmSource {
        values_file: text(&helm.values_file),
        plain_http: helm.plain_http,
        credentials_secret_ref: helm
            .credentials_secret_ref
            .as_ref()
            .map(|secret| SecretRef { name: secret.name.clone() }),
        ..HelmSource::default()
    };
    match helm.source().ok_or(none)? {
        ChartSource::Path(path) => source.path = text(path),
        ChartSource::Git(git) => {
            if leaves(&git.path) {
                return Err(
                    "git.path is a directory inside the repository: no leading slash, no .. step".to_owned()
                );
            }
            source.git = Some(GitSource {
                repo: git.repo.clone(),
                path: git.path.clone(),
                reference: git.reference.clone(),
                fallback_ref: git.fallback_ref.clone(),
            });
        }
        ChartSource::Repository { repo, chart, version } => {
            let version = if version.is_empty() { NEWEST } else { version };
            (source.repo, source.chart, source.version) = (text(repo), text(chart), text(version));
        }
        ChartSource::Oci { chart, version } => (source.chart, source.version) = (text(chart), text(version)),
    }
    source.chart_source().map_err(|error| error.to_string())?;
    if leaves(&helm.values_file) {
        return Err("valuesFile is a file inside the chart source: no leading slash, no .. step".to_owned());
    }
    Ok(source)
}

fn leaves(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|step| step == "..")
}

/// Tells whether a chart source can never mean another chart: a path in the deployer's image, a full commit, an
/// exact version, a digest. A branch, a tag, a range or no version can.
pub fn is_immutable(source: &HelmSource) -> bool {
    if let Some(git) = &source.git {
        return is_commit(&git.reference);
    }
    let exact = source.version.as_deref().is_some_and(is_exact_version);
    source.path.is_some() || exact || source.chart.as_deref().is_some_and(is_pinned)
}

/// A full SHA-1 or SHA-256 name of a commit; anything shorter could be a branch, or become ambiguous.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

fn is_pinned(chart: &str) -> bool {
    chart.rsplit_once("@sha256:").is_some_and(|(_, digest)| digest.len() == 64 && is_hex(digest))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// Three numbers, with what semver lets follow them; Helm takes anything else for a range.
fn is_exact_version(text: &str) -> bool {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, pre) = text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let words = |words: Option<&str>| words.is_none_or(|words| words.split('.').all(word));
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    numbers.split('.').count() == 3 && numbers.split('.').all(number) && words(pre) && words(build)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(helm: serde_json::Value, expected: Result<bool, &str>) {
        let decoded: Helm = serde_json::from_value(helm.clone()).unwrap();
        let found = source(&decoded).map(|source| is_immutable(&source));
        match expected {
            Ok(immutable) => assert_eq!(found, Ok(immutable), "{helm}"),
            Err(part) => {
                assert!(found.as_ref().is_err_and(|error| error.contains(part)), "{helm}: {found:?}")
            }
        }
    }

    #[test]
    fn a_source_that_can_mean_something_else_later_is_not_immutable() {
        let git = |reference: &str| json!({"git": {"repo": "https://git.example/a", "path": "c", "ref": reference}});
        let repo =
            |version: &str| json!({"repo": "https://charts.example", "chart": "a", "version": version});
        check(json!({"path": "/charts/api"}), Ok(true));
        check(git("0123456789abcdef0123456789abcdef01234567"), Ok(true));
        check(git("0123456789abcdef0123456789abcdef0123456"), Ok(false));
        check(git("0123456789ABCDEF0123456789abcdef0123456g"), Ok(false));
        check(git("v1.0.0"), Ok(false));
        check(git("main"), Ok(false));
        for exact in ["1.2.3", "v1.2.3", "1.2.3-rc.1", "1.2.3+build.5", "1.2.3-a-b+c"] {
            check(repo(exact), Ok(true));
        }
        for range in
            ["1", "1.2", "^1.2.3", "~1.2.3", ">=1.2.3", "1.x.3", "1.2.*", "1.2.3 - 2.0.0", "1.2.3-", "1..3"]
        {
            check(repo(range), Ok(false));
        }
        let pinned = format!("oci://registry.example/api@sha256:{}", "a".repeat(64));
        check(json!({ "chart": pinned }), Ok(true));
        check(json!({"chart": "oci://registry.example/api", "version": "1.2.3"}), Ok(true));
        check(json!({"chart": "oci://registry.example/api", "version": "1"}), Ok(false));
        check(json!({"chart": "oci://registry.example/api"}), Ok(false));
    }

    #[test]
    fn a_source_that_the_deployer_would_refuse_is_refused_here() {
        check(json!({}), Err("exactly one chart source"));
        check(json!({"path": "/a", "chart": "oci://registry.example/a"}), Err("exactly one chart source"));
        check(json!({"repo": "file:///etc", "chart": "a", "version": "1.0.0"}), Err("http or https"));
        check(json!({"path": "-x"}), Err("no leading hyphen"));
        check(json!({"git": {"repo": "https://git.example/a", "path": "../x"}}), Err("git.path"));
        check(json!({"git": {"repo": "file:///srv/git", "path": "c"}}), Err("http, https or ssh"));
        check(json!({"git": {"repo": "git@git.example:a/b.git", "path": "c"}}), Ok(false));
        check(json!({"path": "/a", "valuesFile": "../x"}), Err("valuesFile"));
        check(json!({"path": "/a", "valuesFile": "/x"}), Err("valuesFile"));
    }

    #[test]
    fn a_chart_of_a_repository_without_a_version_is_the_newest() {
        let helm = json!({"repo": "https://charts.example", "chart": "a"});
        let source = source(&serde_json::from_value(helm).unwrap()).unwrap();
        assert_eq!(source.version.as_deref(), Some("*"));
    }

    #[test]
    fn only_the_parts_of_the_source_are_sent() {
        let helm = json!({"path": "/a", "version": "1.0.0", "valuesFile": "v.yaml", "plainHTTP": true,
            "credentialsSecretRef": {"name": "c"}});
        let source = source(&serde_json::from_value(helm).unwrap()).unwrap();
        assert_eq!(
            serde_json::to_value(source).unwrap(),
            json!({"path": "/a", "valuesFile": "v.yaml", "plainHTTP": true, "credentialsSecretRef": {"name": "c"}})
        );
    }
}

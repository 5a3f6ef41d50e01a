//! What kubectl prints of an environment, compared with what was read by a person and committed.
//!
//! `PETRI_BLESS=1 cargo verify --only cluster` writes the files anew.

use std::time::Duration;

use crate::petri::{Error, MANAGEMENT, Petri, checkout, namespace_of};

use super::bad_input::{cleaned, environment, example};

const VIEWS: [(&str, &[&str]); 5] = [
    ("get", &["get", "eenv", "alpha"]),
    ("get-wide", &["get", "eenv", "alpha", "-o", "wide"]),
    ("describe", &["describe", "eenv", "alpha"]),
    ("explain-components", &["explain", "eenv.spec.components"]),
    ("get-failed", &["get", "eenv", "no-template", "-o", "wide"]),
];

pub async fn run(petri: &Petri<'_>) -> Result<String, Error> {
    example(petri, "template.yaml").await?;
    example(petri, "alpha.yaml").await?;
    let failed = environment("no-template", "nowhere", serde_json::json!({}));
    petri.apply_object(&petri.environments(), &failed).await?;
    let wait = ["wait", "-n", MANAGEMENT, "--for=condition=Ready", "eenv/alpha", "--timeout=120s"];
    petri.lab.kubectl(&wait).await?;
    let alpha = petri.environments().get("alpha").await?;
    let namespace = namespace_of(&alpha)?;
    petri.until("no-template", "a phase", Duration::from_secs(20), |found| found.status.is_some()).await?;
    let mut wrong = Vec::new();
    for (name, arguments) in VIEWS {
        let mut all = vec!["-n", MANAGEMENT];
        all.extend(arguments);
        let output = petri.lab.kubectl(&all).await?;
        let text = normalized(&String::from_utf8_lossy(&output.stdout), &namespace, Events::InOrder);
        wrong.extend(compare(name, &text)?);
    }
    for name in ["alpha", "no-template"] {
        petri.delete(name).await?;
    }
    for name in ["alpha", "no-template"] {
        petri.until_gone(name, Duration::from_secs(60)).await?;
    }
    cleaned(petri).await?;
    if wrong.is_empty() { Ok(format!("{} views", VIEWS.len())) } else { Err(Error::Wrong(wrong.join("\n"))) }
}

/// Compares with the committed file, or writes it.
pub(super) fn compare(name: &str, text: &str) -> Result<Option<String>, Error> {
    let path = checkout().join("e2e/golden").join(format!("{name}.txt"));
    let file = |source| Error::File { path: path.clone(), source };
    if std::env::var_os("PETRI_BLESS").is_some() {
        std::fs::write(&path, text).map_err(file)?;
        return Ok(None);
    }
    let committed = std::fs::read_to_string(&path).map_err(file)?;
    Ok((committed != text).then(|| format!("{} differs; now:\n{text}", path.display())))
}

/// How the events of an object are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Events {
    /// As kubectl does, by time.
    InOrder,
    /// Sorted, each once: when several things happen in one second, nobody can say which comes first.
    AsASet,
}

/// Replaces what differs from run to run: identities, times and ages. The record of the machine is for programs.
pub(super) fn normalized(text: &str, namespace: &str, events: Events) -> String {
    let named = (!namespace.is_empty()).then(|| text.replace(namespace, "petri-env-NAMESPACE"));
    let mut lines: Vec<String> = named.as_deref().unwrap_or(text).lines().map(line).collect();
    if events == Events::AsASet {
        lines = sorted(without_record(lines));
    }
    let mut out = lines.join("\n");
    out.push('\n');
    out
}

fn without_record(lines: Vec<String>) -> Vec<String> {
    let mut inside = false;
    let kept = lines.into_iter().filter(|line| {
        let deeper = line.starts_with("    ");
        inside = if inside { deeper } else { line == "  Machine:" };
        !inside
    });
    kept.collect()
}

/// Sorts the lines of the last table of events; the ages and how often each came differ.
fn sorted(mut lines: Vec<String>) -> Vec<String> {
    let Some(at) = lines.iter().position(|line| line.trim_start().starts_with("----  ------")) else {
        return lines;
    };
    let rest = lines.split_off(at + 1);
    let bare = |line: String| match (line.find("AGE (x"), line.find(" over AGE)")) {
        (Some(from), Some(to)) => format!("{}AGE{}", &line[..from], &line[to + " over AGE)".len()..]),
        _ => line,
    };
    let rest: std::collections::BTreeSet<String> =
        rest.into_iter().map(bare).filter(|line| !line.is_empty()).collect();
    lines.extend(rest);
    lines
}

/// Columns are as wide as what they hold: after the first word, one gap is like another.
fn line(line: &str) -> String {
    let parts = line.trim_end().split("  ").filter(|part| !part.is_empty()).map(|part| words(part.trim()));
    let indent = &line[..line.len() - line.trim_start().len()];
    let text = parts.collect::<Vec<_>>().join("  ");
    let version = text.strip_prefix("Resource Version:").map(|_| "Resource Version:  VERSION".to_owned());
    format!("{indent}{}", version.unwrap_or(text))
}

/// Replaces word by word; a number before a lone `s` is a duration.
fn words(part: &str) -> String {
    let all: Vec<&str> = part.split(' ').collect();
    let lasted = |at: usize| all.get(at + 1) == Some(&"s") && all[at].chars().all(|c| c.is_ascii_digit());
    let shown = (0..all.len()).map(|at| if lasted(at) { "N".to_owned() } else { word(all[at]) });
    shown.collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let like = |form: &str| {
        bare.len() == form.len()
            && bare.chars().zip(form.chars()).all(|(c, f)| match f {
                'x' => c.is_ascii_hexdigit(),
                '0' => c.is_ascii_digit(),
                other => c == other,
            })
    };
    let replaced = if like("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx") {
        "UID"
    } else if like("0000-00-00T00:00:00Z") {
        "TIME"
    } else if bare.len() == 10 && bare.chars().all(|c| c.is_ascii_digit()) {
        "SECONDS"
    } else if is_age(bare) {
        "AGE"
    } else if bare.len() == 64 && bare.chars().all(|c| c.is_ascii_hexdigit()) {
        "DIGEST"
    } else if let Some(stem) = without_hash(bare) {
        return word.replace(bare, &format!("{stem}-HASH"));
    } else {
        return word.to_owned();
    };
    word.replace(bare, replaced)
}

/// Returns the name of a Deployment's pod, or of a Job of Petri's, without what was drawn or computed.
fn without_hash(name: &str) -> Option<&str> {
    // Of these Kubernetes makes its suffixes.
    let drawn = |text: &str| text.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c));
    let (rest, last) = name.rsplit_once('-')?;
    if name.starts_with("petri-") && last.len() >= 10 && last.chars().all(|c| c.is_ascii_hexdigit()) {
        return Some(rest);
    }
    let (stem, template) = rest.rsplit_once('-')?;
    (last.len() == 5 && drawn(last) && (8..=10).contains(&template.len()) && drawn(template)).then_some(stem)
}

/// Ages as kubectl prints them: `7s`, `1m5s`, `3h`.
fn is_age(text: &str) -> bool {
    let digits = text.chars().next().is_some_and(|c| c.is_ascii_digit());
    digits
        && text.ends_with(['s', 'm', 'h', 'd'])
        && text.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        let text = "Name:     alpha    UID: 0b1c2d3e-0000-1111-2222-333344445555\n  Age 1m5s at 2026-11-29T10:00:00Z in ns-1\n  Resource Version:  12\nready after 14 s";
        let expected = "Name:  alpha  UID: UID\n  Age AGE at TIME in petri-env-NAMESPACE\n  Resource Version:  VERSION\nready after N s\n";
        assert_eq!(normalized(text, "ns-1", Events::InOrder), expected);
    }

    #[test]
    fn names_that_were_drawn_or_computed_lose_their_ends() {
        assert_eq!(word("web-7c9d8b6f5-x2kqz:"), "web-HASH:");
        assert_eq!(word("job/petri-deploy-a-web-0123456789ab"), "job/petri-deploy-a-web-0123456789ab");
        assert_eq!(word("petri-deploy-a-web-0123456789ab"), "petri-deploy-a-web-HASH");
        assert_eq!(word("no-such-thing"), "no-such-thing");
    }

    #[test]
    fn events_as_a_set_come_sorted_and_once_and_the_record_is_left_out() {
        let text = "Status:\n  Machine:\n    Phase:\n      Name:  Ready\n  Phase:  Ready\nEvents:\n  Type  Reason\n  ----  ------\n  Normal  B  5s  x\n  Normal  A  9s (x2 over 12s)  y\n  Normal  B  8s  x\n";
        let expected = "Status:\n  Phase:  Ready\nEvents:\n  Type  Reason\n  ----  ------\n  Normal  A  AGE  y\n  Normal  B  AGE  x\n";
        assert_eq!(normalized(text, "", Events::AsASet), expected);
    }
}

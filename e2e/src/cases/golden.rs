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
        let text = normalized(&String::from_utf8_lossy(&output.stdout), &namespace);
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
fn compare(name: &str, text: &str) -> Result<Option<String>, Error> {
    let path = checkout().join("e2e/golden").join(format!("{name}.txt"));
    let file = |source| Error::File { path: path.clone(), source };
    if std::env::var_os("PETRI_BLESS").is_some() {
        std::fs::write(&path, text).map_err(file)?;
        return Ok(None);
    }
    let committed = std::fs::read_to_string(&path).map_err(file)?;
    Ok((committed != text).then(|| format!("{} differs; now:\n{text}", path.display())))
}

/// Replaces what differs from run to run: identities, times and ages.
fn normalized(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "petri-env-NAMESPACE");
    let lines = text.lines().map(line);
    let mut out = lines.collect::<Vec<_>>().join("\n");
    out.push('\n');
    out
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
    } else {
        return word.to_owned();
    };
    word.replace(bare, replaced)
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
        assert_eq!(normalized(text, "ns-1"), expected);
    }
}

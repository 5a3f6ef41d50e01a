//! Pages of the chart that are made from something else: the table of its values, and how an environment lives.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Makes the table of all values out of the comments of `values.yaml`: a row for each that has a comment or is a leaf.
pub fn values(yaml: &str) -> String {
    let mut table = "| value | default | what |\n|---|---|---|\n".to_owned();
    let (mut comment, mut path) = (Vec::new(), Vec::<(usize, String)>::new());
    for line in yaml.lines() {
        let text = line.trim_start();
        if text.is_empty() {
            // What stands alone at the top is about the file.
            comment.clear();
            continue;
        }
        if let Some(more) = text.strip_prefix('#') {
            comment.push(more.trim());
            continue;
        }
        let Some((key, default)) = text.split_once(':') else { continue };
        let depth = line.len() - text.len();
        path.retain(|(above, _)| *above < depth);
        path.push((depth, key.to_owned()));
        let (what, default) = (comment.join(" ").replace('|', "\\|"), default.trim());
        comment.clear();
        if what.is_empty() && default.is_empty() {
            continue;
        }
        let name = path.iter().map(|(_, key)| key.as_str()).collect::<Vec<_>>().join(".");
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        // Never fails: the target is a String.
        let _ = writeln!(table, "| `{name}` | {default} | {what} |");
    }
    table
}

/// Puts the table between its marks.
pub fn with_values(readme: &str, yaml: &str) -> Option<String> {
    let (before, rest) = readme.split_once("<!-- values:")?;
    let (mark, rest) = rest.split_once("-->\n")?;
    let (_, after) = rest.split_once("<!-- /values -->")?;
    Some(format!("{before}<!-- values:{mark}-->\n\n{}\n<!-- /values -->{after}", values(yaml)))
}

/// The phases in the order of a life; the atlas has them by the alphabet.
const PHASES: [&str; 5] = ["Pending", "Deploying", "Ready", "Failed", "Terminating"];

/// Tells how an environment lives: the explorer's map of its machine, with the words of the machine's own sources.
pub fn life(atlas: &str, phases: &str, signals: &str) -> Option<String> {
    let (phases, signals) = (documented(phases, "Phase"), documented(signals, "Signal<'w>"));
    let (_, rest) = atlas.split_once("```mermaid\n")?;
    let (picture, table) = rest.split_once("```\n")?;
    let mut page = format!(
        "# How an environment lives\n\n\
         Made from `machines/atlas/environment.md`, the map that the explorer draws of what the machine does in every \
         state it can come to, and from the machine's own sources, by `PAGES=write cargo test -p petri-e2e --test \
         pages`; a test keeps it true.\n\
         Whatever happens only wakes the operator: it looks at everything, and acts on the first of these that \
         holds. In every phase it is as `kubectl get eenv` shows it; what a reason means is in \
         [operations.md](operations.md).\n\n```mermaid\n{picture}```\n"
    );
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, phase, signal, leads, commands, _] = cells.as_slice() else { return None };
        Some((*phase, *signal, *leads, *commands))
    });
    let rows: Vec<_> = rows.collect();
    for phase in PHASES {
        let _ = writeln!(page, "\n## {phase}\n\n{}\n", phases.get(phase)?);
        for (_, signal, leads, commands) in rows.iter().filter(|row| row.0 == phase) {
            let what = signals.get(*signal)?;
            let leads = match *leads {
                "stays" => format!("it stays {phase}"),
                other => {
                    format!("it goes to {}", other.replace("stays", "itself again").replace(", ", " or "))
                }
            };
            let does =
                if commands.is_empty() { String::new() } else { format!("; it may {}", words(commands)) };
            let _ = writeln!(page, "- {} ({signal}): {leads}{does}.", what.trim_end_matches('.'));
        }
    }
    Some(page)
}

/// Commands as people say them: `CreateJob, DeleteJob` → `create job, delete job`.
fn words(commands: &str) -> String {
    let mut text = String::new();
    for letter in commands.chars() {
        if letter.is_uppercase() && !text.is_empty() && !text.ends_with(' ') {
            text.push(' ');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Reads the variants of an enum with the first line of their documentation.
fn documented(source: &str, name: &str) -> BTreeMap<String, String> {
    let body = source.split_once(&format!("pub enum {name} {{")).map_or("", |(_, rest)| rest);
    let (mut found, mut words) = (BTreeMap::new(), None);
    for line in body.lines().take_while(|line| *line != "}") {
        let is_variant = line.starts_with("    ") && !line.starts_with("     ");
        match line.trim().strip_prefix("/// ") {
            Some(text) if is_variant => words = words.or_else(|| Some(text.to_owned())),
            _ if is_variant && !line.trim().starts_with('}') => {
                let variant: String = line.trim().chars().take_while(char::is_ascii_alphanumeric).collect();
                found.extend(words.take().map(|words| (variant, words)));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_told_by_its_path_its_default_and_its_comment() {
        let yaml = "# About the file.\n\n# Of a | b.\na:\n  # One.\n  # More.\n  b: 1\n  c: {}\nd:\n  e: x\n";
        let rows: Vec<String> = values(yaml).lines().skip(2).map(str::to_owned).collect();
        let wanted = [
            "| `a` |  | Of a \\| b. |",
            "| `a.b` | `1` | One. More. |",
            "| `a.c` | `{}` |  |",
            "| `d.e` | `x` |  |",
        ];
        assert_eq!(rows, wanted);
    }
}

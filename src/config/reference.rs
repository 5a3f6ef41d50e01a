//! The reference page of the configuration, made from the settings' own words and from what the checks say of values
//! that are wrong.
use super::{Config, ConfigError, Settings};
use clap::{Args, Command};
use std::{collections::BTreeMap, fmt::Write as _};

/// Writes the page as Markdown.
pub fn reference() -> String {
    let allowed = allowed();
    let mut page = "# Configuration of the operator\n\n\
        Written by `petri-operator --print-reference`; a test keeps it true.\n\
        A flag goes before its environment variable, that before the file (`--config`, strict YAML), that before the \
        default.\n\
        Any wrong value refuses the start, and all of them are named at once; `--check` only checks, `--print-config` \
        prints what results.\n\n\
        | in the file | flag | environment | what | allowed |\n|---|---|---|---|---|\n"
        .to_owned();
    for argument in Settings::augment_args(Command::new("petri-operator")).get_arguments() {
        let Some(flag) = argument.get_long() else { continue };
        let field = camel(flag);
        let variable = argument.get_env().map(|name| name.to_string_lossy()).unwrap_or_default();
        let what = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let may = allowed.get(field.as_str()).map_or("true or false", String::as_str);
        // Never fails: the target is a String.
        let _ = writeln!(page, "| `{field}` | `--{flag}` | `{variable}` | {what} | {may} |");
    }
    page
}

fn camel(flag: &str) -> String {
    flag.split('-').enumerate().fold(String::new(), |text, (n, word)| {
        let (first, rest) = word.split_at(usize::from(n > 0));
        text + &first.to_uppercase() + rest
    })
}

/// Asks the checks: every value is wrong, so that each says what it may be.
fn allowed() -> BTreeMap<&'static str, String> {
    let (word, number) = (|| Some("!".to_owned()), Some(i64::MIN));
    let wrong = Settings {
        management_namespace: word(),
        shared_namespace: word(),
        workload_cluster_role: word(),
        deployer_image: Some(String::new()),
        deployer_image_pull_policy: word(),
        deployer_cluster_roles: Some(vec!["!".to_owned()]),
        workers: number,
        job_deadline_secs: number,
        default_deploy_timeout_secs: number,
        pod_failure_timeout_secs: number,
        resync_secs: number,
        leader_election: None,
        lease_duration_secs: number,
        lease_renew_secs: number,
        lease_margin_secs: number,
        metrics_address: word(),
        health_address: word(),
        otlp_endpoint: word(),
        trace_sample_percent: number,
        log_level: word(),
    };
    let mut allowed = BTreeMap::new();
    if let Err(ConfigError::Invalid(mistakes)) = Config::check(wrong, None) {
        for mistake in mistakes {
            // What two values must fulfil together comes last, and is said beside.
            allowed.entry(mistake.field).or_insert(mistake.allowed);
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_what_the_program_prints() {
        let committed = include_str!("../../charts/petri/configuration.md");
        assert_eq!(
            reference(),
            committed,
            "run: petri-operator --print-reference > charts/petri/configuration.md"
        );
    }

    #[test]
    fn every_setting_is_told_with_what_it_may_be() {
        let page = reference();
        for line in [
            "| `workers` | `--workers` | `PETRI_WORKERS` | Objects reconciled at once [default: 8] | from 1 to 256 |",
            "| `traceSamplePercent` |",
            "| an http:// or https:// URL |",
            "| true or false |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}

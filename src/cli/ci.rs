//! `kubectl petri ci`: up, wait and down from a pipeline.
//!
//! Exit codes: 0 as asked · 1 the environment failed · 2 wrong arguments · 3 the API refused · 4 out of time ·
//! 5 the API or the identity provider was not reachable.

mod api;
mod report;
#[cfg(test)]
mod tests;
mod token;

use crate::apiserver::{
    body::{Wanted, WantedSource, WantedVariable},
    view::Environment,
};
use api::{Api, Ended};
use clap::{Args, Subcommand};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, time::Duration};
use tokio::time::{Instant, sleep};

/// Why a command ends otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum CiError {
    /// The environment failed.
    #[error("{0}")]
    Failed(String),
    /// An argument or a variable is wrong.
    #[error("{0}")]
    Usage(String),
    /// The API says no.
    #[error("refused ({code}): {message}")]
    Refused {
        /// Its stable word.
        code: String,
        /// Its sentence.
        message: String,
    },
    /// It took too long.
    #[error("not done after {0} s: {1}")]
    Late(u64, String),
    /// No answer.
    #[error("not reachable: {0}")]
    Unreachable(String),
}

impl CiError {
    /// Returns the exit code.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused { .. } => 3,
            Self::Late(..) => 4,
            Self::Unreachable(_) => 5,
        }
    }
}

/// Arguments of all `ci` commands.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// URL of petri-apiserver
    #[arg(long, env = "PETRI_SERVER", global = true, default_value = "")]
    server: String,
    /// Audience that the API server expects of tokens
    #[arg(long, env = "PETRI_AUDIENCE", global = true, default_value = "petri")]
    audience: String,
    /// PEM file of an authority to trust besides the system's
    #[arg(long, env = "PETRI_CA_FILE", global = true)]
    ca_file: Option<PathBuf>,
    /// Send the token without TLS to a host that is not this one
    #[arg(long, env = "PETRI_ALLOW_HTTP", global = true)]
    allow_http: bool,
    /// Longest wait, as 90s or 20m
    #[arg(long, global = true, default_value = "20m", value_parser = duration)]
    timeout: Duration,
    /// Write the body of a comment for the pull request here
    #[arg(long, global = true)]
    comment_file: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Create or change an environment, and wait until it is ready
    Up {
        /// Name of the environment
        name: String,
        /// Name of the template; needed for a new environment
        #[arg(long)]
        template: Option<String>,
        /// How long it lives, as 4h
        #[arg(long)]
        ttl: Option<String>,
        /// A Helm value for every Helm component
        #[arg(long = "set", value_name = "PATH=VALUE", value_parser = pair)]
        values: Vec<(String, String)>,
        /// An environment variable for every Helm component
        #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
        variables: Vec<(String, String)>,
        /// Do not wait
        #[arg(long)]
        no_wait: bool,
    },
    /// Wait until an environment is ready
    Wait {
        /// Name of the environment
        name: String,
    },
    /// Delete an environment; one that is not there is as good
    Down {
        /// Name of the environment
        name: String,
        /// Wait until it is gone
        #[arg(long)]
        wait: bool,
    },
}

fn duration(text: &str) -> Result<Duration, String> {
    petri_crds::duration::parse(text).map_err(|error| error.to_string())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is expected")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command and says how it ended.
pub async fn run(arguments: Arguments) -> ExitCode {
    match run_it(&arguments, &|name| std::env::var(name).ok().filter(|value| !value.is_empty())).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.code())
        }
    }
}

async fn run_it(arguments: &Arguments, env: &dyn Fn(&str) -> Option<String>) -> Result<(), CiError> {
    let api = Api::new(arguments, env)?;
    let deadline = Instant::now() + arguments.timeout;
    let report =
        |environment: &Environment| report::tell(environment, env, arguments.comment_file.as_deref());
    match &arguments.command {
        Command::Up { name, template, ttl, values, variables, no_wait } => {
            let given = |pairs: &[(String, String)]| (!pairs.is_empty()).then(|| pairs.to_vec());
            let wanted = Wanted {
                name: name.clone(),
                template: template.clone(),
                ttl: ttl.clone(),
                source: source(env),
                values: given(values).map(|all| all.into_iter().collect()),
                env: given(variables).map(variables_of),
            };
            let stored = up(&api, &wanted, deadline, arguments.timeout).await?;
            if *no_wait {
                return report(&stored);
            }
            settled(&api, name, deadline, arguments.timeout, report).await
        }
        Command::Wait { name } => settled(&api, name, deadline, arguments.timeout, report).await,
        Command::Down { name, wait } => {
            down(&api, name, deadline, arguments.timeout, *wait).await?;
            println!("{name}: {}", if *wait { "gone" } else { "going" });
            Ok(())
        }
    }
}

fn variables_of(all: Vec<(String, String)>) -> BTreeMap<String, WantedVariable> {
    all.into_iter().map(|(name, value)| (name, WantedVariable::Text(value))).collect()
}

/// What the pipeline says about itself.
fn source(env: &dyn Fn(&str) -> Option<String>) -> Option<WantedSource> {
    let first = |names: &[&str]| names.iter().find_map(|name| env(name));
    let source = WantedSource {
        repo: first(&["GITHUB_REPOSITORY", "CI_PROJECT_PATH"]),
        branch: first(&["GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME"]),
        sha: first(&["GITHUB_SHA", "CI_COMMIT_SHA"]),
    };
    (source != WantedSource::default()).then_some(source)
}

/// A namesake on its way out and a conflict with another job of the same pipeline are waited for. An environment that
/// had failed is run again: whoever starts a job again wants that.
async fn up(api: &Api, wanted: &Wanted, deadline: Instant, limit: Duration) -> Result<Environment, CiError> {
    loop {
        let why = match api.put(wanted, deadline).await {
            Ok(stored) if stored.phase == "Failed" => return api.retry(&wanted.name, deadline).await,
            Err(CiError::Refused { code, message })
                if ["terminating", "conflict"].contains(&code.as_str()) =>
            {
                message
            }
            other => return other,
        };
        pause(deadline, limit, &why).await?;
    }
}

async fn settled(
    api: &Api,
    name: &str,
    deadline: Instant,
    limit: Duration,
    report: impl Fn(&Environment) -> Result<(), CiError>,
) -> Result<(), CiError> {
    let mut last = None;
    loop {
        let ended = api.watch(name, deadline, &mut last).await?;
        let story =
            last.as_ref().map(Environment::story).map(|(reason, message)| format!("{reason}: {message}"));
        let story = story.unwrap_or_default();
        match (ended, &last) {
            (Ended::Ready, Some(environment)) => return report(environment),
            (Ended::Failed, Some(environment)) => {
                report(environment)?;
                return Err(CiError::Failed(format!("{name} failed: {story}")));
            }
            (Ended::Gone, _) => return Err(CiError::Failed(format!("{name} was deleted"))),
            _ => pause(deadline, limit, &story).await?,
        }
    }
}

async fn down(api: &Api, name: &str, deadline: Instant, limit: Duration, wait: bool) -> Result<(), CiError> {
    let absent = |error: &CiError| matches!(error, CiError::Refused { code, .. } if code == "not_found");
    match api.delete(name, deadline).await {
        Err(error) if absent(&error) => return Ok(()),
        other => other?,
    }
    if !wait {
        return Ok(());
    }
    loop {
        let mut last = None;
        match api.watch(name, deadline, &mut last).await {
            Err(error) if absent(&error) => return Ok(()),
            Ok(Ended::Gone) => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => pause(deadline, limit, "it is still being deleted").await?,
        }
    }
}

async fn pause(deadline: Instant, limit: Duration, why: &str) -> Result<(), CiError> {
    let pause = Duration::from_secs(2);
    if Instant::now() + pause >= deadline {
        return Err(CiError::Late(limit.as_secs(), why.to_owned()));
    }
    sleep(pause).await;
    Ok(())
}

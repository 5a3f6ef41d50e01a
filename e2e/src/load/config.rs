//! What a load is told by `PETRI_LOAD_*`. A mistake is named by its variable and what it may be, never with the value.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use http::Uri;

use super::Plan;

/// What every variable begins with.
pub const PREFIX: &str = "PETRI_LOAD_";
const KNOWN: [&str; 5] = ["URL", "TOKEN", "CLIENTS", "RATE", "SECS"];

/// Whom to ask, as whom, and how often.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// Scheme, host and port.
    pub server: String,
    /// What is asked for there, with GET.
    pub path: String,
    /// The bearer token.
    pub token: String,
    /// How often and how long.
    pub plan: Plan,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// Wrong variables: each with what it may be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(|(name, may)| format!("{PREFIX}{name}: {may}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<(String, &'static str)>);

impl Config {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// What is wrong, all of it.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::read(std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?.strip_prefix(PREFIX)?.to_owned();
            // What is no UTF-8 is no value of any of them.
            Some((name, value.into_string().unwrap_or_default()))
        }))
    }

    /// Reads variables, named without the prefix.
    ///
    /// # Errors
    /// What is wrong, all of it.
    pub fn read(variables: impl IntoIterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let all: BTreeMap<String, String> = variables.into_iter().collect();
        let mut wrong: Vec<(String, &'static str)> = all
            .keys()
            .filter(|name| !KNOWN.contains(&name.as_str()))
            .map(|name| (name.clone(), "is not known"))
            .collect();
        let mut refuse = |name: &str, may| wrong.push((name.to_owned(), may));
        let text = |name: &str| all.get(name).map(String::as_str).unwrap_or_default();
        let number = |name: &str, default: u32, most: u32| match all.get(name) {
            None => Some(default),
            Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().filter(|number| (1..=most).contains(number))
            }
            Some(_) => None,
        };
        let target = target(text("URL"));
        if target.is_none() {
            refuse("URL", "must be an http:// or https:// URL without user and fragment");
        }
        if text("TOKEN").is_empty() || !text("TOKEN").bytes().all(|byte| byte.is_ascii_graphic()) {
            refuse("TOKEN", "must be a token, without spaces");
        }
        let (clients, secs) = (number("CLIENTS", 10, 10_000), number("SECS", 10, 3600));
        let rate = all.contains_key("RATE").then(|| number("RATE", 1, 100_000));
        if clients.is_none() {
            refuse("CLIENTS", "must be a number from 1 to 10000");
        }
        if rate == Some(None) {
            refuse("RATE", "must be a number of requests in a second, from 1 to 100000");
        }
        if secs.is_none() {
            refuse("SECS", "must be a number from 1 to 3600");
        }
        let plan = Plan {
            clients: clients.unwrap_or(1) as usize,
            rate: rate.flatten(),
            time: Duration::from_secs(secs.unwrap_or(1).into()),
        };
        if !wrong.is_empty() {
            return Err(ConfigError(wrong));
        }
        let (server, path) = target.unwrap_or_default();
        Ok(Self { server, path, token: text("TOKEN").to_owned(), plan })
    }
}

/// Splits an address into server and path.
fn target(text: &str) -> Option<(String, String)> {
    let uri = text.parse::<Uri>().ok().filter(|_| !text.contains('#'))?;
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = uri.authority().map(|authority| authority.as_str()).filter(|it| !it.contains('@'))?;
    uri.host().filter(|host| !host.is_empty())?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Some((format!("{scheme}://{authority}"), path.to_owned()))
}

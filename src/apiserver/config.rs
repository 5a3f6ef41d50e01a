//! Configuration by `PETRI_APISERVER_*` environment variables. A mistake refuses the start; all are named at once, by
//! the variable and what it may be, and never with the value: it may be a secret in the wrong place.

mod check;
#[cfg(test)]
mod tests;

use crate::apiserver::{
    identity::{AdminClaim, ClaimNames},
    policy::Policy,
};
use check::Reader;
use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, time::Duration};

/// What every variable begins with.
pub const PREFIX: &str = "PETRI_APISERVER_";

/// Wrong variables: each with what it may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(|(name, allowed)| format!("{PREFIX}{name}: {allowed}")).collect::<Vec<_>>().join("\n"))]
pub struct ConfigError(pub Vec<(String, String)>);

/// A text that is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Returns the text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How requests are authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// By tokens of one issuer.
    Oidc(Box<Oidc>),
    /// By one fixed token; for development.
    StaticToken(Secret),
}

/// The issuer and what its tokens must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oidc {
    /// Issuer, exactly as it stands in its tokens; `https`.
    pub issuer: String,
    /// Audience that tokens must be for.
    pub audience: String,
    /// PEM file of the authority that signed the issuer's certificate, where that is none of the system's.
    pub ca_file: Option<PathBuf>,
    /// Tolerated difference between the clocks; at most 60 s.
    pub clock_skew: Duration,
    /// Where a token says what it comes from.
    pub claims: ClaimNames,
    /// What makes an administrator, if anything.
    pub admin: Option<AdminClaim>,
}

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the environments are; nothing else is looked at.
    pub namespace: String,
    /// Where the API is served.
    pub address: SocketAddr,
    /// Where `/metrics` is served.
    pub metrics_address: SocketAddr,
    /// How requests are authenticated.
    pub auth: Auth,
    /// Who is let in.
    pub policy: Policy,
    /// How far into the future an expiry may be extended.
    pub extension_max: Duration,
    /// Connections at once; further ones wait to be accepted.
    pub connections_max: usize,
    /// How long requests may go on after a signal to stop.
    pub drain: Duration,
    /// A level, or directives such as `info,petri=debug`.
    pub log_level: String,
    /// Where traces go (OTLP, gRPC); nowhere when absent.
    pub otlp_endpoint: Option<String>,
    /// Of a hundred traces that begin here, how many are exported.
    pub trace_sample_percent: u8,
}

impl Config {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// What is wrong, all of it.
    pub fn from_env() -> Result<Self, ConfigError> {
        let own = std::env::var("POD_NAMESPACE").ok();
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?.strip_prefix(PREFIX)?.to_owned();
            Some((name, value.into_string().map_err(drop)))
        });
        Self::read(variables.collect(), own.as_deref())
    }

    /// Checks variables, named without the prefix; an error stands for one that is not UTF-8.
    ///
    /// # Errors
    /// What is wrong, all of it.
    pub fn read(
        variables: BTreeMap<String, Result<String, ()>>,
        own_namespace: Option<&str>,
    ) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(variables);
        let own = own_namespace.filter(|own| !own.is_empty()).unwrap_or(crate::config::DEFAULT_NAMESPACE);
        let (auth, policy) = reader.auth();
        let config = Self {
            namespace: reader.namespace("NAMESPACE", own),
            address: reader.address("ADDRESS", ([0, 0, 0, 0], 8080)),
            metrics_address: reader.address("METRICS_ADDRESS", ([0, 0, 0, 0], 9090)),
            auth,
            policy,
            extension_max: reader.duration("EXTENSION_MAX", "168h", 60..=366 * 86_400),
            connections_max: reader.number("CONNECTIONS_MAX", 1_024, 1..=100_000),
            drain: reader.duration("DRAIN", "20s", 0..=600),
            log_level: reader.directives("LOG_LEVEL", "info"),
            otlp_endpoint: reader.endpoint("OTLP_ENDPOINT"),
            trace_sample_percent: reader.percent("TRACE_SAMPLE_PERCENT", 100),
        };
        if config.address == config.metrics_address && config.address.port() != 0 {
            reader.refuse("METRICS_ADDRESS", "must be another address than ADDRESS");
        }
        reader.finish(config)
    }
}

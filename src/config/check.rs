//! The checks of single values; each mistake is noted and a default stands in, so that all are found in one go.
use super::{Config, ConfigError, PullPolicy};
use std::{fmt, net::SocketAddr, ops::RangeInclusive};
use tracing_subscriber::EnvFilter;

/// One wrong value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field as the file writes it.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What it may be.
    pub allowed: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} is not allowed: must be {}", self.field, self.value, self.allowed)
    }
}

#[derive(Default)]
pub(super) struct Checked {
    mistakes: Vec<Mistake>,
}

const DNS_LABEL_MAX: usize = 63;
const DNS_SUBDOMAIN_MAX: usize = 253;
const IMAGE_MAX: usize = 512;
const CLUSTER_ROLES_MAX: usize = 64;

impl Checked {
    fn refuse(&mut self, field: &'static str, value: impl fmt::Display, allowed: impl Into<String>) {
        self.mistakes.push(Mistake { field, value: value.to_string(), allowed: allowed.into() });
    }

    pub(super) fn into_result(self, config: Config) -> Result<Config, ConfigError> {
        if self.mistakes.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(self.mistakes)) }
    }

    pub(super) fn number<T: TryFrom<i64> + Default>(
        &mut self,
        field: &'static str,
        value: Option<i64>,
        default: i64,
        range: RangeInclusive<i64>,
    ) -> T {
        let value = value.unwrap_or(default);
        if !range.contains(&value) {
            self.refuse(field, value, format!("from {} to {}", range.start(), range.end()));
        }
        T::try_from(value).unwrap_or_default()
    }

    pub(super) fn name(&mut self, field: &'static str, value: Option<String>, default: &str) -> String {
        let value = value.unwrap_or_else(|| default.to_owned());
        if value.contains('.') || !is_dns_name(&value, DNS_LABEL_MAX) {
            self.refuse(field, &value, "a namespace: 1 to 63 of a-z, 0-9 and -, not at the ends");
        }
        value
    }

    pub(super) fn role(&mut self, field: &'static str, value: Option<String>, default: &str) -> String {
        let value = value.unwrap_or_else(|| default.to_owned());
        if !is_role(&value) {
            self.refuse(field, &value, "the name of a ClusterRole");
        }
        value
    }

    pub(super) fn roles(&mut self, field: &'static str, value: Option<Vec<String>>) -> Vec<String> {
        let value: Vec<String> =
            value.unwrap_or_default().into_iter().filter(|role| !role.is_empty()).collect();
        if value.len() > CLUSTER_ROLES_MAX {
            self.refuse(
                field,
                format!("{} entries", value.len()),
                format!("at most {CLUSTER_ROLES_MAX} entries"),
            );
        }
        for role in &value {
            if !is_role(role) {
                self.refuse(field, role, "names of ClusterRoles");
            }
        }
        value
    }

    pub(super) fn image(&mut self, field: &'static str, value: Option<String>, default: &str) -> String {
        let value = value.unwrap_or_else(|| default.to_owned());
        let plain = value.chars().all(|c| c.is_ascii_graphic());
        if value.is_empty() || value.len() > IMAGE_MAX || !plain {
            self.refuse(
                field,
                &value,
                format!("an image reference of 1 to {IMAGE_MAX} characters without spaces"),
            );
        }
        value
    }

    pub(super) fn pull_policy(&mut self, field: &'static str, value: Option<String>) -> PullPolicy {
        match value.as_deref() {
            Some("Always") => PullPolicy::Always,
            Some("IfNotPresent") | None => PullPolicy::IfNotPresent,
            Some("Never") => PullPolicy::Never,
            Some(other) => {
                self.refuse(field, other, "Always, IfNotPresent or Never");
                PullPolicy::IfNotPresent
            }
        }
    }

    pub(super) fn address(
        &mut self,
        field: &'static str,
        value: Option<String>,
        default: ([u8; 4], u16),
    ) -> SocketAddr {
        let Some(value) = value else { return default.into() };
        value.parse().unwrap_or_else(|_| {
            self.refuse(field, &value, "an IP address and a port, such as 0.0.0.0:8081 or [::]:8081");
            default.into()
        })
    }

    pub(super) fn endpoint(&mut self, field: &'static str, value: Option<String>) -> Option<String> {
        let value = value.filter(|value| !value.is_empty())?;
        if !is_endpoint(&value) {
            self.refuse(field, &value, "an http:// or https:// URL");
        }
        Some(value)
    }

    pub(super) fn directives(&mut self, field: &'static str, value: Option<String>, default: &str) -> String {
        let value = value.unwrap_or_else(|| default.to_owned());
        // A lone unknown word would parse, as the name of a module that does not exist.
        let level = value.split(',').any(|part| LEVELS.contains(&part.trim()));
        if !level || EnvFilter::try_new(&value).is_err() {
            self.refuse(
                field,
                &value,
                "off, error, warn, info, debug or trace, or directives with one of them: info,petri=debug",
            );
        }
        value
    }

    /// What two values must fulfil together.
    pub(super) fn across(&mut self, config: &Config) {
        if config.shared_namespace == config.management_namespace {
            self.refuse(
                "sharedNamespace",
                &config.shared_namespace,
                "another namespace than managementNamespace",
            );
        }
        if config.lease_renew_secs + config.lease_margin_secs >= config.lease_duration_secs {
            self.refuse(
                "leaseDurationSecs",
                config.lease_duration_secs,
                format!(
                    "greater than leaseRenewSecs + leaseMarginSecs = {}",
                    config.lease_renew_secs + config.lease_margin_secs
                ),
            );
        }
        if config.metrics_address.port() != 0 && config.metrics_address == config.health_address {
            self.refuse("healthAddress", config.health_address, "another address than metricsAddress");
        }
    }
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn is_dns_name(name: &str, max: usize) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    name.len() <= max
        && name.split('.').all(|label| {
            !label.is_empty() && label.chars().all(inner) && !label.starts_with('-') && !label.ends_with('-')
        })
}

/// Names of roles may hold colons (`system:…`), unlike other names.
fn is_role(name: &str) -> bool {
    name.split(':').all(|part| is_dns_name(part, DNS_SUBDOMAIN_MAX))
}

/// Whether an OTLP endpoint is one.
pub(crate) fn is_endpoint(text: &str) -> bool {
    let url = text.parse::<axum::http::Uri>().ok();
    let scheme = url.as_ref().and_then(|url| url.scheme_str());
    matches!(scheme, Some("http" | "https")) && url.as_ref().is_some_and(|url| url.host().is_some())
}

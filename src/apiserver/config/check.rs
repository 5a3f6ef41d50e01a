//! The checks of single variables. Each is taken out as it is read, so that what is left over is unknown.

use super::{Auth, Config, ConfigError, Oidc, Secret};
use crate::{
    apiserver::{
        identity::{AdminClaim, ClaimNames},
        oidc::is_issuer,
        policy::{Entry, Lists, Policy, entries},
    },
    config::is_endpoint,
};
use std::{
    collections::BTreeMap, collections::BTreeSet, net::SocketAddr, ops::RangeInclusive, time::Duration,
};

pub(super) struct Reader {
    variables: BTreeMap<String, Result<String, ()>>,
    mistakes: Vec<(String, String)>,
}

/// Everything that only has a meaning with OIDC.
const OIDC_ONLY: [&str; 14] = [
    "OIDC_ISSUER",
    "OIDC_AUDIENCE",
    "OIDC_CA_FILE",
    "OIDC_CLOCK_SKEW",
    "ORGANIZATION_CLAIM",
    "ORGANIZATION_ID_CLAIM",
    "REPOSITORY_CLAIM",
    "REPOSITORY_ID_CLAIM",
    "ALLOWED_ORGANIZATIONS",
    "ALLOWED_ORGANIZATION_IDS",
    "ALLOWED_REPOSITORIES",
    "ALLOWED_REPOSITORY_IDS",
    "ADMIN_CLAIM",
    "ADMIN_VALUES",
];
const STATIC_ONLY: [&str; 2] = ["STATIC_TOKEN", "STATIC_TOKEN_ALLOWED"];
/// A token that can be guessed is none.
const STATIC_TOKEN_MIN: usize = 16;
const CLOCK_SKEW_MAX: u64 = 60;

impl Reader {
    pub(super) fn new(variables: BTreeMap<String, Result<String, ()>>) -> Self {
        let mut reader = Self { variables, mistakes: Vec::new() };
        // Kubernetes tells every pod about a Service of this name, unless service links are off.
        reader.variables.retain(|name, _| {
            let link = name == "PORT" || name.starts_with("PORT_") || name.starts_with("SERVICE_");
            !link
        });
        reader
    }

    pub(super) fn refuse(&mut self, name: &str, allowed: impl Into<String>) {
        self.mistakes.push((name.to_owned(), allowed.into()));
    }

    pub(super) fn finish(mut self, config: Config) -> Result<Config, ConfigError> {
        for name in std::mem::take(&mut self.variables).into_keys() {
            self.refuse(&name, "is not known");
        }
        self.mistakes.dedup();
        if self.mistakes.is_empty() { Ok(config) } else { Err(ConfigError(self.mistakes)) }
    }

    fn take(&mut self, name: &str) -> Option<String> {
        match self.variables.remove(name)? {
            Ok(value) => Some(value),
            Err(()) => {
                self.refuse(name, "must be UTF-8");
                None
            }
        }
    }

    pub(super) fn namespace(&mut self, name: &str, default: &str) -> String {
        let value = self.take(name).unwrap_or_else(|| default.to_owned());
        if !is_label(&value) {
            self.refuse(name, "must be a namespace: 1 to 63 of a-z, 0-9 and -, not at the ends");
        }
        value
    }

    pub(super) fn address(&mut self, name: &str, default: ([u8; 4], u16)) -> SocketAddr {
        let Some(value) = self.take(name) else { return default.into() };
        value.parse().unwrap_or_else(|_| {
            self.refuse(name, "must be an IP address and a port, such as 0.0.0.0:8080 or [::]:8080");
            default.into()
        })
    }

    pub(super) fn number(&mut self, name: &str, default: usize, range: RangeInclusive<usize>) -> usize {
        let Some(value) = self.take(name) else { return default };
        value.parse().ok().filter(|value| range.contains(value)).unwrap_or_else(|| {
            self.refuse(name, format!("must be a number from {} to {}", range.start(), range.end()));
            default
        })
    }

    pub(super) fn percent(&mut self, name: &str, default: u8) -> u8 {
        u8::try_from(self.number(name, usize::from(default), 0..=100)).unwrap_or(default)
    }

    pub(super) fn endpoint(&mut self, name: &str) -> Option<String> {
        let value = self.take(name).filter(|value| !value.is_empty())?;
        if !is_endpoint(&value) {
            self.refuse(name, "must be an http:// or https:// URL");
        }
        Some(value)
    }

    pub(super) fn duration(&mut self, name: &str, default: &str, secs: RangeInclusive<u64>) -> Duration {
        let value = self.take(name).unwrap_or_else(|| default.to_owned());
        let parsed = petri_crds::duration::parse(&value).ok();
        parsed.filter(|length| secs.contains(&length.as_secs())).unwrap_or_else(|| {
            let (least, most) = (secs.start(), secs.end());
            self.refuse(name, format!("must be a duration such as 30s or 24h, from {least} s to {most} s"));
            Duration::ZERO
        })
    }

    pub(super) fn directives(&mut self, name: &str, default: &str) -> String {
        let value = self.take(name).unwrap_or_else(|| default.to_owned());
        if tracing_subscriber::EnvFilter::try_new(&value).is_err() || value.trim().is_empty() {
            self.refuse(name, "must be a level, or directives such as info,petri=debug");
        }
        value
    }

    /// Nothing falls back to anything: the mode says which variables may be there at all.
    pub(super) fn auth(&mut self) -> (Auth, Policy) {
        let mode = self.take("AUTH_MODE");
        let (foreign, mode): (&[&str], _) = match mode.as_deref() {
            None | Some("oidc") => (&STATIC_ONLY, "oidc"),
            Some("static-token") => (&OIDC_ONLY, "static-token"),
            Some(_) => {
                self.refuse("AUTH_MODE", "must be oidc or static-token");
                (&[], "")
            }
        };
        for name in foreign {
            if self.variables.remove(*name).is_some() {
                self.refuse(name, format!("has no meaning in the mode {mode}"));
            }
        }
        match mode {
            "oidc" => self.oidc(),
            "static-token" => (self.static_token(), Policy::Development),
            _ => {
                self.variables.retain(|name, _| {
                    !OIDC_ONLY.contains(&name.as_str()) && !STATIC_ONLY.contains(&name.as_str())
                });
                (Auth::StaticToken(Secret(String::new())), Policy::default())
            }
        }
    }

    fn static_token(&mut self) -> Auth {
        if self.take("STATIC_TOKEN_ALLOWED").as_deref() != Some("true") {
            let why = "must be true for the mode static-token, which is for development only";
            self.refuse("STATIC_TOKEN_ALLOWED", why);
        }
        let token = self.take("STATIC_TOKEN").unwrap_or_default();
        if token.len() < STATIC_TOKEN_MIN || !token.chars().all(|c| c.is_ascii_graphic()) {
            let why = format!("must be at least {STATIC_TOKEN_MIN} printable characters without spaces");
            self.refuse("STATIC_TOKEN", why);
        }
        Auth::StaticToken(Secret(token))
    }

    fn oidc(&mut self) -> (Auth, Policy) {
        let issuer = self.take("OIDC_ISSUER").unwrap_or_default();
        if !is_issuer(&issuer) {
            self.refuse("OIDC_ISSUER", "must be an https URL without user, query and fragment");
        }
        let audience = self.take("OIDC_AUDIENCE").unwrap_or_default();
        if audience.is_empty() || audience.len() > 256 || !audience.chars().all(|c| c.is_ascii_graphic()) {
            self.refuse("OIDC_AUDIENCE", "must be the audience that tokens are for, without spaces");
        }
        let claims = ClaimNames {
            organization: self.claim("ORGANIZATION_CLAIM"),
            organization_id: self.claim("ORGANIZATION_ID_CLAIM"),
            repository: self.claim("REPOSITORY_CLAIM"),
            repository_id: self.claim("REPOSITORY_ID_CLAIM"),
        };
        let policy = self.policy(&claims);
        let admin = self.admin();
        let clock_skew = self.duration("OIDC_CLOCK_SKEW", "30s", 0..=CLOCK_SKEW_MAX);
        let ca_file = self.take("OIDC_CA_FILE").filter(|path| !path.is_empty()).map(Into::into);
        let oidc = Oidc { issuer, audience, ca_file, clock_skew, claims, admin };
        (Auth::Oidc(Box::new(oidc)), policy)
    }

    fn claim(&mut self, name: &str) -> Option<String> {
        let value = self.take(name)?;
        if value.is_empty() || value.len() > 128 || !value.chars().all(|c| c.is_ascii_graphic()) {
            self.refuse(name, "must be the name of a claim, without spaces");
        }
        Some(value)
    }

    fn policy(&mut self, claims: &ClaimNames) -> Policy {
        let lists = Lists {
            organizations: self.list(
                "ALLOWED_ORGANIZATIONS",
                Entry::Organization,
                ("ORGANIZATION_CLAIM", &claims.organization),
            ),
            organization_ids: self.list(
                "ALLOWED_ORGANIZATION_IDS",
                Entry::Id,
                ("ORGANIZATION_ID_CLAIM", &claims.organization_id),
            ),
            repositories: self.list(
                "ALLOWED_REPOSITORIES",
                Entry::Repository,
                ("REPOSITORY_CLAIM", &claims.repository),
            ),
            repository_ids: self.list(
                "ALLOWED_REPOSITORY_IDS",
                Entry::Id,
                ("REPOSITORY_ID_CLAIM", &claims.repository_id),
            ),
        };
        if lists == Lists::default() {
            let why = "must not all be empty with the other ALLOWED_ lists: nobody could come in";
            self.refuse("ALLOWED_ORGANIZATIONS", why);
        }
        Policy::Lists(lists)
    }

    fn list(&mut self, name: &str, kind: Entry, claim: (&str, &Option<String>)) -> BTreeSet<String> {
        let Some(text) = self.take(name) else { return BTreeSet::new() };
        if claim.1.is_none() {
            self.refuse(name, format!("needs {} to say where a token has it", claim.0));
        }
        entries(&text, kind).unwrap_or_else(|_| {
            let what = match kind {
                Entry::Organization => "organisations such as acme or acme/team",
                Entry::Repository => "repositories such as acme/app",
                Entry::Id => "the provider's numbers",
            };
            self.refuse(name, format!("must be a list of {what}, with commas and without wildcards"));
            BTreeSet::new()
        })
    }

    fn admin(&mut self) -> Option<AdminClaim> {
        let (claim, values) = (self.claim("ADMIN_CLAIM"), self.take("ADMIN_VALUES"));
        let (Some(claim), Some(values)) = (&claim, &values) else {
            if claim.is_some() != values.is_some() {
                self.refuse("ADMIN_CLAIM", "needs ADMIN_VALUES, and the other way round");
            }
            return None;
        };
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if values.iter().any(String::is_empty) {
            self.refuse("ADMIN_VALUES", "must be a list with commas and without empty entries");
        }
        Some(AdminClaim { claim: claim.clone(), values })
    }
}

fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

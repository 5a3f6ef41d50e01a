//! Who may come in: organisations or repositories that are listed, by name or by number. Empty lists let nobody in.

use crate::apiserver::identity::{Bearer, Principal};
use std::collections::BTreeSet;

/// Which identities are let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The one token of a development installation, and nothing else.
    Development,
    /// Tokens of an issuer.
    Lists(Lists),
}

/// Any one match is enough. Comparison is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    /// Names of organisations.
    pub organizations: BTreeSet<String>,
    /// Numbers of organisations.
    pub organization_ids: BTreeSet<String>,
    /// Repositories as `owner/name`.
    pub repositories: BTreeSet<String>,
    /// Numbers of repositories.
    pub repository_ids: BTreeSet<String>,
}

impl Default for Policy {
    fn default() -> Self {
        Self::Lists(Lists::default())
    }
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no identity, or one that says nothing.
    Unauthenticated,
    /// The identity is good and is not listed.
    Forbidden,
}

impl Policy {
    /// Decides about an identity.
    ///
    /// # Errors
    /// Why it is not let in.
    pub fn admit(&self, principal: Option<&Principal>) -> Result<(), Refusal> {
        let permitted = match (self, principal) {
            (_, None) => return Err(Refusal::Unauthenticated),
            (_, Some(Principal::Oidc(bearer))) if bearer.issuer.is_empty() || bearer.subject.is_empty() => {
                return Err(Refusal::Unauthenticated);
            }
            (Self::Development, Some(Principal::Development)) => true,
            (Self::Lists(lists), Some(Principal::Oidc(bearer))) => lists.name(bearer),
            (Self::Development, Some(Principal::Oidc(_)))
            | (Self::Lists(_), Some(Principal::Development)) => false,
        };
        if permitted { Ok(()) } else { Err(Refusal::Forbidden) }
    }
}

impl Lists {
    fn name(&self, bearer: &Bearer) -> bool {
        let listed = |list: &BTreeSet<String>, value: &Option<String>| {
            value.as_ref().is_some_and(|value| !value.is_empty() && list.contains(value))
        };
        listed(&self.organizations, &bearer.organization)
            || listed(&self.organization_ids, &bearer.organization_id)
            || listed(&self.repositories, &bearer.repository)
            || listed(&self.repository_ids, &bearer.repository_id)
    }
}

/// What an entry of a list may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// `acme`, or a group with subgroups, `acme/team`.
    Organization,
    /// `acme/app`, or deeper.
    Repository,
    /// A provider's number or stable identifier.
    Id,
}

/// An entry is not what it may be; says neither which nor how it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an entry is empty or malformed")]
pub struct MalformedEntry;

/// Reads a comma-separated list; spaces around entries are nothing.
///
/// # Errors
/// An entry could never match a claim: empty, with a wildcard, a URL, …
pub fn entries(text: &str, kind: Entry) -> Result<BTreeSet<String>, MalformedEntry> {
    text.split(',')
        .map(|entry| entry.trim_matches([' ', '\t']))
        .map(|entry| if fits(entry, kind) { Ok(entry.to_owned()) } else { Err(MalformedEntry) })
        .collect()
}

fn fits(entry: &str, kind: Entry) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let segment = |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(plain);
    let segments = entry.split('/').count();
    let enough = match kind {
        Entry::Organization => segments >= 1,
        Entry::Repository => segments >= 2,
        Entry::Id => segments == 1,
    };
    enough && entry.len() <= 256 && entry.split('/').all(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(organization: Option<&str>, repository: Option<&str>) -> Principal {
        Principal::Oidc(Box::new(Bearer {
            issuer: "https://issuer".to_owned(),
            subject: "somebody".to_owned(),
            organization: organization.map(str::to_owned),
            repository: repository.map(str::to_owned),
            ..Bearer::default()
        }))
    }

    fn lists(organizations: &[&str], repositories: &[&str]) -> Policy {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Policy::Lists(Lists {
            organizations: set(organizations),
            repositories: set(repositories),
            ..Lists::default()
        })
    }

    #[test]
    fn scenario_196_an_entry_that_could_never_match_is_refused() {
        use Entry::{Id, Organization, Repository};
        for (kind, text) in [
            (Organization, ""),
            (Organization, " "),
            (Organization, "acme,"),
            (Organization, ",acme"),
            (Organization, "acme,,other"),
            (Organization, "ac me"),
            (Organization, "acme\n"),
            (Organization, "acme\nother"),
            (Organization, "*"),
            (Organization, "acme*"),
            (Organization, ".acme"),
            (Organization, "ácme"),
            (Organization, "acme/"),
            (Organization, "https://github.com/acme"),
            (Repository, "acme"),
            (Repository, "/app"),
            (Repository, "acme/"),
            (Repository, "acme//app"),
            (Repository, "acme/app/"),
            (Repository, "acme/*"),
            (Repository, "acme/.app"),
            (Repository, "https://github.com/acme/app"),
            (Repository, "acme/app, acme"),
            (Id, "7/8"),
            (Id, ""),
        ] {
            assert_eq!(entries(text, kind), Err(MalformedEntry), "{kind:?} {text:?}");
        }
        assert!(!MalformedEntry.to_string().contains("acme"));
    }

    #[test]
    fn scenario_196_spaces_around_entries_are_trimmed_and_groups_may_be_nested() {
        let found = entries(" acme/app ,\tacme/team/app", Entry::Repository).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["acme/app", "acme/team/app"]);
        assert_eq!(entries("acme, acme", Entry::Organization).unwrap().len(), 1);
        assert!(entries("74, 8301", Entry::Id).is_ok());
    }

    #[test]
    fn scenario_197_without_an_identity_nobody_comes_in_under_any_policy() {
        let says_nothing = Principal::Oidc(Box::default());
        for policy in [Policy::Development, Policy::default(), lists(&["acme"], &[])] {
            assert_eq!(policy.admit(None), Err(Refusal::Unauthenticated));
            assert_eq!(policy.admit(Some(&says_nothing)), Err(Refusal::Unauthenticated));
        }
    }

    #[test]
    fn scenario_198_the_development_identity_passes_no_list_and_no_empty_policy() {
        for policy in [Policy::default(), lists(&["development"], &["a/b"])] {
            assert_eq!(policy.admit(Some(&Principal::Development)), Err(Refusal::Forbidden));
        }
        assert_eq!(Policy::Development.admit(Some(&Principal::Development)), Ok(()));
        assert_eq!(Policy::Development.admit(Some(&bearer(Some("acme"), None))), Err(Refusal::Forbidden));
    }

    #[test]
    fn scenario_202_api_05_an_organisation_or_a_repository_must_match_exactly() {
        let both = lists(&["acme"], &["other/app"]);
        for (organization, repository, admitted) in [
            (Some("acme"), Some("acme/x"), true),
            (Some("acme"), None, true),
            (None, Some("other/app"), true),
            (Some("other"), Some("other/app"), true),
            (Some("acme"), Some("other/app"), true),
            (Some("acme"), Some("unlisted/app"), true),
            (Some("unlisted"), Some("other/app"), true),
            (Some("unlisted"), Some("unlisted/app"), false),
            (Some("Acme"), None, false),
            (Some("ACME"), None, false),
            (None, Some("Other/app"), false),
            (None, Some("other/App"), false),
            (Some("x"), Some("fork/app"), false),
            (Some("acm"), None, false),
            (Some("acmee"), None, false),
            (Some("acme/x"), None, false),
            (None, Some("other/ap"), false),
            (None, Some("other/app2"), false),
            (None, Some("xother/app"), false),
            (Some(" acme"), Some("other/app "), false),
            (Some(""), Some(""), false),
            (None, None, false),
        ] {
            let expected = if admitted { Ok(()) } else { Err(Refusal::Forbidden) };
            let found = both.admit(Some(&bearer(organization, repository)));
            assert_eq!(found, expected, "{organization:?} {repository:?}");
        }
        assert_eq!(lists(&[""], &[""]).admit(Some(&bearer(Some(""), Some("")))), Err(Refusal::Forbidden));
    }

    #[test]
    fn api_04_a_recycled_name_does_not_match_the_number_it_once_had() {
        let policy = Policy::Lists(Lists { repository_ids: ["74".to_owned()].into(), ..Lists::default() });
        let with_id = |id: &str| {
            let Principal::Oidc(mut bearer) = bearer(Some("acme"), Some("acme/app")) else { unreachable!() };
            bearer.repository_id = Some(id.to_owned());
            Principal::Oidc(bearer)
        };
        assert_eq!(policy.admit(Some(&with_id("74"))), Ok(()));
        assert_eq!(policy.admit(Some(&with_id("75"))), Err(Refusal::Forbidden));
    }
}

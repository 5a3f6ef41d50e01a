//! Who asks.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Names of the claims that say where a token comes from; a claim that is not named is not looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimNames {
    /// Organisation, by name.
    pub organization: Option<String>,
    /// Organisation, by the provider's number, which a new owner of an old name does not get.
    pub organization_id: Option<String>,
    /// Repository, as `owner/name`.
    pub repository: Option<String>,
    /// Repository, by the provider's number.
    pub repository_id: Option<String>,
}

/// What makes an administrator: one of these values in this claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminClaim {
    /// Name of the claim; a text, or a list of texts such as groups.
    pub claim: String,
    /// Any of these.
    pub values: Vec<String>,
}

/// A verified identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Whoever has the one token of a development installation.
    Development,
    /// The bearer of a token of the configured issuer.
    Oidc(Box<Bearer>),
}

/// What a verified token says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bearer {
    /// The issuer, exactly as configured.
    pub issuer: String,
    /// The `sub` claim.
    pub subject: String,
    /// The configured organisation claim.
    pub organization: Option<String>,
    /// The configured claim of the organisation's number.
    pub organization_id: Option<String>,
    /// The configured repository claim.
    pub repository: Option<String>,
    /// The configured claim of the repository's number.
    pub repository_id: Option<String>,
    /// Whether it sees the environments of all owners.
    pub admin: bool,
}

/// A configured claim is there, but is no text or, where it is a number's, no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a configured claim is malformed")]
pub struct MalformedClaim;

/// Providers' names are far shorter; what is longer is no name.
const CLAIM_MAX: usize = 512;

impl Bearer {
    /// Takes the configured claims out of a verified token.
    ///
    /// # Errors
    /// One of them is malformed; a claim that is absent is not.
    pub fn read(
        issuer: &str,
        subject: &str,
        claims: &Map<String, Value>,
        names: &ClaimNames,
        admin: Option<&AdminClaim>,
    ) -> Result<Self, MalformedClaim> {
        let name = |claim: &Option<String>| text(claims, claim.as_deref(), false);
        let id = |claim: &Option<String>| text(claims, claim.as_deref(), true);
        Ok(Self {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            organization: name(&names.organization)?,
            organization_id: id(&names.organization_id)?,
            repository: name(&names.repository)?,
            repository_id: id(&names.repository_id)?,
            admin: admin.is_some_and(|admin| is_admin(claims, admin)),
        })
    }
}

fn text(
    claims: &Map<String, Value>,
    claim: Option<&str>,
    number: bool,
) -> Result<Option<String>, MalformedClaim> {
    match claim.and_then(|claim| claims.get(claim)) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= CLAIM_MAX && !text.chars().any(char::is_control) => {
            Ok(Some(text.clone()))
        }
        Some(Value::Number(value)) if number && value.is_u64() => Ok(Some(value.to_string())),
        Some(_) => Err(MalformedClaim),
    }
}

fn is_admin(claims: &Map<String, Value>, admin: &AdminClaim) -> bool {
    let is_one =
        |value: &Value| value.as_str().is_some_and(|text| admin.values.iter().any(|one| one == text));
    match claims.get(&admin.claim) {
        Some(Value::Array(items)) => items.iter().any(is_one),
        Some(value) => is_one(value),
        None => false,
    }
}

/// Hexadecimal digits of an owner label: 160 bits.
const OWNER_LENGTH: usize = 40;

impl Principal {
    /// Value of the owner label: a digest of the issuer with the repository's number, else its name, else the subject.
    /// A label's value cannot hold a repository's name, and a number outlives renames and is never given to another.
    pub fn owner(&self) -> String {
        let (issuer, kind, value) = match self {
            Self::Development => ("", "development", ""),
            Self::Oidc(bearer) => {
                let given = |value: &'_ Option<String>| value.clone().filter(|value| !value.is_empty());
                match (given(&bearer.repository_id), given(&bearer.repository)) {
                    (Some(id), _) => return digest(&bearer.issuer, "repository-id", &id),
                    (None, Some(name)) => return digest(&bearer.issuer, "repository", &name),
                    (None, None) => (bearer.issuer.as_str(), "subject", bearer.subject.as_str()),
                }
            }
        };
        digest(issuer, kind, value)
    }

    /// Name of the repository, for people.
    pub fn repository(&self) -> Option<&str> {
        match self {
            Self::Development => None,
            Self::Oidc(bearer) => bearer.repository.as_deref().filter(|name| !name.is_empty()),
        }
    }

    /// Whether it sees the environments of all owners.
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Oidc(bearer) if bearer.admin)
    }

    /// Issuer and subject, for the audit log.
    pub fn named(&self) -> (&str, &str) {
        match self {
            Self::Development => ("development", "development"),
            Self::Oidc(bearer) => (&bearer.issuer, &bearer.subject),
        }
    }
}

fn digest(issuer: &str, kind: &str, value: &str) -> String {
    let mut text: String = Sha256::digest(format!("{issuer}\n{kind}\n{value}"))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    text.truncate(OWNER_LENGTH);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn github() -> ClaimNames {
        let name = |name: &str| Some(name.to_owned());
        ClaimNames {
            organization: name("repository_owner"),
            organization_id: name("repository_owner_id"),
            repository: name("repository"),
            repository_id: name("repository_id"),
        }
    }

    fn read(claims: Value) -> Result<Principal, MalformedClaim> {
        let admin = AdminClaim { claim: "groups".to_owned(), values: vec!["ops".to_owned()] };
        let Value::Object(claims) = claims else { return Err(MalformedClaim) };
        Bearer::read("https://i", "s", &claims, &github(), Some(&admin))
            .map(|bearer| Principal::Oidc(Box::new(bearer)))
    }

    #[test]
    fn scenario_204_and_206_absent_claims_are_fine_and_unconfigured_ones_are_not_looked_at() {
        let found = read(json!({"actor": 7, "ref": null, "x": {"repository": 5}})).unwrap();
        let expected =
            Bearer { issuer: "https://i".to_owned(), subject: "s".to_owned(), ..Bearer::default() };
        assert_eq!(found, Principal::Oidc(Box::new(expected)));
    }

    #[test]
    fn a_malformed_claim_refuses_the_whole_identity() {
        for claims in [
            json!({"repository": null}),
            json!({"repository": 5}),
            json!({"repository": ["a/b"]}),
            json!({"repository": "a/b\n"}),
            json!({"repository": "a/".to_owned() + &"b".repeat(600)}),
            json!({"repository_owner": true, "repository": "a/b"}),
            json!({"repository_id": -1}),
            json!({"repository_id": 1.5}),
            json!({"repository_owner_id": {}}),
        ] {
            assert_eq!(read(claims.clone()), Err(MalformedClaim), "{claims}");
        }
    }

    #[test]
    fn an_environment_belongs_to_the_number_of_a_repository_and_not_to_its_name() {
        let owner = |claims| read(claims).unwrap().owner();
        let old = owner(json!({"repository": "a/b", "repository_id": "7"}));
        assert_eq!(old, owner(json!({"repository": "a/renamed", "repository_id": 7})));
        let recycled = owner(json!({"repository": "a/b", "repository_id": "8"}));
        let by_name = owner(json!({"repository": "a/b"}));
        let nobody = owner(json!({}));
        let posing = owner(json!({"repository": "7"}));
        let all = [&old, &recycled, &by_name, &nobody, &posing, &Principal::Development.owner()];
        for (index, one) in all.iter().enumerate() {
            assert_eq!(one.len(), OWNER_LENGTH);
            assert!(!all.iter().skip(index + 1).any(|other| other == one), "{index}");
        }
    }

    #[test]
    fn an_administrator_is_named_by_a_text_or_in_a_list() {
        for (groups, expected) in [
            (json!("ops"), true),
            (json!(["dev", "ops"]), true),
            (json!("Ops"), false),
            (json!(["dev"]), false),
            (json!({"ops": true}), false),
            (json!([["ops"]]), false),
            (json!(null), false),
        ] {
            assert_eq!(read(json!({ "groups": groups })).unwrap().is_admin(), expected, "{groups}");
        }
        assert!(!read(json!({})).unwrap().is_admin());
        assert!(!Principal::Development.is_admin());
    }

    #[test]
    fn scenario_201_a_copy_of_an_identity_shares_nothing_with_it() {
        let original = read(json!({"repository": "a/b"})).unwrap();
        let mut copy = original.clone();
        if let Principal::Oidc(bearer) = &mut copy {
            bearer.repository = Some("c/d".to_owned());
            bearer.admin = true;
        }
        assert_eq!((original.repository(), original.is_admin()), (Some("a/b"), false));
    }
}

//! What a token must look like before and after its signature was checked.

use super::keys::{KID_MAX, algorithm};
use crate::apiserver::strict::{self, Nulls};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, errors::ErrorKind};
use serde_json::{Map, Value};
use std::time::Duration;

/// Why a token is not accepted. Clients are told only that it is not; metrics count the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Longer than any provider's.
    TooLarge,
    /// Not three parts of base64url, or no strict JSON in them.
    Malformed,
    /// The header says something that no token of an issuer says.
    Header,
    /// Not an asymmetric signature of a known kind.
    Algorithm,
    /// No key of this name may sign by this algorithm.
    UnknownKey,
    /// The signature is not the key's.
    Signature,
    /// It was valid.
    Expired,
    /// It will be valid.
    NotYet,
    /// Another issuer's.
    Issuer,
    /// For somebody else.
    Audience,
    /// A claim is missing or malformed.
    Claims,
}

impl Refused {
    /// Each of them.
    pub const ALL: [Self; 11] = [
        Self::TooLarge,
        Self::Malformed,
        Self::Header,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Expired,
        Self::NotYet,
        Self::Issuer,
        Self::Audience,
        Self::Claims,
    ];

    /// Returns the stable word that is counted.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Header => "header",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYet => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claims => "claims",
        }
    }
}

/// GitHub's and GitLab's are below 3 KiB.
pub(super) const TOKEN_MAX: usize = 16 * 1024;
/// Parameters that would bring a key or another meaning with them: nothing of the kind is followed or believed.
const FORBIDDEN: [&str; 10] = ["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc", "cty", "p2c"];
const TYPES: [&str; 2] = ["jwt", "at+jwt"];

/// What a header says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) algorithm: Algorithm,
    pub(super) kid: String,
}

/// Reads the header and checks that the claims are strict JSON; nothing is verified yet.
pub(super) fn open(token: &str) -> Result<(Header, Map<String, Value>), Refused> {
    if token.len() > TOKEN_MAX {
        return Err(Refused::TooLarge);
    }
    let mut parts = token.split('.');
    let (Some(header), Some(claims), Some(signature), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refused::Malformed);
    };
    URL_SAFE_NO_PAD.decode(signature).map_err(|_| Refused::Malformed)?;
    Ok((header_of(&object(header)?)?, object(claims)?))
}

/// Whether a text looks like a token at all.
#[cfg(test)]
pub(crate) fn reads(token: &str) -> bool {
    open(token).is_ok()
}

fn object(part: &str) -> Result<Map<String, Value>, Refused> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Malformed)?;
    match strict::parse(&bytes, Nulls::Kept) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(Refused::Malformed),
    }
}

fn header_of(fields: &Map<String, Value>) -> Result<Header, Refused> {
    if FORBIDDEN.iter().any(|name| fields.contains_key(*name)) {
        return Err(Refused::Header);
    }
    let is_type = |value: &Value| {
        value.as_str().is_some_and(|text| TYPES.contains(&text.to_ascii_lowercase().as_str()))
    };
    if !fields.get("typ").is_none_or(is_type) {
        return Err(Refused::Header);
    }
    let named = fields.get("alg").and_then(Value::as_str).ok_or(Refused::Algorithm)?;
    let algorithm = algorithm(named).ok_or(Refused::Algorithm)?;
    let kid = fields.get("kid").and_then(Value::as_str).unwrap_or_default();
    if kid.is_empty() || kid.len() > KID_MAX {
        return Err(Refused::Header);
    }
    Ok(Header { algorithm, kid: kid.to_owned() })
}

/// Checks signature, times and audience by the library.
pub(super) fn verify<'a>(
    token: &str,
    algorithm: Algorithm,
    keys: impl Iterator<Item = &'a DecodingKey>,
    audience: &str,
    skew: Duration,
) -> Result<(), Refused> {
    let mut validation = Validation::new(algorithm);
    validation.leeway = skew.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&[audience]);
    validation.set_required_spec_claims(&["exp", "sub", "iss", "aud"]);
    let mut refused = Refused::UnknownKey;
    for key in keys {
        match jsonwebtoken::decode::<serde::de::IgnoredAny>(token, key, &validation) {
            Ok(_) => return Ok(()),
            Err(error) => refused = why(error.kind()),
        }
    }
    Err(refused)
}

fn why(kind: &ErrorKind) -> Refused {
    match kind {
        ErrorKind::InvalidSignature => Refused::Signature,
        ErrorKind::ExpiredSignature => Refused::Expired,
        ErrorKind::ImmatureSignature => Refused::NotYet,
        ErrorKind::InvalidAudience => Refused::Audience,
        ErrorKind::InvalidAlgorithm => Refused::Algorithm,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) | ErrorKind::Json(_) => {
            Refused::Claims
        }
        _ => Refused::Signature,
    }
}

/// What the library leaves open: an issuer that is one text, a subject that is one, times that are numbers.
pub(super) fn subject<'a>(
    claims: &'a Map<String, Value>,
    issuer: &str,
    now: u64,
    skew: Duration,
) -> Result<&'a str, Refused> {
    if claims.get("iss").and_then(Value::as_str) != Some(issuer) {
        return Err(Refused::Issuer);
    }
    let latest = now.saturating_add(skew.as_secs());
    for (name, may_be_later) in [("exp", true), ("nbf", false), ("iat", false)] {
        match claims.get(name).map(|value| value.as_f64().filter(|at| *at >= 0.0)) {
            // Whole seconds are compared: a double holds those for longer than any clock runs.
            Some(Some(at)) if !may_be_later && at.floor() > latest as f64 => return Err(Refused::NotYet),
            Some(Some(_)) => {}
            None if name != "exp" => {}
            None | Some(None) => return Err(Refused::Claims),
        }
    }
    let audiences = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().all(Value::is_string),
        Some(one) => one.is_string(),
        None => false,
    };
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    if !audiences || subject.is_empty() || subject.len() > 1024 || subject.chars().any(char::is_control) {
        return Err(Refused::Claims);
    }
    Ok(subject)
}

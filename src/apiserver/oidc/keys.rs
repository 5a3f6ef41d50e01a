//! The keys of an issuer: those that may sign tokens, and nothing else of what the set holds.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::{Map, Value};

/// The keys that may sign; never empty.
#[derive(Clone)]
pub struct KeySet(Vec<Key>);

#[derive(Clone)]
struct Key {
    kid: String,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// A document is no key set, or has no key that may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no usable key in the key set")]
pub struct NoKeys;

/// Issuers have a handful.
const KEYS_MAX: usize = 100;
/// Shorter keys are within reach of a factorisation; longer ones cost more than they protect.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Longer key names are refused, in sets and in tokens.
pub(super) const KID_MAX: usize = 256;

const RSA: [(&str, Algorithm); 6] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
];
const P256: [(&str, Algorithm); 1] = [("ES256", Algorithm::ES256)];
const P384: [(&str, Algorithm); 1] = [("ES384", Algorithm::ES384)];

/// Returns the algorithm of this name, if a token may be signed by it: RSA and elliptic curves, so that what is public
/// can verify and never sign.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    let known = RSA.iter().chain(&P256).chain(&P384);
    known.into_iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
}

impl KeySet {
    /// Takes from a key set what may sign: named keys that are not for encryption, not weak and not private.
    ///
    /// # Errors
    /// Nothing is left.
    pub fn read(document: &Value) -> Result<Self, NoKeys> {
        let listed = document.get("keys").and_then(Value::as_array).ok_or(NoKeys)?;
        let usable = listed.iter().take(KEYS_MAX).filter_map(Value::as_object).filter_map(key);
        let keys: Vec<Key> = usable.collect();
        if keys.is_empty() { Err(NoKeys) } else { Ok(Self(keys)) }
    }

    /// Returns the keys of this name that may sign by this algorithm. Two of one name can stand there while an issuer
    /// changes the algorithm.
    pub(super) fn named(&self, kid: &str, algorithm: Algorithm) -> impl Iterator<Item = &DecodingKey> {
        let fits = move |key: &&Key| key.kid == kid && key.algorithms.contains(&algorithm);
        self.0.iter().filter(fits).map(|key| &key.key)
    }

    pub(super) fn knows(&self, kid: &str) -> bool {
        self.0.iter().any(|key| key.kid == kid)
    }
}

fn key(entry: &Map<String, Value>) -> Option<Key> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let kid = text("kid").filter(|kid| !kid.is_empty() && kid.len() <= KID_MAX)?;
    let signs = entry.get("use").is_none_or(|purpose| purpose == "sig")
        && entry
            .get("key_ops")
            .is_none_or(|all| all.as_array().is_some_and(|all| all.iter().any(|one| one == "verify")));
    // A private part in a public document: whoever reads it can sign.
    if !signs || entry.contains_key("d") || entry.contains_key("k") {
        return None;
    }
    let (known, key): (&[(&str, Algorithm)], _) = match text("kty")? {
        "RSA" => (&RSA, rsa(text("n")?, text("e")?)?),
        "EC" => {
            let known: &[_] = match text("crv")? {
                "P-256" => &P256,
                "P-384" => &P384,
                _ => return None,
            };
            (known, DecodingKey::from_ec_components(text("x")?, text("y")?).ok()?)
        }
        _ => return None,
    };
    let permitted = |name: &str| entry.get("alg").is_none_or(|alg| alg == name);
    let algorithms: Vec<Algorithm> =
        known.iter().filter(|(name, _)| permitted(name)).map(|(_, algorithm)| *algorithm).collect();
    if algorithms.is_empty() { None } else { Some(Key { kid: kid.to_owned(), algorithms, key }) }
}

fn rsa(modulus: &str, exponent: &str) -> Option<DecodingKey> {
    let bytes = URL_SAFE_NO_PAD.decode(modulus).ok()?;
    let first = bytes.iter().position(|byte| *byte != 0)?;
    let bits = (bytes.len() - first) * 8 - bytes.get(first)?.leading_zeros() as usize;
    if !RSA_BITS.contains(&bits) {
        return None;
    }
    DecodingKey::from_rsa_components(modulus, exponent).ok()
}

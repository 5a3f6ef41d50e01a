//! What must hold of whatever a client sends to petri-apiserver: an answer, no panic, and nothing let through that should
//! not be. libFuzzer looks for inputs that break it (`cargo api-fuzz`); what it has found worth keeping is in `corpus`,
//! and is tried again by every test run.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use futures::{
    executor::block_on,
    future::{BoxFuture, FutureExt},
};
use jsonwebtoken::{Algorithm, EncodingKey};
use petri::apiserver::{
    body::{Extension, Wanted},
    identity::{ClaimNames, Principal},
    metrics::Metrics,
    oidc::{Expect, FetchError, KeySet, Source, Verifier},
    query,
    strict::{self, Nulls},
};
use petri::clock::Clock;
use rcgen::KeyPair;
use serde_json::{Value, json};

const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "petri";
const KID: &str = "key-0";
const SKEW: u64 = 30;

/// A key set that is always there.
struct Fixed(KeySet);

impl Source for Fixed {
    fn keys(&self) -> BoxFuture<'_, Result<KeySet, FetchError>> {
        std::future::ready(Ok(self.0.clone())).boxed()
    }
}

/// Who checks, and the one key whose signature is good. The key is another one in each process: no input can hold a
/// good signature.
struct Gate {
    verifier: Verifier,
    key: EncodingKey,
}

fn gate() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(|| {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
        let point = pair.public_key_raw();
        let coordinate = |range: std::ops::Range<usize>| BASE64.encode(&point[range]);
        let public = json!({"kty": "EC", "crv": "P-256", "kid": KID, "use": "sig",
            "x": coordinate(1..33), "y": coordinate(33..65)});
        let keys = KeySet::read(&json!({"keys": [public]})).expect("a key set");
        let name = |name: &str| Some(name.to_owned());
        let expect = Expect {
            issuer: ISSUER.to_owned(),
            audience: AUDIENCE.to_owned(),
            skew: Duration::from_secs(SKEW),
            claims: ClaimNames {
                organization: name("repository_owner"),
                organization_id: name("repository_owner_id"),
                repository: name("repository"),
                repository_id: name("repository_id"),
            },
            admin: None,
        };
        let verifier = Verifier::new(Box::new(Fixed(keys)), expect, Clock, Metrics::default());
        Gate { verifier, key: EncodingKey::from_ec_der(&pair.serialize_der()) }
    })
}

/// A token of any bytes is refused: nobody has the key.
pub fn token(data: &[u8]) {
    let found = block_on(gate().verifier.verify(&String::from_utf8_lossy(data)));
    assert!(found.is_err(), "let in without a signature");
}

/// Any header and any claims, signed by the issuer's own key: let in only if they say all that a token must say. The
/// first line is the header.
pub fn claims(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == b'\n');
    let (header, claims) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
    let gate = gate();
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &gate.key, Algorithm::ES256);
    let token = format!("{message}.{}", signature.expect("a signature"));
    if let Ok(principal) = block_on(gate.verifier.verify(&token)) {
        let said = says_all(&principal, header, claims);
        assert!(said.is_some(), "let in though it does not say what it must");
    }
}

/// Reads the token again, simply, and by other rules than the verifier's.
fn says_all(principal: &Principal, header: &[u8], claims: &[u8]) -> Option<()> {
    let header: Value = serde_json::from_slice(header).ok()?;
    let claims: Value = serde_json::from_slice(claims).ok()?;
    let must = |holds: bool| holds.then_some(());
    must(header["alg"] == "ES256" && header["kid"] == KID)?;
    must(["jwk", "jku", "x5u", "x5c", "crit"].iter().all(|name| header.get(name).is_none()))?;
    must(claims["iss"] == ISSUER)?;
    let audience = &claims["aud"];
    must(*audience == AUDIENCE || audience.as_array().is_some_and(|all| all.contains(&json!(AUDIENCE))))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    // A second of it may pass between the two looks at the clock.
    let slack = f64::from(u32::try_from(SKEW).ok()?) + 2.0;
    must(claims["exp"].as_f64()? > now - slack)?;
    must(claims.get("nbf").is_none_or(|at| at.as_f64().is_some_and(|at| at < now + slack)))?;
    must(!claims["sub"].as_str()?.is_empty())?;
    let Principal::Oidc(bearer) = principal else { return None };
    must(claims.get("repository").and_then(Value::as_str) == bearer.repository.as_deref())?;
    must(!bearer.admin)
}

/// A body or query of any bytes is read in one way only, or refused.
pub fn body(data: &[u8]) {
    if let Ok(value) = strict::parse(data, Nulls::Kept) {
        assert_eq!(
            serde_json::from_slice::<Value>(data).ok(),
            Some(value),
            "read unlike anybody else reads it"
        );
    }
    if let Ok(wanted) = strict::decode::<Wanted>(data) {
        let written = serde_json::to_vec(&wanted).expect("what was read can be written");
        if wanted.check().is_ok() {
            let name = wanted.name.as_bytes();
            assert!((1..=63).contains(&name.len()) && !name.contains(&b'/') && !name.contains(&b'.'));
        }
        assert_eq!(strict::decode::<Wanted>(&written), Ok(wanted), "read unlike it was written");
    }
    if let Ok(longer) = strict::decode::<Extension>(data) {
        let written = serde_json::to_vec(&longer).expect("what was read can be written");
        assert_eq!(strict::decode::<Extension>(&written), Ok(longer), "read unlike it was written");
    }
    if let Ok(page) = std::str::from_utf8(data).map_or(Err(()), |text| query::page(Some(text)).map_err(drop))
    {
        assert!((1..=500).contains(&page.limit) && page.after.is_none_or(|after| !after.is_empty()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn replay(target: &str, run: fn(&[u8])) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            run(&std::fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count >= 10, "{target}: {count} inputs");
    }

    #[test]
    fn what_fuzzing_found_worth_keeping_still_holds() {
        replay("token", token);
        replay("claims", claims);
        replay("body", body);
    }

    #[test]
    fn a_good_token_is_let_in_so_that_a_refusal_means_something() {
        let header = json!({"alg": "ES256", "kid": KID}).to_string();
        let claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "s", "exp": 4_102_444_800_u64,
            "repository": "acme/app"});
        let message = format!("{}.{}", BASE64.encode(&header), BASE64.encode(claims.to_string()));
        let signature =
            jsonwebtoken::crypto::sign(message.as_bytes(), &gate().key, Algorithm::ES256).unwrap();
        let found = block_on(gate().verifier.verify(&format!("{message}.{signature}")));
        assert!(says_all(&found.unwrap(), header.as_bytes(), claims.to_string().as_bytes()).is_some());
    }
}

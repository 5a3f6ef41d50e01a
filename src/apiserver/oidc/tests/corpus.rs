//! Tokens that must not be accepted, each with the reason that is counted.

use crate::apiserver::{
    oidc::Refused::{self, *},
    testing::{
        AUDIENCE, SKEW,
        issuer::{Issuer, SigningKey, now},
    },
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};

/// One bad token.
pub struct Bad {
    pub name: String,
    pub token: String,
    pub why: Refused,
}

/// An RSA key of 2048 bits for `sig`, an elliptic one, one for encryption, a weak one, a private and a symmetric one.
pub struct Keys {
    pub rsa: SigningKey,
    pub elliptic: SigningKey,
    pub encryption: SigningKey,
    pub restricted: SigningKey,
    pub stranger: SigningKey,
}

impl Keys {
    pub fn new() -> Self {
        Self {
            rsa: SigningKey::rsa("rsa"),
            elliptic: SigningKey::elliptic("ec"),
            encryption: SigningKey::rsa("enc"),
            restricted: SigningKey::rsa("only-ps"),
            stranger: SigningKey::elliptic("ec"),
        }
    }

    /// The set that the issuer shows.
    pub fn set(&self) -> Value {
        let mut encryption = self.encryption.public();
        encryption["use"] = "enc".into();
        let mut operations = self.encryption.public();
        operations["kid"] = "ops".into();
        operations["key_ops"] = json!(["encrypt", "wrapKey"]);
        let mut restricted = self.restricted.public();
        restricted["alg"] = "PS256".into();
        let mut private = self.encryption.public();
        private["kid"] = "private".into();
        private["d"] = "AQAB".into();
        let mut weak = self.rsa.public();
        weak["kid"] = "weak".into();
        weak["n"] = BASE64.encode([0xff_u8; 128]).into();
        let mut padded = weak.clone();
        padded["kid"] = "padded".into();
        padded["n"] = BASE64.encode([[0_u8; 128], [0xff; 128]].concat()).into();
        let secret = json!({"kty": "oct", "kid": "secret", "k": BASE64.encode("secret"), "alg": "HS256"});
        let unnamed = json!({"kty": "RSA", "n": self.encryption.public()["n"], "e": "AQAB"});
        let curve = json!({"kty": "EC", "kid": "curve", "crv": "secp256k1", "x": "AA", "y": "AA"});
        json!({"keys": [self.rsa.public(), self.elliptic.public(), encryption, operations, restricted, private, weak,
            padded, secret, unnamed, curve, 5, null]})
    }
}

fn changed(base: &Value, name: &str, value: Value) -> Value {
    let mut changed = base.clone();
    changed[name] = value;
    changed
}

fn without(base: &Value, name: &str) -> Value {
    let mut changed = base.clone();
    changed.as_object_mut().unwrap().remove(name);
    changed
}

fn hmac(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    let key = EncodingKey::from_secret(secret).unwrap();
    format!("{message}.{}", jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::HS256).unwrap())
}

struct Corpus<'a> {
    keys: &'a Keys,
    claims: Value,
    all: Vec<Bad>,
}

impl Corpus<'_> {
    fn add(&mut self, name: &str, token: String, why: Refused) {
        self.all.push(Bad { name: name.to_owned(), token, why });
    }

    /// A header that differs in one field, well signed.
    fn header(&mut self, field: &str, value: Value, why: Refused) {
        let name = format!("header {field} = {value}");
        let header = changed(&self.keys.elliptic.header(), field, value);
        self.add(&name, self.keys.elliptic.sign(&header, &self.claims), why);
    }

    /// A claim that differs, well signed.
    fn claim(&mut self, field: &str, value: Value, why: Refused) {
        let mut name = format!("claim {field} = {value}");
        name.truncate(80);
        let claims = changed(&self.claims, field, value);
        self.add(&name, self.keys.elliptic.sign(&self.keys.elliptic.header(), &claims), why);
    }

    fn algorithms(&mut self) {
        let (rsa, claims) = (&self.keys.rsa, self.claims.clone());
        let public = BASE64.decode(rsa.public()["n"].as_str().unwrap()).unwrap();
        let good = rsa.sign(&rsa.header(), &claims);
        let unsigned = |header: Value| {
            format!("{}.{}.", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()))
        };
        let mut all = vec![];
        for none in ["none", "None", "NONE", "nOnE", ""] {
            all.push((format!("alg {none:?}"), unsigned(json!({"alg": none, "kid": "rsa"})), Algorithm));
        }
        let hs = changed(&rsa.header(), "alg", "HS256".into());
        all.push(("HMAC with the public key".into(), hmac(&hs, &claims, &public), Algorithm));
        all.push((
            "HMAC with the key set".into(),
            hmac(&hs, &claims, self.keys.set().to_string().as_bytes()),
            Algorithm,
        ));
        let shared = json!({"alg": "HS256", "kid": "secret"});
        all.push(("HMAC with a secret of the set".into(), hmac(&shared, &claims, b"secret"), Algorithm));
        for named in ["HS384", "HS512", "EdDSA", "ES512", "RS1", "rs256", "RSA-OAEP", "dir"] {
            let header = changed(&rsa.header(), "alg", named.into());
            all.push((format!("alg {named}"), rsa.sign(&header, &claims), Algorithm));
        }
        for value in [json!(null), json!(5), json!(["RS256"])] {
            let header = changed(&rsa.header(), "alg", value.clone());
            all.push((format!("alg {value}"), rsa.sign(&header, &claims), Algorithm));
        }
        all.push(("no alg".into(), rsa.sign(&without(&rsa.header(), "alg"), &claims), Algorithm));
        let other = changed(&rsa.header(), "alg", "RS512".into());
        all.push(("signed by another algorithm than named".into(), rsa.sign(&other, &claims), Signature));
        let wrong_kind = changed(&rsa.header(), "alg", "ES256".into());
        all.push(("the algorithm of another kind of key".into(), rsa.sign(&wrong_kind, &claims), UnknownKey));
        let restricted = &self.keys.restricted;
        all.push((
            "an algorithm that the key is not for".into(),
            restricted.sign(&restricted.header(), &claims),
            UnknownKey,
        ));
        let (message, _) = good.rsplit_once('.').unwrap();
        all.push(("no signature".into(), format!("{message}."), Signature));
        all.push((
            "a signature of zeros".into(),
            format!("{message}.{}", BASE64.encode([0; 256])),
            Signature,
        ));
        let elliptic = &self.keys.elliptic;
        let es = elliptic.sign(&elliptic.header(), &claims);
        let (message, _) = es.rsplit_once('.').unwrap();
        all.push((
            "an elliptic signature of zeros".into(),
            format!("{message}.{}", BASE64.encode([0; 64])),
            Signature,
        ));
        for (name, token, why) in all {
            self.add(&name, token, why);
        }
    }

    fn keys(&mut self) {
        let keys = self.keys;
        let claims = self.claims.clone();
        self.add(
            "a stranger's key of a known name",
            keys.stranger.sign(&keys.elliptic.header(), &claims),
            Signature,
        );
        self.add(
            "a key meant for encryption",
            keys.encryption.sign(&keys.encryption.header(), &claims),
            UnknownKey,
        );
        for kid in ["ops", "private", "weak", "padded", "curve", "secret"] {
            let header = changed(&keys.encryption.header(), "kid", kid.into());
            self.add(&format!("the key {kid}"), keys.encryption.sign(&header, &claims), UnknownKey);
        }
        self.header("kid", json!("unheard-of"), UnknownKey);
        self.header("kid", json!("EC"), UnknownKey);
        self.header("kid", json!("ec "), UnknownKey);
        self.header("kid", json!("../../dev/null"), UnknownKey);
        self.header("kid", json!("ec' OR '1'='1"), UnknownKey);
        self.header("kid", json!("ec\u{0}"), UnknownKey);
        self.header("kid", json!(""), Header);
        self.header("kid", json!(null), Header);
        self.header("kid", json!(0), Header);
        self.header("kid", json!(["ec"]), Header);
        self.header("kid", json!("k".repeat(300)), Header);
        let header = without(&keys.elliptic.header(), "kid");
        self.add("no kid", keys.elliptic.sign(&header, &claims), Header);
    }

    fn headers(&mut self) {
        let stranger = self.keys.stranger.public();
        self.header("jwk", stranger, Header);
        self.header("jku", json!("https://evil.example/keys"), Header);
        self.header("x5u", json!("https://evil.example/certificate"), Header);
        self.header("x5c", json!(["AAAA"]), Header);
        self.header("crit", json!(["exp"]), Header);
        self.header("b64", json!(false), Header);
        self.header("zip", json!("DEF"), Header);
        self.header("cty", json!("JWT"), Header);
        self.header("enc", json!("A256GCM"), Header);
        for kind in
            [json!("secevent+jwt"), json!("dpop+jwt"), json!("JOSE"), json!(""), json!(null), json!(1)]
        {
            self.header("typ", kind, Header);
        }
    }

    fn times(&mut self) {
        let now = now();
        let skew = SKEW;
        self.claim("exp", json!(now - skew - 1), Expired);
        self.claim("exp", json!(0), Expired);
        self.claim("exp", json!(now - 86_400), Expired);
        self.claim("exp", json!(-1), Claims);
        self.claim("exp", json!("9999999999"), Claims);
        self.claim("exp", json!(null), Claims);
        self.claim("exp", json!([now + 60]), Claims);
        self.claim("exp", json!(1e300), Claims);
        self.claim("nbf", json!(now + skew + 20), NotYet);
        self.claim("nbf", json!("0"), Claims);
        self.claim("nbf", json!(-5), Claims);
        self.claim("iat", json!(now + skew + 20), NotYet);
        self.claim("iat", json!("now"), Claims);
        let claims = without(&self.claims, "exp");
        self.add("no exp", self.keys.elliptic.sign(&self.keys.elliptic.header(), &claims), Claims);
    }

    fn origins(&mut self, issuer: &str) {
        for other in [
            format!("{issuer}/"),
            issuer.to_uppercase(),
            issuer.replace("https", "http"),
            format!("{issuer}.evil.example"),
            format!("{issuer}/other-tenant"),
            format!("{issuer} "),
            String::new(),
        ] {
            self.claim("iss", json!(other), Issuer);
        }
        self.claim("iss", json!([issuer]), Issuer);
        self.claim("iss", json!([issuer, "https://evil.example"]), Issuer);
        self.claim("iss", json!({"url": issuer}), Claims);
        self.claim("iss", json!(null), Claims);
        for audience in [
            json!("petri2"),
            json!("PETRI"),
            json!("petr"),
            json!("petri "),
            json!(""),
            json!([]),
            json!(["other", "another"]),
            json!([["petri"]]),
            json!(["petri", 5]),
            json!({"petri": true}),
            json!(5),
        ] {
            let strings = audience.as_array().is_none_or(|all| all.iter().all(Value::is_string));
            let known = (audience.is_array() || audience.is_string()) && strings;
            self.claim("aud", audience, if known { Audience } else { Claims });
        }
        self.claim("sub", json!(""), Claims);
        self.claim("sub", json!(7), Claims);
        self.claim("sub", json!(null), Claims);
        self.claim("sub", json!("a\nb"), Claims);
        self.claim("sub", json!("s".repeat(2_000)), Claims);
        for field in ["iss", "aud", "sub"] {
            let claims = without(&self.claims, field);
            self.add(
                &format!("no {field}"),
                self.keys.elliptic.sign(&self.keys.elliptic.header(), &claims),
                Claims,
            );
        }
        for claim in ["repository", "repository_owner"] {
            for value in [json!(null), json!(5), json!(["acme"]), json!({}), json!("a\u{0}b")] {
                self.claim(claim, value, Claims);
            }
        }
    }

    fn forms(&mut self) {
        let key = &self.keys.elliptic;
        let good = key.sign(&key.header(), &self.claims);
        let (message, signature) = good.rsplit_once('.').unwrap();
        let (header, payload) = message.split_once('.').unwrap();
        let text =
            |header: &[u8], claims: &[u8]| key.sign_text(header, claims, jsonwebtoken::Algorithm::ES256);
        let (head, body) = (key.header().to_string(), self.claims.to_string());
        let twice = format!("{},\"sub\":\"admin\"}}", body.trim_end_matches('}'));
        let header_twice = format!("{},\"alg\":\"ES256\"}}", head.trim_end_matches('}'));
        let nested = format!("{},\"x\":{{\"a\":1,\"a\":2}}}}", body.trim_end_matches('}'));
        let deep = format!("{{\"a\":{}", "[".repeat(5_000));
        let huge = changed(&self.claims, "x", json!("x".repeat(20_000)));
        let flipped = message.replacen('e', "f", 1);
        let all: Vec<(&str, String, Refused)> = vec![
            ("nothing", String::new(), Malformed),
            ("dots", "..".to_owned(), Malformed),
            ("one part", header.to_owned(), Malformed),
            ("two parts", message.to_owned(), Malformed),
            ("four parts", format!("{good}.{signature}"), Malformed),
            ("five parts, as encrypted", format!("{header}.a.b.c.{signature}"), Malformed),
            ("padding", format!("{good}=="), Malformed),
            ("not the url alphabet", format!("{header}.{payload}.++//"), Malformed),
            ("white space inside", format!("{header}. {payload}.{signature}"), Malformed),
            ("a header that is no JSON", text(b"alg: ES256", body.as_bytes()), Malformed),
            ("a header that is a list", text(b"[]", body.as_bytes()), Malformed),
            ("claims that are a list", text(head.as_bytes(), b"[]"), Malformed),
            ("claims that are a text", text(head.as_bytes(), b"\"claims\""), Malformed),
            ("claims that are empty", text(head.as_bytes(), b""), Malformed),
            ("a claim twice", text(head.as_bytes(), twice.as_bytes()), Malformed),
            ("a header field twice", text(header_twice.as_bytes(), body.as_bytes()), Malformed),
            ("a key twice within a claim", text(head.as_bytes(), nested.as_bytes()), Malformed),
            ("two documents", text(head.as_bytes(), format!("{body}{body}").as_bytes()), Malformed),
            ("not UTF-8", text(head.as_bytes(), b"{\"sub\":\"\xff\"}"), Malformed),
            ("deep claims", text(head.as_bytes(), deep.as_bytes()), Malformed),
            ("a huge token", key.sign(&key.header(), &huge), TooLarge),
            ("the signature of another message", format!("{flipped}.{signature}"), Malformed),
            (
                "the payload of another token",
                {
                    let other = changed(&self.claims, "repository_owner", json!("evil"));
                    format!("{header}.{}.{signature}", BASE64.encode(other.to_string()))
                },
                Signature,
            ),
        ];
        for (name, token, why) in all {
            self.add(name, token, why);
        }
    }
}

/// Makes all bad tokens for an issuer that shows [`Keys::set`].
pub fn corpus(issuer: &Issuer, keys: &Keys) -> Vec<Bad> {
    let claims = issuer.claims(AUDIENCE);
    let mut corpus = Corpus { keys, claims, all: Vec::new() };
    corpus.algorithms();
    corpus.keys();
    corpus.headers();
    corpus.times();
    corpus.origins(&issuer.url);
    corpus.forms();
    corpus.all
}

//! An OpenID Connect issuer for tests: HTTPS, keys that rotate, and tokens that say whatever is asked of it.
//!
//! Speaks as GitHub's: `GET /token?audience=A` with a bearer answers `{"value": TOKEN}` with the claims it was given.
//! The petri crate's tests include this file by its path, so it names nothing else of this crate.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{CertificateParams, KeyPair, RsaKeySize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

/// A certificate that is its own authority, with its key, as PEM.
pub struct Tls {
    /// The certificate, which is also what a client must trust.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Tls {
    /// Makes one for these names and addresses.
    ///
    /// # Panics
    /// A name is none.
    pub fn for_names(names: &[&str]) -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let certificate = params.and_then(|params| params.self_signed(&key)).expect("a certificate");
        Self { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A key that signs, by its name.
#[derive(Clone)]
pub struct SigningKey {
    /// Name in header and key set.
    pub kid: String,
    algorithm: Algorithm,
    private: EncodingKey,
    public: Value,
}

impl SigningKey {
    /// Makes an elliptic key for ES256.
    ///
    /// # Panics
    /// There is no randomness.
    pub fn elliptic(kid: &str) -> Self {
        let pair = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key");
        let point = pair.public_key_raw();
        let coordinate = |range: std::ops::Range<usize>| BASE64.encode(&point[range]);
        let public = json!({"kty": "EC", "crv": "P-256", "x": coordinate(1..33), "y": coordinate(33..65)});
        Self::new(kid, Algorithm::ES256, EncodingKey::from_ec_der(&pair.serialize_der()), public)
    }

    /// Makes an RSA key of 2048 bits for RS256.
    ///
    /// # Panics
    /// There is no randomness.
    pub fn rsa(kid: &str) -> Self {
        let pair = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
        // SEQUENCE { INTEGER n (257 bytes, the first is 0), INTEGER e }, as the key of this one size always is.
        let der = pair.public_key_raw();
        let exponent = &der[8 + 257 + 2..];
        let public =
            json!({"kty": "RSA", "n": BASE64.encode(&der[9..9 + 256]), "e": BASE64.encode(exponent)});
        let private = rsa_private(&pair.serialize_der());
        Self::new(kid, Algorithm::RS256, EncodingKey::from_rsa_der(&private), public)
    }

    fn new(kid: &str, algorithm: Algorithm, private: EncodingKey, public: Value) -> Self {
        Self { kid: kid.to_owned(), algorithm, private, public }
    }

    /// Returns it as a key set shows it.
    pub fn public(&self) -> Value {
        let mut public = self.public.clone();
        public["kid"] = self.kid.clone().into();
        public["use"] = "sig".into();
        public
    }

    /// Returns the header that belongs to it.
    pub fn header(&self) -> Value {
        json!({"alg": format!("{:?}", self.algorithm), "kid": self.kid, "typ": "JWT"})
    }

    /// Signs any header and any claims, given as texts, by any algorithm of its kind.
    ///
    /// # Panics
    /// The algorithm is not of its kind.
    pub fn sign_text(&self, header: &[u8], claims: &[u8], algorithm: Algorithm) -> String {
        let message = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.private, algorithm);
        format!("{message}.{}", signature.expect("a signature"))
    }

    /// Signs claims under a header.
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        self.sign_text(header.to_string().as_bytes(), claims.to_string().as_bytes(), self.algorithm)
    }
}

/// Serves any routes over TLS until the process or the runtime ends.
///
/// # Panics
/// The certificate is none.
pub async fn serve(listener: TcpListener, tls: &Tls, router: Router) {
    let certificate = CertificateDer::from_pem_slice(tls.certificate.as_bytes()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).expect("a private key");
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a certificate with its key")));
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(5), acceptor.accept(stream)).await
            else {
                return;
            };
            let service = TowerToHyperService::new(router);
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// The RSAPrivateKey inside PKCS #8, which is its last element.
fn rsa_private(pkcs8: &[u8]) -> Vec<u8> {
    // version, algorithm identifier (15 bytes), then OCTET STRING with a length of two bytes.
    pkcs8[4 + 3 + 15 + 4..].to_vec()
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

struct Inner {
    keys: Mutex<Vec<SigningKey>>,
    shown: Mutex<Option<Value>>,
    discovery: Mutex<Value>,
    claims: Mutex<Value>,
    fetches: AtomicUsize,
    down: AtomicBool,
    rotations: AtomicUsize,
}

/// An issuer; clones are the same one.
#[derive(Clone)]
pub struct Issuer {
    /// Its name: what stands in `iss`.
    pub url: String,
    inner: Arc<Inner>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Issuer {
    /// Makes one with a first key.
    pub fn new(url: &str) -> Self {
        let discovery = json!({"issuer": url, "jwks_uri": format!("{}/keys", url.trim_end_matches('/'))});
        let inner = Inner {
            keys: Mutex::new(vec![SigningKey::elliptic("key-0")]),
            shown: Mutex::default(),
            discovery: Mutex::new(discovery),
            claims: Mutex::new(json!({"sub": "somebody"})),
            fetches: AtomicUsize::new(0),
            down: AtomicBool::new(false),
            rotations: AtomicUsize::new(0),
        };
        Self { url: url.to_owned(), inner: Arc::new(inner) }
    }

    /// Returns the key that signs now.
    ///
    /// # Panics
    /// There is none.
    pub fn key(&self) -> SigningKey {
        lock(&self.inner.keys).last().cloned().expect("an issuer has a key")
    }

    /// Adds a key that signs from now on; keeps one old one, as issuers do.
    pub fn rotate(&self, key: SigningKey) {
        let mut keys = lock(&self.inner.keys);
        let excess = keys.len().saturating_sub(1);
        keys.drain(..excess);
        keys.push(key);
    }

    /// Shows this instead of the key set.
    pub fn show(&self, keys: Value) {
        *lock(&self.inner.shown) = Some(keys);
    }

    /// Changes the discovery document.
    pub fn discover(&self, document: Value) {
        *lock(&self.inner.discovery) = document;
    }

    /// Answers 503 to everything while `down`.
    pub fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
    }

    /// Returns how often the key set was fetched.
    pub fn fetches(&self) -> usize {
        self.inner.fetches.load(Ordering::SeqCst)
    }

    /// Sets what tokens say besides issuer, audience and times.
    pub fn set_claims(&self, claims: Value) {
        *lock(&self.inner.claims) = claims;
    }

    /// Returns the claims of a token that is good for five minutes, as GitHub's are.
    pub fn claims(&self, audience: &str) -> Value {
        let mut claims = lock(&self.inner.claims).clone();
        let now = now();
        for (name, value) in [("iat", now), ("nbf", now), ("exp", now + 300)] {
            claims[name] = value.into();
        }
        claims["iss"] = self.url.clone().into();
        claims["aud"] = audience.into();
        claims
    }

    /// Makes a good token.
    pub fn token(&self, audience: &str) -> String {
        let key = self.key();
        key.sign(&key.header(), &self.claims(audience))
    }

    /// Serves until the process or the runtime ends.
    ///
    /// # Panics
    /// The certificate is none.
    pub async fn serve(self, listener: TcpListener, tls: &Tls) {
        let path = self.url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
        let router = self.router(path.trim_end_matches('/'));
        serve(listener, tls, router).await;
    }

    fn router(self, path: &str) -> Router {
        Router::new()
            .route(&format!("{path}/.well-known/openid-configuration"), get(discovery))
            .route(&format!("{path}/keys"), get(keys))
            .route("/token", get(token))
            .route("/claims", post(claims))
            .route("/rotate", post(rotate))
            .with_state(self)
    }

    fn up(&self) -> Result<(), StatusCode> {
        let down = self.inner.down.load(Ordering::SeqCst);
        if down { Err(StatusCode::SERVICE_UNAVAILABLE) } else { Ok(()) }
    }
}

type Answer = Result<Json<Value>, StatusCode>;

async fn discovery(State(issuer): State<Issuer>) -> Answer {
    issuer.up()?;
    let document = lock(&issuer.inner.discovery).clone();
    Ok(Json(document))
}

async fn keys(State(issuer): State<Issuer>) -> Answer {
    issuer.inner.fetches.fetch_add(1, Ordering::SeqCst);
    issuer.up()?;
    let shown = lock(&issuer.inner.shown).clone();
    let own = || lock(&issuer.inner.keys).iter().map(SigningKey::public).collect::<Vec<_>>();
    Ok(Json(shown.unwrap_or_else(|| json!({"keys": own()}))))
}

#[derive(serde::Deserialize)]
struct Asked {
    audience: String,
}

async fn token(State(issuer): State<Issuer>, Query(asked): Query<Asked>) -> Answer {
    issuer.up()?;
    Ok(Json(json!({"value": issuer.token(&asked.audience)})))
}

async fn claims(State(issuer): State<Issuer>, Json(claims): Json<Value>) -> StatusCode {
    issuer.set_claims(claims);
    StatusCode::NO_CONTENT
}

async fn rotate(State(issuer): State<Issuer>) -> Answer {
    let number = issuer.inner.rotations.fetch_add(1, Ordering::SeqCst) + 1;
    let key = SigningKey::elliptic(&format!("key-{number}"));
    let kid = key.kid.clone();
    issuer.rotate(key);
    Ok(Json(json!({"kid": kid})))
}

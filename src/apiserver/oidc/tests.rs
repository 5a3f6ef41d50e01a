//! The verifier against an issuer on loopback over TLS; where time matters, without the network.

pub mod corpus;

use super::*;
use crate::{
    apiserver::{
        identity::Principal,
        metrics::Metrics,
        testing::{
            AUDIENCE, Direct, Live, SKEW, acme, expect,
            issuer::{Issuer, SigningKey, now},
            live,
        },
    },
    clock::Clock,
};
use corpus::{Keys, corpus};
use serde_json::json;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

fn repository(found: &Result<Principal, AuthError>) -> Option<&str> {
    found.as_ref().ok().and_then(Principal::repository)
}

#[tokio::test]
async fn a_good_token_becomes_an_identity_by_each_kind_of_key() {
    let Live { issuer, verifier, .. } = live("").await;
    let keys = Keys::new();
    issuer.show(keys.set());
    let claims = issuer.claims(AUDIENCE);
    for key in [&keys.rsa, &keys.elliptic] {
        let found = verifier.verify(&key.sign(&key.header(), &claims)).await;
        assert_eq!(repository(&found), Some("acme/app"), "{found:?}");
    }
    let mut pss = keys.restricted.header();
    pss["alg"] = "PS256".into();
    let token = keys.restricted.sign_text(
        pss.to_string().as_bytes(),
        claims.to_string().as_bytes(),
        jsonwebtoken::Algorithm::PS256,
    );
    assert!(verifier.verify(&token).await.is_ok());
    for (field, value) in [("typ", json!("at+JWT")), ("x5t", json!("AAAA")), ("unknown", json!({"a": null}))]
    {
        let mut header = keys.elliptic.header();
        header[field] = value;
        assert!(verifier.verify(&keys.elliptic.sign(&header, &claims)).await.is_ok(), "{field}");
    }
}

#[tokio::test]
async fn scenario_205_the_audience_may_be_one_of_several_and_clocks_may_differ_a_little() {
    let Live { issuer, verifier, .. } = live("").await;
    for (field, value) in [
        ("aud", json!(["other", AUDIENCE])),
        ("exp", json!(now() - SKEW + 10)),
        ("nbf", json!(now() + SKEW - 10)),
        ("iat", json!(now() + SKEW - 10)),
        ("exp", json!(now() as f64 + 100.5)),
    ] {
        let mut claims = issuer.claims(AUDIENCE);
        claims[field] = value;
        let key = issuer.key();
        let found = verifier.verify(&key.sign(&key.header(), &claims)).await;
        assert!(found.is_ok(), "{field}: {found:?}");
    }
}

#[tokio::test]
async fn scenario_208_every_token_of_the_corpus_is_refused_for_its_reason_and_costs_one_fetch() {
    let Live { issuer, verifier, .. } = live("").await;
    let keys = Keys::new();
    issuer.show(keys.set());
    let bad = corpus(&issuer, &keys);
    assert!(bad.len() >= 60, "{}", bad.len());
    let mut wrong = Vec::new();
    for one in &bad {
        match verifier.verify(&one.token).await {
            Err(AuthError::Refused(why)) if why == one.why => {}
            other => wrong.push(format!("{}: {:?} expected, {other:?}", one.name, one.why)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(issuer.fetches(), 1, "{} bad tokens", bad.len());
}

#[tokio::test]
async fn scenario_210_api_01_a_new_key_is_fetched_once_and_then_works_without_the_issuer() {
    let Live { issuer, verifier, .. } = live("").await;
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    assert_eq!(issuer.fetches(), 1, "the key is cached");
    issuer.set_down(true);
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok(), "a cached key needs no issuer");
}

/// A verifier without a network, its count of fetches, and the switch that takes the issuer down.
fn offline() -> (Issuer, Arc<Verifier>, Arc<AtomicUsize>, Arc<AtomicBool>, Metrics) {
    let issuer = Issuer::new("https://issuer.example");
    issuer.set_claims(acme());
    let (fetches, down) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let source = Direct(issuer.clone(), Arc::clone(&fetches), Arc::clone(&down));
    let metrics = Metrics::default();
    let verifier = Verifier::new(Box::new(source), expect(&issuer.url), Clock, metrics.clone());
    (issuer, Arc::new(verifier), fetches, down, metrics)
}

#[tokio::test(start_paused = true)]
async fn scenario_210_rotation_is_noticed_by_the_first_token_of_the_new_key() {
    let (issuer, verifier, fetches, down, _) = offline();
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    tokio::time::sleep(Duration::from_secs(31)).await;
    issuer.rotate(SigningKey::elliptic("key-new"));
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    assert_eq!(fetches.load(SeqCst), 2);
    down.store(true, SeqCst);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn api_02_a_thousand_invented_keys_cost_the_issuer_one_fetch_in_half_a_minute() {
    let (issuer, verifier, fetches, _, _) = offline();
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    let claims = issuer.claims(AUDIENCE);
    let key = issuer.key();
    for number in 0..1_000 {
        let mut header = key.header();
        header["kid"] = format!("invented-{number}").into();
        let found = verifier.verify(&key.sign(&header, &claims)).await;
        assert_eq!(found, Err(AuthError::Refused(Refused::UnknownKey)));
    }
    assert_eq!(fetches.load(SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let mut header = key.header();
    header["kid"] = "invented".into();
    let asked =
        futures::future::join_all((0..100).map(|_| verifier.verify(key.sign(&header, &claims).leak())));
    assert!(asked.await.iter().all(|found| *found == Err(AuthError::Refused(Refused::UnknownKey))));
    assert_eq!(fetches.load(SeqCst), 2, "a hundred at once share one fetch");
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok(), "the known key is as good as before");
}

#[tokio::test(start_paused = true)]
async fn scenario_209_an_outage_hurts_only_keys_that_are_not_known() {
    let (issuer, verifier, _, down, metrics) = offline();
    down.store(true, SeqCst);
    assert_eq!(verifier.verify(&issuer.token(AUDIENCE)).await, Err(AuthError::Unavailable), "cold");
    assert!(!verifier.is_ready());
    down.store(false, SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    let known = issuer.token(AUDIENCE);
    assert!(verifier.verify(&known).await.is_ok());
    down.store(true, SeqCst);
    issuer.rotate(SigningKey::elliptic("key-new"));
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(verifier.verify(&issuer.token(AUDIENCE)).await, Err(AuthError::Unavailable));
    assert!(verifier.verify(&known).await.is_ok(), "the cached key needs no fetch");
    let text = crate::telemetry::metrics::encode(&metrics.registry()).unwrap();
    for line in
        ["petri_jwks_refresh_total{result=\"success\"} 1", "petri_jwks_refresh_total{result=\"failure\"} 2"]
    {
        assert!(text.contains(line), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_down_at_start_is_asked_again_until_it_answers() {
    let (issuer, verifier, _, down, _) = offline();
    down.store(true, SeqCst);
    let fresh = Arc::clone(&verifier);
    let keeping = tokio::spawn(async move { fresh.keep_fresh().await });
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(verifier.verify(&issuer.token(AUDIENCE)).await, Err(AuthError::Unavailable));
    down.store(false, SeqCst);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(verifier.is_ready());
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
    issuer.rotate(SigningKey::elliptic("key-new"));
    tokio::time::sleep(Duration::from_secs(601)).await;
    down.store(true, SeqCst);
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok(), "the slow refresh found the new key");
    keeping.abort();
}

#[tokio::test]
async fn scenario_200_a_verifier_outlives_whatever_made_it() {
    let (issuer, verifier) = tokio::spawn(async {
        let Live { issuer, verifier, .. } = live("").await;
        (issuer, verifier)
    })
    .await
    .unwrap();
    assert!(verifier.verify(&issuer.token(AUDIENCE)).await.is_ok());
}

#[tokio::test]
async fn scenario_213_a_discovery_document_must_be_this_issuers_and_name_https_keys() {
    for (issuer, keys) in [
        (Some("https://evil.example"), Some("same")),
        (None, Some("same")),
        (Some("same"), None),
        (Some("same"), Some("/keys")),
        (Some("same"), Some("ftp://localhost/keys")),
        (Some("same"), Some("http://localhost/keys")),
        (Some("same"), Some("https://user@localhost/keys")),
    ] {
        let Live { issuer: served, oidc, authority: _kept, .. } = live("").await;
        let mut document = json!({});
        if let Some(issuer) = issuer {
            document["issuer"] = if issuer == "same" { served.url.clone() } else { issuer.to_owned() }.into();
        }
        if let Some(keys) = keys {
            document["jwks_uri"] =
                if keys == "same" { format!("{}/keys", served.url) } else { keys.to_owned() }.into();
        }
        served.discover(document.clone());
        let fetched = Source::keys(&Provider::new(&oidc).unwrap()).await;
        let why = fetched.err().map(|error| error.to_string());
        assert!(
            why.as_ref().is_some_and(|why| why.starts_with("the discovery document")),
            "{document}: {why:?}"
        );
        assert_eq!(served.fetches(), 0, "{document}");
    }
}

#[tokio::test]
async fn an_issuer_with_a_path_is_found_there_and_one_with_a_slash_at_its_end_too() {
    for path in ["/realms/one", "/"] {
        let Live { issuer, verifier, .. } = live(path).await;
        let found = verifier.verify(&issuer.token(AUDIENCE)).await;
        assert_eq!(repository(&found), Some("acme/app"), "{path}: {found:?}");
    }
}

#[tokio::test]
async fn scenario_212_and_214_an_issuer_that_says_nothing_is_not_waited_for() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let Live { oidc, authority: _kept, .. } = live("").await;
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let silent = crate::apiserver::config::Oidc { issuer: url.clone(), ..oidc };
    let provider = Provider::new(&silent).unwrap();
    let verifier = Verifier::new(Box::new(provider), expect(&url), Clock, Metrics::default());
    let token = Issuer::new(&url).token(AUDIENCE);
    let begun = std::time::Instant::now();
    let waited = tokio::time::timeout(Duration::from_millis(300), verifier.verify(&token)).await;
    assert!(waited.is_err(), "the caller's own limit is kept");
    assert_eq!(verifier.verify(&token).await, Err(AuthError::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    drop(listener);
}

#[tokio::test]
async fn an_authority_that_did_not_sign_the_issuers_certificate_is_no_authority() {
    let Live { issuer, oidc, authority: _kept, .. } = live("").await;
    let stranger = crate::apiserver::testing::issuer::Tls::for_names(&["localhost"]);
    let file = crate::apiserver::testing::Scratch::new(&stranger.certificate);
    let oidc = crate::apiserver::config::Oidc { ca_file: Some(file.0.clone()), ..oidc };
    assert!(Source::keys(&Provider::new(&oidc).unwrap()).await.is_err());
    assert_eq!(issuer.fetches(), 0);
    let empty = crate::apiserver::testing::Scratch::new("no certificate");
    let oidc = crate::apiserver::config::Oidc { ca_file: Some(empty.0.clone()), ..oidc };
    assert!(Provider::new(&oidc).is_err());
}

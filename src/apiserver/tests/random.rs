//! Whatever arrives: an answer, no panic, nothing accepted that should not be. The seeds are the corpus of bad tokens
//! and a good one, cut, doubled, spliced and flipped.

use crate::apiserver::{
    body::{Extension, Wanted},
    oidc::{
        reads,
        tests::corpus::{Keys, corpus},
    },
    query, strict,
    testing::{AUDIENCE, acme, issuer::Issuer},
};
use proptest::prelude::*;
use std::sync::OnceLock;

/// Good and bad tokens, made once: keys are dear.
fn seeds() -> &'static (String, Vec<String>) {
    static SEEDS: OnceLock<(String, Vec<String>)> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let issuer = Issuer::new("https://issuer.example");
        issuer.set_claims(acme());
        let keys = Keys::new();
        let bad = corpus(&issuer, &keys).into_iter().map(|one| one.token).filter(|token| token.len() < 4096);
        (issuer.token(AUDIENCE), bad.collect())
    })
}

fn mangled(text: &str, at: usize, length: usize, with: &[u8]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let start = at % (bytes.len() + 1);
    let end = (start + length % 8).min(bytes.len());
    bytes.splice(start..end, with.iter().copied());
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_token_of_any_bytes_is_read_or_refused(text in any::<Vec<u8>>()) {
        let _ = reads(&String::from_utf8_lossy(&text));
    }

    #[test]
    fn a_mangled_token_is_read_or_refused(
        which in any::<prop::sample::Index>(),
        at in any::<usize>(),
        length in any::<usize>(),
        with in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let (good, bad) = seeds();
        let seed = if which.index(2) == 0 { good } else { which.get(bad) };
        let _ = reads(&mangled(seed, at, length, &with));
    }

    #[test]
    fn a_body_of_any_bytes_is_read_or_refused(text in any::<Vec<u8>>()) {
        let _ = strict::decode::<Wanted>(&text);
        let _ = strict::decode::<Extension>(&text);
    }

    #[test]
    fn a_mangled_body_is_read_in_the_same_way_again_or_refused(
        at in any::<usize>(),
        length in any::<usize>(),
        with in prop::collection::vec(any::<u8>(), 0..6),
    ) {
        let seed = r#"{"name":"pr-1","template":"demo","ttl":"4h","source":{"sha":"1"},"values":{"a":"b"},"env":{"A":{"value":"x"},"B":{"secretKeyRef":{"component":"c","key":"k"}}}}"#;
        if let Ok(wanted) = strict::decode::<Wanted>(mangled(seed, at, length, &with).as_bytes()) {
            let written = serde_json::to_vec(&wanted).unwrap();
            prop_assert_eq!(strict::decode::<Wanted>(&written), Ok(wanted));
        }
    }

    #[test]
    fn a_query_of_any_text_is_read_or_refused(text in ".{0,200}") {
        if let Ok(page) = query::page(Some(&text)) {
            prop_assert!((1..=500).contains(&page.limit));
        }
    }
}

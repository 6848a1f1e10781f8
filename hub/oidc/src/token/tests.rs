//! One test for each attack on an ID token, with keys that are made here.

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use serde_json::json;

use super::*;

/// A moment: seconds since 1970.
const NOW: i64 = 1_800_000_000;
/// The modulus of a key of 2048 bits whose private half is not kept, and what it signed.
const MODULUS: &str = "ro_CQwlp2E2u_wxMfm1rWdUn8BZ20EbxMSOJGhJXrd8EkgCRrwz04vIg_avodIDwIl-31O9Ne5B2IuDLoKIK-21s2krxFpdFLmeJongFzBmGFQcKRZgejY0autcKfsPV0PsRIw2XcSMJNsla3ET5_6t2fBAxDZu2E8j1dpKzgOl6oPYKNk7lMxaXgxopLqIym1x1eN6lak4VWfbXiVjsrrQi53jfqzs5iZ0WYXRjPvKkLNcSCgcjPapI0xTPMtVh-soNlih1toSr67KUPIoDsoI1a_3GmB275x3FEJ12P6tbchx-dMWfusByIC7IjtH7Yv_ghjci2vqr_MmLyu5jGw";
const SIGNED: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6InJzYSJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUub3JnIiwiYXVkIjoiaHViIiwic3ViIjoiMSIsImlhdCI6MTgwMDAwMDAwMCwiZXhwIjoxODAwMDAwMzAwLCJub25jZSI6Im4ifQ.hoCzynRf2y3Sl8rtzeCj6kBP6mtaA9ihe7YlfR5cKs8BDLmP0iItmPgxhlOLnyj0ipByoPMt1afhmB2lKGxnR-z96wD3db2jdmPIxntKvhk1LC8CnOSest4Wdkb0sVH-WiEkAuOsujXRyxM-6j7R5IU7zfp7UlWP4uGRIc6ORdyJxqU24X2ERvS9WBCQzbWtFrTav5w5wEI-mFhlYG2AxR2RSQl8BMH4Zh2Ol7DmBeK13rJYzrIkjLYcdZfCu8_BXawjOmNbItX0olHZAB4axU90emZp4SL0d89k9jhGM0OrFwXGkH9MpcuvQTU4tIHMdWuhKP1v5rTvgWrfhIDoLg";

/// A provider's key.
pub(crate) enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn p256() -> Self {
        let (kind, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self::P256(EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap())
    }

    fn ed25519() -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap())
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
        }
    }

    pub(crate) fn public(&self, id: &str) -> Value {
        match self {
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "alg": "ES256",
                    "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
            }
            Self::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(pair.public_key())})
            }
        }
    }

    pub(crate) fn token(&self, id: &str, claims: &Value) -> String {
        self.with_head(
            &json!({"alg": self.algorithm(), "kid": id, "typ": "JWT"}),
            claims,
        )
    }

    fn with_head(&self, head: &Value, claims: &Value) -> String {
        self.signed(head, &claims.to_string())
    }

    /// With claims as they are written.
    fn signed(&self, head: &Value, claims: &str) -> String {
        let signed = format!("{}.{}", encoded(head.to_string()), encoded(claims));
        let signature = match self {
            Self::P256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
                encoded(signature)
            }
            Self::Ed25519(pair) => encoded(pair.sign(signed.as_bytes())),
        };
        format!("{signed}.{signature}")
    }
}

fn keys(all: &[Value]) -> Keys {
    Keys::parse(json!({ "keys": all }).to_string().as_bytes()).unwrap()
}

fn rsa() -> Value {
    json!({"kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": MODULUS, "e": "AQAB"})
}

fn claims() -> Value {
    json!({"iss": "https://id.example.org", "aud": "hub", "sub": "1", "iat": NOW, "exp": NOW + 300, "nonce": "n"})
}

fn expected() -> Expected<'static> {
    Expected {
        issuer: "https://id.example.org",
        client: "hub",
        nonce: "n",
        begun_ms: NOW * 1000 - 20_000,
        now_ms: NOW * 1000,
        algorithms: &Algorithm::ALL,
    }
}

/// What is said of a token with these claims changed.
fn with(changes: &[(&str, Value)]) -> Result<Claims, LoginError> {
    let signer = Signer::p256();
    let mut claims = claims();
    for (name, value) in changes {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(*name)),
            value => claims[*name] = value.clone(),
        }
    }
    let token = signer.token("a", &claims);
    verify(&token, &keys(&[signer.public("a")]), &expected())
}

#[track_caller]
fn refused(changes: &[(&str, Value)], words: &str) {
    let error = with(changes).unwrap_err();
    assert!(matches!(error, LoginError::Token(_)), "{error}");
    assert!(error.to_string().contains(words), "{changes:?}: {error}");
}

#[test]
fn tokens_of_each_algorithm_hold() {
    assert!(with(&[]).is_ok());
    let signer = Signer::ed25519();
    let token = signer.token("e", &claims());
    let all = keys(&[rsa(), signer.public("e")]);
    assert!(verify(&token, &all, &expected()).is_ok());
    let found = verify(SIGNED, &all, &expected()).unwrap();
    assert_eq!(found.0["sub"], "1");
}

#[test]
fn ed25519_holds_by_either_name_in_a_token_and_in_a_key() {
    let signer = Signer::ed25519();
    for name in ["EdDSA", "Ed25519"] {
        let token = signer.with_head(&json!({"alg": name, "kid": "e"}), &claims());
        for published in [None, Some("EdDSA"), Some("Ed25519")] {
            let mut key = signer.public("e");
            if let Some(published) = published {
                key["alg"] = json!(published);
            }
            let found = verify(&token, &keys(&[key]), &expected());
            assert!(found.is_ok(), "{name}, {published:?}: {found:?}");
        }
    }
    // The name is of this curve and of no other kind of key.
    let other = Signer::p256();
    let token = other.with_head(&json!({"alg": "Ed25519", "kid": "a"}), &claims());
    assert!(verify(&token, &keys(&[other.public("a")]), &expected()).is_err());
    let mut named = other.public("a");
    named["alg"] = json!("Ed25519");
    let token = other.token("a", &claims());
    assert!(verify(&token, &keys(&[named]), &expected()).is_err());
    let token = signer.with_head(&json!({"alg": "Ed448", "kid": "e"}), &claims());
    assert!(verify(&token, &keys(&[signer.public("e")]), &expected()).is_err());
}

#[test]
fn claims_of_which_one_comes_twice_are_refused() {
    let signer = Signer::p256();
    let all = keys(&[signer.public("a")]);
    let head = json!({"alg": "ES256", "kid": "a"});
    for twice in [
        r#""sub":"2""#,
        r#""nonce":"n""#,
        r#""su\u0062":"2""#,
        r#""groups":[],"groups":["ops"]"#,
    ] {
        let text = claims()
            .to_string()
            .replacen('{', &format!("{{{twice},"), 1);
        let error = verify(&signer.signed(&head, &text), &all, &expected()).unwrap_err();
        assert!(matches!(error, LoginError::Token(_)), "{error}");
        assert!(
            error.to_string().contains("comes twice"),
            "{twice}: {error}"
        );
    }
    let token = signer.signed(&head, "[]");
    assert!(verify(&token, &all, &expected()).is_err());
}

#[test]
fn alg_none_and_a_token_without_a_signature_are_refused() {
    let body = encoded(claims().to_string());
    for alg in ["none", "None", "NONE", ""] {
        let head = encoded(json!({ "alg": alg }).to_string());
        for token in [
            format!("{head}.{body}."),
            format!("{head}.{body}"),
            format!("{head}.{body}.AA"),
        ] {
            assert!(
                verify(&token, &keys(&[rsa()]), &expected()).is_err(),
                "{token}"
            );
        }
    }
    let (unsigned, _) = SIGNED.rsplit_once('.').unwrap();
    let error = verify(&format!("{unsigned}."), &keys(&[rsa()]), &expected()).unwrap_err();
    assert!(matches!(error, LoginError::Signature(_)), "{error}");
}

#[test]
fn hmac_confusion_with_a_public_key_as_the_secret_is_refused() {
    let secret = URL_SAFE_NO_PAD.decode(MODULUS).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
    for alg in ["HS256", "RS256", "ES256"] {
        let head = json!({"alg": alg, "kid": "rsa"}).to_string();
        let signed = format!("{}.{}", encoded(head), encoded(claims().to_string()));
        let tag = hmac::sign(&key, signed.as_bytes());
        let token = format!("{signed}.{}", encoded(tag));
        let symmetric = json!({"kty": "oct", "kid": "rsa", "k": MODULUS});
        for published in [vec![rsa()], vec![rsa(), symmetric]] {
            assert!(
                verify(&token, &keys(&published), &expected()).is_err(),
                "{alg}"
            );
        }
    }
}

#[test]
fn a_key_of_another_kind_or_use_verifies_nothing() {
    let signer = Signer::p256();
    let token = signer.token("a", &claims());
    let mut other_use = signer.public("a");
    other_use["use"] = json!("enc");
    let mut other_algorithm = signer.public("a");
    other_algorithm["alg"] = json!("ES384");
    let mut signs_only = signer.public("a");
    signs_only["key_ops"] = json!(["sign"]);
    let mut short = signer.public("a");
    short["x"] = json!("AAAA");
    for key in [
        other_use,
        other_algorithm,
        signs_only,
        short,
        rsa(),
        Signer::p256().public("a"),
        json!(1),
    ] {
        let error = verify(&token, &keys(&[key]), &expected()).unwrap_err();
        assert!(matches!(error, LoginError::Signature(_)), "{error}");
    }
    // Nor one that the token brings itself.
    let head =
        json!({"alg": "ES256", "jwk": signer.public("a"), "jku": "https://evil.example/jwks"});
    let token = signer.with_head(&head, &claims());
    assert!(verify(&token, &keys(&[rsa()]), &expected()).is_err());
    let few = Expected {
        algorithms: &[Algorithm::Rs256],
        ..expected()
    };
    let error = verify(
        &signer.token("a", &claims()),
        &keys(&[signer.public("a")]),
        &few,
    )
    .unwrap_err();
    assert!(error.to_string().contains("RS256 is expected"), "{error}");
}

#[test]
fn after_a_key_rotation_only_what_is_published_counts() {
    let (old, new) = (Signer::p256(), Signer::ed25519());
    let (by_old, by_new) = (old.token("1", &claims()), new.token("2", &claims()));
    let both = keys(&[old.public("1"), new.public("2")]);
    assert!(
        verify(&by_old, &both, &expected()).is_ok() && verify(&by_new, &both, &expected()).is_ok()
    );
    let later = keys(&[new.public("2")]);
    let error = verify(&by_old, &later, &expected()).unwrap_err();
    assert!(error.to_string().contains("key id `1`"), "{error}");
    assert!(verify(&by_new, &later, &expected()).is_ok());
    // A token that names no key may be of each.
    let unnamed = new.with_head(&json!({"alg": "EdDSA"}), &claims());
    assert!(verify(&unnamed, &both, &expected()).is_ok());
}

#[test]
fn a_wrong_issuer_is_refused() {
    for issuer in [
        json!("https://id.example.org/"),
        json!("https://evil.example"),
        json!(1),
        Value::Null,
    ] {
        refused(&[("iss", issuer)], "issuer");
    }
}

#[test]
fn a_wrong_audience_is_refused() {
    for audience in [
        json!("other"),
        json!(["other"]),
        json!([]),
        json!({"hub": 1}),
        json!(1),
        Value::Null,
    ] {
        refused(&[("aud", audience)], "audience");
    }
    assert!(with(&[("aud", json!(["hub"]))]).is_ok());
    refused(&[("aud", json!(["hub", "other"]))], "`azp`");
    refused(
        &[("aud", json!(["hub", "other"])), ("azp", json!("other"))],
        "`azp`",
    );
    refused(&[("azp", json!("other"))], "`azp`");
    refused(&[("azp", json!(["hub"]))], "`azp`");
    assert!(with(&[("aud", json!(["hub", "other"])), ("azp", json!("hub"))]).is_ok());
}

#[test]
fn an_expired_token_and_one_of_another_time_are_refused() {
    refused(&[("exp", json!(NOW - 60))], "expired");
    assert!(with(&[("exp", json!(NOW - 59))]).is_ok(), "clocks differ");
    for missing in [Value::Null, json!("2100"), json!(-1.0e300), json!([])] {
        refused(&[("exp", missing)], "`exp`");
    }
    assert!(with(&[("exp", json!(1_800_000_300.5))]).is_ok());
    assert!(with(&[("exp", json!(i64::MAX))]).is_ok(), "no overflow");
    refused(&[("iat", json!(NOW + 61))], "in the future");
    refused(&[("iat", json!(NOW - 81))], "before this login");
    assert!(with(&[("iat", json!(NOW - 80))]).is_ok());
    refused(&[("iat", Value::Null)], "`iat`");
    refused(&[("iat", json!(i64::MIN))], "before this login");
    refused(&[("nbf", json!(NOW + 61))], "not valid yet");
    refused(&[("nbf", json!("soon"))], "`nbf`");
}

#[test]
fn a_nonce_of_another_login_is_refused() {
    for nonce in [
        json!("other"),
        json!(""),
        json!(1),
        json!(["n"]),
        Value::Null,
    ] {
        refused(&[("nonce", nonce)], "`nonce`");
    }
}

#[test]
fn a_token_of_another_kind_or_with_what_must_be_understood_is_refused() {
    let signer = Signer::p256();
    for head in [
        json!({"alg": "ES256", "typ": "at+jwt"}),
        json!({"alg": "ES256", "crit": ["exp"]}),
        json!({"alg": ["ES256"]}),
        json!({"kid": "a"}),
        json!([]),
    ] {
        let token = signer.with_head(&head, &claims());
        let error = verify(&token, &keys(&[signer.public("a")]), &expected()).unwrap_err();
        assert!(matches!(error, LoginError::Token(_)), "{head}: {error}");
    }
}

#[test]
fn what_is_no_token_or_too_large_is_refused() {
    let large = "a".repeat(MAX_TOKEN_BYTES + 1);
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "a.b.c.d.e",
        "eyJhbGciOiJFUzI1NiJ9.e30=.AA",
        &large,
    ] {
        assert!(
            verify(text, &keys(&[rsa()]), &expected()).is_err(),
            "{}",
            &text[..text.len().min(20)]
        );
    }
    let many: Vec<_> = (0..101).map(|_| rsa()).collect();
    assert!(Keys::parse(json!({ "keys": many }).to_string().as_bytes()).is_err());
    let signer = Signer::p256();
    // A signature holds for these very bytes.
    let token = signer.token("a", &claims());
    let mut other = token.clone().into_bytes();
    other[40] ^= 1;
    let other = String::from_utf8(other).unwrap();
    assert!(verify(&other, &keys(&[signer.public("a")]), &expected()).is_err());
}

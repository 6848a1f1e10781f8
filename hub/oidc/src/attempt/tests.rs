//! What a browser may bring back, and what it may not.

use super::*;
use crate::provider::tests::{document, provider};
use crate::settings::tests::{GOOD, parsed};

const NOW: i64 = 1_800_000_000_000;

fn attempt(byte: u8) -> Attempt {
    Attempt::new([byte; 32], NOW, "/sites?q=a")
}

fn returned(state: &str) -> Returned {
    Returned::parse(&format!("code=c&state={state}")).unwrap()
}

#[test]
fn the_address_holds_what_ties_the_answer_to_this_browser_and_no_secret() {
    let (settings, provider) = (parsed(GOOD).unwrap(), provider(&document()).unwrap());
    let attempt = attempt(7);
    let address = attempt.address(&settings, &provider);
    let query = address
        .strip_prefix("https://id.example.org/authorize?")
        .unwrap();
    let all: std::collections::BTreeMap<_, _> = form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect();
    assert_eq!(all["response_type"], "code");
    assert_eq!(all["scope"], "openid profile email groups");
    assert_eq!(
        all["redirect_uri"],
        "https://hub.example.org/login/oidc/return"
    );
    assert_eq!(all["code_challenge_method"], "S256");
    let hashed = URL_SAFE_NO_PAD.encode(digest(&SHA256, attempt.verifier().as_bytes()));
    assert_eq!(all["code_challenge"], hashed);
    assert_eq!(attempt.verifier().len(), 43);
    for secret in [
        attempt.secret.as_str(),
        &attempt.verifier(),
        &attempt.digest(),
    ] {
        assert!(!address.contains(secret));
    }
    let mut other = document();
    other["authorization_endpoint"] = "https://id.example.org/a?tenant=1".into();
    let other = crate::provider::tests::provider(&other).unwrap();
    assert!(
        attempt
            .address(&settings, &other)
            .contains("/a?tenant=1&response_type")
    );
}

#[test]
fn a_cookie_comes_back_whole_at_another_instance_and_what_this_program_never_wrote_is_none() {
    let attempt = attempt(7);
    assert_eq!(
        Attempt::from_cookie(&attempt.cookie()),
        Some(attempt.clone())
    );
    let longest = |bytes: usize| Attempt::new([7; 32], NOW, &format!("/{}", "a".repeat(bytes - 1)));
    assert!(
        longest(MAX_NEXT_BYTES).cookie().len() < 4_000,
        "browsers keep no longer one"
    );
    assert_eq!(longest(MAX_NEXT_BYTES).next().len(), MAX_NEXT_BYTES);
    assert_eq!(longest(MAX_NEXT_BYTES + 1).next(), "/");
    let secret = "a".repeat(64);
    for wrong in [
        String::new(),
        format!("{secret}.1"),
        format!("{secret}.1.%2F"),
        format!("{secret}.x.Lw"),
        format!("{}.1.Lw", secret.to_uppercase()),
        format!("{secret}.1.Lw.Lw"),
        format!("{secret}.1.{}", "L".repeat(MAX_COOKIE_BYTES)),
    ] {
        assert_eq!(Attempt::from_cookie(&wrong), None, "{wrong}");
    }
    assert_eq!(format!("{attempt:?}"), "Attempt(…)");
}

#[test]
fn a_state_of_another_browser_is_refused() {
    let (own, other) = (attempt(1), attempt(2));
    assert_eq!(returned(&own.state()).belongs_to(&own, NOW), Ok(()));
    let refused = Err(LoginError::OtherBrowser);
    for state in [
        other.state(),
        own.nonce(),
        own.verifier(),
        own.digest(),
        own.secret.clone(),
        String::new(),
    ] {
        assert_eq!(returned(&state).belongs_to(&own, NOW), refused, "{state}");
    }
    let none = Returned::parse("code=c").unwrap();
    assert_eq!(none.belongs_to(&own, NOW), refused);
    // Neither the time nor the place can be changed in the cookie.
    for (from, to) in [
        (NOW.to_string(), (NOW + 1).to_string()),
        (URL_SAFE_NO_PAD.encode("/sites?q=a"), "Lw".to_owned()),
    ] {
        let changed = Attempt::from_cookie(&own.cookie().replace(&from, &to)).unwrap();
        assert_eq!(returned(&own.state()).belongs_to(&changed, NOW), refused);
    }
}

#[test]
fn a_login_that_takes_too_long_is_refused() {
    let own = attempt(1);
    let back = returned(&own.state());
    assert_eq!(back.belongs_to(&own, NOW + LIFETIME_MS - 1), Ok(()));
    for at in [NOW + LIFETIME_MS, NOW - 1, i64::MIN, i64::MAX] {
        assert_eq!(back.belongs_to(&own, at), Err(LoginError::TooLate));
    }
}

#[test]
fn a_mix_up_of_providers_is_refused() {
    let settings = parsed(GOOD).unwrap();
    let quiet = provider(&document()).unwrap();
    let mut document = document();
    document["authorization_response_iss_parameter_supported"] = true.into();
    let stating = provider(&document).unwrap();
    let back = |query: &str| Returned::parse(query).unwrap();
    for (query, provider, expected) in [
        ("code=c", &quiet, Ok("c")),
        ("code=c", &stating, Err(LoginError::MixedUp)),
        ("code=c&iss=https://id.example.org", &quiet, Ok("c")),
        ("code=c&iss=https://id.example.org", &stating, Ok("c")),
        (
            "code=c&iss=https://evil.example",
            &quiet,
            Err(LoginError::MixedUp),
        ),
        (
            "code=c&iss=https://evil.example",
            &stating,
            Err(LoginError::MixedUp),
        ),
        // Also where it says no.
        ("error=access_denied", &stating, Err(LoginError::MixedUp)),
    ] {
        let back = back(query);
        assert_eq!(back.code(&settings, provider), expected, "{query}");
    }
}

#[test]
fn an_answer_that_is_oversized_or_holds_a_parameter_twice_is_refused() {
    let long = format!("code={}", "a".repeat(MAX_QUERY_BYTES));
    for query in [
        &*long,
        "code=a&code=b",
        "state=a&state=a",
        "code=a&iss=b&iss=c",
    ] {
        assert!(Returned::parse(query).is_err());
    }
    let (settings, provider) = (parsed(GOOD).unwrap(), provider(&document()).unwrap());
    let long = format!("code={}", "a".repeat(MAX_CODE_BYTES + 1));
    for query in [&*long, "", "code=", "session_state=x"] {
        let back = Returned::parse(query).unwrap();
        assert!(
            matches!(
                back.code(&settings, &provider),
                Err(LoginError::Returned(_))
            ),
            "{query:.20}"
        );
    }
}

#[test]
fn a_refusal_is_shown_as_a_word_and_never_as_a_text_that_an_address_brings() {
    let (settings, provider) = (parsed(GOOD).unwrap(), provider(&document()).unwrap());
    for (query, word) in [
        (
            "error=access_denied&error_description=<b>",
            "`access_denied`",
        ),
        ("error=Call+0900+123&code=c", "`no readable reason`"),
        ("error=&code=c", "`no readable reason`"),
    ] {
        let error = Returned::parse(query)
            .unwrap()
            .code(&settings, &provider)
            .unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}

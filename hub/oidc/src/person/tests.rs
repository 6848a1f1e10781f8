//! Names that nobody else has, and grants that nobody else gets.

use serde_json::json;

use super::*;
use crate::settings::tests::{GOOD, parsed};

fn person(claims: &Value) -> Result<Person, LoginError> {
    let Value::Object(claims) = claims.clone() else {
        panic!("{claims}")
    };
    Person::of(&Claims(claims), &parsed(GOOD).unwrap())
}

fn ann() -> Value {
    json!({"sub": "7", "preferred_username": "Ann", "groups": ["others", "ops"]})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = ann();
    claims[name] = value;
    claims
}

#[test]
fn a_person_has_what_the_grants_give_and_nobody_has_anything_else() {
    let settings = parsed(GOOD).unwrap();
    let found = person(&ann()).unwrap();
    assert_eq!((&*found.name, &*found.subject), ("oidc:ann", "7"));
    assert_eq!(found.facts.scopes(&settings).to_string(), "read");
    let none = person(&with("groups", json!(["opss", "OPS", ""]))).unwrap();
    assert_eq!(none.facts.scopes(&settings), Scopes::default());
    let mut mail = with("email", json!("ann@example.org"));
    mail["email_verified"] = json!(true);
    let both = person(&mail).unwrap();
    assert_eq!(both.facts.scopes(&settings).to_string(), "read approve");
    assert_eq!(Facts::from_json(&both.facts.to_json()), both.facts);
    assert_eq!(Facts::from_json("{}"), Facts::default());
}

#[test]
fn what_the_settings_take_away_is_gone_for_what_a_session_keeps() {
    let facts = person(&ann()).unwrap().facts;
    for (from, to) in [
        ("[fleet, ops]", "[fleet]"),
        ("claim: groups", "claim: roles"),
    ] {
        let later = parsed(&GOOD.replace(from, to)).unwrap();
        assert_eq!(facts.scopes(&later), Scopes::default());
    }
}

#[test]
fn missing_claims_and_claims_of_another_type_are_refused_and_never_guessed() {
    for (claims, words) in [
        (
            with("preferred_username", Value::Null),
            "does not send `preferred_username`",
        ),
        (with("preferred_username", json!(["ann"])), "is not a text"),
        (with("preferred_username", json!({"a": 1})), "is not a text"),
        (with("sub", Value::Null), "`sub`"),
        (with("sub", json!(7)), "`sub`"),
        (with("sub", json!("")), "`sub`"),
        (with("sub", json!("a".repeat(256))), "`sub`"),
        (with("sub", json!("a\nb")), "`sub`"),
        (with("groups", json!({"ops": true})), "`groups` is neither"),
        (with("groups", json!(1)), "`groups` is neither"),
        (
            with("groups", json!(["ops", 1])),
            "`groups` is not a list of texts",
        ),
    ] {
        let error = person(&claims).unwrap_err();
        assert!(error.to_string().contains(words), "{claims}: {error}");
    }
    // A missing one gives nothing.
    let without = person(&with("groups", Value::Null)).unwrap();
    assert_eq!(without.facts, Facts::default());
    // One text is one value, and not a list in disguise.
    assert_eq!(
        person(&with("groups", json!("ops fleet"))).unwrap().facts,
        Facts::default()
    );
}

#[test]
fn an_e_mail_address_that_nobody_verified_gives_nothing() {
    for verified in [Value::Null, json!(false), json!("true"), json!(1)] {
        let mut claims = with("email", json!("ann@example.org"));
        claims["email_verified"] = verified;
        let error = person(&claims).unwrap_err();
        assert!(error.to_string().contains("`email_verified`"), "{error}");
    }
    // It is asked for only where something follows from it.
    assert!(person(&with("email", json!("bob@example.org"))).is_ok());
    let by_mail = parsed(&GOOD.replace("preferred_username", "email")).unwrap();
    let claims = json!({"sub": "7", "email": "ann@example.org"});
    let error = Person::of(&Claims(claims.as_object().unwrap().clone()), &by_mail).unwrap_err();
    assert!(error.to_string().contains("`email_verified`"), "{error}");
}

#[test]
fn name_spoofing_is_refused() {
    // No name of a person is the name of a token: those have no colon.
    let own = person(&ann()).unwrap().name;
    assert!(own.parse::<outhaul_bundle::name::Name>().is_err(), "{own}");
    assert_eq!(
        person(&with("preferred_username", json!("ANN")))
            .unwrap()
            .name,
        own,
        "one name in small letters"
    );
    for name in [
        "",
        "ann\u{200b}",
        "аnn",
        "ann ",
        " ann",
        "a\u{202e}nn",
        "ann\n",
        "oidc:ann",
        "a b",
        "ann,bob",
        "<b>",
        &"a".repeat(129),
    ] {
        assert!(
            person(&with("preferred_username", json!(name))).is_err(),
            "{name:?}"
        );
    }
}

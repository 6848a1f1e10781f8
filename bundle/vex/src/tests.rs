//! Documents of `OpenVEX`, of version 0.2 and of the one before.

use super::*;

fn document(statements: &str) -> String {
    format!(
        r#"{{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.org/1","author":"Team A",
            "timestamp":"2026-11-01T00:00:00Z","version":1,"statements":[{statements}]}}"#
    )
}

#[test]
fn statements_have_their_own_time_or_that_of_the_document() {
    let text = document(
        r#"{"vulnerability":{"name":"CVE-1","aliases":["GHSA-1"]},"products":[{"@id":"pkg:oci/app"}],"status":"fixed"},
           {"vulnerability":"CVE-2","products":["pkg:oci/app"],"status":"under_investigation","timestamp":"2026-11-02T00:00:00Z"}"#,
    );
    assert!(is_vex(text.as_bytes()) && !is_vex(b"{}"));
    let statements = read(text.as_bytes()).unwrap();
    assert_eq!(statements.len(), 2);
    assert!(statements[0].vulnerabilities.contains("GHSA-1"));
    assert!(statements[0].at_ms < statements[1].at_ms);
    assert_eq!(statements[1].author, "Team A");
}

#[test]
fn what_is_no_document_is_refused() {
    let unexplained = document(
        r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"a"}],"status":"not_affected"}"#,
    );
    let elsewhere = document("").replace("openvex.dev/ns", "example.org/openvex");
    let undated = document("").replace("2026-11-01T00:00:00Z", "yesterday");
    for (text, problem) in [
        ("{}".to_owned(), "not a document"),
        (unexplained, "without a justification"),
        (elsewhere, "@context"),
        (undated, "yesterday"),
    ] {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn a_version_or_a_justification_that_nobody_knows_is_refused_with_those_that_are_known() {
    let one = |reason: &str| {
        document(&format!(
            r#"{{"vulnerability":"CVE-1","products":["pkg:oci/app"],"status":"not_affected",{reason}}}"#
        ))
    };
    let known = one(r#""justification":"component_not_present""#);
    for context in CONTEXTS {
        let text = known.replace("https://openvex.dev/ns/v0.2.0", context);
        assert_eq!(read(text.as_bytes()).unwrap().len(), 1, "{context}");
    }
    for version in ["/v0.3.0", "/v9.9.9", "-2", "/"] {
        let later = known.replace("/v0.2.0", version);
        let problem = read(later.as_bytes()).unwrap_err().to_string();
        let found = format!("`https://openvex.dev/ns{version}`");
        assert!(problem.contains(&found), "{problem}");
        assert!(problem.contains(CONTEXTS[1]) && problem.contains(CONTEXTS[2]));
    }
    // One of another form is told what is wrong with its context, not that it is no advisory.
    for context in [
        r#""https://example.org/vex""#,
        r#"["https://openvex.dev/ns/v0.2.0"]"#,
        "7",
    ] {
        let odd = known.replace(r#""https://openvex.dev/ns/v0.2.0""#, context);
        assert!(is_vex(odd.as_bytes()), "{context}");
        let problem = read(odd.as_bytes()).unwrap_err().to_string();
        assert!(problem.starts_with("its `@context` is"), "{problem}");
    }
    let without = known.replace("@context", "context");
    assert!(is_vex(without.as_bytes()));
    let problem = read(without.as_bytes()).unwrap_err().to_string();
    assert!(problem.contains("`@context`"), "{problem}");
    assert!(!is_vex(
        br#"{"@context":"x","id":"A-1","modified":"2026-11-01T00:00:00Z"}"#
    ));
    for word in JUSTIFICATIONS {
        let text = one(&format!(r#""justification":"{word}""#));
        assert_eq!(read(text.as_bytes()).unwrap()[0].reason, word);
    }
    let unknown = one(r#""justification":"trust_me""#);
    let problem = read(unknown.as_bytes()).unwrap_err().to_string();
    assert!(problem.starts_with("statement 1 has the justification `trust_me`"));
    assert!(JUSTIFICATIONS.iter().all(|word| problem.contains(word)));
    // What an older hub took stays readable.
    assert_eq!(read_on_record(unknown.as_bytes()).unwrap().len(), 1);
    let own_words = one(r#""impact_statement":"not reachable""#);
    assert!(read(own_words.as_bytes()).is_ok());
}

#[test]
fn a_field_that_is_misspelt_is_refused() {
    let misspelt = document(
        r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/app","subcomponent":[]}],"status":"fixed"}"#,
    );
    assert!(read(misspelt.as_bytes()).is_err());
}

#[test]
fn attack_a_document_that_grows_when_it_is_kept_is_refused() {
    let list = |count: usize, one: &dyn Fn(usize) -> String| {
        (0..count).map(one).collect::<Vec<_>>().join(",")
    };
    let id = |at: usize| format!(r#"{{"@id":"pkg:oci/a{at}"}}"#);
    let alias = |at: usize| format!("\"CVE-{at}\"");
    let of = |aliases: usize, products: usize, all: usize| {
        document(&format!(
            r#"{{"vulnerability":{{"name":"CVE","aliases":[{}]}},"products":[{}],"subcomponents":[{}],"status":"fixed"}}"#,
            list(aliases, &alias),
            list(products, &id),
            list(all, &id),
        ))
    };
    for (aliases, products, all) in [(50_000, 50, 0), (0, 2_000, 2_000), (2_000, 100, 10)] {
        let found = read(of(aliases, products, all).as_bytes());
        assert!(
            matches!(found, Err(VexError::TooMuch)),
            "{aliases} {products} {all}"
        );
    }
    assert!(read(of(20, 1_000, 20).as_bytes()).is_ok());
}

#[test]
fn a_statement_of_a_time_to_come_is_refused_and_one_of_a_clock_that_is_ahead_is_not() {
    let text = document(r#"{"vulnerability":"CVE-1","products":["a"],"status":"fixed"}"#);
    let at_ms = read(text.as_bytes()).unwrap()[0].at_ms;
    assert!(read_until(text.as_bytes(), at_ms - DAY_MS).is_ok());
    let found = read_until(text.as_bytes(), at_ms - DAY_MS - 1).unwrap_err();
    assert_eq!(
        found.to_string(),
        "a statement is of 2026-11-01T00:00:00Z, which is in the future"
    );
    // What a signed index lists keeps to the same, in words of its own.
    let own = text.replace("\"fixed\"", "\"fixed\",\"justification\":\"trust_me\"");
    assert!(read_until(own.as_bytes(), at_ms).is_err());
    assert!(read_listed(own.as_bytes(), at_ms - DAY_MS).is_ok());
    assert!(matches!(
        read_listed(own.as_bytes(), at_ms - DAY_MS - 1),
        Err(VexError::Future(_))
    ));
}

#[test]
fn what_is_kept_of_a_statement_is_read_again_and_so_is_what_was_kept_before() {
    let text = document(
        r#"{"vulnerability":"CVE-1","status":"fixed","products":[{"@id":"pkg:oci/app","hashes":{"sha-256":"ab"},
            "identifiers":{"cpe23":"cpe:2.3:a:x"},"subcomponents":[{"@id":"pkg:deb/debian/curl"},{}]}]}"#,
    );
    let statement = read(text.as_bytes()).unwrap().remove(0);
    let named = &statement.products[0].named;
    assert_eq!(named.hashes["sha-256"], "ab");
    assert!(named.others.contains("cpe23 cpe:2.3:a:x"));
    assert_eq!(statement.products[0].components.len(), 2);
    let kept = serde_json::to_string(&statement).unwrap();
    assert_eq!(serde_json::from_str::<Statement>(&kept).unwrap(), statement);
    let before = r#"{"names":["pkg:oci/app"],"components":["pkg:deb/debian/curl"]}"#;
    let before: Product = serde_json::from_str(before).unwrap();
    assert!(before.named.names.contains("pkg:oci/app"));
    assert!(before.components[0].names.contains("pkg:deb/debian/curl"));
}

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
fn a_field_that_is_misspelt_is_refused() {
    let misspelt = document(
        r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/app","subcomponent":[]}],"status":"fixed"}"#,
    );
    assert!(read(misspelt.as_bytes()).is_err());
}

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
fn products_are_compared_by_package_url_and_subcomponents_narrow_them() {
    let text = document(
        r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/app","subcomponents":[{"@id":"pkg:deb/debian/openssl"}]}],
            "status":"not_affected","justification":"vulnerable_code_not_in_execute_path"}"#,
    );
    let statement = &read(text.as_bytes()).unwrap()[0];
    let image = [
        "registry.example/app:1".to_owned(),
        "pkg:oci/app@sha256%3Aab".to_owned(),
    ];
    let openssl = "pkg:deb/debian/openssl@3.0?arch=amd64";
    assert!(statement.is_about(openssl, &image));
    assert!(!statement.is_about("pkg:deb/debian/curl@8", &image));
    assert!(!statement.is_about(openssl, &["pkg:oci/other".to_owned()]));
    assert!(!statement.is_about(openssl, &[]));
}

#[test]
fn a_statement_without_a_product_is_about_nothing() {
    let text = document(r#"{"vulnerability":{"name":"CVE-1"},"status":"fixed"}"#);
    let statement = &read(text.as_bytes()).unwrap()[0];
    assert!(!statement.is_about("pkg:deb/debian/openssl@3", &["pkg:oci/app".to_owned()]));
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
fn subcomponents_without_a_name_or_of_the_whole_statement_do_not_widen_it() {
    let image = ["pkg:oci/app".to_owned()];
    let openssl = "pkg:deb/debian/openssl@3.0";
    for (products, more) in [
        (r#"{"@id":"pkg:oci/app","subcomponents":[{}]}"#, ""),
        (r#"{"@id":"pkg:oci/app","subcomponents":[{"@id":""}]}"#, ""),
        (
            r#"{"@id":"pkg:oci/app"}"#,
            r#""subcomponents":[{"@id":"pkg:deb/debian/curl"}],"#,
        ),
        (
            r#"{"@id":"pkg:deb/debian/openssl","subcomponents":[{"@id":"pkg:deb/debian/curl"}]}"#,
            "",
        ),
    ] {
        let text = document(&format!(
            r#"{{"vulnerability":{{"name":"CVE-1"}},{more}"products":[{products}],"status":"fixed"}}"#
        ));
        let statement = &read(text.as_bytes()).unwrap()[0];
        assert!(!statement.is_about(openssl, &image), "{products}");
    }
    let misspelt = document(
        r#"{"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/app","subcomponent":[]}],"status":"fixed"}"#,
    );
    assert!(read(misspelt.as_bytes()).is_err());
}

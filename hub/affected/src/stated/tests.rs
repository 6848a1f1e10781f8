//! What statements are about.

use outhaul_vex::read;

use super::is_about;

fn document(statements: &str) -> String {
    format!(
        r#"{{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.org/1","author":"Team A",
            "timestamp":"2026-11-01T00:00:00Z","version":1,"statements":[{statements}]}}"#
    )
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
    assert!(is_about(statement, openssl, &image));
    assert!(!is_about(statement, "pkg:deb/debian/curl@8", &image));
    assert!(!is_about(statement, openssl, &["pkg:oci/other".to_owned()]));
    assert!(!is_about(statement, openssl, &[]));
}

#[test]
fn a_statement_without_a_product_is_about_nothing() {
    let text = document(r#"{"vulnerability":{"name":"CVE-1"},"status":"fixed"}"#);
    let statement = &read(text.as_bytes()).unwrap()[0];
    assert!(!is_about(
        statement,
        "pkg:deb/debian/openssl@3",
        &["pkg:oci/app".to_owned()]
    ));
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
        assert!(!is_about(statement, openssl, &image), "{products}");
    }
}

#[test]
fn attack_a_name_that_is_missing_or_cannot_be_read_clears_nothing() {
    let images: [&[String]; 3] = [&[], &[String::new()], &["pkg:oci/app".to_owned()]];
    let found = [
        "",
        "openssl",
        "pkg:deb/debian/openssl@3.0?arch=amd64&distro=debian-12",
        "pkg:deb/debian/debian@1",
    ];
    for product in [
        r#""""#,
        r#"{"@id":""}"#,
        "{}",
        r#"{"@id":"","subcomponents":[{"@id":""}]}"#,
        r#"{"identifiers":{"purl":""}}"#,
        r#"{"@id":"pkg:deb/debian/"}"#,
        r#"{"@id":"pkg:deb/debian/openssl@"}"#,
        r#"{"@id":"pkg:deb/debian/openssl?distro"}"#,
        r#"{"@id":"pkg:deb/debian/openssl?distro="}"#,
        r#"{"@id":"pkg:deb/debian/openssl@%zz"}"#,
        r#"{"@id":"pkg:deb/debian/openssl#usr/lib"}"#,
        r#"{"@id":"pkg:deb"}"#,
        r#"{"@id":"*"}"#,
        r#"{"@id":"pkg:oci/app","subcomponents":[""]}"#,
    ] {
        let text = document(&format!(
            r#"{{"vulnerability":{{"name":"CVE-1"}},"products":[{product}],"status":"fixed"}}"#
        ));
        let statement = &read(text.as_bytes()).unwrap()[0];
        for one in found {
            for image in images {
                let is = is_about(statement, one, image);
                assert!(!is, "{product} {one} {image:?}");
            }
        }
    }
}

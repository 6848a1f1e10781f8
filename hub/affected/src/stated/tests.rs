//! What statements are about.

use outhaul_vex::read;

use super::{About, KnownComponent, about};

fn is_about(statement: &outhaul_vex::Statement, component: &str, image: &[String]) -> bool {
    about_of(statement, component, image).is_some()
}

fn about_of(
    statement: &outhaul_vex::Statement,
    component: &str,
    image: &[String],
) -> Option<About> {
    let digest = |name: &String| Some(name.split_once("@sha256%3A")?.1.to_owned());
    let image = KnownComponent {
        names: image.to_vec(),
        sha256: image.iter().find_map(digest),
    };
    let component = KnownComponent {
        names: vec![component.to_owned()],
        sha256: None,
    };
    about(statement, &component, &image)
}

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

#[test]
fn attack_a_product_counts_when_all_that_it_says_fits() {
    let image = [
        "registry.example/app:1".to_owned(),
        "pkg:oci/app@sha256%3Aab".to_owned(),
    ];
    let openssl = "pkg:deb/debian/openssl@3.0?distro=debian-12";
    let of = |product: &str| {
        let text = document(&format!(
            r#"{{"vulnerability":{{"name":"CVE-1"}},"products":[{product}],"status":"fixed"}}"#
        ));
        about_of(&read(text.as_bytes()).unwrap()[0], openssl, &image)
    };
    for (product, found) in [
        (
            r#"{"@id":"pkg:oci/app","hashes":{"sha-256":"AB"}}"#,
            Some(About::Exactly),
        ),
        (r#"{"hashes":{"sha-256":"ab"}}"#, Some(About::Exactly)),
        (r#"{"@id":"pkg:oci/app@sha256:ab"}"#, Some(About::Exactly)),
        (
            r#"{"@id":"pkg:oci/app","identifiers":{"purl":"pkg:oci/app"}}"#,
            Some(About::Any),
        ),
        (
            r#"{"@id":"urn:uuid:1","identifiers":{"purl":"pkg:oci/app"}}"#,
            Some(About::Any),
        ),
        (r#"{"@id":"pkg:oci/app","hashes":{"sha-256":"ff"}}"#, None),
        (r#"{"@id":"pkg:oci/app","hashes":{"sha-512":"ab"}}"#, None),
        (
            r#"{"@id":"pkg:oci/app","hashes":{"sha-256":"ab","sha-512":"cd"}}"#,
            None,
        ),
        (
            r#"{"@id":"pkg:deb/debian/openssl","hashes":{"sha-256":"ab"}}"#,
            None,
        ),
        (
            r#"{"@id":"pkg:oci/app","identifiers":{"purl":"pkg:oci/other"}}"#,
            None,
        ),
        (
            r#"{"@id":"pkg:oci/app","identifiers":{"purl":"app"}}"#,
            None,
        ),
        (r#"{"@id":"pkg:oci/app","identifiers":{"purl":""}}"#, None),
        (
            r#"{"@id":"pkg:oci/app","identifiers":{"cpe23":"cpe:2.3:a:x:app"}}"#,
            None,
        ),
        (
            r#"{"@id":"cpe:2.3:a:x:app","identifiers":{"purl":"pkg:oci/app"}}"#,
            None,
        ),
        (
            r#"{"@id":"other","identifiers":{"purl":"pkg:oci/app"}}"#,
            None,
        ),
    ] {
        assert_eq!(of(product), found, "{product}");
        let within = product.replace("pkg:oci/app", "pkg:deb/debian/openssl");
        let within = of(&format!(
            r#"{{"@id":"pkg:oci/app","subcomponents":[{within}]}}"#
        ));
        let may = found.is_some() && !product.contains("sha");
        assert_eq!(within.is_some(), may, "{product} within");
    }
    assert_eq!(of(r#""pkg:deb/debian/openssl""#), Some(About::Any));
    assert_eq!(of(r#""pkg:deb/debian/openssl@3.0""#), Some(About::Exactly));
    let twice = r#""pkg:deb/debian/openssl?distro=debian-11&distro=debian-12""#;
    assert_eq!(of(twice), None);
}

//! What of a document of statements can match nothing that a bill of materials here has.
//!
//! What comes in: statements about exploitability; an advisory says so itself. What goes out: products as the document names them, each with the
//! reason. It refuses nothing: a document may say more than concerns this fleet. It knows no bill, only what bills can have.

use std::collections::BTreeSet;

use outhaul_vex::Statement;

use crate::advisory::Unmatched;
use crate::purl::Purl;
use crate::shown::shown;

/// Kinds of package URLs that bills of materials here have.
const KINDS: [&str; 3] = ["apk", "deb", "oci"];
/// Longest name that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// What of statements can match nothing.
pub fn unmatched(statements: &[Statement]) -> BTreeSet<Unmatched> {
    let mut found = BTreeSet::new();
    for statement in statements {
        if statement.products.is_empty() {
            let names: Vec<&str> = statement
                .vulnerabilities
                .iter()
                .map(String::as_str)
                .collect();
            found.insert(Unmatched {
                product: String::new(),
                why: format!(
                    "the statement about `{}` names no product, so it is about nothing",
                    shown(&names.join("`, `"), MAX_SHOWN)
                ),
            });
        }
        for product in &statement.products {
            for names in [&product.names, &product.components] {
                let whys: Vec<_> = names
                    .iter()
                    .map(|name| (name, why_unmatched(name)))
                    .collect();
                // One name that can match is enough.
                if whys.iter().any(|(_, why)| why.is_none()) {
                    continue;
                }
                for (name, why) in whys {
                    let (product, why) = (shown(name, MAX_SHOWN), why.unwrap_or_default());
                    found.insert(Unmatched { product, why });
                }
            }
        }
    }
    found
}

fn why_unmatched(name: &str) -> Option<String> {
    match Purl::parse(name) {
        Some(purl) if KINDS.contains(&purl.kind.as_str()) => None,
        Some(purl) => Some(format!(
            "packages of type `{}` are in no bill of materials here, which have `apk`, `deb` and `oci`",
            shown(&purl.kind, MAX_SHOWN)
        )),
        // A name of an image as its bill has it: with the registry, and nothing that no image's name has.
        None if is_image_name(name) => None,
        None => Some(
            "it is neither a package URL (`pkg:deb/debian/openssl`, `pkg:oci/camera`) nor the name of an image with its registry"
                .to_owned(),
        ),
    }
}

/// Whether a text may be the name of an image, as bills of materials have it: `docker.io/library/nginx`.
fn is_image_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let registry = text.split_once('/').map(|(registry, _)| registry);
    text.chars().all(is_part)
        && !text.contains("://")
        && registry.is_some_and(|name| name.contains(['.', ':']) || name == "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advisory::Advisory;

    fn of(body: &str) -> Vec<(String, String)> {
        let found = match outhaul_vex::is_vex(body.as_bytes()) {
            true => unmatched(&outhaul_vex::read(body.as_bytes()).unwrap()),
            false => Advisory::read(body.as_bytes()).unwrap().unmatched().clone(),
        };
        found
            .into_iter()
            .map(|one| (one.product, one.why))
            .collect()
    }

    fn vex(products: &str) -> String {
        format!(
            r#"{{"@context":"https://openvex.dev/ns/v0.2.0","author":"A","timestamp":"2026-11-01T00:00:00Z","statements":[
                {{"vulnerability":{{"name":"CVE-1"}},"products":[{products}],"status":"fixed"}}]}}"#
        )
    }

    #[test]
    fn a_product_of_a_statement_that_no_bill_can_have_is_named_with_the_reason() {
        for (product, why) in [
            (r#"{"@id":"Camera App"}"#, "neither a package URL"),
            (r#"{"@id":"camera"}"#, "neither a package URL"),
            (
                r#"{"@id":"https://example.org/camera"}"#,
                "neither a package URL",
            ),
            (r#"{"@id":"pkg:npm/left-pad@1.0.0"}"#, "`npm`"),
            (r#"{"@id":"pkg:docker/nginx"}"#, "`docker`"),
            (
                r#"{"@id":"pkg:oci/camera","subcomponents":[{"@id":"pkg:golang/x"}]}"#,
                "`golang`",
            ),
        ] {
            let found = of(&vex(product));
            assert_eq!(found.len(), 1, "{product}: {found:?}");
            assert!(product.contains(&found[0].0), "{product}: {found:?}");
            assert!(found[0].1.contains(why), "{product}: {found:?}");
        }
        let (product, why) = &of(&vex(""))[0];
        assert!(
            product.is_empty() && why.contains("`CVE-1` names no product"),
            "{why}"
        );
        for product in [
            r#"{"@id":"pkg:oci/camera"}"#,
            r#"{"@id":"pkg:deb/debian/openssl","subcomponents":[{"@id":"pkg:apk/alpine/zlib"}]}"#,
            r#"{"@id":"docker.io/library/nginx"}"#,
            // By one of its names it can be found.
            r#"{"@id":"Camera App","identifiers":{"purl":"pkg:oci/camera"}}"#,
        ] {
            assert!(of(&vex(product)).is_empty(), "{product}");
        }
    }

    #[test]
    fn a_package_of_an_advisory_that_no_bill_can_have_is_named_with_the_reason() {
        let advisory = |affected: &str| {
            format!(r#"{{"id":"A-1","modified":"2026-11-20T00:00:00Z","affected":[{affected}]}}"#)
        };
        let known = r#"{"package":{"ecosystem":"Debian:12","name":"openssl"},"ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"3.0"}]}]}"#;
        assert!(of(&advisory(known)).is_empty());
        for (change, product, why) in [
            (known.replace("Debian:12", "npm"), "openssl", "`npm`"),
            (
                known.replace("Debian:12", "Debian:bookworm"),
                "openssl",
                "`bookworm`",
            ),
            (known.replace("3.0", "unfixed"), "openssl", "`unfixed`"),
            (known.replace("ECOSYSTEM", "DATE"), "openssl", "type `DATE`"),
            (
                known.replace(
                    r#""events":[{"introduced":"0"},{"fixed":"3.0"}]"#,
                    r#""events":[]"#,
                ),
                "openssl",
                "no versions",
            ),
            (String::new(), "", "names no package"),
        ] {
            let found = of(&advisory(&change));
            assert!(!found.is_empty(), "{change}");
            assert_eq!(found[0].0, product, "{change}: {found:?}");
            assert!(
                found.iter().any(|one| one.1.contains(why)),
                "{change}: {found:?}"
            );
        }
    }
}

//! What of a document of statements can match nothing that a bill of materials here has.
//!
//! What comes in: statements about exploitability; an advisory says so itself. What goes out: products as the document names them, each with the
//! reason. It refuses nothing: a document may say more than concerns this fleet. It knows no bill, only what bills can have.

use std::collections::BTreeSet;

use outhaul_vex::{ProductIdentifiers, Statement};

use crate::advisory::{Subject, Unmatched};
use crate::purl::{Odd, Purl};
use crate::release::Distribution;
use crate::shown::shown;
use crate::stated::is_sha256;

/// Kinds of package URLs that bills of materials here have.
const KINDS: [&str; 3] = ["apk", "deb", "oci"];
/// Longest name that is shown, in characters.
const MAX_SHOWN: usize = 200;

/// Of an advisory: distributions of which it is about releases that no package on record is of, and about no other.
pub(crate) fn unmatched_releases(
    subjects: &[Subject],
    on_record: &BTreeSet<Distribution>,
) -> BTreeSet<Unmatched> {
    let mut found = BTreeSet::new();
    for subject in subjects {
        let id = &subject.distribution.id;
        let same = subjects.iter().map(|one| &one.distribution);
        let mut same = same.filter(|one| one.id == *id);
        let of_id = releases(id, on_record);
        let is_there = |one: &Distribution| on_record.iter().any(|there| one.covers(there));
        if of_id.is_empty() || same.any(|one| one.release.is_empty() || is_there(one)) {
            continue;
        }
        let (id, release) = (
            shown(id, MAX_SHOWN),
            shown(&subject.distribution.release, MAX_SHOWN),
        );
        found.insert(Unmatched {
            product: shown(&subject.name, MAX_SHOWN),
            why: format!(
                "no package on record here is of {id} {release}: those of {id} are of {of_id}"
            ),
        });
    }
    found
}

/// The releases of a distribution of which packages are on record, in a few words; empty without one.
fn releases(id: &str, on_record: &BTreeSet<Distribution>) -> String {
    let of_id = on_record
        .iter()
        .filter(|there| there.id == id && !there.release.is_empty());
    let names: Vec<&str> = of_id.map(|there| there.release.as_str()).collect();
    shown(&names.join(", "), MAX_SHOWN)
}

/// What of statements can match nothing. `on_record`: the releases of which a package is on record.
pub(crate) fn unmatched(
    statements: &[Statement],
    on_record: &BTreeSet<Distribution>,
) -> BTreeSet<Unmatched> {
    let mut found = BTreeSet::new();
    let mut nameless = |why: String| {
        let product = String::new();
        found.insert(Unmatched { product, why });
    };
    if statements.is_empty() {
        nameless("the document makes no statement".to_owned());
    }
    for statement in statements {
        let names: Vec<&str> = statement
            .vulnerabilities
            .iter()
            .map(String::as_str)
            .collect();
        let about = shown(&names.join("`, `"), MAX_SHOWN);
        if names.is_empty() {
            nameless("a statement names no vulnerability, so it is about nothing".to_owned());
        }
        if statement.products.is_empty() {
            nameless(format!(
                "the statement about `{about}` names no product, so it is about nothing"
            ));
        }
        if statement
            .products
            .iter()
            .any(|one| one.named == ProductIdentifiers::default())
        {
            nameless(format!(
                "a product of the statement about `{about}` has no name, so it is about nothing"
            ));
        }
    }
    for product in statements.iter().flat_map(|one| &one.products) {
        if product.named != ProductIdentifiers::default() {
            found.extend(odd(&product.named, on_record));
        }
        let within: Vec<Vec<Unmatched>> = product
            .components
            .iter()
            .map(|one| odd(one, on_record))
            .collect();
        // One subcomponent that can match is enough.
        if within.iter().all(|one| !one.is_empty()) {
            found.extend(within.into_iter().flatten());
        }
    }
    found
}

/// What of a product or a subcomponent can match nothing, because of which the whole of it does not.
fn odd(named: &ProductIdentifiers, on_record: &BTreeSet<Distribution>) -> Vec<Unmatched> {
    let mut found = Vec::new();
    let mut add = |product: &str, why: String| {
        let product = shown(product, MAX_SHOWN);
        found.push(Unmatched { product, why });
    };
    for name in &named.names {
        if let Some(why) = why_unmatched(name, on_record) {
            add(name, why);
        }
    }
    let purls: Vec<(&String, Purl)> = named
        .names
        .iter()
        .filter_map(|name| Some((name, Purl::stated(name).ok()?)))
        .collect();
    if let [(first, one), (second, other), ..] = &purls[..]
        && !one.agrees(other)
    {
        let why = format!(
            "it also has `{}`, which is another product",
            shown(first, MAX_SHOWN)
        );
        add(second, why);
    }
    for other in &named.others {
        let why = "no bill of materials here has identifiers but package URLs: nothing else in it can be compared, and it matches \
                   nothing";
        add(other, why.to_owned());
    }
    let is_image = purls.iter().any(|(_, purl)| purl.kind == "oci") || purls.is_empty();
    for (algorithm, digest) in &named.hashes {
        if !is_image || !is_sha256(algorithm) {
            let why =
                "no bill of materials here has that digest: they have `sha-256` of images alone";
            add(&format!("{algorithm} {digest}"), why.to_owned());
        }
    }
    if *named == ProductIdentifiers::default() {
        add("", "it has no name".to_owned());
    }
    found
}

fn why_unmatched(name: &str, on_record: &BTreeSet<Distribution>) -> Option<String> {
    match Purl::stated(name) {
        Ok(purl) if KINDS.contains(&purl.kind.as_str()) => no_release(&purl, on_record),
        Ok(purl) => Some(format!(
            "packages of type `{}` are in no bill of materials here, which have `apk`, `deb` and `oci`",
            shown(&purl.kind, MAX_SHOWN)
        )),
        Err(Odd::Unusable(why)) => Some(why.to_owned()),
        Err(Odd::NoPurl) if name.is_empty() => Some("it has no name".to_owned()),
        // A name of an image as its bill has it: with the registry and the tag, and nothing that no image's name has.
        Err(Odd::NoPurl) if is_image_name(name) => None,
        Err(Odd::NoPurl) => Some(
            "it is neither a package URL (`pkg:deb/debian/openssl`, `pkg:oci/camera`) nor the name of an image with its registry \
             and its tag or digest"
                .to_owned(),
        ),
    }
}

/// A qualifier `distro` is compared as it is written.
fn no_release(purl: &Purl, on_record: &BTreeSet<Distribution>) -> Option<String> {
    let distro = purl.qualifiers.get("distro")?;
    let wanted = Distribution::of_qualifier(distro);
    let there = releases(&wanted.id, on_record);
    let is_known = there.is_empty() || on_record.contains(&wanted);
    let (distro, id) = (shown(distro, MAX_SHOWN), shown(&wanted.id, MAX_SHOWN));
    (!is_known).then(|| {
        format!("no package on record here is of distro `{distro}`: those of {id} are of {there}")
    })
}

/// Whether a text may be the name of an image, as bills of materials have it: `docker.io/library/nginx:1.27`.
fn is_image_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let registry = text.split_once('/').map(|(registry, _)| registry);
    let last = text.rsplit_once('/').map_or(text, |(_, last)| last);
    let version = last.split_once(['@', ':']).map(|(_, version)| version);
    text.chars().all(is_part)
        && !text.contains("://")
        && version.is_some_and(|version| !version.is_empty())
        && registry.is_some_and(|name| name.contains(['.', ':']) || name == "localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advisory::Advisory;

    fn of(body: &str) -> Vec<(String, String)> {
        let found = match outhaul_vex::is_vex(body.as_bytes()) {
            true => unmatched(
                &outhaul_vex::read(body.as_bytes()).unwrap(),
                &BTreeSet::new(),
            ),
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
            (r#"{"@id":"docker.io/library/nginx"}"#, "tag or digest"),
            (r#"{"@id":"pkg:deb/debian/"}"#, "the name"),
            (r#"{"@id":"pkg:deb/debian/open%zzssl"}"#, "follows a `%`"),
            (r#"{"@id":"pkg:deb/debian/openssl?distro"}"#, "after `?`"),
            (r#"{"@id":""}"#, "has no name"),
            (r#"{"@id":"pkg:npm/left-pad@1.0.0"}"#, "`npm`"),
            (r#"{"@id":"pkg:docker/nginx"}"#, "`docker`"),
            (
                r#"{"@id":"pkg:oci/app","identifiers":{"cpe23":"cpe:2.3:a:x"}}"#,
                "identifiers but package URLs",
            ),
            (
                r#"{"@id":"pkg:oci/app","identifiers":{"purl":"openssl"}}"#,
                "neither a package URL",
            ),
            (
                r#"{"@id":"pkg:deb/debian/curl","identifiers":{"purl":"pkg:deb/debian/openssl"}}"#,
                "which is another product",
            ),
            (
                r#"{"@id":"pkg:oci/app","hashes":{"sha-512":"ff"}}"#,
                "has that digest",
            ),
            (
                r#"{"@id":"pkg:deb/debian/openssl","hashes":{"sha-256":"ff"}}"#,
                "has that digest",
            ),
            (
                r#"{"@id":"pkg:deb/debian/openssl?distro=debian-11&distro=debian-12"}"#,
                "twice",
            ),
            (
                r#"{"@id":"pkg:oci/camera","subcomponents":[{"@id":"pkg:golang/x"}]}"#,
                "`golang`",
            ),
        ] {
            let found = of(&vex(product));
            assert_eq!(found.len(), 1, "{product}: {found:?}");
            let named = found[0]
                .0
                .split_once(' ')
                .map_or(&*found[0].0, |(_, name)| name);
            assert!(product.contains(named), "{product}: {found:?}");
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
            r#"{"@id":"docker.io/library/nginx:1.27"}"#,
            // An address is of the document's own use.
            r#"{"@id":"https://example.org/camera","identifiers":{"purl":"pkg:oci/camera"}}"#,
        ] {
            assert!(of(&vex(product)).is_empty(), "{product}");
        }
    }

    #[test]
    fn a_release_that_no_package_on_record_is_of_is_named_with_those_that_are() {
        let known = BTreeSet::from([
            Distribution::of_qualifier("debian-12.5"),
            Distribution::of_qualifier("alpine-3.19.1"),
        ]);
        let of = |ecosystems: &[&str], known: &BTreeSet<Distribution>| {
            let affected = ecosystems.iter().map(|name| {
                format!(r#"{{"package":{{"ecosystem":"{name}","name":"curl"}},"versions":["1"]}}"#)
            });
            let affected = affected.collect::<Vec<_>>().join(",");
            let text = format!(r#"{{"id":"A","modified":"","affected":[{affected}]}}"#);
            let advisory = Advisory::read(text.as_bytes()).unwrap();
            unmatched_releases(&advisory.subjects, known)
        };
        let found = of(&["Debian:99", "Alpine:v3.19"], &known);
        let found: Vec<_> = found.iter().map(|one| one.why.as_str()).collect();
        let why = "no package on record here is of debian 99: those of debian are of 12.5";
        assert_eq!(found, [why]);
        // One of its releases is enough; and of a hub that knows no package nothing is said.
        assert!(of(&["Debian:99", "Debian:12"], &known).is_empty());
        assert!(of(&["Debian"], &known).is_empty());
        assert!(of(&["Debian:99"], &BTreeSet::new()).is_empty());

        let why = |name: &str| why_unmatched(name, &known);
        assert!(
            why("pkg:deb/debian/curl?distro=debian-99").is_some_and(|why| why.contains("12.5"))
        );
        assert_eq!(why("pkg:deb/debian/curl?distro=debian-12.5"), None);
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
            (known.replace("3.0", "v3.0"), "openssl", "`v3.0`"),
            (known.replace("3.0", "3.0 or so"), "openssl", "`3.0 or so`"),
            (known.replace("3.0", "x:3.0"), "openssl", "`x:3.0`"),
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

//! Which sites an advisory is about, out of both stores: what bundles list, what sites run, and what is not known.

use std::collections::BTreeSet;

use outhaul_affected::{Advisory, Materials};
use outhaul_bundle::hub_api::{AffectedSites, AffectedVerdict as V, ImportOutcome};
use outhaul_bundle::index::File;
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G};
use outhaul_bundle::{Digest, Index};
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, NEW, OLD};

use super::{store_with, take};
use crate::materials::{self, Bill};
use crate::store::{Signed, Store};
use crate::time::now_ms;
use crate::view::affected::{self, SitesAsked};

const HOUR: i64 = 60 * 60 * 1000;
const NOW: i64 = 1_000 * HOUR;
const ADVISORY: &str = r#"{"id":"DSA-1","modified":"","aliases":["CVE-1"],"affected":[{"package":{"ecosystem":"Debian:12","name":"openssl"},
    "ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"3.0.11-1"}]}]}]}"#;
const VEX: &str = r#"{"@context":"https://openvex.dev/ns/v0.2.0","author":"Team A","timestamp":"2026-11-01T00:00:00Z","statements":[
    {"vulnerability":{"name":"CVE-1"},"products":[{"@id":"pkg:oci/camera"}],"status":"not_affected","impact_statement":"not reachable"}]}"#;

/// The bills of a bundle whose one image has openssl of this version.
fn bills(version: &str) -> [(&'static str, String); 2] {
    let own = r#"{"bomFormat":"CycloneDX","components":[{"type":"container","name":"registry.example/camera","version":"1",
        "purl":"pkg:oci/camera?repository_url=registry.example%2Fcamera&tag=1","properties":[
        {"name":"outhaul:assignment","value":"camera-functional"},{"name":"outhaul:sbom","value":"image-ab.cdx.json"}]}]}"#;
    let image = format!(
        r#"{{"bomFormat":"CycloneDX","metadata":{{"component":{{"type":"container","name":"registry.example/camera:1"}}}},"components":[
            {{"type":"library","name":"libssl3","version":"{version}","purl":"pkg:deb/debian/libssl3@{version}?arch=amd64&distro=debian-12",
              "properties":[{{"name":"outhaul:source","value":"openssl {version}"}}]}}]}}"#
    );
    [
        ("sbom.cdx.json", own.to_owned()),
        ("image-ab.cdx.json", image),
    ]
}

/// A bundle with these bills; those of `kept` are on record.
fn bundle(store: &mut Store, (number, commit): (u64, &str), version: &str, kept: &[&str]) -> Index {
    let mut index = plain::index(&plain::stream("dev", "drone"), number, commit);
    let bills = bills(version);
    for (path, text) in &bills {
        index.attestations.push(File {
            path: path.parse().unwrap(),
            content: Digest::of(text.as_bytes()),
            size: text.len() as u64,
            executable: false,
        });
    }
    let signed = Signed {
        issued_ms: 1,
        signed_as: number,
        expires_ms: i64::MAX,
    };
    let listed = materials::listed(&index);
    // Under the digest that sites report, which is that of the index without bills.
    let plain = plain::index(&plain::stream("dev", "drone"), number, commit);
    store
        .write(|session| {
            session.add_bundle(&index, plain::content(&plain), signed, 3)?;
            session.list_materials(index.stream.role.as_str(), number, &listed)?;
            for (_, text) in bills.iter().filter(|(path, _)| kept.contains(path)) {
                let read = Materials::read(text.as_bytes()).unwrap();
                session.keep_materials(&Digest::of(text.as_bytes()), &read, 3)?;
            }
            Ok::<_, crate::store::StoreError>(())
        })
        .unwrap();
    index
}

fn import(store: &mut Store, document: &str) {
    store
        .write(|session| match outhaul_vex::is_vex(document.as_bytes()) {
            true => {
                let statements = outhaul_vex::read(document.as_bytes()).unwrap();
                session.put_statements(&statements, document, "ann", 5)
            }
            false => {
                let advisory = Advisory::read(document.as_bytes()).unwrap();
                session.put_advisory(&advisory, document, "ann", 5)
            }
        })
        .unwrap();
}

fn of(store: &mut Store, name: &str) -> AffectedSites {
    let asked = SitesAsked {
        limit: 100,
        ..SitesAsked::default()
    };
    let found = store.read(|session| affected::of_advisory(session, name, &asked, NOW));
    found.unwrap().unwrap()
}

fn verdicts(found: &AffectedSites) -> Vec<(&str, V)> {
    let sites = found.sites.iter();
    sites
        .map(|site| (site.site.as_str(), site.verdict))
        .collect()
}

const BOTH: [&str; 2] = ["sbom.cdx.json", "image-ab.cdx.json"];

#[test]
fn sites_are_told_by_what_they_run_and_what_is_known_of_it() {
    let mut sites: Vec<Site> = ["a-new", "b-old", "c-silent", "d-never", "e-stale-old"]
        .iter()
        .map(|name| Site::new(name, "dev", "drone"))
        .collect();
    let mut store = store_with(&sites.iter().collect::<Vec<_>>());
    bundle(&mut store, (1, OLD), "3.0.9-1", &BOTH);
    bundle(&mut store, (2, NEW), "3.0.11-1", &BOTH);
    let lines = [
        sites[0].active(1, OLD),
        sites[0].active(2, NEW),
        sites[1].active(1, OLD),
    ];
    take(&mut store, &lines, NOW - HOUR);
    let old = [sites[2].active(2, NEW), sites[4].active(1, OLD)];
    take(&mut store, &old, NOW - 100 * HOUR);
    import(&mut store, ADVISORY);
    let found = of(&mut store, "CVE-1");
    // An old report of something affected is still the last that is known.
    let expected = [
        ("b-old", V::Affected),
        ("e-stale-old", V::Affected),
        ("c-silent", V::Unknown),
        ("d-never", V::Unknown),
        ("a-new", V::NotAffected),
    ];
    assert_eq!(verdicts(&found), expected, "{found:#?}");
    assert_eq!(
        (found.affected, found.unknown, found.not_affected),
        (2, 2, 1)
    );
    assert!(found.sites[2].unknown_since.is_some() && found.sites[0].unknown_since.is_none());
    let [affected] = &found.bundles[..] else {
        panic!("{found:#?}")
    };
    assert_eq!((affected.number, affected.sites), (1, 2));
    assert_eq!(affected.affected[0].assignments, ["camera-functional"]);
    assert_eq!(affected.affected[0].fixed_in.as_deref(), Some("3.0.11-1"));

    // Rolled back: what it runs counts, not what it ran last.
    let back = [sites[0].state(1, OLD, G::Active, C::Compliant)];
    take(&mut store, &back, NOW - HOUR);
    assert_eq!(of(&mut store, "DSA-1").affected, 3);

    // A statement about the image clears it, and is named.
    import(&mut store, VEX);
    let found = of(&mut store, "DSA-1");
    assert_eq!(
        (found.affected, found.unknown, found.not_affected),
        (0, 3, 2)
    );
    assert_eq!(found.bundles[0].cleared[0].author, "Team A");
    let names = BTreeSet::from(["CVE-1"]);
    let statements = store
        .read(|session| session.statements_about(&names))
        .unwrap();
    assert_eq!(statements.len(), 1);
}

#[test]
fn an_advisory_about_a_release_that_no_bundle_has_is_taken_with_a_note() {
    let mut store = store_with(&[]);
    let notes = |store: &mut Store, release: &str| {
        let text = ADVISORY.replace("Debian:12", release);
        let document =
            outhaul_affected::VulnerabilityDocument::read(text.into_bytes(), NOW).unwrap();
        let put = store.write(|session| crate::advisories::put(&document, session, "ann", NOW));
        put.unwrap().notes
    };
    assert_eq!(notes(&mut store, "Debian:99"), []);
    bundle(&mut store, (1, OLD), "3.0.9-1", &BOTH);
    let found = notes(&mut store, "Debian:99");
    assert!(
        found[0].why.contains("those of debian are of 12"),
        "{found:?}"
    );
    assert_eq!(notes(&mut store, "Debian:12"), []);
}

#[test]
fn what_a_bundle_holds_is_unknown_until_its_bills_are_on_record() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let index = bundle(&mut store, (1, OLD), "3.0.9-1", &["sbom.cdx.json"]);
    let lines = [site.active(1, OLD)];
    take(&mut store, &lines, NOW - HOUR);
    import(&mut store, ADVISORY);
    let found = of(&mut store, "DSA-1");
    assert_eq!(verdicts(&found), [("a", V::Unknown)]);
    assert!(
        found.sites[0].why.contains("image-ab.cdx.json"),
        "{found:#?}"
    );
    // It comes as a file: the very one that the index lists, once.
    let [_, (_, image)] = bills("3.0.9-1");
    let mut take = |text: &str| materials::take_file(&mut store, text.as_bytes(), 9).unwrap();
    assert_eq!(take(&bills("1")[1].1), Bill::NotListed);
    assert_eq!(take(&image), Bill::New);
    assert_eq!(take(&image), Bill::Known);
    assert_eq!(verdicts(&of(&mut store, "DSA-1")), [("a", V::Affected)]);
    // Another content under the number, and a bundle that nobody recorded.
    let lines = [site.active(1, NEW)];
    super::take(&mut store, &lines, NOW - HOUR);
    let found = of(&mut store, "DSA-1");
    assert_eq!(
        found.affected, 1,
        "what is on record is affected: {found:#?}"
    );
    let lines = [site.active(7, NEW)];
    super::take(&mut store, &lines, NOW - HOUR);
    let found = of(&mut store, "DSA-1");
    assert!(found.sites[0].why.contains("not on record"), "{found:#?}");
    let role = index.stream.role.as_str();
    store
        .write(|session| session.forget_bundle(role, 1))
        .unwrap();
    let left = store.read(|session| session.materials_of(role, 1)).unwrap();
    assert!(left.is_empty());
}

#[test]
fn an_advisory_takes_the_place_of_the_one_before_and_can_be_removed() {
    let mut store = crate::stored::empty();
    import(&mut store, ADVISORY);
    let body = ADVISORY.replace("CVE-1", "CVE-2");
    import(&mut store, &body);
    let named = |store: &mut Store, name: &str| {
        store
            .read(|session| session.advisories_named(name))
            .unwrap()
            .len()
    };
    assert_eq!(
        (named(&mut store, "CVE-1"), named(&mut store, "CVE-2")),
        (0, 1)
    );
    let advisory = Advisory::read(body.as_bytes()).unwrap();
    let again = store.write(|session| session.put_advisory(&advisory, &body, "bob", 9));
    assert_eq!(again.unwrap(), ImportOutcome::Known);
    // What a newer hub kept and this one cannot read is told by its name, and answers nothing.
    store
        .write(|session| {
            let mut newer = advisory.clone();
            newer.id = "DSA-2".to_owned();
            session.put_advisory(&newer, "{}", "bob", 9)
        })
        .unwrap();
    let rows = store.read(affected::advisories).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .any(|row| row.id == "DSA-2" && row.summary.contains("cannot read"))
    );
    for name in ["DSA-1", "DSA-2"] {
        assert!(
            store
                .write(|session| session.forget_advisory(name))
                .unwrap()
        );
    }
    assert!(
        !store
            .write(|session| session.forget_advisory("DSA-1"))
            .unwrap()
    );
    import(&mut store, VEX);
    let digest = Digest::of(VEX.as_bytes()).to_string();
    assert!(
        store
            .write(|session| session.forget_statements(&digest))
            .unwrap()
    );
    let statements = store.read(|session| session.statements_about(&["CVE-1"].into()));
    assert!(statements.unwrap().is_empty());
}

#[test]
fn what_a_bundle_carries_clears_what_is_in_it_and_nothing_else() {
    let (mut old, mut new) = (
        Site::new("a", "dev", "drone"),
        Site::new("b", "dev", "drone"),
    );
    let mut store = store_with(&[&old, &new]);
    bundle(&mut store, (1, OLD), "3.0.9-1", &BOTH);
    let second = bundle(&mut store, (2, NEW), "3.0.9-1", &BOTH);
    let role = second.stream.role.as_str();
    let digest = Digest::of(VEX.as_bytes());
    let listed = [("team-a.openvex.json".to_owned(), digest)];
    store
        .write(|session| session.list_materials(role, 2, &listed))
        .unwrap();
    let lines = [old.active(1, OLD)];
    take(&mut store, &lines, NOW - HOUR);
    let lines = [new.active(2, NEW)];
    take(&mut store, &lines, NOW - HOUR);
    import(&mut store, ADVISORY);
    // Before they are on record they clear nothing, and that is said.
    let found = of(&mut store, "DSA-1");
    assert_eq!(verdicts(&found), [("a", V::Affected), ("b", V::Affected)]);
    let missing = found.bundles.iter().map(|one| &one.statements_missing);
    assert_eq!(
        missing.flatten().collect::<Vec<_>>(),
        ["team-a.openvex.json"]
    );
    let mut take =
        |text: &str| materials::take_file(&mut store, text.as_bytes(), now_ms()).unwrap();
    assert_eq!(take(&VEX.replace("Team A", "Team B")), Bill::NotListed);
    assert_eq!(take(VEX), Bill::New);
    assert_eq!(take(VEX), Bill::Known);
    let found = of(&mut store, "DSA-1");
    assert_eq!(
        verdicts(&found),
        [("a", V::Affected), ("b", V::NotAffected)]
    );
    assert!(found.sites[1].why.contains("Team A"), "{found:#?}");
    let cleared: Vec<bool> = found
        .bundles
        .iter()
        .flat_map(|one| one.cleared.iter().map(|one| one.carried))
        .collect();
    assert_eq!(cleared, [true]);
    // A newer statement counts, wherever it comes from.
    let newer = VEX
        .replace("2026-11-01", "2026-11-02")
        .replace("not_affected", "affected");
    import(&mut store, &newer);
    let found = of(&mut store, "DSA-1");
    assert_eq!(verdicts(&found), [("a", V::Affected), ("b", V::Affected)]);
}

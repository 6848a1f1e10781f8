//! One bundle, one advisory, and statements that clear it or do not.

use super::*;
use crate::materials::{ComponentKind, Materials};
use crate::release::Distribution;

const ADVISORY: &str = r#"{"id":"DSA-1","modified":"","aliases":["CVE-1"],"affected":[{"package":{"ecosystem":"Debian:12","name":"openssl"},
    "ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"3.0.11-1"}]}]}]}"#;

fn component(release: &str, version: &str) -> Component {
    Component {
        kind: ComponentKind::Deb,
        distribution: Distribution {
            id: "debian".into(),
            release: release.into(),
        },
        name: "libssl3".into(),
        version: version.into(),
        source: Some(("openssl".into(), version.into())),
        purl: format!("pkg:deb/debian/libssl3@{version}?arch=amd64&distro=debian-{release}"),
        assignments: BTreeSet::new(),
    }
}

fn image() -> CarriedImage {
    CarriedImage {
        name: "registry.example/app:1".into(),
        purl: "pkg:oci/app?repository_url=registry.example%2Fapp&tag=1".into(),
        document: None,
        assignments: ["shop".to_owned()].into(),
    }
}

fn statement(at: &str, status: &str) -> Vec<Statement> {
    let text = format!(
        r#"{{"@context":"https://openvex.dev/ns/v0.2.0","author":"A","timestamp":"2026-11-0{at}T00:00:00Z","statements":[
            {{"vulnerability":{{"name":"CVE-1"}},"products":[{{"@id":"pkg:oci/app","subcomponents":[{{"@id":"pkg:deb/debian/libssl3"}}]}}],
              "status":"{status}","impact_statement":"not reachable"}}]}}"#
    );
    outhaul_vex::read(text.as_bytes()).unwrap()
}

fn stated(statements: &[Statement]) -> Vec<Stated<'_>> {
    let imported = |statement| Stated {
        statement,
        is_carried: false,
    };
    statements.iter().map(imported).collect()
}

fn examined(component: &Component, statements: &[Statement], unknown: &[&str]) -> Finding {
    let advisory = Advisory::read(ADVISORY.as_bytes()).unwrap();
    let image = image();
    let found = LocatedComponent {
        component,
        image: Some(&image),
    };
    let unknown = unknown.iter().map(|why| (*why).to_owned()).collect();
    let statements = stated(statements);
    examine((&advisory, &advisory.id), &statements, &[found], &unknown)
}

#[test]
fn a_package_is_affected_by_its_source_and_release() {
    let finding = examined(&component("12", "3.0.9-1"), &[], &[]);
    let hit = finding.hits.first().unwrap();
    assert_eq!(hit.component, "libssl3 3.0.9-1");
    assert_eq!(hit.image.as_deref(), Some("registry.example/app:1"));
    assert_eq!(hit.fixed_in.as_deref(), Some("3.0.11-1"));
    assert!(hit.assignments.contains("shop"));
    let fixed = examined(&component("12", "3.0.11-1"), &[], &[]);
    assert_eq!(fixed, Finding::default());
    // Of another release, or distribution, the advisory says nothing.
    let mut other = component("11", "3.0.9-1");
    for _ in 0..2 {
        let finding = examined(&other, &[], &[]);
        assert!(finding.hits.is_empty(), "{finding:?}");
        let why = finding.unknown.first().unwrap();
        assert!(why.contains("does not cover that release"), "{why}");
        let cleared = examined(&other, &statement("1", "not_affected"), &[]);
        assert!(cleared.unknown.is_empty() && cleared.cleared.len() == 1);
        other.kind = ComponentKind::Apk;
    }
    // Someone else may write the package's own name.
    let own = ADVISORY.replace("openssl", "LibSSL3");
    let advisory = Advisory::read(own.as_bytes()).unwrap();
    let old = component("12", "3.0.9-1");
    let found = LocatedComponent {
        component: &old,
        image: None,
    };
    let finding = examine((&advisory, &advisory.id), &[], &[found], &BTreeSet::new());
    assert_eq!(finding.hits.len(), 1);
    // A release that is not known may be any.
    assert_eq!(examined(&component("", "3.0.9-1"), &[], &[]).hits.len(), 1);
}

#[test]
fn the_newest_statement_counts() {
    let affected = component("12", "3.0.9-1");
    let cleared = examined(&affected, &statement("1", "not_affected"), &[]);
    assert!(cleared.hits.is_empty());
    assert_eq!(cleared.cleared.first().unwrap().reason, "not reachable");
    let both = [statement("2", "affected"), statement("1", "not_affected")].concat();
    assert_eq!(examined(&affected, &both, &[]).hits.len(), 1);
    let same = [
        statement("1", "not_affected"),
        statement("1", "under_investigation"),
    ]
    .concat();
    let open = examined(&affected, &same, &[]);
    assert_eq!(
        open.hits.first().unwrap().stated.as_deref(),
        Some("under_investigation")
    );
}

#[test]
fn what_is_not_known_stays_so_and_a_withdrawn_advisory_is_about_nothing() {
    let good = component("12", "3.0.11-1");
    assert_eq!(
        examined(&good, &[], &["image `x` does not travel"])
            .unknown
            .len(),
        1
    );
    let withdrawn = ADVISORY.replace(
        r#""modified":"""#,
        r#""modified":"","withdrawn":"2026-01-01T00:00:00Z""#,
    );
    let advisory = Advisory::read(withdrawn.as_bytes()).unwrap();
    let old = component("12", "1");
    let found = LocatedComponent {
        component: &old,
        image: None,
    };
    let finding = examine(
        (&advisory, &advisory.id),
        &[],
        &[found],
        &["why".to_owned()].into(),
    );
    assert_eq!(finding, Finding::default());
}

#[test]
fn an_image_is_found_by_its_name() {
    let text = r#"{"bomFormat":"CycloneDX","components":[{"type":"container","name":"registry.example/app","version":"1"}]}"#;
    let materials = Materials::read(text.as_bytes()).unwrap();
    let advisory = r#"{"id":"A-1","modified":"","affected":[{"package":{"purl":"pkg:oci/app?repository_url=registry.example%2Fapp"},"versions":["1"]}]}"#;
    let advisory = Advisory::read(advisory.as_bytes()).unwrap();
    let found = LocatedComponent {
        component: &materials.components[0],
        image: None,
    };
    assert_eq!(
        examine((&advisory, &advisory.id), &[], &[found], &BTreeSet::new())
            .hits
            .len(),
        1
    );
}

#[test]
fn a_statement_about_one_of_two_vulnerabilities_clears_that_one_alone() {
    let two = ADVISORY.replace(r#""aliases":["CVE-1"]"#, r#""upstream":["CVE-1","CVE-2"]"#);
    let advisory = Advisory::read(two.as_bytes()).unwrap();
    let old = component("12", "3.0.9-1");
    let image = image();
    let found = [LocatedComponent {
        component: &old,
        image: Some(&image),
    }];
    let about_one = statement("1", "not_affected");
    let asked = |name: &str, statements: &[Statement]| {
        examine(
            (&advisory, name),
            &stated(statements),
            &found,
            &BTreeSet::new(),
        )
        .hits
        .len()
    };
    assert_eq!(asked("CVE-1", &about_one), 0);
    assert_eq!(asked("CVE-2", &about_one), 1);
    assert_eq!(asked("DSA-1", &about_one), 1);
    let mut about_two = about_one.clone();
    about_two[0].vulnerabilities = ["CVE-2".to_owned()].into();
    assert_eq!(asked("DSA-1", &[about_one.clone(), about_two].concat()), 0);
    // Nor does it by the advisory's name as another name of its own; the advisory's alone means all of it.
    let mut named = about_one;
    named[0].vulnerabilities = ["CVE-1".to_owned(), "DSA-1".to_owned()].into();
    assert_eq!(asked("DSA-1", &named), 1);
    named[0].vulnerabilities = ["DSA-1".to_owned()].into();
    assert_eq!(asked("DSA-1", &named), 0);
}

#[test]
fn attack_a_bare_name_clears_no_package_of_a_distribution_that_nobody_knows() {
    let mut unknown = component("", "3.0.9-1");
    unknown.purl = String::new();
    unknown.distribution = Distribution::default();
    let bare = r#"[{"@id":"libssl3"}]"#;
    let mut text = serde_json::json!({"@context": "https://openvex.dev/ns/v0.2.0", "author": "A",
        "timestamp": "2026-11-01T00:00:00Z", "statements": [{"vulnerability": {"name": "CVE-1"}, "status": "fixed"}]});
    text["statements"][0]["products"] = serde_json::from_str(bare).unwrap();
    let statements = outhaul_vex::read(text.to_string().as_bytes()).unwrap();
    let finding = examined(&unknown, &statements, &[]);
    assert!(finding.cleared.is_empty(), "{finding:?}");
    assert_eq!(finding.hits.len(), 1);
}

#[test]
fn attack_a_version_that_cannot_be_read_makes_nothing_unaffected() {
    let of = |from: &str, to: &str| {
        let advisory = Advisory::read(ADVISORY.replace(from, to).as_bytes()).unwrap();
        let component = component("12", "3.0.9-1");
        let found = LocatedComponent {
            component: &component,
            image: None,
        };
        examine((&advisory, "DSA-1"), &[], &[found], &BTreeSet::new())
    };
    for (from, to) in [
        (r#""introduced":"0""#, r#""introduced":"v2.0""#),
        (r#""introduced":"0""#, r#""introduced":"all""#),
        ("3.0.11-1", "none"),
        ("3.0.11-1", "2.0 (not yet)"),
    ] {
        assert_eq!(of(from, to).hits.len(), 1, "{to}");
    }
    let ranges = &ADVISORY[ADVISORY.find(r#""ranges""#).unwrap()..ADVISORY.len() - 3];
    let finding = of(ranges, r#""versions":["all"]"#);
    assert!(!finding.unknown.is_empty(), "{finding:?}");
}

#[test]
fn attack_fixed_without_a_version_does_not_clear_one_that_the_advisory_lists() {
    let affected = component("12", "3.0.9-1");
    let of = |product: &str| {
        let text = format!(
            r#"{{"@context":"https://openvex.dev/ns/v0.2.0","author":"A","timestamp":"2026-11-01T00:00:00Z","statements":[
                {{"vulnerability":{{"name":"CVE-1"}},"products":[{product}],"status":"fixed"}}]}}"#
        );
        let statements = outhaul_vex::read(text.as_bytes()).unwrap();
        examined(&affected, &statements, &[])
    };
    let finding = of(r#""pkg:deb/debian/libssl3""#);
    let hit = finding.hits.first().unwrap();
    assert_eq!(hit.stated.as_deref(), Some("fixed"));
    assert_eq!(of(r#""pkg:oci/app""#).hits.len(), 1);
    for named in ["pkg:deb/debian/libssl3@3.0.9-1", "registry.example/app:1"] {
        let finding = of(&format!("\"{named}\""));
        assert_eq!(
            (finding.hits.len(), finding.cleared.len()),
            (0, 1),
            "{named}"
        );
    }
}

#[test]
fn an_image_that_is_asked_for_by_its_tag_is_found_by_the_digest_that_its_bill_is_named_by() {
    let advisory = Advisory::read(ADVISORY.as_bytes()).unwrap();
    let (old, digest) = (component("12", "3.0.9-1"), "ab".repeat(32));
    let mut image = image();
    image.document = Some(format!("image-{digest}.cdx.json"));
    let found = [LocatedComponent {
        component: &old,
        image: Some(&image),
    }];
    let other = "cd".repeat(32);
    for (product, cleared) in [
        (format!("pkg:oci/app@sha256:{digest}"), 1),
        (format!("pkg:oci/app@sha256%3A{digest}?tag=1"), 1),
        (format!("pkg:oci/app@sha256:{other}"), 0),
        (format!("pkg:oci/app@sha256:{digest}?tag=2"), 0),
    ] {
        let mut statements = statement("1", "fixed");
        statements[0].products[0].named.names = [product.clone()].into();
        let finding = examine(
            (&advisory, "DSA-1"),
            &stated(&statements),
            &found,
            &BTreeSet::new(),
        );
        assert_eq!(finding.cleared.len(), cleared, "{product}");
    }
}

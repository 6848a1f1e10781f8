//! Advisories in the forms in which Debian, Alpine and others publish them.

use super::*;

fn read(affected: &str) -> Advisory {
    let text = format!(
        r#"{{"id":"DSA-1","modified":"2023-10-24T00:00:00Z","aliases":["CVE-2023-5363"],"upstream":["CVE-2023-1"],
            "details":"openssl - security update\nmore","affected":[{affected}]}}"#
    );
    Advisory::read(text.as_bytes()).unwrap()
}

const DEBIAN: &str = r#"{"package":{"ecosystem":"Debian:12","name":"openssl","purl":"pkg:deb/debian/openssl?arch=source"},
    "ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"3.0.11-1~deb12u2"}]}],"ecosystem_specific":{"urgency":"x"}}"#;

#[test]
fn a_debian_advisory_affects_versions_before_its_fix() {
    let advisory = read(DEBIAN);
    assert_eq!(advisory.summary, "openssl - security update");
    assert_eq!(advisory.names().len(), 3);
    let [subject] = &advisory.subjects[..] else {
        panic!("{advisory:?}")
    };
    assert_eq!(subject.distribution.release, "12");
    assert!(subject.affects("3.0.9-1"));
    assert!(!subject.affects("3.0.11-1~deb12u2"));
    assert!(!subject.affects("3.0.11-1"));
    assert_eq!(subject.fixed_in("3.0.9-1"), Some("3.0.11-1~deb12u2"));
}

#[test]
fn spans_listed_versions_and_last_affected_are_compared() {
    let advisory = read(
        r#"{"package":{"ecosystem":"Alpine:v3.19","name":"openssl"},"versions":["9.9-r0"],"ranges":[
            {"type":"ECOSYSTEM","events":[{"introduced":"3.0.0-r0"},{"fixed":"3.0.12-r0"},{"introduced":"3.1.0-r0"},{"last_affected":"3.1.4-r0"}]}]}"#,
    );
    let subject = &advisory.subjects[0];
    assert_eq!(subject.kind, ComponentKind::Apk);
    assert_eq!(subject.distribution.release, "3.19");
    for (version, affected) in [
        ("2.9-r0", false),
        ("3.0.1-r0", true),
        ("3.0.12-r0", false),
        ("3.1.4-r0", true),
        ("3.1.4-r1", false),
        ("9.9-r0", true),
    ] {
        assert_eq!(subject.affects(version), affected, "{version}");
    }
}

#[test]
fn what_cannot_be_compared_is_kept_as_such() {
    for (affected, reason) in [
        (
            r#"{"package":{"ecosystem":"npm","name":"left-pad"},"versions":["1"]}"#,
            "packages of `npm`",
        ),
        (
            r#"{"ranges":[{"type":"GIT","events":[{"introduced":"0"}]}]}"#,
            "ranges of commits",
        ),
        (
            r#"{"package":{"ecosystem":"Debian:12","name":"x"},"ranges":[{"type":"GIT","events":[{"introduced":"0"}]}]}"#,
            "ranges of commits of `x`",
        ),
        (
            r#"{"package":{"ecosystem":"Debian:12","name":"x"}}"#,
            "no versions of `x`",
        ),
    ] {
        let advisory = read(affected);
        assert!(advisory.subjects.is_empty(), "{affected}");
        let found = advisory
            .not_compared()
            .iter()
            .any(|why| why.contains(reason));
        assert!(found, "{affected}: {advisory:?}");
    }
    assert!(read("").not_compared().contains("it names no package"));
}

#[test]
fn an_image_is_named_by_its_package_url() {
    let advisory = read(
        r#"{"package":{"purl":"pkg:oci/app?repository_url=registry.example/team/app","name":"app","ecosystem":""},"versions":["1.2"]}"#,
    );
    let subject = &advisory.subjects[0];
    assert_eq!(
        (subject.kind, subject.name.as_str()),
        (ComponentKind::Image, "registry.example/team/app")
    );
    assert!(subject.affects("1.2") && !subject.affects("1.3"));
}

#[test]
fn what_is_no_advisory_is_refused() {
    for (text, problem) in [
        ("[]", "not an advisory"),
        (r#"{"id":"","modified":""}"#, "not a name"),
        (r#"{"id":"a b","modified":""}"#, "not a name"),
        (r#"{"id":"a"}"#, "modified"),
    ] {
        let error = Advisory::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(problem), "{text}: {error}");
    }
}

#[test]
fn advisories_about_the_same_are_joined_and_one_that_was_withdrawn_adds_nothing() {
    let commits = r#"{"ranges":[{"type":"GIT","events":[{"introduced":"0"}]}]}"#;
    let mut advisory = read(commits);
    assert_eq!(advisory.not_compared().len(), 1);
    advisory.join(&read(DEBIAN));
    assert!(advisory.not_compared().is_empty(), "{advisory:?}");
    assert_eq!(advisory.subjects.len(), 1);
    let mut withdrawn = read(DEBIAN);
    withdrawn.withdrawn = true;
    advisory.join(&withdrawn);
    assert_eq!(advisory.subjects.len(), 1);
    withdrawn.join(&read(commits));
    assert!(!withdrawn.withdrawn && withdrawn.subjects.is_empty());
}

#[test]
fn what_is_no_version_bounds_nothing_and_what_is_no_release_is_no_other() {
    let of = |events: &str| {
        read(&format!(
            r#"{{"package":{{"ecosystem":"Debian:12","name":"x"}},"ranges":[{{"type":"ECOSYSTEM","events":[{events}]}}]}}"#
        ))
    };
    for events in [
        r#"{"introduced":"n/a"}"#,
        r#"{"introduced":"0"},{"fixed":""}"#,
        r#"{"introduced":"0"},{"last_affected":"unknown"}"#,
    ] {
        assert!(of(events).subjects[0].affects("1.0"), "{events}");
    }
    let odd = read(
        r#"{"package":{"ecosystem":"Debian:12","name":"x"},"ranges":[{"type":"WEIRD","events":[{"introduced":"0"}]}]}"#,
    );
    assert!(odd.subjects.is_empty() && !odd.not_compared().is_empty());
    let named = read(r#"{"package":{"ecosystem":"Debian:bullseye","name":"x"},"versions":["1"]}"#);
    assert_eq!(named.subjects[0].distribution.release, "bullseye");
    let epoch = read(r#"{"package":{"ecosystem":"Debian:12","name":"x"},"versions":["0:1.0"]}"#);
    assert!(epoch.subjects[0].affects("1.0"));
    let kept = Advisory::read(br#"{"id":"A","modified":"","withdrawn":"no"}"#).unwrap();
    assert!(!kept.withdrawn);
}

//! Patterns: each way of naming an image past an entry, as an attack.

use super::*;

#[test]
fn naming_an_image_by_digest_is_no_way_past_an_entry() {
    for (pattern, name, expected) in [
        ("r.example/app:1.2", "r.example/app:1.2", Some(Fit::Written)),
        (
            "r.example/app:1.2",
            "r.example/app:1.2@sha256:00",
            Some(Fit::Written),
        ),
        (
            "r.example/app:1.2",
            "r.example/app@sha256:00",
            Some(Fit::Repository),
        ),
        // A tag before a digest says nothing: it may be any.
        (
            "r.example/app:1.2",
            "r.example/app:9@sha256:00",
            Some(Fit::Repository),
        ),
        (
            "r.example/app:1.*",
            "r.example/app@sha256:00",
            Some(Fit::Repository),
        ),
        (
            "r.example/app:*",
            "r.example/app@sha256:00",
            Some(Fit::Repository),
        ),
        (
            "r.example/a*-1",
            "r.example/app@sha256:00",
            Some(Fit::Repository),
        ),
        (
            "r.example/app@sha256:00",
            "r.example/app:1@sha256:00",
            Some(Fit::Repository),
        ),
        (
            "r.example/app:2@sha256:00",
            "r.example/app:1@sha256:00",
            Some(Fit::Repository),
        ),
        ("r.example/*", "r.example/app@sha256:00", Some(Fit::Written)),
        ("r.example/app:1.2", "r.example/app:1.3", None),
        ("r.example/app:1.2", "r.example/apps@sha256:00", None),
        ("r.example/app@sha256:11", "r.example/app:1@sha256:00", None),
        (
            "r.example:5000/app:1",
            "r.example:5000/app@sha256:00",
            Some(Fit::Repository),
        ),
        ("r.example:5000/app:1", "r.example:5001/app@sha256:00", None),
    ] {
        assert_eq!(wants(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn naming_an_image_by_digest_is_no_way_into_an_entry_for_some_unsigned_tags() {
    for (pattern, name, expected) in [
        ("r.example/app:dev-*", "r.example/app:dev-1", true),
        (
            "r.example/app:dev-*",
            "r.example/app:dev-1@sha256:00",
            false,
        ),
        ("r.example/app:dev", "r.example/app:dev@sha256:00", false),
        ("r.example/app:dev", "r.example/app@sha256:00", false),
        ("r.example/app:*", "r.example/app@sha256:00", true),
        ("r.example/app:*", "r.example/app:1@sha256:00", true),
        ("r.example/*", "r.example/app@sha256:00", true),
        ("*", "r.example/app:1@sha256:00", true),
        ("r.example/app:dev@*", "r.example/app:dev@sha256:00", true),
        ("r.example/app@sha256:00", "r.example/app@sha256:00", true),
        ("r.example/app@sha256:00", "r.example/app@sha256:11", false),
    ] {
        assert_eq!(exempts(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn an_earlier_pattern_covers_a_later_one_when_it_fits_all_its_names() {
    for (earlier, later, expected) in [
        ("*", "r.example/app:1", true),
        ("r.example/*", "r.example/press/*", true),
        ("R.example:443/*", "r.example/press/app:*", true),
        ("*/app:*", "r.example/app:1.*", true),
        ("r.example/press/*", "r.example/*", false),
        ("r.example/app:1.*", "r.example/app:*", false),
        ("r.example/a:1", "r.example/a:1", true),
        ("r.example/a:1", "r.example/a:2", false),
    ] {
        assert_eq!(covers(earlier, later), expected, "{earlier} {later}");
    }
}

#[test]
fn an_entry_is_for_an_image_however_its_registry_is_called() {
    for (pattern, image) in [
        ("registry.example/press/*", "registry.example:443/press/a:1"),
        ("registry.example:443/press/*", "registry.example/press/a:1"),
        ("REGISTRY.example/press/*", "registry.example/press/a:1"),
        ("localhost/press/*", "localhost:80/press/a:1"),
        (
            "docker.io/library/nginx:*",
            "index.docker.io/library/nginx:1",
        ),
        (
            "docker.io/library/nginx:*",
            "registry-1.docker.io/library/nginx:1",
        ),
    ] {
        assert!(wants(pattern, image).is_some(), "{pattern} {image}");
        assert!(exempts(pattern, image), "{pattern} {image}");
    }
    assert_eq!(wants("localhost:5000/*", "localhost/a:1"), None);
}

#[test]
fn a_star_is_any_run_of_characters_and_all_else_is_itself() {
    for (pattern, name, expected) in [
        ("*", "docker.io/library/nginx:1", true),
        ("a.example/press/*", "a.example/press/app:1", true),
        ("a.example/press/*", "a.example/pressure:1", false),
        (
            "a.example/press/*",
            "evil.example/a.example/press/app:1",
            false,
        ),
        ("*/press/*:1.*", "a.example/press/b/app:1.2", true),
        ("*/press/*:1.*", "a.example/press/b/app:2.1", false),
        ("a*a", "a", false),
        ("a*b*b", "ab", false),
        ("a.example/app:1", "a.example/app:1", true),
        ("a.example/app:1", "a.example/app:12", false),
    ] {
        assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
    }
}

//! Patterns that are for nothing, each with what to write, and patterns that are for something.

use super::*;

#[test]
fn attack_a_pattern_that_fits_no_whole_name_is_known_and_why() {
    let short = "a.example/app@sha256:0123abcd";
    for (pattern, expected) in [
        ("oci://a.example/*", "a scheme"),
        ("a b/*", "a space"),
        ("a.example/app", "`:*`"),
        ("a.example/app/", "`/*`"),
        ("a.example/team/*/:*", "`/*`"),
        ("a.example//app:*", "`/*`"),
        ("a.example/app:", "tag is empty"),
        ("a.example/app:v?", "only `*` is a wildcard"),
        ("a.example/app:.v1", "a tag is of"),
        ("a.example/app:v1:*", "a tag is of"),
        ("a.example/Team/app:*", "small letters"),
        ("*/App:1", "small letters"),
        ("a.example/téam/app:*", "a repository is of"),
        ("team/app:*", "no registry"),
        ("team/*", "no registry"),
        ("nginx:1", "no registry"),
        ("nginx:*", "no registry"),
        ("docker.io/nginx:*", "`docker.io/library/`"),
        ("a_b.example/app:*", "not a host"),
        (short, "64 characters"),
        ("a.example/app@sha256:*g", "64 characters"),
        ("a.example/app@sha512:*", "64 characters"),
        ("", "no registry"),
    ] {
        let found = never_fits(pattern).unwrap_or_default();
        assert!(found.contains(expected), "{pattern}: {found}");
    }
}

#[test]
fn a_pattern_that_fits_some_whole_name_is_taken() {
    let digest = format!("sha256:{}", "0".repeat(64));
    for pattern in [
        "*",
        "**",
        "a.example/*",
        "a.example*",
        "A.example:443/team/*",
        "a.example/app:1",
        "a.example/app:V1.2-RC*",
        "a.example/*/app:*",
        "a.example/app:*@*",
        "a.example/app@sha256:0*",
        "a.example/app@*",
        "*/app:*",
        "*:1",
        "*-1",
        "localhost/app:1",
        "localhost:5000/app:*",
        "localhost:*",
        "registry:5000/app:1",
        "127.0.0.1:5000/app:1",
        "[::1]:5000/app:1",
        "docker.io/*",
        "docker.io/library/nginx:*",
        "docker.io/ng*",
        &format!("a.example/app@{digest}"),
        &format!("a.example/app:1@{digest}"),
    ] {
        assert_eq!(never_fits(pattern), None, "{pattern}");
    }
}

//! Where a project is, by its repository's URL; what can be a token.

use super::*;

fn api(kind: ForgeKind, url: &str) -> Option<(String, String)> {
    let project = Project::of(url)?;
    Some((kind.api(&project), project.path))
}

#[test]
fn a_project_is_found_by_every_spelling_of_its_url() {
    let ours = ("https://git.example/api/v1", "team/platform");
    for url in [
        "https://git.example/team/platform",
        "https://git.example/team/platform.git",
        "https://user:secret@git.example/team/platform/",
        "ssh://git@git.example:2222/team/platform.git",
        "git@git.example:team/platform.git",
    ] {
        let (api, path) = api(ForgeKind::Gitea, url).unwrap();
        assert_eq!((api.as_str(), path.as_str()), ours, "{url}");
    }
    let port = api(ForgeKind::Gitea, "https://git.example:3000/team/platform").unwrap();
    assert_eq!(port.0, "https://git.example:3000/api/v1");
    for url in [
        "/srv/git/platform.git",
        "file:///srv/git",
        "https://git.example/alone",
    ] {
        assert_eq!(Project::of(url), None, "{url}");
    }
}

#[test]
fn each_forge_has_its_api_where_its_documentation_says() {
    let of = |kind, url| api(kind, url).unwrap().0;
    assert_eq!(
        of(ForgeKind::GitHub, "git@github.com:o/r.git"),
        "https://api.github.com"
    );
    assert_eq!(
        of(ForgeKind::GitHub, "https://ghe.example/o/r"),
        "https://ghe.example/api/v3"
    );
    assert_eq!(
        of(ForgeKind::GitLab, "https://gitlab.com/g/s/r"),
        "https://gitlab.com/api/v4"
    );
    assert_eq!(
        ForgeKind::of_host("https://github.com/o/r"),
        Some(ForgeKind::GitHub)
    );
    assert_eq!(ForgeKind::of_host("https://github.com.example/o/r"), None);
}

#[test]
fn a_token_is_one_word_and_is_never_shown() {
    assert_eq!(checked_token(" abc\n").unwrap().as_str(), "abc");
    for bad in ["", "\n", "a b", "a\r\nX-Header: b"] {
        assert!(checked_token(bad).is_none(), "{bad:?}");
    }
    let access = Access {
        kind: ForgeKind::Gitea,
        repository: "https://git.example/o/r",
        api: None,
        project: None,
        token: Zeroizing::new("verysecret".into()),
        authority: None,
    };
    assert!(!format!("{access:?}").contains("verysecret"));
    assert!(!format!("{:?}", connect(access).unwrap()).contains("verysecret"));
}

#[test]
fn names_become_one_part_of_a_url() {
    assert_eq!(encoded("outhaul/dev ä"), "outhaul%2Fdev%20%C3%A4");
}

#[test]
fn a_token_that_others_may_open_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "token\n").unwrap();
    let with = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(file.path(), mode).unwrap();
        read_token(file.path())
    };
    assert_eq!(*with(0o600).unwrap(), "token");
    let error = with(0o644).unwrap_err().to_string();
    assert!(error.contains("(mode 644): `chmod 600` it"), "{error}");
    assert!(!error.contains("token\n"), "{error}");
}

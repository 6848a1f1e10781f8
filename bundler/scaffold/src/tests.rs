//! What is refused, and that nothing is written then.

use outhaul_gocompat::GoValue;

use super::*;
use outhaul_plane::compose::Mode;
use outhaul_plane::compose::typing::typed;

fn plan() -> ScaffoldPlan {
    ScaffoldPlan {
        url: "https://git.example.org/platform".into(),
        environments: vec!["dev".into()],
        reconcilers: vec!["folder".into()],
    }
}

#[test]
fn a_folder_with_something_in_it_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "x").unwrap();
    let refused = control_plane(folder.path(), &plan());
    assert!(
        matches!(refused, Err(ScaffoldError::NotEmpty { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What no repository has as its address, with what is said of it.
const WRONG_URLS: [(&str, &str); 9] = [
    ("", "it is empty"),
    ("two words", "it holds a space"),
    ("https://h/a b", "it holds a space"),
    ("ftp://h/x", "only https, http, ssh and git are spoken"),
    ("https://", "its host is not a host name"),
    ("https://h:0/x", "its port is not a number from 1 to 65535"),
    (
        "ssh://git@h:99999/x",
        "its port is not a number from 1 to 65535",
    ),
    (
        "https://h/x#secret",
        "`https://h/x…` is not the address of a repository: it continues with `#`",
    ),
    ("https://h/x?secret", "it continues with `?`"),
];

#[test]
fn the_addresses_that_people_use_are_taken() {
    for url in [
        "https://h/x",
        "https://h:8443/x.git",
        "ssh://git@h:2222/x",
        "git@h:team/x",
        "/srv/git/x",
        "file:///srv/git/x",
    ] {
        address(url).unwrap();
    }
}

#[test]
fn names_and_choices_are_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("new");
    for (environments, reconcilers, url, reported) in [
        (
            vec!["Dev"],
            vec!["folder"],
            "https://x",
            "`Dev` cannot be the name of an environment",
        ),
        (
            vec!["dev", "dev"],
            vec!["folder"],
            "https://x",
            "`dev` is named twice",
        ),
        (vec!["main"], vec!["folder"], "https://x", "another branch"),
        (
            vec![],
            vec!["folder"],
            "https://x",
            "an environment is needed",
        ),
        (
            vec!["dev"],
            vec!["flux"],
            "https://x",
            "no reconciler template `flux`",
        ),
    ]
    .into_iter()
    .chain(WRONG_URLS.map(|(url, reported)| (vec!["dev"], vec!["folder"], url, reported)))
    {
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let plan = ScaffoldPlan {
            url: url.into(),
            environments: owned(environments),
            reconcilers: owned(reconcilers),
        };
        let error = control_plane(&there, &plan).unwrap_err().to_string();
        assert!(error.contains(reported), "{error}");
        assert!(!there.exists());
    }
}

#[test]
fn what_a_person_typed_stays_what_they_typed() {
    for awkward in [
        "yes", "12", "a: b", "it's", "\"", "#", "- x", "", "null", "1e3", "é", "a\nb",
    ] {
        let values = [("KEY".to_owned(), awkward.to_owned())];
        let text = object::config("c", &[], &values);
        let read: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(read["data"]["KEY"].as_str(), Some(awkward), "{text}");
    }
}

#[test]
fn a_value_of_the_command_line_is_text_unless_it_stands_in_brackets() {
    let composed = |value: &str| {
        let written = object::typed_in(&[("KEY".to_owned(), value.to_owned())]);
        typed(&written[0].1, Mode::default())
    };
    for text in [
        "a: b",
        "- x",
        "? y",
        "a:",
        "key: [1]",
        "it's: so",
        "yes",
        "12",
        "",
        "x",
        "a\nb: c",
        "ENC[age,abc]",
    ] {
        assert_eq!(composed(text), GoValue::from(text), "{text}");
    }
    for container in ["[80, 443]", "{cpu: 1}", " [a]"] {
        assert!(composed(container).is_container(), "{container}");
    }
    // Who quotes means the text in the quotes.
    assert_eq!(composed("'a: b'"), GoValue::Str("a: b".into()));
}

//! The file with a site's values: written beside what was unpacked, and refused where it would change anything else.

use std::fs;

use outhaul_bundle::fake::FakeBundle;
use outhaul_bundle::index::site_values::{Allowed, Form, Rule, SiteValues};

use super::*;

const FILES: [(&str, &[u8]); 2] = [
    ("namespace.yaml", b"a: 1\n"),
    ("site-values.env", b"TRAY=\"left\"\nWIDTH=\"62\"\n"),
];

fn desired(generation: &Path) -> Desired {
    let index = FakeBundle::new(4, &FILES).unwrap().index;
    let mut assignment = index.assignments[0].clone();
    let integer = Allowed::Integer {
        minimum: 20,
        maximum: 110,
    };
    let keys = [
        (
            "TRAY",
            Allowed::Enum(["left", "right"].map(str::to_owned).into()),
        ),
        ("WIDTH", integer),
    ];
    let keys = keys.map(|(key, allowed)| {
        (
            key.to_owned(),
            Rule {
                about: String::new(),
                allowed,
            },
        )
    });
    assignment.site_values = Some(SiteValues {
        form: Form::Env,
        keys: keys.into(),
    });
    let rendered = generation
        .join("assignments")
        .join(assignment.name.as_str());
    fs::create_dir_all(&rendered).unwrap();
    for (name, bytes) in FILES {
        fs::write(rendered.join(name), bytes).unwrap();
    }
    Desired {
        generation: 4,
        assignment,
        fleet: index.fleet,
        environment: index.stream.environment,
        site: "press-7".parse().unwrap(),
        drift: index.reconciler.drift,
        rendered,
        payload: generation.join("payload"),
        site_values: BTreeMap::new(),
    }
}

fn values(width: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("WIDTH".to_owned(), width.to_owned())])
}

#[test]
fn the_site_s_values_are_in_a_folder_of_their_own_and_the_bundle_s_files_are_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let desired = desired(folder.path());
    let own = with_values(&desired, &values("70")).unwrap();
    assert_ne!(own.rendered, desired.rendered);
    let text = fs::read_to_string(own.rendered.join("site-values.env")).unwrap();
    assert_eq!(text, "TRAY=\"left\"\nWIDTH=\"70\"\n");
    assert_eq!(
        fs::read(own.rendered.join("namespace.yaml")).unwrap(),
        b"a: 1\n"
    );
    assert_eq!(
        fs::read(desired.rendered.join("site-values.env")).unwrap(),
        FILES[1].1
    );
    // The digests are those of what is there.
    assert!(is_whole(&own, &own.rendered));
    assert_eq!(own.site_values, values("70"));
    assert_eq!(
        with_values(&desired, &values("70")).unwrap().rendered,
        own.rendered
    );
    assert_eq!(
        with_values(&desired, &BTreeMap::new()).unwrap().rendered,
        desired.rendered
    );
}

#[test]
fn kept_sets_of_values_are_found_again_and_one_that_is_not_whole_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let desired = desired(folder.path());
    assert!(kept(&desired).is_empty());
    let first = with_values(&desired, &values("70")).unwrap();
    with_values(&desired, &values("71")).unwrap();
    let mut found: Vec<_> = kept(&desired)
        .into_iter()
        .map(|own| own.site_values)
        .collect();
    found.sort();
    assert_eq!(found, [values("70"), values("71")]);
    // Someone has typed another allowed value into what is kept.
    fs::write(
        first.rendered.join(FILES[1].0),
        "TRAY=\"left\"\nWIDTH=\"72\"\n",
    )
    .unwrap();
    let found: Vec<_> = kept(&desired)
        .into_iter()
        .map(|own| own.site_values)
        .collect();
    assert_eq!(found, [values("71")]);
}

#[test]
fn other_values_have_another_folder_and_a_torn_one_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let desired = desired(folder.path());
    let first = with_values(&desired, &values("70")).unwrap();
    let second = with_values(&desired, &values("71")).unwrap();
    assert_ne!(first.rendered, second.rendered);
    remove_others(&second).unwrap();
    assert!(!first.rendered.exists() && second.rendered.exists());
    // A power cut before files were on disk.
    fs::write(second.rendered.join("site-values.env"), b"").unwrap();
    let again = with_values(&desired, &values("71")).unwrap();
    assert!(is_whole(&again, &again.rendered));
}

#[test]
fn a_value_that_the_declaration_does_not_allow_is_an_error_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let desired = desired(folder.path());
    for value in ["7", "70\nEVIL=1"] {
        assert!(matches!(
            with_values(&desired, &values(value)),
            Err(PutError::Value(_))
        ));
    }
    assert!(!folder.path().join("site-values").exists());
}

//! Verifying a bundle against its commits.
use outhaul_bundle::fake::FakeBundle;

use super::*;

fn fake() -> FakeBundle {
    FakeBundle::new(1, &[("a.yaml", b"a"), ("b.yaml", b"b")]).unwrap()
}

fn rendered() -> BTreeMap<String, Arc<RenderedAssignment>> {
    let files = [("a.yaml", b"a"), ("b.yaml", b"b")];
    let one = RenderedAssignment {
        workload: String::new(),
        workspace: String::new(),
        policies: Vec::new(),
        namespace: String::new(),
        config_version: Digest::of(b"config"),
        files: files
            .map(|(name, bytes)| (name.to_owned(), bytes.to_vec()))
            .into(),
        manifests: BTreeMap::new(),
        sites: None,
        overlays: Vec::new(),
        site_values: None,
        bootstrap: None,
    };
    BTreeMap::from([("hello-world-test".to_owned(), Arc::new(one))])
}

fn paths(rendered: &BTreeMap<String, Arc<RenderedAssignment>>) -> Vec<String> {
    let found = differences(&fake().index, rendered, &Payloads::default());
    found
        .iter()
        .map(|one| format!("{} {}", one.path, one.what))
        .collect()
}

#[test]
fn the_same_commits_give_no_difference() {
    assert!(paths(&rendered()).is_empty());
}

#[test]
fn every_difference_is_named() {
    let mut now = rendered();
    let one = Arc::make_mut(now.get_mut("hello-world-test").unwrap());
    one.config_version = Digest::of(b"other");
    one.files.insert("a.yaml".into(), b"other".to_vec());
    one.files.remove("b.yaml");
    one.files.insert("c.yaml".into(), b"c".to_vec());
    let copy = one.clone();
    now.insert("new-one".into(), Arc::new(copy));
    assert_eq!(
        paths(&now),
        [
            "hello-world-test/config changed",
            "hello-world-test/files/a.yaml changed",
            "hello-world-test/files/b.yaml only in the bundle",
            "hello-world-test/files/c.yaml only rendered",
            "new-one only rendered",
        ]
    );
    assert_eq!(
        paths(&BTreeMap::new()),
        ["hello-world-test only in the bundle"]
    );
}

#[test]
fn what_single_sites_have_is_compared_site_by_site() {
    let overlay = |sites: &[&str], bytes: &[u8]| outhaul_plane::render::RenderedOverlay {
        sites: sites.iter().map(ToString::to_string).collect(),
        config_version: Digest::of(b"own"),
        files: BTreeMap::from([("a.yaml".to_owned(), bytes.to_vec())]),
    };
    let mut index = fake().index;
    let mut file = index.assignments[0].files[0].clone();
    file.content = Digest::of(b"x");
    index.assignments[0].overlays = vec![outhaul_bundle::index::Overlay {
        sites: ["p-1", "p-2", "p-3"].map(|s| s.parse().unwrap()).into(),
        config_version: Digest::of(b"own"),
        files: vec![file],
    }];
    let paths = |overlays: Vec<_>, index: &Index| -> Vec<String> {
        let mut now = rendered();
        Arc::make_mut(now.get_mut("hello-world-test").unwrap()).overlays = overlays;
        let found = differences(index, &now, &Payloads::default());
        found
            .iter()
            .map(|one| format!("{} {}", one.path, one.what))
            .collect()
    };
    let same = overlay(&["p-1", "p-2", "p-3"], b"x");
    assert!(paths(vec![same.clone()], &index).is_empty());
    assert_eq!(
        paths(
            vec![overlay(&["p-1"], b"x"), overlay(&["p-2", "p-4"], b"y")],
            &index
        ),
        [
            "hello-world-test/sites/p-2 changed",
            "hello-world-test/sites/p-3 only in the bundle",
            "hello-world-test/sites/p-4 only rendered",
        ]
    );
    // A bundle for one site has nothing of the others.
    index.assignments[0].overlays[0]
        .sites
        .retain(|site| site.as_str() == "p-1");
    index.recipients.insert("p-1".parse().unwrap());
    assert!(paths(vec![same], &index).is_empty());
}

#[test]
fn what_was_kept_is_not_compared_and_must_be_broken_now() {
    let mut index = fake().index;
    let name = index.assignments[0].name.clone();
    index.kept.insert(name, Digest::of(b"an earlier snapshot"));
    let differences = |now| differences(&index, &now, &Payloads::default());
    assert!(differences(BTreeMap::new()).is_empty());
    assert_eq!(differences(rendered())[0].what, "kept, but it is sound");
}

#[test]
fn what_is_wrong_or_differs_is_not_sound_and_what_was_not_asked_for_does_not_count() {
    let wrong = Statement::Wrong("it is about other contents".to_owned());
    let difference = [ContentDifference {
        path: "a".to_owned(),
        what: "changed",
    }];
    for (statement, sound, sound_where_attested) in [
        (Statement::Absent, true, false),
        (Statement::Unchecked, true, false),
        (Statement::Holds, true, true),
        (wrong, false, false),
    ] {
        for differences in [None, Some(&[][..])] {
            assert_eq!(
                is_sound(&statement, differences, false),
                sound,
                "{statement:?}"
            );
            assert_eq!(
                is_sound(&statement, differences, true),
                sound_where_attested,
                "{statement:?}"
            );
        }
        assert!(
            !is_sound(&statement, Some(&difference), false),
            "{statement:?}"
        );
    }
}

#[test]
fn a_commit_that_is_not_read_any_more_is_a_difference_but_not_that_of_what_was_kept() {
    let source = |name: &str, commit: &str| Source {
        name: name.to_owned(),
        repo: "https://git.factory.example/x".to_owned(),
        commit: commit.to_owned(),
    };
    let then = &fake().index.snapshot;
    assert_eq!(unread_sources(then, then), []);
    let mut with = then.clone();
    with.workloads.push(source("hello", "abc"));
    with.workloads
        .push(source(&format!("{}hello", collect::KEPT), "def"));
    let found = unread_sources(&with, then);
    let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["commit abc of hello"]);
}

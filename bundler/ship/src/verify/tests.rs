//! Verifying a bundle against its commits.
use outhaul_bundle::fake::FakeBundle;
use outhaul_signer::key::SigningKey;

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
fn contents_that_are_not_what_the_index_says_are_found_behind_right_carried_bytes() {
    let mut bundle = fake();
    let bytes = bundle.to_bytes().unwrap();
    let keys = Keys::default();
    assert!(
        contents(&*bytes, &bundle.expected_index(), &keys)
            .unwrap()
            .is_empty()
    );
    // Both sizes are 1: the two contents of the pack change places.
    bundle.index.blobs[0].contents.swap(0, 1);
    let bytes = bundle.to_bytes().unwrap();
    assert!(contents(&*bytes, &bundle.expected_index(), &keys).is_err());
}

#[test]
fn a_statement_counts_when_the_fleet_signed_it_about_this_bundle() {
    let key = SigningKey::generate().unwrap();
    let index = fake().index;
    let sign = |index: &Index| {
        let payload =
            statement::statement(index, &[(attest::SBOM.to_owned(), b"sbom".to_vec())], &[]);
        Envelope::sign(statement::PAYLOAD_TYPE, payload, &key).to_json()
    };
    let with = |provenance: Vec<u8>, sbom: &[u8]| {
        BTreeMap::from([
            (attest::PROVENANCE.to_owned(), provenance),
            (attest::SBOM.to_owned(), sbom.to_vec()),
        ])
    };
    let keys = [key.public()];
    let verdict = |files: &BTreeMap<_, _>, keys| statement(&index, files, keys);
    let good = with(sign(&index), b"sbom");
    assert_eq!(verdict(&good, Some(&keys[..])), Statement::Holds);
    assert_eq!(verdict(&good, None), Statement::Unchecked);
    assert_eq!(
        verdict(&BTreeMap::new(), Some(&keys[..])),
        Statement::Absent
    );
    let other = [SigningKey::generate().unwrap().public()];
    assert!(matches!(
        verdict(&good, Some(&other[..])),
        Statement::Wrong(_)
    ));
    let about_another = FakeBundle::new(1, &[("a.yaml", b"x")]).unwrap().index;
    for bad in [
        with(sign(&about_another), b"sbom"),
        with(sign(&index), b"other"),
    ] {
        assert!(matches!(
            verdict(&bad, Some(&keys[..])),
            Statement::Wrong(_)
        ));
    }
}

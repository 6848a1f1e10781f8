//! What a bundle would bring, said before anything is written, and what it then brings.
//!
//! What comes in: the real program and a fleet with one stream. What must come out: the bytes that the bundle has when
//! it is made, those of them that are new, and a fleet in which nothing was written.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::kept::Fleet;
use super::repositories::commit;

/// What is said of the next bundles; no key and no folder are named.
fn estimate(fleet: &Fleet) -> String {
    let source = "https://git.example.org/manifests=manifests";
    let command = ["bundle", "--estimate", "--fleet", "fleet", "--source"];
    fleet.fixture.run(&[&command[..], &[source]].concat())
}

/// The bytes of content that an estimate names: all, and new ones.
fn estimated(seen: &str) -> (u64, u64) {
    let line = seen
        .lines()
        .find(|line| line.contains(" bytes of content, "));
    let line = line.unwrap_or_else(|| panic!("no estimate: {seen}"));
    let number = |before: &str| {
        let found = line
            .split(before)
            .next()
            .unwrap()
            .rsplit(' ')
            .next()
            .unwrap();
        found.parse().unwrap()
    };
    (number(" bytes of content"), number(" of them new"))
}

/// The bytes of the files of a bundle, each content once.
fn brought(fleet: &Fleet, number: u64) -> u64 {
    let file = format!("out/dev-drone-{number}.outhaul");
    let seen = fleet
        .fixture
        .run_only(&["inspect", &file, "--output", "json"]);
    let (_, json) = seen.split_once("--- stdout\n").unwrap();
    let found: Value = serde_json::Deserializer::from_str(json)
        .into_iter()
        .next()
        .unwrap()
        .unwrap();
    let mut contents = BTreeMap::new();
    for assignment in found["result"]["index"]["assignments"].as_array().unwrap() {
        for list in ["files", "payload"] {
            for file in assignment[list].as_array().into_iter().flatten() {
                let digest = file["content"].as_str().unwrap().to_owned();
                contents.insert(digest, file["size"].as_u64().unwrap());
            }
        }
    }
    contents.values().sum()
}

#[test]
fn an_estimate_is_what_the_bundle_then_brings_and_writes_nothing() {
    let fleet = Fleet::new();
    let listed = |fleet: &Fleet| outhaul_test_kit::folder::files(&fleet.path("fleet"));
    let before = listed(&fleet);
    let seen = estimate(&fleet);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("new, as nothing that was shipped before can be read here"),
        "{seen}"
    );
    let (all, new) = estimated(&seen);
    assert_eq!(all, new);
    assert_eq!(listed(&fleet), before);
    assert!(!fleet.path("out").exists());

    let made = fleet.bundle(&[]);
    assert!(made.starts_with("exit code 0"), "{made}");
    assert_eq!(brought(&fleet, 1), all);
    let seen = estimate(&fleet);
    assert!(seen.contains("of them new against number 1"), "{seen}");
    assert!(seen.contains("patches and twins of a copy"), "{seen}");
    assert_eq!(estimated(&seen), (all, 0));

    // A payload grows by a known number of bytes.
    let grown = format!("version: 2\nnote: \"{}\"\n", "x".repeat(5000));
    fs::write(fleet.path("manifests/here/app.yaml"), &grown).unwrap();
    commit(&fleet.path("manifests"), "second");
    let (all, new) = estimated(&estimate(&fleet));
    let size = u64::try_from(grown.len()).unwrap();
    assert!(new >= size && new < all, "{new} of {all}");
    assert!(!fleet.path("out/dev-drone-2.outhaul").exists());
    assert!(fleet.bundle(&[]).starts_with("exit code 0"));
    assert_eq!(brought(&fleet, 2), all);
}

#[test]
fn what_cannot_be_had_is_named_before_anything_is_written() {
    let fleet = Fleet::new();
    let git = fleet.path("manifests/.git");
    fs::rename(&git, fleet.path("elsewhere")).unwrap();
    fs::create_dir(&git).unwrap();
    let seen = estimate(&fleet);
    assert!(!seen.starts_with("exit code 0"), "{seen}");
    assert!(seen.contains("help: "), "{seen}");
    assert!(!fleet.path("out").exists());
}

//! Older than before: rollback of each role, replay, fast-forward, and the floors under them.

use outhaul_signer::metadata;
use outhaul_signer::trust::TrustedMetadata;
use outhaul_test_kit::bent::{Centre, OTHER, ROLE, Site, keys, stream};

use super::site_with;

#[test]
fn what_the_centre_publishes_is_accepted_and_raises_every_floor() {
    let mut centre = Centre::new();
    let mut site = site_with(&centre);
    centre.next(b"two");
    let acceptance = site.accept(&centre.bundle(ROLE));
    assert_eq!((acceptance.number, acceptance.index_length), (2, 3));
    assert!(!acceptance.expired);
    let floors: Vec<_> = acceptance
        .versions
        .iter()
        .map(|(k, v)| (k.as_str(), *v))
        .collect();
    assert_eq!(
        floors,
        [
            ("root", 1),
            (ROLE, 2),
            ("snapshot", 2),
            ("targets", 1),
            ("timestamp", 2)
        ]
    );
    assert!(!acceptance.trusted.0.contains_key(&format!("{OTHER}.json")));
}

#[test]
fn the_same_bundle_again_is_accepted_again() {
    let centre = Centre::new();
    let mut site = site_with(&centre);
    let (before, again) = (site.trusted.clone(), site.accept(&centre.bundle(ROLE)));
    assert_eq!((again.number, again.trusted), (1, before));
}

#[test]
fn years_of_missed_root_rotations_are_followed() {
    let mut centre = Centre::new();
    let mut site = site_with(&centre);
    for _ in 0..40 {
        centre.root_keys.remove(0);
        centre.root_keys.extend(keys(1));
        // Two of three stay each time: enough to sign for the old and for the new root.
        centre.assign_keys();
        centre.publish_root();
    }
    centre.publish();
    let acceptance = site.accept(&centre.bundle(ROLE));
    assert_eq!(acceptance.versions["root"], 41);
}

#[test]
fn rollback_of_the_timestamp() {
    let mut centre = Centre::new();
    let old = centre.bundle(ROLE);
    let mut site = site_with(&centre);
    centre.publish_timestamp();
    site.accept(&centre.bundle(ROLE));
    let refusal = site.refuse(&old, "rollback").to_string();
    assert!(
        refusal.contains("version 1") && refusal.contains("version 2"),
        "{refusal}"
    );
}

#[test]
fn rollback_of_the_snapshot() {
    let mut centre = Centre::new();
    let old_pin = centre.timestamp.meta.clone();
    centre.publish();
    let site = site_with(&centre);
    centre.timestamp.meta = old_pin;
    centre.publish_timestamp();
    let mut files = centre.files.clone();
    site.refuse(&files, "rollback");
    files.retain(|name, _| name != "2.snapshot.json");
    site.refuse(&files, "rollback");
}

#[test]
fn rollback_of_the_targets() {
    let mut centre = Centre::new();
    let old_pin = centre.snapshot.meta["targets.json"].clone();
    centre.publish_targets();
    centre.publish();
    let site = site_with(&centre);
    centre.snapshot.meta.insert("targets.json".into(), old_pin);
    centre.publish_snapshot();
    site.refuse(&centre.files, "rollback");
}

#[test]
fn rollback_of_the_stream() {
    let mut centre = Centre::new();
    centre.next(b"two");
    let site = site_with(&centre);
    centre.streams.insert(ROLE.into(), stream(ROLE, 1, b"one"));
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "rollback");
}

#[test]
fn rollback_of_the_root() {
    let mut centre = Centre::new();
    let old = centre.bundle(ROLE);
    let mut site = Site::enrolled(&centre);
    centre.publish_root();
    centre.publish();
    site.accept(&centre.bundle(ROLE));
    // The store is rolled back as a whole, the floors are not.
    site.trusted = TrustedMetadata::enrol(&centre.files["1.root.json"]).unwrap();
    site.refuse(&old, "rollback");
}

#[test]
fn replay_of_an_old_stick_after_the_store_was_lost_meets_the_floors() {
    let mut centre = Centre::new();
    let old = centre.bundle(ROLE);
    let mut site = Site::enrolled(&centre);
    centre.next(b"two");
    site.accept(&centre.bundle(ROLE));
    site.trusted = TrustedMetadata::enrol(&centre.files["1.root.json"]).unwrap();
    site.refuse(&old, "rollback");
    centre.next(b"three");
    assert_eq!(
        site.accept(&centre.bundle(ROLE)).number,
        3,
        "the way back is a newer bundle"
    );
}

#[test]
fn a_role_vanishes_from_the_snapshot() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.snapshot.meta.remove(&format!("{OTHER}.json"));
    centre.publish_snapshot();
    site.refuse(&centre.files, "mix-and-match");
}

#[test]
fn fast_forward_is_recovered_from_by_rotating_the_keys() {
    let mut centre = Centre::new();
    let mut site = site_with(&centre);
    // A thief of the online and the stream's key drives every version up.
    let honest = (centre.snapshot.version, centre.timestamp.version);
    (centre.snapshot.version, centre.timestamp.version) = ((1 << 53) - 9, (1 << 53) - 9);
    centre
        .streams
        .insert(ROLE.into(), stream(ROLE, (1 << 53) - 9, b"evil"));
    centre.publish();
    site.accept(&centre.bundle(ROLE));
    (centre.snapshot.version, centre.timestamp.version) = honest;
    centre.streams.insert(ROLE.into(), stream(ROLE, 2, b"two"));
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "rollback");
    // The centre rotates all three, and its honest versions count again.
    [centre.snapshot_key, centre.timestamp_key] = keys(2).try_into().unwrap();
    centre.assign_keys();
    centre.publish_root();
    centre.stream_keys = keys(2);
    centre.assign_stream_keys();
    centre.publish_targets();
    centre.publish();
    let acceptance = site.accept(&centre.bundle(ROLE));
    assert_eq!(
        (acceptance.number, acceptance.versions["timestamp"]),
        (2, 3)
    );
}

#[test]
fn a_rotation_known_already_frees_no_floor_of_a_store_that_was_rolled_back() {
    let mut centre = Centre::new();
    let mut site = Site::enrolled(&centre);
    [centre.snapshot_key, centre.timestamp_key] = keys(2).try_into().unwrap();
    centre.assign_keys();
    centre.publish_root();
    centre.publish();
    // The same number, so that only the timestamp's floor can tell old from new.
    let old = centre.bundle(ROLE);
    centre.publish_timestamp();
    site.accept(&centre.bundle(ROLE));
    site.trusted = TrustedMetadata::enrol(&centre.files["1.root.json"]).unwrap();
    site.refuse(&old, "rollback");
}

#[test]
fn a_key_that_is_added_frees_no_floor() {
    let mut centre = Centre::new();
    centre.next(b"two");
    let site = site_with(&centre);
    // The snapshot's keys are rotated in the same breath: its own memory is gone, the floor is not.
    centre.snapshot_key = keys(1).remove(0);
    centre.assign_keys();
    centre.publish_root();
    let added = keys(1).remove(0);
    let delegations = centre.targets.delegations.as_mut().unwrap();
    let key = metadata::Key::new(&added.public());
    delegations.keys.insert(added.public().id(), key);
    delegations.roles[0].keyids.push(added.public().id());
    centre.publish_targets();
    centre.streams.insert(ROLE.into(), stream(ROLE, 1, b"one"));
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "rollback");
}

#[test]
fn versions_that_not_every_reader_holds_are_refused() {
    for version in [1 << 53, 1 << 63, u64::MAX] {
        let mut centre = Centre::new();
        let site = site_with(&centre);
        centre.timestamp.version = version - 1;
        centre.publish_timestamp();
        let refusal = site.refuse(&centre.bundle(ROLE), "malformed").to_string();
        assert!(refusal.contains("out of range"), "{refusal}");
    }
}

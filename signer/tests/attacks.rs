//! One test per attack on metadata, named after it: nothing of it is accepted, and the rule is named.

use outhaul_signer::metadata::{self, MetaFile, Signs};
use outhaul_signer::trust::{self, TrustedMetadata};
use outhaul_signer::{SigningKey, TimePolicy};
use proptest::prelude::*;
use serde_json::Value;

use crate::centre::{Centre, EXPIRES, Files, OTHER, ROLE, Site, at, keys, stream, today};

fn site_with(centre: &Centre) -> Site {
    let mut site = Site::enrolled(centre);
    site.accept(&centre.bundle(ROLE));
    site
}

/// Changes the JSON of one file, without signing it again.
fn bend(files: &mut Files, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&files[name]).unwrap();
    change(&mut value);
    files.insert(name.into(), serde_json::to_vec(&value).unwrap());
}

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
    (centre.snapshot.version, centre.timestamp.version) = (1 << 62, 1 << 62);
    centre
        .streams
        .insert(ROLE.into(), stream(ROLE, 1 << 62, b"evil"));
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
    let old = centre.bundle(ROLE);
    centre.next(b"two");
    site.accept(&centre.bundle(ROLE));
    site.trusted = TrustedMetadata::enrol(&centre.files["1.root.json"]).unwrap();
    site.refuse(&old, "rollback");
}

#[test]
fn a_key_that_is_added_frees_no_floor() {
    let mut centre = Centre::new();
    centre.next(b"two");
    let site = site_with(&centre);
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
fn unsigned_metadata() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let mut files = centre.bundle(ROLE);
    bend(&mut files, "timestamp.json", |value| {
        value["signatures"] = Value::Array(vec![]);
    });
    site.refuse(&files, "signature");
}

#[test]
fn arbitrary_key_signs() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    centre.timestamp_key = keys(1).remove(0);
    centre.publish_timestamp();
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn signature_of_another_role_s_key() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let bytes = metadata::sign(&centre.timestamp, &[&centre.snapshot_key]).unwrap();
    centre.files.insert("timestamp.json".into(), bytes);
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn the_other_stream_s_key_signs_this_stream() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let evil = metadata::sign(&centre.streams[ROLE], &[&centre.stream_keys[1]]).unwrap();
    centre
        .snapshot
        .meta
        .insert(format!("{ROLE}.json"), MetaFile::of(1, &evil));
    centre.files.insert(format!("1.{ROLE}.json"), evil);
    centre.publish_snapshot();
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn threshold_met_by_one_key_that_signs_twice() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let key = &centre.root_keys[0];
    let mut root = centre.root.clone();
    root.version = 2;
    let signed = metadata::signed_bytes(&root).unwrap();
    let one = metadata::sign_one(&signed, key).unwrap();
    let list = serde_json::to_string(&[&one, &one]).unwrap();
    let text = String::from_utf8(signed).unwrap();
    let file = format!("{{\"signatures\":{list},\"signed\":{text}}}");
    centre.files.insert("2.root.json".into(), file.into_bytes());
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

#[test]
fn threshold_met_by_one_key_under_two_ids() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    let twin = centre.root_keys[0].public();
    centre
        .root
        .keys
        .insert("f".repeat(64), metadata::Key::new(&twin));
    centre
        .root
        .roles
        .get_mut("root")
        .unwrap()
        .keyids
        .push("f".repeat(64));
    centre.publish_root();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn threshold_of_zero() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles[0].threshold = 0;
    centre.publish_targets();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn root_signed_by_fewer_than_the_threshold() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let [one, ..] = <[SigningKey; 3]>::try_from(std::mem::take(&mut centre.root_keys)).unwrap();
    centre.publish_root_signed_by(&[&one]);
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

#[test]
fn root_signed_by_the_new_keys_alone() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    centre.root_keys = keys(3);
    centre.assign_keys();
    centre.publish_root();
    site.refuse(&centre.bundle(ROLE), "root-chain");
}

#[test]
fn root_chain_with_a_gap() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    [centre.timestamp_key] = keys(1).try_into().unwrap();
    centre.publish_root();
    centre.assign_keys();
    centre.publish_root();
    centre.publish();
    let mut files = centre.bundle(ROLE);
    files.remove("2.root.json");
    site.refuse(&files, "signature");
    let third = files.remove("3.root.json").unwrap();
    files.insert("2.root.json".into(), third);
    site.refuse(&files, "root-chain");
}

#[test]
fn foreign_fleet() {
    let (ours, theirs) = (Centre::new(), Centre::new());
    let refusal = Site::enrolled(&ours).refuse(&theirs.bundle(ROLE), "foreign-fleet");
    assert!(refusal.to_string().contains("another fleet"), "{refusal}");
}

#[test]
fn foreign_fleet_s_lower_metadata_under_our_root() {
    let (ours, theirs) = (Centre::new(), Centre::new());
    let mut files = theirs.bundle(ROLE);
    files.insert("1.root.json".into(), ours.files["1.root.json"].clone());
    Site::enrolled(&ours).refuse(&files, "signature");
}

#[test]
fn mix_and_match_of_an_old_stream_with_a_new_snapshot() {
    let mut centre = Centre::new();
    let old = centre.files[&format!("1.{ROLE}.json")].clone();
    let site = site_with(&centre);
    centre.next(b"two");
    let mut files = centre.bundle(ROLE);
    files.insert(format!("2.{ROLE}.json"), old);
    site.refuse(&files, "mix-and-match");
}

#[test]
fn mix_and_match_of_two_contents_of_one_number() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    // The thief has the stream's key, and not the snapshot's.
    let evil = metadata::sign(&stream(ROLE, 1, b"evil"), &[&centre.stream_keys[0]]).unwrap();
    centre.files.insert(format!("1.{ROLE}.json"), evil);
    site.refuse(&centre.bundle(ROLE), "mix-and-match");
}

#[test]
fn mix_and_match_of_an_old_snapshot_with_a_new_timestamp() {
    let mut centre = Centre::new();
    let old = centre.files["1.snapshot.json"].clone();
    let site = site_with(&centre);
    centre.next(b"two");
    let mut files = centre.bundle(ROLE);
    files.insert("2.snapshot.json".into(), old);
    site.refuse(&files, "mix-and-match");
}

#[test]
fn wrong_recipient_s_bundle() {
    let centre = Centre::new();
    let refusal = Site::enrolled(&centre).refuse(&centre.bundle(OTHER), "stream");
    assert!(refusal.to_string().contains(ROLE), "{refusal}");
}

#[test]
fn wrong_role_that_the_fleet_no_longer_has() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles.remove(0);
    centre.publish_targets();
    centre.publish_snapshot();
    site.refuse(&centre.files, "stream");
}

#[test]
fn a_stream_vouches_for_a_target_outside_its_paths() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.targets.delegations.as_mut().unwrap().roles[0].paths = vec![format!("{OTHER}/*")];
    centre.publish_targets();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "stream");
}

#[test]
fn a_stream_vouches_for_more_than_its_index() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let own = centre.streams.get_mut(ROLE).unwrap();
    let target = own.targets[&format!("{ROLE}/index.json")].clone();
    own.targets.insert(format!("{ROLE}/second.json"), target);
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn a_number_that_is_not_the_role_s_version() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let own = centre.streams.get_mut(ROLE).unwrap();
    own.targets.values_mut().next().unwrap().custom["number"] = 7.into();
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn one_role_s_file_in_the_place_of_another() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let mut files = centre.bundle(ROLE);
    files.insert("timestamp.json".into(), files["1.snapshot.json"].clone());
    site.refuse(&files, "malformed");
}

#[test]
fn expired_metadata_is_a_verdict_and_still_raises_the_floors() {
    let mut centre = Centre::new();
    let mut site = site_with(&centre);
    centre.next(b"two");
    let later = TimePolicy {
        lower_bound: at(EXPIRES),
        ..today()
    };
    let files = centre.bundle(ROLE);
    let acceptance = trust::verify(&site.trusted, &site.floors, &files, ROLE, later).unwrap();
    assert!(acceptance.expired);
    assert_eq!(
        (acceptance.number, acceptance.versions["timestamp"]),
        (2, 2)
    );
    site.trusted = acceptance.trusted;
    let first = Centre::new().bundle(ROLE);
    assert!(site.check(&first).is_err());
}

#[test]
fn one_expired_role_is_enough() {
    for role in ["root", "targets", "snapshot", "timestamp", ROLE] {
        let mut centre = Centre::new();
        let past = at("2026-05-01T00:00:00Z");
        match role {
            "root" => centre.root.expires = past,
            "targets" => centre.targets.expires = past,
            "snapshot" => centre.snapshot.expires = past,
            "timestamp" => centre.timestamp.expires = past,
            _ => centre.streams.get_mut(ROLE).unwrap().expires = past,
        }
        centre.timestamp.issued = at("2026-04-01T00:00:00Z");
        let issued = "2026-04-01T00:00:00Z".into();
        let target = centre
            .streams
            .get_mut(ROLE)
            .unwrap()
            .targets
            .values_mut()
            .next()
            .unwrap();
        target.custom["issued"] = issued;
        centre.publish_root();
        centre.publish_targets();
        centre.publish();
        let acceptance = Site::enrolled(&centre).check(&centre.bundle(ROLE)).unwrap();
        assert!(acceptance.expired, "{role}");
        assert_eq!(acceptance.expires, past, "{role}");
    }
}

#[test]
fn a_signed_time_beyond_the_offline_keys_dates() {
    let mut centre = Centre::new();
    let site = site_with(&centre);
    centre.timestamp.issued = at("2099-01-01T00:00:00Z");
    centre.timestamp.expires = at("2100-01-01T00:00:00Z");
    centre.publish_timestamp();
    site.refuse(&centre.bundle(ROLE), "malformed");
}

#[test]
fn a_clock_of_2099_that_nobody_vouches_for_shuts_nothing() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let wall = at("2099-01-01T00:00:00Z");
    let files = centre.bundle(ROLE);
    for (wall_trusted, expired) in [(false, false), (true, true)] {
        let now = TimePolicy {
            wall,
            wall_trusted,
            ..today()
        };
        let acceptance = trust::verify(&site.trusted, &site.floors, &files, ROLE, now).unwrap();
        assert_eq!(acceptance.expired, expired);
    }
}

#[test]
fn truncated_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for (name, rule) in [
        ("timestamp.json", "malformed"),
        ("1.snapshot.json", "mix-and-match"),
        ("1.targets.json", "mix-and-match"),
    ] {
        let mut files = centre.bundle(ROLE);
        let half = files[name].len() / 2;
        files.get_mut(name).unwrap().truncate(half);
        site.refuse(&files, rule);
    }
}

#[test]
fn missing_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for name in ["timestamp.json", "1.snapshot.json", "1.targets.json"] {
        let mut files = centre.bundle(ROLE);
        files.remove(name);
        site.refuse(&files, "missing");
    }
    site.refuse(&Files::new(), "missing");
}

#[test]
fn oversized_files() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for name in [
        "2.root.json",
        "timestamp.json",
        "1.snapshot.json",
        "1.targets.json",
    ] {
        let mut files = centre.bundle(ROLE);
        files
            .entry(name.into())
            .or_default()
            .resize(5_000_001, b' ');
        site.refuse(&files, "oversized");
    }
}

#[test]
fn damaged_store_fails_closed() {
    let mut centre = Centre::new();
    let whole = site_with(&centre);
    centre.next(b"two");
    let files = centre.bundle(ROLE);
    for name in [
        "root.json",
        "timestamp.json",
        "snapshot.json",
        "targets.json",
    ] {
        let mut site = whole.clone();
        site.trusted.0.insert(name.into(), Vec::new());
        site.refuse(&files, "damaged-store");
    }
    let mut site = whole;
    site.trusted.0.remove("root.json");
    site.refuse(&files, "damaged-store");
}

#[test]
fn deeply_nested_metadata() {
    let centre = Centre::new();
    let mut files = centre.bundle(ROLE);
    files.insert("timestamp.json".into(), vec![b'['; 16_000]);
    Site::enrolled(&centre).refuse(&files, "malformed");
}

#[test]
fn a_role_name_that_is_a_path() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    for role in ["", "../root", "a/b", "root", "timestamp", "ä", "%2e"] {
        let refusal = trust::verify(&site.trusted, &site.floors, &centre.files, role, today());
        assert_eq!(refusal.unwrap_err().rule(), "stream", "{role}");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_timestamp_is_refused_or_changes_nothing() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let honest = site.check(&centre.bundle(ROLE)).unwrap();
    let original = centre.files["timestamp.json"].clone();
    // One bit of each byte, a different one from byte to byte.
    for at in 0..original.len() {
        let mut files = centre.bundle(ROLE);
        files.get_mut("timestamp.json").unwrap()[at] ^= 1 << (at % 8);
        if let Ok(acceptance) = site.check(&files) {
            // A byte outside of what is signed, such as a space: the meaning is the same.
            assert_eq!(acceptance.versions, honest.versions, "byte {at}");
            assert_eq!(acceptance.index_sha256, honest.index_sha256, "byte {at}");
        }
    }
}

fn any_name() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "root.json",
        "2.root.json",
        "timestamp.json",
        "1.snapshot.json",
        "snapshot.json",
        "1.targets.json",
        "targets.json",
        "1.s-0123456789abcdef.json",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn verify_never_panics_on_arbitrary_bytes(
        stored in any::<bool>(),
        name in any_name(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let centre = Centre::new();
        let mut site = site_with(&centre);
        let mut files = centre.bundle(ROLE);
        if stored {
            site.trusted.0.insert(name, bytes);
        } else {
            files.insert(name, bytes);
        }
        drop(site.check(&files));
    }

    #[test]
    fn verify_never_panics_on_bent_metadata(
        name in any_name(),
        pick in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["null", "-1", "0", "18446744073709551615", "1e99", "\"\"", "[]", "{}", "\"\u{7f}\"", "true"]),
    ) {
        let centre = Centre::new();
        let site = site_with(&centre);
        let mut files = centre.files.clone();
        let Some(bytes) = files.get(&name) else { return Ok(()) };
        let mut value: Value = serde_json::from_slice(bytes).unwrap();
        let mut paths = Vec::new();
        pointers(&value, String::new(), &mut paths);
        let path = &paths[pick.index(paths.len())];
        *value.pointer_mut(path).unwrap() = serde_json::from_str(with).unwrap();
        files.insert(name, serde_json::to_vec(&value).unwrap());
        drop(site.check(&files));
        drop(Site::enrolled(&centre).check(&files));
    }
}

fn pointers(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, item)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            pointers(item, format!("{at}/{key}"), out);
        }),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(index, item)| pointers(item, format!("{at}/{index}"), out)),
        _ => {}
    }
    out.push(at);
}

#[test]
fn a_key_held_elsewhere_signs_alike() {
    struct Elsewhere(SigningKey);
    impl Signs for Elsewhere {
        fn public(&self) -> outhaul_signer::PublicKey {
            self.0.public()
        }
        fn signature(&self, bytes: &[u8]) -> Result<[u8; 64], outhaul_signer::KeyError> {
            Ok(self.0.sign(bytes))
        }
    }
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    let key = std::mem::replace(&mut centre.timestamp_key, keys(1).remove(0));
    let bytes = metadata::sign(&centre.timestamp, &[&Elsewhere(key)]).unwrap();
    centre.files.insert("timestamp.json".into(), bytes);
    site.check(&centre.bundle(ROLE)).unwrap();
}

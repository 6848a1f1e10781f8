//! Attacks on the metadata: who signed, how old it is, for whom it is, and what belongs together.

use outhaul_signer::metadata::{self, MetaFile};
use outhaul_test_kit::bent::{Centre, OTHER, ROLE, at, keys, stream};
use serde_json::Value;

use super::stage::{Parts, Play, Stage};

/// A stage on which the site runs the first bundle, and the bundle that would come next.
fn running() -> (Stage, Parts) {
    let mut stage = Stage::new();
    let first = stage.next("first");
    (stage, first)
}

pub fn unsigned() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("evil");
    let mut value: Value = serde_json::from_slice(&next.metadata["timestamp.json"]).unwrap();
    value["signatures"] = Value::Array(Vec::new());
    let bytes = serde_json::to_vec(&value).unwrap();
    next.metadata.insert("timestamp.json".into(), bytes);
    stage.refuses(&[&first], &next)
}

pub fn foreign_keys() -> Play {
    let (mut stage, first) = running();
    let centre = &mut stage.centre;
    [
        centre.targets_key,
        centre.snapshot_key,
        centre.timestamp_key,
    ] = keys(3).try_into().unwrap();
    centre.stream_keys = keys(2);
    centre.assign_stream_keys();
    centre.publish_targets();
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn foreign_fleet() -> Play {
    let (stage, first) = running();
    let (_, theirs) = running();
    stage.refuses(&[&first], &theirs)
}

pub fn foreign_metadata_under_our_root() -> Play {
    let (stage, first) = running();
    let (_, theirs) = running();
    let mut metadata = theirs.metadata.clone();
    metadata.insert("1.root.json".into(), first.metadata["1.root.json"].clone());
    stage.refuses(&[&first], &theirs.with_metadata(metadata))
}

pub fn blobs_of_another_fleet() -> Play {
    let (mut stage, first) = running();
    let (_, theirs) = running();
    let next = stage.next("second");
    stage.refuses(&[&first], &theirs.with_metadata(next.metadata))
}

pub fn key_of_another_stream() -> Play {
    let (mut stage, first) = running();
    stage.centre.stream_keys.swap(0, 1);
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn key_of_another_role() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("evil");
    let centre = &stage.centre;
    let bytes = metadata::sign(&centre.timestamp, &[&centre.snapshot_key]).unwrap();
    next.metadata.insert("timestamp.json".into(), bytes);
    stage.refuses(&[&first], &next)
}

pub fn threshold_by_one_key_under_two_ids() -> Play {
    let (mut stage, first) = running();
    let root = &mut stage.centre.root;
    let twin = stage.centre.root_keys[0].public();
    root.keys.insert("f".repeat(64), metadata::Key::new(&twin));
    let role = root.roles.get_mut("root").unwrap();
    role.keyids.push("f".repeat(64));
    stage.centre.publish_root();
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn threshold_of_zero() -> Play {
    let (mut stage, first) = running();
    let delegations = stage.centre.targets.delegations.as_mut().unwrap();
    delegations.roles[0].threshold = 0;
    stage.centre.publish_targets();
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn root_by_too_few() -> Play {
    let (mut stage, first) = running();
    let one = stage.centre.root_keys.remove(0);
    stage.centre.publish_root_signed_by(&[&one]);
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn root_by_new_keys_alone() -> Play {
    let (mut stage, first) = running();
    stage.centre.root_keys = keys(3);
    stage.centre.assign_keys();
    stage.centre.publish_root();
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

/// What the centre publishes once more under old pins, with a newer timestamp.
fn with_old_pins(bend: impl FnOnce(&mut Centre, &Centre)) -> Play {
    let mut stage = Stage::new();
    let old = stage.next("old");
    let before = Centre {
        files: stage.centre.files.clone(),
        snapshot: stage.centre.snapshot.clone(),
        timestamp: stage.centre.timestamp.clone(),
        streams: stage.centre.streams.clone(),
        ..Centre::new()
    };
    stage.centre.publish_targets();
    let new = stage.next("new");
    bend(&mut stage.centre, &before);
    let mut metadata = stage.centre.files.clone();
    metadata
        .retain(|name, _| !name.ends_with(&format!("{OTHER}.json")) && needed(&stage.centre, name));
    let attack = old.with_metadata(metadata);
    stage.refuses(&[&new], &attack)
}

/// Whether the newest timestamp and snapshot lead to this file, or it is a root.
fn needed(centre: &Centre, name: &str) -> bool {
    let pinned = |pins: &std::collections::BTreeMap<String, MetaFile>| {
        pins.iter()
            .any(|(file, pin)| name == format!("{}.{file}", pin.version))
    };
    name.ends_with(".root.json")
        || name == "timestamp.json"
        || pinned(&centre.timestamp.meta)
        || pinned(&centre.snapshot.meta)
}

pub fn rollback_of_the_timestamp() -> Play {
    let mut stage = Stage::new();
    let old = stage.next("old");
    stage.centre.publish_timestamp();
    let same = old.with_metadata(stage.centre.bundle(ROLE));
    stage.refuses(&[&same], &old)
}

pub fn rollback_of_the_snapshot() -> Play {
    with_old_pins(|centre, before| {
        centre.timestamp.meta = before.timestamp.meta.clone();
        centre.snapshot.meta = before.snapshot.meta.clone();
        centre.publish_timestamp();
    })
}

pub fn rollback_of_the_targets() -> Play {
    with_old_pins(|centre, before| {
        let old = before.snapshot.meta["targets.json"].clone();
        centre.snapshot.meta.insert("targets.json".into(), old);
        centre.publish_snapshot();
    })
}

pub fn rollback_of_the_stream() -> Play {
    with_old_pins(|centre, before| {
        let name = format!("{ROLE}.json");
        let old = before.snapshot.meta[&name].clone();
        centre.snapshot.meta.insert(name, old);
        centre.publish_snapshot();
    })
}

pub fn replay_of_an_old_stick() -> Play {
    let mut stage = Stage::new();
    let (one, two, three) = (stage.next("one"), stage.next("two"), stage.next("three"));
    stage.refuses(&[&one, &three], &two)
}

pub fn replay_after_the_store_was_torn() -> Play {
    let mut stage = Stage::new();
    let (one, two) = (stage.next("one"), stage.next("two"));
    let mut play = stage.refuses(&[&one, &two], &one);
    let at = play.acts.len() - 1;
    play.acts
        .insert(at, super::stage::Act::Empty("floors.json"));
    play
}

pub fn freeze() -> Play {
    let mut stage = Stage::new();
    // Signed in time for a site that does not know anything later.
    let withheld = stage.next("withheld");
    stage.centre.timestamp.issued = at("2027-05-01T00:00:00Z");
    let later = stage.next("later");
    stage.refuses(&[&later], &withheld)
}

pub fn expired() -> Play {
    let mut stage = Stage::new();
    let first = stage.next("first");
    let centre = &mut stage.centre;
    // The metadata's own times are right; the stream's date lies before them.
    centre.timestamp.issued = at("2026-12-01T00:00:00Z");
    centre.snapshot.expires = at("2026-11-01T00:00:00Z");
    let next = stage.next("late");
    stage.refuses(&[&first], &next)
}

pub fn signed_time_beyond_all_dates() -> Play {
    let (mut stage, first) = running();
    stage.centre.timestamp.issued = at("2099-01-01T00:00:00Z");
    stage.centre.timestamp.expires = at("2100-01-01T00:00:00Z");
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn mix_of_an_old_stream() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("second");
    let old = first.metadata[&format!("2.{ROLE}.json")].clone();
    next.metadata.insert(format!("3.{ROLE}.json"), old);
    stage.refuses(&[&first], &next)
}

pub fn mix_of_an_old_snapshot() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("second");
    let old = first.metadata["2.snapshot.json"].clone();
    next.metadata.insert("3.snapshot.json".into(), old);
    stage.refuses(&[&first], &next)
}

pub fn two_contents_of_one_number() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("second");
    let (index, blobs) = stage.index(3, "evil");
    let bytes = index.to_bytes();
    let evil = metadata::sign(&stream(ROLE, 3, &bytes), &[&stage.centre.stream_keys[0]]).unwrap();
    next.metadata.insert(format!("3.{ROLE}.json"), evil);
    (next.index, next.value, next.blobs) = (bytes, index, blobs);
    stage.refuses(&[&first], &next)
}

pub fn role_vanishes() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("second");
    stage.centre.snapshot.meta.remove(&format!("{OTHER}.json"));
    stage.centre.publish_snapshot();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn one_file_in_the_place_of_another() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("second");
    let snapshot = next.metadata["3.snapshot.json"].clone();
    next.metadata.insert("timestamp.json".into(), snapshot);
    stage.refuses(&[&first], &next)
}

pub fn another_stream() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("second");
    let metadata = stage.centre.bundle(OTHER);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn another_site() -> Play {
    let (mut stage, first) = running();
    let next = stage.next_bent("second", |index| {
        index.recipients = std::iter::once("press-8".parse().unwrap()).collect();
    });
    stage.refuses(&[&first], &next)
}

pub fn stream_beyond_its_paths() -> Play {
    let (mut stage, first) = running();
    let delegations = stage.centre.targets.delegations.as_mut().unwrap();
    delegations.roles[0].paths = vec![format!("{OTHER}/*")];
    stage.centre.publish_targets();
    let next = stage.next("evil");
    stage.refuses(&[&first], &next)
}

pub fn stream_with_a_second_target() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("second");
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    let target = own.targets[&format!("{ROLE}/index.json")].clone();
    own.targets.insert(format!("{ROLE}/second.json"), target);
    stage.centre.publish();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn number_that_is_not_the_version() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("second");
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    own.targets.values_mut().next().unwrap().custom["number"] = 7.into();
    stage.centre.publish();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn revoked_stream_key() -> Play {
    let (mut stage, first) = running();
    let thief = std::mem::replace(&mut stage.centre.stream_keys[0], keys(1).remove(0));
    stage.centre.assign_stream_keys();
    stage.centre.publish_targets();
    let second = stage.next("second");
    stage.centre.stream_keys[0] = thief;
    let evil = stage.next("evil");
    stage.refuses(&[&first, &second], &evil)
}

pub fn fast_forward() -> Play {
    let (mut stage, first) = running();
    let centre = &mut stage.centre;
    let honest = (centre.snapshot.version, centre.timestamp.version);
    // The largest version but a few: each publication counts on from here.
    let most = (1 << 53) - 9;
    (centre.snapshot.version, centre.timestamp.version) = (most, most);
    // A thief of the online key drives the versions up; the honest centre cannot go on below them …
    let driven = stage.next("driven up");
    (
        stage.centre.snapshot.version,
        stage.centre.timestamp.version,
    ) = honest;
    let honest = stage.next("honest");
    // … until it changes the keys.
    let centre = &mut stage.centre;
    [centre.snapshot_key, centre.timestamp_key] = keys(2).try_into().unwrap();
    centre.assign_keys();
    centre.publish_root();
    let recovered = stage.next("recovered");
    stage
        .refuses(&[&first, &driven], &honest)
        .then_takes(&recovered)
}

/// Versions that one program holds exactly and another does not: as a floor they would be two.
pub fn fast_forward_beyond_the_bound() -> Play {
    let (mut stage, first) = running();
    let honest = (
        stage.centre.snapshot.version,
        stage.centre.timestamp.version,
    );
    let driven: Vec<_> = [1 << 53, 1 << 63, u64::MAX]
        .into_iter()
        .map(|version: u64| {
            let centre = &mut stage.centre;
            (centre.snapshot.version, centre.timestamp.version) = (version - 1, version - 1);
            stage.next("driven up").bytes()
        })
        .collect();
    let centre = &mut stage.centre;
    (centre.snapshot.version, centre.timestamp.version) = honest;
    // Nothing of it was trusted, so that no key has to be changed for the site to go on.
    let next = stage.next("honest");
    stage.refuses_bytes(&[&first], &driven).then_takes(&next)
}

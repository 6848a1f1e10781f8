//! The record of a stream is signed by the fleet: what others wrote into it, and bundles in the place of the last one.
//!
//! What comes in: a stream that was shipped, with its record or the kept bundle changed or gone. What must come out: nothing that was not
//! signed is signed again, and nothing is removed that nobody knows of.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::records::World;
use super::repositories::commit;

/// The record as a program wrote it that did not sign it.
fn unsigned(record: &Value) -> Value {
    let mut record = record.clone();
    let stream = record["stream"].as_object_mut().unwrap();
    assert!(stream.remove("signature").is_some());
    record
}

#[test]
fn attack_a_bundle_that_somebody_put_in_the_place_of_the_last_one_vouches_for_nothing() {
    let world = World::new();
    let bundles = || -> BTreeSet<PathBuf> {
        let all = fs::read_dir(world.fleet.path("fleet/bundles")).unwrap();
        let all = all.map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|of| of == "outhaul"))
            .collect()
    };
    let first = bundles();
    let whole = fs::read(first.first().unwrap()).unwrap();
    world.fleet.second_version();
    let seen = world.ship("stream");
    assert!(seen.contains("dev/drone: number 2"), "{seen}");
    let second = bundles().difference(&first).next().unwrap().clone();
    let newest = fs::read(&second).unwrap();
    let signed = world.record("stream");
    world.fleet.break_hello();
    // An earlier one of this stream, signed as the last is; and what is no whole bundle.
    for bytes in [
        &whole[..],
        &newest[..newest.len() / 20],
        b"",
        b"not a bundle",
    ] {
        fs::write(&second, bytes).unwrap();
        world.put("stream", &unsigned(&signed).to_string());
        let seen = world.ship("stream");
        assert!(seen.starts_with("exit code 2"), "{}: {seen}", bytes.len());
        assert!(seen.contains(".2.outhaul"), "{seen}");
        assert!(seen.contains("help: restore it"), "{seen}");
    }
    // Where it is gone nothing is known.
    fs::remove_file(&second).unwrap();
    let seen = world.ship("stream");
    assert!(seen.starts_with("exit code 2"), "{seen}");
    assert!(seen.contains("is not signed by the fleet"), "{seen}");
    assert!(
        seen.contains("help: put the bundle of number 2 back"),
        "{seen}"
    );
    // Also where nothing is broken: removals are known by it.
    world.fleet.mend_hello();
    world
        .fleet
        .fixture
        .write("manifests/here/app.yaml", "version: 3\n");
    commit(&world.fleet.path("manifests"), "third");
    let seen = world.ship("stream");
    assert!(seen.contains("is not signed by the fleet"), "{seen}");
    world.lose_most();
    // What the fleet signed needs no bundle.
    world.put("stream", &signed.to_string());
    let seen = world.ship("stream");
    assert!(
        seen.contains("4 of 5 assignments would be removed"),
        "{seen}"
    );
}

#[test]
fn attack_an_emptied_record_and_a_bundle_that_is_gone_remove_nothing() {
    let world = World::new();
    let signed = world.record("stream");
    let mut emptied = signed.clone();
    emptied["files"] = json!({});
    emptied["stream"]["assignments"] = json!({});
    let mut other_index = unsigned(&emptied);
    other_index["stream"]
        .as_object_mut()
        .unwrap()
        .remove("index");
    fs::remove_dir_all(world.fleet.path("fleet/bundles")).unwrap();
    world.lose_most();
    for text in [unsigned(&emptied), emptied, other_index] {
        world.put("stream", &text.to_string());
        let seen = world.ship("stream");
        assert!(seen.starts_with("exit code 2"), "{seen}");
        assert!(seen.contains("is not signed by the fleet"), "{seen}");
    }
    let seen = world.fleet.bundle(&["--strict"]);
    assert!(seen.contains("warning[removals-unverified]"), "{seen}");
}

#[test]
fn attack_a_lost_record_does_not_switch_the_removal_limit_off() {
    let world = World::new();
    fs::remove_file(world.file("stream")).unwrap();
    world.lose_most();
    let seen = world.fleet.bundle(&["--strict"]);
    assert!(
        seen.contains("4 of 5 assignments would be removed"),
        "{seen}"
    );
}

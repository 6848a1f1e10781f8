//! The published advisories on `tough`, a TUF client that we are not: each as a bundle.
//!
//! CVE-2025-2885 to -2888 and the cyclic delegations of March 2025, CVE-2026-6966 to -6968 of April 2026.

use outhaul_signer::metadata::{self, DelegatedRole, Delegations, Key, MetaFile};
use outhaul_test_kit::bent::{ROLE, at, keys};

use super::stage::{Parts, Play, Stage};

fn running() -> (Stage, Parts) {
    let mut stage = Stage::new();
    let first = stage.next("first");
    (stage, first)
}

pub fn root_version_not_sequential() -> Play {
    let (mut stage, first) = running();
    stage.centre.root.version = 2;
    stage.centre.publish_root();
    let mut next = stage.next("evil");
    let third = next.metadata.remove("3.root.json").unwrap();
    next.metadata.insert("2.root.json".into(), third);
    stage.refuses(&[&first], &next)
}

pub fn terminating_delegation_passed_over() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("evil");
    let (targets, stolen) = (&mut stage.centre.targets, keys(1).remove(0));
    let delegations = targets.delegations.as_mut().unwrap();
    // A role of higher priority claims the stream's names and ends the search; it lists nothing.
    let claims = DelegatedRole {
        name: "s-ffffffffffffffff".into(),
        keyids: vec![stolen.public().id()],
        threshold: 1,
        terminating: true,
        paths: vec![format!("{ROLE}/*")],
    };
    delegations
        .keys
        .insert(stolen.public().id(), Key::new(&stolen.public()));
    delegations.roles.insert(0, claims);
    let empty = metadata::sign(
        &outhaul_signer::metadata::Targets {
            targets: std::collections::BTreeMap::new(),
            ..stage.centre.streams[ROLE].clone()
        },
        &[&stolen],
    )
    .unwrap();
    let version = stage.centre.streams[ROLE].version;
    let pin = MetaFile::of(version, &empty);
    stage
        .centre
        .snapshot
        .meta
        .insert("s-ffffffffffffffff.json".into(), pin);
    stage.centre.publish_targets();
    stage.centre.publish_snapshot();
    let mut metadata = stage.centre.bundle(ROLE);
    metadata.insert(format!("{version}.s-ffffffffffffffff.json"), empty);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn delegated_role_rolled_back() -> Play {
    super::metadata::rollback_of_the_stream()
}

pub fn refused_timestamp_is_kept() -> Play {
    let mut stage = Stage::new();
    let old = stage.next("old");
    let (old_pins, old_snapshot) = (
        stage.centre.timestamp.meta.clone(),
        stage.centre.snapshot.clone(),
    );
    let new = stage.next("new");
    // A newer timestamp over an older snapshot is refused …
    let right = std::mem::replace(&mut stage.centre.timestamp.meta, old_pins);
    stage.centre.publish_timestamp();
    let mut metadata = old.metadata.clone();
    metadata.insert(
        "timestamp.json".into(),
        stage.centre.files["timestamp.json"].clone(),
    );
    let attack = old.with_metadata(metadata);
    drop(old_snapshot);
    // … and must not stand in the way of the honest centre, which never signed that version.
    stage.centre.timestamp.meta = right;
    stage.centre.timestamp.version -= 1;
    let honest = stage.next("honest");
    stage.refuses(&[&new], &attack).then_takes(&honest)
}

pub fn cyclic_delegations() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("evil");
    let key = stage.centre.stream_keys[0].public();
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    own.targets.clear();
    own.delegations = Some(Delegations {
        keys: std::iter::once((key.id(), Key::new(&key))).collect(),
        holders: std::collections::BTreeMap::new(),
        roles: vec![DelegatedRole {
            name: ROLE.into(),
            keyids: vec![key.id()],
            threshold: 1,
            terminating: false,
            paths: vec![format!("{ROLE}/*")],
        }],
    });
    stage.centre.publish();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn delegated_threshold_by_duplicates() -> Play {
    let (mut stage, first) = running();
    let second_key = keys(1).remove(0);
    let delegations = stage.centre.targets.delegations.as_mut().unwrap();
    let id = second_key.public().id();
    delegations
        .keys
        .insert(id.clone(), Key::new(&second_key.public()));
    delegations.roles[0].keyids.push(id);
    delegations.roles[0].threshold = 2;
    stage.centre.publish_targets();
    let next = stage.next("evil");
    let role = &stage.centre.streams[ROLE];
    let signed = metadata::signed_bytes(role).unwrap();
    let one = metadata::sign_one(&signed, &stage.centre.stream_keys[0]).unwrap();
    let list = serde_json::to_string(&[&one, &one]).unwrap();
    let text = String::from_utf8(signed).unwrap();
    let file = format!("{{\"signatures\":{list},\"signed\":{text}}}").into_bytes();
    let (name, version) = (format!("{ROLE}.json"), role.version);
    let pin = MetaFile::of(version, &file);
    stage.centre.snapshot.meta.insert(name.clone(), pin);
    stage.centre.publish_snapshot();
    let mut metadata = stage.centre.bundle(ROLE);
    metadata.insert(format!("{version}.{name}"), file);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn delegated_role_past_its_date() -> Play {
    let (mut stage, first) = running();
    stage.centre.timestamp.issued = at("2026-07-01T00:00:00Z");
    let next = stage.next("late");
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    own.expires = at("2026-06-15T00:00:00Z");
    stage.centre.publish();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

pub fn delegated_role_beside_its_pin() -> Play {
    let (mut stage, first) = running();
    let mut next = stage.next("second");
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    own.expires = at("2027-06-02T00:00:00Z");
    let other = metadata::sign(own, &[&stage.centre.stream_keys[0]]).unwrap();
    next.metadata.insert(format!("3.{ROLE}.json"), other);
    stage.refuses(&[&first], &next)
}

pub fn target_name_that_is_a_path() -> Play {
    let (mut stage, first) = running();
    let next = stage.next("evil");
    let delegations = stage.centre.targets.delegations.as_mut().unwrap();
    delegations.roles[0].paths = vec!["*".into(), "../../*".into(), "/etc/*".into()];
    let own = stage.centre.streams.get_mut(ROLE).unwrap();
    let target = own.targets.remove(&format!("{ROLE}/index.json")).unwrap();
    own.targets
        .insert("../../etc/cron.d/index.json".into(), target);
    stage.centre.publish_targets();
    stage.centre.publish();
    let metadata = stage.centre.bundle(ROLE);
    stage.refuses(&[&first], &next.with_metadata(metadata))
}

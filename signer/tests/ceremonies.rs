//! Ceremonies seen from both sides: the fleet that changes keys, and a site that follows.

use std::fs;
use std::path::Path;

use outhaul_signer::ceremony::{Ceremony, RootChange, StreamChange};
use outhaul_signer::request::{SigningAnswer, SigningRequest};
use outhaul_signer::review::{self, Review};
use outhaul_signer::{Fleet, FleetError, InitOptions, SigningKey};
use outhaul_test_kit::bent::{Files, ISSUED, Site, at};
use outhaul_test_kit::folder;
use sha2::{Digest as _, Sha256};

use crate::fleet::{files, index, new_fleet, secret, sign};

/// The published folder, as a web server has it.
fn served(fleet: &Fleet) -> Files {
    folder::files(&fleet.metadata_folder())
}

fn publish(fleet: &Fleet, number: u64) -> Files {
    let signed = sign(fleet, "dev", number).unwrap();
    fleet.commit(&signed).unwrap();
    files(&signed)
}

#[test]
fn every_key_of_a_fleet_is_rotated_and_a_site_that_missed_it_follows() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let mut site = Site::of_fleet(&fleet);
    site.import(&publish(&fleet, 1)).unwrap();
    let before = fleet.status().unwrap();
    let changes = [
        RootChange::RotateOnline,
        RootChange::RotateTargets,
        RootChange::RotateRoot,
    ];
    let done = fleet.change_root(&changes, at(ISSUED), &secret()).unwrap();
    assert_eq!(done, Ceremony::Done { version: 2 });
    let after = fleet.status().unwrap();
    for (old, new) in before.roles.iter().zip(&after.roles).take(4) {
        assert_ne!(old.keys, new.keys, "{}", old.role);
        assert_eq!(new.keys.len(), 1, "{}", new.role);
    }
    assert_eq!(site.import(&served(&fleet)).unwrap().versions["root"], 2);
    assert_eq!(site.import(&publish(&fleet, 2)).unwrap().number, 2);
    let mut late = Site::of_fleet(&fleet);
    assert_eq!(late.import(&served(&fleet)).unwrap().number, 2);
}

#[test]
fn a_timestamp_of_a_rotated_key_is_the_fleets_up_to_what_it_published_and_no_newer_one() {
    let (dir, stolen) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fleet = new_fleet(dir.path());
    let before = publish(&fleet, 1)["timestamp.json"].clone();
    outhaul_test_kit::folder::fill(dir.path(), stolen.path());
    let done = fleet.change_root(&[RootChange::RotateOnline], at(ISSUED), &secret());
    assert_eq!(done.unwrap(), Ceremony::Done { version: 2 });
    assert!(fleet.has_signed_timestamp(&before).unwrap());
    let thief = Fleet::open(stolen.path()).unwrap();
    for number in 2..8 {
        publish(&thief, number);
    }
    let newest = &publish(&thief, 8)["timestamp.json"];
    assert!(thief.has_signed_timestamp(newest).unwrap());
    assert!(!fleet.has_signed_timestamp(newest).unwrap());
    let other = tempfile::tempdir().unwrap();
    let of_other = publish(&new_fleet(other.path()), 1)["timestamp.json"].clone();
    assert!(!fleet.has_signed_timestamp(&of_other).unwrap());
    assert!(!fleet.has_signed_timestamp(b"{}").unwrap());
}

#[test]
fn root_keys_in_three_places_change_the_root_with_two_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = InitOptions::new(secret(), at("2026-01-01T00:00:00Z"));
    (options.root_keys, options.root_threshold) = (3, 2);
    let fleet = Fleet::init(dir.path(), options).unwrap();
    let mut site = Site::of_fleet(&fleet);
    site.import(&publish(&fleet, 1)).unwrap();
    // Two of the three root keys are carried away.
    let root_ids: Vec<_> = fleet.status().unwrap().roles[0]
        .keys
        .iter()
        .map(|key| key.id.clone())
        .collect();
    let elsewhere: Vec<SigningKey> = fleet
        .ring()
        .entries()
        .unwrap()
        .into_iter()
        .filter(|entry| root_ids[1..].contains(&entry.public.id()))
        .map(|entry| {
            let key = entry.open(&secret()).unwrap();
            fs::remove_file(entry.private).unwrap();
            key
        })
        .collect();
    let waiting = fleet
        .change_root(&[RootChange::RotateOnline], at(ISSUED), &secret())
        .unwrap();
    let Ceremony::Waiting {
        request,
        version: 2,
        found: 1,
        others: _,
    } = waiting
    else {
        panic!("{waiting:?}");
    };
    assert_eq!(fleet.status().unwrap().waiting, ["2.root.json.request"]);
    let again = fleet
        .change_root(&[RootChange::Renew], at(ISSUED), &secret())
        .unwrap_err();
    assert!(again.to_string().contains("already waits"), "{again}");

    let asked = SigningRequest::from_bytes(&fs::read(&request).unwrap()).unwrap();
    let stranger = SigningKey::generate().unwrap();
    assert!(asked.answer(&stranger).is_err());
    let wrong = request.with_file_name("wrong.answer");
    fs::write(&wrong, b"{}").unwrap();
    let Ceremony::Waiting { others, .. } = fleet.finish_root(at(ISSUED), &secret()).unwrap() else {
        panic!("an answer to nothing counts");
    };
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(
        others[0].0 == wrong && !others[0].1.is_empty(),
        "{others:?}"
    );
    fs::remove_file(wrong).unwrap();
    let answer = asked.answer(&elsewhere[0]).unwrap().to_bytes();
    SigningAnswer::from_bytes(&answer).unwrap();
    fs::write(request.with_file_name("second.answer"), answer).unwrap();
    let done = fleet.finish_root(at(ISSUED), &secret()).unwrap();
    assert_eq!(done, Ceremony::Done { version: 2 });
    assert!(!request.exists());
    assert_eq!(
        site.import(&publish(&fleet, 2)).unwrap().versions["root"],
        2
    );
}

#[test]
fn a_root_key_is_added_and_the_threshold_raised_and_a_key_removed() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let added = fleet.ring().make("root", &secret()).unwrap();
    let changes = [
        RootChange::AddRootKey(added.public()),
        RootChange::Threshold(2),
    ];
    fleet.change_root(&changes, at(ISSUED), &secret()).unwrap();
    let root = &fleet.status().unwrap().roles[0];
    assert_eq!((root.version, root.threshold, root.keys.len()), (2, 2, 2));
    let too_few = [RootChange::RemoveRootKey(added.public().id())];
    assert!(fleet.change_root(&too_few, at(ISSUED), &secret()).is_err());
    assert!(
        fleet
            .change_root(&[RootChange::Threshold(3)], at(ISSUED), &secret())
            .is_err()
    );
    let fewer = [
        RootChange::Threshold(1),
        RootChange::RemoveRootKey(added.public().id()),
    ];
    fleet.change_root(&fewer, at(ISSUED), &secret()).unwrap();
    let mut site = Site::of_fleet(&fleet);
    assert_eq!(
        site.import(&publish(&fleet, 1)).unwrap().versions["root"],
        3
    );
}

#[test]
fn a_stolen_stream_key_is_revoked_and_the_thief_s_bundle_refused() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let mut site = Site::of_fleet(&fleet);
    site.import(&publish(&fleet, 1)).unwrap();
    let stolen = publish(&fleet, 2);
    fleet
        .change_stream(&site.role, &[StreamChange::Rekey], at(ISSUED), &secret())
        .unwrap();
    let mut evil = served(&fleet);
    let own = format!("2.{}.json", site.role);
    evil.insert(own.clone(), stolen[&own].clone());
    assert_eq!(site.import(&evil).unwrap_err().rule(), "mix-and-match");
    let acceptance = site.import(&served(&fleet)).unwrap();
    assert_eq!(
        acceptance.number, 2,
        "the number stays, signed by the new key"
    );
    assert_eq!(site.import(&publish(&fleet, 3)).unwrap().number, 3);
}

#[test]
fn a_stream_that_needs_two_signatures_is_countersigned_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let mut site = Site::of_fleet(&fleet);
    site.import(&publish(&fleet, 1)).unwrap();
    let second = SigningKey::generate().unwrap();
    let changes = [
        StreamChange::AddKey(second.public()),
        StreamChange::Threshold(2),
    ];
    let change = || fleet.change_stream(&site.role, &changes, at(ISSUED), &secret());
    // Number 1, which is published, needs the second signature as well.
    let FleetError::CountersignatureNeeded {
        request, found: 1, ..
    } = change().unwrap_err()
    else {
        panic!("not asked");
    };
    answer(&request, &second);
    change().unwrap();
    assert_eq!(site.import(&served(&fleet)).unwrap().number, 1);

    let needed = sign(&fleet, "dev", 2).unwrap_err();
    let FleetError::CountersignatureNeeded { request, .. } = needed else {
        panic!("{needed}")
    };
    let shown = SigningRequest::from_bytes(&fs::read(&request).unwrap()).unwrap();
    let root = fleet.root_bytes().unwrap();
    let Review::Stream(review) =
        review::review(&shown, &root, Some(&second.public()), at(ISSUED)).unwrap()
    else {
        panic!("a stream's request")
    };
    let index = index(&fleet, "dev", 2);
    assert_eq!(review.index, hex::encode(Sha256::digest(&index)));
    assert_eq!((review.number_before, review.number), (1, 2));
    assert_eq!((review.threshold, review.keys.len()), (2, 2));
    assert!(review.contents.is_some() && !review.again);
    // The stream's own number 1 is not a next one, and another index is not the one that is signed.
    let mut other = shown.clone();
    other.index = String::new();
    let other = other.with_index(b"{}");
    assert!(review::review(&other, &root, None, at(ISSUED)).is_err());
    let waits = fleet.pending(&site.role).unwrap().unwrap();
    assert_eq!(
        (waits.number, waits.found, waits.is_complete()),
        (2, 1, false)
    );
    assert!(matches!(
        sign(&fleet, "dev", 2),
        Err(FleetError::CountersignatureNeeded { .. })
    ));
    // What the service looks at to see that it may be shipped now.
    let before = fleet.answers();
    answer(&request, &second);
    assert_eq!(fleet.answers().len(), before.len() + 1);
    assert!(fleet.pending(&site.role).unwrap().unwrap().is_complete());
    let signed = sign(&fleet, "dev", 2).unwrap();
    fleet.commit(&signed).unwrap();
    assert_eq!(fleet.answers().len(), before.len() + 1);
    // What was signed since a fleet was opened is known to who opens it again.
    let again = Fleet::open(dir.path()).unwrap();
    let roles: Vec<&str> = again.roles_of("dev").collect();
    assert_eq!(roles, [site.role.as_str()]);
    assert_eq!(again.roles_of("prod").count(), 0);
    assert!(fleet.status().unwrap().waiting.is_empty());
    assert_eq!(site.import(&files(&signed)).unwrap().number, 2);
}

fn answer(request: &Path, key: &SigningKey) {
    let asked = SigningRequest::from_bytes(&fs::read(request).unwrap()).unwrap();
    fs::write(
        request.with_extension("answer"),
        asked.answer(key).unwrap().to_bytes(),
    )
    .unwrap();
}

#[test]
fn an_answer_to_another_request_is_no_signature() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    publish(&fleet, 1);
    let second = SigningKey::generate().unwrap();
    let changes = [
        StreamChange::AddKey(second.public()),
        StreamChange::Threshold(2),
    ];
    let change = || fleet.change_stream(&role, &changes, at(ISSUED), &secret());
    let FleetError::CountersignatureNeeded { request, .. } = change().unwrap_err() else {
        panic!("not asked");
    };
    let asked = SigningRequest::from_bytes(&fs::read(&request).unwrap()).unwrap();
    let mut other = asked.value().unwrap();
    other["version"] = 9.into();
    let payload = outhaul_signer::canonical::to_bytes(&other).unwrap();
    let other = SigningRequest::new(fleet.id(), &role, &payload, asked.keys.clone());
    let answer = other.answer(&second).unwrap();
    assert!(asked.accept(&answer).is_err());
    fs::write(request.with_extension("answer"), answer.to_bytes()).unwrap();
    assert!(matches!(
        change(),
        Err(FleetError::CountersignatureNeeded { found: 1, .. })
    ));
}

#[test]
fn a_stream_that_ended_is_refused_by_its_site() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let mut site = Site::of_fleet(&fleet);
    site.import(&publish(&fleet, 1)).unwrap();
    fleet
        .change_stream(&site.role, &[StreamChange::End], at(ISSUED), &secret())
        .unwrap();
    assert_eq!(site.import(&served(&fleet)).unwrap_err().rule(), "stream");
}

#[test]
fn a_change_of_keys_that_was_cut_off_is_finished_by_whoever_opens_the_fleet_next() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let fleet = new_fleet(dir.path());
    publish(&fleet, 1);
    copy_folder(dir.path(), copy.path());
    fleet
        .change_root(&[RootChange::RotateOnline], at(ISSUED), &secret())
        .unwrap();
    // The copy has the keys of the change and its journal, and none of its files.
    copy_folder(&dir.path().join("keys"), &copy.path().join("keys"));
    let files: Vec<(String, String)> = served(&fleet)
        .into_iter()
        .map(|(name, bytes)| (name, encode(&bytes)))
        .collect();
    let journal = serde_json::json!({ "files": files }).to_string();
    fs::write(copy.path().join("journal.json"), journal).unwrap();
    let reopened = Fleet::open(copy.path()).unwrap();
    assert!(!copy.path().join("journal.json").exists());
    assert_eq!(served(&reopened), served(&fleet));
    let mut site = Site::of_fleet(&reopened);
    assert_eq!(
        site.import(&publish(&reopened, 2)).unwrap().versions["root"],
        2
    );
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn an_index_of_the_right_stream_is_what_is_signed() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let mut site = Site::of_fleet(&fleet);
    let acceptance = site.import(&publish(&fleet, 1)).unwrap();
    let expected = index(&fleet, "dev", 1);
    let digest: [u8; 32] = Sha256::digest(&expected).into();
    assert_eq!(acceptance.index_sha256, digest);
    assert_eq!(acceptance.index_length, expected.len() as u64);
}

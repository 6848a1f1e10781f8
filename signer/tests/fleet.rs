//! A fleet's folder: made, signing, published, cut off in the middle.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use outhaul_signer::trust::{self, TrustedMetadata};
use outhaul_signer::{
    Fleet, FleetError, InitOptions, Secret, SignRequest, SignedMetadata, TimePolicy,
};
use serde_json::json;

use outhaul_test_kit::bent::{EXPIRES, Files, ISSUED, at};

pub fn secret() -> Secret {
    Secret::new("correct horse battery staple".into())
}

pub fn new_fleet(folder: &Path) -> Fleet {
    fleet_made_at(folder, at("2026-01-01T00:00:00Z"))
}

pub fn fleet_made_at(folder: &Path, now: Timestamp) -> Fleet {
    Fleet::init(folder, InitOptions::new(secret(), now)).unwrap()
}

pub fn index(fleet: &Fleet, environment: &str, number: u64) -> Vec<u8> {
    let role = fleet.role(environment, "drone");
    json!({
        "fleet": fleet.id(),
        "number": number,
        "stream": {"role": role, "environment": environment, "cluster_type": "drone"},
    })
    .to_string()
    .into_bytes()
}

pub fn sign(fleet: &Fleet, environment: &str, number: u64) -> Result<SignedMetadata, FleetError> {
    let index_bytes = index(fleet, environment, number);
    let role = fleet.role(environment, "drone");
    let (issued, expires) = (at(ISSUED), at(EXPIRES));
    let request = SignRequest {
        role: &role,
        number,
        index_bytes: &index_bytes,
        index_compressed: None,
        issued,
        expires,
    };
    fleet.sign_bundle(request, &secret())
}

pub fn files(signed: &SignedMetadata) -> Files {
    signed.files.iter().cloned().collect()
}

fn now(text: &str) -> TimePolicy {
    let time: Timestamp = at(text);
    TimePolicy {
        lower_bound: time,
        wall: time,
        wall_trusted: false,
    }
}

#[test]
fn bundles_of_two_streams_are_accepted_on_their_sites_one_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let enrolled = TrustedMetadata::enrol(&fleet.root_bytes().unwrap()).unwrap();
    let (dev, stage) = (fleet.role("dev", "drone"), fleet.role("stage", "drone"));
    assert_ne!(dev, stage);
    assert!(dev.starts_with("s-") && dev.len() == 18);
    assert_eq!(fleet.latest(&dev).unwrap(), None);

    let first = sign(&fleet, "dev", 1).unwrap();
    let names: Vec<_> = first.files.iter().map(|(name, _)| name.as_str()).collect();
    let own = format!("1.{dev}.json");
    assert_eq!(
        names,
        [
            "1.root.json",
            "timestamp.json",
            "2.snapshot.json",
            "2.targets.json",
            &own
        ]
    );
    let bytes: usize = first.files.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(
        bytes <= 5 * 1024,
        "metadata of a small fleet: {bytes} bytes"
    );
    fleet.commit(&first).unwrap();
    fleet.commit(&first).unwrap();
    assert_eq!(fleet.latest(&dev).unwrap().unwrap().number, 1);

    let other = sign(&fleet, "stage", 1).unwrap();
    fleet.commit(&other).unwrap();
    let second = sign(&Fleet::open(dir.path()).unwrap(), "dev", 2).unwrap();
    fleet.commit(&second).unwrap();

    let none = BTreeMap::default();
    let one = trust::verify(&enrolled, &none, &files(&first), &dev, now(ISSUED)).unwrap();
    let two = trust::verify(
        &one.trusted,
        &one.versions,
        &files(&second),
        &dev,
        now(ISSUED),
    )
    .unwrap();
    assert_eq!((one.number, two.number), (1, 2));
    assert_eq!(two.issued, at(ISSUED));
    assert_eq!(two.expires, at(EXPIRES));
    let refusal = trust::verify(
        &two.trusted,
        &two.versions,
        &files(&first),
        &dev,
        now(ISSUED),
    );
    assert_eq!(refusal.unwrap_err().rule(), "rollback");
    let refusal = trust::verify(&enrolled, &none, &files(&other), &dev, now(ISSUED));
    assert_eq!(refusal.unwrap_err().rule(), "stream");
    assert_eq!(
        Fleet::open(dir.path()).unwrap().streams()[&dev].environment,
        "dev"
    );
}

#[test]
fn a_number_is_never_signed_for_two_contents_even_when_it_was_never_published() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    // Signed, and then the power went: nothing was committed.
    let lost = sign(&fleet, "dev", 1).unwrap();
    assert_eq!(fleet.next_number(&role).unwrap(), 2);
    assert_eq!(fleet.latest(&role).unwrap(), None);
    let again = sign(&fleet, "dev", 1).unwrap();
    let version = |signed: &SignedMetadata| signed.files[2].0.clone();
    assert_ne!(
        version(&lost),
        version(&again),
        "snapshot versions are not used twice either"
    );

    let mut other = index(&fleet, "dev", 1);
    other.push(b' ');
    let (issued, expires) = (at(ISSUED), at(EXPIRES));
    let request = SignRequest {
        role: &role,
        number: 1,
        index_bytes: &other,
        index_compressed: None,
        issued,
        expires,
    };
    let refusal = fleet.sign_bundle(request, &secret()).unwrap_err();
    assert!(
        matches!(refusal, FleetError::NumberUsed { next: 2, .. }),
        "{refusal}"
    );
    fleet.commit(&again).unwrap();
    let refusal = sign(&fleet, "dev", 1).unwrap_err();
    assert!(
        matches!(refusal, FleetError::NumberUsed { next: 2, .. }),
        "{refusal}"
    );
}

#[test]
fn a_commit_that_is_cut_off_at_any_file_leaves_a_fleet_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    fleet.commit(&sign(&fleet, "dev", 1).unwrap()).unwrap();
    let role = fleet.role("dev", "drone");
    let signed = sign(&fleet, "dev", 2).unwrap();
    let rest: Vec<_> = signed
        .files
        .iter()
        .filter(|(name, _)| name != "timestamp.json")
        .collect();
    for (name, bytes) in rest {
        fs::write(fleet.metadata_folder().join(name), bytes).unwrap();
        let reopened = Fleet::open(dir.path()).unwrap();
        assert_eq!(
            reopened.latest(&role).unwrap().unwrap().number,
            1,
            "after {name}"
        );
    }
    fleet.commit(&signed).unwrap();
    assert_eq!(fleet.latest(&role).unwrap().unwrap().number, 2);
}

#[test]
fn a_bundle_signed_on_top_of_an_older_publication_is_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let dev = sign(&fleet, "dev", 1).unwrap();
    let stage = sign(&fleet, "stage", 1).unwrap();
    fleet.commit(&dev).unwrap();
    let refusal = fleet.commit(&stage).unwrap_err();
    assert!(matches!(refusal, FleetError::Raced { .. }), "{refusal}");
    assert_eq!(fleet.latest(&fleet.role("stage", "drone")).unwrap(), None);
}

#[test]
fn an_index_that_says_something_else_is_not_signed() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    let (issued, expires) = (at(ISSUED), at(EXPIRES));
    for index_bytes in [
        b"{}".to_vec(),
        index(&fleet, "stage", 1),
        index(&fleet, "dev", 2),
        b"no json".to_vec(),
    ] {
        let request = SignRequest {
            role: &role,
            number: 1,
            index_bytes: &index_bytes,
            index_compressed: None,
            issued,
            expires,
        };
        let refusal = fleet.sign_bundle(request, &secret()).unwrap_err();
        assert!(matches!(refusal, FleetError::Index { .. }), "{refusal}");
    }
}

#[test]
fn a_refresh_brings_newer_dates_and_no_new_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    let first = sign(&fleet, "dev", 1).unwrap();
    fleet.commit(&first).unwrap();
    let (issued, expires) = (at("2026-09-01T00:00:00Z"), at("2027-09-01T00:00:00Z"));
    let slip = fleet.refresh(issued, expires, &secret()).unwrap();
    fleet.commit(&slip).unwrap();

    let enrolled = TrustedMetadata::enrol(&fleet.root_bytes().unwrap()).unwrap();
    let none = BTreeMap::default();
    let mut served = files(&first);
    served.extend(files(&slip));
    let acceptance = trust::verify(&enrolled, &none, &served, &role, now(ISSUED)).unwrap();
    assert_eq!((acceptance.number, acceptance.signed_at), (1, issued));
    assert_eq!(acceptance.issued, at(ISSUED));
}

#[test]
fn keys_rest_encrypted_for_their_owner_only_and_a_wrong_passphrase_signs_nothing() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let entries = fleet.ring().entries().unwrap();
    assert_eq!(entries.len(), 3);
    for entry in entries {
        let text = fs::read_to_string(&entry.private).unwrap();
        assert!(text.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"));
        assert_eq!(
            fs::metadata(&entry.private).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let role = fleet.role("dev", "drone");
    let (issued, expires) = (at(ISSUED), at(EXPIRES));
    let index_bytes = index(&fleet, "dev", 1);
    let request = SignRequest {
        role: &role,
        number: 1,
        index_bytes: &index_bytes,
        index_compressed: None,
        issued,
        expires,
    };
    let refusal = fleet
        .sign_bundle(request, &Secret::new("wrong".into()))
        .unwrap_err();
    assert!(refusal.to_string().contains("passphrase"), "{refusal}");
}

#[test]
fn a_fleet_is_not_made_twice_and_not_found_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let again = Fleet::init(dir.path(), InitOptions::new(secret(), at(ISSUED))).unwrap_err();
    assert!(matches!(again, FleetError::Exists { .. }));
    assert_eq!(Fleet::open(dir.path()).unwrap().id(), fleet.id());
    let none = Fleet::open(&dir.path().join("keys")).unwrap_err();
    assert!(matches!(none, FleetError::NotAFleet { .. }));
    let empty = InitOptions::new(Secret::new(String::new()), at(ISSUED));
    let refusal = Fleet::init(&dir.path().join("new"), empty).unwrap_err();
    assert!(matches!(refusal, FleetError::Option { .. }));
}

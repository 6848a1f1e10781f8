//! Freshness slips: small, and for a site as good as any other transport.

use outhaul_signer::slip::Slip;
use outhaul_signer::trust::{self, TrustedMetadata};
use outhaul_signer::{Fleet, FleetError, SigningKey, TimePolicy};
use outhaul_test_kit::bent::{Centre, EXPIRES, Files, OTHER, ROLE, Site, at, keys, today};

use crate::fleet::{new_fleet, secret, sign};

const FLEET: &str = "0123456789abcdef";

/// What a slip of everything that `centre` has published brings.
fn slip(centre: &Centre, since_root: u64) -> Slip {
    let files: Vec<_> = centre.bundle(ROLE).into_iter().collect();
    let slip = Slip::new(FLEET, ROLE, &files, since_root).unwrap();
    Slip::from_bytes(&slip.to_bytes()).unwrap()
}

/// A fleet of two streams, each with a published bundle.
fn published_fleet(folder: &std::path::Path) -> Fleet {
    let fleet = new_fleet(folder);
    for environment in ["dev", "stage"] {
        fleet
            .commit(&sign(&fleet, environment, 1).unwrap())
            .unwrap();
    }
    fleet
}

#[test]
fn a_chain_of_two_streams_fits_in_two_kibibytes() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = published_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    let issued = at("2026-07-01T00:00:00Z");
    let mut since = fleet
        .clone()
        .slip(&role, 1, issued, at(EXPIRES), &secret())
        .unwrap();
    let short = since.slip.to_bytes().len();
    since = fleet
        .slip(&role, 0, issued, at(EXPIRES), &secret())
        .unwrap();
    let whole = since.slip.to_bytes();
    let files: usize = since.slip.source().values().map(Vec::len).sum();
    let text = since.slip.to_line().len();
    println!(
        "slip: {} bytes for {files} bytes of metadata, {text} characters",
        whole.len()
    );
    println!("slip for a site that knows root 1: {short} bytes");
    // The lower bounds are what cannot be made shorter: signatures, keys, and digests of other files.
    assert!((500..=2048).contains(&whole.len()), "{}", whole.len());
    assert!(short < whole.len());
    assert!(text <= 4296, "a QR code holds no more");
}

#[test]
fn a_slip_raises_floors_and_brings_time_and_an_older_stick_is_then_refused() {
    let mut centre = Centre::new();
    let old = centre.bundle(ROLE);
    let mut site = Site::enrolled(&centre);
    site.accept(&old);
    centre.timestamp.issued = at("2026-09-01T00:00:00Z");
    centre.next(b"two");
    let acceptance = site.accept(slip(&centre, 0).source());
    assert_eq!(acceptance.signed_at, at("2026-09-01T00:00:00Z"));
    assert_eq!((acceptance.number, acceptance.versions[ROLE]), (2, 2));
    site.refuse(&old, "rollback");
}

#[test]
fn a_slip_after_a_rotation_revokes_the_old_online_key() {
    let mut centre = Centre::new();
    let mut site = Site::enrolled(&centre);
    site.accept(&centre.bundle(ROLE));
    let stolen = std::mem::replace(&mut centre.timestamp_key, keys(1).remove(0));
    centre.assign_keys();
    centre.publish_root();
    centre.publish();
    site.accept(slip(&centre, 1).source());
    centre.timestamp_key = stolen;
    centre.publish();
    site.refuse(&centre.bundle(ROLE), "signature");
}

#[test]
fn a_slip_without_the_roots_that_a_site_lacks_is_refused_and_the_whole_one_is_not() {
    let mut centre = Centre::new();
    let mut site = Site::enrolled(&centre);
    for _ in 0..2 {
        [centre.timestamp_key] = keys(1).try_into().unwrap();
        centre.assign_keys();
        centre.publish_root();
    }
    centre.publish();
    let part = slip(&centre, 2);
    assert_eq!(part.oldest_root(), Some(3));
    site.refuse(part.source(), "signature");
    assert_eq!(site.accept(slip(&centre, 0).source()).versions["root"], 3);
}

#[test]
fn a_slip_of_another_fleet_is_refused_by_name() {
    let site = Site::enrolled(&Centre::new());
    site.refuse(slip(&Centre::new(), 0).source(), "foreign-fleet");
}

#[test]
fn a_slip_signed_by_nobody_that_counts_is_refused() {
    let mut centre = Centre::new();
    let site = Site::enrolled(&centre);
    centre.timestamp_key = SigningKey::generate().unwrap();
    centre.publish_timestamp();
    site.refuse(slip(&centre, 0).source(), "signature");
}

#[test]
fn a_slip_for_another_stream_is_refused() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let files: Vec<_> = centre.bundle(OTHER).into_iter().collect();
    let slip = Slip::new(FLEET, OTHER, &files, 0).unwrap();
    assert_eq!(slip.role(), OTHER);
    site.refuse(slip.source(), "stream");
}

#[test]
fn a_slip_past_its_date_raises_floors_and_says_that_it_is_expired() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let late = TimePolicy {
        lower_bound: at("2030-01-01T00:00:00Z"),
        ..today()
    };
    let slip = slip(&centre, 0);
    let verdict = trust::verify(&site.trusted, &site.floors, slip.source(), ROLE, late).unwrap();
    assert!(verdict.expired);
    assert_eq!(verdict.versions["timestamp"], 1);
}

#[test]
fn a_slip_may_name_a_bundle_whose_date_has_passed() {
    let mut centre = Centre::new();
    let mut site = Site::enrolled(&centre);
    site.accept(&centre.bundle(ROLE));
    centre.streams.get_mut(ROLE).unwrap().expires = at("2026-06-10T00:00:00Z");
    centre.streams.get_mut(ROLE).unwrap().version = 2;
    let stream = centre.streams.get_mut(ROLE).unwrap();
    stream.targets.values_mut().next().unwrap().custom["number"] = 2.into();
    centre.timestamp.issued = at("2026-09-01T00:00:00Z");
    centre.publish();
    let acceptance = site.accept(slip(&centre, 0).source());
    assert_eq!(acceptance.signed_at, at("2026-09-01T00:00:00Z"));
    assert_eq!(acceptance.expires, at("2026-06-10T00:00:00Z"));
}

#[test]
fn what_the_newest_metadata_vouches_for_may_come_on_the_stick_from_before_the_slip() {
    let mut centre = Centre::new();
    let stick = centre.bundle(ROLE);
    let mut site = Site::enrolled(&centre);
    centre.publish();
    site.accept(slip(&centre, 0).source());
    site.refuse(&stick, "rollback");
    let remembered = trust::remembered(&site.trusted, &site.floors, ROLE, today()).unwrap();
    let verified = trust::verify(
        &site.trusted,
        &site.floors,
        &centre.bundle(ROLE),
        ROLE,
        today(),
    );
    assert_eq!(remembered, verified.unwrap());
    assert_eq!((remembered.number, remembered.index_length), (1, 3));
}

#[test]
fn a_site_that_knows_only_its_root_remembers_nothing() {
    let centre = Centre::new();
    let site = Site::enrolled(&centre);
    let refusal = trust::remembered(&site.trusted, &site.floors, ROLE, today()).unwrap_err();
    assert_eq!(refusal.rule(), "missing");
}

#[test]
fn a_fleet_s_slip_is_newer_than_every_bundle_before_it_and_older_than_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = published_fleet(dir.path());
    let role = fleet.role("stage", "drone");
    let made = fleet
        .slip(&role, 0, at("2026-07-01T00:00:00Z"), at(EXPIRES), &secret())
        .unwrap();
    fleet.commit(&made.metadata).unwrap();
    assert_eq!(
        (made.number, made.signed_at),
        (1, at("2026-07-01T00:00:00Z"))
    );
    assert_eq!(
        (made.slip.fleet(), made.slip.role()),
        (fleet.id(), &role[..])
    );
    let enrolled = TrustedMetadata::enrol(&fleet.root_bytes().unwrap()).unwrap();
    let none = std::collections::BTreeMap::new();
    let first = trust::verify(&enrolled, &none, made.slip.source(), &role, today()).unwrap();
    assert_eq!(first.versions, made.versions);
    let next: Files = sign(&fleet, "stage", 2)
        .unwrap()
        .files
        .into_iter()
        .collect();
    let second = trust::verify(&first.trusted, &first.versions, &next, &role, today()).unwrap();
    assert!(second.versions["timestamp"] > first.versions["timestamp"]);
}

#[test]
fn no_slip_for_a_stream_without_a_bundle_or_a_root_that_is_not_there_yet() {
    let dir = tempfile::tempdir().unwrap();
    let fleet = new_fleet(dir.path());
    let role = fleet.role("dev", "drone");
    let issued = at("2026-07-01T00:00:00Z");
    let slip = |since| fleet.slip(&role, since, issued, at(EXPIRES), &secret());
    let refusal = slip(0).unwrap_err();
    assert!(matches!(&refusal, FleetError::Option { problem } if problem.contains("no bundle")));
    let refusal = slip(7).unwrap_err();
    assert!(matches!(&refusal, FleetError::Option { problem } if problem.contains("is 1, not 7")));
}

//! Wrong dates and wrong clocks: a verdict, never a way in and never a brick.

use outhaul_signer::TimePolicy;
use outhaul_signer::trust;
use outhaul_test_kit::bent::{Centre, EXPIRES, Files, ROLE, Site, at, today};

use super::site_with;

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

/// Every clock of the design's matrix, on both transports: what it may change is the date's verdict, and
/// nothing else. The wall clock jumps within each row, from the first to the second check.
#[test]
fn no_clock_on_any_road_bricks_or_downgrades_a_site() {
    let clocks = [
        "1970-01-01T00:00:00Z",
        "2000-01-01T00:00:00Z",
        "2026-05-31T00:00:00Z", // a day before the day of issue
        "2028-06-01T00:00:00Z", // two years after
        "2099-01-01T00:00:00Z",
    ];
    for first in clocks {
        for second in clocks {
            for wall_trusted in [false, true] {
                let row = format!("{first} then {second}, trusted: {wall_trusted}");
                let clock = |wall: &str| TimePolicy {
                    wall: at(wall),
                    wall_trusted,
                    ..today()
                };
                let late = |wall: &str| wall_trusted && at(wall) >= at(EXPIRES);
                let mut centre = Centre::new();
                let old = centre.bundle(ROLE);
                let mut site = Site::enrolled(&centre);
                centre.next(b"two");
                let new = centre.bundle(ROLE);
                let check = |site: &Site, files: &Files, wall: &str| {
                    trust::verify(&site.trusted, &site.floors, files, ROLE, clock(wall))
                };
                let accepted = check(&site, &new, first).unwrap();
                assert_eq!(accepted.expired, late(first), "{row}");
                site.trusted = accepted.trusted;
                site.floors = accepted.versions;
                let refusal = check(&site, &old, second).unwrap_err();
                assert_eq!(refusal.rule(), "rollback", "{row}");
                let again = check(&site, &new, second).unwrap();
                assert_eq!((again.number, again.expired), (2, late(second)), "{row}");
            }
        }
    }
}

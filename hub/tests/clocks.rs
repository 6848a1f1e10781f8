//! What a person states of the hub's clock, with the real program: when it is believed, and by how much the clock may go back after.

use std::fs;

use outhaul_audit::Recomputed;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_bundle::write_bundle;
use outhaul_gate::facts::{Act, ActKind};
use outhaul_gate::later::APART_MS;
use outhaul_gate::time::HOUR_MS;
use outhaul_hub::GateVerdict;
use outhaul_signer::SignRequest;
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{MemoryBlobs, now, secret};

use crate::audited::{asked_later, audited, exported};
use crate::gate_rules::{gate, report, world};
use crate::program::{Hub, code, stderr};
use crate::retention::now_ms;

const SAY: [&str; 5] = ["clock", "--by", "ann", "--reason", "the battery was empty"];

/// As if `outhaul-hub clock` had been typed when the clock showed so much later.
fn said_later(hub: &Hub, by_ms: i64) {
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let act = Act {
        chosen: Some("2".to_owned()),
        ..Act::new(
            ActKind::Clock,
            "ann",
            "the battery was empty",
            now_ms() + by_ms,
        )
    };
    store.write(|session| session.add_act(&act)).unwrap();
}

#[test]
fn a_clock_that_goes_back_by_seconds_after_a_person_looked_closes_no_gate_and_by_more_it_does() {
    for (back_ms, expected) in [(50_000, 0), (APART_MS + 60_000, 1)] {
        let (hub, centre, mut sites) = world(&["a"]);
        report(&hub, &centre, &mut sites[0], C::Compliant);
        assert_eq!(asked_later(&hub, 3 * HOUR_MS), GateVerdict::Open);
        let (rc, decision) = gate(&hub, "{}");
        assert_eq!((rc, &decision["rules"][0]["rule"]), (1, &"clock".into()));
        said_later(&hub, back_ms);
        let (rc, decision) = gate(&hub, "{}");
        assert_eq!(rc, expected, "{decision}");
        assert_eq!(decision["edition"], outhaul_gate::EDITION);
        let audit = audited(&centre, &exported(&hub, "one.audit"));
        assert_eq!(audit.problems, []);
        let same = |one: &outhaul_audit::CheckedDecision| one.outcome == Recomputed::AsRecorded;
        assert!(audit.decisions.iter().all(same), "{audit:?}");
    }
}

#[test]
fn a_gate_that_is_closed_for_the_clock_says_so_and_counts_no_sites() {
    let (hub, centre, mut sites) = world(&["a"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    asked_later(&hub, HOUR_MS);
    let closed = hub.run(&["gate", "--environment", "dev", "--commit", NEW]);
    let said = String::from_utf8(closed.stdout.clone()).unwrap();
    assert_eq!(code(&closed), 1, "{said}");
    assert!(
        said.starts_with("closed: no site of `dev` was counted for base ")
            && said.contains(", because of the hub's clock\n"),
        "{said}"
    );
    assert!(!said.contains("0 of 0"), "{said}");
}

#[test]
fn attack_a_clock_before_the_fleets_newest_signed_time_is_not_stated_to_be_right() {
    let (hub, centre, mut sites) = world(&["a"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    asked_later(&hub, 3 * HOUR_MS);
    // Signed by the centre, whose clock shows an hour more.
    let stream = centre.stream("dev", "drone");
    let index = centre.plain_index(&stream, 2, NEW);
    let bytes = index.to_bytes();
    let hours = |hours: i64| now() + jiff::SignedDuration::from_hours(hours);
    let request = SignRequest {
        role: stream.role.as_str(),
        number: 2,
        index_bytes: &bytes,
        index_compressed: None,
        issued: hours(1),
        expires: hours(24 * 90),
    };
    let signed = centre.fleet.sign_bundle(request, &secret()).unwrap();
    let mut blobs = MemoryBlobs::default();
    let bundle = write_bundle(Vec::new(), &signed.files, &bytes, &index, &mut blobs).unwrap();
    fs::write(hub.path("2.outhaul"), bundle).unwrap();
    hub.json(&["import", "2.outhaul"]);
    let refused = hub.run(&SAY);
    let said = stderr(&refused);
    assert_eq!(code(&refused), 1, "{said}");
    assert!(
        said.contains("before the newest time that the fleet signed")
            && said.contains("the clock is wrong now"),
        "{said}"
    );
    assert_eq!(hub.json(&["approvals", "--all"]), serde_json::json!([]));
    assert_eq!(gate(&hub, "{}").0, 1);
}

//! Attacks on the way home, one test each: nothing of them is taken in, the rest of the file is.

use outhaul_bundle::report::{Event, PAYLOAD_TYPE};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;

use super::*;
use crate::enrol::{self, Enrolled};
use crate::fake::{FLEET, NEW, OLD, Site, line, name};

fn store_with(sites: &[&Site]) -> Store {
    let mut store = Store::in_memory().unwrap();
    for site in sites {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| enrol::approve(session, &checked, false, 10))
            .unwrap();
    }
    store
}

fn take(store: &mut Store, lines: &[Vec<u8>]) -> Ingested {
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: 100,
    };
    ingest(store, lines.concat().as_slice(), &batch).unwrap()
}

/// Takes one bad line between two good ones; the rule by which it alone was refused.
fn refused_between_good_ones(bad: impl FnOnce(&mut Site) -> Vec<u8>) -> &'static str {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let first = site.active(1, NEW);
    let number = (site.next, site.previous);
    let bad = bad(&mut site);
    (site.next, site.previous) = number;
    let last = site.active(2, NEW);
    let done = take(&mut store, &[first, bad, last]);
    assert_eq!(
        (done.accepted, done.refused_lines, done.complete[0].number),
        (2, 1, 2)
    );
    assert_eq!(done.refused[0].line, 2);
    let shown = store.read(|session| session.refusals(10)).unwrap();
    assert_eq!(
        shown[0].rule, done.refused[0].rule,
        "a refusal is on record"
    );
    done.refused[0].rule
}

#[test]
fn foreign_key() {
    let rule = refused_between_good_ones(|site| {
        let report = site.report(Event::Started {
            agent_version: "x".into(),
        });
        let key = SigningKey::generate().unwrap();
        line(Envelope::sign(PAYLOAD_TYPE, report.to_bytes(), &key).to_json())
    });
    assert_eq!(rule, "signature");
}

#[test]
fn altered_payload() {
    let rule = refused_between_good_ones(|site| {
        let honest = site.active(9, NEW);
        let mut wire: serde_json::Value = serde_json::from_slice(&honest).unwrap();
        let report = site.report(Event::Started {
            agent_version: "x".into(),
        });
        let other: serde_json::Value = serde_json::from_slice(&site.sign(&report)).unwrap();
        wire["payload"] = other["payload"].clone();
        line(serde_json::to_vec(&wire).unwrap())
    });
    assert_eq!(rule, "signature");
}

#[test]
fn other_payload_type() {
    let rule = refused_between_good_ones(|site| {
        let report = site.report(Event::Started {
            agent_version: "x".into(),
        });
        line(Envelope::sign("application/other", report.to_bytes(), &site.key).to_json())
    });
    assert_eq!(rule, "signature");
}

#[test]
fn other_fleet() {
    let rule = refused_between_good_ones(|site| {
        site.fleet = "ffffffffffffffff".into();
        let bytes = site.started();
        site.fleet = FLEET.into();
        bytes
    });
    assert_eq!(rule, "fleet");
}

#[test]
fn report_in_another_sites_name() {
    let rule = refused_between_good_ones(|site| {
        let mut report = site.report(Event::Started {
            agent_version: "x".into(),
        });
        report.site = name("b");
        site.sign(&report)
    });
    assert_eq!(rule, "unknown-site");
}

#[test]
fn oversized() {
    let rule = refused_between_good_ones(|_| {
        let mut bytes = vec![b'x'; MAX_ENVELOPE_BYTES + 10];
        bytes.push(b'\n');
        bytes
    });
    assert_eq!(rule, "oversized");
}

#[test]
fn garbage() {
    for bad in ["{}\n", "\u{0}\u{1}\n", "[[[[\n", "{\"payload\":\"!\"}\n"] {
        assert_eq!(
            refused_between_good_ones(|_| bad.as_bytes().to_vec()),
            "malformed",
            "{bad}"
        );
    }
}

#[test]
fn impossible_gap() {
    for (from, to) in [(0, 1), (5, 4), (1, 2), (1, u64::MAX)] {
        let gap = Event::Gap {
            from,
            to,
            reason: String::new(),
        };
        assert_eq!(
            refused_between_good_ones(|site| site.say(gap)),
            "malformed",
            "{from}-{to}"
        );
    }
}

#[test]
fn exchanged_report() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let first = site.active(1, NEW);
    take(&mut store, &[first]);
    // The same number again, with other content: a store restored from a copy.
    (site.next, site.previous) = (1, None);
    let done = take(&mut store, &[site.active(1, OLD)]);
    assert_eq!((done.accepted, done.refused[0].rule), (0, "exchanged"));
    // What follows the exchanged one does not fit either.
    let done = take(&mut store, &[site.active(2, OLD)]);
    assert_eq!((done.accepted, done.refused[0].rule), (0, "exchanged"));
}

#[test]
fn exchanged_report_before_one_on_record() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    site.active(1, NEW);
    let second = site.active(2, NEW);
    take(&mut store, &[second]);
    (site.next, site.previous) = (1, None);
    let done = take(&mut store, &[site.active(1, OLD)]);
    assert_eq!((done.accepted, done.refused[0].rule), (0, "exchanged"));
}

#[test]
fn replay_changes_nothing() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let lines = [site.active(1, OLD), site.active(2, NEW)];
    take(&mut store, &lines);
    let before = store.read(|session| session.site_states()).unwrap();
    let batch = Batch {
        fleet: FLEET,
        via: "again",
        received_ms: 999_999,
    };
    let done = ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
    assert_eq!((done.accepted, done.duplicates), (0, 2));
    assert_eq!(store.read(|session| session.site_states()).unwrap(), before);
}

#[test]
fn revoked_site() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    assert!(store.write(|session| session.revoke_site("a", 50)).unwrap());
    let done = take(&mut store, &[site.active(1, NEW)]);
    assert_eq!((done.accepted, done.refused[0].rule), (0, "revoked"));
}

#[test]
fn a_replaced_key_may_finish_its_epoch_and_start_none() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    take(&mut store, &[site.active(1, OLD)]);
    let mut anew = Site::new("a", "dev", "drone");
    anew.forget("e2");
    let checked = enrol::check(&anew.request(), FLEET).unwrap();
    let silently = store.write(|session| enrol::approve(session, &checked, false, 20));
    assert!(matches!(silently, Err(enrol::EnrolError::OtherKey { .. })));
    let rekeyed = store
        .write(|session| enrol::approve(session, &checked, true, 20))
        .unwrap();
    assert_eq!(rekeyed, Enrolled::Rekeyed);

    let done = take(&mut store, &[site.active(2, OLD), anew.active(3, NEW)]);
    assert_eq!((done.accepted, done.refused_lines), (2, 0));
    site.forget("e3");
    assert_eq!(
        take(&mut store, &[site.active(9, OLD)]).refused[0].rule,
        "retired-key"
    );
    anew.forget("e1");
    anew.next = 3;
    anew.previous = Some(outhaul_bundle::Digest::of(b"?"));
    // The newest key may go on with an epoch, but only with the very chain that is on record.
    assert_eq!(
        take(&mut store, &[anew.active(9, OLD)]).refused[0].rule,
        "exchanged"
    );
    let states = store.read(|session| session.site_states()).unwrap();
    assert_eq!(states[0].running.as_ref().unwrap().bundle, 3);
}

#[test]
fn a_request_waits_unless_its_token_was_announced() {
    let site = Site::new("a", "dev", "drone");
    let mut store = Store::in_memory().unwrap();
    let checked = enrol::check(&site.request(), FLEET).unwrap();
    let done = store
        .write(|session| enrol::receive(session, &checked, 1))
        .unwrap();
    assert_eq!(done, Enrolled::Waiting);
    let token = outhaul_bundle::Digest::of(b"one-time-token").hex();
    store
        .write(|session| session.expect_site("a", &token, 2))
        .unwrap();
    let done = store
        .write(|session| enrol::receive(session, &checked, 3))
        .unwrap();
    assert_eq!(done, Enrolled::Registered);
    let left = store.read(|session| session.pending_requests()).unwrap();
    assert_eq!(left, []);
    // The token is spent: another key with it waits for a person, or is refused.
    let thief = enrol::check(&Site::new("a", "dev", "drone").request(), FLEET).unwrap();
    let done = store.write(|session| enrol::receive(session, &thief, 4));
    assert!(matches!(done, Err(enrol::EnrolError::OtherKey { .. })));
}

#[test]
fn a_request_signed_by_another_key_is_refused() {
    let (site, other) = (
        Site::new("a", "dev", "drone"),
        Site::new("a", "dev", "drone"),
    );
    let envelope = Envelope::from_json(&site.request()).unwrap();
    let payload = envelope.unverified_payload().to_vec();
    let forged = Envelope::sign(envelope.payload_type(), payload, &other.key).to_json();
    assert!(matches!(
        enrol::check(&forged, FLEET),
        Err(enrol::EnrolError::Signature(_))
    ));
    let foreign = enrol::check(&site.request(), "ffffffffffffffff");
    assert!(matches!(foreign, Err(enrol::EnrolError::Fleet { .. })));
}

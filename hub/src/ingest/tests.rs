//! Attacks on the way home, one test each: nothing of them is taken in, the rest of the file is.

use outhaul_bundle::report::{PAYLOAD_TYPE, ReportEvent};
use outhaul_signer::envelope::{Envelope, MAX_ENVELOPE_BYTES};
use outhaul_signer::key::SigningKey;
use outhaul_test_kit::plain::{FLEET, NEW, OLD, name};
use outhaul_test_kit::{Site, TOKEN, line};

use super::*;
use crate::enrol::{self, Enrolled};
use crate::store::{RequestOrigin, Store};

mod attacks;
mod better;
mod forks;

pub(super) fn store_with(sites: &[&Site]) -> Store {
    let mut store = crate::stored::empty();
    for site in sites {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| enrol::approve(session, &checked, false, 10))
            .unwrap();
    }
    store
}

pub(super) fn take(store: &mut Store, lines: &[Vec<u8>]) -> Ingested {
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: 100,
    };
    ingest(store, lines.concat().as_slice(), &batch).unwrap()
}

/// Takes one bad line between two good ones; the rule by which it alone was refused.
fn refused_between_good_ones(bad: impl FnOnce(&mut Site) -> Vec<u8>) -> String {
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
    done.refused[0].rule.to_string()
}

#[test]
fn foreign_key() {
    let rule = refused_between_good_ones(|site| {
        let report = site.report(ReportEvent::Started {
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
        let report = site.report(ReportEvent::Started {
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
        let report = site.report(ReportEvent::Started {
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
        let mut report = site.report(ReportEvent::Started {
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
        let gap = ReportEvent::Gap {
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
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "exchanged"));
    // What follows the exchanged one does not fit either.
    let done = take(&mut store, &[site.active(2, OLD)]);
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "exchanged"));
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
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "exchanged"));
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
    assert_eq!((done.accepted, &*done.refused[0].rule), (0, "revoked"));
}

#[test]
fn a_replaced_key_may_finish_its_epoch_and_start_none() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    take(&mut store, &[site.active(1, OLD)]);
    let mut again = Site::new("a", "dev", "drone");
    again.forget("e2");
    let checked = enrol::check(&again.request(), FLEET).unwrap();
    let silently = store.write(|session| enrol::approve(session, &checked, false, 20));
    assert!(matches!(silently, Err(enrol::EnrolError::OtherKey { .. })));
    let rekeyed = store
        .write(|session| enrol::approve(session, &checked, true, 20))
        .unwrap();
    assert_eq!(rekeyed, Enrolled::Rekeyed);

    let done = take(&mut store, &[site.active(2, OLD), again.active(3, NEW)]);
    assert_eq!((done.accepted, done.refused_lines), (2, 0));
    site.forget("e3");
    assert_eq!(
        take(&mut store, &[site.active(9, OLD)]).refused[0].rule,
        "retired-key"
    );
    again.forget("e1");
    again.next = 3;
    again.previous = Some(outhaul_bundle::Digest::of(b"?"));
    // The newest key may go on with an epoch, but only with the very chain that is on record.
    assert_eq!(
        take(&mut store, &[again.active(9, OLD)]).refused[0].rule,
        "exchanged"
    );
    let states = store.read(|session| session.site_states()).unwrap();
    assert_eq!(states[0].running.as_ref().unwrap().bundle, 3);
}

fn receive(store: &mut Store, site: &Site) -> Result<Enrolled, enrol::EnrolError> {
    let checked = enrol::check(&site.request(), FLEET).unwrap();
    store.write(|session| enrol::receive(session, &checked, RequestOrigin::FILE, 3))
}

fn waiting(store: &mut Store) -> Vec<String> {
    let left = store.read(|session| session.pending_requests(99)).unwrap();
    left.into_iter().map(|request| request.key_id).collect()
}

#[test]
fn a_request_waits_unless_its_kit_was_announced_and_a_kit_is_good_for_one_key() {
    let site = Site::new("a", "dev", "drone");
    let mut store = crate::stored::empty();
    assert_eq!(receive(&mut store, &site).unwrap(), Enrolled::Waiting);
    let kit = site.enrolment(TOKEN).hex();
    store
        .write(|session| session.expect_site("a", &kit, 2))
        .unwrap();
    assert_eq!(receive(&mut store, &site).unwrap(), Enrolled::Registered);
    assert!(waiting(&mut store).is_empty());
    // The kit is spent: another key with it is shown as a conflict, and no person can approve it.
    let thief = Site::new("a", "dev", "drone");
    assert_eq!(receive(&mut store, &thief).unwrap(), Enrolled::Conflict);
    assert_eq!(waiting(&mut store), [thief.key.public().id()]);
    let checked = enrol::check(&thief.request(), FLEET).unwrap();
    for replace in [false, true] {
        let done = store.write(|session| enrol::approve_by_hand(session, &checked, replace, 4));
        assert!(
            matches!(done, Err(enrol::EnrolError::KitUsed { .. })),
            "{done:?}"
        );
    }
    let keys = store.read(|session| session.site_keys("a")).unwrap();
    assert_eq!((keys.len(), &keys[0].key_id), (1, &site.key.public().id()));
}

#[test]
fn a_pending_request_is_never_replaced_and_a_conflict_is_not_resolved_by_an_announced_kit() {
    let (first, second) = (
        Site::new("a", "dev", "drone"),
        Site::new("a", "dev", "drone"),
    );
    let mut store = crate::stored::empty();
    assert_eq!(receive(&mut store, &first).unwrap(), Enrolled::Waiting);
    assert_eq!(receive(&mut store, &second).unwrap(), Enrolled::Conflict);
    assert_eq!(receive(&mut store, &first).unwrap(), Enrolled::Conflict);
    let both = [first.key.public().id(), second.key.public().id()];
    assert_eq!(waiting(&mut store), both);
    let kit = first.enrolment(TOKEN).hex();
    store
        .write(|session| session.expect_site("a", &kit, 2))
        .unwrap();
    assert_eq!(receive(&mut store, &second).unwrap(), Enrolled::Conflict);
    assert_eq!(waiting(&mut store), both);
    // Once a person has rejected the false one, the true one is let in; the false one stays away.
    let found = store.read(|session| session.requests_of("a")).unwrap();
    store
        .write(|session| session.reject_request(&found[1], 5))
        .unwrap();
    assert_eq!(receive(&mut store, &first).unwrap(), Enrolled::Registered);
    let again = receive(&mut store, &second);
    assert!(
        matches!(again, Err(enrol::EnrolError::Rejected { .. })),
        "{again:?}"
    );
}

#[test]
fn a_request_that_proves_another_kit_than_the_announced_one_is_not_stored() {
    let site = Site::new("a", "dev", "drone");
    let mut store = crate::stored::empty();
    let kit = site.enrolment("a newer kit").hex();
    store
        .write(|session| session.expect_site("a", &kit, 2))
        .unwrap();
    let refused = receive(&mut store, &site);
    assert!(
        matches!(refused, Err(enrol::EnrolError::NotExpected { .. })),
        "{refused:?}"
    );
    assert!(waiting(&mut store).is_empty());
}

#[test]
fn strangers_fill_their_own_room_only_and_one_command_empties_it() {
    let mut store = crate::stored::empty();
    let from = |store: &mut Store, site: &str, origin: RequestOrigin<'_>| {
        let checked = enrol::check(&Site::new(site, "dev", "drone").request(), FLEET).unwrap();
        store.write(|session| enrol::receive(session, &checked, origin, 3))
    };
    let address = |peer| RequestOrigin {
        lane: "network",
        peer,
    };
    let mut refused = None;
    for number in 0..65 {
        let done = from(&mut store, &format!("junk-{number}"), address("10.0.0.1"));
        refused = done.err();
    }
    let refused = refused.unwrap();
    assert!(
        refused
            .to_string()
            .contains("64 requests from this address"),
        "{refused}"
    );
    for origin in [address("10.0.0.2"), RequestOrigin::FILE] {
        let done = from(&mut store, &format!("real-{}", origin.lane), origin).unwrap();
        assert_eq!(done, Enrolled::Waiting);
    }
    for _ in 0..7 {
        from(&mut store, "real-file", RequestOrigin::FILE).unwrap();
    }
    let refused = from(&mut store, "real-file", RequestOrigin::FILE).unwrap_err();
    assert!(
        refused.to_string().contains("8 requests for this site"),
        "{refused}"
    );
    assert_eq!(store.write(|session| session.reject_network()).unwrap(), 65);
    assert_eq!(waiting(&mut store).len(), 8);
    let checked = from(&mut store, "junk-0", address("10.0.0.1")).unwrap();
    assert_eq!(checked, Enrolled::Waiting);
}

#[test]
fn a_request_shows_no_token_and_one_that_does_is_refused() {
    let site = Site::new("a", "dev", "drone");
    let envelope = Envelope::from_json(&site.request()).unwrap();
    let text = String::from_utf8(envelope.unverified_payload().to_vec()).unwrap();
    assert!(!text.contains(TOKEN), "{text}");
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let unproven = Envelope::sign(envelope.payload_type(), text.into_bytes(), &site.key);
    let refused = enrol::check(&unproven.to_json(), FLEET);
    assert!(
        matches!(refused, Err(enrol::EnrolError::Proof(_))),
        "{refused:?}"
    );
    value["token"] = TOKEN.into();
    let payload = value.to_string().into_bytes();
    let shown = Envelope::sign(envelope.payload_type(), payload, &site.key).to_json();
    let refused = enrol::check(&shown, FLEET);
    assert!(
        matches!(refused, Err(enrol::EnrolError::TokenShown)),
        "{refused:?}"
    );
}

#[test]
fn after_many_bad_signatures_the_rest_of_a_batch_is_not_looked_at() {
    let (mut site, mut thief) = (
        Site::new("a", "dev", "drone"),
        Site::new("a", "dev", "drone"),
    );
    let mut store = store_with(&[&site]);
    let bad = thief.started();
    let lines = [bad.repeat(3), site.started()].concat();
    let batch = Batch {
        fleet: FLEET,
        via: "http",
        received_ms: 5,
    };
    let mut intake = Intake::new(Some(2));
    let mut lines = lines.as_slice();
    let chunk = intake.chunk(&mut lines, "http", 9).unwrap().unwrap();
    let checked = store
        .read(|session| intake.check(session, &batch, chunk))
        .unwrap();
    store
        .write(|session| intake.record(session, &batch, checked))
        .unwrap();
    let done = store.write(|session| intake.finish(session)).unwrap();
    let rules: Vec<_> = done.refused.iter().map(|refused| &*refused.rule).collect();
    assert_eq!(rules, ["signature", "signature", "not-read", "not-read"]);
    assert_eq!(done.accepted, 0);
}

#[test]
fn what_is_on_record_is_known_again_without_a_look_at_its_signature() {
    let (mut site, thief) = (
        Site::new("a", "dev", "drone"),
        Site::new("a", "dev", "drone"),
    );
    let mut store = store_with(&[&site]);
    let report = site.report(ReportEvent::Started {
        agent_version: "1".to_owned(),
    });
    assert_eq!(take(&mut store, &[site.sign(&report)]).accepted, 1);
    let again = take(&mut store, &[site.sign(&report)]);
    assert_eq!((again.duplicates, again.refused_lines), (1, 0));
    // Another copy of it is looked at.
    let copy = take(&mut store, &[thief.sign(&report)]);
    assert_eq!((copy.duplicates, copy.refused_lines), (0, 1));
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

#[test]
fn what_an_unknown_earlier_key_signed_counts_when_the_present_key_s_report_names_it() {
    let mut site = Site::new("a", "dev", "drone");
    let mut before: Vec<_> = (1..=3).map(|number| site.active(number, NEW)).collect();
    let stranger = {
        let mut other = Site::new("a", "dev", "drone");
        other.active(9, NEW)
    };
    site.key = SigningKey::generate().unwrap();
    // Only the key that the site has now was ever registered.
    let mut store = store_with(&[&site]);
    let alone = take(&mut store, &before);
    assert_eq!((alone.accepted, alone.refused_lines), (0, 3));
    before.insert(1, stranger);
    before.push(site.active(4, NEW));
    let done = take(&mut store, &before);
    assert_eq!((done.accepted, done.refused_lines), (4, 1), "{done:?}");
    assert_eq!(done.refused[0].rule, "signature");
    assert_eq!(done.complete[0].number, 4);
}

#[test]
fn a_contradiction_that_the_site_s_own_key_signed_is_answered_with_what_is_on_record() {
    let mut site = Site::new("a", "dev", "drone");
    let mut store = store_with(&[&site]);
    let first = site.active(1, NEW);
    let copy = (site.next, site.previous);
    take(&mut store, &[first, site.active(2, NEW)]);
    (site.next, site.previous) = copy;
    let done = take(&mut store, &[site.active(7, NEW)]);
    assert_eq!(done.refused[0].rule, "exchanged");
    assert_eq!(done.complete[0].number, 2);
    assert!(done.complete[0].digest.is_some());
}

//! A report that came with a signature that does not hold, and later with one that does: the better copy is kept.
//!
//! What comes in: copies of one report, in any order. What must come out: the one that its site's key signed, on record.

use super::*;
use crate::store::ReportPosition;

/// The same report, signed by a key that the site never had.
fn spoiled(line: &[u8]) -> Vec<u8> {
    let envelope = Envelope::from_json(line).unwrap();
    let payload = envelope.unverified_payload().to_vec();
    let key = SigningKey::generate().unwrap();
    self::line(Envelope::sign(PAYLOAD_TYPE, payload, &key).to_json())
}

fn on_record(store: &mut Store, site: &Site, number: u64) -> Vec<u8> {
    let place = ReportPosition {
        site: site.name.clone(),
        epoch: site.epoch.clone(),
        number,
    };
    let places = [place];
    let found = store.read(|session| session.envelopes_at(&places)).unwrap();
    found.into_values().next().unwrap().trim_ascii().to_vec()
}

fn three() -> (Site, Store, [Vec<u8>; 3]) {
    let mut site = Site::new("a", "dev", "drone");
    let store = store_with(&[&site]);
    let lines = [site.started(), site.active(1, NEW), site.active(2, NEW)];
    (site, store, lines)
}

#[test]
fn attack_a_copy_with_a_broken_signature_does_not_keep_the_good_one_out() {
    let (site, mut store, [first, second, third]) = three();
    let bad = spoiled(&second);
    let done = take(&mut store, &[first, bad.clone(), third]);
    assert_eq!((done.accepted, done.refused_lines), (3, 0));
    assert_eq!(on_record(&mut store, &site, 2), bad.trim_ascii());

    let done = take(&mut store, std::slice::from_ref(&second));
    assert_eq!(
        (done.accepted, done.duplicates, done.refused_lines),
        (0, 1, 0)
    );
    assert_eq!(on_record(&mut store, &site, 2), second.trim_ascii());
    // And it stays, whatever comes after it.
    for (again, refused) in [(&bad, 1), (&second, 0), (&spoiled(&second), 1)] {
        let done = take(&mut store, std::slice::from_ref(again));
        assert_eq!(
            (done.accepted, done.duplicates, done.refused_lines),
            (0, 1 - refused, refused)
        );
        assert_eq!(on_record(&mut store, &site, 2), second.trim_ascii());
    }
}

#[test]
fn attack_both_copies_in_one_batch_leave_the_good_one_in_whatever_order() {
    for turned in [false, true] {
        let (site, mut store, [first, second, third]) = three();
        take(&mut store, &[first, third]);
        let mut both = [spoiled(&second), second.clone()];
        if turned {
            both.reverse();
        }
        let done = take(&mut store, &both);
        assert_eq!((done.accepted, done.duplicates), (1, 1), "{turned}");
        assert_eq!(on_record(&mut store, &site, 2), second.trim_ascii());
    }
}

#[test]
fn attack_copies_with_broken_signatures_tire_a_batch_as_other_broken_ones_do() {
    let (_, mut store, [first, second, third]) = three();
    take(&mut store, &[first, second.clone(), third]);
    let lines: Vec<Vec<u8>> = (0..200).map(|_| spoiled(&second)).collect();
    let lines = lines.concat();
    let batch = Batch {
        fleet: FLEET,
        via: "https",
        received_ms: 5,
    };
    let done = take_in(&mut store, lines.as_slice(), &batch, Intake::new(Some(10))).unwrap();
    assert_eq!((done.duplicates, done.refused_lines), (0, 200));
    let rules: Vec<&str> = done.refused.iter().map(|one| &*one.rule).collect();
    assert_eq!((rules[9], rules[10]), ("signature", "not-read"));
}

#[test]
fn attack_a_known_report_under_another_payload_type_is_refused_as_any_forged_one() {
    let (_, mut store, [first, second, third]) = three();
    take(&mut store, &[first, second.clone(), third]);
    let mut changed: serde_json::Value = serde_json::from_slice(&second).unwrap();
    changed["payloadType"] = "application/vnd.outhaul.order+json".into();
    let done = take(&mut store, &[self::line(changed.to_string().into_bytes())]);
    assert_eq!(
        (done.accepted, done.duplicates, done.refused_lines),
        (0, 0, 1)
    );
    assert_eq!(done.refused[0].rule, "signature");
    assert_eq!(store.read(|session| session.refusals(9)).unwrap().len(), 1);
}

//! What is newest, where clocks alone do not decide.

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::Site;
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};

use crate::ingest::{Batch, ingest};
use crate::store::{Signed, SitePage};
use crate::view::*;

/// Signed times are whole seconds: of two streams' bundles of one second, the order of signing decides which
/// commit is the newest, not the number that each stream counts for itself.
#[test]
fn of_two_streams_bundles_signed_within_one_second_the_later_one_gives_the_newest_commit() {
    let mut store = crate::stored::empty();
    for (cluster_type, number, commit, signed_as) in
        [("drone", 7, OLD, 20), ("tractor", 1, NEW, 21)]
    {
        let index = plain::index(&plain::stream("dev", cluster_type), number, commit);
        let signed = Signed {
            issued_ms: 1_000,
            signed_as,
            expires_ms: 9_000,
        };
        store
            .write(|session| session.add_bundle(&index, plain::content(&index), signed, 1_500))
            .unwrap();
    }
    let reading = store.read(|session| Reading::take(session, 2_000)).unwrap();
    let fleet = reading.view(FLEET, 2_000);
    let commits: Vec<_> = fleet.gates.iter().map(|gate| &gate.commit[..]).collect();
    assert_eq!(commits, [NEW]);
}

/// The site that it was for is gone: nobody will ever report about it.
#[test]
fn an_order_for_an_enrolment_that_was_replaced_is_void_and_not_on_its_way() {
    let mut store = crate::stored::empty();
    let site = Site::new("drone-1", "dev", "drone");
    let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
    store
        .write(|session| crate::enrol::approve(session, &checked, false, 1_000))
        .unwrap();
    let stream = plain::stream("dev", "drone");
    let key = outhaul_bundle::Digest::of(b"another key");
    let ordered = [
        ("one-time-token", outhaul_bundle::Instruction::Rekey),
        (
            "another-token",
            outhaul_bundle::Instruction::Approve { key },
        ),
    ];
    let mut statuses = Vec::new();
    for (number, (token, what)) in (1..).zip(ordered) {
        let order = outhaul_bundle::Order {
            site: plain::name("drone-1"),
            number: 1,
            enrolment: site.enrolment(token),
            what,
        };
        let signed = Signed {
            issued_ms: 1_000,
            signed_as: number,
            expires_ms: 9_000,
        };
        let carrier = crate::store::Carrier {
            role: stream.role.as_str(),
            number,
            signed,
        };
        let index = plain::index(&stream, number, NEW);
        store
            .write(|session| {
                session.add_bundle(&index, plain::content(&index), signed, 1_500)?;
                crate::enrol::orders::record(session, &[order], &carrier, FLEET, 1_500)
            })
            .unwrap();
        let reading = store.read(|session| Reading::take(session, 2_000)).unwrap();
        let row = reading.view(FLEET, 2_000).sites[0].orders[0].clone();
        statuses.push((row.kind, row.status));
    }
    let rekey = "rekey".to_owned();
    assert_eq!(statuses, [(rekey.clone(), "pending"), (rekey, "void")]);
}

/// A page says of its sites what the whole says of them, and has no other sites.
#[test]
fn a_page_of_sites_is_a_part_of_the_whole() {
    let mut store = crate::stored::empty();
    let mut lines = Vec::new();
    for at in 0..5 {
        let mut site = Site::new(&format!("drone-{at}"), "dev", "drone");
        let checked = crate::enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| crate::enrol::approve(session, &checked, false, 1_000))
            .unwrap();
        // The first never reports; the others miss reports, refuse, or only run.
        if at > 0 {
            lines.push(site.active(1, OLD));
            site.next += u64::from(at == 2);
            lines.push(site.say(ReportEvent::Refusal {
                source: "stick".to_owned(),
                rule: "rollback".to_owned(),
                message: format!("too old for {at}"),
            }));
        }
    }
    let batch = Batch {
        fleet: FLEET,
        via: "test",
        received_ms: 1_500,
    };
    ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
    let mut of = |page| {
        let reading = store.read(|session| Reading::of(session, page, 2_000));
        serde_json::to_value(reading.unwrap().site_rows(2_000)).unwrap()
    };
    let whole = of(SitePage::ALL);
    let whole = whole.as_array().unwrap();
    assert_eq!(whole.len(), 5);
    assert_eq!(whole[2]["missing"], serde_json::json!([[2, 2]]));
    for (offset, limit) in [(0, 5), (0, 2), (2, 2), (4, 2), (5, 2), (1, 1)] {
        let to = (offset + limit).min(5);
        let page = SitePage {
            limit: limit as u64,
            offset: offset as u64,
            ..SitePage::ALL
        };
        assert_eq!(of(page).as_array().unwrap()[..], whole[offset.min(5)..to]);
    }
}

//! The page, as text: every state that a site can be in, and hostile words in all places.

use std::collections::BTreeMap;

use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_bundle::{Digest, Instruction, Order};
use outhaul_test_kit::plain::{self, FLEET, NEW, OLD};
use outhaul_test_kit::{Site, TOKEN};

use super::{Shown, render};
use crate::enrol;
use crate::enrol::orders;
use crate::ingest::{Batch, ingest};
use crate::store::{Act, ActKind, Carrier, RequestOrigin, Signed, Store};
use crate::time::{DAY_MS, HOUR_MS};
use crate::view::{FleetView, Reading};

pub(super) const NOW: i64 = 1_795_000_000_000;

fn view(store: &mut Store) -> FleetView {
    store
        .read(|session| Reading::take(session, NOW))
        .unwrap()
        .view(FLEET, NOW)
}

/// A fleet in which every state occurs.
fn varied() -> FleetView {
    view(&mut varied_store())
}

/// The store of it, at this time.
pub(super) fn varied_store() -> Store {
    let mut store = crate::stored::empty();
    let mut sites: Vec<Site> = [
        "ok", "drifted", "failed", "rejected", "stale", "behind", "silent",
    ]
    .map(|name| Site::new(&format!("drone-{name}"), "dev", "drone"))
    .into();
    sites.push(Site::new("shop-1", "stage", "large"));
    for site in &sites {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        let at_ms = NOW - 9 * DAY_MS;
        store
            .write(|session| enrol::approve(session, &checked, false, at_ms))
            .unwrap();
    }
    let dev = plain::stream("dev", "drone");
    let bundles = [
        (&dev, 1, OLD),
        (&dev, 2, NEW),
        (&plain::stream("stage", "large"), 1, OLD),
    ];
    for (stream, number, commit) in bundles {
        let index = plain::index(stream, number, commit);
        let content = plain::content(&index);
        let signed = Signed {
            issued_ms: NOW - DAY_MS,
            signed_as: number,
            expires_ms: NOW + DAY_MS,
        };
        store
            .write(|session| session.add_bundle(&index, content, signed, NOW))
            .unwrap();
    }
    let [ok, drifted, failed, rejected, stale, behind, _, shop] = sites.as_mut_slice() else {
        panic!("eight sites");
    };
    let hostile = "<script>alert('x')</script>";
    let mut reported = drifted.event(2, NEW, G::Active, C::Drifted);
    reported.assignments[0].message = format!("someone changed {hostile}");
    reported.assignments[1].status = C::Compliant;
    let mut broken = failed.event(2, NEW, G::Failed, C::Failed);
    broken.message = "task `install package` failed: no space left on device".into();
    behind.started();
    let lines = [
        (HOUR_MS, vec![ok.active(1, OLD), ok.active(2, NEW)]),
        (
            2 * HOUR_MS,
            vec![drifted.say(ReportEvent::Observation(reported))],
        ),
        (
            3 * HOUR_MS,
            vec![failed.say(ReportEvent::Generation(broken))],
        ),
        (
            4 * HOUR_MS,
            vec![
                rejected.active(1, OLD),
                rejected.state(2, NEW, G::Rejected, C::InProgress),
            ],
        ),
        (5 * DAY_MS, vec![stale.active(2, NEW)]),
        (
            60_000,
            vec![behind.active(1, OLD), b"not a report\n".to_vec()],
        ),
        (5_000, vec![shop.active(1, OLD)]),
    ];
    for (age_ms, lines) in lines {
        let batch = Batch {
            fleet: FLEET,
            via: "stick.reports",
            received_ms: NOW - age_ms,
        };
        ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
    }
    let waiver = Act {
        site: Some("drone-silent".into()),
        until_ms: Some(NOW + 3 * DAY_MS),
        ..Act::new(ActKind::Waive, "alice", hostile, NOW)
    };
    store.write(|session| session.add_act(&waiver)).unwrap();
    store
}

/// The page without its style sheet and empty lines.
fn body(fleet: &FleetView) -> String {
    main_of(&render(fleet, &Shown::default()).unwrap())
}

pub(super) fn main_of(html: &str) -> String {
    let (_, body) = html.split_once("<main id=\"main\">").unwrap();
    let (body, _) = body.split_once("</main>").unwrap();
    body.lines()
        .filter(|line| !line.trim().is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn every_state_has_its_words() {
    insta::assert_snapshot!("varied", body(&varied()));
}

/// Sites with orders in every state, and with slips.
fn ordered() -> FleetView {
    let mut store = crate::stored::empty();
    let [mut done, mut waits, mut refuses, gone] =
        ["drone-done", "drone-waits", "drone-refuses", "drone-gone"]
            .map(|name| Site::new(name, "dev", "drone"));
    for site in [&done, &waits, &refuses, &gone] {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        store
            .write(|session| enrol::approve(session, &checked, false, NOW - 9 * DAY_MS))
            .unwrap();
    }
    let key = Digest::of(b"a key");
    let to = plain::stream("stage", "tractor");
    let orders = [
        (&done, 1, Instruction::Approve { key }),
        (&done, 2, Instruction::Rekey),
        (&waits, 1, Instruction::Rekey),
        (&refuses, 1, Instruction::Move { to, first: 3 }),
        (&gone, 1, Instruction::Revoke),
    ]
    .map(|(site, number, what)| Order {
        site: plain::name(&site.name),
        number,
        enrolment: site.enrolment(TOKEN),
        what,
    });
    let stream = plain::stream("dev", "drone");
    for (number, orders) in [(1, &orders[..1]), (2, &orders[..])] {
        let index = plain::index(&stream, number, NEW);
        let signed = Signed {
            issued_ms: NOW - (9 - i64::try_from(number).unwrap()) * HOUR_MS,
            signed_as: number,
            expires_ms: NOW + DAY_MS,
        };
        let carrier = Carrier {
            role: stream.role.as_str(),
            number,
            signed,
        };
        store
            .write(|session| {
                session.add_bundle(&index, plain::content(&index), signed, NOW)?;
                orders::record(session, orders, &carrier, FLEET, NOW)
            })
            .unwrap();
    }
    let reported = |site: &mut Site, number, what: &str, message: &str| {
        let enrolment = site.enrolment(TOKEN);
        site.say(ReportEvent::OrderDone {
            number,
            what: what.to_owned(),
            message: message.to_owned(),
            enrolment: Some(enrolment),
        })
    };
    let slip = |site: &mut Site, source: &str, days: i64, number| {
        site.say(ReportEvent::FreshnessSlip {
            source: source.to_owned(),
            issued_ms: NOW - days * DAY_MS,
            number,
            versions: BTreeMap::new(),
        })
    };
    let refused = ReportEvent::OrderRefused {
        number: 1,
        what: "move".to_owned(),
        message: "the order to move begins at bundle 3, this site has seen <b>4</b>".to_owned(),
        enrolment: refuses.enrolment(TOKEN),
    };
    let lines = [
        reported(&mut done, 1, "approve", "the centre approved this site"),
        slip(&mut done, "dev-drone.slip", 3, 1),
        slip(&mut done, "the typed slip", 1, 2),
        reported(
            &mut done,
            2,
            "rekey",
            "it signs with the new key 8eb0f2a93a0b",
        ),
        refuses.say(refused),
        waits.started(),
    ];
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: NOW - HOUR_MS,
    };
    let taken = ingest(&mut store, lines.concat().as_slice(), &batch).unwrap();
    assert_eq!(taken.accepted, 6, "{taken:?}");
    view(&mut store)
}

#[test]
fn orders_and_slips_have_their_place() {
    let fleet = ordered();
    let html = body(&fleet);
    let (_, orders) = html.split_once("<h2 id=\"orders\">").unwrap();
    let (orders, _) = orders.split_once("<h2 id=\"assignments\">").unwrap();
    insta::assert_snapshot!("orders", orders);
    let notes: Vec<_> = html
        .lines()
        .filter(|line| line.contains("slip: "))
        .collect();
    assert_eq!(notes.len(), 1, "one site took slips");
    assert!(
        notes[0].contains("it is at least 2026-11-17 11:06 UTC, newest bundle 2"),
        "{notes:?}"
    );
    let site = fleet
        .sites
        .iter()
        .find(|site| site.site == "drone-done")
        .unwrap();
    insta::assert_json_snapshot!("site-with-orders", (&site.orders, &site.slip));
}

#[test]
fn two_requests_for_one_site_show_as_a_conflict_with_their_fingerprints() {
    let mut store = crate::stored::empty();
    let both = [
        Site::new("drone-7", "dev", "drone"),
        Site::new("drone-7", "dev", "drone"),
    ];
    for site in &both {
        let checked = enrol::check(&site.request(), FLEET).unwrap();
        let origin = RequestOrigin {
            lane: "network",
            peer: "10.0.0.9",
        };
        store
            .write(|session| enrol::receive(session, &checked, origin, NOW))
            .unwrap();
    }
    let html = body(&view(&mut store));
    for site in &both {
        assert!(html.contains(&site.key.public().id()), "{html}");
    }
    assert_eq!(html.matches("pill bad\">conflict").count(), 2, "{html}");
    assert!(html.contains("from 10.0.0.9"), "{html}");
}

#[test]
fn what_a_site_wrote_never_reaches_the_page_as_an_escape_sequence() {
    let mut site = Site::new("drone-1", "dev", "drone");
    let mut store = crate::stored::empty();
    let checked = enrol::check(&site.request(), FLEET).unwrap();
    store
        .write(|session| enrol::approve(session, &checked, false, NOW))
        .unwrap();
    let hostile = "\u{1b}[2J\u{9b}31m\u{202e}gpj.exe\u{7}";
    let mut failed = site.event(2, NEW, G::Failed, C::Failed);
    failed.message = hostile.to_owned();
    let refusal = ReportEvent::Refusal {
        source: hostile.to_owned(),
        rule: "rollback".to_owned(),
        message: hostile.to_owned(),
    };
    let lines = [site.say(ReportEvent::Generation(failed)), site.say(refusal)].concat();
    let batch = Batch {
        fleet: FLEET,
        via: "stick.reports",
        received_ms: NOW,
    };
    assert_eq!(
        ingest(&mut store, lines.as_slice(), &batch)
            .unwrap()
            .accepted,
        2
    );
    let html = render(&view(&mut store), &Shown::default()).unwrap();
    let acts = |letter: char| letter != '\n' && outhaul_kit::text::is_hidden(letter);
    assert!(!html.contains(acts), "{:?}", html.find(acts));
    assert!(
        html.contains("refused on site: <code>\\u{1b}[2J\\u{9b}31m\\u{202e}gpj.exe"),
        "{html}"
    );
}

#[test]
fn many_orders_are_cut_and_the_open_ones_come_first() {
    let mut fleet = ordered();
    let open = fleet
        .sites
        .iter()
        .find(|site| site.site == "drone-waits")
        .unwrap()
        .orders[0]
        .clone();
    let done = fleet
        .sites
        .iter()
        .find(|site| site.site == "drone-done")
        .unwrap()
        .orders[0]
        .clone();
    for site in &mut fleet.sites {
        site.orders = Vec::new();
    }
    let closed = |more: Vec<_>| (0..120).map(|_| done.clone()).chain(more).collect();
    fleet.sites[0].orders = closed(Vec::new());
    let without = render(&fleet, &Shown::default()).unwrap();
    fleet.sites[0].orders = closed(vec![open]);
    let html = render(&fleet, &Shown::default()).unwrap();
    // Only the first of 121 are shown, and it is among them.
    let pending = |html: &str| html.matches("on its way").count();
    assert!(pending(&html) > pending(&without), "{html}");
    assert!(html.contains("more: <a href=\"/api/v1/sites\">"), "cut");
}

#[test]
fn an_empty_hub_says_what_to_do_first() {
    let mut store = crate::stored::empty();
    insta::assert_snapshot!("empty", body(&view(&mut store)));
}

#[test]
fn nothing_that_others_wrote_becomes_markup_and_nothing_is_loaded() {
    let html = render(&varied(), &Shown::default()).unwrap();
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;"));
    for loads in [" src=", "url(", "@import", "href=\"http"] {
        assert!(!html.contains(loads), "{loads}");
    }
}

#[test]
fn failures_come_first_and_the_three_axes_are_counted_apart() {
    let fleet = varied();
    let verdicts: Vec<_> = fleet.sites.iter().map(|site| site.verdict).collect();
    let expected = [
        "failed", "drifted", "rejected", "never", "stale", "behind", "ok", "ok",
    ];
    assert_eq!(verdicts, expected);
    let sum = fleet.summary;
    assert_eq!((sum.fresh, sum.stale, sum.never), (6, 1, 1));
    assert_eq!((sum.current, sum.behind, sum.unknown), (4, 1, 0));
    assert_eq!(sum.never_reported, 1);
    assert_eq!((sum.applying, sum.not_taken), (0, 2));
    assert_eq!((sum.drifted, sum.failed, sum.waiting), (1, 2, 6));
}

#[test]
fn a_very_large_fleet_is_cut_with_a_pointer_to_the_rest() {
    let mut fleet = varied();
    let site = fleet.sites[0].clone();
    fleet.sites = (0..600).map(|_| site.clone()).collect();
    let row = fleet.assignments[0].clone();
    fleet.assignments = (0..90).map(|_| row.clone()).collect();
    let html = render(&fleet, &Shown::default()).unwrap();
    assert!(html.contains("100 more: <a href=\"/sites\">"));
    assert!(html.contains("40 more: <a href=\"/api/v1/assignments\">"));
}

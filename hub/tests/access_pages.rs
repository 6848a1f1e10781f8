//! What people do on the pages: decisions with their record, the headers of every answer, and the bounds of forms.

use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use serde_json::json;

use crate::access::{ask, bearer, get, login, posted, token};
use crate::gate_rules::{report, world};

#[test]
fn a_person_approves_holds_and_withdraws_on_the_page_and_the_record_has_it() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let (alice, ann) = (token(&hub, "alice", "approve"), token(&hub, "ann", "read"));
    let server = hub.serve_in(&[], &[]);
    let session = login(&server, &alice);
    let board = get(&server, "/environments/dev", &session);
    let approve = format!("/act?kind=approve&amp;environment=dev&amp;commit={NEW}");
    assert!(board.body.contains(&approve), "{}", board.body);
    let address = approve.replace("&amp;", "&");
    let page = get(&server, &address, &session);
    assert!(page.body.contains("1 of 1 site confirmed"), "{}", page.body);
    let (form, seen) = (page.field("form"), page.field("seen"));
    let fields = |form: &str, seen: &str, reason: &str| {
        let all = [
            ("form", form),
            ("seen", seen),
            ("kind", "approve"),
            ("environment", "dev"),
            ("commit", NEW),
            ("reason", reason),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let sent = |session: &str, fields: &[(String, String)]| {
        let fields: Vec<_> = fields
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        posted(&server, "/act", session, &fields)
    };
    // Without the token of the session, without a reason, and of what has changed since nothing is recorded.
    assert_eq!(sent(&session, &fields("", &seen, "r")).status, 403);
    let no_reason = sent(&session, &fields(&form, &seen, " "));
    assert_eq!(no_reason.status, 422);
    assert!(no_reason.body.contains("Give a reason"));
    let stale = sent(&session, &fields(&form, "0", "r"));
    assert_eq!(stale.status, 422);
    assert!(stale.body.contains("has changed since"), "{}", stale.body);
    // Who may only read sees no form, and cannot send one.
    let reader = login(&server, &ann);
    assert_eq!(get(&server, &address, &reader).status, 403);
    let own = get(&server, "/sites", &reader).field("form");
    assert_eq!(sent(&reader, &fields(&own, &seen, "r")).status, 403);
    assert_eq!(hub.json(&["approvals"]), json!([]));

    let done = sent(&session, &fields(&form, &seen, "<b>signed off</b>"));
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(done.header("location"), "/environments/dev#acts");
    let acts = hub.json(&["approvals"]);
    assert_eq!(
        (&acts[0]["kind"], &acts[0]["by"], &acts[0]["reason"]),
        (
            &json!("approve"),
            &json!("alice"),
            &json!("<b>signed off</b>")
        )
    );
    let board = get(&server, "/environments/dev", &session).body;
    assert!(board.contains("&lt;b&gt;signed off"), "{board}");

    // A hold closes the gate, from the page as from the command line; a withdrawal ends it.
    assert_eq!(hub.gate("dev", NEW).0, 0);
    let page = get(&server, "/act?kind=hold&environment=dev", &session);
    let fields = [
        ("form", &*page.field("form")),
        ("seen", &*page.field("seen")),
        ("kind", "hold"),
        ("environment", "dev"),
        ("reason", "smoke in the hall"),
    ];
    assert_eq!(posted(&server, "/act", &session, &fields).status, 303);
    let (closed, decision) = hub.gate("dev", NEW);
    assert_eq!(closed, 1);
    let reasons = decision["reasons"].to_string();
    assert!(
        reasons.contains("held by `alice`: smoke in the hall"),
        "{reasons}"
    );
    let page = get(&server, "/act?kind=withdraw&number=2", &session);
    assert!(page.body.contains("are held"), "{}", page.body);
    let fields = [
        ("form", &*page.field("form")),
        ("seen", &*page.field("seen")),
        ("kind", "withdraw"),
        ("number", "2"),
        ("reason", "it was steam"),
    ];
    assert_eq!(posted(&server, "/act", &session, &fields).status, 303);
    assert_eq!(hub.gate("dev", NEW).0, 0);
    let again = get(&server, "/act?kind=withdraw&number=2", &session);
    assert_eq!(again.status, 400);
    assert!(
        again.body.contains("was withdrawn before"),
        "{}",
        again.body
    );
    // A waiver needs its end.
    let page = get(&server, "/act?kind=waive&site=drone-1", &session);
    let (form, seen) = (page.field("form"), page.field("seen"));
    let waive = |until: &str| {
        let fields = [
            ("form", &*form),
            ("seen", &*seen),
            ("kind", "waive"),
            ("site", "drone-1"),
            ("reason", "in dock"),
            ("until", until),
        ];
        posted(&server, "/act", &session, &fields)
    };
    for wrong in ["", "yesterday", "2001-01-01", "4000d"] {
        assert_eq!(waive(wrong).status, 422, "{wrong}");
    }
    assert_eq!(waive("14d").header("location"), "/sites/drone-1");

    // All of it is on record, also what was refused, and an administrator reads it.
    let log = hub.json(&["audit", "access"]);
    let reported: Vec<String> = log
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| {
            format!("{} {} {}", entry["who"], entry["action"], entry["allowed"]).replace('"', "")
        })
        .collect();
    for line in [
        " token create true",
        "alice login true",
        "ann login true",
        "ann approve false",
        "alice approve true",
        "alice hold true",
        "alice withdraw true",
        "alice waive true",
    ] {
        assert!(
            reported.iter().any(|one| one == line),
            "{line}: {reported:#?}"
        );
    }
    // A form that was mistyped and is shown again is none of it.
    assert!(!reported.contains(&"alice send false".to_owned()));
    assert_eq!(get(&server, "/access", &session).status, 403);
    let admin = login(&server, &token(&hub, "root", "admin"));
    let page = get(&server, "/access", &admin).body;
    assert!(page.contains("alice") && !page.contains(&alice), "{page}");
}

#[test]
fn every_answer_has_the_headers_that_keep_a_browser_safe() {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "ann", "read");
    let server = hub.serve_in(&[], &[]);
    for (path, more) in [
        ("/healthz", String::new()),
        ("/login", String::new()),
        ("/sites", String::new()),
        ("/api/v1/sites", String::new()),
        ("/api/v1/sites", bearer(&reader)),
        ("/sites", bearer(&reader)),
        ("/nowhere", bearer(&reader)),
    ] {
        let answer = ask(&server, &format!("GET {path}"), &more, "");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), value, "{path} {name}: {}", answer.head);
        }
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(
            policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        let tls = answer.header("strict-transport-security");
        assert_eq!(tls, "", "{path}: only over TLS");
    }
}

#[test]
fn a_form_is_bounded_and_only_a_form() {
    let (hub, _, _) = world(&[]);
    let alice = token(&hub, "alice", "approve");
    let server = hub.serve_in(&[], &[]);
    let session = login(&server, &alice);
    let long = "x".repeat(17 * 1024);
    let large = posted(&server, "/act", &session, &[("reason", &long)]);
    assert_eq!(large.status, 413, "{}", large.body);
    let more = format!("Content-Type: application/json\r\nCookie: {session}\r\n");
    let other = ask(&server, "POST /act", &more, "{}");
    assert_eq!(other.status, 415, "{}", other.body);
}

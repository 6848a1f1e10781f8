//! Requests that are turned away: on record, few entries for many of them, and nobody else is kept out.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use crate::access::{ask, bearer, cookie, login, posted, token};
use crate::gate_rules::world;
use crate::program::{Hub, Server, stderr};
use outhaul_test_kit::plain::NEW;

fn refused(hub: &Hub, action: &str) -> Vec<String> {
    let access = hub.json(&["audit", "access"]);
    let entries = access.as_array().unwrap().iter();
    let of = |one: &&Value| one["action"] == action && one["allowed"] == false;
    let detail = |one: &Value| format!("{} {}", one["peer"].as_str().unwrap(), one["detail"]);
    entries.filter(of).map(detail).collect()
}

/// The answer to a body that is announced to be too large, of which nothing is sent.
fn announced(server: &Server, line: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let text = format!(
        "{line} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: 99999999\r\n{more}\r\n"
    );
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn attack_bad_tokens_of_programs_are_one_entry_a_minute_and_do_not_close_the_login() {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "ann", "read");
    let server = hub.serve_in(&[], &[]);
    let wrong = || ask(&server, "GET /api/v1/sites", &bearer("wrong"), "").status;
    for _ in 0..10 {
        assert_eq!(wrong(), 401);
    }
    for _ in 0..54 {
        assert_eq!(wrong(), 429);
    }
    // The form of the same network is open.
    login(&server, &reader);
    drop(server);
    let entries = refused(&hub, "token");
    // Two, should a minute have ended in between.
    assert!((1..=2).contains(&entries.len()), "{entries:?}");
    assert!(
        entries.iter().any(|one| one.contains("times or more")),
        "{entries:?}"
    );
    let first = &entries[0];
    assert!(first.starts_with("127.0.0.1 "), "{first}");
    assert!(
        first.contains("GET /api/v1/sites: a token that is not known"),
        "{first}"
    );
}

#[test]
fn refused_forms_and_logins_that_wait_are_on_record() {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "ann", "read");
    let server = hub.serve_in(&[], &[]);
    let session = login(&server, &reader);
    for at in ["/act", "/logout"] {
        assert_eq!(posted(&server, at, &session, &[("form", "x")]).status, 403);
    }
    assert_eq!(posted(&server, "/login", "", &[("form", "x")]).status, 403);
    let page = ask(&server, "GET /login", "", "");
    let (begun, form) = (cookie(&page, "outhaul_login"), page.field("form"));
    let fields = [("form", &*form), ("token", "wrong")];
    for expected in [vec![403; 10], vec![429; 3]].concat() {
        assert_eq!(posted(&server, "/login", &begun, &fields).status, expected);
    }
    drop(server);
    let forms = refused(&hub, "form");
    assert!((2..=4).contains(&forms.len()), "{forms:?}");
    assert!(
        forms
            .iter()
            .all(|one| one.contains("is not of this session"))
    );
    let access = hub.json(&["audit", "access"]);
    let of_ann = |one: &&Value| one["action"] == "form" && one["who"] == "ann";
    assert!(
        access.as_array().unwrap().iter().any(|one| of_ann(&one)),
        "{access}"
    );
    let logins = refused(&hub, "login").join("; ");
    assert!(logins.contains("POST /login: 429: too many"), "{logins}");
}

#[test]
fn what_was_sent_and_not_taken_is_on_record() {
    let (hub, _, _) = world(&[]);
    let admin = token(&hub, "mirror", "admin");
    let server = hub.serve_in(&[], &[]);
    let call = "POST /api/v1/advisories";
    assert_eq!(ask(&server, call, &bearer(&admin), "[]").status, 422);
    assert!(announced(&server, call, &bearer(&admin)).starts_with("HTTP/1.1 413"));
    let open = "POST /api/v1/requests";
    assert!(announced(&server, open, "").starts_with("HTTP/1.1 413"));
    // These two are on record as refusals, by the rule that they break.
    for call in [open, "POST /api/v1/bundles"] {
        assert_eq!(ask(&server, call, "", "{}").status, 422, "{call}");
    }
    let listed = ask(&server, "GET /api/v1/refusals", &bearer(&admin), "").body;
    assert_eq!(listed.matches("\"rule\"").count(), 2, "{listed}");
    drop(server);
    let entries = refused(&hub, "send").join("; ");
    for words in [
        "POST /api/v1/advisories: 422: it is not what is taken there",
        "POST /api/v1/advisories: 413: it is too large",
        "POST /api/v1/requests: 413: it is too large",
    ] {
        assert!(entries.contains(words), "{entries}");
    }
    assert_eq!(entries.matches("422").count(), 1, "{entries}");
}

#[test]
fn a_list_of_decisions_says_how_many_there_are_and_shows_all_when_asked() {
    let (hub, _, _) = world(&["drone-1"]);
    for percent in 1..=23 {
        let percent = percent.to_string();
        let asked = ["gate", "--environment", "dev", "--commit", NEW];
        hub.run(&[&asked[..], &["--quorum", &percent]].concat());
    }
    let listed = |more: &[&str]| {
        let ran = hub.run(&[&["decisions"], more].concat());
        let rows = String::from_utf8(ran.stdout.clone())
            .unwrap()
            .lines()
            .count()
            - 1;
        (rows, stderr(&ran))
    };
    let (rows, note) = listed(&[]);
    assert_eq!(rows, 20, "{note}");
    assert!(
        note.contains("20 of 23, the newest; `--limit COUNT` or `--all` lists more"),
        "{note}"
    );
    assert_eq!(listed(&["--all"]), (23, String::new()));
    assert_eq!(listed(&["--limit", "40"]), (23, String::new()));
    // A program learns it, too.
    let left_out = |more: &[&str]| {
        let ran = hub.run(&[&["decisions", "--output", "json"], more].concat());
        let envelope: Value = serde_json::from_slice(&ran.stdout).unwrap();
        envelope.get("leftOut").cloned()
    };
    assert_eq!(left_out(&[]), Some(3.into()));
    assert_eq!(left_out(&["--limit", "1"]), Some(22.into()));
    assert_eq!(left_out(&["--all"]), None);
}

#[test]
fn attack_a_token_that_may_not_write_makes_few_entries_and_an_advisory_is_not_withdrawn_by_a_day_to_come()
 {
    let (hub, _, _) = world(&[]);
    let reader = token(&hub, "ann", "read");
    let admin = token(&hub, "eve", "admin");
    let server = hub.serve_in(&[], &[]);
    let advisory = |withdrawn: &str| {
        format!(
            r#"{{"id":"T-10","modified":"2026-11-01T00:00:00Z"{withdrawn},"affected":[{{"package":{{"ecosystem":"Debian:12","name":"curl"}}}}]}}"#
        )
    };
    let post =
        |token: &str, body: &str| ask(&server, "POST /api/v1/advisories", &bearer(token), body);
    for _ in 0..40 {
        assert_eq!(post(&reader, &advisory("")).status, 403);
    }
    let to_come = post(&admin, &advisory(r#","withdrawn":"2099-03-01T00:00:00Z""#));
    assert_eq!(to_come.status, 422, "{}", to_come.body);
    assert!(
        to_come
            .body
            .contains("withdrawn at a time that is in the future"),
        "{}",
        to_come.body
    );
    drop(server);
    let entries = refused(&hub, "advisory import");
    // Two, should a minute have ended in between.
    assert!((1..=2).contains(&entries.len()), "{entries:?}");
    assert!(entries[0].contains("no scope admin"), "{entries:?}");
}

#[test]
fn attack_a_refused_write_and_a_named_caller_are_not_hidden_by_refused_reads_and_strangers() {
    let (hub, _, _) = world(&[]);
    let pusher = token(&hub, "pusher", "ingest");
    let server = hub.serve_in(&[], &[]);
    for _ in 0..9 {
        assert_eq!(
            ask(&server, "GET /api/v1/sites", &bearer(&pusher), "").status,
            403
        );
        assert_eq!(
            ask(&server, "GET /api/v1/sites", &bearer("wrong"), "").status,
            401
        );
    }
    for call in ["POST /api/v1/advisories", "DELETE /api/v1/sites"] {
        assert_eq!(
            ask(&server, call, &bearer(&pusher), "{}").status,
            403,
            "{call}"
        );
        let status = ask(&server, call, &bearer("wrong"), "{}").status;
        assert!([401, 429].contains(&status), "{call}: {status}");
    }
    drop(server);
    let sent = refused(&hub, "send");
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(
        sent.iter()
            .any(|one| one.contains("POST /api/v1/advisories"))
    );
    assert!(sent.iter().any(|one| one.contains("DELETE /api/v1/sites")));
    let strangers = refused(&hub, "token");
    let of_write = |one: &String| one.contains("POST /api/v1/advisories: a token");
    assert!(strangers.iter().any(of_write), "{strangers:?}");
}

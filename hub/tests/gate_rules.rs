//! Rules of a gate, approvals, waivers and deferrals with the real program: what each asks, and what stays on record.

use std::fs;
use std::net::TcpStream;

use outhaul_bundle::hub_api::{ErrorAnswer, GateAnswer};
use outhaul_bundle::report::{ComplianceStatus as C, GenerationState as G, ReportEvent};
use outhaul_test_kit::plain::{NEW, OLD};
use outhaul_test_kit::{Centre, Site};
use serde_json::{Value, json};

use crate::http::{self, exchange};
use crate::program::{Hub, Server, code, stderr};

/// A hub that knows bundle 1 of `dev`/`drone`, and sites that are registered.
pub fn world(names: &[&str]) -> (Hub, Centre, Vec<Site>) {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let file = hub.path("1.outhaul");
    fs::write(&file, centre.bundle(&stream, 1, NEW)).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
    let sites = names
        .iter()
        .map(|name| {
            let site = centre.site(name, &stream);
            let file = hub.path(&format!("{name}.request"));
            fs::write(&file, site.request()).unwrap();
            hub.add(&file, &site);
            site
        })
        .collect();
    (hub, centre, sites)
}

/// Says that bundle 1 is active, with the digest of its real index.
pub fn report(hub: &Hub, centre: &Centre, site: &mut Site, status: C) {
    let mut event = site.event(1, NEW, G::Active, status);
    let index = centre.plain_index(&site.stream, 1, NEW);
    event.index = outhaul_bundle::Digest::of(&index.to_bytes());
    let line = site.say(ReportEvent::Generation(event));
    let file = hub.path(&format!("{}-{}.reports", site.name, site.next));
    fs::write(&file, line).unwrap();
    hub.json(&["import", file.to_str().unwrap()]);
}

pub fn gate(hub: &Hub, rules: &str) -> (i32, Value) {
    let asked = [
        "gate",
        "--environment",
        "dev",
        "--commit",
        NEW,
        "--rules",
        rules,
        "--record",
        "--by",
        "ann",
        "--reason",
        "other rules",
    ];
    let output = hub.run(&[&asked[..], &["--output", "json"]].concat());
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (code(&output), outhaul_tests::result(&text))
}

/// The entry of one rule.
pub fn rule<'a>(decision: &'a Value, name: &str) -> &'a Value {
    let rules = decision["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["rule"] == name).unwrap()
}

pub const APPROVED: &str = r#"{"approvals": {"needed": 2, "by": ["ann", "bob", "cid"]}}"#;

pub fn approve(hub: &Hub, by: &str) -> Value {
    hub.json(&[
        "approve",
        "--environment",
        "dev",
        "--commit",
        NEW,
        "--by",
        by,
        "--reason",
        "looked at it",
    ])
}

#[test]
fn two_of_three_people_approve_one_withdraws_and_all_of_it_stays_on_record() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(gate(&hub, "{}").0, 0);
    approve(&hub, "ann");
    approve(&hub, "eve");
    let (closed, decision) = gate(&hub, APPROVED);
    let found = rule(&decision, "approvals");
    assert_eq!((closed, &found["met"]), (1, &false.into()), "{decision}");
    let opens = found["opens"].as_str().unwrap();
    assert!(
        opens.contains("outhaul-hub approve") && opens.contains("`bob`, `cid`"),
        "{opens}"
    );
    let third = approve(&hub, "bob")["id"].as_i64().unwrap().to_string();
    let (open, decision) = gate(&hub, APPROVED);
    assert_eq!(open, 0, "{decision}");
    assert_eq!(
        rule(&decision, "approvals")["evidence"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // From now on these rules count where a question brings none.
    assert_eq!(hub.gate("dev", NEW).0, 0);
    let back = ["withdraw", &third, "--by", "bob", "--reason", "line 3"];
    hub.json(&back);
    assert_eq!(hub.gate("dev", NEW).0, 1);
    let again = hub.run(&back);
    assert_eq!(code(&again), 2, "{}", stderr(&again));
    assert!(
        stderr(&again).contains("was withdrawn before"),
        "{}",
        stderr(&again)
    );
    let held = hub.json(&["approvals"]);
    assert_eq!(held.as_array().unwrap().len(), 2, "{held}");
    let all = hub.json(&["approvals", "--all"]);
    assert_eq!(
        (all.as_array().unwrap().len(), &all[0]["kind"]),
        (4, &"withdraw".into())
    );
}

#[test]
fn a_deferred_site_is_not_waited_for_and_its_failure_closes_all_the_same() {
    let (hub, centre, mut sites) = world(&["drone-1", "ship-3"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(hub.gate("dev", NEW).0, 1);
    hub.json(&[
        "defer", "--site", "ship-3", "--until", "2h", "--by", "ann", "--reason", "at sea",
    ]);
    let (open, decision) = hub.gate("dev", NEW);
    assert_eq!((open, &decision["counted"]), (0, &1.into()), "{decision}");
    let note = decision["notes"].to_string();
    assert!(
        note.contains("deferred until") && note.contains("ann (at sea)"),
        "{note}"
    );
    report(&hub, &centre, &mut sites[1], C::Failed);
    let (closed, decision) = hub.gate("dev", NEW);
    assert_eq!(closed, 1);
    assert!(
        decision["reasons"][0]
            .as_str()
            .unwrap()
            .starts_with("failed: ")
    );
    // A waiver goes over it, until it is withdrawn.
    let waived = hub.json(&[
        "waive", "--site", "ship-3", "--until", "2h", "--by", "ann", "--reason", "towed",
    ]);
    assert_eq!(hub.gate("dev", NEW).0, 0);
    let id = waived["id"].to_string();
    hub.json(&["withdraw", &id, "--by", "bob", "--reason", "no"]);
    assert_eq!(hub.gate("dev", NEW).0, 1);
    let early = hub.run(&[
        "defer",
        "--site",
        "ship-3",
        "--until",
        "2020-01-01",
        "--by",
        "a",
        "--reason",
        "r",
    ]);
    let said = stderr(&early);
    assert!(
        code(&early) == 2 && said.contains("cannot end with `2020-01-01` (2020-01-02T00:00:00Z)"),
        "{said}"
    );
}

#[test]
fn soak_counts_from_the_first_report_of_the_unbroken_run() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    let site = &mut sites[0];
    report(&hub, &centre, site, C::Compliant);
    let soak = r#"{"soak_hours": 1}"#;
    let (closed, decision) = gate(&hub, soak);
    let found = rule(&decision, "soak");
    assert_eq!((closed, &found["met"]), (1, &false.into()), "{decision}");
    assert!(
        found["opens"]
            .as_str()
            .unwrap()
            .starts_with("it is met at "),
        "{found}"
    );
    // No report and no excuse opens it: the help is what the rule needs.
    assert_eq!(
        found["needs"],
        "1 site reported healthy for 1 hour without a break"
    );
    let said = stderr(&hub.run(&["gate", "--environment", "dev", "--commit", NEW]));
    assert!(
        said.contains("help: rule soak: it is met at ") && !said.contains("import the missing"),
        "{said}"
    );
    // As if the hub had received it two hours ago.
    let age = |hours: i64| {
        let db = rusqlite::Connection::open(hub.state().join("hub.db")).unwrap();
        let text = "UPDATE reports SET received_ms = received_ms - $1";
        db.execute(text, [hours * 3_600_000]).unwrap();
    };
    age(2);
    assert_eq!(gate(&hub, soak).0, 0);
    // Drift for a moment begins it again.
    report(&hub, &centre, site, C::Drifted);
    report(&hub, &centre, site, C::Compliant);
    assert_eq!(gate(&hub, soak).0, 1);
    age(2);
    assert_eq!(gate(&hub, soak).0, 0);
    report(&hub, &centre, site, C::Compliant);
    assert_eq!(gate(&hub, soak).0, 0, "one more good report does not");
}

fn get(server: &Server, path: &str, more: &str) -> (u16, String) {
    let stream = TcpStream::connect(server.address()).unwrap();
    exchange(stream, &format!("GET {path}"), more, b"")
}

#[test]
fn a_pipeline_asks_with_rules_and_what_it_cannot_ask_is_told_in_json() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let token = hub.json(&["caller", "add", "ci"])["token"].clone();
    let server = hub.serve(&[]);
    let ask = |rest: &str| {
        let path = format!("/api/v1/gate?environment=dev&commit={NEW}{rest}");
        let (status, text) = get(&server, &path, "");
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let (status, answer) = ask("&to=stage&rules=%7B%22min_sites%22%3A2%7D");
    assert_eq!((status, &answer["verdict"]), (200, &"closed".into()));
    assert_eq!(rule(&answer, "min-sites")["met"], false);
    let typed: GateAnswer = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(json!(typed), answer, "the type reads all of it");
    for wrong in [
        "&rules=%7B%22sokehours%22%3A2%7D",
        "&rules=%7B%22soak_hours%22%3A0%7D",
        "&rules=x",
        "&max_age_hours=x",
    ] {
        let (status, answer) = ask(wrong);
        assert_eq!(status, 400, "{answer}");
        serde_json::from_value::<ErrorAnswer>(answer).unwrap();
    }
    for path in ["/api/v1/gate", "/api/v1/gate?environment=dev"] {
        let (status, text) = get(&server, path, "");
        let answer: ErrorAnswer = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 400);
        assert!(answer.error.contains("missing field"), "{}", answer.error);
        assert!(
            answer.error.contains("environment=dev&commit=SHA"),
            "{}",
            answer.error
        );
    }
    // A parameter that it does not know is named, at each address: what is misspelled is not left out.
    for (path, names) in [
        (
            "/api/v1/gate?environment=dev&commit=x&max_age_hour=1&quorum=9",
            "`max_age_hour`, `quorum`",
        ),
        ("/api/v1/sites?limits=1", "`limits`"),
        ("/api/v1/assignments?formats=csv", "`formats`"),
        ("/api/v1/refusals?after=a", "`after`"),
        ("/api/v1/requests?site=a", "`site`"),
    ] {
        let (status, text) = get(&server, path, "");
        let answer: ErrorAnswer = serde_json::from_str(&text).unwrap();
        assert_eq!(status, 400, "{path}");
        assert!(answer.error.contains(names), "{path}: {}", answer.error);
    }
    let post = |path: &str| http::json(server.address(), &format!("POST {path}"), b"");
    for path in [
        "/api/v1/reports?dry_run=1",
        "/api/v1/bundles?dry_run=1",
        "/api/v1/requests?dry_run=1",
    ] {
        let (status, answer) = post(path);
        assert_eq!(status, 400, "{path}: {answer}");
        assert!(
            answer["error"].as_str().unwrap().contains("`dry_run`"),
            "{answer}"
        );
    }
    let (status, answer) = post("/api/v1/gate");
    assert_eq!(status, 405, "{answer}");
    serde_json::from_value::<ErrorAnswer>(answer).unwrap();
    // Only what a caller with a token asks with is remembered: then it counts for everyone.
    assert_eq!(ask("").1["verdict"], "open");
    let bearer = format!("Authorization: Bearer {}\r\n", token.as_str().unwrap());
    let path = format!(
        "/api/v1/gate?environment=dev&commit={NEW}&to=stage&rules=%7B%22min_sites%22%3A2%7D"
    );
    assert_eq!(get(&server, &path, &bearer).0, 200);
    assert_eq!(ask("").1["verdict"], "closed");
    assert_eq!(ask("&quorum_percent=1").1["verdict"], "closed");
    // A step of which no rules are on record is refused where rules of another are, with the words of the command line.
    for (to, more) in [("nowhere", ""), ("nowhere", &bearer), ("dev", &bearer)] {
        let path = format!("/api/v1/gate?environment=dev&commit={NEW}&to={to}");
        let (status, text) = get(&server, &path, more);
        assert_eq!(status, 400, "{text}");
        let words = format!("no rules are on record for the step from `dev` to `{to}`");
        let asked = ["gate", "--environment", "dev", "--commit", NEW, "--to", to];
        let typed = hub.run(&asked);
        assert!(
            text.contains(&words) && stderr(&typed).contains(&words),
            "{text}"
        );
    }
    assert_eq!(ask("&to=stage").1["verdict"], "closed");
    let page = get(&server, "/", "").1;
    assert!(
        page.contains("min-sites") && page.contains("to stage"),
        "{page}"
    );
    // What was decided can be explained: every site with its report.
    let listed = hub.json(&["decisions"]);
    let id = listed[0]["id"].to_string();
    assert_eq!(listed[0]["to"], "stage", "{listed}");
    let text = |arguments: &[&str]| String::from_utf8(hub.run(arguments).stdout).unwrap();
    assert!(text(&["decisions"]).contains("  stage  "));
    assert!(text(&["decisions", &id]).contains(" to go to `stage`, decided "));
    let page = get(&server, "/decisions", "").1;
    assert!(page.contains("dev</a> to stage<span"), "{page}");
    let shown = hub.json(&["decisions", &id]);
    assert_eq!(
        shown["decision"]["rules"][3]["rule"], "min-sites",
        "{shown}"
    );
    let evidence = &shown["evidence"][0];
    assert_eq!(
        (&evidence["site"], &evidence["status"]),
        (&"drone-1".into(), &"confirmed".into())
    );
    assert_eq!(evidence["report"], 1);
    assert!(evidence["digest"].as_str().unwrap().starts_with("sha256:"));
}

#[test]
fn a_revoked_sites_lines_are_one_row_with_a_count_everywhere() {
    let (hub, _, mut sites) = world(&["drone-1"]);
    let lines: Vec<Vec<u8>> = (0..53).map(|_| sites[0].active(1, OLD)).collect();
    hub.json(&["site", "revoke", "drone-1"]);
    let file = hub.path("r.reports");
    fs::write(&file, lines.concat()).unwrap();
    let output = hub.run(&["import", file.to_str().unwrap()]);
    assert_eq!(code(&output), 4);
    let message: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
    let refused: Vec<_> = message
        .iter()
        .filter(|l| l.starts_with("refused: "))
        .collect();
    assert_eq!(refused.len(), 1, "{message:?}");
    assert!(
        refused[0].contains("r.reports:1-53: revoked: "),
        "{refused:?}"
    );
    assert!(refused[0].ends_with("(53 lines)"), "{refused:?}");
    let server = hub.serve(&[]);
    let rows = || http::json(server.address(), "GET /api/v1/refusals", b"").1;
    let listed = rows();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(
        (&listed[0]["site"], &listed[0]["times"]),
        (&"drone-1".into(), &53.into())
    );
    let (_, answer) = http::json(server.address(), "POST /api/v1/reports", &lines.concat());
    let group = json!([{
        "site": "drone-1", "rule": "revoked", "reason": "site `drone-1` is revoked",
        "lines": 53, "first_line": 1, "last_line": 53,
    }]);
    assert_eq!(answer["refused_groups"], group);
    http::json(server.address(), "POST /api/v1/reports", &lines.concat());
    let listed = rows();
    let network = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["source"] == "http");
    assert_eq!(network.unwrap()["times"], 106);
    assert!(get(&server, "/", "").1.contains("106 times since"));
    let metrics = get(&server, "/metrics", "").1;
    for line in [
        "outhaul_hub_sites{environment=\"dev\",cluster_type=\"drone\",state=\"revoked\"} 1",
        "outhaul_hub_reports_total{result=\"refused\"} 106",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line}: {metrics}"
        );
    }
    let csv = get(&server, "/api/v1/sites?format=csv", "").1;
    assert!(
        csv.starts_with("site,environment,") && csv.contains("drone-1,dev,drone,revoked"),
        "{csv}"
    );
    assert_eq!(get(&server, "/api/v1/sites?format=xml", "").0, 400);
    let csv = get(&server, "/api/v1/refusals?format=csv&limit=1", "").1;
    assert!(
        csv.lines()
            .next()
            .is_some_and(|names| names.contains(",rule,"))
            && csv.contains("site `drone-1` is revoked")
            && csv.lines().count() == 2,
        "{csv}"
    );
}

#[test]
fn assignments_are_read_part_by_part_and_nothing_is_left_out() {
    let (hub, centre, mut sites) = world(&["a", "b", "c"]);
    for site in &mut sites {
        report(&hub, &centre, site, C::Compliant);
    }
    let server = hub.serve(&[]);
    let whole = http::json(server.address(), "GET /api/v1/assignments", b"").1;
    let whole = whole.as_array().unwrap().clone();
    assert_eq!(whole.len(), 6);
    for limit in [1, 2, 3, 4, 6] {
        let mut path = format!("/api/v1/assignments?limit={limit}");
        let mut found: Vec<Value> = Vec::new();
        loop {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n");
            std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let rows: Vec<Value> = serde_json::from_str(body).unwrap();
            assert!(rows.len() <= limit);
            found.extend(rows);
            let Some((_, rest)) = head.split_once("link: <") else {
                break;
            };
            rest.split('>').next().unwrap().clone_into(&mut path);
        }
        assert_eq!(found, whole, "limit {limit}");
    }
}

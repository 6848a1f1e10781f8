//! Outcomes of checks with the real programs: stated over HTTP and by hand, counted by the gate, recomputed from an export.

use outhaul_audit::Recomputed;
use outhaul_bundle::Digest;
use outhaul_bundle::hub_api::{CheckAnswer, CheckOutcome, CheckRequest, ErrorAnswer, GateVerdict};
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_gate::audit::FORMAT_7;
use outhaul_gate::facts::Act;
use outhaul_gate::time::{HOUR_MS, rfc3339};
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::{NEW, OLD};
use serde_json::{Value, json};

use crate::access::{ask, bearer, token};
use crate::audited::{asked_later, at, audited, exported, says, sealed};
use crate::gate_rules::{gate, report, rule, world};
use crate::program::{Hub, Server, code, stderr};
use crate::retention::now_ms;

const SCANNED: &str = r#"{"checks": [{"name": "scan", "max_age_hours": 24, "by": ["ci"]}]}"#;

fn scan(outcome: &str, detail: &str) -> Value {
    json!({
        "environment": "dev", "commit": NEW, "name": "scan", "outcome": outcome, "detail": detail,
        "digest": Digest::of(detail.as_bytes()).to_string(),
    })
}

fn post(server: &Server, token: &str, body: &Value) -> (u16, Value) {
    let answer = ask(
        server,
        "POST /api/v1/checks",
        &bearer(token),
        &body.to_string(),
    );
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

fn by_hand<'a>(name: &'a str, outcome: &'a str, by: &'a str) -> Vec<&'a str> {
    vec![
        "check",
        "--environment",
        "dev",
        "--commit",
        NEW,
        "--name",
        name,
        "--outcome",
        outcome,
        "--by",
        by,
    ]
}

fn on_record(hub: &Hub) -> usize {
    hub.json(&["approvals", "--all"]).as_array().unwrap().len()
}

#[test]
fn a_gate_waits_for_the_outcome_of_a_pipeline_and_an_export_recomputes_each_decision() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let ci = token(&hub, "ci", "check");
    let (closed, decision) = gate(&hub, SCANNED);
    let missing = rule(&decision, "check:scan");
    assert_eq!((closed, &missing["met"]), (1, &false.into()), "{decision}");
    let server = hub.serve(&[]);

    let (status, answer) = post(&server, &ci, &scan("failed", "CVE-2026-1 in libx"));
    assert_eq!(status, 200, "{answer}");
    let typed: CheckAnswer = serde_json::from_value(answer.clone()).unwrap();
    assert_eq!(
        (json!(typed), typed.by.as_str(), typed.id),
        (answer, "ci", 1)
    );
    let (closed, decision) = gate(&hub, SCANNED);
    let failed = &rule(&decision, "check:scan")["found"];
    assert_eq!(closed, 1);
    assert!(failed.as_str().unwrap().contains("CVE-2026-1"), "{failed}");

    assert_eq!(post(&server, &ci, &scan("passed", "0 findings")).0, 200);
    let (open, decision) = gate(&hub, SCANNED);
    assert_eq!(open, 0, "{decision}");
    let evidence = rule(&decision, "check:scan")["evidence"][0]
        .as_str()
        .unwrap();
    let digest = Digest::of(b"0 findings").to_string();
    assert!(
        evidence.starts_with("check 2 by ci, ") && evidence.contains(&digest),
        "{evidence}"
    );

    // By hand, under a name that the rule does not have; then it is withdrawn, by a person, on record.
    hub.json(&by_hand("scan", "failed", "eve"));
    assert_eq!(gate(&hub, SCANNED).0, 0);
    let failed = hub.json(&by_hand("scan", "failed", "ci"));
    assert_eq!(gate(&hub, SCANNED).0, 1);
    let number = failed["id"].to_string();
    hub.json(&[
        "withdraw",
        &number,
        "--by",
        "ann",
        "--reason",
        "wrong image",
    ]);
    assert_eq!(gate(&hub, SCANNED).0, 0);

    let lines = exported(&hub, "one.audit");
    assert!(lines[0].contains(FORMAT_7), "{}", lines[0]);
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    let entries = "who entered each of 5 entries about gates: 4 outcomes of checks, 1 withdrawal";
    assert!(
        audit.taken_from_the_hub.iter().any(|one| one == entries),
        "{:?}",
        audit.taken_from_the_hub
    );
    let verdicts: Vec<_> = audit
        .decisions
        .iter()
        .map(|one| one.verdict.as_str())
        .collect();
    assert_eq!(verdicts, ["closed", "closed", "open", "closed", "open"]);
    let is_same = |one: &outhaul_audit::CheckedDecision| one.outcome == Recomputed::AsRecorded;
    assert!(audit.decisions.iter().all(is_same), "{audit:?}");

    // Whoever has the hub's key cannot make another outcome of one on record.
    let mut forged = lines.clone();
    let first = at(&lines, "act")[0];
    forged[first] = lines[first].replace("\"failed ", "\"passed ");
    assert_ne!(forged[first], lines[first]);
    says(
        &audited(&centre, &sealed(&hub, forged)),
        "is not what its digest was made of",
    );
}

/// States an outcome as the hub does when its clock shows so much later.
fn stated_later(hub: &Hub, outcome: CheckOutcome, by_ms: i64) {
    let sent = CheckRequest {
        environment: "dev".into(),
        commit: NEW.into(),
        name: "scan".into(),
        outcome,
        detail: String::new(),
        digest: None,
    };
    let act = Act::of_check(&sent, "ci", now_ms() + by_ms);
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    store.write(|session| session.add_act(&act)).unwrap();
}

fn recomputed(hub: &Hub, centre: &Centre) {
    let audit = audited(centre, &exported(hub, "one.audit"));
    assert_eq!(audit.problems, []);
    let is_same = |one: &outhaul_audit::CheckedDecision| one.outcome == Recomputed::AsRecorded;
    assert!(audit.decisions.iter().all(is_same), "{audit:?}");
}

#[test]
fn decisions_on_outcomes_of_a_clock_that_was_ahead_are_recomputed() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(gate(&hub, SCANNED).0, 1);
    stated_later(&hub, CheckOutcome::Passed, 0);
    assert_eq!(gate(&hub, SCANNED).0, 0);
    // The clock is an hour ahead while these are stated, and corrected before the gate is asked.
    stated_later(&hub, CheckOutcome::Failed, HOUR_MS);
    let (closed, decision) = gate(&hub, SCANNED);
    assert_eq!(closed, 1, "{decision}");
    stated_later(&hub, CheckOutcome::Passed, HOUR_MS);
    let (closed, decision) = gate(&hub, SCANNED);
    assert_eq!(closed, 1, "{decision}");
    let found = &rule(&decision, "check:scan")["found"];
    assert!(found.as_str().unwrap().contains("after now"), "{found}");
    recomputed(&hub, &centre);
}

#[test]
fn a_decision_of_a_clock_that_was_put_back_does_not_rest_on_an_outcome_that_came_after_it() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(gate(&hub, SCANNED).0, 1);
    stated_later(&hub, CheckOutcome::Failed, 0);
    assert_eq!(asked_later(&hub, HOUR_MS), GateVerdict::Closed);
    // Dated before that decision, and stated after it.
    stated_later(&hub, CheckOutcome::Passed, 60_000);
    recomputed(&hub, &centre);
}

#[test]
fn who_has_no_token_for_it_and_what_is_no_outcome_are_refused_and_leave_no_entry() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let (ci, alice) = (token(&hub, "ci", "check"), token(&hub, "alice", "approve"));
    let server = hub.serve_in(&[], &[]);
    for other in [
        alice.as_str(),
        &token(&hub, "bot", "record"),
        &token(&hub, "in", "ingest"),
    ] {
        let (status, answer) = post(&server, other, &scan("passed", ""));
        assert_eq!(status, 403, "{answer}");
    }
    let nobody = ask(
        &server,
        "POST /api/v1/checks",
        "",
        &scan("passed", "").to_string(),
    );
    assert_eq!(nobody.status, 401, "{}", nobody.body);
    assert!(nobody.body.contains("--scope check"), "{}", nobody.body);
    // A token for checks alone reads nothing.
    let reads = ask(&server, "GET /api/v1/sites", &bearer(&ci), "");
    assert_eq!(reads.status, 403, "{}", reads.body);
    let with = |key: &str, value: Value| {
        let mut body = scan("passed", "fine");
        body[key] = value;
        body
    };
    for wrong in [
        with("outcome", "skipped".into()),
        with("environment", "nowhere".into()),
        with("commit", "main".into()),
        with("name", "two words".into()),
        with("detail", "two\nlines".into()),
        with("detail", "x".repeat(1025).into()),
        with("digest", "sha256:1".into()),
        with("by", "ann".into()),
        json!([]),
        json!(["dev", OLD, "scan", "passed"]),
    ] {
        let (status, answer) = post(&server, &ci, &wrong);
        assert_eq!(status, 422, "{wrong}: {answer}");
        let answer: ErrorAnswer = serde_json::from_value(answer).unwrap();
        assert_eq!(answer.rule.as_deref(), Some("check"));
        // No name of the program's inside.
        assert!(!answer.error.contains("struct"), "{}", answer.error);
        let is_array = answer.error.contains("it is a JSON array");
        assert_eq!(is_array, wrong.is_array(), "{}", answer.error);
    }
    let large = with("detail", "x".repeat(20_000).into());
    assert_eq!(post(&server, &ci, &large).0, 413);
    let wrong = hub.run(&by_hand("two words", "passed", "ann"));
    assert_eq!(code(&wrong), 2, "{}", stderr(&wrong));
    let wrong = hub.run(&by_hand("scan", "skipped", "ann"));
    assert_eq!(code(&wrong), 2, "{}", stderr(&wrong));
    assert_eq!(on_record(&hub), 0);
    // A commit whose bundle comes later is noted.
    let (status, answer) = post(&server, &ci, &with("commit", OLD.into()));
    assert_eq!(status, 200, "{answer}");
    assert!(
        answer["note"]
            .as_str()
            .unwrap()
            .contains("no bundle of `dev`"),
        "{answer}"
    );
    assert_eq!(on_record(&hub), 1);
}

#[test]
fn a_check_that_no_rule_asks_for_is_noted_with_the_one_that_was_meant_and_a_repetition_has_the_time_on_record()
 {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let ci = token(&hub, "ci", "check");
    // As long as `--help` says, in bytes.
    let longest = "x".repeat(1024);
    let detail = |text: &'static str| [by_hand("scna", "passed", "ann"), vec!["--detail", text]];
    let typed = [by_hand("scna", "passed", "ann"), vec!["--detail", &longest]].concat();
    let ran = hub.run(&typed);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    assert!(!stderr(&ran).contains("no rule"), "{}", stderr(&ran));
    let longer = "x".repeat(1025);
    let ran = hub.run(&[by_hand("scna", "passed", "ann"), vec!["--detail", &longer]].concat());
    assert_eq!(code(&ran), 2, "{}", stderr(&ran));
    assert!(stderr(&ran).contains("1025 bytes, 1024 at most"));
    for wrong in [" ", "two\nlines"] {
        assert_eq!(code(&hub.run(&detail(wrong).concat())), 2);
    }
    // A rule is on record since the gate was asked with one.
    assert_eq!(gate(&hub, SCANNED).0, 1);
    let ran = hub.run(&by_hand("scna", "failed", "ann"));
    let said = stderr(&ran);
    assert!(
        said.contains("asks for the check `scna`; did you mean `scan`?"),
        "{said}"
    );
    let ran = hub.run(&by_hand("smoke", "passed", "ann"));
    let said = stderr(&ran);
    assert!(said.contains("those on record ask for `scan`"), "{said}");
    let ran = hub.run(&by_hand("scan", "failed", "ann"));
    assert!(!stderr(&ran).contains("no rule"), "{}", stderr(&ran));
    stated_later(&hub, CheckOutcome::Passed, -30_000);
    let known: Vec<Value> = hub
        .json(&["approvals", "--all"])
        .as_array()
        .unwrap()
        .clone();
    let server = hub.serve_in(&[], &[]);
    let mut body = scan("passed", "");
    body.as_object_mut().unwrap().remove("digest");
    let (status, answer) = post(&server, &ci, &body);
    assert_eq!(status, 200, "{answer}");
    let entry = known.iter().find(|one| one["id"] == answer["id"]).unwrap();
    let at = rfc3339(entry["at_ms"].as_i64().unwrap());
    assert_eq!(answer["at"], at.as_str());
}

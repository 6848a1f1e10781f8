//! Audit exports of the real program, recomputed; and each way to change one, by someone with the hub's own key.

use std::fs;

use outhaul_audit::{Audit, Recomputed};
use outhaul_bundle::Digest;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_gate::EDITION;
use outhaul_gate::audit::{AuditLine, END_TYPE, End, FORMAT_5, Link};
use outhaul_gate::time::HOUR_MS;
use outhaul_hub::GateVerdict;
use outhaul_hub::record::{EnvironmentRecord, GateRequest, keep};
use outhaul_signer::Envelope;
use outhaul_signer::key::SigningKey;
use outhaul_test_kit::Centre;

use crate::gate_rules::{APPROVED, approve, gate, report, world};
use crate::program::{Hub, code, stderr};
use crate::retention::now_ms;
use outhaul_test_kit::plain::NEW;

pub fn exported(hub: &Hub, name: &str) -> Vec<String> {
    let file = hub.path(name);
    hub.json(&["audit", "export", file.to_str().unwrap()]);
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| format!("{line}\n")).collect()
}

pub fn audited(centre: &Centre, lines: &[String]) -> Audit {
    let root = fs::read(centre.root()).unwrap();
    outhaul_audit::audit(lines.concat().as_bytes(), &root, None, &[]).unwrap()
}

/// The lines as the hub would sign them: whoever has its key can do that much.
pub fn sealed(hub: &Hub, mut lines: Vec<String>) -> Vec<String> {
    lines.pop();
    let (mut decisions, mut acts) = (String::new(), String::new());
    for line in &lines {
        match serde_json::from_str(line).unwrap() {
            AuditLine::Decision {
                chain: Some(chain), ..
            }
            | AuditLine::Forgotten { chain, .. } => decisions = chain.digest,
            AuditLine::Act { digest, .. } => acts = digest,
            _ => {}
        }
    }
    let key = SigningKey::load_plain(&hub.state().join("hub.key")).unwrap();
    let header: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    let fleet = header["fleet"].as_str().unwrap().to_owned();
    let end = End {
        fleet,
        lines: lines.len() as u64,
        digest: Digest::of(lines.concat().as_bytes()).to_string(),
        decisions,
        acts,
    };
    let envelope = Envelope::sign(END_TYPE, serde_json::to_vec(&end).unwrap(), &key);
    lines.push(String::from_utf8(envelope.to_json()).unwrap() + "\n");
    lines
}

/// A hub with decisions that were closed by drift, closed for want of approvals, open, and open past a waived site.
fn decided() -> (Hub, Centre) {
    let (hub, centre, mut sites) = world(&["drone-1", "drone-2"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    report(&hub, &centre, &mut sites[1], C::Drifted);
    assert_eq!(gate(&hub, r#"{"soak_hours": 1}"#).0, 1);
    report(&hub, &centre, &mut sites[1], C::Compliant);
    assert_eq!(gate(&hub, APPROVED).0, 1);
    approve(&hub, "ann");
    approve(&hub, "bob");
    assert_eq!(gate(&hub, APPROVED).0, 0);
    report(&hub, &centre, &mut sites[1], C::Failed);
    hub.json(&[
        "waive", "--site", "drone-2", "--until", "14d", "--by", "ann", "--reason", "in dock",
    ]);
    assert_eq!(gate(&hub, APPROVED).0, 0);
    (hub, centre)
}

pub fn at(lines: &[String], kind: &str) -> Vec<usize> {
    let is = |line: &String| line.contains(&format!("\"kind\":\"{kind}\""));
    (0..lines.len()).filter(|at| is(&lines[*at])).collect()
}

#[track_caller]
pub fn says(audit: &Audit, part: &str) {
    assert_eq!(audit.exit_code(), 4, "{audit:?}");
    let found = audit.problems.iter().any(|one| one.what.contains(part));
    assert!(found, "`{part}` is not in {:?}", audit.problems);
}

#[test]
fn every_decision_is_recomputed_as_recorded_from_the_root_alone() {
    let (hub, centre) = decided();
    let lines = exported(&hub, "one.audit");
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    let outcomes: Vec<_> = audit
        .decisions
        .iter()
        .map(|one| (one.verdict.as_str(), &one.outcome))
        .collect();
    let same = &Recomputed::AsRecorded;
    assert_eq!(
        outcomes,
        [
            ("closed", same),
            ("closed", same),
            ("open", same),
            ("open", same)
        ]
    );
    assert_eq!(audit.exit_code(), 0);
    assert_eq!(
        exported(&hub, "two.audit"),
        lines,
        "the same record is the same file"
    );
    let again = hub.run(&["audit", "export", hub.path("one.audit").to_str().unwrap()]);
    assert_eq!(code(&again), 1, "{}", stderr(&again));
    // A later export continues the chain, and an earlier one is distinguished from a rewritten one.
    assert_eq!(gate(&hub, "{}").0, 0);
    let later = exported(&hub, "three.audit").concat();
    let root = fs::read(centre.root()).unwrap();
    let with_head =
        |head: &str| outhaul_audit::audit(later.as_bytes(), &root, None, &[head.to_owned()]);
    assert_eq!(with_head(&audit.head).unwrap().exit_code(), 0);
    says(&with_head("sha256:00").unwrap(), "is not in the chains");
}

#[test]
fn a_decision_that_was_removed() {
    let (hub, centre) = decided();
    let mut lines = exported(&hub, "a");
    lines.remove(at(&lines, "decision")[1]);
    says(
        &audited(&centre, &lines),
        "the file is not what the hub signed",
    );
    says(
        &audited(&centre, &sealed(&hub, lines)),
        "decision 3 does not follow the one before it",
    );
}

#[test]
fn a_verdict_that_was_changed() {
    let (hub, centre) = decided();
    let mut lines = exported(&hub, "a");
    let first = at(&lines, "decision")[0];
    lines[first] = lines[first].replace("\"verdict\":\"closed\"", "\"verdict\":\"open\"");
    let lines = sealed(&hub, lines);
    says(
        &audited(&centre, &lines),
        "decision 1 is not what its digest was made of",
    );

    // Whoever writes the chain again as well is found out by the evidence.
    let mut lines = exported(&hub, "b");
    let mut previous = String::new();
    for at in at(&lines, "decision") {
        let AuditLine::Decision { mut content, .. } = serde_json::from_str(&lines[at]).unwrap()
        else {
            panic!("{}", lines[at]);
        };
        content.verdict = "open".to_owned();
        content.decision = content
            .decision
            .replace("\"verdict\":\"closed\"", "\"verdict\":\"open\"");
        let digest = Link::digest_of(&previous, content.id, &content.verdict, &content.digest());
        let chain = Some(Link {
            previous: std::mem::replace(&mut previous, digest.clone()),
            digest,
        });
        lines[at] = serde_json::to_string(&AuditLine::Decision { content, chain }).unwrap() + "\n";
    }
    let audit = audited(&centre, &sealed(&hub, lines));
    assert_eq!(audit.problems, []);
    assert_eq!(audit.exit_code(), 4);
    let Recomputed::Differs(differences) = &audit.decisions[0].outcome else {
        panic!("{:?}", audit.decisions[0]);
    };
    assert_eq!(differences[0], "the verdict is closed, recorded is open");
    assert_eq!(audit.decisions[2].outcome, Recomputed::AsRecorded);
}

#[test]
fn an_approval_with_another_name() {
    let (hub, centre) = decided();
    let mut lines = exported(&hub, "a");
    let second = at(&lines, "act")[1];
    lines[second] = lines[second].replace("\"by\":\"bob\"", "\"by\":\"cid\"");
    let audit = audited(&centre, &sealed(&hub, lines));
    says(
        &audit,
        "entry 2 (approve by cid) is not what its digest was made of",
    );
    assert!(
        matches!(audit.decisions[2].outcome, Recomputed::Differs(_)),
        "{:?}",
        audit.decisions[2]
    );
}

#[test]
fn an_envelope_of_another_site() {
    let (hub, centre) = decided();
    let mut lines = exported(&hub, "a");
    let reports = at(&lines, "report");
    let envelope = |line: &str| match serde_json::from_str(line).unwrap() {
        AuditLine::Report { envelope, .. } => serde_json::to_string(&envelope).unwrap(),
        other => panic!("{other:?}"),
    };
    // The good report of drone-1 in place of the one in which drone-2 says that it drifted.
    let (good, bad) = (envelope(&lines[reports[0]]), envelope(&lines[reports[1]]));
    lines[reports[1]] = lines[reports[1]].replace(&bad, &good);
    let audit = audited(&centre, &sealed(&hub, lines));
    says(
        &audit,
        "report 1 of site `drone-2` refers to report 1 of site `drone-1`",
    );
    let Recomputed::Missing(missing) = &audit.decisions[0].outcome else {
        panic!("{:?}", audit.decisions[0]);
    };
    assert!(
        missing.starts_with("report 1 of site `drone-2`"),
        "{missing}"
    );
}

#[test]
fn a_chain_that_was_reordered() {
    let (hub, centre) = decided();
    for kind in ["decision", "act"] {
        let mut lines = exported(&hub, kind);
        let places = at(&lines, kind);
        lines.swap(places[0], places[1]);
        let audit = audited(&centre, &sealed(&hub, lines));
        says(&audit, "does not follow the one before it");
    }
}

#[test]
fn a_file_that_was_cut() {
    let (hub, centre) = decided();
    let lines = exported(&hub, "a");
    let whole = lines.len();
    for left in [1, 2, whole / 2, whole - 1] {
        says(&audited(&centre, &lines[..left]), "the file is cut");
    }
    // In the middle of its last line.
    let mut cut = lines.clone();
    cut[whole - 1].truncate(20);
    says(&audited(&centre, &cut), "the file is cut");
    // A line that the hub signed no end for.
    let mut shorter = lines;
    shorter.remove(whole - 2);
    says(
        &audited(&centre, &shorter),
        "the file is not what the hub signed",
    );
}

#[test]
fn a_bundle_that_another_fleet_signed() {
    let (hub, _) = decided();
    let other = Centre::new();
    let lines = exported(&hub, "a");
    says(&audited(&other, &lines), "does not hold under the root");
}

/// The decisions with another text, and the chain made again: whoever has the hub's key can do that much.
fn rewritten(lines: &mut [String], change: impl Fn(i64, String) -> String) {
    let mut previous = String::new();
    for at in at(lines, "decision") {
        let Ok(AuditLine::Decision { mut content, .. }) = serde_json::from_str(&lines[at]) else {
            continue;
        };
        content.decision = change(content.id, content.decision);
        let digest = Link::digest_of(&previous, content.id, &content.verdict, &content.digest());
        let chain = Some(Link {
            previous: std::mem::replace(&mut previous, digest.clone()),
            digest,
        });
        lines[at] = serde_json::to_string(&AuditLine::Decision { content, chain }).unwrap() + "\n";
    }
}

#[test]
fn an_export_of_before_is_read_and_an_edition_of_before_is_no_way_back() {
    let (hub, centre) = decided();
    let lines = exported(&hub, "a");
    assert!(lines[0].contains("outhaul-audit/2"), "{}", lines[0]);
    let mut before = lines.clone();
    before[0] = before[0].replace("outhaul-audit/2", "outhaul-audit/1");
    let audit = audited(&centre, &sealed(&hub, before));
    assert_eq!((audit.exit_code(), &audit.problems), (0, &vec![]));
    let edition = |number: u32| format!("\"edition\":{number},");
    let first = |text: String| text.replacen(&edition(EDITION), "", 1);
    // Made by edition 1, as far as the file states: the words of a rule differ, so it was not.
    let mut all = lines.clone();
    rewritten(&mut all, |_, text| first(text));
    let audit = audited(&centre, &sealed(&hub, all));
    assert_eq!(audit.problems, []);
    let Recomputed::Differs(differences) = &audit.decisions[3].outcome else {
        panic!("{:?}", audit.decisions[3]);
    };
    assert!(differences[0].starts_with("`rules` is "), "{differences:?}");
    let mut last = lines.clone();
    rewritten(
        &mut last,
        |id, text| if id == 4 { first(text) } else { text },
    );
    says(
        &audited(&centre, &sealed(&hub, last)),
        &format!("decision 4 states edition 1 of the rules, and one before it edition {EDITION}"),
    );
    let mut unknown = lines;
    rewritten(&mut unknown, |_, text| {
        text.replacen(&edition(EDITION), &edition(EDITION + 1), 1)
    });
    let audit = audited(&centre, &sealed(&hub, unknown));
    assert!(
        matches!(&audit.decisions[0].outcome, Recomputed::Missing(what) if what.contains("a version of the rules other than")),
        "{:?}",
        audit.decisions[0]
    );
}

#[test]
fn an_export_that_was_cut_by_whoever_has_the_hubs_key() {
    let (hub, centre) = decided();
    let lines = exported(&hub, "a");
    let root = fs::read(centre.root()).unwrap();
    let whole = audited(&centre, &lines);
    for (kind, head) in [("decision", &whole.head), ("act", &whole.acts_head)] {
        let mut cut = lines.clone();
        cut.remove(*at(&cut, kind).last().unwrap());
        let cut = sealed(&hub, cut).concat();
        let audit = outhaul_audit::audit(cut.as_bytes(), &root, None, &[]).unwrap();
        assert_eq!(audit.problems, [], "{kind}: nothing in the file shows it");
        let heads = [head.clone()];
        let audit = outhaul_audit::audit(cut.as_bytes(), &root, None, &heads).unwrap();
        says(&audit, "is not in the chains of this file: it was cut");
    }
    // A report that is left out is missed in its site's numbers.
    let mut left_out = lines;
    let reports = at(&left_out, "report");
    left_out.remove(reports[1]);
    says(&audited(&centre, &sealed(&hub, left_out)), "never arrived");
}

/// Asks the gate as the hub does when its clock shows so much later, on record.
pub fn asked_later(hub: &Hub, by_ms: i64) -> GateVerdict {
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let now_ms = now_ms() + by_ms;
    let request = GateRequest {
        environment: "dev".to_owned(),
        commit: NEW.to_owned(),
        ..GateRequest::default()
    };
    store
        .write(|session| {
            let question = request.question(session, now_ms).unwrap();
            let decision = EnvironmentRecord::read(session, &question)?.decide(&question);
            keep(
                session,
                (&question, &decision),
                None,
                "command line",
                now_ms,
            )?;
            Ok::<_, outhaul_hub::store::StoreError>(decision.verdict)
        })
        .unwrap()
}

#[test]
fn attack_a_clock_that_was_put_back_brings_no_ended_waiver_back() {
    let (hub, centre, mut sites) = world(&["a", "b"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let who = ["--by", "ann", "--reason", "in dock"];
    hub.json(&[&["waive", "--site", "b", "--until", "1h"][..], &who].concat());
    assert_eq!(gate(&hub, "{}").0, 0);
    assert_eq!(
        asked_later(&hub, 2 * HOUR_MS),
        GateVerdict::Closed,
        "the waiver has ended"
    );
    let (rc, decision) = gate(&hub, "{}");
    assert_eq!(
        (rc, &decision["verdict"]),
        (1, &"closed".into()),
        "{decision}"
    );
    let why = decision["reasons"][0].as_str().unwrap();
    assert!(
        why.starts_with("clock: the clock shows ")
            && why.contains(", and decision 2 on record is of "),
        "{why}"
    );
    assert_eq!(crate::gate_rules::rule(&decision, "clock")["met"], false);
    // A little is no reason: two machines may use one database.
    let audit = audited(&centre, &exported(&hub, "one.audit"));
    assert_eq!(audit.problems, []);
    assert_eq!(audit.backwards, [3]);
    let same = |audit: &Audit| {
        audit
            .decisions
            .iter()
            .all(|one| one.outcome == Recomputed::AsRecorded)
    };
    assert!(same(&audit), "{audit:?}");
    // However many questions are put on record meanwhile, the latest one stays.
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let count = store.write(|session| {
        let mut past = session.decisions(1)?.remove(0);
        for at in 0..1100 {
            session.add_decision(&past, &at.to_string(), "{}", &[])?;
            past.commit = format!("{at:040}");
        }
        session.later_decision(now_ms(), outhaul_gate::EDITION)
    });
    assert_eq!(count.unwrap().map(|later| later.id), Some(2));
}

#[test]
fn a_clock_that_was_ahead_is_said_by_a_person_and_gates_are_decided_again() {
    let (hub, centre, mut sites) = world(&["a"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let say = ["clock", "--by", "ann", "--reason", "the battery was empty"];
    let refused = hub.run(&say);
    assert_eq!(code(&refused), 2, "{}", stderr(&refused));
    assert_eq!(asked_later(&hub, 3 * HOUR_MS), GateVerdict::Open);
    assert_eq!(gate(&hub, "{}").0, 1);
    let said = hub.json(&say);
    assert_eq!(
        (&said["kind"], &said["decisions"]),
        (&"clock".into(), &"2".into()),
        "{said}"
    );
    assert_eq!(gate(&hub, "{}").0, 0);
    let lines = exported(&hub, "one.audit");
    assert!(lines[0].contains(FORMAT_5), "{}", lines[0]);
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    let outcomes: Vec<_> = audit
        .decisions
        .iter()
        .map(|one| (&*one.verdict, &one.outcome))
        .collect();
    let same = &Recomputed::AsRecorded;
    assert_eq!(outcomes, [("open", same), ("closed", same), ("open", same)]);
    let listed = hub.run(&["approvals", "--all"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("the clock was ahead until decision 2 by ann"),
        "{listed}"
    );
    let stays = hub.run(&["withdraw", "1", "--by", "ann", "--reason", "r"]);
    assert!(
        stderr(&stays).contains("1 states that the clock was ahead, which stays"),
        "{}",
        stderr(&stays)
    );
}

#[test]
fn a_clock_that_was_put_back_is_said_and_not_that_a_site_was_registered_anew() {
    let (hub, centre) = decided();
    let text = "UPDATE gate_decisions SET at_ms = at_ms - 86400000 WHERE id >= 3";
    let db = rusqlite::Connection::open(hub.state().join("hub.db")).unwrap();
    db.execute(text, []).unwrap();
    let audit = audited(&centre, &exported(&hub, "a"));
    assert_eq!(audit.backwards, [3, 4]);
    for one in &audit.decisions[2..] {
        let Recomputed::Missing(why) = &one.outcome else {
            panic!("{one:?}");
        };
        assert!(why.contains("lies before what it was decided on"), "{why}");
        assert!(
            why.contains("; decision 2, made before it, is of "),
            "{why}"
        );
        assert!(why.ends_with("the hub's clock was put back"), "{why}");
    }
    assert_eq!(audit.decisions[1].outcome, Recomputed::AsRecorded);
}

//! A backup of a hub whose data is on a real PostgreSQL: back on another server, and as a file.

use std::fs;

use outhaul_audit::Recomputed;
use outhaul_test_kit::Centre;
use outhaul_test_kit::plain::NEW;
use outhaul_tests::postgres;

use crate::audited::{audited, exported};
use crate::gate_rules::gate;
use crate::postgresql::{fails, init, name_of, with_site};
use crate::program::{Hub, code, stderr};
use crate::retention::now_ms;

#[test]
fn a_backup_of_a_server_comes_back_on_another_one_and_as_a_file() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let (hub, _centre, _, mut site) = with_site(&database);
    fs::write(hub.path("one.reports"), site.active(1, NEW)).unwrap();
    assert_eq!(code(&hub.run(&["import", "one.reports"])), 0);
    let written = hub.json(&["backup", "--to", "hub.backup"]);
    let digest = written["digest"].as_str().unwrap().to_owned();
    let backup = hub.path("hub.backup");
    let backup = backup.to_str().unwrap();
    let number = |hub: &Hub| hub.json(&["sites"])[0]["newest_report"].clone();

    let as_file = Hub::new();
    as_file.json(&["restore", backup, "--digest", &digest]);
    assert_eq!(number(&as_file), 1);
    assert!(as_file.state().join("hub.db").exists());

    let elsewhere = Hub::new();
    // Not over what is there.
    let full = elsewhere.run(&["restore", backup, "--database", &database]);
    fails(&full, 2, &["is not empty"]);
    assert!(!elsewhere.state().join("hub.database").exists());
    let empty = server.database();
    elsewhere.json(&["restore", backup, "--database", &empty]);
    assert_eq!(number(&elsewhere), 1);
    assert!(!elsewhere.state().join("hub.db").exists());
    let name = name_of(&empty);
    assert_eq!(server.sql(name, "SELECT COUNT(*) FROM restores"), "1");

    // The site goes on with either of them: what it sends next joins what came back.
    fs::write(hub.path("two.reports"), site.active(1, NEW)).unwrap();
    let two = hub.path("two.reports");
    for restored in [&as_file, &elsewhere] {
        assert_eq!(code(&restored.run(&["import", two.to_str().unwrap()])), 0);
        assert_eq!(number(restored), 2);
        let lines = exported(restored, "all.audit").concat();
        assert_eq!(lines.matches(r#"kind":"report"#).count(), 2, "{lines}");
    }
    // On the server both are in partitions, the first by the restore.
    let text = "SELECT COUNT(*) FROM report_envelopes";
    assert_eq!(server.sql(name, text), "2");
    let text = "SELECT COUNT(*) FROM reports WHERE part IS NULL";
    assert_eq!(server.sql(name, text), "0");
}

#[test]
fn a_report_whose_text_is_lost_stops_copies_until_a_person_puts_that_on_record() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let (hub, centre, stream, mut site) = with_site(&database);
    fs::write(hub.path("bundle.outhaul"), centre.bundle(&stream, 1, NEW)).unwrap();
    hub.json(&["import", "bundle.outhaul"]);
    for file in ["1.reports", "2.reports", "3.reports"] {
        fs::write(hub.path(file), site.active(1, NEW)).unwrap();
        assert_eq!(code(&hub.run(&["import", file])), 0);
        // A decision for each of them, which rests on the newest.
        gate(&hub, "{}");
    }
    let name = name_of(&database);
    let lose = |number: u64| {
        let text = format!("DELETE FROM report_envelopes WHERE number = {number}");
        server.sql(name, &text);
    };
    let lost = |number: &str| {
        let epoch = server.sql(name, "SELECT DISTINCT epoch FROM reports");
        let report = [
            "lost",
            "--site",
            "drone-1",
            "--epoch",
            epoch.trim(),
            "--number",
            number,
        ];
        hub.run(&[&report[..], &["--by", "ann", "--reason", "a disk failed"]].concat())
    };
    fails(&lost("2"), 2, &["is in the database"]);
    fails(&lost("9"), 2, &["is not on record"]);
    lose(2);
    let help = " lost --site drone-1 --epoch ";
    let missing = "the signed text of report 2 of site `drone-1`";
    fails(
        &hub.run(&["backup", "--to", "no.backup"]),
        3,
        &[missing, help],
    );
    fails(
        &hub.run(&["audit", "export", "no.audit"]),
        3,
        &[missing, help],
    );
    let said = lost("2");
    assert_eq!(code(&said), 0, "{}", stderr(&said));

    let made = hub.json(&["backup", "--to", "hub.backup"]);
    let lines = exported(&hub, "lost.audit");
    assert!(lines[0].contains("outhaul-audit/6"), "{}", lines[0]);
    let audit = audited(&centre, &lines);
    assert_eq!(audit.problems, []);
    let sentence = "the signed text of report 2 of site `drone-1` is lost, as ann states in entry 1: a disk failed";
    assert!(
        audit
            .taken_from_the_hub
            .contains(&format!("that {sentence}")),
        "{:?}",
        audit.taken_from_the_hub
    );
    // The decision that rests on it cannot be recomputed, and the others are.
    let outcomes: Vec<_> = audit.decisions.iter().map(|one| &one.outcome).collect();
    let missing = Recomputed::Missing(sentence.to_owned());
    assert_eq!(
        outcomes,
        [&Recomputed::AsRecorded, &missing, &Recomputed::AsRecorded]
    );
    let listed = hub.run(&["approvals", "--all"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(
        listed.contains("the signed text of report 2 of site `drone-1` is lost by ann"),
        "{listed}"
    );
    let other = Hub::new();
    let backup = hub.path("hub.backup");
    let digest = made["digest"].as_str().unwrap();
    other.json(&["restore", backup.to_str().unwrap(), "--digest", digest]);
    assert_eq!(other.json(&["sites"])[0]["newest_report"], 3);

    // What a site's present state rests on stays until it has reported again.
    lose(3);
    fails(
        &lost("3"),
        1,
        &["the present state of site `drone-1` rests on report 3"],
    );
    fs::write(hub.path("4.reports"), site.active(1, NEW)).unwrap();
    assert_eq!(code(&hub.run(&["import", "4.reports"])), 0);
    assert_eq!(code(&lost("3")), 0);
    hub.json(&["backup", "--to", "again.backup"]);
}

#[test]
fn a_clock_apart_from_that_of_the_databases_server_is_told_before_a_gate_is_closed_for_it() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let hub = Hub::new();
    let centre = Centre::new();
    assert_eq!(code(&init(&hub, &centre, &database)), 0);
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    for (apart_ms, expected) in [
        (0, false),
        (30_000, false),
        (-360_000, true),
        (360_000, true),
    ] {
        let told = outhaul_hub::view::clock::check(&mut store, now_ms() + apart_ms).unwrap();
        let said = told.map_or_else(String::new, |odd| odd.text);
        assert_eq!(
            said.contains(", and that of the database's server "),
            expected,
            "{apart_ms}: {said}"
        );
    }
}

//! A hub's database that is lost, and how it comes back: no folder is taken for an empty one, nothing is acknowledged into a
//! file that is gone, and after a restore nothing from before opens a gate.

use std::fs;
use std::path::Path;
use std::process::Output;

use jiff::Timestamp;
use outhaul_bundle::Digest;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Site};
use serde_json::{Value, json};

use crate::gate_rules::{APPROVED, approve, gate, report, world};
use crate::http;
use crate::program::{Hub, code, command, stderr};

#[track_caller]
fn fails(output: &Output, expected: i32, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(code(output), expected, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

fn lose_database(state: &Path) {
    for name in ["hub.db", "hub.db-wal", "hub.db-shm"] {
        drop(fs::remove_file(state.join(name)));
    }
}

fn init<'a>(root: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["init", "--root", root, "--plain-key", "a test"], more].concat()
}

#[test]
fn a_folder_whose_database_is_gone_is_no_empty_folder() {
    let (hub, centre, _) = world(&["drone-1"]);
    let root = centre.root();
    let root = root.to_str().unwrap();
    let key = hub.json(&["key"])["key_id"].clone();
    let refused = |beside: &str| {
        for arguments in [init(root, &[]), vec!["sites"], vec!["key"]] {
            fails(
                &hub.run(&arguments),
                2,
                &[
                    beside,
                    "gone or empty",
                    "outhaul-hub restore",
                    "--begin-empty",
                ],
            );
        }
    };
    lose_database(&hub.state());
    refused("`hub.key`");
    // Empty, as a full disk or a copy without its journal leaves it.
    fs::write(hub.state().join("hub.db"), b"").unwrap();
    refused("`hub.db`, `hub.key`");
    lose_database(&hub.state());
    fs::rename(hub.state().join("hub.key"), hub.path("key")).unwrap();
    for left in ["hub.db.restoring", ".hub.key.17.tmp", "hub.db-wal"] {
        fs::write(hub.state().join(left), b"x").unwrap();
        refused(&format!("`{left}`"));
        fs::remove_file(hub.state().join(left)).unwrap();
    }
    fs::rename(hub.path("key"), hub.state().join("hub.key")).unwrap();
    fs::write(hub.state().join("hub.db-wal"), b"of before").unwrap();
    fs::write(hub.state().join("hub.db.restoring"), b"half").unwrap();
    let begun = hub.json(&init(root, &["--begin-empty"]));
    assert_eq!(
        begun["key_id"], key,
        "sites go on with the key that they know"
    );
    assert_eq!(hub.json(&["sites"]), json!([]));
    let names: Vec<String> = fs::read_dir(hub.state())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("hub.db-wal.lost-")),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.ends_with("restoring")),
        "{names:?}"
    );
    // A set-up that was interrupted goes on, and is not a lost hub.
    let other = Hub::new();
    fs::create_dir(other.state()).unwrap();
    fs::write(other.state().join("hub.init"), b"").unwrap();
    fs::copy(hub.state().join("hub.key"), other.state().join("hub.key")).unwrap();
    other.init(&centre.root());
    assert!(!other.state().join("hub.init").exists());
}

fn restore(hub: &Hub, backup: &Path, more: &[&str]) -> Output {
    let file = backup.to_str().unwrap();
    hub.run(&[&["restore", file], more].concat())
}

/// The standing of the one site.
fn standing(decision: &Value) -> &str {
    decision["sites"][0]["standing"].as_str().unwrap()
}

fn made_ms(backup: &Value) -> i64 {
    let made: Timestamp = backup["made_at"].as_str().unwrap().parse().unwrap();
    made.as_millisecond()
}

#[test]
fn after_a_restore_only_new_reports_and_new_decisions_of_people_open_the_gate() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    approve(&hub, "ann");
    approve(&hub, "bob");
    assert_eq!(gate(&hub, APPROVED).0, 0);
    // Also while it serves.
    let server = hub.serve(&[]);
    let file = hub.path("1.backup");
    let made = hub.json(&["backup", "--to", file.to_str().unwrap()]);
    assert_eq!(server.stop(), 0);
    let digest = made["digest"].as_str().unwrap();
    assert_eq!(digest, Digest::of(&fs::read(&file).unwrap()).to_string());
    fails(
        &hub.run(&["backup", "--to", file.to_str().unwrap()]),
        1,
        &["exists already"],
    );
    fails(&restore(&hub, &file, &[]), 2, &["is a hub's state already"]);

    // Lost with what came since.
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let key = fs::read(hub.state().join("hub.key")).unwrap();
    fs::remove_dir_all(hub.state()).unwrap();
    let back = hub.json(&["restore", file.to_str().unwrap(), "--digest", digest]);
    assert_eq!(back["digest"], made["digest"]);
    assert_eq!(fs::read(hub.state().join("hub.key")).unwrap(), key);
    let (closed, decision) = hub.gate("dev", NEW);
    assert_eq!(
        (closed, standing(&decision)),
        (1, "before_restore"),
        "{decision}"
    );
    assert_eq!(decision["restored"]["backup_at"], made["made_at"]);
    let rules = decision["rules"].as_array().unwrap();
    let approvals = rules
        .iter()
        .find(|rule| rule["rule"] == "approvals")
        .unwrap();
    assert_eq!(approvals["met"], false, "{approvals}");
    let shown = hub.run(&["sites"]);
    assert!(
        stderr(&shown).contains("was restored at"),
        "{}",
        stderr(&shown)
    );

    // The old sticks again: one report is known, the other one was made before the backup by its own time.
    for number in [2, 3] {
        let old = hub.path(&format!("drone-1-{number}.reports"));
        hub.json(&["import", old.to_str().unwrap()]);
    }
    assert_eq!(standing(&hub.gate("dev", NEW).1), "before_restore");
    sites[0].at.wall_ms = made_ms(&made) + 1_000;
    report(&hub, &centre, &mut sites[0], C::Compliant);
    let (closed, decision) = hub.gate("dev", NEW);
    assert_eq!(
        (closed, standing(&decision)),
        (1, "confirmed"),
        "{decision}"
    );
    approve(&hub, "ann");
    approve(&hub, "bob");
    assert_eq!(hub.gate("dev", NEW).0, 0);

    // All of it is made again from the export, those of before by what counted then.
    let export = hub.path("gates.audit");
    hub.json(&["audit", "export", export.to_str().unwrap()]);
    let root = fs::read(centre.root()).unwrap();
    let audit = outhaul_audit::audit(fs::read(&export).unwrap().as_slice(), &root, None, &[]);
    let audit = audit.unwrap();
    assert_eq!(
        (audit.exit_code(), &audit.problems),
        (0, &vec![]),
        "{audit:?}"
    );
    assert!(audit.decisions.len() >= 4, "{audit:?}");
}

/// A backup with other bytes for a database, its first line in order.
fn forged(backup: &[u8], change: impl FnOnce(&Path)) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let end = backup.iter().position(|byte| *byte == b'\n').unwrap();
    let mut header: Value = serde_json::from_slice(&backup[..end]).unwrap();
    let key = usize::try_from(header["key"]["size"].as_u64().unwrap()).unwrap();
    let database = folder.path().join("db");
    fs::write(&database, &backup[end + 1 + key..]).unwrap();
    change(&database);
    let database = fs::read(&database).unwrap();
    header["database"] = json!({
        "size": database.len(), "digest": Digest::of(&database).to_string(),
    });
    let line = format!("{header}\n").into_bytes();
    [&line, &backup[end + 1..end + 1 + key], &database].concat()
}

fn run_sql(path: &Path, text: &str) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(text).unwrap();
}

/// Statements that forge a backup's database, and what the refusal names.
const FORGERIES: [(&str, &str); 8] = [
    (
        "CREATE TRIGGER t AFTER INSERT ON reports BEGIN DELETE FROM refusals; END",
        "trigger `t` was not made by this program",
    ),
    ("CREATE TABLE other (x)", "table `other` was not made"),
    ("DROP TABLE refusals", "table `refusals` is missing"),
    (
        "UPDATE current_states SET running = NULL",
        "does not follow from its reports",
    ),
    (
        "UPDATE gate_acts SET by_name = 'eve'",
        "entry 1 of what people decided",
    ),
    (
        "UPDATE gate_decisions SET verdict = 'closed'",
        "decision 1 is not what",
    ),
    (
        "UPDATE settings SET value = 'x' WHERE name = 'fleet'",
        "its `fleet` is another",
    ),
    (
        "DELETE FROM migrations WHERE version = (SELECT MAX(version) FROM migrations)",
        "its tables are of version",
    ),
];

#[test]
fn a_backup_that_does_not_hold_leaves_nothing_behind() {
    let (hub, centre, mut sites) = world(&["drone-1"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(hub.gate("dev", NEW).0, 0);
    approve(&hub, "ann");
    let file = hub.path("1.backup");
    hub.json(&["backup", "--to", file.to_str().unwrap()]);
    let good = fs::read(&file).unwrap();
    let deep = hub.path("a/b/state");
    let refused = |bytes: &[u8], expected: i32, part: &str| {
        let bad = hub.path("bad.backup");
        fs::write(&bad, bytes).unwrap();
        let tried = command()
            .args(["restore", bad.to_str().unwrap(), "--state"])
            .arg(&deep)
            .output()
            .unwrap();
        fails(&tried, expected, &[part, "help: "]);
        assert!(!hub.path("a").exists(), "{part}");
    };
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    refused(&changed, 4, "the database is not the one that was written");
    refused(&good[..good.len() - 1], 4, "is damaged or was changed");
    refused(b"{}\n", 2, "is not a backup of a hub");
    refused(
        &fs::read(hub.state().join("hub.db")).unwrap(),
        2,
        "is not a backup",
    );
    for (text, part) in FORGERIES {
        refused(&forged(&good, |path| run_sql(path, text)), 4, part);
    }
    let broken = forged(&good, |path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 4096].fill(0xa5);
        fs::write(path, bytes).unwrap();
    });
    let bad = hub.path("bad.backup");
    fs::write(&bad, &broken).unwrap();
    let tried = command()
        .args(["restore", bad.to_str().unwrap(), "--state"])
        .arg(&deep)
        .output()
        .unwrap();
    assert_ne!(code(&tried), 0, "{}", stderr(&tried));
    assert!(!hub.path("a").exists());
    let other = format!("sha256:{}", "0".repeat(64));
    let tried = command()
        .args([
            "restore",
            file.to_str().unwrap(),
            "--digest",
            &other,
            "--state",
        ])
        .arg(&deep)
        .output()
        .unwrap();
    fails(&tried, 4, &["has the digest", "help: "]);
    assert!(!hub.path("a").exists());

    // The good one makes its parents, and leftovers of an interrupted restore are no obstacle.
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("hub.db.restoring"), b"half").unwrap();
    fs::write(deep.join("hub.db-wal"), b"of a database that is gone").unwrap();
    let back = command()
        .args(["restore", file.to_str().unwrap(), "--state"])
        .arg(&deep)
        .output()
        .unwrap();
    assert_eq!(code(&back), 0, "{}", stderr(&back));
    let listed = command()
        .args(["sites", "--output", "json", "--state"])
        .arg(&deep)
        .output()
        .unwrap();
    assert_eq!(code(&listed), 0, "{}", stderr(&listed));
}

fn active(centre: &Centre, site: &mut Site) -> Vec<u8> {
    let mut event = site.event(
        1,
        NEW,
        outhaul_bundle::report::GenerationState::Active,
        C::Compliant,
    );
    event.index = Digest::of(&centre.plain_index(&site.stream, 1, NEW).to_bytes());
    site.say(outhaul_bundle::report::ReportEvent::Generation(event))
}

#[test]
fn a_server_acknowledges_nothing_into_a_database_that_was_removed_or_replaced() {
    for replaced in [false, true] {
        let (hub, centre, mut sites) = world(&["drone-1"]);
        let server = hub.serve(&[]);
        let address = server.address().to_owned();
        let (status, answer) = http::json(
            &address,
            "POST /api/v1/reports",
            &active(&centre, &mut sites[0]),
        );
        assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
        let database = hub.state().join("hub.db");
        if replaced {
            let copy = hub.path("copy.db");
            fs::copy(&database, &copy).unwrap();
            fs::rename(copy, &database).unwrap();
        } else {
            fs::remove_file(&database).unwrap();
        }
        let (status, answer) = http::json(
            &address,
            "POST /api/v1/reports",
            &active(&centre, &mut sites[0]),
        );
        assert_eq!(status, 503, "{answer}");
        let text = answer["error"].as_str().unwrap();
        assert!(text.contains("removed or replaced"), "{text}");
        assert_eq!(answer["acks"], Value::Null);
        let (status, health) = http::json(&address, "GET /healthz", b"");
        assert_eq!(
            (status, &health["status"]),
            (503, &json!("degraded")),
            "{health}"
        );
        assert_eq!(server.wait(), 3);
    }
}

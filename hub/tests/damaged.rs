//! A database that is damaged, and a disk that is full: what can be read is read, nothing is written, nothing that was acknowledged is lost.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use outhaul_tests::skipped;

use crate::gate_rules::{gate, report, world};
use crate::http;
use crate::program::{Hub, code, stderr};

const GATE: &str = "GET /api/v1/gate?environment=dev&commit=";

/// The first page of a table, and the size of one.
fn page_of(file: &Path, table: &str) -> (u64, u64) {
    let db = rusqlite::Connection::open(file).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let of = "SELECT rootpage, (SELECT page_size FROM pragma_page_size()) FROM sqlite_schema WHERE name = $1";
    db.query_row(of, [table], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })
    .map(|(page, size)| (page.unsigned_abs(), size.unsigned_abs()))
    .unwrap()
}

/// A hub with one site that is well, and an open gate.
fn open() -> (Hub, outhaul_test_kit::Site) {
    let (hub, centre, mut sites) = world(&["a"]);
    report(&hub, &centre, &mut sites[0], C::Compliant);
    assert_eq!(gate(&hub, "{}").0, 0);
    (hub, sites.remove(0))
}

/// Whoever can answer does, and nothing is written.
fn is_only_read(hub: &Hub, site: &mut outhaul_test_kit::Site) {
    let file = hub.state().join("hub.db");
    let before = fs::read(&file).unwrap();
    let asked = hub.run(&["gate", "--environment", "dev", "--commit", NEW]);
    assert_ne!(code(&asked), 0, "{}", stderr(&asked));
    let log = hub.path("serve.log");
    let server = hub.serve_logged(&[], &log);
    assert!(
        server.url.starts_with("http"),
        "{}",
        fs::read_to_string(&log).unwrap()
    );
    let (status, answer) = http::json(server.address(), &format!("{GATE}{NEW}"), b"");
    assert_eq!(
        (status, &answer["verdict"]),
        (200, &"closed".into()),
        "{answer}"
    );
    let why = answer["reasons"][0].as_str().unwrap();
    assert!(
        why.starts_with("store: the hub's database is damaged; "),
        "{why}"
    );
    let (status, answer) = http::json(
        server.address(),
        "POST /api/v1/reports",
        &site.active(1, NEW),
    );
    assert_eq!(status, 503, "{answer}");
    assert!(
        answer["error"].as_str().unwrap().contains("is damaged"),
        "{answer}"
    );
    let (status, answer) = http::json(server.address(), "GET /healthz", b"");
    assert_eq!(
        (status, &answer["status"]),
        (503, &"degraded".into()),
        "{answer}"
    );
    // What is not about the damaged part is answered.
    let (status, answer) = http::json(server.address(), "GET /api/v1/refusals", b"");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.stop(), 0);
    assert!(fs::read(&file).unwrap() == before, "the file was written");
}

/// A command that is refused because the database is damaged, and says what to do.
#[track_caller]
fn refused_for_damage(hub: &Hub, line: &[&str]) {
    let output = hub.run(line);
    let said = stderr(&output);
    assert_eq!(code(&output), 3, "{line:?}: {said}");
    for part in ["is damaged", "restore FILE`"] {
        assert!(said.contains(part), "{line:?}: {said}");
    }
}

#[test]
fn a_damaged_table_closes_the_gates_and_the_rest_is_read() {
    let (hub, mut site) = open();
    let file = hub.state().join("hub.db");
    let (page, size) = page_of(&file, "observations");
    let mut bytes = fs::read(&file).unwrap();
    let from = usize::try_from((page - 1) * size).unwrap();
    bytes[from..from + usize::try_from(size).unwrap()].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    is_only_read(&hub, &mut site);
    let listed = hub.run(&["approvals", "--all"]);
    assert_eq!(code(&listed), 0, "{}", stderr(&listed));
    // Whatever a person decides is refused, also where it meets none of the damage.
    let before = fs::read(&file).unwrap();
    for act in [
        &["approve", "--environment", "dev", "--commit", NEW][..],
        &["hold", "--environment", "dev"],
        &["waive", "--site", "a", "--until", "14d"],
        &["defer", "--site", "a", "--until", "14d"],
        &["withdraw", "1"],
        &["choose", "a", "--digest", "0123456789"],
        &["clock"],
    ] {
        refused_for_damage(&hub, &[act, &["--by", "ann", "--reason", "r"]].concat());
    }
    for act in [
        &["site", "revoke", "a"][..],
        &["prune", "--older-than", "7d", "--by", "ann"],
        &[
            "gate",
            "--environment",
            "dev",
            "--commit",
            NEW,
            "--rules",
            "{}",
            "--record",
        ],
        &["compact"],
        &["audit", "export", "damaged.audit"],
        &["acks", "."],
    ] {
        refused_for_damage(&hub, act);
    }
    assert!(fs::read(&file).unwrap() == before, "the file was written");
    assert!(!hub.path("damaged.audit").exists() && !hub.path("acks").exists());
    let backup = hub.path("hub.backup");
    let made = hub.run(&["backup", "--to", backup.to_str().unwrap()]);
    assert_eq!(code(&made), 3, "{}", stderr(&made));
    assert!(!backup.exists(), "a backup that cannot be restored");
    let sites = hub.run(&["sites"]);
    assert_eq!(code(&sites), 3);
    assert!(
        stderr(&sites).contains("the database is damaged"),
        "{}",
        stderr(&sites)
    );
}

#[test]
fn a_database_that_was_cut_is_opened_read_only_with_a_message() {
    let (hub, mut site) = open();
    let file = hub.state().join("hub.db");
    let (_, size) = page_of(&file, "observations");
    let bytes = fs::read(&file).unwrap();
    let cut = bytes.len() - usize::try_from(size * 3).unwrap();
    fs::write(&file, &bytes[..cut]).unwrap();
    is_only_read(&hub, &mut site);
    let said = stderr(&hub.run(&["approvals"]));
    assert!(
        said.contains("warning: the hub's database is damaged and is only read: "),
        "{said}"
    );
    for line in [
        &["site", "revoke", "a"][..],
        &["audit", "export", "cut.audit"],
        &["acks", "."],
    ] {
        refused_for_damage(&hub, line);
    }
}

/// Serves the state on a small file system of its own, again each time that a line comes, and ends with its input.
const SMALL_DISK: &str = r#"set -e
mount -t tmpfs -o size=4m,mode=700 none "$1"
cp -r "$2"/. "$1"
while read -r command; do
    case $command in
    serve) "$3" serve --open-reading --listen 127.0.0.1:0 --state "$1" & echo "$!" ;;
    kill) kill -KILL "$!"; wait "$!" || echo killed ;;
    fill) head -c 2500000 /dev/zero >"$1/filler"; echo filled ;;
    free) rm "$1/filler"; echo freed ;;
    esac
done
kill -KILL "$!""#;

#[test]
fn a_full_disk_refuses_reports_and_all_that_was_acknowledged_is_there_after_a_restart() {
    let (hub, _, mut sites) = world(&["a"]);
    let mount = hub.path("small");
    fs::create_dir(&mount).unwrap();
    let started = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", SMALL_DISK, "sh"])
        .args([&mount, &hub.state()])
        .arg(env!("CARGO_BIN_EXE_outhaul-hub"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut disk) = started else {
        skipped("`unshare` is not installed");
        return;
    };
    let (mut say, said) = (disk.stdin.take().unwrap(), disk.stdout.take().unwrap());
    let mut lines = BufReader::new(said).lines();
    let mut next = || lines.next().and_then(Result::ok);
    let mut tell = |text: &str| {
        // Where there is no file system of its own, nobody reads this.
        let _ = writeln!(say, "{text}");
    };
    tell("fill");
    if next().as_deref() != Some("filled") {
        skipped("no file system can be mounted here");
        disk.wait().unwrap();
        return;
    }
    let address = |one: Option<String>, other: Option<String>| {
        let both = [one, other].map(Option::unwrap);
        let url = both.iter().find(|line| line.starts_with("http")).unwrap();
        url.trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned()
    };
    tell("serve");
    let first = address(next(), next());
    let mut accepted = 0;
    let refused = loop {
        let body: Vec<u8> = (0..20).flat_map(|_| sites[0].active(1, NEW)).collect();
        let (status, answer) = http::json(&first, "POST /api/v1/reports", &body);
        if status != 200 {
            break (body, status, answer);
        }
        assert_eq!(answer["accepted"], 20, "{answer}");
        accepted += 20;
        assert!(accepted < 20_000, "the disk is never full");
    };
    assert!(refused.1 >= 500 && accepted > 0, "{accepted} {refused:?}");
    assert_eq!(http::json(&first, "GET /healthz", b"").0, 503);
    tell("kill");
    assert_eq!(next().as_deref(), Some("killed"));
    tell("serve");
    let second = address(next(), next());
    let count = |address: &str| {
        let (status, text) = http::plain(address, "GET /api/v1/reports?site=a&limit=1000", b"");
        assert_eq!(status, 200, "{text}");
        text.lines().count()
    };
    assert!(
        count(&second) >= accepted.min(1_000),
        "{accepted} were acknowledged"
    );
    let (status, answer) = http::json(&second, "GET /api/v1/sites", b"");
    assert_eq!(status, 200, "{answer}");
    tell("free");
    assert_eq!(next().as_deref(), Some("freed"));
    // What was refused is sent again, and goes on where it stopped.
    let (status, answer) = http::json(&second, "POST /api/v1/reports", &refused.0);
    assert_eq!(
        (status, &answer["refused_lines"]),
        (200, &0.into()),
        "{answer}"
    );
    drop(say);
    disk.wait().unwrap();
}

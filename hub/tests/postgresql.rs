//! The hub with its data on a real PostgreSQL: several processes, a process that is killed, what is wrong with a server, and the way there.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use outhaul_bundle::index::Stream;
use outhaul_bundle::report::ComplianceStatus as C;
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Site};
use outhaul_tests::postgres::{self, Postgres};
use serde_json::Value;

use crate::gate_rules::{gate, report, world};
use crate::http;
use crate::program::{Hub, Server, code, command, stderr};

#[track_caller]
pub fn fails(output: &Output, expected: i32, parts: &[&str]) {
    let text = stderr(output);
    assert_eq!(code(output), expected, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

pub fn init(hub: &Hub, centre: &Centre, database: &str) -> Output {
    let root = centre.root();
    let root = root.to_str().unwrap();
    let arguments = [
        "init",
        "--root",
        root,
        "--plain-key",
        "a test",
        "--database",
        database,
    ];
    hub.run(&arguments)
}

/// The name in an address.
pub fn name_of(database: &str) -> &str {
    let name = database.split("@/").nth(1).unwrap();
    name.split('?').next().unwrap()
}

/// A hub in `database` that knows the site `drone-1` of the stream `dev/drone`.
pub fn with_site(database: &str) -> (Hub, Centre, Stream, Site) {
    let hub = Hub::new();
    let centre = Centre::new();
    assert_eq!(code(&init(&hub, &centre, database)), 0);
    let stream = centre.stream("dev", "drone");
    let site = centre.site("drone-1", &stream);
    add(&hub, &site);
    (hub, centre, stream, site)
}

#[track_caller]
pub fn add(hub: &Hub, site: &Site) {
    let request = hub.path(&format!("{}.request", site.name));
    fs::write(&request, site.request()).unwrap();
    hub.add(&request, site);
}

/// The highest number that an answer acknowledges.
fn acknowledged(body: &str) -> u64 {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let acks = answer["acks"].as_array().cloned().unwrap_or_default();
    let number = |envelope: &Value| {
        let bytes = envelope.to_string().into_bytes();
        let envelope = outhaul_signer::Envelope::from_json(&bytes).unwrap();
        let ack: Value = serde_json::from_slice(envelope.unverified_payload()).unwrap();
        ack["number"].as_u64().unwrap()
    };
    acks.iter().map(number).max().unwrap_or(0)
}

/// The answer of a server that takes reports; `None` of one that was killed meanwhile.
fn post(server: &str, body: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(server).ok()?;
    let head = format!(
        "POST /api/v1/reports HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// Sends reports of a site one by one until it is told to stop or nobody answers, and returns the highest number that was
/// acknowledged.
fn send_until(server: &str, site: &mut Site, stop: &AtomicBool, begun: &Barrier) -> u64 {
    let mut acked = 0;
    for at in 0..10_000 {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let line = site.active(1, NEW);
        let Some(body) = post(server, &line) else {
            break;
        };
        acked = acked.max(acknowledged(&body));
        if at == 2 {
            begun.wait();
        }
    }
    acked
}

#[test]
fn two_hubs_on_one_database_and_one_is_killed_and_every_acknowledged_report_is_there() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let (first, second) = (Hub::new(), Hub::new());
    let centre = Centre::new();
    assert_eq!(code(&init(&first, &centre, &database)), 0);
    // Without the hub's key nobody joins; with it the folder is one more process's.
    let refused = init(&second, &centre, &database);
    fails(&refused, 2, &["is that of a hub", "hub.key"]);
    assert!(!second.state().join("hub.database").exists());
    fs::create_dir_all(second.state()).unwrap();
    fs::copy(
        first.state().join("hub.key"),
        second.state().join("hub.key"),
    )
    .unwrap();
    let joined = init(&second, &centre, &database);
    assert_eq!(code(&joined), 0, "{}", stderr(&joined));

    let stream = centre.stream("dev", "drone");
    let mut sites: Vec<Site> = (0..4)
        .map(|at| centre.site(&format!("drone-{at}"), &stream))
        .collect();
    for site in &sites {
        add(&first, site);
    }
    let (one, other) = (first.serve(&[]), second.serve(&[]));
    let stop = AtomicBool::new(false);
    // Each of the four has had three answers, then one of the two servers is killed.
    let begun = Barrier::new(sites.len() + 1);
    let addresses = [one.address().to_owned(), other.address().to_owned()];
    let acked: Vec<(String, u64)> = std::thread::scope(|scope| {
        let (stop, begun, addresses) = (&stop, &begun, &addresses);
        let sending: Vec<_> = sites
            .iter_mut()
            .enumerate()
            .map(|(at, site)| {
                scope.spawn(move || {
                    let acked = send_until(&addresses[at % 2], site, stop, begun);
                    (site.name.clone(), acked)
                })
            })
            .collect();
        begun.wait();
        // As a power cut ends it: `Drop` kills.
        drop(other);
        let (killed, live): (Vec<_>, Vec<_>) = sending
            .into_iter()
            .enumerate()
            .partition(|(at, _)| at % 2 == 1);
        let mut acked: Vec<_> = killed
            .into_iter()
            .map(|(_, one)| one.join().unwrap())
            .collect();
        stop.store(true, Ordering::Relaxed);
        acked.extend(live.into_iter().map(|(_, one)| one.join().unwrap()));
        acked
    });
    assert!(acked.iter().all(|(_, acked)| *acked >= 3), "{acked:?}");
    let name = name_of(&database);
    for (site, acked) in &acked {
        let text = format!(
            "SELECT COUNT(DISTINCT number) FROM reports WHERE site = '{site}' AND number <= {acked}"
        );
        assert_eq!(server.sql(name, &text), acked.to_string(), "of {site}");
        // What is kept of its state follows from what came in by either process.
        let (_, rows) = http::json(one.address(), "GET /api/v1/sites", b"");
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["site"] == site.as_str())
            .unwrap();
        assert!(row["newest_report"].as_u64() >= Some(*acked), "{row}");
    }
    // The one that lives takes what the other one was not able to.
    let line = sites[1].active(1, NEW);
    let (status, answer) = http::json(one.address(), "POST /api/v1/reports", &line);
    assert_eq!(
        (status, &answer["refused_lines"]),
        (200, &0.into()),
        "{answer}"
    );
}

#[test]
fn what_is_wrong_with_a_server_is_said_and_nothing_is_made() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let hub = Hub::new();
    let centre = Centre::new();
    let nobody = format!(
        "postgres://outhaul@/hub?host={}",
        hub.folder.path().display()
    );
    let database = server.database();
    let named = |name: &str| server.address(name);
    server.sql(
        "postgres",
        "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
    );
    server.sql("postgres", "CREATE ROLE guest LOGIN");
    let guest = database.replace("outhaul@", "guest@");
    for (address, expected, parts) in [
        (
            nobody.as_str(),
            3,
            &["cannot be used", "see whether the server runs"][..],
        ),
        (&named("absent"), 3, &["database \"absent\" does not exist"]),
        (&named("latin"), 3, &["encoding is LATIN1", "UTF8"]),
        (&guest, 2, &["permission denied"]),
        (
            "postgres://outhaul:secret@localhost/hub",
            2,
            &["has a password in it", "PGPASSWORD"],
        ),
        (
            "postgres://outhaul@db.example/hub?sslmode=require",
            2,
            &["verify-full"],
        ),
        (
            "mysql://db.example/hub",
            2,
            &["does not begin with `postgres://`"],
        ),
    ] {
        let output = init(&hub, &centre, address);
        fails(&output, expected, parts);
        assert!(!stderr(&output).contains("secret"), "{}", stderr(&output));
        assert!(!hub.state().exists(), "{address}");
    }
    assert_eq!(code(&init(&hub, &centre, &database)), 0);
    // Tables of a newer hub.
    let name = name_of(&database);
    server.sql(name, "INSERT INTO migrations (version) VALUES (9999)");
    fails(
        &hub.run(&["sites"]),
        2,
        &["has version 9999", "newer `outhaul-hub`"],
    );
    server.sql(name, "DELETE FROM migrations WHERE version = 9999");
    // A database that takes nothing, as a replica or a server with a full disk.
    server.sql(
        "postgres",
        &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"),
    );
    assert_eq!(
        code(&hub.run(&["sites"])),
        0,
        "reading asks for no more than reading"
    );
}

#[test]
fn a_password_comes_from_a_file_or_the_environment_and_a_wrong_one_is_said() {
    let Some(server) = Postgres::start(&[("password_encryption", "scram-sha-256")]) else {
        return outhaul_tests::skipped(
            "PostgreSQL is not installed (`apt-get install postgresql`)",
        );
    };
    let database = server.database();
    server.sql("postgres", "ALTER ROLE outhaul PASSWORD 'right'");
    fs::write(
        server.folder().join("data/pg_hba.conf"),
        "local all all scram-sha-256\n",
    )
    .unwrap();
    // From now on nobody gets in without it: also not to make the server read its file again.
    let reload = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "kill -HUP \"$(head -n 1 '{}/data/postmaster.pid')\"",
            server.folder().display()
        ))
        .status();
    assert!(reload.unwrap().success());
    let hub = Hub::new();
    let centre = Centre::new();
    let file = hub.path("passwords");
    fs::write(&file, "*:*:*:outhaul:wrong\n").unwrap();
    assert!(
        Command::new("chmod")
            .arg("600")
            .arg(&file)
            .status()
            .unwrap()
            .success()
    );
    let with_file = format!("{database}&passfile={}", file.display());
    let run = |address: &str, variable: Option<&str>| {
        let root = centre.root();
        let mut command = command();
        command.args(["init", "--root"]).arg(root).args([
            "--plain-key",
            "a test",
            "--database",
            address,
        ]);
        command
            .arg("--state")
            .arg(hub.state())
            .env_remove("PGPASSWORD")
            .env("HOME", hub.folder.path());
        command.envs(variable.map(|password| ("PGPASSWORD", password)));
        command.output().unwrap()
    };
    // The signal is taken when it is: until then everyone is let in, and no state is made by asking for the wrong database.
    let absent = server.address("absent");
    let is_closed =
        |_: &i32| stderr(&run(&absent, Some("wrong"))).contains("password authentication failed");
    assert!((0..1_000).any(|at| is_closed(&at)));
    fails(
        &run(&database, Some("wrong")),
        2,
        &["password authentication failed", "PGPASSWORD", "passfile"],
    );
    fails(&run(&database, None), 2, &["password"]);
    fails(
        &run(&with_file, None),
        2,
        &["password authentication failed"],
    );
    assert!(!hub.state().exists());
    fs::write(&file, "*:*:*:outhaul:right\n").unwrap();
    let made = run(&with_file, None);
    assert_eq!(code(&made), 0, "{}", stderr(&made));
    assert_eq!(code(&run(&with_file, None)), 0, "it is this hub already");
}

#[test]
fn a_server_that_ends_while_the_hub_serves_is_said_and_the_hub_goes_on_when_it_is_back() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    let database = server.database();
    let (hub, _centre, _, mut site) = with_site(&database);
    let (serving, name) = (hub.serve(&[]), name_of(&database));
    let send =
        |serving: &Server, line: &[u8]| http::json(serving.address(), "POST /api/v1/reports", line);
    assert_eq!(send(&serving, &site.active(1, NEW)).1["accepted"], 1);
    // Every connection is ended by the server, as when it is started again.
    let end = format!(
        "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}' AND application_name = 'outhaul-hub'"
    );
    assert_ne!(server.sql("postgres", &end), "0");
    assert_eq!(send(&serving, &site.active(1, NEW)).1["accepted"], 1);
    assert_eq!(
        http::json(serving.address(), "GET /api/v1/sites", b"").1[0]["actual"],
        1
    );
    // Nobody is let in: what comes is refused for now, and taken later.
    server.sql(
        "postgres",
        &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
    );
    server.sql("postgres", &end);
    let line = site.active(1, NEW);
    let (status, answer) = send(&serving, &line);
    assert!(matches!(status, 500 | 503), "{status} {answer}");
    assert!(answer["acks"].is_null());
    server.sql(
        "postgres",
        &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true"),
    );
    assert_eq!(send(&serving, &line).1["accepted"], 1);
}

#[test]
fn a_hub_moves_to_a_server_without_loss_and_a_move_that_was_killed_is_repeated() {
    let Some(server) = postgres::shared_or_skip() else {
        return;
    };
    if postgres::is_of_run() {
        return;
    }
    let (hub, centre, mut sites) = world(&["drone-1", "drone-2"]);
    for site in &mut sites {
        report(&hub, &centre, site, C::Compliant);
    }
    let reported = |hub: &Hub| {
        let (_, decision) = gate(hub, "{}");
        let sites = hub.json(&["sites"]);
        let seen = |row: &Value| {
            ["site", "newest_report", "actual", "verdict"].map(|name| row[name].clone())
        };
        (
            sites
                .as_array()
                .unwrap()
                .iter()
                .map(seen)
                .collect::<Vec<_>>(),
            hub.json(&["decisions"]),
            decision["verdict"].clone(),
            hub.json(&["key"])["key_id"].clone(),
        )
    };
    assert_eq!(gate(&hub, "{}").0, 0, "it is open");
    let before = reported(&hub);
    let file = hub.state().join("hub.db");

    // Not into a database of someone else.
    let other = server.database();
    let stranger = Hub::new();
    let strange = Centre::new();
    assert_eq!(code(&init(&stranger, &strange, &other)), 0);
    fails(&hub.run(&["move", "--to", &other]), 2, &["is not empty"]);
    assert!(file.exists());

    // Killed before it is done: nothing is there, and nothing changed here.
    let database = server.database();
    let name = name_of(&database);
    let mut moving = command()
        .args(["move", "--to", &database, "--state"])
        .arg(hub.state())
        .spawn()
        .unwrap();
    moving.kill().unwrap();
    moving.wait().unwrap();
    let is_moved = hub.state().join("hub.database").exists();
    assert!(is_moved || file.exists());

    // While the hub serves, nobody moves it.
    if !is_moved {
        let serving = hub.serve(&[]);
        fails(
            &hub.run(&["move", "--to", &database]),
            3,
            &["another `serve` of this hub"],
        );
        assert_eq!(serving.stop(), 0);
        let moved = hub.json(&["move", "--to", &database]);
        assert!(moved["rows"].as_u64() > Some(10), "{moved}");
    }
    assert!(!file.exists());
    assert_eq!(reported(&hub), before);
    assert_ne!(server.sql(name, "SELECT COUNT(*) FROM reports"), "0");
    fails(
        &hub.run(&["move", "--to", &database]),
        1,
        &["on a server already"],
    );

    // Killed after the rows were there and before the folder said so: the same command completes it.
    fs::rename(hub.state().join("hub.db.moved"), &file).unwrap();
    for end in ["-wal", "-shm"] {
        let moved = hub.state().join(format!("hub.db.moved{end}"));
        if moved.exists() {
            fs::rename(moved, hub.state().join(format!("hub.db{end}"))).unwrap();
        }
    }
    fs::remove_file(hub.state().join("hub.database")).unwrap();
    let again = hub.json(&["move", "--to", &database]);
    assert_eq!(again["were_there"], true, "{again}");
    assert_eq!(reported(&hub), before);
}

#[test]
fn the_tests_of_the_hub_hold_on_postgresql() {
    // These look into the file itself, or remove it.
    let of_the_file = [
        "soak_counts_from_the_first_report_of_the_unbroken_run",
        "a_gate_question_is_on_record_only_for_a_caller_with_a_token",
        "a_clock_that_was_put_back_is_said_and_not_that_a_site_was_registered_anew",
        "a_clock_that_goes_back_by_seconds_after_a_person_looked_closes_no_gate_and_by_more_it_does",
        "a_gate_that_is_closed_for_the_clock_says_so_and_counts_no_sites",
        "attack_a_clock_before_the_fleets_newest_signed_time_is_not_stated_to_be_right",
        "a_folder_whose_database_is_gone_is_no_empty_folder",
        "a_backup_that_does_not_hold_leaves_nothing_behind",
        "a_damaged_table_closes_the_gates_and_the_rest_is_read",
        "a_database_that_was_cut_is_opened_read_only_with_a_message",
        "a_full_disk_refuses_reports_and_all_that_was_acknowledged_is_there_after_a_restart",
        "a_server_acknowledges_nothing_into_a_database_that_was_removed_or_replaced",
        "the_state_is_for_its_owner_only_and_a_looser_one_is_tightened",
        "lost_text::",
    ];
    postgres::same_tests_on_postgres("the_tests_of_the_hub_hold_on_postgresql", &of_the_file);
}

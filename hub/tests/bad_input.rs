//! What people get when something is wrong: what happened, what to do, and the right exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_bundle::report::{ACK_PAYLOAD_TYPE, ENROLMENT_PAYLOAD_TYPE, PAYLOAD_TYPE};
use outhaul_signer::envelope::Envelope;
use outhaul_signer::key::SigningKey;
use outhaul_test_kit::plain::NEW;
use outhaul_test_kit::{Centre, Site};

use crate::http;
use crate::program::{Hub, code, command, stderr};

#[track_caller]
pub fn fails(hub: &Hub, arguments: &[&str], expected: i32, says: &[&str]) {
    let output = hub.run(arguments);
    let text = stderr(&output);
    assert_eq!(code(&output), expected, "{text}");
    for part in says {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert_eq!(output.stdout, b"", "data is only for success");
}

#[test]
fn each_mistake_has_its_message_and_code() {
    let hub = Hub::new();
    let centre = Centre::new();
    fails(
        &hub,
        &["sites"],
        2,
        &[
            "error: there is no hub in `",
            "does not exist",
            "A new hub is made with `outhaul-hub init",
        ],
    );
    for listen in [":8420", "localhost:8420", "127.0.0.1:99999"] {
        let said = "write an IP address and a port, such as 127.0.0.1:8420";
        fails(&hub, &["serve", "--listen", listen], 2, &[said]);
    }
    fs::write(hub.path("bad.json"), "{}").unwrap();
    let bad = hub.path("bad.json");
    fails(
        &hub,
        &[
            "init",
            "--root",
            bad.to_str().unwrap(),
            "--plain-key",
            "a test",
        ],
        4,
        &["error: "],
    );
    assert!(!hub.state().join("hub.db").exists(), "nothing half-made");
    hub.init(&centre.root());
    let root = centre.root();
    fails(
        &hub,
        &[
            "init",
            "--root",
            root.to_str().unwrap(),
            "--plain-key",
            "a test",
        ],
        2,
        &["is a hub's state already"],
    );
    fails(
        &hub,
        &["import", "/nonexistent/stick"],
        3,
        &["/nonexistent/stick", "help: "],
    );
    fails(
        &hub,
        &["import", bad.to_str().unwrap()],
        2,
        &["not a bundle, request, report"],
    );
    // Other files of Outhaul are named, with the program that takes them.
    for (name, content, says) in [
        (
            "b.backup",
            "outhaul site backup\n{}",
            [
                "is a backup of a site",
                "`outhaul-agent --state DIR restore ",
            ],
        ),
        (
            "a.kit",
            r#"{"format":"outhaul.dev/kit/v1"}"#,
            ["is a kit", "`outhaul-agent enrol "],
        ),
        (
            "slip.txt",
            "OUTHAUL:ABCD",
            ["is a slip", "`outhaul-agent import "],
        ),
    ] {
        let file = hub.path(name);
        fs::write(&file, content).unwrap();
        fails(&hub, &["import", file.to_str().unwrap()], 2, &says);
    }
    // Envelopes are known by their type, however long the payload before it is.
    let key = SigningKey::generate().unwrap();
    for (payload_type, says) in [
        (
            ENROLMENT_PAYLOAD_TYPE,
            ["is an enrolment request", "name it `*.request`"],
        ),
        (
            PAYLOAD_TYPE,
            ["is a file of reports", "name it `*.reports`"],
        ),
        (
            ACK_PAYLOAD_TYPE,
            [
                "is a file of acknowledgements",
                "`outhaul-agent import FOLDER`",
            ],
        ),
    ] {
        let envelope = Envelope::sign(payload_type, vec![b'x'; 4000], &key).to_json();
        let file = hub.path("envelopes.txt");
        fs::write(&file, [&envelope[..], b"\n", &envelope, b"\n"].concat()).unwrap();
        fails(&hub, &["import", file.to_str().unwrap()], 2, &says);
    }
    fails(
        &hub,
        &["site", "add", "nobody"],
        2,
        &["neither a file nor a site that waits"],
    );
    fails(
        &hub,
        &["site", "revoke", "nobody"],
        2,
        &["nothing was changed"],
    );
    fails(
        &hub,
        &["site", "expect", "a", "--kit", "xyz"],
        2,
        &["64 hexa"],
    );
    let waive = [
        "waive", "--site", "a", "--reason", "r", "--by", "b", "--until",
    ];
    fails(
        &hub,
        &[&waive[..], &["soon"]].concat(),
        2,
        &["`soon` is not a time"],
    );
    fails(&hub, &[&waive[..], &["2h"]].concat(), 2, &["no site `a`"]);
    fails(
        &hub,
        &["serve", "--listen", "0.0.0.0:0"],
        2,
        &["no TLS is configured", "--insecure-plain-http"],
    );
    fails(&hub, &["gate", "--environment", "dev"], 2, &["--commit"]);
    let tls = [
        "serve",
        "--tls-cert",
        bad.to_str().unwrap(),
        "--tls-key",
        bad.to_str().unwrap(),
    ];
    fails(&hub, &tls, 2, &["bad.json", "help: "]);
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let key = hub.state().join("hub.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    fails(
        &hub,
        &["key"],
        4,
        &["can be read by others", "help: `chmod 600"],
    );
    fs::remove_file(&key).unwrap();
    let lost = [
        "hub.key",
        "help: what is on record is safe: bring `hub.key` back",
    ];
    let stick = hub.path("stick");
    fs::create_dir(&stick).unwrap();
    fails(&hub, &["import", stick.to_str().unwrap()], 3, &lost);
}

#[test]
fn a_request_of_another_fleet_or_key_is_refused() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let add = |bytes: &[u8], named: &str, more: &[&str]| {
        let file = hub.path("x.request");
        fs::write(&file, bytes).unwrap();
        let add = [
            "site",
            "add",
            file.to_str().unwrap(),
            "--fingerprint",
            named,
        ];
        hub.run(&[&add[..], more].concat())
    };
    let id = |site: &Site| site.key.public().id();
    let mut foreign = centre.site("drone-1", &stream);
    foreign.fleet = "ffffffffffffffff".to_owned();
    assert_eq!(code(&add(&foreign.request(), &id(&foreign), &[])), 4);
    assert_eq!(code(&add(b"{}", "", &[])), 2);
    let site = centre.site("drone-1", &stream);
    let unnamed = add(&site.request(), "", &[]);
    assert_eq!(code(&unnamed), 2);
    assert!(
        stderr(&unnamed).contains(&format!("fingerprint {}", id(&site))),
        "the fingerprint is shown before anything is approved: {}",
        stderr(&unnamed)
    );
    assert_eq!(code(&add(&site.request(), &id(&foreign), &[])), 2);
    assert_eq!(hub.json(&["sites"]), serde_json::json!([]));
    assert_eq!(code(&add(&site.request(), &id(&site), &[])), 0);
    // The same kit with another key, and also with `--replace`: a kit is good for one key.
    let thief = centre.site("drone-1", &stream);
    for more in [&[][..], &["--replace"]] {
        let output = add(&thief.request(), &id(&thief), more);
        assert_eq!(code(&output), 4, "{}", stderr(&output));
        assert!(
            stderr(&output).contains("the kit of this request was used"),
            "{}",
            stderr(&output)
        );
    }
    // A new kit.
    let again = centre.site("drone-1", &stream);
    let request = again.request_with("a second token");
    let output = add(&request, &id(&again), &[]);
    assert_eq!(code(&output), 4);
    assert!(
        stderr(&output).contains("`--replace`"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&add(&request, &id(&again), &["--replace"])), 0);
}

#[test]
fn a_false_request_is_shown_rejected_and_the_site_comes_in_with_a_new_kit() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let (site, thief) = (
        centre.site("drone-1", &stream),
        centre.site("drone-1", &stream),
    );
    for (name, one) in [("a", &thief), ("b", &site)] {
        let file = hub.path(&format!("{name}.request"));
        fs::write(&file, one.request()).unwrap();
        hub.json(&["import", file.to_str().unwrap()]);
    }
    let waiting = hub.json(&["site", "requests"]);
    assert_eq!(waiting["count"], 2);
    for (row, one) in [(0, &thief), (1, &site)] {
        let row = &waiting["requests"][row];
        assert_eq!(row["fingerprint"], one.key.public().id());
        assert!(
            row["conflict"]
                .as_str()
                .unwrap()
                .contains("also requested for key"),
            "{row}"
        );
    }
    let unnamed = hub.run(&["site", "add", "drone-1"]);
    assert_eq!(code(&unnamed), 2);
    for one in [&thief, &site] {
        assert!(
            stderr(&unnamed).contains(&one.key.public().id()),
            "{}",
            stderr(&unnamed)
        );
    }
    assert!(
        stderr(&unnamed).contains("CONFLICT"),
        "{}",
        stderr(&unnamed)
    );
    assert_eq!(hub.json(&["sites"]), serde_json::json!([]));

    let theirs = thief.key.public().id();
    hub.json(&["site", "reject", "drone-1", "--fingerprint", &theirs]);
    let again = hub.run(&["import", hub.path("a.request").to_str().unwrap()]);
    assert_eq!(code(&again), 4);
    assert!(
        stderr(&again).contains("was rejected"),
        "{}",
        stderr(&again)
    );
    // Whoever has a copy of the kit is shut out by a new one.
    let kit = site.enrolment("a second token").hex();
    hub.json(&["site", "expect", "drone-1", "--kit", &kit]);
    let ours = site.key.public().id();
    hub.json(&["site", "reject", "drone-1", "--fingerprint", &ours]);
    let file = hub.path("c.request");
    fs::write(&file, site.request_with("a second token")).unwrap();
    let done = hub.json(&["import", file.to_str().unwrap()]);
    assert_eq!(done["requests"][0]["result"], "registered");
}

#[test]
fn a_caller_keeps_its_token_until_somebody_replaces_it() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let first = hub.json(&["caller", "add", "ci"])["token"].clone();
    fails(
        &hub,
        &["caller", "add", "ci"],
        1,
        &[
            "`ci` has a token already",
            "--replace",
            "nothing was changed",
        ],
    );
    let known = |token: &serde_json::Value| {
        let digest = outhaul_bundle::Digest::of(token.as_str().unwrap().as_bytes()).hex();
        let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
        let found = store.read(|session| session.token(&digest, 0)).unwrap();
        found.map(|token| token.name)
    };
    assert_eq!(known(&first).as_deref(), Some("ci"));
    let second = hub.json(&["caller", "add", "ci", "--replace"])["token"].clone();
    assert_eq!(known(&first), None);
    assert_eq!(known(&second).as_deref(), Some("ci"));
}

#[test]
fn a_damaged_file_that_stays_on_the_stick_is_told_and_hides_nothing_that_comes_later() {
    let hub = Hub::new();
    let centre = Centre::new();
    hub.init(&centre.root());
    let stream = centre.stream("dev", "drone");
    let mut site = centre.site("drone-1", &stream);
    fs::write(hub.path("r.request"), site.request()).unwrap();
    let request = hub.path("r.request");
    hub.add(&request, &site);
    let stick = hub.path("stick");
    fs::create_dir_all(&stick).unwrap();
    let mut damaged = site.started();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(stick.join("old.reports"), &damaged).unwrap();
    let import = || hub.run(&["import", stick.to_str().unwrap(), "--output", "json"]);
    let read = |output: &std::process::Output| -> serde_json::Value {
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = import();
    let envelope = read(&first);
    assert_eq!(code(&first), 4, "{envelope}");
    assert_eq!(envelope["errors"][0]["kind"], "trust", "{envelope}");
    assert_eq!(envelope["result"]["refused"][0]["known"], false);
    // Nothing else is there: nothing was taken in.
    let again = import();
    assert_eq!(code(&again), 1, "{}", stderr(&again));
    assert_eq!(read(&again)["result"]["refused"][0]["known"], true);
    let text = hub.run(&["import", stick.to_str().unwrap()]);
    assert_eq!(code(&text), 1);
    let text = stderr(&text);
    assert!(text.contains("refused before, unchanged: "), "{text}");
    // What comes later is taken in, and the exit code is its own.
    fs::write(stick.join("new.reports"), site.started()).unwrap();
    let later = import();
    assert_eq!(code(&later), 0, "{}", stderr(&later));
    assert_eq!(read(&later)["result"]["reports"], 1);
    let counted = || hub.json(&["sites"]).to_string();
    assert!(counted().contains("drone-1"));
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let rows = store.read(|session| session.refusals(9)).unwrap();
    assert_eq!((rows.len(), rows[0].times), (1, 1), "{rows:?}");
    // Two files with the same bytes, both for the first time, are both new; later both are known.
    let two = hub.path("two");
    fs::create_dir_all(&two).unwrap();
    for name in ["a.reports", "b.reports"] {
        fs::write(two.join(name), "x").unwrap();
    }
    for known in [false, true] {
        let both = hub.run(&["import", two.to_str().unwrap(), "--output", "json"]);
        let refused = read(&both)["result"]["refused"].clone();
        let told: Vec<_> = (0..2).map(|at| refused[at]["known"].clone()).collect();
        assert_eq!(told, [known, known], "{refused}");
    }
    // Other bytes are reported again.
    damaged[middle] ^= 3;
    fs::write(stick.join("old.reports"), &damaged).unwrap();
    assert_eq!(code(&import()), 4);
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands: [&[&str]; 15] = [
        &["site", "reject"],
        &["site", "requests"],
        &["site", "expect"],
        &["caller", "add"],
        &["caller", "remove"],
        &["serve"],
        &["init"],
        &["import"],
        &["acks"],
        &["gate"],
        &["waive"],
        &["sites"],
        &["key"],
        &["site", "add"],
        &["site", "revoke"],
    ];
    for arguments in commands {
        let output = command().args(arguments).arg("--help").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Example"), "{arguments:?}");
    }
}

#[test]
fn a_clock_that_was_put_back_behind_the_record_is_told() {
    let (hub, _, _) = crate::gate_rules::world(&["a"]);
    let asked = |hub: &Hub| {
        let reason = ["--by", "ann", "--reason", "r"];
        let waive = ["waive", "--site", "a", "--until", "2h"];
        let gate = ["gate", "--environment", "dev", "--commit", NEW];
        let all = [
            &gate[..],
            &[&waive[..], &reason].concat(),
            &["approvals"],
            &["decisions"],
            &["audit", "access"],
        ];
        all.map(|asked| stderr(&hub.run(asked)))
    };
    for said in asked(&hub) {
        assert!(!said.contains("this machine's clock"), "{said}");
    }
    let log = hub.path("log");
    let serving = hub.serve_logged(&[], &log);
    assert!(http::json(serving.address(), "GET /healthz", b"").1["clock"].is_null());
    assert!(!fs::read_to_string(&log).unwrap().contains("clock"));
    // As if the clock was an hour ahead when that was recorded: it has been put back since.
    let mut store = outhaul_hub::Store::open(&hub.state()).unwrap();
    let latest = store.read(|session| {
        let latest_ms = session.latest_on_record()?;
        Ok::<_, outhaul_hub::store::StoreError>(latest_ms)
    });
    let at_ms = latest.unwrap().unwrap();
    let entry = outhaul_hub::store::AccessEntry {
        at_ms: at_ms + 3_600_000,
        action: "token create".to_owned(),
        ..Default::default()
    };
    store.write(|session| session.add_access(&entry)).unwrap();
    drop(store);
    // A server sees it while it serves, too, and its log says it once.
    let health = || http::json(serving.address(), "GET /healthz", b"").1;
    for _ in 0..3 {
        assert!(health()["clock"].is_string());
    }
    let text = fs::read_to_string(&log).unwrap();
    let behind = text.matches("before an entry on record of").count();
    assert_eq!(behind, 1, "{text}");
    drop(serving);
    for said in asked(&hub) {
        assert!(
            said.contains("note: this machine's clock shows ")
                && said.contains("before an entry on record of"),
            "{said}"
        );
    }
}

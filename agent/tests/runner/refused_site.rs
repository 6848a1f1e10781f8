//! A site that its hub refuses: it says so by exit code, in the log and in `status`, and keeps every report.
//!
//! What comes in: a real `outhaul-hub` that serves, and sites that it does not know, or no more. What goes out: the hub's
//! rule and words, what to do, and a queue that is as long as before.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use outhaul_test_kit::{Centre, Draft, TOKEN};

use crate::site::{Site, assert_reports, code, stderr, stdout};

/// A hub of the centre's fleet that serves; ended when dropped.
struct Hub {
    child: Child,
    url: String,
    state: std::path::PathBuf,
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hub(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(outhaul_tests::program("outhaul-hub").unwrap());
    command.arg("--state").arg(state).args(arguments);
    command
}

impl Hub {
    fn new(centre: &Centre) -> Self {
        let state = centre.folder().join("hub");
        let root = centre.root();
        let root = root.to_str().unwrap();
        let made = hub(&state, &["init", "--root", root, "--plain-key", "a test"])
            .output()
            .unwrap();
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        let mut child = hub(&state, &["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().to_owned();
        Self { child, url, state }
    }

    fn add(&self, site: &Site, more: &[&str]) {
        let request = site.state().join(format!("{}.request", site.name));
        let key = site.status()["key"].as_str().unwrap().to_owned();
        let request = request.to_str().unwrap();
        let add = ["site", "add", request, "--fingerprint", &key];
        let added = hub(&self.state, &[&add[..], more].concat())
            .output()
            .unwrap();
        assert_eq!(code(&added), 0, "{}", stderr(&added));
    }
}

#[test]
fn a_site_that_its_hub_does_not_know_or_has_revoked_or_replaced_states_so_and_keeps_its_reports() {
    let centre = Centre::new();
    let hub_of_fleet = Hub::new(&centre);
    let key = hub(&hub_of_fleet.state, &["key"]).output().unwrap();
    let kit = centre.kit_with("drone-7", TOKEN, |kit| kit.hub_key = stdout(&key));
    let site = Site::with_kit("drone-7", &kit);
    site.configure(&format!("[hub]\nurl = \"{}\"", hub_of_fleet.url));
    site.take(&centre.publish(&Draft::hello("one")));
    let waiting = site.status()["reports_waiting"].as_u64().unwrap();
    let refused_for = |rule: &str, words: &str, site: &Site| {
        let words = [
            "accepts no reports of this site",
            rule,
            words,
            "stays in the queue",
        ];
        assert_reports(&site.run(&["send"]), 1, &words);
        let round = site.run(&["run", "--once"]);
        assert_reports(&round, 1, &words);
        let status = stdout(&site.run(&["status"]));
        assert!(status.contains("attention: the hub http"), "{status}");
        let status = site.status();
        assert_eq!(status["attention"][0]["what"], "hub-refuses", "{status}");
        assert_eq!(status["active"], 1, "the running bundle is not affected");
        status["reports_waiting"].as_u64().unwrap()
    };
    assert!(refused_for("(unknown-site)", "outhaul-hub site add", &site) >= waiting);

    hub_of_fleet.add(&site, &[]);
    // An acknowledgement that comes on a stick says so as well.
    let carried = site.copy();
    let stick = tempfile::tempdir().unwrap();
    let place = stick.path().to_str().unwrap();
    carried.ok(&["export", place]);
    let read = hub(&hub_of_fleet.state, &["import", place])
        .output()
        .unwrap();
    assert_eq!(code(&read), 0, "{}", stderr(&read));
    assert_eq!(carried.status()["attention"][0]["what"], "hub-refuses");
    carried.run(&["import", place]);
    let status = carried.status();
    assert_eq!(status["attention"], serde_json::Value::Null, "{status}");
    site.ok(&["send"]);
    let status = site.status();
    assert_eq!(status["reports_waiting"], 0);
    assert_eq!(status["attention"], serde_json::Value::Null, "it is over");

    // Another machine took its name.
    let token = "11111111111111111111111111111111";
    let other = Site::with_kit("drone-7", &centre.kit_with("drone-7", token, |_| {}));
    hub_of_fleet.add(&other, &["--replace"]);
    site.take(&centre.publish(&Draft::hello("two")));
    assert_eq!(site.active(), Some(2));
    // The hub takes what an old key had left to tell in its own numbering, and nothing in a new one.
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    let changed = db.execute(
        "UPDATE meta SET value = json_set(value, '$.epoch', 'ffffffffffffffff') WHERE name = 'site'",
        [],
    );
    assert_eq!(changed.unwrap(), 1);
    db.execute("DELETE FROM outbox", []).unwrap();
    db.execute("DELETE FROM meta WHERE name = 'outbox'", [])
        .unwrap();
    drop(db);
    assert_reports(&site.run(&["run", "--once"]), 1, &["(retired-key)"]);
    let words = ["accepts no reports of this site", "another key"];
    assert_reports(&site.run(&["send"]), 1, &words);
    assert!(site.status()["reports_waiting"].as_u64().unwrap() > 0);

    let revoke = ["site", "revoke", "drone-7"];
    let revoked = hub(&hub_of_fleet.state, &revoke).output().unwrap();
    assert_eq!(code(&revoked), 0, "{}", stderr(&revoked));
    assert_reports(&site.run(&["send"]), 1, &["(revoked)", "a new kit"]);
    let refusal = &site.ok(&["status"])["attention"][0];
    assert!(
        refusal["message"].as_str().unwrap().contains("revoked"),
        "{refusal}"
    );
}

#[test]
fn reports_of_a_removed_database_that_the_hub_refuses_are_said_to_be_refused_and_stay() {
    let centre = Centre::new();
    let hub_of_fleet = Hub::new(&centre);
    let key = hub(&hub_of_fleet.state, &["key"]).output().unwrap();
    let kit = |token: &str| centre.kit_with("drone-7", token, |kit| kit.hub_key = stdout(&key));
    let site = Site::with_kit("drone-7", &kit(TOKEN));
    site.configure(&format!("[hub]\nurl = \"{}\"", hub_of_fleet.url));
    site.take(&centre.publish(&Draft::hello("one")));
    hub_of_fleet.add(&site, &[]);
    let waiting = site.status()["reports_waiting"].clone();
    // All that is left are the reports: its key is gone with the database.
    let stick = tempfile::tempdir().unwrap();
    let exported = site.ok(&["export", stick.path().to_str().unwrap()]);
    let file = Path::new(exported["files"][0].as_str().unwrap()).to_owned();
    std::fs::remove_dir_all(site.state()).unwrap();
    let reports = site.state().join("rescued/reports");
    std::fs::create_dir_all(&reports).unwrap();
    std::fs::copy(&file, reports.join(file.file_name().unwrap())).unwrap();
    let enrolled = site.run(&[
        "enrol",
        kit("11111111111111111111111111111111").to_str().unwrap(),
    ]);
    assert_reports(&enrolled, 0, &["have not reached the hub"]);
    hub_of_fleet.add(&site, &["--replace"]);
    site.configure(&format!("[hub]\nurl = \"{}\"", hub_of_fleet.url));
    let words = [
        "retired-key",
        "0 of them acknowledged; the others stay in `rescued/reports`",
    ];
    let sent = site.run(&["send"]);
    assert_reports(&sent, 1, &words);
    let status = site.status();
    let found = status["attention"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["what"] == "rescued-reports");
    let said = found.unwrap().to_string();
    for words in [
        "the hub refused those of numbering",
        "retired-key",
        "bring a copy of it to whoever runs the hub",
    ] {
        assert!(said.contains(words), "`{words}` is not in: {said}");
    }
    assert_eq!(std::fs::read_dir(&reports).unwrap().count(), 1);
    assert!(waiting.as_u64() > Some(0));
}

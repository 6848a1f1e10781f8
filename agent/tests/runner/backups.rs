//! `backup` and `restore`: a site moves to another machine, the hub sees no number twice, and a damaged file changes nothing.
//!
//! What comes in: backups that the real program wrote, and the same with one thing wrong. What goes out: the restored
//! site's reports as a hub reads them, or a refusal by name and an empty folder.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use outhaul_bundle::Digest;
use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};
use outhaul_tests::Checked as _;
use serde_json::{Value, json};

use crate::site::{Site, assert_reports, code, stdout, tree};

/// A backup of a site that runs bundle 1, with its digest.
pub struct Backed {
    pub centre: Centre,
    pub site: Site,
    pub file: PathBuf,
    digest: String,
}

impl Backed {
    pub fn new(arguments: &[&str]) -> Self {
        let centre = Centre::new();
        let site = Site::new(&centre, "drone-7");
        site.configure("drift_s = 60\n");
        site.take(&centre.publish(&Draft::hello("one")));
        let file = site.folder.path().join("drone-7.backup");
        let to = ["backup", "--to", file.to_str().unwrap()];
        let printed = site.ok(&[&to[..], arguments].concat());
        Self {
            digest: printed["digest"].as_str().unwrap().to_owned(),
            centre,
            site,
            file,
        }
    }

    /// Another machine, with nothing on it.
    pub fn machine(&self) -> Site {
        Site {
            name: self.site.name.clone(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn restore_on(&self, machine: &Site, file: &Path) -> Output {
        let arguments = ["restore", file.to_str().unwrap(), "--who", "ann"];
        machine.command(&arguments).checked().unwrap()
    }
}

pub fn restored(backed: &Backed) -> Site {
    let machine = backed.machine();
    let file = backed.file.to_str().unwrap();
    let printed = machine.ok(&["restore", file, "--digest", &backed.digest, "--who", "ann"]);
    assert_eq!(printed["digest"], backed.digest.as_str());
    machine
}

#[test]
fn a_restored_site_goes_on_with_its_keys_and_numbers_its_reports_anew() {
    let backed = Backed::new(&["--with-content"]);
    assert_eq!(
        fs::metadata(&backed.file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let bytes = fs::read(&backed.file).unwrap();
    assert_eq!(Digest::of(&bytes).to_string(), backed.digest);
    let before = backed.site.status();
    // What the old machine reported after the backup must not come again under the same numbers.
    backed
        .site
        .take(&backed.centre.publish(&Draft::hello("two")));
    let old = backed.site.reports();

    let machine = restored(&backed);
    let status = machine.status();
    assert_eq!(status["key"], before["key"]);
    assert_eq!(status["active"], 1);
    assert_eq!(
        fs::read(machine.state().join("agent.toml")).unwrap(),
        b"drift_s = 60\n"
    );
    let new = machine.reports();
    assert_ne!(old[0].epoch, new[0].epoch, "a numbering of its own");
    let ReportEvent::Decision { what, who, .. } = &new[0].event else {
        panic!("{:?}", new[0]);
    };
    assert_eq!(what, "renumber");
    assert!(who.starts_with("ann: restored from a backup of "), "{who}");
    let Some(ReportEvent::Observation(last)) = new.last().map(|last| &last.event) else {
        panic!("{new:?}");
    };
    assert_eq!(last.number, 1, "what runs is known under the new numbering");
    let printed = stdout(&machine.run(&["status"]));
    assert!(printed.contains("restored from a backup"), "{printed}");

    // The content is there, and what was applied is corrected on the new host.
    assert_eq!(code(&machine.run(&["apply"])), 0);
    assert_eq!(machine.applied()["hello/manifest.yaml"], b"greeting: one\n");
    machine.take(&backed.centre.publish(&Draft::hello("three")));
    let modes = ["agent.db", "site.key", "identities/site.age"].map(|name| {
        fs::metadata(machine.state().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o077
    });
    assert_eq!(modes, [0, 0, 0]);
}

#[test]
fn what_kept_a_bundle_away_on_the_machine_of_the_backup_is_not_said_of_the_restored_one() {
    let backed = Backed::new(&[]);
    let site = &backed.site;
    site.configure("min_free_mb = 1000000000\n");
    let second = backed.centre.publish(&Draft::hello("two"));
    assert_eq!(code(&site.import(&second)), 3);
    site.configure("");
    assert_eq!(site.status()["attention"][0]["what"], "not-taken");
    let file = site.folder.path().join("later.backup");
    site.ok(&["backup", "--to", file.to_str().unwrap()]);
    let machine = backed.machine();
    assert_eq!(code(&backed.restore_on(&machine, &file)), 0);
    let attention = machine.status()["attention"].to_string();
    assert!(!attention.contains("not-taken"), "{attention}");
}

#[test]
fn without_content_a_restored_site_takes_its_bundle_from_a_stick_again() {
    let backed = Backed::new(&[]);
    let machine = restored(&backed);
    assert!(!machine.state().join("generations/1/index.json").exists());
    // What is here and what is not is said once, and nothing says the contrary.
    let status = machine.status();
    assert_eq!(status["generations"][0]["on_disk"], false, "{status}");
    assert_eq!(
        status["assignments"][0]["status"], "in_progress",
        "{status}"
    );
    let printed = stdout(&machine.run(&["status"]));
    for words in [
        "active: bundle 1, by the database; its files are not on this machine",
        "hello: in progress: not looked at since this site was restored from a backup",
        "attention: the files of bundle 1 are not on this machine",
        "import bundle 1 again",
    ] {
        assert!(printed.contains(words), "`{words}` is not in: {printed}");
    }
    for never in ["on disk", "as desired", "safe to remove"] {
        assert!(!printed.contains(never), "{printed}");
    }
    let words = [
        "is not known here: bundle 1 is active according to the database",
        "import bundle 1 again",
    ];
    assert_reports(&machine.run(&["set", "WIDTH=70"]), 1, &words);
    assert_reports(&machine.run(&["values"]), 0, &words);
    let newest = backed.centre.publish(&Draft::hello("two"));
    machine.take(&newest);
    assert_eq!(machine.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn a_site_is_never_restored_over_another() {
    let backed = Backed::new(&[]);
    let other = Site::new(&backed.centre, "drone-8");
    let before = tree(&other.state());
    let words = ["holds `agent.db`: a site is restored into an empty folder only"];
    assert_reports(&backed.restore_on(&other, &backed.file), 2, &words);
    assert_eq!(
        tree(&other.state()).keys().collect::<Vec<_>>(),
        before.keys().collect::<Vec<_>>()
    );
    assert_eq!(other.status()["site"], "drone-8");
}

#[test]
fn an_interrupted_restore_is_cleared_by_the_next_one() {
    let backed = Backed::new(&[]);
    let machine = backed.machine();
    // As a power cut leaves it: put together, some names given, the database not.
    let state = machine.state();
    fs::create_dir_all(state.join("restoring/identities")).unwrap();
    fs::write(state.join("restoring/agent.db"), "half").unwrap();
    fs::write(state.join("site.key"), "half").unwrap();
    fs::write(state.join("floors.json"), "half").unwrap();
    assert_eq!(code(&backed.restore_on(&machine, &backed.file)), 0);
    assert_eq!(machine.status()["key"], backed.site.status()["key"]);
    assert!(!state.join("restoring").exists());
}

/// A backup taken apart: its header, and the bytes of its files.
struct Parts {
    header: Value,
    files: Vec<Vec<u8>>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
        assert_eq!(lines.next().unwrap(), b"outhaul site backup");
        let header: Value = serde_json::from_slice(lines.next().unwrap()).unwrap();
        let mut rest = lines.next().unwrap();
        let mut files = Vec::new();
        for entry in header["entries"].as_array().unwrap() {
            let size = usize::try_from(entry["bytes"].as_u64().unwrap()).unwrap();
            let (file, after) = rest.split_at(size);
            files.push(file.to_vec());
            rest = after;
        }
        Self { header, files }
    }

    fn at(&self, name: &str) -> usize {
        let entries = self.header["entries"].as_array().unwrap();
        entries.iter().position(|one| one["path"] == name).unwrap()
    }

    /// Another content, with digest and size as they then are.
    fn exchange(&mut self, name: &str, content: Vec<u8>) {
        let at = self.at(name);
        self.header["entries"][at]["bytes"] = json!(content.len());
        self.header["entries"][at]["digest"] = json!(Digest::of(&content).to_string());
        self.files[at] = content;
    }

    /// The file again, with a sum that is right.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("outhaul site backup\n{}\n", self.header).into_bytes();
        bytes.extend(self.files.iter().flatten());
        let sum = Digest::of(&bytes);
        bytes.extend(format!("{sum}\n").into_bytes());
        bytes
    }
}

/// Rewrites the database of a backup with SQL.
fn with_sql(parts: &Parts, folder: &Path, sql: &str) -> Vec<u8> {
    let path = folder.join("edited.db");
    fs::write(&path, &parts.files[parts.at("agent.db")]).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(sql).unwrap();
    drop(db);
    fs::read(&path).unwrap()
}

/// Adds a file to a backup.
fn add(parts: &mut Parts, name: &str, content: &[u8]) {
    let one = json!({"path": name, "bytes": content.len(), "mode": 0o600,
        "digest": Digest::of(content).to_string()});
    parts.header["entries"].as_array_mut().unwrap().push(one);
    parts.files.push(content.to_vec());
}

/// A backup with one thing changed, and a sum that is right.
fn changed(good: &[u8], change: impl FnOnce(&mut Parts)) -> Vec<u8> {
    let mut parts = Parts::of(good);
    change(&mut parts);
    parts.bytes()
}

/// Damage of the file itself: the words of its refusal, and the file.
fn damaged_files(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let flipped = |at: usize| {
        let mut bytes = good.to_vec();
        bytes[at] ^= 1;
        bytes
    };
    vec![
        ("it does not begin as a backup", flipped(0)),
        ("it does not begin as a backup", Vec::new()),
        ("its header is damaged", good[..200].to_vec()),
        ("and it has", good[..good.len() - 1].to_vec()),
        ("and it has", [good, b"x"].concat()),
        ("`site.key` in it is damaged", {
            let mut parts = Parts::of(good);
            let at = parts.at("site.key");
            parts.files[at][30] ^= 1;
            parts.bytes()
        }),
        ("its last line is not the digest", flipped(good.len() - 3)),
        (
            "it is of format `outhaul.dev/site-backup/v2`",
            changed(good, |parts| {
                parts.header["format"] = json!("outhaul.dev/site-backup/v2");
            }),
        ),
        (
            "which is not part of a backup",
            changed(good, |parts| add(parts, "../escape", b"x")),
        ),
        (
            "which is not part of a backup",
            changed(good, |parts| add(parts, "generations/1/index.json", b"x")),
        ),
    ]
}

/// Damage of what is in it, and the file is as its header states.
fn damaged_contents(good: &[u8], folder: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let sql = |sql: &str| {
        changed(good, |parts| {
            let edited = with_sql(parts, folder, sql);
            parts.exchange("agent.db", edited);
        })
    };
    vec![
        (
            "it holds `floors.json` twice",
            changed(good, |parts| {
                let copy = parts.files[parts.at("floors.json")].clone();
                add(parts, "floors.json", &copy);
            }),
        ),
        (
            "it does not hold `site.key`",
            changed(good, |parts| {
                let at = parts.at("site.key");
                parts.header["entries"].as_array_mut().unwrap().remove(at);
                parts.files.remove(at);
            }),
        ),
        (
            "the keys in it cannot be used",
            changed(good, |parts| {
                parts.exchange("site.key", b"no key\n".to_vec());
            }),
        ),
        (
            "the database in it cannot be used",
            changed(good, |parts| {
                let mut database = parts.files[parts.at("agent.db")].clone();
                database[4096..8192].fill(0xff);
                parts.exchange("agent.db", database);
            }),
        ),
        (
            "it is not shaped as an agent's: `spy` differs",
            sql("CREATE TRIGGER spy AFTER INSERT ON meta BEGIN DELETE FROM outbox; END"),
        ),
        (
            "the database is of version 99",
            sql("PRAGMA user_version = 99"),
        ),
        (
            "and it holds the database of site `drone-9`",
            sql("UPDATE meta SET value = replace(value, 'drone-7', 'drone-9') WHERE name = 'site'"),
        ),
        (
            "the settings in it cannot be used",
            changed(good, |parts| {
                parts.exchange("agent.toml", b"drift_s = \"often\"\n".to_vec());
            }),
        ),
    ]
}

#[test]
fn every_kind_of_damage_is_refused_by_name_and_leaves_nothing() {
    let backed = Backed::new(&[]);
    let folder = tempfile::tempdir().unwrap();
    let good = fs::read(&backed.file).unwrap();
    let mut kinds = damaged_files(&good);
    kinds.extend(damaged_contents(&good, folder.path()));
    let file = folder.path().join("damaged.backup");
    let mut seen = BTreeSet::new();
    for (words, bytes) in kinds {
        fs::write(&file, bytes).unwrap();
        let machine = backed.machine();
        let refused = backed.restore_on(&machine, &file);
        assert_reports(&refused, 4, &["is refused, nothing was changed", words]);
        assert!(
            !machine.state().exists(),
            "{words}: {:?}",
            tree(&machine.state())
        );
        seen.insert(words);
    }
    assert!(seen.len() >= 12, "{seen:?}");
    // Another file than the one whose digest was written down.
    let machine = backed.machine();
    let other = Digest::of(b"another").to_string();
    let arguments = ["restore", backed.file.to_str().unwrap(), "--digest", &other];
    let refused = machine.command(&arguments).checked().unwrap();
    assert_reports(
        &refused,
        4,
        &["another file than the one that was asked for"],
    );
    assert!(!machine.state().exists());
}

#[test]
fn a_backup_that_cannot_be_written_leaves_no_keys_behind() {
    let backed = Backed::new(&[]);
    let nowhere = backed.site.folder.path().join("nowhere/drone-7.backup");
    let refused = backed
        .site
        .run(&["backup", "--to", nowhere.to_str().unwrap()]);
    assert_reports(&refused, 3, &["nowhere"]);
    assert!(!backed.site.state().join("agent.db.backup").exists());
    assert_eq!(backed.site.status()["active"], 1);
}

#[test]
fn a_backup_whose_digest_was_written_down_is_not_replaced() {
    let backed = Backed::new(&[]);
    let before = fs::read(&backed.file).unwrap();
    let again = ["backup", "--to", backed.file.to_str().unwrap()];
    let refused = backed.site.run(&again);
    assert_reports(
        &refused,
        2,
        &[
            "exists already; nothing was written",
            "help: name a new file",
        ],
    );
    assert_eq!(fs::read(&backed.file).unwrap(), before);
}

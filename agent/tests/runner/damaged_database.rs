//! A database of which a part is damaged: a page that was overwritten, or an end that is missing.
//!
//! What must come out: every command that needs it refuses it with one message, whichever page it needs, and changes nothing; what the message
//! advises works as it is typed.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use outhaul_test_kit::folder::Tree;
use outhaul_test_kit::{Centre, Draft};

use crate::site::{Site, assert_reports, stderr, stdout, tree};

/// The size of a page, and one that no page of a database looks like.
const PAGE: u64 = 4096;
const OVERWRITTEN: [u8; 4096] = [0xA5; 4096];

fn database(site: &Site) -> PathBuf {
    site.state().join("agent.db")
}

/// A site that runs bundle 2, with bundle 1 before it and a hold, and its whole database in one file.
fn site() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    site.take(&centre.publish(&Draft::hello("two")));
    site.hold("hello", "ann", "repair");
    let db = rusqlite::Connection::open(database(&site)).unwrap();
    let free: u32 = db
        .query_row("PRAGMA freelist_count", [], |row| row.get(0))
        .unwrap();
    assert_eq!(free, 0, "a page that is free may hold anything");
    drop(db);
    (centre, site)
}

/// All that lies in the state folder, without what says who works on it.
fn all(site: &Site) -> Tree {
    let mut all = tree(&site.state());
    all.remove("lock");
    all
}

/// Copies of a site, each with another damage, named.
fn damaged(site: &Site) -> Vec<(String, Site)> {
    let bytes = fs::metadata(database(site)).unwrap().len();
    let pages = bytes / PAGE;
    assert!(pages > 8, "{pages}");
    let overwritten = (0..pages).map(|page| {
        let copy = site.copy();
        let file = fs::File::options()
            .write(true)
            .open(database(&copy))
            .unwrap();
        file.write_all_at(&OVERWRITTEN, page * PAGE).unwrap();
        (format!("page {page} overwritten"), copy)
    });
    let shorter = [100, PAGE, PAGE * pages / 2, bytes - 1].map(|length| {
        let copy = site.copy();
        let file = fs::File::options()
            .write(true)
            .open(database(&copy))
            .unwrap();
        file.set_len(length).unwrap();
        (format!("{length} bytes of {bytes}"), copy)
    });
    overwritten.chain(shorter).collect()
}

#[test]
fn every_command_refuses_a_damaged_database_whichever_page_it_needs_and_changes_nothing() {
    let (centre, site) = site();
    let kit = centre.kit("drone-7");
    let (kit, third) = (
        kit.to_str().unwrap(),
        centre.publish(&Draft::hello("three")),
    );
    let third = third.to_str().unwrap();
    let stick = tempfile::tempdir().unwrap();
    let (out, backup) = (
        stick.path().to_str().unwrap(),
        stick.path().join("a.backup"),
    );
    let backup = backup.to_str().unwrap();
    let commands: [&[&str]; 14] = [
        &["enrol", kit],
        &["enrol", kit, "--adopt-changed"],
        &["status"],
        &["plan", third],
        &["import", third],
        &["apply"],
        &["approve", "3"],
        &["hold"],
        &["hold", "--release", "--assignment", "hello"],
        &["rollback"],
        &["export", out],
        &["backup", "--to", backup],
        &["run", "--once"],
        &["run"],
    ];
    for (what, site) in damaged(&site) {
        let before = all(&site);
        for command in commands {
            let done = site.run(command);
            let said = format!("{what}: {command:?}: {}{}", stdout(&done), stderr(&done));
            assert_eq!(done.status.code(), Some(3), "{said}");
            let database = format!("the database `{}` is damaged (", database(&site).display());
            assert!(stderr(&done).contains(&database), "{said}");
            assert_eq!(stderr(&done).matches("error: ").count(), 1, "{said}");
            assert_eq!(all(&site), before, "{said}");
        }
        assert!(tree(stick.path()).is_empty(), "{what}");
    }
}

#[test]
fn what_is_advised_for_a_damaged_database_works_as_it_is_typed() {
    let (centre, site) = site();
    let third = centre.publish(&Draft::hello("three"));
    let (_, site) = damaged(&site).swap_remove(5);
    let help = [
        "stop the service first, where it runs (`systemctl stop outhaul-agent`)",
        "`outhaul-agent restore FILE`",
        "move `",
        "enrol this site with a new kit (`outhaul site enrol` at the centre)",
        "leave all else in the folder",
        "what people hold, from `holds.json`",
    ];
    let kit = centre.kit("drone-7");
    let kit = kit.to_str().unwrap();
    assert_reports(&site.run(&["enrol", kit]), 3, &help);
    // Aside within the folder, as someone may understand it.
    fs::rename(database(&site), site.state().join("agent.db.damaged")).unwrap();
    let enrolled = site.run(&["enrol", kit]);
    assert_reports(&enrolled, 0, &["is held again, by `holds.json` (1 hold;"]);
    site.ok(&["hold", "--release", "--assignment", "hello"]);
    site.take(&third);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: three\n");
}

#[test]
fn what_was_committed_and_stands_beside_a_damaged_database_stays_there() {
    let (centre, site) = site();
    let db = rusqlite::Connection::open(database(&site)).unwrap();
    // As after a power cut: what is written is in the file beside it only.
    db.pragma_update(None, "wal_autocheckpoint", 0).unwrap();
    db.execute("INSERT INTO meta (name, value) VALUES ('a-test', '1')", [])
        .unwrap();
    let cut = site.copy();
    drop(db);
    let wal = cut.state().join("agent.db-wal");
    assert!(fs::metadata(&wal).unwrap().len() > 0);
    let file = fs::File::options()
        .write(true)
        .open(database(&cut))
        .unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length / 2 / PAGE * PAGE).unwrap();
    drop(file);
    let mut before = all(&cut);
    let done = cut.run(&["enrol", centre.kit("drone-7").to_str().unwrap()]);
    assert_reports(&done, 3, &["is damaged ("]);
    let mut after = all(&cut);
    // What processes share while they have it open holds nothing.
    for one in [&mut before, &mut after] {
        one.remove("agent.db-shm");
    }
    assert_eq!(after, before);
}

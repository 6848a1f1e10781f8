//! What is left of a database that was cut short, moved, removed on a full disk, or replaced by an older copy; and what is said of it.
//!
//! What must come out: no report that can still be read is lost, nothing is made under a number that was given before, and the way back that
//! is printed works as it is printed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use outhaul_test_kit::{Centre, Draft};

use crate::service::{Service, log};
use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::taken_away::{DATABASE, as_printed, at_work, path, remove, rescued_stick, running};

fn database(site: &Site) -> PathBuf {
    site.state().join("agent.db")
}

/// A whole copy of a site's database in one file.
fn copy_of_database(site: &Site, name: &str) -> PathBuf {
    let copy = site.folder.path().join(name);
    let db = rusqlite::Connection::open(database(site)).unwrap();
    db.execute("VACUUM INTO ?1", [path(&copy)]).unwrap();
    copy
}

fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_database_that_is_cut_short_under_the_service_is_seen_and_said_with_a_way_back() {
    for (is_used, part) in [(true, 0), (true, 4096), (true, 50_000), (false, 5000)] {
        let centre = Centre::new();
        let (site, mut service) = at_work(&centre);
        // What another process writes, this one reads again.
        if is_used {
            site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
        }
        let before = site.event_log();
        let file = fs::File::options().write(true).open(database(&site));
        let file = file.unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(part).unwrap();
        assert_eq!(service.ended().code(), Some(3));
        let said = fs::read_to_string(log(&site)).unwrap();
        let words = format!("was cut short, from {length} to {part} bytes, while this process");
        assert!(said.contains(&words), "{said}");
        for status in [said.clone(), stderr(&site.run(&["status"]))] {
            for of_sqlite in ["malformed", "not a database", "btree", "error code"] {
                assert!(!status.contains(of_sqlite), "{status}");
            }
        }
        let rescued = files(&site.state().join("rescued"));
        assert!(
            !rescued.iter().any(|name| name.contains(".part")),
            "{rescued:?}"
        );
        // What no other process wrote since, this one still has in memory.
        if !is_used {
            assert!(said.contains(", and is saved in `"), "{said}");
            let moves = format!("mv {}", path(&database(&site)));
            assert!(as_printed(&said, &moves).status.success(), "{said}");
            assert!(as_printed(&said, "if test ").status.success(), "{said}");
            let now = site.event_log();
            assert_eq!(now.get(..before.len()), Some(&before[..]));
            site.take(&centre.publish(&Draft::hello("two")));
            continue;
        }
        assert!(
            said.contains("could not be saved (parts of it are gone)"),
            "{said}"
        );
        assert!(said.contains("`outhaul-agent restore FILE`"), "{said}");
        // As it is advised without a backup: with what was beside it.
        let beside = fs::read(site.state().join("agent.db-wal"));
        let moves = format!("mv {}", path(&database(&site)));
        assert!(as_printed(&said, &moves).status.success(), "{said}");
        for name in DATABASE {
            assert!(!site.state().join(name).exists(), "{said}");
        }
        let aside = site.folder.path().join("agent.db.aside-wal");
        assert_eq!(fs::read(aside).ok(), beside.ok());
        site.ok(&["enrol", path(&centre.kit("drone-7"))]);
        site.ok(&["hold", "--release"]);
        site.take(&centre.publish(&Draft::hello("two")));
    }
}

#[test]
fn an_older_copy_from_before_the_saved_one_is_seen_without_site_json_of_that_time() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let older = copy_of_database(&site, "older.db");
    let identity = fs::read(site.state().join("site.json")).unwrap();
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 1 is active");
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let before = site.event_log();
    // As after a power cut before it was written.
    fs::write(site.state().join("site.json"), identity).unwrap();
    remove(&site, &["agent.db"]);
    assert_eq!(service.ended().code(), Some(3));
    remove(&site, &DATABASE);
    fs::copy(&older, database(&site)).unwrap();
    let words = ["is an older copy than", "and is saved in `"];
    let refused = site.run(&["run", "--once"]);
    assert_reports(&refused, 3, &words);
    let said = stderr(&refused);
    assert!(as_printed(&said, "mv ").status.success(), "{said}");
    assert!(as_printed(&said, "if test ").status.success(), "{said}");
    assert_eq!(site.event_log(), before);
}

#[test]
fn what_is_left_beside_a_lost_database_is_kept_when_the_site_is_enrolled_anew() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    remove(&site, &DATABASE);
    fs::write(site.state().join("agent.db-wal"), "frames").unwrap();
    let enrolled = site.run(&["enrol", path(&centre.kit("drone-7"))]);
    assert_reports(&enrolled, 0, &["is kept in `", "rescued/left`"]);
    let kept = site.state().join("rescued/left/agent.db-wal");
    assert_eq!(fs::read(kept).unwrap(), b"frames");
    site.take(&centre.publish(&Draft::hello("two")));
}

#[test]
fn a_damaged_database_is_moved_and_not_removed_where_an_earlier_one_is_saved() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    remove(&site, &["agent.db"]);
    assert_eq!(service.ended().code(), Some(3));
    remove(&site, &DATABASE);
    fs::write(database(&site), "damaged").unwrap();
    fs::write(site.state().join("agent.db-wal"), "frames").unwrap();
    let said = stderr(&site.run(&["status"]));
    assert!(said.contains("`outhaul-agent restore FILE`"), "{said}");
    assert!(as_printed(&said, "mv ").status.success(), "{said}");
    assert!(as_printed(&said, "if test ").status.success(), "{said}");
    let aside = |name: &str| fs::read(site.folder.path().join(name)).unwrap();
    assert_eq!(aside("agent.db.aside"), b"damaged");
    assert_eq!(aside("agent.db.aside-wal"), b"frames");
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_site_is_not_enrolled_over_what_an_interrupted_restore_left() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let restoring = site.state().join("restoring");
    fs::create_dir(&restoring).unwrap();
    // Everything was in its place: only the folder is removed.
    let kit = centre.kit("drone-7");
    site.ok(&["enrol", path(&kit)]);
    assert!(!restoring.exists());
    remove(&site, &DATABASE);
    fs::create_dir(&restoring).unwrap();
    let words = ["interrupted", "`outhaul-agent restore FILE`"];
    assert_reports(&site.run(&["enrol", path(&kit)]), 2, &words);
    assert!(!database(&site).exists());
}

#[test]
fn beside_an_older_copy_the_newer_one_that_was_saved_is_named_and_put_back_as_printed() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let older = copy_of_database(&site, "older.db");
    site.take(&centre.publish(&Draft::hello("two")));
    let mut service = Service::start(&site);
    service.wait_for("STATUS=bundle 2 is active");
    let before = site.event_log();
    // An earlier one lies there as well, and was written later.
    let rescued = site.state().join("rescued");
    remove(&site, &["agent.db"]);
    assert_eq!(service.ended().code(), Some(3));
    let saved = files(&rescued);
    let newest = saved.iter().find(|name| name.ends_with(".db")).unwrap();
    let epoch = newest.rsplit_once('-').unwrap().0;
    fs::copy(&older, rescued.join(format!("{epoch}-2.db"))).unwrap();
    remove(&site, &DATABASE);
    fs::copy(&older, database(&site)).unwrap();
    for command in [&["status"][..], &["run", "--once"], &["apply"]] {
        let named = format!("is saved in `{}`", rescued.join(newest).display());
        let words = ["is an older copy than", "at least", &named];
        assert_reports(&site.run(command), 3, &words);
    }
    // The number that is said is one that was made.
    let said = stderr(&site.run(&["status"]));
    let at_least = said.split("at least ").nth(1).unwrap();
    let at_least: usize = at_least.split(' ').next().unwrap().parse().unwrap();
    assert!(at_least <= before.len(), "{said}");
    assert!(as_printed(&said, "mv ").status.success(), "{said}");
    assert!(as_printed(&said, "if test ").status.success(), "{said}");
    assert_eq!(site.event_log(), before);
    assert_eq!(site.active(), Some(2));
    // What is left in `rescued` is older than what the site works with: it is named as no way back.
    remove(&site, &DATABASE);
    let said = stderr(&site.run(&["status"]));
    assert!(!said.contains("rescued/"), "{said}");
    assert!(said.contains("`outhaul-agent restore FILE`"), "{said}");
}

#[test]
fn a_database_that_was_moved_is_said_to_be_gone_with_what_is_known_and_comes_back_as_printed() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let before = site.event_log();
    let aside = site.folder.path().join("moved.db");
    fs::rename(database(&site), &aside).unwrap();
    assert_eq!(service.ended().code(), Some(3));
    assert!(site.state().join("agent.db-wal").exists());
    let status = site.run(&["status"]);
    let back = format!("move it back to `{}`", database(&site).display());
    let words = [
        "is gone, though `floors.json` beside it shows that this machine was a site (site `drone-7` of fleet ",
        "which had made at least ",
        "where it was moved, stop the service",
        &back,
        "`agent.db-wal` and `agent.db-shm` beside it belong to it: leave them there",
        "where it is lost, stop the service first",
    ];
    assert_reports(&status, 3, &words);
    assert!(
        stdout(&status).contains("holds: the site"),
        "{}",
        stdout(&status)
    );
    fs::rename(&aside, database(&site)).unwrap();
    assert_eq!(site.event_log(), before);
    assert_eq!(site.status()["hold"]["who"], "ann");
}

/// Runs `arguments` where `rescued` has no more space than `size`; what is in it afterwards is copied to the second path.
fn with_small_rescued(
    site: &Site,
    size: &str,
    out: &Path,
    arguments: &[&str],
) -> Option<std::process::Output> {
    let command = site.command(arguments);
    let rescued = site.state().join("rescued");
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "--map-root-user", "sh", "-c"]);
    inside.arg(
        "mkdir -p \"$1\" && mount -t tmpfs -o size=\"$2\" none \"$1\" || exit 99; from=$1; to=$3; shift 3; \"$@\"; code=$?; cp -r \"$from\" \"$to\"; exit $code",
    );
    inside.arg("sh").arg(&rescued).arg(size).arg(out);
    inside.arg(command.get_program()).args(command.get_args());
    outhaul_tests::mounted_or_skip(inside.output().ok()?)
}

#[test]
fn on_a_full_disk_the_reports_of_a_removed_database_are_saved_first_and_nothing_half_written_stays()
{
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let before = site.event_log();
    let two = centre.publish(&Draft::hello("two"));
    for (size, is_saved) in [("40k", true), ("4k", false)] {
        let site = site.copy();
        site.configure(&format!(
            "[health]\nsoak_s = 3600\nask = [{{ name = \"press\", program = [\"/bin/sh\", \"-c\", \"rm -f {}*\"] }}]\n",
            path(&database(&site))
        ));
        let out = site.folder.path().join("out");
        let Some(done) = with_small_rescued(&site, size, &out, &["import", path(&two)]) else {
            return;
        };
        let said = stderr(&done);
        assert_eq!(code(&done), 3, "{said}");
        let needed = "database or disk is full: ";
        assert!(
            said.contains(needed) && said.contains(" KiB are needed on its file system"),
            "{said}"
        );
        assert_eq!(files(&out), ["reports"], "nothing of a copy stays");
        let is_said =
            said.contains("the reports in it that had not reached the hub are saved in `");
        assert_eq!(is_said, is_saved, "{said}");
        assert!(said.contains("`outhaul-agent --state"), "{said}");
        assert!(
            !said.contains("where the file or its folder was moved"),
            "{said}"
        );
        // They are whole, signed and numbered from the first on.
        let saved = site.read_reports(&rescued_stick(&site, &out)).len();
        match is_saved {
            true => assert!(saved >= before.len(), "{saved}"),
            false => assert!((1..before.len()).contains(&saved), "{saved}"),
        }
    }
}

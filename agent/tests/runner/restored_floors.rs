//! A site that is restored from a backup which is older than what it has accepted: which bundles it takes then, and what it says of that.
//!
//! What must come out: what is saved beside the backup keeps older bundles out, and where nothing is saved, `restore` says what is accepted.

use std::fs;
use std::path::{Path, PathBuf};

use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::taken_away::{as_printed, path};

/// A site whose backup knows bundle 1, and which runs bundle 3 since; with the backup and bundle 2.
fn with_older_backup(centre: &Centre) -> (Site, PathBuf, PathBuf) {
    let site = Site::new(centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", path(&backup)]);
    let two = centre.publish(&Draft::hello("two"));
    site.take(&centre.publish(&Draft::hello("three")));
    (site, backup, two)
}

/// The database is damaged, and the folder is moved aside as printed.
fn move_aside(site: &Site) {
    let database = site.state().join("agent.db");
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(site.state().join(format!("agent.db{end}")));
    }
    fs::write(database, "damaged").unwrap();
    let said = stderr(&site.run(&["status"]));
    let moves = format!("mv {} ", path(&site.state()));
    assert!(as_printed(&said, &moves).status.success(), "{said}");
}

#[track_caller]
fn restored(site: &Site, backup: &Path, words: &[&str]) {
    let said = site.run(&["restore", path(backup), "--who", "ann"]);
    assert_reports(&said, 0, words);
}

#[test]
fn attack_an_older_bundle_is_refused_after_a_restore_where_the_floors_came_along_as_printed() {
    let centre = Centre::new();
    let (site, backup, two) = with_older_backup(&centre);
    move_aside(&site);
    let words = ["bundles older than 3 are refused", "rescued/floors.json`"];
    restored(&site, &backup, &words);
    assert_eq!(code(&site.import(&two)), 4);
    let printed = stdout(&site.run(&["status"]));
    let advice = "import bundle 3, or a newer bundle";
    assert!(printed.contains(advice), "{printed}");
    site.take(&centre.publish(&Draft::hello("four")));
}

#[test]
fn attack_an_older_bundle_is_refused_after_a_restore_beside_a_saved_database() {
    let centre = Centre::new();
    let (site, backup, two) = with_older_backup(&centre);
    let saved = site.folder.path().join("saved.db");
    // As the service saves a removed one.
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    db.execute("VACUUM INTO ?1", [path(&saved)]).unwrap();
    drop(db);
    fs::remove_dir_all(site.state()).unwrap();
    fs::create_dir_all(site.state().join("rescued")).unwrap();
    fs::rename(saved, site.state().join("rescued/saved-9.db")).unwrap();
    let words = ["bundles older than 3 are refused", "rescued/saved-9.db`"];
    restored(&site, &backup, &words);
    assert_eq!(code(&site.import(&two)), 4);
}

#[test]
fn a_restore_without_any_saved_floors_says_which_older_bundles_are_accepted() {
    let centre = Centre::new();
    let (site, backup, two) = with_older_backup(&centre);
    fs::remove_dir_all(site.state()).unwrap();
    let words = [
        "nothing here shows which bundles this site accepted after the backup was made",
        "bundles older than 1 are refused, and each from 1 on is accepted",
        "import nothing older",
    ];
    restored(&site, &backup, &words);
    site.take(&two);
}

#[test]
fn floors_of_another_site_and_lower_ones_change_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let saved = |site: &Site| {
        ["floors.json", "site.json"].map(|name| (name, fs::read(site.state().join(name)).unwrap()))
    };
    let own = saved(&site);
    let two = centre.publish(&Draft::hello("two"));
    site.take(&centre.publish(&Draft::hello("three")));
    let newer = site.folder.path().join("newer.backup");
    site.ok(&["backup", "--to", path(&newer)]);
    let other = Site::new(&centre, "drone-8");
    other.take(&two);
    let older = saved(&other);
    fs::remove_dir_all(site.state()).unwrap();
    let rescued = site.state().join("rescued");
    fs::create_dir_all(&rescued).unwrap();
    for (name, bytes) in &older {
        fs::write(rescued.join(name), bytes).unwrap();
    }
    let refused = site.run(&["restore", path(&newer), "--who", "ann"]);
    assert_reports(
        &refused,
        2,
        &["rescued/floors.json` in the state folder is of site `drone-8`"],
    );
    // Lower ones of this very site, as an older copy of its folder has them.
    for (name, bytes) in &own {
        fs::write(rescued.join(name), bytes).unwrap();
    }
    let nothing_newer = "nothing here shows which bundles this site accepted after the backup was made: bundles older than 3 are refused";
    restored(&site, &newer, &[nothing_newer]);
    assert_eq!(code(&site.import(&two)), 4);
}

#[test]
fn attack_an_older_bundle_is_refused_after_an_enrolment_where_the_floors_came_along_as_printed() {
    let centre = Centre::new();
    let (site, _, two) = with_older_backup(&centre);
    move_aside(&site);
    let kit = centre.kit_with("drone-7", "second-token", |_| {});
    let words = "bundles older than 3 are refused, as `";
    assert_reports(
        &site.run(&["enrol", path(&kit)]),
        0,
        &[words, "rescued/floors.json` shows the highest versions"],
    );
    assert!(!site.state().join("rescued/floors.json").exists());
    assert_eq!(code(&site.import(&two)), 4);
    // A loss of the new database changes nothing about it.
    fs::remove_file(site.state().join("agent.db")).unwrap();
    let again = centre.kit_with("drone-7", "third-token", |_| {});
    site.ok(&["enrol", path(&again)]);
    assert_eq!(code(&site.import(&two)), 4);
    site.take(&centre.publish(&Draft::hello("four")));
}

#[test]
fn saved_floors_that_cannot_be_read_are_named_and_stay_also_after_a_power_cut() {
    let centre = Centre::new();
    let (site, backup, _) = with_older_backup(&centre);
    move_aside(&site);
    let saved = site.state().join("rescued/floors.json");
    fs::write(&saved, "damaged").unwrap();
    let enrolled = site.copy();
    let words = [
        "nothing here shows which bundles this site accepted after the backup was made",
        "rescued/floors.json` is damaged, or no `site.json` beside it shows",
    ];
    restored(&site, &backup, &words);
    // As a power cut leaves it when everything is in its place.
    for next in [&["apply"][..], &["restore", path(&backup), "--who", "ann"]] {
        fs::create_dir(site.state().join("restoring")).unwrap();
        let said = site.run(next);
        assert_reports(&said, code(&said), &words);
    }
    assert_eq!(fs::read(&saved).unwrap(), b"damaged");
    let kit = centre.kit_with("drone-7", "second-token", |_| {});
    assert_reports(&enrolled.run(&["enrol", path(&kit)]), 0, &words[1..]);
    let saved = enrolled.state().join("rescued/floors.json");
    assert_eq!(fs::read(&saved).unwrap(), b"damaged");
}

#[test]
fn a_restore_says_which_bundle_comes_first_for_a_hold_and_each_way_out_works() {
    let centre = Centre::new();
    let two_of = |text: &str| {
        let load = |name: &str| Load::new(name).file("a", text);
        centre.publish(&Draft::new([load("hello"), load("other")]))
    };
    let site = Site::new(&centre, "drone-7");
    let one = two_of("one");
    site.take(&one);
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--to", path(&backup)]);
    site.hold("hello", "bob", "repair");
    move_aside(&site);
    let words = [
        "import bundle 1 first, because a newer one waits for what is held at it",
        "`outhaul-agent hold --release --assignment hello`",
    ];
    restored(&site, &backup, &words);
    let two = two_of("two");
    let as_advised = site.copy();
    as_advised.take(&one);
    as_advised.take(&two);
    assert_eq!(as_advised.applied()["hello/a"], b"one");

    assert_eq!(site.ok(&["import", path(&two)])["state"], "gated");
    let release = "release the hold: `outhaul-agent hold --release --assignment hello`";
    for command in [&["apply"][..], &["approve", "2"]] {
        let said = stderr(&site.run(command));
        assert!(said.contains(release), "{command:?}: {said}");
        assert!(
            !said.contains("`outhaul-agent approve 2` lets it"),
            "{said}"
        );
    }
    let words = [
        "what `other` has is what bundle 1 brought",
        "nothing was changed",
    ];
    assert_reports(
        &site.run(&["approve", "2", "--assignment", "hello"]),
        1,
        &words,
    );
    let held = stdout(&site.run(&["hold", "--assignment", "other"]));
    assert!(held.contains("it keeps what bundle 1 brought"), "{held}");
    site.ok(&["hold", "--release", "--assignment", "other"]);
    let printed = stdout(&site.run(&["status"]));
    assert!(!printed.contains("import bundle 1 again"), "{printed}");
    site.ok(&["hold", "--release", "--assignment", "hello"]);
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(2));
}

//! What a restore or an enrolment finds in `rescued`: holds that no backup has, files of another site, and what was left beside an empty database.
//!
//! What must come out: no hold is dropped without a word, nothing of another site is taken for this one's, and each command works as it is printed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_test_kit::folder::tree;
use outhaul_test_kit::{Centre, Draft};

use crate::put_back::{database, lost_under, removed};
use crate::site::{Site, assert_reports, stderr, stdout};
use crate::taken_away::{DATABASE, as_printed, at_work, path, remove, running, serving, signal};

/// No bundle changes what is held.
pub fn assert_held(site: &Site, centre: &Centre) {
    let before = site.applied();
    site.run(&["import", path(&centre.publish(&Draft::hello("two")))]);
    assert_eq!(site.applied(), before);
    assert_eq!(site.status()["held"]["hello"]["who"], "bob");
}

/// A site at bundle 1, and its backup with content.
fn with_backup(centre: &Centre) -> (Site, PathBuf) {
    let site = running(centre, "drone-7");
    let backup = site.folder.path().join("drone-7.backup");
    site.ok(&["backup", "--with-content", "--to", path(&backup)]);
    (site, backup)
}

#[test]
fn a_hold_that_only_the_saved_database_has_survives_a_restore_of_an_older_backup() {
    let centre = Centre::new();
    let (site, backup) = with_backup(&centre);
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    site.hold("hello", "bob", "repair");
    lost_under(&site, serving(&site));
    // Nothing else shows it: the copy beside the database is gone, too.
    let shown = site.copy();
    let _ = fs::remove_file(shown.state().join("holds.json"));
    let printed = stdout(&shown.run(&["status"]));
    for words in [
        "holds: the site, `hello` at bundle 1, by `",
        ".db`: they are held again when it is put back, or by a restore from a backup",
    ] {
        assert!(printed.contains(words), "{printed}");
    }
    let restored = site.run(&["restore", path(&backup), "--who", "ann"]);
    let words = [
        "the site (held by ann: harvest)",
        "`hello` (held by bob: repair; it keeps what bundle 1 brought)",
        "which was saved after the backup was made",
    ];
    assert_reports(&restored, 0, &words);
    assert_eq!(site.status()["hold"]["who"], "ann");
    site.ok(&["hold", "--release", "--who", "ann"]);
    assert_held(&site, &centre);
    // A backup that has them itself needs nothing of the saved database.
    let newer = site.folder.path().join("newer.backup");
    site.ok(&["backup", "--to", path(&newer)]);
    let rescued = site.folder.path().join("rescued");
    fs::rename(site.state().join("rescued"), &rescued).unwrap();
    fs::remove_dir_all(site.state()).unwrap();
    site.ok(&["restore", path(&newer), "--who", "ann"]);
    assert_held(&site, &centre);
}

#[test]
fn a_hold_that_was_given_without_a_service_survives_a_restore_of_an_older_backup() {
    let centre = Centre::new();
    let (site, backup) = with_backup(&centre);
    site.hold("hello", "bob", "repair");
    remove(&site, &DATABASE);
    fs::write(database(&site), "damaged").unwrap();
    let said = stderr(&site.run(&["status"]));
    let moves = format!("mv {} ", path(&site.state()));
    assert!(as_printed(&said, &moves).status.success(), "{said}");
    let restored = site.run(&["restore", path(&backup), "--who", "ann"]);
    let words = ["rescued/holds.json`", "`hello` (held by bob: repair;"];
    assert_reports(&restored, 0, &words);
    assert!(!site.state().join("rescued/holds.json").exists());
    assert_held(&site, &centre);
}

#[test]
fn a_hold_that_was_released_before_the_backup_is_not_given_back_by_a_database_saved_earlier() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    let backup = |name: &str| {
        let file = site.folder.path().join(name);
        site.ok(&["backup", "--with-content", "--to", path(&file)]);
        file
    };
    let restored = |file: &Path| {
        for entry in fs::read_dir(site.state()).unwrap() {
            let path = entry.unwrap().path();
            match path.ends_with("rescued") {
                true => {}
                false if path.is_dir() => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }
        let done = site.ok(&["restore", path(file), "--who", "ann"]);
        done["held"].as_array().unwrap().clone()
    };
    let first = backup("first.backup");
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    site.hold("hello", "bob", "repair");
    let mut service = serving(&site);
    signal(&service, "-STOP");
    remove(&site, &["agent.db"]);
    signal(&service, "-CONT");
    assert_eq!(service.ended().code(), Some(3));
    assert_eq!(restored(&first).len(), 1);
    site.ok(&["hold", "--release", "--who", "ann"]);
    site.ok(&["hold", "--release", "--assignment", "hello", "--who", "ann"]);
    let released = backup("released.backup");
    assert_eq!(restored(&released), [""; 0]);
    assert_eq!(site.status()["hold"], serde_json::Value::Null);
    // Of a numbering that the backup does not know, only the time says so: what is not held again is said.
    site.ok(&["hold", "--who", "eve", "--why", "newer"]);
    let newer = backup("newer.backup");
    restored(&newer);
    let twice = backup("twice.backup");
    let said = restored(&twice);
    assert!(
        said[0].as_str().unwrap().starts_with("not held again") && said.len() == 1,
        "{said:?}"
    );
    assert_eq!(site.status()["hold"]["who"], "eve");
}

#[test]
fn a_copy_of_the_holds_that_cannot_be_read_stays_and_is_named_also_after_a_power_cut() {
    let centre = Centre::new();
    let (site, backup) = with_backup(&centre);
    fs::remove_dir_all(site.state()).unwrap();
    let copy = site.state().join("rescued/holds.json");
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::write(&copy, "damaged").unwrap();
    let restore = || site.run(&["restore", path(&backup), "--who", "ann"]);
    let words = ["rescued/holds.json` cannot be read"];
    assert_reports(&restore(), 0, &words);
    assert_eq!(fs::read(&copy).unwrap(), b"damaged");
    // As a power cut leaves it when everything is in its place.
    fs::create_dir(site.state().join("restoring")).unwrap();
    assert_reports(&restore(), 0, &words);
    assert!(copy.exists() && !site.state().join("restoring").exists());
}

#[test]
fn an_enrolment_gives_back_the_holds_that_came_along_when_the_folder_was_moved_aside() {
    let centre = Centre::new();
    let site = running(&centre, "drone-7");
    site.ok(&["hold", "--who", "ann", "--why", "harvest"]);
    let former = site.folder.path().join("former");
    fs::rename(site.state(), &former).unwrap();
    let rescued = site.state().join("rescued");
    fs::create_dir_all(&rescued).unwrap();
    fs::set_permissions(site.state(), fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["holds.json", "site.json"] {
        fs::copy(former.join(name), rescued.join(name)).unwrap();
    }
    let kit = |site: &str| centre.kit_with(site, "second-token", |_| {});
    assert_reports(
        &site.run(&["enrol", path(&kit("drone-8"))]),
        2,
        &["site `drone-7` of fleet", "rescued/holds.json"],
    );
    let words = ["held again, by `rescued/holds.json` (1 hold;"];
    assert_reports(&site.run(&["enrol", path(&kit("drone-7"))]), 0, &words);
    assert_eq!(site.status()["hold"]["who"], "ann");
    assert!(!rescued.join("holds.json").exists());
}

#[test]
fn a_site_is_not_restored_beside_what_is_saved_of_another_one_until_that_is_moved_as_printed() {
    let centre = Centre::new();
    let (other, _) = removed(&centre);
    let site = running(&centre, "drone-8");
    let backup = site.folder.path().join("drone-8.backup");
    site.ok(&["backup", "--to", path(&backup)]);
    let restore = || other.run(&["restore", path(&backup), "--who", "ann"]);
    let words = ["the backup is of site `drone-8`", "is of site `drone-7`"];
    // Its database, and its reports.
    for _ in 0..2 {
        let kept = tree(&other.state());
        let refused = restore();
        assert_reports(&refused, 2, &words);
        assert_eq!(tree(&other.state()), kept);
        assert!(as_printed(&stderr(&refused), "mv ").status.success());
    }
    let restored = restore();
    assert_reports(&restored, 0, &[]);
    assert!(
        stdout(&restored).contains("site drone-8 "),
        "{}",
        stdout(&restored)
    );
}

#[test]
fn what_is_left_beside_an_empty_database_keeps_no_site_from_being_enrolled_as_printed() {
    let centre = Centre::new();
    let (site, mut service) = at_work(&centre);
    signal(&service, "-KILL");
    service.ended();
    fs::write(database(&site), "").unwrap();
    assert!(
        fs::metadata(site.state().join("agent.db-wal"))
            .unwrap()
            .len()
            > 0
    );
    let said = stderr(&site.run(&["status"]));
    assert!(
        said.contains("is empty (0 bytes)") && said.contains("enrol this site with a new kit"),
        "{said}"
    );
    let kit = centre.kit_with("drone-7", "second-token", |_| {});
    let words = ["rescued/left`", "reports may stand in both together only"];
    assert_reports(&site.run(&["enrol", path(&kit)]), 0, &words);
    assert!(site.state().join("rescued/left/agent.db-wal").exists());
    site.take(&centre.publish(&Draft::hello("two")));
}

#[test]
fn the_same_kit_is_bound_to_the_lost_key_and_a_new_one_enrols_over_the_database_that_was_put_back()
{
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let kit = site.folder.path().join("same.kit");
    // As it came, and as it still lies on the stick.
    site.take(&centre.publish(&Draft::hello("one")));
    fs::copy(centre.kit("drone-7"), &kit).unwrap();
    lost_under(&site, serving(&site));
    let refused = site.run(&["enrol", path(&kit)]);
    let words = [
        "is saved whole in `",
        "this kit is bound to the key that is lost",
        "`outhaul site enrol SITE --again`",
    ];
    assert_reports(&refused, 2, &words);
    assert!(as_printed(&stderr(&refused), "if test ").status.success());
    assert_reports(
        &site.run(&["enrol", path(&kit)]),
        3,
        &["enrol this site with a new kit"],
    );
    let new = centre.kit_with("drone-7", "second-token", |_| {});
    assert_reports(
        &site.run(&["enrol", path(&new)]),
        0,
        &["this site has a new key"],
    );
    assert_eq!(site.active(), Some(1));
}

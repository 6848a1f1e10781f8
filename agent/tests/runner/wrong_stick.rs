//! The wrong stick, the wrong file, a file cut short: each is reported as what it is, with the way out, and changes nothing.

use std::fs;
use std::path::Path;

use outhaul_test_kit::{Centre, Draft, Load};

use crate::order_trust::{difference, everything};
use crate::site::{Site, assert_reports, stderr, stdout};

fn running() -> (Centre, Site) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    (centre, site)
}

/// `import` and `plan` say the same of `path`, and change nothing but the record of it.
#[track_caller]
fn both_report(site: &Site, path: &Path, code: i32, words: &[&str]) {
    let before = everything(site);
    let planned = site.run(&["plan", path.to_str().unwrap()]);
    assert_reports(&planned, code, words);
    let changed = difference(&before, &everything(site));
    assert!(changed.is_empty(), "{changed:#?}");
    let imported = site.import(path);
    assert_reports(&imported, code, words);
    assert_eq!(stderr(&planned), stderr(&imported));
}

#[test]
fn a_kit_a_request_and_reports_are_named_with_the_command_that_takes_them() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    site.ok(&["export", stick.path().to_str().unwrap()]);
    let request = stick.path().join("requests/drone-7.request");
    let backup = stick.path().join("drone-7.backup");
    site.ok(&["backup", "--to", backup.to_str().unwrap()]);
    let reports = fs::read_dir(stick.path().join("reports")).unwrap();
    let reports = reports.map(|entry| entry.unwrap().path()).next().unwrap();
    for (path, words) in [
        (
            centre.kit("drone-7"),
            ["is a kit", "help: `outhaul-agent enrol "],
        ),
        (
            request.clone(),
            ["is an enrolment request", "`outhaul site approve`"],
        ),
        (
            backup.clone(),
            [
                "is a backup of a site",
                "`outhaul-agent --state DIR restore ",
            ],
        ),
        (
            reports.clone(),
            ["is a file of reports", "`outhaul-hub import`"],
        ),
    ] {
        let words = [&words[..], &["not a bundle; nothing was changed"]].concat();
        both_report(&site, &path, 2, &words);
        // Under a bundle's name on a stick it is skipped, with the same words.
        let other = tempfile::tempdir().unwrap();
        fs::copy(&path, other.path().join("x.outhaul")).unwrap();
        both_report(
            &site,
            other.path(),
            1,
            &["skipped `x.outhaul` is ", words[0]],
        );
    }
    // And enrolling with a bundle is not a matter of JSON.
    let bundle = centre.publish(&Draft::hello("two"));
    let key = site.folder.path().join("hub.pub");
    fs::write(&key, "-----BEGIN PUBLIC KEY-----\n").unwrap();
    for (command, called, other, taken) in [
        ("enrol", "a kit", &bundle, "`outhaul-agent import "),
        (
            "enrol",
            "a kit",
            &backup,
            "`outhaul-agent --state DIR restore ",
        ),
        ("enrol", "a kit", &request, "`outhaul site approve`"),
        ("restore", "a backup", &bundle, "`outhaul-agent import "),
        (
            "restore",
            "a backup",
            &centre.kit("drone-7"),
            "`outhaul-agent enrol ",
        ),
        (
            "enrol",
            "a kit",
            &key,
            "not a kit: it is a key or a certificate (PEM)",
        ),
    ] {
        let words = [format!("not {called}"), taken.to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = [&words[..], &["nothing was changed"]].concat();
        let before = everything(&site);
        assert_reports(&site.run(&[command, other.to_str().unwrap()]), 2, &words);
        let changed = difference(&before, &everything(&site));
        assert!(changed.is_empty(), "{changed:#?}");
    }
}

#[test]
fn an_empty_file_and_a_file_cut_short_are_copies_to_be_made_again() {
    let (centre, site) = running();
    let two = centre.publish(&Draft::hello("two"));
    let stick = tempfile::tempdir().unwrap();
    let copy = stick.path().join("two.outhaul");
    fs::write(&copy, "").unwrap();
    let words = ["the bundle is empty (0 bytes)", "help: copy it again"];
    both_report(&site, &copy, 4, &words);
    let whole = fs::read(&two).unwrap();
    for length in [100, 700, whole.len() / 2, whole.len() - 1] {
        fs::write(&copy, &whole[..length]).unwrap();
        let words = ["is incomplete", "help: copy it again"];
        both_report(&site, &copy, 4, &words);
        let printed = stderr(&site.import(&copy));
        assert!(!printed.contains("``"), "{printed}");
    }
    fs::write(&copy, &whole).unwrap();
    site.take(&copy);
}

#[test]
fn an_empty_stick_and_one_with_other_files_are_distinguished() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    both_report(&site, stick.path(), 1, &["is empty", "help: ", "findmnt"]);
    fs::copy(centre.kit("drone-9"), stick.path().join("drone-9.kit")).unwrap();
    let words = ["1 other file", "*.outhaul", "outhaul-agent enrol"];
    both_report(&site, stick.path(), 1, &words);
    let printed = stderr(&site.import(stick.path()));
    assert!(!printed.contains("skipped"), "{printed}");
    // What was skipped, and why, is in the error: with `--quiet` nothing else is printed.
    let other = centre.publish(&Draft::hello("x").cluster_type("press"));
    fs::copy(other, stick.path().join("press.outhaul")).unwrap();
    let words = ["error: no bundle for this site", "skipped `press.outhaul`"];
    both_report(&site, stick.path(), 1, &words);
    let quiet = site.run(&["--quiet", "import", stick.path().to_str().unwrap()]);
    let words = ["skipped `press.outhaul`: ", "dev/press"];
    assert_reports(&quiet, 1, &words);
    let loud = stderr(&site.import(stick.path()));
    assert_eq!(loud.matches("skipped").count(), 1, "{loud}");
    // Of many, the first few, and how many more.
    for other in 0..4 {
        let copy = stick.path().join(format!("press-{other}.outhaul"));
        fs::copy(stick.path().join("press.outhaul"), copy).unwrap();
    }
    let quiet = site.run(&["--quiet", "import", stick.path().to_str().unwrap()]);
    assert_reports(&quiet, 1, &["2 more skipped"]);
    let loud = stderr(&site.import(stick.path()));
    assert_eq!(
        loud.lines().filter(|l| l.starts_with("skipped")).count(),
        5,
        "{loud}"
    );
}

#[test]
fn a_folder_that_is_too_deep_to_be_looked_at_is_named_whatever_was_taken() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let deep = stick.path().join("a/b/c/d");
    fs::create_dir_all(&deep).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    fs::copy(&two, deep.join("two.outhaul")).unwrap();
    let words = [
        "a/b/c/d` lies more than three folders deep and was not read",
        "no file in",
        "three folders deep",
    ];
    both_report(&site, stick.path(), 1, &words);
    // Beside what is for someone else, and beside what runs.
    let other = centre.publish(&Draft::hello("x").cluster_type("press"));
    fs::copy(other, stick.path().join("press.outhaul")).unwrap();
    both_report(&site, stick.path(), 1, &[words[0], "press.outhaul"]);
    let status = stdout(&site.run(&["status"]));
    assert!(status.contains(words[0]), "{status}");
    site.take(&two);
    fs::copy(&two, stick.path().join("two.outhaul")).unwrap();
    let printed = site.import(stick.path());
    assert_reports(&printed, 0, &[words[0]]);
    assert!(stdout(&printed).contains("already active"), "{printed:?}");
}

#[test]
fn the_newest_bundle_that_lies_too_deep_is_pointed_at_when_an_older_one_is_taken_by_every_command()
{
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let deep = stick.path().join("fleet/press/2026/november");
    fs::create_dir_all(&deep).unwrap();
    fs::create_dir_all(stick.path().join("fleet/press/2026/october")).unwrap();
    let two = centre.publish(&Draft::hello("two"));
    fs::copy(&two, stick.path().join("two.outhaul")).unwrap();
    let three = centre.publish(&Draft::hello("three"));
    fs::copy(&three, deep.join("three.outhaul")).unwrap();
    let folder = stick.path().to_str().unwrap();
    let named = format!(
        "`{folder}/fleet/press/2026/november` and `{folder}/fleet/press/2026/october` lie more than three folders deep and were not read"
    );
    let planned = site.run(&["plan", folder]);
    assert_reports(&planned, 0, &[&named, "`outhaul-agent import "]);
    // By the service, which has the line in `status` and its log.
    let served = site.copy();
    served.configure(&format!("watch = [{folder:?}]"));
    let round = served.run(&["run", "--once"]);
    assert_reports(&round, 0, &[&named]);
    assert_eq!(served.active(), Some(2));
    let done = site.import(stick.path());
    assert_reports(&done, 0, &[&named]);
    assert!(stdout(&done).contains("bundle 2 is active"), "{done:?}");
    for site in [&site, &served] {
        let status = stdout(&site.run(&["status"]));
        assert!(status.contains(&named), "{status}");
    }
    // As advised.
    let line = stderr(&done);
    let typed = line.split("`outhaul-agent import ").nth(1).unwrap();
    let typed = typed.split('`').next().unwrap();
    let done = site.run(&["import", typed]);
    assert_reports(&done, 0, &[]);
    assert_eq!(site.active(), Some(3));
}

#[test]
fn a_stick_that_turned_names_into_capitals_is_read() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let two = centre.publish(&Draft::hello("two"));
    fs::copy(two, stick.path().join("DRONE-2.OUTHAUL")).unwrap();
    site.take(stick.path());
    fs::copy(centre.slip("drone"), stick.path().join("DRONE.SLIP")).unwrap();
    let printed = stdout(&site.import(stick.path()));
    assert!(
        printed.contains("slip `DRONE.SLIP`: floors raised"),
        "{printed}"
    );
}

#[test]
fn status_lists_sticks_and_files_that_were_read_and_nothing_else() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    site.import(&stick.path().join("nowhere"));
    site.import(stick.path());
    let printed = stdout(&site.run(&["status"]));
    assert!(!printed.contains("nowhere"), "{printed}");
    let stick = format!("stick `{}`: nothing on it", stick.path().display());
    assert!(printed.contains(&stick), "{printed}");
    let two = centre.publish(&Draft::hello("two"));
    site.take(&two);
    let printed = stdout(&site.run(&["status"]));
    // The one before is not reported again.
    assert!(!printed.contains(&stick), "{printed}");
    let file = format!("file `{}`: bundle 2 is active", two.display());
    assert!(printed.contains(&file), "{printed}");
}

#[test]
fn the_line_of_a_stick_follows_the_bundle_that_waited_when_it_was_read() {
    let (centre, site) = running();
    site.ok(&["hold", "--why", "harvest until Friday"]);
    let two = centre.publish(&Draft::hello("two"));
    site.import(&two);
    let line = || {
        let printed = stdout(&site.run(&["status"]));
        let start = format!("file `{}`: ", two.display());
        let line = printed.lines().find_map(|line| line.split_once(&start));
        line.unwrap_or_else(|| panic!("{printed}")).1.to_owned()
    };
    let held = line();
    assert!(held.starts_with("bundle 2 is waiting"), "{held}");
    assert!(held.contains("harvest until Friday"), "{held}");
    assert_eq!(line(), held);
    site.ok(&["hold", "--release"]);
    let released = line();
    assert!(released.contains("the hold is over"), "{released}");
    assert!(!released.contains("harvest"), "{released}");
    site.ok(&["apply"]);
    assert_eq!(
        line(),
        "bundle 2 was copied from it, and is active now; it is safe to remove now"
    );
}

#[test]
fn a_copy_of_the_active_bundle_that_ends_early_is_named_and_nothing_depends_on_it() {
    let (centre, site) = running();
    let two = centre.publish(&Draft::hello("two"));
    site.take(&two);
    let bytes = fs::read(&two).unwrap();
    let stick = tempfile::tempdir().unwrap();
    let copy = stick.path().join("two.outhaul");
    let applied = site.applied();
    for end in [bytes.len() - 512, bytes.len() - 1024 - 700] {
        fs::write(&copy, &bytes[..end]).unwrap();
        for path in [&copy, stick.path()] {
            let again = site.import(path);
            assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
            let said = stderr(&again);
            let words = format!(
                "`two.outhaul`: this copy of bundle 2 is incomplete: it has {end} bytes of {}; bundle 2 is here already, and nothing on this site \
                 depends on this copy",
                bytes.len()
            );
            assert!(said.contains(&words), "{said}");
        }
    }
    let line = || {
        let printed = stdout(&site.run(&["status"]));
        let start = format!("stick `{}`: ", stick.path().display());
        let line = printed.lines().find_map(|line| line.split_once(&start));
        line.unwrap_or_else(|| panic!("{printed}")).1.to_owned()
    };
    assert!(
        line().contains("this copy of bundle 2 is incomplete"),
        "{}",
        line()
    );
    assert_eq!(site.applied(), applied);
    // Nothing was copied from it, whatever becomes of the bundle.
    site.ok(&["rollback"]);
    let said = line();
    assert!(
        said.starts_with("bundle 2 was here already when it was read, and is "),
        "{said}"
    );
    assert!(!said.contains("copied from it"), "{said}");
}

#[test]
fn a_copy_that_the_disk_of_the_site_damaged_is_not_held_against_the_bundle() {
    let (centre, site) = running();
    site.ok(&["hold", "--why", "harvest"]);
    let two = centre.publish(&Draft::hello("two"));
    site.import(&two);
    assert_eq!(site.state_of(2), "gated");
    let staged = site
        .state()
        .join("generations/2/assignments/hello/manifest.yaml");
    fs::write(&staged, "rotten").unwrap();
    site.ok(&["hold", "--release"]);
    let ran = site.run(&["run", "--once"]);
    assert!(!stderr(&ran).contains("panicked"), "{}", stderr(&ran));
    // No approval, no newer bundle, no other stick: it is put back from the stored content, which is whole.
    assert_eq!(site.active(), Some(2));
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
    site.take(&two);
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: two\n");
}

#[test]
fn apply_without_the_bundle_s_folder_says_so_and_leaves_what_runs_as_it_is() {
    let (centre, site) = running();
    let one = centre.folder().join("drone-1.outhaul");
    fs::remove_dir_all(site.state().join("generations/1")).unwrap();
    let applied = site.applied();
    let words = [
        "cannot be applied again",
        "what runs was not touched",
        "help: import bundle 1 again",
    ];
    let printed = site.run(&["apply"]);
    assert_reports(&printed, 1, &words);
    assert!(!stderr(&printed).contains("partly"), "{}", stderr(&printed));
    assert_eq!(
        (site.active(), site.state_of(1)),
        (Some(1), "active".to_owned())
    );
    assert_eq!(site.applied(), applied);
    site.take(&one);
    site.ok(&["apply"]);
}

#[test]
fn work_that_could_not_begin_is_not_called_half_done() {
    let (centre, site) = running();
    site.ok(&["hold", "--why", "harvest"]);
    let load = Load::new("hello").file("manifest.yaml", "two\n");
    site.import(&centre.publish(&Draft::new([load])));
    // The target is a file when its turn comes.
    fs::rename(site.state().join("applied"), site.state().join("aside")).unwrap();
    fs::write(site.state().join("applied"), "").unwrap();
    site.ok(&["hold", "--release"]);
    let printed = site.run(&["apply"]);
    let words = [
        "cannot go on",
        "bundle 1 is active, and nothing of bundle 2 was applied yet",
        "help:",
    ];
    assert_reports(&printed, 3, &words);
    fs::remove_file(site.state().join("applied")).unwrap();
    fs::rename(site.state().join("aside"), site.state().join("applied")).unwrap();
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn a_damaged_newest_bundle_beside_an_older_whole_one_is_no_success() {
    let (centre, site) = running();
    let stick = tempfile::tempdir().unwrap();
    let copied = |path: &Path| {
        let to = stick.path().join(path.file_name().unwrap());
        fs::copy(path, &to).unwrap();
        to
    };
    copied(&centre.publish(&Draft::hello("two")));
    let three = centre.publish(&Draft::hello("three"));
    let damaged = copied(&three);
    let mut bytes = fs::read(&damaged).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let words = [
        "is refused",
        "help: bundle 3 is newer than bundle 2 and was not imported",
    ];
    assert_reports(&site.import(stick.path()), 1, &words);
    assert_eq!(site.active(), Some(2));
    let next = |site: &Site| site.status()["next"].to_string();
    assert!(
        next(&site).contains("bundle 3 was refused (`drone-3.outhaul`): do not use this copy"),
        "{}",
        next(&site)
    );
    // With another copy of it, nothing is left to do.
    let other = stick.path().join("other.outhaul");
    fs::copy(&three, &other).unwrap();
    site.take(&other);
    assert!(!next(&site).contains("bundle 3"), "{}", next(&site));
}

#[test]
fn a_stored_file_that_was_damaged_and_came_again_is_named() {
    let (centre, site) = running();
    let blobs = site.state().join("blobs/sha256");
    let largest = fs::read_dir(&blobs).unwrap().map(|one| one.unwrap().path());
    let largest = largest.max_by_key(|path| fs::metadata(path).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[9] ^= 1;
    fs::write(&largest, bytes).unwrap();
    let words = [
        "bundle 2: damaged on this machine's disk",
        ": 1 stored file;",
    ];
    let done = site.import(&centre.publish(&Draft::hello("two")));
    assert_reports(&done, 0, &words);
    assert_eq!(site.active(), Some(2));
}

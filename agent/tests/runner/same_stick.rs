//! The same stick or file imported again: it ends as it did before, and says that there is nothing new. What is over is not repeated, and
//! what is many times the same is said once.

use std::fs;
use std::process::Output;

use outhaul_bundle::index::compressed::compressed;
use outhaul_test_kit::archive::with_unsigned_form;
use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::web::beside;

#[test]
fn a_damaged_bundle_of_unknown_number_is_the_same_exit_code_each_time() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let one = centre.publish(&Draft::hello("one"));
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    let two = fs::read(centre.publish(&Draft::hello("two"))).unwrap();
    fs::write(stick.path().join("two.outhaul"), &two[..3000]).unwrap();
    for first in ["bundle 1 is active", "bundle 1 is already active"] {
        let printed = site.import(stick.path());
        let words = ["`two.outhaul` is refused", "may be newer than bundle 1"];
        assert_reports(&printed, 1, &words);
        assert!(stdout(&printed).starts_with(first), "{printed:?}");
    }
}

#[test]
fn a_bundle_of_another_fleet_on_the_stick_is_none_to_wait_for() {
    let (centre, foreign) = (Centre::new(), Centre::new());
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let one = centre.publish(&Draft::hello("one"));
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    let other = foreign.publish(&Draft::hello("of others"));
    fs::copy(&other, stick.path().join("other.outhaul")).unwrap();
    let printed = site.import(stick.path());
    assert_reports(&printed, 0, &["`other.outhaul`"]);
    assert!(!stderr(&printed).contains("may be newer"), "{printed:?}");
}

#[test]
fn of_many_files_that_one_rule_refuses_the_first_are_reported_and_the_others_named() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let whole = fs::read(centre.publish(&Draft::hello("one"))).unwrap();
    for n in 100..135 {
        let name = format!("{n}.outhaul");
        fs::write(stick.path().join(name), &whole[..3000]).unwrap();
    }
    let words = [
        "the same rule, `truncated`, refused 25 more: `110.outhaul`, ",
        "`134.outhaul`; `outhaul-agent plan FILE`",
    ];
    let printed = site.import(stick.path());
    assert_reports(&printed, 4, &words);
    let said = stderr(&printed);
    assert_eq!(said.matches("` is refused, nothing").count(), 10, "{said}");
}

#[test]
fn a_bundle_that_failed_has_no_line_any_more_when_a_newer_one_runs() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let beside = site.state().join("applied/hello/manifest.yaml/foreign");
    fs::create_dir_all(&beside).unwrap();
    let failed = site.import(&centre.publish(&Draft::hello("one")));
    assert_eq!(code(&failed), 1, "{failed:?}");
    let lines = || stdout(&site.run(&["status"]));
    assert!(lines().contains("bundle 1 is failed"), "{}", lines());
    fs::remove_dir_all(site.state().join("applied")).unwrap();
    site.take(&centre.publish(&Draft::hello("two")));
    assert!(!lines().contains("bundle 1 is"), "{}", lines());
    assert_eq!(site.state_of(1), "failed", "JSON has all");
}

#[test]
fn releasing_what_nobody_holds_is_done_and_an_unknown_name_is_refused() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    for release in [
        &["hold", "--release"][..],
        &["hold", "--release", "--assignment", "hello"],
    ] {
        let printed = site.run(release);
        assert_eq!(code(&printed), 0, "{printed:?}");
        assert!(
            stdout(&printed).contains("nothing was changed"),
            "{printed:?}"
        );
    }
    let unknown = site.run(&["hold", "--release", "--assignment", "helo"]);
    assert_reports(&unknown, 1, &["no assignment `helo`"]);
}

/// The site knows the timestamp of this bundle, and looks at no metadata behind it again.
#[test]
fn attack_a_known_bundle_with_an_unsigned_compressed_index_is_not_opened() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let mut load = Load::new("hello");
    for number in 0..800 {
        let path = format!("labels/{number}.txt");
        load = load.file(&path, format!("one {number}\n"));
    }
    let one = centre.publish(&Draft::new([load]));
    let active = |printed: &Output, words: &str| {
        assert_reports(printed, 0, &[]);
        assert!(stdout(printed).starts_with(words), "{printed:?}");
    };
    active(&site.import(&one), "bundle 1 is active");
    let bomb = compressed(&vec![0; 64 << 20]).unwrap().unwrap();
    let forged = with_unsigned_form(&fs::read(&one).unwrap(), &bomb);
    let file = beside(&one, "forged.outhaul", &forged);
    active(&site.import(&file), "bundle 1 is already active");
    // Where stored blobs are missing, they are taken from what came, by its index.
    let blobs = site.state().join("blobs/sha256");
    let stored = outhaul_test_kit::folder::paths(&blobs);
    fs::remove_file(blobs.join(&stored[0])).unwrap();
    let words = [
        "its missing blobs were not restored",
        "`index.json.zst`: expected ",
        " bytes, found ",
    ];
    assert_reports(&site.import(&file), 0, &words);
    let words = "of them are restored from what came";
    assert_reports(&site.import(&one), 0, &[words]);
}

#[test]
fn plan_ends_as_the_import_of_a_stick_with_a_newer_damaged_bundle_which_says_nothing_of_what_runs()
{
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = tempfile::tempdir().unwrap();
    let one = centre.publish(&Draft::hello("one"));
    fs::copy(&one, stick.path().join("one.outhaul")).unwrap();
    let two = fs::read(centre.publish(&Draft::hello("two"))).unwrap();
    fs::write(stick.path().join("two.outhaul"), &two[..60_000]).unwrap();
    let stick = stick.path().to_str().unwrap();
    let planned = site.run(&["plan", stick]);
    let words = "bundle 2 is newer than bundle 1 and would not be imported";
    assert_reports(&planned, 1, &["`two.outhaul` is refused", words]);
    let imported = site.run(&["import", stick]);
    let words = "bundle 2 is newer than bundle 1 and was not imported";
    assert_reports(&imported, 1, &["`two.outhaul` is refused", words]);
    assert_eq!(site.active(), Some(1));
    let said = stderr(&imported);
    assert!(!said.contains("what runs is untouched"), "{said}");
}

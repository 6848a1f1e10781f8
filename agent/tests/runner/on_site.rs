//! What an operator reads on site, in situations of an ordinary day: each advice is one that can be followed as it is typed.
//!
//! What comes in: bundles of a real fleet, and files that are none. What goes out: what the program prints.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use outhaul_bundle::report::ReportEvent;
use outhaul_test_kit::{Centre, Draft};

use crate::foreign_folders::bound;
use crate::hooks;
use crate::service::Service;
use crate::site::{Site, assert_reports, code, stderr, stdout};
use crate::status_tells::{stuck_at_the_second, three};

/// A site that is asked to apply nothing yet, by a file that is returned.
fn delayed() -> (Centre, Site, PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let delays = site.folder.path().join("delay.d");
    fs::create_dir(&delays).unwrap();
    site.configure(&format!("[delay]\nfolder = {delays:?}\n"));
    let asks = delays.join("harvest");
    fs::write(&asks, r#"{"reason": "combine is out", "until": "8h"}"#).unwrap();
    (centre, site, asks)
}

fn next(site: &Site) -> String {
    site.status()["next"].to_string()
}

#[test]
fn the_service_is_named_only_where_it_runs_and_what_is_typed_instead_works_for_a_first_bundle() {
    let (centre, site, asks) = delayed();
    assert_eq!(code(&site.import(&centre.publish(&Draft::hello("one")))), 0);
    let without = next(&site);
    for words in [
        "`outhaul-agent apply` applies it when that is over",
        "no service runs on this site (`systemctl start outhaul-agent` starts it)",
    ] {
        assert!(without.contains(words), "{without}");
    }
    // A bundle is here: there is no need for one from a stick.
    for words in ["the service applies", "imports a bundle from a stick"] {
        assert!(!without.contains(words), "{without}");
    }
    let mut service = Service::start(&site);
    let with = next(&site);
    assert!(
        with.contains("no action needed: the service applies it then"),
        "{with}"
    );
    assert!(!with.contains("no service runs"), "{with}");
    assert_eq!(site.status()["service"], true);
    service.terminate();
    assert!(next(&site).contains("no service runs"), "it is gone");
    // Too early it stays where it is, and says why; later it is applied as the advice says.
    let early = site.run(&["apply"]);
    assert!(
        stderr(&early).contains("combine is out"),
        "{}",
        stderr(&early)
    );
    assert_eq!(site.state_of(1), "gated");
    fs::remove_file(asks).unwrap();
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn an_approval_without_a_number_names_the_bundle_that_waits_and_what_to_type() {
    let (centre, site, _asks) = delayed();
    let words = [
        "`approve` needs the number of a bundle; no bundle waits",
        "`outhaul-agent status`",
    ];
    assert_reports(&site.run(&["approve"]), 2, &words);
    assert_eq!(code(&site.import(&centre.publish(&Draft::hello("one")))), 0);
    let typed = "help: `outhaul-agent approve 1` lets it through";
    for (arguments, expected, words) in [
        (
            &["approve"][..],
            2,
            "`approve` needs the number of a bundle; bundle 1 waits",
        ),
        (
            &["approve", "one"],
            2,
            "a bundle's number, such as `7`; bundle 1 waits",
        ),
        (
            &["approve", "9"],
            1,
            "this site knows no bundle 9; bundle 1 waits",
        ),
    ] {
        assert_reports(&site.run(arguments), expected, &[words, typed]);
        assert_eq!(site.state_of(1), "gated");
    }
    site.ok(&["approve", "1"]);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn a_file_of_anything_else_is_no_bundle_and_a_part_of_one_is_incomplete() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let folder = site.folder.path().join("stick");
    fs::create_dir(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| {
        fs::write(folder.join(name), bytes).unwrap();
        folder.join(name)
    };
    let photo = [&b"\xff\xd8\xff\xe0"[..], &[7; 4_000]].concat();
    for (name, bytes, expected, words) in [
        (
            "photo.jpg",
            &photo[..],
            2,
            "is not a bundle: it is a JPEG image",
        ),
        (
            "note.txt",
            b"milk, eggs",
            2,
            "is not a bundle: it does not begin as one",
        ),
        (
            "photo.outhaul",
            &photo[..100],
            4,
            "it is not a bundle: it is a JPEG image",
        ),
        (
            "zeros.outhaul",
            &[0; 4_096],
            4,
            "it is not a bundle: it does not begin as one",
        ),
    ] {
        let file = write(name, bytes);
        for command in ["import", "plan"] {
            let printed = site.run(&[command, file.to_str().unwrap()]);
            assert_reports(&printed, expected, &[words, name, "nothing was changed"]);
            assert!(
                !stderr(&printed).contains("incomplete"),
                "{}",
                stderr(&printed)
            );
        }
    }
    let archive = folder.join("photos.tar");
    let mut tar = Command::new("tar");
    tar.arg("cf")
        .arg(&archive)
        .arg("-C")
        .arg(&folder)
        .arg("photo.jpg");
    assert!(tar.status().unwrap().success());
    let words = ["`photos.tar` is not a bundle: it is an archive of something else"];
    assert_reports(&site.import(&archive), 2, &words);
    // What begins as a bundle is one.
    let whole = fs::read(centre.publish(&Draft::hello("one"))).unwrap();
    for bytes in [5, 100, 5_000] {
        let cut = write("cut.outhaul", &whole[..bytes]);
        assert_reports(&site.import(&cut), 4, &["the file is incomplete"]);
    }
    // On a stick beside a bundle it is in nobody's way.
    write("one.outhaul", &whole);
    site.import(&folder);
    assert_eq!(site.active(), Some(1));
}

#[test]
fn who_gives_a_bundle_up_does_not_take_away_why() {
    let (centre, site, obstacle) = stuck_at_the_second();
    fs::write(&obstacle, "").unwrap();
    assert_eq!(code(&site.import(&centre.publish(&three()))), 3);
    site.ok(&["rollback", "--who", "ann", "--why", "shift ends"]);
    let status = stdout(&site.run(&["status"]));
    let kept = "bundle 1 is failed: given up by ann: shift ends; before that: ";
    let line = status.lines().find(|line| line.contains(kept));
    assert!(
        line.is_some_and(|line| line.ends_with("no power")),
        "{status}"
    );
    // The centre learns both as well.
    let reports = site.reports();
    let reason = reports.iter().find_map(|report| match &report.event {
        ReportEvent::Generation(of) if of.message.contains("given up by ann") => Some(&of.message),
        _ => None,
    });
    assert!(
        reason.is_some_and(|reason| reason.contains("no power")),
        "{reports:?}"
    );
}

#[test]
fn what_to_do_about_a_first_bundle_that_failed_is_said_once() {
    let (centre, site, _) = stuck_at_the_second();
    let hook = hooks::path(&site);
    let text = fs::read_to_string(&hook).unwrap();
    // It fails at the second for good.
    let fails = text.replace("[ -e ", "[ ! -e ").replace("exit 3", "exit 1");
    fs::write(&hook, fails).unwrap();
    assert_eq!(code(&site.import(&centre.publish(&three()))), 1);
    let status = site.status();
    let next = status["next"].as_array().unwrap();
    let about = |words: &str| {
        next.iter()
            .filter(|step| step.as_str().unwrap().contains(words))
            .count()
    };
    assert_eq!(
        about("`outhaul-agent approve 1` and import it again"),
        1,
        "{next:?}"
    );
    assert_eq!(about("import"), 1, "{next:?}");
    // Both situations are shown all the same.
    let shown = status["attention"].as_array().unwrap();
    let what: Vec<_> = shown
        .iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert!(
        what.contains(&"left") && what.contains(&"leftovers"),
        "{what:?}"
    );
}

#[test]
fn a_round_with_a_hub_that_is_gone_or_hangs_ends_says_so_and_loses_nothing() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let stick = site.folder.path().join("stick");
    fs::create_dir(&stick).unwrap();
    fs::copy(
        centre.publish(&Draft::hello("one")),
        stick.join("one.outhaul"),
    )
    .unwrap();
    // One that nobody listens at, and one that takes connections and says nothing: that takes a minute.
    let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("http://{}", hangs.local_addr().unwrap());
    for (url, problem) in [("http://127.0.0.1:1", "refused"), (&*hanging, "timeout")] {
        site.configure(&format!("watch = [{stick:?}]\n[hub]\nurl = \"{url}\"\n"));
        let waiting = site.status()["reports_waiting"].as_u64().unwrap();
        let said = format!("error: the hub does not answer: {url}/api/v1/");
        let words = [
            &*said,
            problem,
            "nothing is lost",
            "`outhaul-agent export FOLDER`",
        ];
        assert_reports(&site.run(&["run", "--once"]), 3, &words);
        // All else of the round was done, and is reported when someone carries it.
        assert_eq!(site.active(), Some(1));
        let status = site.status();
        assert!(
            status["reports_waiting"].as_u64() > Some(waiting),
            "{status}"
        );
        let reports = site.reports();
        assert_eq!(
            Some(reports.len() as u64),
            status["reports_waiting"].as_u64()
        );
        assert!(site.event_log().contains(&"1 active".to_owned()));
    }
}

#[test]
fn reports_are_not_written_where_a_stick_is_to_be_mounted_and_none_is() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    // Only root may make a folder there, and it is a place of this machine: it is gone again at once.
    let Ok(place) = tempfile::Builder::new()
        .prefix("outhaul-")
        .tempdir_in("/media")
    else {
        outhaul_tests::skipped("no folder can be made in /media");
        return;
    };
    let printed = site.run(&["export", place.path().to_str().unwrap()]);
    let words = [
        "no stick is mounted at",
        "nothing was written",
        "help: plug the stick in",
    ];
    assert_reports(&printed, 2, &words);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    // A folder of this machine's own disk that is mounted there is no stick, and is named.
    let own = site.folder.path().join("out");
    fs::create_dir(&own).unwrap();
    let at = (own.as_path(), place.path());
    if let Some(printed) = bound(&site, at, &["export", place.path().to_str().unwrap()]) {
        let is_what = format!("it is `{}`, a folder on this machine's own", own.display());
        assert_reports(&printed, 2, &["no stick is mounted at", &is_what]);
    }
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    assert_eq!(site.status()["reports_acknowledged"], 0);
}

#[test]
fn a_release_says_who_applies_what_waits_and_an_approval_of_what_runs_names_what_waits() {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let before = site.event_log();
    let again = site.run(&["approve", "1"]);
    assert_reports(&again, 0, &[]);
    let words = "bundle 1 is active already, and needs no approval; nothing was changed";
    assert!(stdout(&again).contains(words), "{}", stdout(&again));
    assert_eq!(site.event_log(), before);
    site.ok(&["hold", "--who", "ann"]);
    site.ok(&[
        "import",
        centre.publish(&Draft::hello("two")).to_str().unwrap(),
    ]);
    let released = stdout(&site.run(&["hold", "--release", "--who", "ann"]));
    let words = "released by ann; bundle 2 waits: the hold is over: the service applies it where it runs, or `outhaul-agent apply`";
    assert!(released.contains(words), "{released}");
    let before = site.event_log();
    let words = [
        "bundle 1 is active already, and needs no approval; bundle 2 waits; nothing was changed",
        "help: `outhaul-agent approve 2` lets it through",
    ];
    assert_reports(&site.run(&["approve", "1"]), 1, &words);
    assert_eq!(site.event_log(), before);
    // As it is said.
    site.ok(&["apply"]);
    assert_eq!(site.active(), Some(2));
}

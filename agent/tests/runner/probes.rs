//! What counts as a site's health and cannot be asked: no bundle is applied beside it, and none is left for it at one look.
//!
//! What must come out: a program that is missing is found before anything is changed; one that goes away while a bundle is looked at keeps the
//! bundle waiting, with the reason in the log, in `status` and in a report, until it is back, or nobody waits any more.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use outhaul_bundle::report::{GenerationState, ReportEvent};
use outhaul_test_kit::{Centre, Draft};

use crate::service::{Service, log, until};
use crate::site::{Site, assert_reports, stderr, stdout};

/// A site that runs bundle 1 and looks at health for an hour with a program, which is well.
fn watched() -> (Centre, Site, PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    site.take(&centre.publish(&Draft::hello("one")));
    let probe = site.folder.path().join("probe");
    write_probe(&probe);
    configure(&site, &probe, 3600);
    (centre, site, probe)
}

fn write_probe(probe: &Path) {
    fs::write(probe, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(probe, fs::Permissions::from_mode(0o755)).unwrap();
}

fn configure(site: &Site, probe: &Path, soak_s: u32) {
    site.configure(&format!(
        "[health]\nsoak_s = {soak_s}\nask = [{{ name = \"press\", program = [{probe:?}] }}]\n"
    ));
}

/// What the reports say of bundle 2, in order.
fn of_two(site: &Site) -> Vec<(GenerationState, String)> {
    let reports = site.reports().into_iter();
    let of_two = reports.filter_map(|report| match report.event {
        ReportEvent::Generation(of) if of.number == 2 => Some((of.state, of.message)),
        _ => None,
    });
    of_two.collect()
}

fn change_soak(site: &Site, name: &str, value: i64) {
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    let changed = db.execute(
        &format!("UPDATE meta SET value = json_set(value, '$.{name}', ?1) WHERE name = 'soak'"),
        [value],
    );
    assert_eq!(changed.unwrap(), 1);
}

/// Bundle 2 arrives, and its health is checked.
fn soaking(centre: &Centre, site: &Site) -> PathBuf {
    let two = centre.publish(&Draft::hello("two"));
    let state = &site.ok(&["import", two.to_str().unwrap()])["state"];
    assert_eq!(state, "soaking");
    two
}

#[test]
fn a_probe_that_cannot_be_run_is_found_before_anything_is_applied() {
    let (centre, site, probe) = watched();
    let two = centre.publish(&Draft::hello("two"));
    let before = site.kept();
    let refused = |words: &str| {
        for command in ["plan", "import"] {
            let done = site.run(&[command, two.to_str().unwrap()]);
            let health = "this site's health cannot be checked: `press`: ";
            assert_reports(&done, 3, &[health, words, "under `[health]` in agent.toml"]);
        }
        assert_eq!(site.kept(), before, "{words}");
        assert_eq!(site.active(), Some(1));
    };
    fs::remove_file(&probe).unwrap();
    refused("is not there");
    fs::write(&probe, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o644)).unwrap();
    refused("cannot be executed");
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).unwrap();
    // The folder may be there, or not.
    for interpreter in ["/nowhere/sh", "/nope"] {
        fs::write(&probe, format!("#!{interpreter}\n")).unwrap();
        refused("the interpreter of ");
    }
    refused("or name one that is there in the first line of");
    for line in [
        "/usr/bin/env no-such-program",
        "/usr/bin/env -S no-such-program -u",
    ] {
        fs::write(&probe, format!("#!{line}\n")).unwrap();
        refused("is to be run by `no-such-program`, as its first line says");
        refused("install `no-such-program`");
    }
    fs::write(&probe, "#!/bin/sh\r\nexit 0\r\n").unwrap();
    refused("line ends of Windows (CRLF)");
    refused("`sed -i 's/\\r$//' ");
    // The kernel may have been given what starts other kinds of files.
    let kinds = fs::read_dir("/proc/sys/fs/binfmt_misc").map_or(0, Iterator::count);
    if kinds <= 2 {
        fs::write(&probe, "exit 0\n").unwrap();
        refused("is neither a program nor a script");
    } else {
        outhaul_tests::skipped("the kernel starts other kinds of files here (binfmt_misc)");
    }
    // It was not tried: nobody has to approve it.
    write_probe(&probe);
    configure(&site, &probe, 0);
    site.take(&two);
}

#[test]
fn a_probe_that_is_away_for_one_look_rolls_nothing_back_and_the_reason_is_told() {
    let (centre, site, probe) = watched();
    let two = soaking(&centre, &site);
    let away = site.folder.path().join("away");
    fs::rename(&probe, &away).unwrap();
    let why = "this site's health cannot be checked: `press`: ";
    let done = site.run(&["run", "--once"]);
    assert_reports(
        &done,
        3,
        &[
            why,
            "is not there",
            "bundle 2 is left if that lasts for 60 minutes",
        ],
    );
    assert_eq!(
        (site.active(), site.state_of(2)),
        (Some(1), "soaking".to_owned())
    );
    let printed = stdout(&site.run(&["status"]));
    assert!(printed.contains(why), "{printed}");
    // Work that goes on applies no other bundle again.
    let words = "bundle 2 is applied, and whether it is healthy is not known yet; bundle 1 is the one to go back to";
    assert_reports(&site.run(&["apply", "--who", "ann"]), 3, &[why, words]);
    let again = site.copy().import(&two);
    assert_eq!(stderr(&again).matches("error: ").count(), 1, "{again:?}");
    let printed = format!("{printed}{}", stdout(&site.run(&["status"])));
    for never in ["not well", "healthy so far", "applied again by"] {
        assert!(!printed.contains(never), "{never}: {printed}");
    }
    // A second look says nothing new to the centre.
    site.run(&["run", "--once"]);
    let reports = of_two(&site);
    let blocked: Vec<_> = reports
        .iter()
        .filter(|(_, message)| message.contains(why))
        .collect();
    assert_eq!(blocked.len(), 1, "{reports:?}");
    // Back again, it is looked at as before, and that is reported.
    fs::rename(&away, &probe).unwrap();
    assert_reports(&site.run(&["run", "--once"]), 0, &[]);
    assert_eq!(site.state_of(2), "soaking");
    let last = of_two(&site).pop().unwrap();
    assert_eq!(last.0, GenerationState::Soaking, "{last:?}");
    assert!(!stdout(&site.run(&["status"])).contains(why));
    change_soak(&site, "observed_ms", 3_600_000);
    site.ok(&["run", "--once"]);
    assert_eq!(site.active(), Some(2));
}

#[test]
fn the_service_waits_for_a_probe_and_names_the_reason_in_its_log() {
    let (centre, site, probe) = watched();
    soaking(&centre, &site);
    let away = site.folder.path().join("away");
    fs::rename(&probe, &away).unwrap();
    let service = Service::start(&site);
    let said = || fs::read_to_string(log(&site)).unwrap_or_default();
    until("the reason in the log", || {
        said().contains("this site's health cannot be checked: `press`")
    });
    assert_eq!(
        (site.active(), site.state_of(2)),
        (Some(1), "soaking".to_owned())
    );
    drop(service);
    // What it leaves a bundle for is in the log, too.
    fs::write(&probe, "#!/bin/sh\necho pressure drops\nexit 1\n").unwrap();
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o755)).unwrap();
    let _service = Service::start(&site);
    until("the end in the log", || said().contains("reverted"));
    assert!(
        said().contains("this site is not well: `press`: pressure drops"),
        "{}",
        said()
    );
}

#[test]
fn a_probe_that_stays_away_is_given_up_after_the_time_that_was_set() {
    let (centre, site, probe) = watched();
    soaking(&centre, &site);
    fs::remove_file(&probe).unwrap();
    site.run(&["run", "--once"]);
    change_soak(&site, "unasked_ms", 3_599_000);
    // Short of it: the work waits on.
    configure(&site, &probe, 7200);
    assert_reports(&site.run(&["run", "--once"]), 3, &["cannot be checked"]);
    assert_eq!(site.state_of(2), "soaking");
    configure(&site, &probe, 3600);
    change_soak(&site, "unasked_ms", 3_600_000);
    let done = site.run(&["run", "--once"]);
    let why = "this site's health cannot be checked: `press`: ";
    assert!(
        stdout(&done).contains("it stayed so for 60 minutes"),
        "{done:?}"
    );
    assert_eq!(
        (site.active(), site.state_of(2)),
        (Some(1), "reverted".to_owned())
    );
    assert_eq!(site.applied()["hello/manifest.yaml"], b"greeting: one\n");
    let status = site.status();
    let attention = &status["attention"][0];
    assert_eq!(attention["what"], "health", "{status}");
    assert!(
        attention["message"].as_str().unwrap().contains(why),
        "{status}"
    );
}

//! A clock that something trustworthy has set, right or wrong: it refuses more than the lower bound of
//! time does, old copies over the network above all, and it never bricks or downgrades a site.
//!
//! As in `clocks`, the real agent runs under `faketime`. The file that says that the clock is trusted is named in
//! `agent.toml`, so that no test depends on whether this machine has a time service.

use std::fs;
use std::path::Path;

use outhaul_test_kit::{Centre, Draft};

use crate::clocks::{CLOCKS, faketime_is_missing, greeting, import, under};
use crate::server::Server;
use crate::site::{Site, assert_reports, code, stderr};
use crate::web::unpack_for_web;
use outhaul_tests::Checked as _;

/// Clocks after every date of a bundle that is signed today.
const LATE: [&str; 2] = ["+730d", "2099-01-01 00:00:00"];

/// A site whose clock is trusted, or is not, until the next call.
fn configured(site: &Site, trusted: bool, repository: Option<&Server>) {
    let mark = site.folder.path().join("clock-is-set");
    if trusted {
        fs::write(&mark, "").unwrap();
    } else {
        fs::remove_file(&mark).ok();
    }
    let mut text = format!("[clock]\nsynchronized = {mark:?}\n");
    if let Some(server) = repository {
        text += &format!(
            "[repository]\nurl = \"{}\"\nmax_issued_age_h = 24\n",
            server.url
        );
    }
    site.configure(&text);
}

fn once(clock: &str, site: &Site) -> std::process::Output {
    under(clock, site, &["run", "--once"]).checked().unwrap()
}

#[test]
fn an_unexpired_copy_that_is_older_than_allowed_is_stale_for_a_trusted_clock_only() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::files(folder.path().to_owned());
    unpack_for_web(&centre.publish(&Draft::hello("one")), folder.path());
    let untrusted = Site::new(&centre, "drone-7");
    configured(&untrusted, false, Some(&server));
    assert_reports(&once("+3d", &untrusted), 0, &[]);
    assert_eq!(greeting(&untrusted), "greeting: one\n");

    let site = Site::new(&centre, "drone-8");
    configured(&site, true, Some(&server));
    let frozen = once("+3d", &site);
    assert_reports(
        &frozen,
        4,
        &["longer ago than allowed", "nothing was changed"],
    );
    assert!(site.applied().is_empty());
    assert_eq!(site.active(), None);
    // A day is allowed; and a clock that goes wrong once leaves nothing behind.
    assert_reports(&once("+23h", &site), 0, &[]);
    assert_eq!(greeting(&site), "greeting: one\n");
    assert_reports(&once("+25h", &site), 4, &["longer ago than allowed"]);
    assert_eq!(site.active(), Some(1), "the running bundle is not affected");
    // A stick is allowed to be on its way for longer.
    let stick = centre.publish(&Draft::hello("two"));
    assert_reports(&import("+3d", &site, &stick), 0, &[]);
    assert_eq!(greeting(&site), "greeting: two\n");
}

#[test]
fn a_trusted_clock_that_is_late_refuses_what_is_new_until_it_is_right_again() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::files(folder.path().to_owned());
    let one = centre.publish(&Draft::hello("one"));
    let two = centre.publish(&Draft::hello("two"));
    unpack_for_web(&two, folder.path());
    for clock in LATE {
        for by_stick in [true, false] {
            let site = Site::new(&centre, "drone-7");
            configured(&site, true, None);
            assert_reports(&import("+0d", &site, &one), 0, &[]);
            let take = |clock: &str| {
                if by_stick {
                    return import(clock, &site, &two);
                }
                configured(&site, true, Some(&server));
                once(clock, &site)
            };
            let refused = take(clock);
            assert_eq!(code(&refused), 4, "{clock}: {}", stderr(&refused));
            assert!(
                stderr(&refused).contains("the running bundle is not affected") || !by_stick,
                "{}",
                stderr(&refused)
            );
            assert_eq!(greeting(&site), "greeting: one\n", "{clock}");
            assert_eq!(site.active(), Some(1), "{clock}");
            // Not bricked: no wall clock moves the lower bound.
            let bound = site.status()["time_lower_bound"].to_string();
            assert!(
                !bound.contains("2099") && !bound.contains("2028"),
                "{bound}"
            );
            assert_reports(&take("+0d"), 0, &[]);
            assert_eq!(greeting(&site), "greeting: two\n", "{clock}");
        }
    }
}

#[test]
fn a_trusted_clock_that_is_early_changes_nothing() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let (folder, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, old_server) = (
        Server::files(folder.path().to_owned()),
        Server::files(archive.path().to_owned()),
    );
    unpack_for_web(&centre.publish(&Draft::hello("old")), archive.path());
    unpack_for_web(&centre.publish(&Draft::hello("new")), folder.path());
    for clock in CLOCKS.iter().filter(|clock| !LATE.contains(clock)) {
        let site = Site::new(&centre, "drone-7");
        configured(&site, true, Some(&server));
        assert_reports(&once(clock, &site), 0, &[]);
        assert_eq!(greeting(&site), "greeting: new\n", "{clock}");
        configured(&site, true, Some(&old_server));
        assert_reports(&once(clock, &site), 4, &["nothing was changed"]);
        assert_eq!(greeting(&site), "greeting: new\n", "{clock}");
    }
}

#[test]
fn a_trusted_clock_that_jumps_in_the_middle_of_an_application_does_not_stop_it() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let [first, second] = ["one", "two"].map(|word| centre.publish(&Draft::hello(word)));
    let cut = |site: &Site, bundle: &Path| {
        let mut command = under("+0d", site, &["import", bundle.to_str().unwrap()]);
        command.env("OUTHAUL_CUT", "applying-committed").checked()
    };
    for after in CLOCKS {
        let site = Site::new(&centre, "drone-7");
        configured(&site, true, None);
        assert_reports(&import("+0d", &site, &first), 0, &[]);
        assert!(!cut(&site, &second).unwrap().status.success(), "{after}");
        // The next start goes on with what was begun, before anything new is verified.
        let output = once(after, &site);
        assert_eq!(code(&output), 0, "{after}: {}", stderr(&output));
        assert_eq!(site.active(), Some(2), "{after}");
        assert_eq!(greeting(&site), "greeting: two\n", "{after}");
    }
}

//! Wrong clocks on a site that nothing tells the time: every year that a battery-less board wakes up in,
//! on both transports, and a jump in the middle of an application.
//!
//! The real agent runs under `faketime`; without it these tests say `SKIPPED`, and fail in CI. What must
//! come out is the same for every clock: new bundles are taken, old ones are refused, the running bundle is not affected.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use outhaul_test_kit::{Centre, Draft};

use crate::server::Server;
use crate::site::{Site, assert_reports};
use crate::web::unpack_for_web;
use outhaul_tests::Checked as _;
use outhaul_tests::available_or_skip;

/// What the clock says, as `faketime` understands it. The bundles are signed today.
pub const CLOCKS: [&str; 5] = [
    "1970-01-02 00:00:00",
    "2000-01-01 00:00:00",
    "-1d",
    "+730d",
    "2099-01-01 00:00:00",
];

/// The clock is not trusted, whatever time service this machine has.
const NOBODY_SET_IT: &str = "[clock]\nsynchronized = \"/nothing/is/here\"\n";

/// The agent with the wall clock at `clock`; the clock since boot stays right, as on real hardware.
pub fn under(clock: &str, site: &Site, arguments: &[&str]) -> Command {
    let plain = site.command(arguments);
    outhaul_tests::faketime::sweep();
    let mut command = Command::new("faketime");
    command.args(["-f", clock]).arg(plain.get_program());
    command.args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    command
}

/// The machine was started again since a deadline was set: within one boot a clock that jumps ends none.
pub fn reboot(site: &Site) {
    let db = rusqlite::Connection::open(site.state().join("agent.db")).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let (from, to) = ("\"trusted_in\":\"", "00000000-0000-4000-8000-000000000000");
    let changed = db.execute(
        "UPDATE meta SET value = replace(value, ?1 || ?2, ?1 || ?3) WHERE name IN ('delays', 'hold', 'soak')",
        [from, boot.trim(), to],
    );
    assert_ne!(changed.unwrap(), 0);
}

pub fn import(clock: &str, site: &Site, bundle: &Path) -> Output {
    let arguments = ["import", bundle.to_str().unwrap()];
    under(clock, site, &arguments).checked().unwrap()
}

#[track_caller]
pub fn faketime_is_missing() -> bool {
    !available_or_skip("faketime")
}

pub fn greeting(site: &Site) -> String {
    String::from_utf8(site.applied()["hello/manifest.yaml"].clone()).unwrap()
}

#[test]
fn on_a_stick_no_clock_bricks_or_downgrades_a_site() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let [old, new, newest] =
        ["old", "new", "newest"].map(|word| centre.publish(&Draft::hello(word)));
    for first in CLOCKS {
        for second in CLOCKS {
            let site = Site::new(&centre, "drone-7");
            site.configure(NOBODY_SET_IT);
            assert_reports(&import(first, &site, &new), 0, &[]);
            assert_eq!(greeting(&site), "greeting: new\n", "{first}");
            // The clock jumps.
            assert_reports(&import(second, &site, &old), 4, &["nothing was changed"]);
            assert_eq!(greeting(&site), "greeting: new\n", "{first} then {second}");
            assert_reports(&import(second, &site, &newest), 0, &[]);
            assert_eq!(
                greeting(&site),
                "greeting: newest\n",
                "{first} then {second}"
            );
        }
    }
}

#[test]
fn over_the_network_no_clock_bricks_or_downgrades_a_site() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let (folder, archive) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::files(folder.path().to_owned());
    let old = centre.publish(&Draft::hello("old"));
    unpack_for_web(&old, archive.path());
    unpack_for_web(&centre.publish(&Draft::hello("new")), folder.path());
    for clock in CLOCKS {
        let site = Site::new(&centre, "drone-7");
        site.configure(&format!(
            "{NOBODY_SET_IT}[repository]\nurl = \"{}\"",
            server.url
        ));
        let once = || under(clock, &site, &["run", "--once"]).checked().unwrap();
        assert_reports(&once(), 0, &[]);
        assert_eq!(greeting(&site), "greeting: new\n", "{clock}");
        // Someone puts the old state back on the server.
        let old_server = Server::files(archive.path().to_owned());
        site.configure(&format!(
            "{NOBODY_SET_IT}[repository]\nurl = \"{}\"",
            old_server.url
        ));
        assert_reports(&once(), 4, &["nothing was changed"]);
        assert_eq!(site.active(), Some(2), "{clock}");
        assert_eq!(greeting(&site), "greeting: new\n", "{clock}");
    }
}

#[test]
fn a_jump_in_the_middle_of_an_application_changes_nothing_of_its_end() {
    if faketime_is_missing() {
        return;
    }
    let centre = Centre::new();
    let [first, second] = ["one", "two"].map(|word| centre.publish(&Draft::hello(word)));
    for before in CLOCKS {
        let after = CLOCKS.iter().rev().find(|clock| **clock != before).unwrap();
        let site = Site::new(&centre, "drone-7");
        site.configure(NOBODY_SET_IT);
        assert_reports(&import(before, &site, &first), 0, &[]);
        // The power goes while the files are written, and the board wakes up in another year.
        let cut = under(before, &site, &["import", second.to_str().unwrap()])
            .env("OUTHAUL_CUT", "applying-committed")
            .checked()
            .unwrap();
        assert!(!cut.status.success(), "{before}");
        assert_reports(&import(after, &site, &second), 0, &[]);
        assert_eq!(site.active(), Some(2), "{before} then {after}");
        assert_eq!(greeting(&site), "greeting: two\n", "{before} then {after}");
        assert!(
            fs::read_dir(site.state().join("generations"))
                .unwrap()
                .count()
                <= 2
        );
    }
}

//! What commands and `status` tell after something did not work: exit codes, what is not true any more, and what is hidden.
//!
//! What comes in: a site whose health a program answers, with bundles that it lets run or not. What must come out: a failure is an exit code
//! other than 0 and names its bundle, whichever command came to it; nothing old stands where it reads as the present.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use outhaul_test_kit::{Centre, Draft, Load};

use crate::site::{Site, assert_reports, code, stderr, stdout};

/// A site that is not well while the returned file is there.
fn with_health() -> (Centre, Site, std::path::PathBuf) {
    let centre = Centre::new();
    let site = Site::new(&centre, "drone-7");
    let ill = site.folder.path().join("ill");
    let program = site.folder.path().join("health");
    fs::write(&program, format!("#!/bin/sh\n[ ! -e {} ]\n", ill.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    site.configure(&format!(
        "[health]\nask = [{{ name = \"press\", program = [{program:?}] }}]\n"
    ));
    (centre, site, ill)
}

#[test]
fn a_bundle_that_waited_and_fails_is_a_failure_of_the_command_that_applied_it() {
    for command in ["apply", "import"] {
        let (centre, site, ill) = with_health();
        site.take(&centre.publish(&Draft::hello("one")));
        let two = centre.publish(&Draft::hello("two"));
        site.ok(&["hold", "--who", "ann"]);
        site.import(&two);
        site.ok(&["hold", "--release", "--who", "ann"]);
        fs::write(&ill, "").unwrap();
        let printed = match command {
            "apply" => site.run(&["apply", "--who", "ann"]),
            _ => site.import(&two),
        };
        let said = format!("{}{}", stdout(&printed), stderr(&printed));
        assert_eq!(code(&printed), 1, "{command}: {said}");
        assert!(said.contains("bundle 2"), "{command}: {said}");
        assert!(!said.contains("nothing was changed"), "{command}: {said}");
        assert_eq!(site.active(), Some(1), "{command}: {said}");
    }
}

#[test]
fn a_damaged_bundle_beside_the_active_one_is_an_exit_code() {
    let (centre, site, _) = with_health();
    let one = centre.publish(&Draft::hello("one"));
    site.take(&one);
    let stick = site.folder.path().join("stick");
    fs::create_dir(&stick).unwrap();
    fs::copy(&one, stick.join("one.outhaul")).unwrap();
    let mut two = fs::read(centre.publish(&Draft::hello("two"))).unwrap();
    let middle = two.len() / 2;
    two[middle] ^= 1;
    fs::write(stick.join("two.outhaul"), two).unwrap();
    let printed = site.import(&stick);
    assert_reports(&printed, 1, &["two.outhaul", "bundle 2 is newer"]);
    assert!(
        stdout(&printed).contains("already active"),
        "{}",
        stdout(&printed)
    );
}

#[test]
fn a_held_assignment_that_somebody_deleted_is_not_as_desired() {
    let (centre, site, _) = with_health();
    let load = |name: &str| Load::new(name).file("manifest.yaml", "a: 1\n");
    site.take(&centre.publish(&Draft::new(["alpha", "beta"].map(load))));
    site.ok(&["hold", "--assignment", "beta", "--who", "ann"]);
    fs::remove_dir_all(site.state().join("applied/beta")).unwrap();
    let printed = stdout(&site.run(&["status"]));
    for words in [
        "beta: held, and changed since it was last checked",
        "attention: `beta` is held by ann, and differs from bundle 1",
        "hold --release --assignment beta",
    ] {
        assert!(printed.contains(words), "`{words}` is not in: {printed}");
    }
}

#[test]
fn what_was_refused_or_read_before_reads_not_as_the_present() {
    let (centre, site, ill) = with_health();
    site.take(&centre.publish(&Draft::hello("one")));
    let stick = site.folder.path().join("stick");
    fs::create_dir(&stick).unwrap();
    fs::copy(
        centre.publish(&Draft::hello("two")),
        stick.join("two.outhaul"),
    )
    .unwrap();
    fs::write(&ill, "").unwrap();
    site.import(&stick);
    // Not tried again, which is a refusal.
    site.import(&stick);
    let refused = |site: &Site| stdout(&site.run(&["status"])).contains("refused: ");
    assert!(refused(&site));
    fs::remove_file(&ill).unwrap();
    site.ok(&["approve", "2", "--who", "ann"]);
    site.import(&stick);
    assert_eq!(site.active(), Some(2));
    assert!(!refused(&site));
    site.ok(&["rollback", "--who", "ann"]);
    let printed = stdout(&site.run(&["status"]));
    assert!(!printed.contains("bundle 2 is active"), "{printed}");
    assert!(
        printed.contains("bundle 2 was copied from it, and is "),
        "{printed}"
    );
}

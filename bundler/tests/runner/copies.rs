//! The last bundles once more, onto other sticks: the same bytes, read back; a stick that takes them not is named.
//!
//! What comes in: the real program, a fleet that shipped a bundle, and sticks that are good, full, read-only or not
//! there. What must come out: whole files, or exit code 3 and nothing on the stick.

use std::fs;
use std::process::Command;

use super::kept::Fleet;

#[test]
fn a_second_stick_gets_the_same_bytes_read_back_and_without_a_control_plane() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let first = fs::read(fleet.path("out/dev-drone-1.outhaul")).unwrap();
    let run = |more: &[&str]| {
        let mut command = vec!["copy", "--fleet", "fleet", "--to", "stick"];
        command.extend(more);
        fleet.fixture.run_only(&command)
    };
    // A stick that is not mounted is not made up.
    let seen = run(&[]);
    assert!(
        seen.starts_with("exit code 3") && seen.contains("`stick`"),
        "{seen}"
    );
    assert!(!fleet.path("stick").exists());

    fs::create_dir(fleet.path("stick")).unwrap();
    let copy = fleet.path("stick/dev-drone-1.outhaul");
    let seen = run(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(
        seen.contains("dev/drone: number 1, ") && seen.contains("written and read back"),
        "{seen}"
    );
    assert!(seen.contains("a stick is safe to remove now"), "{seen}");
    assert_eq!(fs::read(&copy).unwrap(), first);
    let seen = run(&["--environment", "dev", "--cluster-type", "drone"]);
    assert!(seen.contains("there already, read back"), "{seen}");
    // What the stick gives back otherwise, and what a pulled stick left, is written anew.
    fs::write(&copy, "worn out").unwrap();
    fs::write(fleet.path("stick/.dev-drone-1.outhaul.tmp"), "half").unwrap();
    let seen = run(&[]);
    assert!(seen.contains("written and read back"), "{seen}");
    assert_eq!(fs::read(&copy).unwrap(), first);
    assert_eq!(fs::read_dir(fleet.path("stick")).unwrap().count(), 1);

    let seen = run(&["--environment", "prod"]);
    assert!(
        seen.starts_with("exit code 2") && seen.contains("it keeps those of dev/drone"),
        "{seen}"
    );
    // The fleet's own copy is compared with what was signed.
    fs::remove_file(&copy).unwrap();
    let own = fs::read_dir(fleet.path("fleet/bundles")).unwrap();
    let own = own.map(|entry| entry.unwrap().path());
    let own = own
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "outhaul"));
    fs::write(own.unwrap(), "another").unwrap();
    let seen = run(&[]);
    assert!(
        seen.starts_with("exit code 3") && seen.contains("was changed"),
        "{seen}"
    );
    assert_eq!(fs::read_dir(fleet.path("stick")).unwrap().count(), 0);
}

#[test]
fn a_full_or_read_only_stick_is_named_and_nothing_is_left_on_it() {
    let fleet = Fleet::new();
    fs::create_dir(fleet.path("stick")).unwrap();
    let stick = fleet.path("stick");
    let mount = |options: &str| {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "outhaul-test"])
            .arg(&stick);
        mount.output().is_ok_and(|done| done.status.success())
    };
    if !mount("size=8k") {
        outhaul_tests::skipped("a small file system cannot be mounted here");
        return;
    }
    let umount = || {
        Command::new("umount")
            .arg(&stick)
            .status()
            .unwrap()
            .success()
    };
    let full = fleet.bundle_to("stick", &[]);
    let left = fs::read_dir(&stick).unwrap().count();
    assert!(umount());
    assert!(full.starts_with("exit code 3"), "{full}");
    for word in [
        "stick/dev-drone-1.outhaul",
        "8192 bytes are free",
        "help: free some space there or use a larger",
    ] {
        assert!(full.contains(word), "{word}: {full}");
    }
    assert_eq!(left, 0);
    assert!(mount("ro"));
    let read_only = fleet.bundle_to("stick", &[]);
    assert!(umount());
    assert!(read_only.starts_with("exit code 3"), "{read_only}");
    assert!(
        read_only.contains("Read-only") || read_only.contains("read-only"),
        "{read_only}"
    );
    // A stick that takes it gets the number that none of them used up, and is told apart from a folder.
    assert!(mount("size=1m"));
    let good = fleet.bundle_to("stick", &[]);
    let there = stick.join("dev-drone-1.outhaul").is_file();
    assert!(umount());
    assert!(good.starts_with("exit code 0") && there, "{good}");
    assert!(good.contains("a stick is safe to remove now"), "{good}");
}

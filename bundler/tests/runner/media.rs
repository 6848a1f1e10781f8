//! Files that are named from a stick: whatever lies there, the centre's commands neither wait for it nor follow
//! it, and say what it is.
//!
//! What comes in: the real program, FIFOs, links, devices and files of a tebibyte. What goes out: a verdict.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use outhaul_tests::Checked as _;

use super::kept::Fleet;

/// One that waits is ended, with a separate code.
fn run(fleet: &Fleet, arguments: &[&str]) -> Output {
    Command::new("timeout")
        .args(["--signal=KILL", "120", env!("CARGO_BIN_EXE_outhaul")])
        .args(arguments)
        .current_dir(fleet.fixture.folder.path())
        .checked()
        .unwrap()
}

#[track_caller]
fn refused(fleet: &Fleet, arguments: &[&str], words: &[&str]) {
    let output = run(fleet, arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{arguments:?}: {message}");
    for word in words.iter().chain(&["help: "]) {
        assert!(
            message.contains(word),
            "{arguments:?}: no `{word}` in {message}"
        );
    }
}

#[test]
fn what_is_named_from_a_stick_is_a_regular_file_or_refused_at_once() {
    let fleet = Fleet::new();
    let stick = fleet.path("stick");
    fs::create_dir(&stick).unwrap();
    let made = Command::new("mkfifo").arg(stick.join("fifo")).status();
    assert!(made.unwrap().success());
    symlink("/etc/passwd", stick.join("link")).unwrap();
    symlink("/dev/zero", stick.join("zero")).unwrap();
    let sparse = fs::File::create(stick.join("huge")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let commands: [&[&str]; 7] = [
        &["site", "approve", "@", "--fleet", "fleet"],
        &["site", "close-orders", "@", "--fleet", "fleet"],
        &["inspect", "@"],
        &["inspect", "@", "--root", "fleet/metadata/1.root.json"],
        &["inspect", "passphrase", "--root", "@"],
        &["verify", "@", "--root", "fleet/metadata/1.root.json"],
        &[
            "key",
            "set-hub",
            "--fleet",
            "fleet",
            "--hub-url",
            "http://127.0.0.1:1",
            "--hub-key",
            "@",
        ],
    ];
    for (name, what) in [
        ("stick/fifo", "a FIFO"),
        ("stick/link", "a symbolic link"),
        ("stick/zero", "a symbolic link"),
        ("/dev/zero", "a device"),
        ("stick", "a folder"),
    ] {
        for command in commands {
            let words: Vec<_> = command
                .iter()
                .map(|word| if *word == "@" { name } else { word })
                .collect();
            refused(&fleet, &words, &[name, what, "not opened"]);
        }
    }
    // It is on no stick.
    let output = run(&fleet, &["inspect", "/dev/zero"]);
    let seen = String::from_utf8(output.stderr).unwrap();
    assert!(
        seen.contains("help: name a file: a bundle") && !seen.contains("another stick"),
        "{seen}"
    );
    // What is read whole is read up to its bound; a bundle is read from its beginning.
    for command in [commands[0], commands[1], commands[6]] {
        let words: Vec<_> = command
            .iter()
            .map(|word| if *word == "@" { "stick/huge" } else { word })
            .collect();
        refused(&fleet, &words, &["stick/huge", "larger than"]);
    }
    let output = run(&fleet, &["inspect", "stick/huge"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn close_orders_reads_the_other_files_of_a_stick_and_names_the_one_that_is_none() {
    let fleet = Fleet::new();
    fleet.fixture.write("good.reports", "");
    let made = Command::new("mkfifo")
        .arg(fleet.path("bad.reports"))
        .status();
    assert!(made.unwrap().success());
    let close = [
        "site",
        "close-orders",
        "bad.reports",
        "gone.reports",
        "good.reports",
    ];
    let output = run(&fleet, &[&close[..], &["--fleet", "fleet"]].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{message}");
    for word in ["bad.reports", "a FIFO", "gone.reports", "No such file"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_stick_that_bundles_are_written_to_is_not_waited_for() {
    let fleet = Fleet::new();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    let bundle = fleet.path("out/dev-drone-1.outhaul");
    fs::remove_file(&bundle).unwrap();
    let made = Command::new("mkfifo").arg(&bundle).status();
    assert!(made.unwrap().success());
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 3"), "{seen}");
    for word in ["dev-drone-1.outhaul", "a FIFO", "help: remove or rename"] {
        assert!(seen.contains(word), "{seen}");
    }
    fs::remove_file(&bundle).unwrap();
    let seen = fleet.bundle(&[]);
    assert!(seen.starts_with("exit code 0"), "{seen}");
    assert!(fs::symlink_metadata(&bundle).unwrap().is_file(), "{seen}");
}

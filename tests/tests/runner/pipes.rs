//! Nobody reads what a program prints, or it cannot be written: no program panics, and its work is done.

use std::fs::File;
use std::process::{Command, Stdio};

use outhaul_tests::{program, run};

use super::system::SystemFixture;

/// The end of a pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A folder with a fleet, a hub and an enrolled site.
fn fixture() -> SystemFixture {
    let fixture = SystemFixture::new();
    fixture.run(
        "outhaul",
        0,
        &["init", "control-plane", "--environments", "dev"],
    );
    fixture.fleet();
    fixture.site("edge-1", "dev", "edge");
    fixture
}

/// One command of each program that prints much, one that fails, and help.
const COMMANDS: [(&str, &str); 14] = [
    ("outhaul", "--help"),
    ("outhaul", "schema"),
    ("outhaul", "schema --output json"),
    (
        "outhaul",
        "check --environment dev --control-plane control-plane",
    ),
    ("outhaul", "check --no-such-option"),
    ("outhaul-agent", "--help"),
    ("outhaul-agent", "--state sites/edge-1 status"),
    ("outhaul-agent", "--state sites/edge-1 import nowhere"),
    ("outhaul-agent", "--state sites/edge-1 export stick -vv"),
    ("outhaul-hub", "--state hub sites"),
    ("outhaul-hub", "--state nowhere sites"),
    ("outhaul-signer", "status fleet"),
    ("outhaul-signer", "status fleet --output json"),
    ("outhaul-signer", "status nowhere"),
];

fn command(fixture: &SystemFixture, name: &str, line: &str) -> Command {
    let mut command = fixture.command(&program(name).unwrap());
    command.args(line.split(' ')).env("OUTHAUL_LOG", "trace");
    command
}

#[test]
fn a_reader_that_went_away_ends_no_program_otherwise() {
    let fixture = fixture();
    for (name, line) in COMMANDS {
        let expected = run(&mut command(&fixture, name, line)).unwrap().code;
        for (out, err) in [(true, false), (false, true), (true, true)] {
            let end = |is_closed| if is_closed { closed() } else { Stdio::null() };
            let status = command(&fixture, name, line)
                .stdout(end(out))
                .stderr(end(err))
                .status()
                .unwrap();
            assert_eq!(
                status.code(),
                expected,
                "`{name} {line}` ended with {status}; closed: stdout {out}, stderr {err}"
            );
        }
    }
}

#[test]
fn what_cannot_be_written_is_reported_and_is_no_success() {
    let fixture = fixture();
    for (name, line) in COMMANDS {
        let expected = run(&mut command(&fixture, name, line)).unwrap();
        if expected.stdout.is_empty() {
            continue;
        }
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(&fixture, name, line)
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if expected.code == Some(0) {
            Some(3)
        } else {
            expected.code
        };
        assert_eq!(output.status.code(), code, "`{name} {line}`: {reported}");
        assert!(
            reported.contains("standard output could not be written"),
            "`{name} {line}`: {reported}"
        );
    }
}

#[test]
fn colour_is_for_terminals_and_for_those_who_ask() {
    let fixture = fixture();
    let wrong = ["outhaul", "outhaul-agent", "outhaul-hub", "outhaul-signer"];
    for name in wrong {
        let reported = |more: &str, variable: (&str, &str)| {
            let mut command = fixture.command(&program(name).unwrap());
            command
                .args(["--no-such-option", more])
                .env(variable.0, variable.1);
            run(&mut command).unwrap().stderr
        };
        let none = ("UNUSED", "");
        assert!(!reported("--color=auto", none).contains('\u{1b}'), "{name}");
        let painted = reported("--color=always", none);
        assert!(
            painted.starts_with("\u{1b}[1;31merror:\u{1b}[0m"),
            "{name}: {painted:?}"
        );
        let forced = reported("--color=auto", ("CLICOLOR_FORCE", "1"));
        assert!(forced.contains('\u{1b}'), "{name}: {forced}");
        assert!(
            !reported("--color=never", ("CLICOLOR_FORCE", "1")).contains('\u{1b}'),
            "{name}"
        );
    }
}

#[test]
fn quiet_leaves_errors_and_results() {
    let fixture = fixture();
    let export = ["--state", "sites/edge-1", "export", "stick"];
    let reported = fixture.run("outhaul-agent", 0, &export);
    assert!(
        reported.stderr.contains("safe to remove now"),
        "{}",
        reported.stderr
    );
    let quiet = fixture.run("outhaul-agent", 0, &[&export[..], &["-q"]].concat());
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout, reported.stdout);
    let failed = fixture.run("outhaul-signer", 2, &["-q", "status", "nowhere"]);
    assert!(failed.stderr.starts_with("error: "), "{}", failed.stderr);
}

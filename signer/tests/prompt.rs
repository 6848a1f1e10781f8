//! A passphrase typed at a terminal, and the floor under new ones: the real program on a real pseudo-terminal.
//!
//! What comes in: what somebody types. What must come out: keys that open with it, nothing of it on the screen,
//! the terminal as it was; and without a terminal no question at all.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use outhaul_tests::Checked as _;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

/// Runs the program at a terminal. Each text is typed once the question before it is on the screen. Returns the
/// exit code, what the screen showed, and whether echo is on again.
fn at_a_terminal(folder: &Path, line: &str, answers: &[(&str, &str)]) -> (i32, String, bool) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let name = ptsname(&screen, Vec::new()).unwrap();
    let terminal: OwnedFd = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap()
        .into();
    let mut child = Command::new(env!("CARGO_BIN_EXE_outhaul-signer"))
        .current_dir(folder)
        .env_remove("OUTHAUL_PASSPHRASE")
        .env_remove("CREDENTIALS_DIRECTORY")
        .args(line.split(' '))
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::null())
        .stderr(Stdio::from(terminal.try_clone().unwrap()))
        .spawn()
        .unwrap();
    let mut screen = File::from(screen);
    let mut shown = String::new();
    let mut buffer = [0; 1024];
    for (question, answer) in answers {
        while !shown.ends_with(question) {
            let count = screen.read(&mut buffer).unwrap();
            shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        screen.write_all(answer.as_bytes()).unwrap();
    }
    let code = child.wait().unwrap().code().unwrap();
    let echo = tcgetattr(&terminal).unwrap().local_modes;
    drop(terminal);
    // The other end is gone: what is left is read until the error that says so.
    while let Ok(count @ 1..) = screen.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    (
        code,
        shown,
        echo.contains(LocalModes::ECHO | LocalModes::ICANON),
    )
}

const NEW: &str = "New passphrase: ";
const AGAIN: &str = "The same once more: ";
const OLD: &str = "Passphrase of the keys: ";

#[test]
fn a_passphrase_is_typed_without_echo_and_twice_when_it_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let words = "four random words here";
    let typed = format!("{words}\n");
    let (code, shown, echo) = at_a_terminal(at, "init fleet", &[(NEW, &typed), (AGAIN, &typed)]);
    assert_eq!((code, echo), (0, true), "{shown}");
    assert!(!shown.contains(words) && !shown.contains("four"), "{shown}");
    // Backspace over two bytes of one letter, and Ctrl-U.
    let corrected = "nonsense\u{15}four random words here\u{fc}\u{7f}\n";
    let (code, shown, _) = at_a_terminal(at, "rotate fleet online", &[(OLD, corrected)]);
    assert_eq!(code, 0, "{shown}");
    let (code, shown, _) = at_a_terminal(at, "rotate fleet online", &[(OLD, "another one\n")]);
    assert_eq!(code, 4, "{shown}");
}

#[test]
fn what_was_not_typed_makes_nothing_and_leaves_the_terminal_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let good = "four random words here\n";
    for answers in [
        vec![(NEW, good), (AGAIN, "four random words there\n")],
        vec![(NEW, "\u{3}")],
        vec![(NEW, "half of it\u{4}")],
        vec![(NEW, "\n")],
        vec![(NEW, "short\n"), (AGAIN, "short\n")],
    ] {
        let (code, shown, echo) = at_a_terminal(at, "init fleet", &answers);
        assert_eq!((code, echo), (2, true), "{shown}");
        assert!(!at.join("fleet").exists(), "{shown}");
    }
}

#[test]
fn a_new_passphrase_has_a_floor_wherever_it_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    for (weak, why) in [
        ("for tests", "fewer than 15 characters"),
        ("aaaaaaaaaaaaaaaaaaaa", "fewer than 6 different"),
        ("passwordpassword", "over and over"),
        ("abcdefghijklmnopqrst", "a row of neighbouring"),
        ("123456789012345678", "a row of neighbouring"),
    ] {
        for line in ["init fleet", "key vault"] {
            let output = Command::new(env!("CARGO_BIN_EXE_outhaul-signer"))
                .current_dir(dir.path())
                .env("OUTHAUL_PASSPHRASE", weak)
                .stdin(Stdio::null())
                .args(line.split(' '))
                .checked()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{weak}: {said}");
            assert!(said.contains(why) && !said.contains(weak), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

//! A passphrase typed at a terminal, and the floor under new ones: the real program on a real pseudo-terminal.
//!
//! What comes in: what someone types. What must come out: keys that open with it, nothing of it on the screen,
//! the terminal as it was; and without a terminal no question at all.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use outhaul_tests::Checked as _;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use crate::cli::{folder_with_passphrase, run};

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
    let mut command = Command::new(env!("CARGO_BIN_EXE_outhaul-signer"));
    command
        .current_dir(folder)
        .env_remove("OUTHAUL_PASSPHRASE")
        .env_remove("CREDENTIALS_DIRECTORY")
        .args(line.split(' '))
        .stdin(Stdio::from(terminal.try_clone().unwrap()))
        .stdout(Stdio::null())
        .stderr(Stdio::from(terminal.try_clone().unwrap()));
    let mut screen = File::from(screen);
    let mut echo = LocalModes::empty();
    // What the screen shows stands for both outputs.
    let ran = command.checked_by(|command| {
        let mut child = command.spawn()?;
        // The command's own ends of the terminal: it would never be closed.
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut shown = Vec::new();
        let mut buffer = [0; 1024];
        for (question, answer) in answers {
            while !shown.ends_with(question.as_bytes()) {
                let count = screen.read(&mut buffer)?;
                shown.extend(&buffer[..count]);
            }
            screen.write_all(answer.as_bytes())?;
        }
        let status = child.wait()?;
        echo = tcgetattr(&terminal)?.local_modes;
        drop(terminal);
        // The other end is gone: what is left is read until the error that reports it.
        while let Ok(count @ 1..) = screen.read(&mut buffer) {
            shown.extend(&buffer[..count]);
        }
        Ok(Output {
            status,
            stdout: Vec::new(),
            stderr: shown,
        })
    });
    let output = ran.unwrap().output;
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
        echo.contains(LocalModes::ECHO | LocalModes::ICANON),
    )
}

#[test]
fn a_signature_is_given_when_the_name_is_typed_and_for_another_name_nothing_is_signed() {
    let dir = folder_with_passphrase();
    let at = dir.path();
    run(at, 0, "init fleet");
    run(at, 0, "key vault");
    run(at, 0, "root fleet add-key vault.pub");
    run(at, 1, "root fleet threshold 2");
    let root = at.join("fleet/metadata/1.root.json");
    std::fs::copy(root, at.join("mine.json")).unwrap();
    let line = "--passphrase-file pass countersign fleet/requests/3.root.json.request --root mine.json \
                --key vault.pem";
    let question = "To sign this, type `root 3`: ";
    for other in ["root 2\n", "yes\n", "\n"] {
        let (code, shown, _) = at_a_terminal(at, line, &[(question, other)]);
        assert_eq!(code, 1, "{shown}");
        assert!(
            shown.contains("that is not what is asked for; nothing was signed"),
            "{shown}"
        );
    }
    let answers = || {
        let files = std::fs::read_dir(at.join("fleet/requests")).unwrap();
        files
            .filter(|file| {
                let name = file.as_ref().unwrap().file_name();
                name.to_string_lossy().ends_with(".answer")
            })
            .count()
    };
    assert_eq!(answers(), 0);
    let (code, shown, _) = at_a_terminal(at, line, &[(question, "root 3\n")]);
    assert_eq!((code, answers()), (0, 1), "{shown}");
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
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(2), "{weak}: {printed}");
            assert!(
                printed.contains(why) && !printed.contains(weak),
                "{printed}"
            );
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

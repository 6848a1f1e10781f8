//! Files that are named from a stick: a FIFO, a link or a device is named, and never waited for.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::cli::folder_with_passphrase;

#[test]
fn what_is_named_from_a_stick_is_a_regular_file_or_refused_at_once() {
    let dir = folder_with_passphrase();
    let signer = |line: &str| {
        let program = env!("CARGO_BIN_EXE_outhaul-signer");
        let output = Command::new("timeout")
            .args(["--signal=KILL", "120", program, "--passphrase-file", "pass"])
            .current_dir(dir.path())
            .args(line.split(' '))
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), printed)
    };
    assert_eq!(signer("init fleet").0, Some(0));
    assert_eq!(signer("key vault").0, Some(0));
    fs::copy(
        dir.path().join("fleet/metadata/1.root.json"),
        dir.path().join("mine.json"),
    )
    .unwrap();
    let stick = dir.path().join("stick");
    fs::create_dir(&stick).unwrap();
    for name in ["fifo", "1.root.json"] {
        let made = Command::new("mkfifo").arg(stick.join(name)).status();
        assert!(made.unwrap().success());
    }
    symlink(dir.path().join("mine.json"), stick.join("link")).unwrap();
    let huge = fs::File::create(stick.join("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    for (name, what) in [
        ("stick/fifo", "a FIFO"),
        ("stick/link", "a symbolic link"),
        ("/dev/zero", "a device"),
        ("stick/huge", "larger than"),
    ] {
        for line in [
            "countersign @ --root mine.json --key vault.pem --show",
            "countersign pass --root @ --key vault.pem --show",
            "root fleet add-key @",
            "stream fleet 1 --add-key @",
            "verify-metadata fleet/metadata --role 1 --root @",
        ] {
            // A request is read, and refused, before anything beside it is.
            if line.starts_with("countersign pass") {
                continue;
            }
            let (code, printed) = signer(&line.replace('@', name));
            assert_eq!(code, Some(3), "{line} {name}: {printed}");
            assert!(
                printed.contains(name) && printed.contains(what),
                "{line}: {printed}"
            );
        }
    }
    // A copied repository is read without following or waiting, too.
    let (code, printed) = signer("verify-metadata stick --role 1 --root mine.json");
    assert_eq!(code, Some(4), "{printed}");
    let (code, printed) = signer("verify-metadata stick --role 1");
    assert_eq!(
        (code, printed.contains("a FIFO")),
        (Some(3), true),
        "{printed}"
    );
    // An answer that someone copied into the fleet's folder.
    assert_eq!(signer("root fleet add-key vault.pub").0, Some(0));
    assert_eq!(signer("root fleet threshold 2").0, Some(1));
    let answer = dir.path().join("fleet/requests/x.answer");
    assert!(
        Command::new("mkfifo")
            .arg(&answer)
            .status()
            .unwrap()
            .success()
    );
    let (code, printed) = signer("root fleet finish");
    assert_eq!(
        (code, printed.contains("a FIFO")),
        (Some(3), true),
        "{printed}"
    );
}
